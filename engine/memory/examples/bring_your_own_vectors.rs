//! Vectors from a model of one's own, without an embedder: `cargo run -p mnemolith --example bring_your_own_vectors`.

use mnemolith::{Error, Memory, Profile, RecallQuery, RememberRequest};

fn main() -> Result<(), Error> {
    // In private memory here; give it a `path` to keep it.
    let memory = Memory::builder().dimension(4).no_embedder().open()?;

    // Of any length: they are brought to length one, and the length is kept beside them.
    let colours =
        [("red", [2.0, 0.0, 0.0, 0.1]), ("orange", [2.0, 0.9, 0.0, 0.1]), ("green", [0.0, 2.0, 0.0, 0.1]), ("blue", [0.0, 0.0, 2.0, 0.1])];
    let requests = colours.map(|(name, vector)| RememberRequest::from_vector(vector.to_vec()).id(name).tag("colour"));
    // A batch shares its syncs.
    for result in memory.remember_batch(requests) {
        let result = result?;
        println!("stored {} at log number {}", result.id, result.location.lsn);
    }

    // A text and a vector together: the vector is what is searched.
    memory.remember(RememberRequest::new("the colour of the sea").vector(vec![0.0, 0.6, 1.8, 0.0]).id("sea"))?;

    println!("\nnearest to a warm red, by similarity alone:");
    let query = RecallQuery::from_vector(vec![1.0, 0.2, 0.0, 0.0]).profile(Profile::Similarity).k(3);
    for hit in memory.recall(query)?.hits {
        println!("  cosine {:.3}  {}", hit.cosine, hit.id);
    }

    // What does not fit is refused by name, and nothing is stored.
    if let Err(error) = memory.remember(RememberRequest::from_vector(vec![1.0, 2.0])) {
        println!("\n{}: {error}", error.code());
    }
    Ok(())
}
