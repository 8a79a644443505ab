//! A process that writes is killed at any moment, again and again, and the store is what it promised to be.
//!
//! The parent sends requests without waiting for replies, kills the process, and knows what was sent and what was acknowledged. What a
//! reopened store holds must be the state after some request it was sent, at or after the last acknowledged one: nothing acknowledged is
//! lost, nothing forgotten comes back, and there is no hole. `MNEMOLITH_KILLS` says how many kills, `MNEMOLITH_SEED` where chance starts.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::disallowed_methods)]

mod support;

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::{Dice, Folder};

const KILLS: u64 = 12;
const SEED: u64 = 20_260_302;
/// So many kills fall on one directory before a new one is begun: a store also lives on after a crash.
const LIVES_OF_A_STORE: u64 = 4;
const MOST_ACKNOWLEDGED: usize = 900;
const OPTIONS: &[&str] = &["--dim", "32", "--embedder", "none", "--durability", "sync"];

/// What is known of one memory.
#[derive(Debug, Clone, PartialEq)]
struct Known {
    text: String,
    tags: Vec<String>,
    number: u64,
    session: Option<String>,
    at: i64,
    strength: f64,
    valence: i64,
    recall_count: u64,
}

/// One request.
#[derive(Debug, Clone)]
enum Request {
    Remember { id: String, memory: Known, direction: u64 },
    Again { id: String },
    Forget { id: String },
    Reinforce { id: String, outcome: f64 },
    Update { id: String, text: Option<String>, tags: Option<Vec<String>>, number: Option<u64> },
    Checkpoint,
}

/// The state after a prefix of the requests.
#[derive(Debug, Clone, Default)]
struct Oracle {
    memories: BTreeMap<String, Known>,
    order: Vec<String>,
    forgotten: Vec<(String, String)>,
}

impl Oracle {
    fn apply(&mut self, request: &Request) {
        match request {
            Request::Remember { id, memory, .. } => {
                self.memories.insert(id.clone(), memory.clone());
                self.order.push(id.clone());
                self.forgotten.retain(|(gone, _)| gone != id);
            }
            Request::Again { .. } | Request::Checkpoint => {}
            Request::Forget { id } => {
                let memory = self.memories.remove(id).unwrap();
                self.order.retain(|other| other != id);
                self.forgotten.push((id.clone(), memory.text));
            }
            Request::Reinforce { id, outcome } => {
                let memory = self.memories.get_mut(id).unwrap();
                memory.strength = (memory.strength + 0.1 * (1.0 + outcome.max(0.0)) / memory.strength).min(10.0);
                #[allow(clippy::cast_possible_truncation, reason = "a rounded number of three digits")]
                let moved = (0.7 * memory.valence as f64 + 0.3 * 127.0 * outcome).round() as i64;
                memory.valence = moved;
                memory.recall_count += 1;
            }
            Request::Update { id, text, tags, number } => {
                let memory = self.memories.get_mut(id).unwrap();
                memory.text = text.clone().unwrap_or_else(|| memory.text.clone());
                memory.tags = tags.clone().unwrap_or_else(|| memory.tags.clone());
                memory.number = number.unwrap_or(memory.number);
            }
        }
    }

    /// A request that is valid in this state.
    fn next(&self, dice: &mut Dice, number: u64) -> Request {
        let any = |dice: &mut Dice| self.order[dice.below(self.order.len())].clone();
        let tags = |dice: &mut Dice| (0..dice.below(4)).map(|tag| format!("tag{}", tag * 7 + dice.below(7))).collect::<Vec<_>>();
        match dice.below(100) {
            roll if roll < 50 || self.order.len() < 5 => {
                let mut id = format!("m{number}");
                let mut text = format!("Entry {number} {}", "of the log book ".repeat(dice.below(40)));
                if roll < 5 && !self.forgotten.is_empty() {
                    (id, text) = self.forgotten[dice.below(self.forgotten.len())].clone();
                }
                let session = (dice.below(3) > 0).then(|| format!("session-{}", dice.below(5)));
                let at = 1_700_000_000_000 + i64::try_from(number).unwrap() * 1000;
                let text = text.trim().to_owned();
                let memory = Known { text, tags: tags(dice), number, session, at, strength: 1.0, valence: 0, recall_count: 0 };
                Request::Remember { id, memory, direction: dice.next() }
            }
            50..55 => Request::Again { id: any(dice) },
            55..70 => Request::Forget { id: any(dice) },
            70..85 => Request::Reinforce { id: any(dice), outcome: [-1.0, -0.5, 0.0, 0.25, 1.0][dice.below(5)] },
            roll => Request::Update {
                id: any(dice),
                text: (roll % 3 != 0).then(|| format!("Entry {number} told anew")),
                tags: (roll % 3 != 1).then(|| tags(dice)),
                number: (roll % 2 == 0).then_some(number),
            },
        }
    }

