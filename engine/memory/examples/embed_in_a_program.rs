//! Remember, recall, learn and forget, in a program of one's own: `cargo run -p mnemolith --example embed_in_a_program`.

use mnemolith::{Memory, Profile, RecallQuery, Reinforce, RememberRequest, Update};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    {
        // A namespace is a directory; the built-in embedder needs no model and no network.
        let memory = Memory::builder().path(&folder).namespace("assistant").open()?;
        memory.remember(RememberRequest::new("Alice prefers short answers").id("style").tags(["alice", "preference"]))?;
        memory
            .remember(RememberRequest::new("The deploy on Friday failed: the database password had expired").tag("deploy").valence(-80))?;
        memory.remember(RememberRequest::new("The deploy on Monday went through").tag("deploy").valence(40))?;

        let again = memory.remember(RememberRequest::new("Alice  prefers short answers"))?;
        println!("said twice: {:?}", again.status);

        println!("\nwhy did the deploy fail?");
        let query = RecallQuery::new("why did the deploy fail?").tags_all(["deploy"]).profile(Profile::Debugging).k(2);
        for hit in memory.recall(query)?.hits {
            println!("  {:.3}  {}", hit.score, hit.text.as_deref().unwrap_or_default());
        }

        let learned = memory.reinforce(Reinforce::new("style", 1.0))?;
        println!("\nit helped: strength {:.1}, valence {}", learned.strength, learned.valence);
        memory.update("style", Update::new().text("Alice prefers short answers with an example"))?;
        memory.close()?;
    }
    {
        // Opened again, everything is there.
        let memory = Memory::builder().path(&folder).namespace("assistant").open()?;
        if let Some(style) = memory.get("style")? {
            println!("after reopening: {:?}, reinforced {} time(s)", style.text.unwrap_or_default(), style.recall_count);
        }
        println!("forgotten: {}, still there: {}", memory.forget("style")?, memory.get("style")?.is_some());
        println!("{} memories live", memory.stats()?.live);
    }
    Ok(())
}
