//! Ten long conversations through the command line, the process killed half-way through each: what was acknowledged is all there, with
//! text, tags, session and time, and every turn is found by its own words.
//!
//! `cargo build --release && cargo run --release -p mnemolith-benches --bin locomo [-- path/to/turns.json]`
//!
//! The data is not part of the repository: `turns.json` is a list of `{conversation, session, id, text, at}`, looked for in
//! `../shared/data/locomo` beside the checkout. Without it the command says so and succeeds.
#![allow(clippy::disallowed_methods, reason = "a measurement reads the clock itself, and a data set is no part of a store")]

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::thread::JoinHandle;
use std::time::Instant;

use serde::Deserialize;
use serde_json::{Value, json};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// How many requests are on their way at most.
const WINDOW: usize = 128;
/// Of the turns that are asked for by their own text, so many in a hundred must come first.
const BAR_PERCENT: f64 = 99.0;

#[derive(Debug, Deserialize)]
struct Turn {
    conversation: u64,
    session: u64,
    id: String,
    text: String,
    at: String,
}

impl Turn {
    fn memory_id(&self) -> String {
        format!("{}/{}", self.conversation, self.id)
    }

    fn session_name(&self) -> String {
        format!("session-{}", self.session)
    }

    /// Who speaks, and which turn of the dialogue it is.
    fn tags(&self) -> Vec<String> {
        let speaker = self.text.split_once(':').map(|(speaker, _)| speaker.to_owned());
        speaker.into_iter().chain([self.id.clone()]).collect()
    }

    fn instant(&self) -> Outcome<String> {
        instant(&self.at).ok_or_else(|| format!("turn {}: {:?} is no time", self.memory_id(), self.at).into())
    }

    fn remember(&self) -> Outcome<Value> {
        Ok(json!({"op": "remember", "id": self.memory_id(), "text": self.text, "session": self.session_name(), "tags": self.tags(),
            "at": self.instant()?, "allow_duplicate": true}))
    }
}

/// `1:56 pm on 8 May, 2023` in RFC 3339.
fn instant(text: &str) -> Option<String> {
    const MONTHS: [&str; 12] =
        ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];
    let (time, date) = text.split_once(" on ")?;
    let (clock, half) = time.trim().split_once(' ')?;
    let (hour, minute) = clock.split_once(':')?;
    let (hour, minute): (u32, u32) = (hour.parse().ok()?, minute.parse().ok()?);
    let hour = match half {
        "am" => hour % 12,
        "pm" => hour % 12 + 12,
        _ => return None,
    };
    let mut words = date.split([' ', ',']).filter(|word| !word.is_empty());
    let (day, month, year): (u32, &str, u32) = (words.next()?.parse().ok()?, words.next()?, words.next()?.parse().ok()?);
    let month = MONTHS.iter().position(|name| *name == month)? + 1;
    Some(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:00Z"))
}

/// An `exec` process whose replies come one by one. Requests are written by a thread, so that neither pipe can block the other.
struct Exec {
    child: Child,
    requests: Option<std::sync::mpsc::Sender<String>>,
    writer: Option<JoinHandle<()>>,
    replies: BufReader<ChildStdout>,
}

impl Exec {
    fn start(program: &Path, dir: &Path, namespace: &str) -> Outcome<Self> {
        let mut command = Command::new(program);
        command.arg("exec").arg("--dir").arg(dir).args(["--namespace", namespace]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("{} did not start: {error}", program.display()))?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("a process without pipes".into());
        };
        let (requests, lines) = std::sync::mpsc::channel();
        let writer = std::thread::spawn(move || write_lines(stdin, &lines));
        Ok(Self { child, requests: Some(requests), writer: Some(writer), replies: BufReader::new(stdout) })
    }

    fn send(&self, request: &Value) -> Outcome<()> {
        let requests = self.requests.as_ref().ok_or("the session has ended")?;
        // The writer is gone when the process is: its last replies are still to be read.
        let _ = requests.send(format!("{request}\n"));
        Ok(())
    }

    /// The next reply; none where the process has ended. A line without its end is a reply that never arrived.
    fn reply(&mut self) -> Outcome<Option<Value>> {
        let mut line = String::new();
        let read = self.replies.read_line(&mut line);
        if read.is_err() || !line.ends_with('\n') {
            return Ok(None);
        }
        Ok(Some(serde_json::from_str(&line)?))
    }

    fn ask(&mut self, request: &Value) -> Outcome<Value> {
        self.send(request)?;
        self.reply()?.ok_or_else(|| format!("no reply to {request}").into())
    }

    /// SIGKILL; nothing is waited for but that the process is gone.
    fn kill(&mut self) -> Outcome<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    fn join(&mut self) {
        self.requests = None;
        if let Some(writer) = self.writer.take() {
            // It ends with its pipe or its channel, and has nothing to tell.
            let _ = writer.join();
        }
    }

    /// Ends the input and waits; the exit code must be that of success.
    fn end(mut self) -> Outcome<()> {
        self.join();
        let status = self.child.wait()?;
        if status.success() { Ok(()) } else { Err(format!("the session ended with {status}").into()) }
    }
}