    /// The request as a line.
    fn line(&self, request: &Request, seq: usize) -> Value {
        let mut line = match request {
            Request::Remember { id, memory, direction } => {
                let mut dice = Dice(*direction);
                let vector: Vec<f64> = (0..32).map(|_| dice.below(2001) as f64 / 1000.0 - 1.0003).collect();
                json!({"op": "remember", "id": id, "text": memory.text, "vector": vector, "tags": memory.tags, "session": memory.session,
                    "metadata": {"number": memory.number}, "at": memory.at, "allow_duplicate": true})
            }
            // The same id with the same content: a duplicate, which changes nothing but when it was last seen.
            Request::Again { id } => {
                let memory = &self.memories[id];
                json!({"op": "remember", "id": id, "text": memory.text, "vector": vec![1; 32], "at": memory.at + 1})
            }
            Request::Forget { id } => json!({"op": "forget", "id": id}),
            Request::Reinforce { id, outcome } => json!({"op": "reinforce", "id": id, "outcome": outcome}),
            Request::Update { id, text, tags, number } => {
                let metadata = number.map(|number| json!({"number": number}));
                json!({"op": "update", "id": id, "text": text, "tags": tags, "metadata": metadata})
            }
            Request::Checkpoint => json!({"op": "checkpoint"}),
        };
        line["seq"] = json!(seq);
        line
    }

    /// Why what a store lists is not this state.
    fn mismatch(&self, found: &[Value]) -> Option<String> {
        let ids: Vec<&str> = found.iter().map(|memory| memory["id"].as_str().unwrap()).collect();
        if ids != self.order {
            let lost = self.order.iter().filter(|id| !ids.contains(&id.as_str())).collect::<Vec<_>>();
            let extra = ids.iter().filter(|id| !self.memories.contains_key(**id)).collect::<Vec<_>>();
            return Some(format!("other memories or another order: missing {lost:?}, unexpected {extra:?}"));
        }
        found.iter().find_map(|memory| {
            let known = &self.memories[memory["id"].as_str().unwrap()];
            let same = memory["text"] == known.text
                && memory["tags"] == json!(known.tags)
                && memory["metadata"]["number"] == known.number
                && memory["session"] == json!(known.session)
                && (memory["strength"].as_f64().unwrap() - known.strength).abs() < 1e-4
                && memory["current_valence"] == known.valence
                && memory["recall_count"] == known.recall_count;
            (!same).then(|| format!("{memory} is not {known:?}"))
        })
    }
}

/// What one kill did.
struct Killed {
    sent: Vec<Request>,
    acknowledged: usize,
}

/// Sends requests until the process is killed: after `kill_after` replies and a moment more.
fn write_until_killed(
    folder: &Folder,
    oracle: &Oracle,
    dice: &mut Dice,
    first: u64,
    every: usize,
    kill_after: usize,
    moment: Duration,
) -> Killed {
    let (mut child, mut requests, mut replies) = folder.exec(OPTIONS).into_parts();
    let (mut state, mut dice) = (oracle.clone(), Dice(dice.next()));
    let writer = std::thread::spawn(move || {
        let mut sent = Vec::new();
        loop {
            let number = first + u64::try_from(sent.len()).unwrap();
            let request = if sent.len() % every == every - 1 { Request::Checkpoint } else { state.next(&mut dice, number) };
            let line = state.line(&request, sent.len());
            state.apply(&request);
            sent.push(request);
            if writeln!(requests, "{line}").is_err() {
                return sent;
            }
        }
    });
    let mut acknowledged = 0;
    let mut line = String::new();
    loop {
        if acknowledged == kill_after {
            std::thread::sleep(moment);
            child.kill().unwrap();
        }
        line.clear();
        // A line without its end is a reply that never arrived.
        if replies.read_line(&mut line).is_err() || !line.ends_with('\n') {
            break;
        }
        let reply: Value = serde_json::from_str(&line).unwrap();
        assert!(reply["ok"] == true && reply["seq"] == acknowledged, "{line}");
        acknowledged += 1;
    }
    assert!(!child.wait().unwrap().success() && acknowledged >= kill_after, "it ended by itself after {acknowledged} replies");
    Killed { sent: writer.join().unwrap(), acknowledged }
}

