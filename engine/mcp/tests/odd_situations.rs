//! Disks, files and pipes that are not as they should be.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::disallowed_methods)]

mod support;

use std::io::{BufRead, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::{Exec, Folder, Ran, binary, refusal, run};

/// Runs a command of a shell around the binary: `"$0"` is the binary, `"$1"` and on the arguments.
fn under_a_shell(script: &str, arguments: &[&Path], input: &[u8]) -> Ran {
    let binary = binary();
    let mut command = Command::new("sh");
    command.arg("-c").arg(script).arg(binary.get_program()).args(arguments);
    run(command, input)
}

fn remember(number: usize, text: &str) -> String {
    format!("{}\n", json!({"op": "remember", "text": format!("{text} {number}"), "id": format!("m{number}"), "seq": number}))
}

#[test]
fn a_directory_that_is_a_file_or_holds_one_in_the_way_is_refused_in_words() {
    let folder = Folder::new();
    std::fs::write(folder.store(), b"a file").unwrap();
    for arguments in [&["remember", "x"][..], &["recall", "x"], &["stats"], &["exec"]] {
        let ran = folder.run(arguments);
        assert!(ran.code == 1 && ran.out.is_empty() && ran.err.starts_with("error: "), "{arguments:?}: {ran:?}");
    }
    assert_eq!(std::fs::read(folder.store()).unwrap(), b"a file");

    let folder = Folder::new();
    std::fs::create_dir(folder.store()).unwrap();
    std::fs::write(folder.store().join("default"), b"a file").unwrap();
    for arguments in [&["remember", "x"][..], &["recall", "x"], &["stats"], &["exec"]] {
        let ran = folder.run(arguments);
        assert!(ran.code == 1 && ran.out.is_empty() && ran.err.starts_with("error: "), "{arguments:?}: {ran:?}");
    }
    assert_eq!(std::fs::read(folder.store().join("default")).unwrap(), b"a file");
}

#[test]
fn foreign_files_in_a_namespace_are_left_alone() {
    let folder = Folder::new();
    assert_eq!(folder.run(["remember", "x", "--id", "a"]).code, 0);
    let namespace = folder.store().join("default");
    let strangers = [
        ".DS_Store",
        "notes.txt",
        "wal/notes.txt",
        "wal/.wal",
        "wal/1.wal.orig",
        "slabs/notes.txt",
        "payload/lost+found",
        "index/x",
        "superblock.bak",
    ];
    for stranger in strangers {
        let path = namespace.join(stranger);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, b"not ours").unwrap();
    }
    std::fs::create_dir_all(namespace.join("slabs/old")).unwrap();
    std::fs::create_dir_all(folder.store().join("Not A Namespace")).unwrap();
    std::fs::write(folder.store().join("README"), b"not ours").unwrap();
    for number in 0..3 {
        let mut exec = folder.exec(&[]);
        exec.done(json!({"op": "remember", "text": format!("more {number}"), "id": format!("b{number}")}));
        exec.done(json!({"op": "checkpoint"}));
        assert_eq!(exec.done(json!({"op": "get", "id": "a"}))["memory"]["text"], "x");
        assert_eq!(exec.done(json!({"op": "verify"}))["clean"], true);
        assert_eq!(exec.done(json!({"op": "namespaces"}))["namespaces"], json!(["default"]));
        if number == 1 { exec.kill() } else { assert_eq!(exec.end(), 0) }
    }
    for stranger in strangers {
        assert_eq!(std::fs::read(namespace.join(stranger)).unwrap(), b"not ours", "{stranger}");
    }
}

#[test]
fn a_directory_of_something_else_does_not_become_a_store_by_reading() {
    let folder = Folder::new();
    let namespace = folder.store().join("default");
    std::fs::create_dir_all(&namespace).unwrap();
    std::fs::write(namespace.join("thesis.txt"), b"years of work").unwrap();
    let ran = folder.run(["recall", "x"]);
    assert!(ran.code == 1 && ran.err.contains("no namespace"), "{ran:?}");
    assert_eq!(namespace.read_dir().unwrap().count(), 1, "a recall made a store");
    let mut exec = folder.exec(&[]);
    exec.done(json!({"op": "remember", "text": "beside it", "id": "a"}));
    assert_eq!(exec.end(), 0);
    let mut exec = folder.exec(&["--namespace", "other"]);
    exec.done(json!({"op": "stats"}));
    assert_eq!(exec.end(), 0);
    assert_eq!(std::fs::read(namespace.join("thesis.txt")).unwrap(), b"years of work");
}

