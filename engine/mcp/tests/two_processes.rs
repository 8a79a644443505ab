//! Two processes and one namespace: the second is told at once who holds it, and nobody waits for the dead.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::disallowed_methods)]

mod support;

use std::time::{Duration, Instant};

use serde_json::json;
use support::{Exec, Folder};

const AT_ONCE: Duration = Duration::from_secs(1);

fn holder(folder: &Folder, memories: usize) -> Exec {
    let mut holder = folder.exec(&[]);
    for number in 0..memories {
        holder.done(json!({"op": "remember", "text": format!("held {number}"), "id": format!("h{number}")}));
    }
    holder
}

/// Every way to open a namespace is refused in time, with the holder's pid and the exit code of a failure.
fn every_second_opener_is_refused(folder: &Folder, pid: u32) {
    for arguments in [
        &["exec"][..],
        &["stats"],
        &["get", "h0"],
        &["recall", "held"],
        &["remember", "x"],
        &["forget", "h0"],
        &["verify"],
        &["stats", "--json"],
    ] {
        let began = Instant::now();
        let ran = folder.run(arguments);
        let elapsed = began.elapsed();
        assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{arguments:?}: {ran:?}");
        assert!(ran.err.starts_with("error: ") && ran.err.contains(&format!("process {pid}")), "{arguments:?}: {ran:?}");
        assert!(elapsed < AT_ONCE, "{arguments:?} was refused only after {elapsed:?}");
    }
}

#[test]
fn a_second_opener_is_told_at_once_who_holds_the_namespace() {
    let folder = Folder::new();
    let mut holder = holder(&folder, 3);
    every_second_opener_is_refused(&folder, holder.pid());
    // A holder that does nothing at all still holds.
    holder.signal("STOP");
    every_second_opener_is_refused(&folder, holder.pid());
    holder.signal("CONT");
    assert_eq!(holder.done(json!({"op": "stats"}))["stored"], 3, "a refused opener changed something");
    assert_eq!(holder.done(json!({"op": "verify"}))["clean"], true);
    assert_eq!(holder.end(), 0);
    assert_eq!(folder.run(["stats"]).code, 0);
}

#[test]
fn after_the_holder_is_killed_the_namespace_opens_within_a_second() {
    let folder = Folder::new();
    let mut slowest = Duration::ZERO;
    for _ in 0..5 {
        let mut exec = holder(&folder, 100);
        // Die in the middle of work.
        for number in 0..50 {
            exec.send(format!("{}\n", json!({"op": "remember", "text": format!("in flight {number}")})).as_bytes());
        }
        exec.kill();
        let began = Instant::now();
        let mut exec = folder.exec(&[]);
        exec.done(json!({"op": "stats"}));
        slowest = slowest.max(began.elapsed());
        for number in 0..100 {
            exec.done(json!({"op": "get", "id": format!("h{number}")}));
        }
        exec.kill();
    }
    println!("slowest reopening after a kill: {} ms, starting the process included", slowest.as_millis());
    assert!(slowest < AT_ONCE, "{slowest:?}");
}

#[test]
fn of_many_that_open_at_one_time_exactly_one_succeeds() {
    let folder = Folder::new();
    assert_eq!(folder.run(["remember", "x"]).code, 0);
    for _ in 0..5 {
        let mut openers: Vec<Exec> = (0..8)
            .map(|_| {
                let mut command = folder.exec_command(&[]);
                command.stderr(std::process::Stdio::null());
                Exec::start(command)
            })
            .collect();
        // A loser is gone before it reads anything, and the winner stays.
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut codes = Vec::new();
        while codes.len() < 7 && Instant::now() < deadline {
            let (gone, still): (Vec<Exec>, Vec<Exec>) = openers.into_iter().partition(|opener| has_ended(opener.pid()));
            codes.extend(gone.into_iter().map(|mut opener| opener.wait().code().unwrap()));
            openers = still;
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(codes, [1; 7]);
        let mut winner = openers.pop().unwrap();
        winner.done(json!({"op": "stats"}));
        assert_eq!(winner.end(), 0);
    }
}

/// Whether a child has ended and was not waited for yet.
fn has_ended(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit(')').next().unwrap().trim_start().starts_with('Z')
}

#[test]
fn a_namespace_that_somebody_holds_is_not_dropped() {
    let folder = Folder::new();
    let mut other = folder.exec(&["--namespace", "other"]);
    other.done(json!({"op": "remember", "text": "mine", "id": "a"}));
    let mut exec = folder.exec(&[]);
    for (name, pid) in [("other", other.pid()), ("default", exec.pid())] {
        let began = Instant::now();
        let (kind, code, message) = exec.refused(json!({"op": "drop_namespace", "name": name}));
        assert_eq!((kind.as_str(), code.as_str()), ("AlreadyOpen", "AlreadyOpen"), "{message}");
        assert!(message.contains(&pid.to_string()) && began.elapsed() < AT_ONCE, "{message}");
    }
    other.done(json!({"op": "remember", "text": "and more", "id": "b"}));
    assert_eq!(other.done(json!({"op": "verify"}))["clean"], true);
    other.kill();
    assert_eq!(exec.done(json!({"op": "drop_namespace", "name": "other"}))["existed"], true, "its holder is dead");
    assert_eq!(exec.done(json!({"op": "namespaces"}))["namespaces"], json!(["default"]));
    assert!(!folder.store().join("other").exists());
    assert_eq!(exec.end(), 0);
}

#[test]
fn two_sessions_on_two_namespaces_do_not_meet() {
    let folder = Folder::new();
    let mut sessions = [folder.exec(&["--namespace", "one"]), folder.exec(&["--namespace", "two"])];
    for number in 0..200 {
        for (session, word) in sessions.iter_mut().zip(["amber", "beryl"]) {
            session.send(
                format!("{}\n", json!({"op": "remember", "text": format!("{word} {number}"), "id": format!("{word}-{number}")})).as_bytes(),
            );
        }
    }
    for (session, (own, other)) in sessions.iter_mut().zip([("amber", "beryl"), ("beryl", "amber")]) {
        for number in 0..200 {
            assert_eq!(session.reply()["id"], format!("{own}-{number}"));
        }
        assert_eq!(session.done(json!({"op": "stats"}))["live"], 200);
        let hits = session.done(json!({"op": "recall", "text": format!("{other} 7"), "k": 200}))["hits"].clone();
        assert!(hits.as_array().unwrap().iter().all(|hit| hit["id"].as_str().unwrap().starts_with(own)));
        assert_eq!(session.done(json!({"op": "namespaces"}))["namespaces"], json!(["one", "two"]));
    }
    assert_eq!(sessions.map(Exec::end), [0, 0]);
}