impl Drop for Exec {
    fn drop(&mut self) {
        // However a check fails, no process stays behind. One that was waited for is not touched by this.
        let _ = self.kill();
    }
}

fn write_lines(mut stdin: ChildStdin, lines: &std::sync::mpsc::Receiver<String>) {
    for line in lines {
        if stdin.write_all(line.as_bytes()).is_err() {
            return;
        }
    }
}

/// What came of one conversation.
#[derive(Debug, Default)]
struct Tally {
    turns: usize,
    in_flight: usize,
    done_unacknowledged: usize,
    lost: usize,
    wrong: usize,
    first: usize,
    seconds: f64,
    reopen_millis: f64,
    recall_micros: Vec<u64>,
}

/// Streams the turns in order; where `kill_after` of them are acknowledged, the process is killed. Returns how many were acknowledged and
/// how many were sent.
fn stream(exec: &mut Exec, turns: &[&Turn], kill_after: Option<usize>, tally: &mut Tally) -> Outcome<(usize, usize)> {
    let (mut acknowledged, mut sent) = (0, 0);
    let mut waiting = VecDeque::new();
    loop {
        while waiting.len() < WINDOW {
            let Some(turn) = turns.get(sent) else { break };
            exec.send(&turn.remember()?)?;
            waiting.push_back(*turn);
            sent += 1;
        }
        if waiting.is_empty() {
            return Ok((acknowledged, sent));
        }
        let Some(reply) = exec.reply()? else {
            return Ok((acknowledged, sent));
        };
        let Some(turn) = waiting.pop_front() else { return Err("a reply without a request".into()) };
        match reply.get("status").and_then(Value::as_str) {
            Some("stored") => {}
            // The same id and content: the process had done it and died before it could say so.
            Some("duplicate") if reply.get("of") == Some(&json!(turn.memory_id())) => tally.done_unacknowledged += 1,
            _ => return Err(format!("turn {} was answered {reply}", turn.memory_id()).into()),
        }
        acknowledged += 1;
        if kill_after == Some(acknowledged) {
            exec.kill()?;
        }
    }
}

fn conversation(program: &Path, dir: &Path, number: u64, turns: &[&Turn]) -> Outcome<Tally> {
    let namespace = format!("conversation-{number}");
    let mut tally = Tally { turns: turns.len(), ..Tally::default() };

    let began = Instant::now();
    let mut exec = Exec::start(program, dir, &namespace)?;
    let (mut acknowledged, sent) = stream(&mut exec, turns, Some(turns.len() / 2), &mut tally)?;
    exec.join();
    tally.in_flight = sent - acknowledged;
    if tally.in_flight == 0 {
        return Err("nothing was in flight when the process was killed".into());
    }
    let reopening = Instant::now();
    let mut exec = Exec::start(program, dir, &namespace)?;
    let live = exec.ask(&json!({"op": "stats"}))?;
    tally.reopen_millis = reopening.elapsed().as_secs_f64() * 1e3;
    // What was acknowledged before the kill, at once and before anything is sent again.
    let known = live.get("live").and_then(Value::as_u64).unwrap_or(0);
    if known < acknowledged as u64 || known > sent as u64 {
        return Err(format!("{known} turns after the kill: {acknowledged} were acknowledged and {sent} sent").into());
    }
    let rest = turns.get(acknowledged..).unwrap_or_default();
    acknowledged += stream(&mut exec, rest, None, &mut tally)?.0;
    tally.seconds = began.elapsed().as_secs_f64();
    if acknowledged != turns.len() {
        return Err(format!("only {acknowledged} of {} turns were acknowledged", turns.len()).into());
    }
    exec.end()?;

    let mut exec = Exec::start(program, dir, &namespace)?;
    for turn in turns {
        let reply = exec.ask(&json!({"op": "get", "id": turn.memory_id()}))?;
        let Some(memory) = reply.get("memory") else {
            eprintln!("lost: {}: {reply}", turn.memory_id());
            tally.lost += 1;
            continue;
        };
        let expected = json!({"text": turn.text, "tags": turn.tags(), "session": turn.session_name(), "at": turn.instant()?});
        let same = ["text", "tags", "session", "at"].iter().all(|field| memory.get(field) == expected.get(field));
        if !same {
            eprintln!("changed: {memory} should have {expected}");
            tally.wrong += 1;
        }
    }
    for turn in turns {
        let asked = Instant::now();
        let reply = exec.ask(&json!({"op": "recall", "text": turn.text, "k": 1}))?;
        tally.recall_micros.push(u64::try_from(asked.elapsed().as_micros()).unwrap_or(u64::MAX));
        let first = reply.get("hits").and_then(|hits| hits.get(0)).and_then(|hit| hit.get("text"));
        if first == Some(&json!(turn.text)) {
            tally.first += 1;
        } else {
            eprintln!("not first: {}: {} but {}", turn.memory_id(), turn.text, first.unwrap_or(&Value::Null));
        }
    }
    let verified = exec.ask(&json!({"op": "verify"}))?;
    let live = exec.ask(&json!({"op": "stats"}))?.get("live").and_then(Value::as_u64);
    if verified.get("clean") != Some(&json!(true)) || live != Some(turns.len() as u64) {
        return Err(format!("{namespace}: {live:?} memories for {} turns; {verified}", turns.len()).into());
    }
    exec.end()?;
    Ok(tally)
}