#[test]
fn who_loses_its_lock_writes_no_more_and_harms_nobody() {
    let folder = Folder::new();
    let mut holder = folder.exec(&[]);
    for number in 0..10 {
        holder.done(json!({"op": "remember", "text": format!("mine {number}"), "id": format!("a{number}")}));
    }
    std::fs::remove_file(folder.store().join("default/LOCK")).unwrap();
    // Nothing tells the second process that there is a first one, which has to notice by itself.
    let mut second = folder.exec(&[]);
    for number in 0..10 {
        second.done(json!({"op": "remember", "text": format!("yours {number}"), "id": format!("b{number}")}));
    }
    for request in [
        json!({"op": "remember", "text": "mine too", "id": "c"}),
        json!({"op": "forget", "id": "a0"}),
        json!({"op": "reinforce", "id": "a0", "outcome": 1}),
        json!({"op": "update", "id": "a0", "text": "changed"}),
        json!({"op": "checkpoint"}),
        json!({"op": "purge", "id": "a0"}),
    ] {
        let (kind, _, message) = holder.refused(request);
        assert_eq!(kind, "Failed", "{message}");
        assert!(message.contains("LOCK"), "{message}");
    }
    assert_eq!(holder.done(json!({"op": "get", "id": "a0"}))["memory"]["text"], "mine 0", "what was durable is readable");
    // It cannot close in order either, and says so.
    assert_eq!(holder.end(), 1);
    second.done(json!({"op": "remember", "text": "yours still", "id": "last"}));
    assert_eq!(second.done(json!({"op": "verify"}))["clean"], true);
    assert_eq!(second.end(), 0);
    let mut exec = folder.exec(&[]);
    for id in (0..10).flat_map(|number| [format!("a{number}"), format!("b{number}")]).chain(["last".to_owned()]) {
        exec.done(json!({"op": "get", "id": id}));
    }
    assert_eq!(exec.done(json!({"op": "stats"}))["live"], 21);
    assert_eq!(exec.done(json!({"op": "verify"}))["clean"], true);
    assert_eq!(exec.end(), 0);
}

/// Whether this process may mount in a namespace of its own.
fn may_mount() -> bool {
    let tried = Command::new("unshare").args(["-m", "sh", "-c", "mount -t tmpfs -o size=1m none /mnt"]).stderr(Stdio::null()).status();
    tried.is_ok_and(|status| status.success())
}

/// Where there is no privilege to mount, a test says so and is skipped.
macro_rules! needs_mounts {
    () => {
        if !may_mount() {
            println!("skipped: this needs a private mount namespace (unshare -m), which is not permitted here");
            return;
        }
    };
}

/// A session in a mount namespace of its own, after `prepare` was run there with the folder as `$1`.
fn exec_after(prepare: &str, folder: &Folder) -> Exec {
    let mut command = Command::new("unshare");
    let script = format!("{prepare}; exec \"$0\" exec --dir \"$1/store\"");
    command.args(["-m", "sh", "-c", &script]).arg(binary().get_program()).arg(folder.path());
    Exec::start(command)
}

#[test]
fn a_directory_that_cannot_be_written_is_refused_and_not_changed() {
    needs_mounts!();
    let folder = Folder::new();
    assert_eq!(folder.run(["remember", "x", "--id", "a"]).code, 0);
    let before = support::bytes_of(&folder.store());
    let read_only = "mount --bind \"$1\" \"$1\" && mount -o remount,ro,bind \"$1\" && exec unshare -m \"$0\"";
    for arguments in ["remember y", "stats", "recall x", "exec", "remember y --namespace other"] {
        let script = format!("{read_only} --dir \"$1/store\" {arguments}");
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", &script]).arg(binary().get_program()).arg(folder.path());
        let ran = run(command, b"");
        assert_eq!(ran.code, 1, "{arguments}: {ran:?}");
        assert!(
            ran.out.is_empty() && ran.err.starts_with("error: ") && ran.err.to_lowercase().contains("read-only"),
            "{arguments}: {ran:?}"
        );
    }
    assert_eq!(support::bytes_of(&folder.store()), before);
    assert_eq!(folder.run(["verify"]).code, 0);
}

