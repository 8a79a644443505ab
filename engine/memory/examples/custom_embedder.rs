//! An embedder of one's own: `cargo run -p mnemolith --example custom_embedder`.

use std::sync::Arc;

use mnemolith::{Embedder, Error, Memory, RecallQuery, RememberRequest};

/// Knows what a text is about by its words. A real one would ask a model here, and answer
/// [`Error::Unavailable`] where the model cannot be reached: the memory is then stored without a vector.
struct Topics;

const TOPICS: [(&str, &[&str]); 4] = [
    ("food", &["soup", "bread", "kitchen", "dinner", "cook"]),
    ("travel", &["train", "flight", "station", "ticket", "journey"]),
    ("money", &["invoice", "price", "budget", "paid", "cost"]),
    ("health", &["doctor", "sleep", "fever", "medicine", "tired"]),
];

impl Embedder for Topics {
    fn identity(&self) -> String {
        // A namespace remembers who made its vectors, and refuses another: change the name when the vectors change.
        "topics-1".to_owned()
    }

    fn dimension(&self) -> usize {
        TOPICS.len() + 1
    }

    fn embed(&self, text: &str) -> Result<Vec<f32>, Error> {
        let text = text.to_lowercase();
        let about = TOPICS.iter().map(|(_, words)| words.iter().filter(|word| text.contains(*word)).count() as f32);
        // The last place keeps a text about nothing from being the zero vector.
        Ok(about.chain([0.1]).collect())
    }
}

fn main() -> Result<(), Error> {
    let memory = Memory::builder().embedder(Arc::new(Topics)).open()?;
    for text in
        ["The invoice was paid in March", "Bread and soup for dinner", "The night train leaves at nine", "He was tired and had a fever"]
    {
        memory.remember(RememberRequest::new(text))?;
    }
    // No word in common, one topic: the meaning is the embedder's.
    for question in ["what shall we cook?", "is there a ticket for the journey?", "ask the doctor", "the budget and the price"] {
        let recall = memory.recall(RecallQuery::new(question).k(1))?;
        for hit in recall.hits {
            println!("{question:<36} -> {}", hit.text.unwrap_or_default());
        }
    }
    println!("\nvectors by {} of dimension {}", memory.stats()?.embedder, memory.stats()?.dimension);
    Ok(())
}