/// The value below which `percent` in a hundred lie.
fn percentile(sorted: &[u64], percent: usize) -> u64 {
    let at = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(at).copied().unwrap_or(0)
}

fn row(name: &str, tally: &Tally) -> String {
    let mut micros = tally.recall_micros.clone();
    micros.sort_unstable();
    let share = 100.0 * tally.first as f64 / tally.turns.max(1) as f64;
    format!(
        "{name:>12} {:>6} {:>9} {:>9} {:>5} {:>6} {share:>9.2} {:>8.0} {:>9.0} {:>8} {:>8}",
        tally.turns,
        tally.in_flight,
        tally.done_unacknowledged,
        tally.lost,
        tally.wrong,
        tally.turns as f64 / tally.seconds.max(1e-9),
        tally.reopen_millis,
        percentile(&micros, 50),
        percentile(&micros, 99),
    )
}

/// The binary of the same profile, and how to build it where there is none.
fn program() -> Outcome<PathBuf> {
    let here = std::env::current_exe()?;
    let beside = here.with_file_name(format!("mnemolith{}", std::env::consts::EXE_SUFFIX));
    if beside.is_file() {
        return Ok(beside);
    }
    let release = if cfg!(debug_assertions) { "" } else { " --release" };
    Err(format!("{} is not built; run `cargo build{release}` first", beside.display()).into())
}

/// The turns; none where the data is not there.
fn turns(path: &Path) -> Outcome<Option<Vec<Turn>>> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("{}: {error}", path.display()).into()),
    };
    Ok(Some(serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?))
}

fn main() -> Outcome<ExitCode> {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data/locomo/turns.json");
    let path = std::env::args_os().nth(1).map_or_else(|| PathBuf::from(default), PathBuf::from);
    let Some(turns) = turns(&path)? else {
        println!("skipped: there is no data at {}; give the path of a turns.json to run this", path.display());
        return Ok(ExitCode::SUCCESS);
    };
    let program = program()?;
    let dir = tempfile::tempdir()?;
    let mut conversations = BTreeMap::<u64, Vec<&Turn>>::new();
    for turn in &turns {
        conversations.entry(turn.conversation).or_default().push(turn);
    }
    println!("{} turns in {} conversations, one SIGKILL in each", turns.len(), conversations.len());
    println!(
        "{:>12} {:>6} {:>9} {:>9} {:>5} {:>6} {:>9} {:>8} {:>9} {:>8} {:>8}",
        "conversation", "turns", "in flight", "had done", "lost", "wrong", "first %", "turns/s", "reopen ms", "p50 us", "p99 us"
    );
    let mut total = Tally::default();
    for (number, turns) in &conversations {
        eprintln!("conversation {number}: {} turns", turns.len());
        let tally = conversation(&program, dir.path(), *number, turns)?;
        println!("{}", row(&number.to_string(), &tally));
        total.turns += tally.turns;
        total.in_flight += tally.in_flight;
        total.done_unacknowledged += tally.done_unacknowledged;
        total.lost += tally.lost;
        total.wrong += tally.wrong;
        total.first += tally.first;
        total.seconds += tally.seconds;
        total.reopen_millis = total.reopen_millis.max(tally.reopen_millis);
        total.recall_micros.extend(tally.recall_micros);
    }
    println!("{}", row("all", &total));
    let texts: HashMap<(u64, &str), usize> = turns.iter().fold(HashMap::new(), |mut texts, turn| {
        *texts.entry((turn.conversation, turn.text.as_str())).or_default() += 1;
        texts
    });
    println!("{} turns repeat the text of another; one of equal text counts as the turn itself", turns.len() - texts.len());
    let share = 100.0 * total.first as f64 / total.turns.max(1) as f64;
    if total.lost > 0 || total.wrong > 0 || share < BAR_PERCENT {
        println!("FAILED: {} lost, {} wrong, {share:.2} % first (at least {BAR_PERCENT} %)", total.lost, total.wrong);
        return Ok(ExitCode::FAILURE);
    }
    println!("ok: nothing lost, nothing wrong, {share:.2} % found first by their own text");
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_the_data_is_read() {
        assert_eq!(instant("1:56 pm on 8 May, 2023").as_deref(), Some("2023-05-08T13:56:00Z"));
        assert_eq!(instant("12:09 am on 13 September, 2023").as_deref(), Some("2023-09-13T00:09:00Z"));
        assert_eq!(instant("12:24 pm on 1 January, 2022").as_deref(), Some("2022-01-01T12:24:00Z"));
        for nonsense in ["", "1:56 on 8 May, 2023", "1:56 pm on 8 Mai, 2023", "pm on 8 May, 2023"] {
            assert_eq!(instant(nonsense), None, "{nonsense}");
        }
    }
}