#[test]
fn on_a_full_disk_writes_are_refused_reads_go_on_and_writes_resume_when_there_is_room() {
    needs_mounts!();
    let folder = Folder::new();
    std::fs::create_dir(folder.store()).unwrap();
    let mut exec = exec_after("mount -t tmpfs -o size=32m none \"$1/store\"", &folder);
    exec.done(json!({"op": "stats"}));
    // What is mounted there is seen from here by way of the process.
    let ballast = format!("/proc/{}/root{}/ballast", exec.pid(), folder.store().display());
    std::fs::write(&ballast, vec![1; 16 << 20]).unwrap();
    let filler = "x".repeat(20_000);
    let mut number = 0;
    let refused = loop {
        let reply = exec.ask(json!({"op": "remember", "text": format!("{number} {filler}"), "id": format!("m{number}")}));
        if reply["ok"] != true {
            break reply;
        }
        number += 1;
        assert!(number < 1000, "16 MiB hold 20 MB");
    };
    let (kind, code, message) = refusal(&refused);
    assert_eq!((kind.as_str(), code.as_str()), ("NoSpace", "NoSpace"), "{message}");
    for _ in 0..10 {
        let reply = exec.ask(json!({"op": "remember", "text": format!("again {filler}"), "id": format!("m{number}")}));
        assert_eq!(refusal(&reply).0, "NoSpace", "{reply}");
        assert_eq!(exec.done(json!({"op": "stats"}))["live"], number);
        assert_eq!(exec.done(json!({"op": "recall", "text": "x", "k": 3}))["hits"].as_array().unwrap().len(), 3);
        assert_eq!(exec.done(json!({"op": "get", "id": "m0"}))["memory"]["id"], "m0");
    }
    // To forget, and to write a checkpoint, must be possible on a full disk.
    let forgotten = exec.ask(json!({"op": "forget", "id": "m0"}));
    let checkpoint = exec.ask(json!({"op": "checkpoint"}));
    println!("full after {number} memories; forget there: {forgotten}; checkpoint there: {checkpoint}");
    assert_eq!((&forgotten["ok"], &checkpoint["ok"]), (&json!(true), &json!(true)), "{forgotten} {checkpoint}");
    std::fs::remove_file(&ballast).unwrap();
    for more in 0..20 {
        let reply = exec.done(json!({"op": "remember", "text": format!("after room was made {more} {filler}"), "id": format!("n{more}")}));
        assert_eq!(reply["status"], "stored", "writes resume without reopening");
    }
    assert_eq!(exec.done(json!({"op": "verify"}))["clean"], true);
    assert_eq!(exec.done(json!({"op": "stats"}))["live"], number + 20 - 1);
    for id in (1..number).map(|number| format!("m{number}")).chain((0..20).map(|more| format!("n{more}"))) {
        exec.done(json!({"op": "get", "id": id}));
    }
    assert_eq!(refusal(&exec.ask(json!({"op": "get", "id": "m0"}))).0, "NotFound");
    assert_eq!(exec.end(), 0);
}

#[test]
fn a_terminated_session_ends_and_what_it_acknowledged_stays() {
    let folder = Folder::new();
    let (mut child, mut requests, mut replies) = folder.exec(&[]).into_parts();
    let writer = std::thread::spawn(move || (0..).find(|number| requests.write_all(remember(*number, "entry").as_bytes()).is_err()));
    let mut line = String::new();
    let mut acknowledged = 0;
    let mut began = None;
    loop {
        line.clear();
        if replies.read_line(&mut line).is_err() || !line.ends_with('\n') {
            break;
        }
        assert!(line.starts_with("{\"ok\":true"), "{line}");
        acknowledged += 1;
        if acknowledged == 50 {
            support::signal(child.id(), "TERM");
            began = Some(Instant::now());
        }
    }
    let status = child.wait().unwrap();
    assert!(began.unwrap().elapsed() < Duration::from_secs(5));
    assert!(status.signal() == Some(15) || status.code() == Some(0), "{status:?}");
    writer.join().unwrap();
    let mut exec = folder.exec(&[]);
    for number in 0..acknowledged {
        exec.done(json!({"op": "get", "id": format!("m{number}")}));
    }
    assert_eq!(exec.done(json!({"op": "verify"}))["clean"], true);
    assert_eq!(exec.end(), 0);
}

#[test]
fn a_reader_that_leaves_ends_the_session_cleanly() {
    let folder = Folder::new();
    let mut exec = folder.exec(&[]);
    exec.done(json!({"op": "remember", "text": "kept", "id": "kept"}));
    let (mut child, mut requests) = exec.stop_reading();
    let began = Instant::now();
    while requests.write_all(remember(1, "entry").as_bytes()).is_ok() {
        assert!(began.elapsed() < Duration::from_secs(5), "it goes on although nobody reads");
    }
    let status = child.wait().unwrap();
    // Nothing was wrong with the store, but requests were left unanswered: that is not success, and not death by a signal.
    assert_eq!(status.code(), Some(1), "{status:?}");
    assert_eq!(folder.run(["get", "kept"]).code, 0);
    assert_eq!(folder.run(["verify"]).code, 0);
    // Whoever reads only the first line of a command did get what was asked for.
    let ran = under_a_shell("{ \"$0\" --dir \"$1\" recall kept --explain; echo \"code $?\" >&2; } | head -c 1", &[&folder.store()], b"");
    assert!(ran.err.contains("code 0"), "{ran:?}");
}

