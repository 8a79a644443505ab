//! The part of the tour in which a writing process is killed.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::args::{DurabilityArg, EmbedderArg, StoreArgs};
use crate::cli::Trouble;

/// After how many acknowledged writes the process is killed.
const KILL_AFTER: usize = 40;
/// How many it is asked for: far more than it can do by then, so that it dies in the middle.
const ASKED_FOR: usize = 100_000;

/// Has a second process of this program write to the store, kills it in the middle and returns the ids it acknowledged.
pub(super) fn write_until_killed(args: &StoreArgs) -> Result<Vec<String>, Trouble> {
    let failed = |what: &str, error: std::io::Error| Trouble::Failed(format!("{what}: {error}"));
    let program = std::env::current_exe().map_err(|error| failed("this program's own file is not known", error))?;
    let mut child = Command::new(program)
        .args(arguments(args))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| failed("the second process did not start", error))?;
    let pipes = (child.stdin.take(), child.stdout.take());
    let acknowledged = match pipes {
        (Some(requests), Some(replies)) => drive(&mut child, requests, replies),
        _ => Ok(Vec::new()),
    };
    // Killed or not, it is waited for: the store is free again only when the process is gone.
    let _ = child.kill();
    let status = child.wait().map_err(|error| failed("the second process cannot be waited for", error))?;
    let acknowledged = acknowledged?;
    if acknowledged.len() < KILL_AFTER || status.success() {
        return Err(Trouble::Failed(format!("the second process ended by itself ({status}) and not by being killed")));
    }
    Ok(acknowledged)
}

/// Sends requests from one thread while replies are read here, so that neither pipe can fill up and block both sides.
fn drive(child: &mut Child, mut requests: ChildStdin, replies: ChildStdout) -> Result<Vec<String>, Trouble> {
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for number in 0..ASKED_FOR {
                let text = format!("Entry {number} of the log book of the Petrel");
                let request = json!({"op": "remember", "id": format!("log-{number:05}"), "text": text, "seq": number});
                // The pipe breaks when the process is killed, which is what ends this thread.
                if writeln!(requests, "{request}").is_err() {
                    return;
                }
            }
        });
        let mut acknowledged = Vec::new();
        let mut replies = BufReader::new(replies);
        let mut line = String::new();
        loop {
            line.clear();
            let read = replies.read_line(&mut line);
            // A line without its end is a reply that never arrived.
            if read.is_err() || !line.ends_with('\n') {
                return Ok(acknowledged);
            }
            let reply: Value = serde_json::from_str(&line).unwrap_or_default();
            match (reply.get("ok"), reply.get("id").and_then(Value::as_str)) {
                (Some(Value::Bool(true)), Some(id)) => acknowledged.push(id.to_owned()),
                _ => {
                    let _ = child.kill();
                    return Err(Trouble::Failed(format!("the second process answered {}", line.trim_end())));
                }
            }
            if acknowledged.len() == KILL_AFTER {
                child.kill().map_err(|error| Trouble::Failed(format!("the second process cannot be killed: {error}")))?;
            }
        }
    })
}

/// The command line of the second process: the same store in the same way.
fn arguments(args: &StoreArgs) -> Vec<OsString> {
    let durability = match args.durability {
        DurabilityArg::Sync => "sync",
        DurabilityArg::Buffered => "buffered",
    };
    let mut arguments: Vec<OsString> = ["exec", "--namespace", &args.namespace, "--durability", durability].map(Into::into).to_vec();
    let mut option = |name: &str, value: OsString| arguments.extend([name.into(), value]);
    if let Some(dir) = &args.dir {
        option("--dir", dir.into());
    }
    if let Some(dim) = args.dim {
        option("--dim", dim.to_string().into());
    }
    match args.embedder {
        None => {}
        Some(EmbedderArg::Hash) => option("--embedder", "hash".into()),
        Some(EmbedderArg::None) => option("--embedder", "none".into()),
    }
    arguments
}