#[test]
fn whenever_it_is_killed_what_was_acknowledged_is_there_and_nothing_else_but_what_was_sent() {
    let number = |name: &str, default| std::env::var(name).map_or(default, |value| value.parse().unwrap());
    let (kills, seed) = (number("MNEMOLITH_KILLS", KILLS), number("MNEMOLITH_SEED", SEED));
    let began = Instant::now();
    let (mut folder, mut oracle) = (Folder::new(), Oracle::default());
    let (mut first, mut total, mut ahead, mut in_flight, mut at_checkpoints, mut while_opening) = (0, 0, 0, 0, 0, 0);
    let mut slowest = Duration::ZERO;
    for kill in 0..kills {
        let mut dice = Dice(seed.wrapping_add(kill << 32));
        if kill % LIVES_OF_A_STORE == 0 {
            (folder, oracle) = (Folder::new(), Oracle::default());
        }
        // One kill of three falls into a checkpoint, the others anywhere.
        let every = 100 + dice.below(200);
        let (kill_after, micros) = if kill % 3 == 2 {
            at_checkpoints += 1;
            (every * (1 + dice.below(2)) - 1, dice.below(12_000))
        } else {
            (dice.below(MOST_ACKNOWLEDGED), dice.below(3_000))
        };
        let moment = Duration::from_micros(u64::try_from(micros).unwrap());
        let Killed { sent, acknowledged } = write_until_killed(&folder, &oracle, &mut dice, first, every, kill_after, moment);
        let context =
            format!("kill {kill}, seed {seed}: {acknowledged} of {} acknowledged, killed {micros} us after {kill_after}", sent.len());

        // Some are killed again while they recover.
        for _ in 0..dice.below(3) {
            let opening = folder.exec(OPTIONS);
            std::thread::sleep(Duration::from_micros(u64::try_from(dice.below(25_000)).unwrap()));
            opening.kill();
            while_opening += 1;
        }

        let reopening = Instant::now();
        let mut exec = folder.exec(OPTIONS);
        exec.done(json!({"op": "stats"}));
        slowest = slowest.max(reopening.elapsed());
        let found = exec.dump();
        sent[..acknowledged].iter().for_each(|request| oracle.apply(request));
        let last_acknowledged = oracle.clone();
        let mut later = sent[acknowledged..].iter();
        while let Some(mismatch) = oracle.mismatch(&found) {
            let Some(request) = later.next() else {
                let first = last_acknowledged.mismatch(&found);
                panic!("{context}: no state from the last acknowledged on. Against that one: {first:?}; against the last sent: {mismatch}");
            };
            oracle.apply(request);
            ahead += 1;
        }
        let report = exec.done(json!({"op": "verify"}));
        assert_eq!(report["clean"], true, "{context}: {report}");
        if dice.below(2) == 0 {
            assert_eq!(exec.end(), 0);
        } else {
            exec.kill();
        }
        let mut exec = folder.exec(OPTIONS);
        let again = exec.dump();
        if let Some((one, two)) = found.iter().zip(&again).find(|(one, two)| one != two) {
            panic!("{context}: the second reopening differs: {one} became {two}");
        }
        assert_eq!(found.len(), again.len(), "{context}: the second reopening differs");
        assert_eq!(exec.end(), 0);
        first += u64::try_from(sent.len()).unwrap();
        total += acknowledged;
        in_flight += sent.len() - acknowledged;
    }
    println!(
        "{kills} kills ({at_checkpoints} aimed at a checkpoint, {while_opening} more while opening), seed {seed}: {total} requests acknowledged, 0 lost; \
         {in_flight} in flight, of which {ahead} had been done; 0 out of order; slowest reopening {} ms; {:.1} s",
        slowest.as_millis(),
        began.elapsed().as_secs_f64()
    );
}