#[test]
fn a_hundred_thousand_requests_in_a_pipe_are_answered_in_order() {
    let folder = Folder::new();
    let (mut child, mut requests, replies) = folder.exec(&["--durability", "buffered"]).into_parts();
    let writer = std::thread::spawn(move || {
        requests.write_all(remember(0, "the only one").as_bytes()).unwrap();
        for number in 1..100_000 {
            let request = match number % 4 {
                0 => json!({"op": "stats", "seq": number}),
                1 => json!({"op": "get", "id": "m0", "seq": number}),
                2 => json!({"op": "recall", "text": "only", "k": 1, "seq": number}),
                _ => json!({"op": "nonsense", "seq": number}),
            };
            writeln!(requests, "{request}").unwrap();
        }
    });
    let began = Instant::now();
    let mut count = 0;
    for line in replies.lines() {
        let reply: Value = serde_json::from_str(&line.unwrap()).unwrap();
        assert!(reply["seq"] == count && reply["ok"] == (count == 0 || count % 4 != 3), "{reply}");
        count += 1;
    }
    writer.join().unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(count, 100_000);
    println!("100,000 requests through a pipe: {:.0} a second", 100_000.0 / began.elapsed().as_secs_f64());
}

#[test]
fn few_descriptors_are_enough_for_many_namespaces() {
    let folder = Folder::new();
    let limited = "ulimit -n 64; exec \"$0\" --dir \"$1\"";
    for number in 0..100 {
        let script = format!("{limited} remember \"entry {number}\" --namespace n{number} --json");
        assert_eq!(under_a_shell(&script, &[&folder.store()], b"").code, 0, "namespace {number}");
    }
    let input: String = (0..100).map(|number| remember(number, "entry")).collect::<String>()
        + "{\"op\":\"namespaces\"}\n{\"op\":\"checkpoint\"}\n{\"op\":\"verify\"}\n"
        + &(0..99).map(|number| format!("{{\"op\":\"drop_namespace\",\"name\":\"n{number}\"}}\n")).collect::<String>()
        + "{\"op\":\"namespaces\"}\n";
    let ran = under_a_shell(&format!("{limited} exec --namespace n99"), &[&folder.store()], input.as_bytes());
    assert_eq!(ran.code, 0, "{ran:?}");
    for line in ran.out.lines() {
        assert!(line.starts_with("{\"ok\":true"), "{line}");
    }
    assert!(ran.out.ends_with("{\"ok\":true,\"namespaces\":[\"n99\"]}\n"), "{}", &ran.out[ran.out.len().saturating_sub(200)..]);
}

#[test]
fn too_few_descriptors_are_an_error_and_not_the_end() {
    let folder = Folder::new();
    for limit in 3..20 {
        let script = format!("ulimit -n {limit}; exec \"$0\" --dir \"$1\" remember \"entry {limit}\" --id m{limit}");
        let ran = under_a_shell(&script, &[&folder.store()], b"");
        assert!(ran.code == 0 || (ran.code == 1 && ran.err.starts_with("error: ")) || ran.code == 127, "{limit}: {ran:?}");
        if ran.code == 0 {
            assert_eq!(folder.run(["get", &format!("m{limit}")]).code, 0);
        }
    }
    assert_eq!(folder.run(["remember", "with all of them", "--id", "last"]).code, 0);
    assert_eq!(folder.run(["verify"]).code, 0);
}

#[test]
fn a_closed_standard_input_or_output_is_no_crash() {
    let folder = Folder::new();
    for (redirection, code) in [("<&-", 0), (">&-", 0), ("2>&-", 0)] {
        let ran = under_a_shell(&format!("\"$0\" --dir \"$1\" exec {redirection}"), &[&folder.store()], b"");
        assert_eq!(ran.code, code, "{redirection}: {ran:?}");
    }
    let ran = under_a_shell("\"$0\" --dir \"$1\" exec > /dev/full", &[&folder.store()], remember(0, "entry").as_bytes());
    assert!(ran.code == 1 && ran.err.contains("error: "), "{ran:?}");
    assert_eq!(folder.run(["get", "m0"]).code, 0, "it was done, although nobody could be told");
    assert_eq!(folder.run(["verify"]).code, 0);
    let mut command = binary();
    command.arg0("another-name").arg("--dir").arg(folder.store()).arg("stats").arg("--json");
    let mut out = String::new();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    assert!(child.wait().unwrap().success() && out.starts_with('{'));
}
