//! The command line, from outside.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::disallowed_methods)]

mod support;

use std::io::{Read, Seek, SeekFrom, Write};

use serde_json::json;
use support::{Folder, binary, run};

#[test]
fn a_memory_goes_in_and_comes_out_again_in_every_form() {
    let folder = Folder::new();
    let ran = folder.run(["remember", "The backup key is in the blue drawer", "--id", "key", "--tag", "Home,keys", "--at", "2026-03-02"]);
    assert!(ran.code == 0 && ran.out.starts_with("stored key"), "{ran:?}");
    let ran = folder.run(["remember", "The backup key is in the blue drawer", "--at", "2026-03-02"]);
    assert!(ran.code == 0 && ran.out.starts_with("duplicate of key"), "{ran:?}");
    let traced = folder.run(["remember", "The cat is called Miso", "--id", "cat", "--trace", "--valence", "-5"]);
    assert!(traced.out.contains("CORTICAL_WRITE") && traced.out.contains("KG_ENRICHMENT"), "{traced:?}");

    let ran = folder.run(["recall", "where is the backup key?", "-k", "1"]);
    assert!(ran.code == 0 && ran.out.contains("blue drawer") && !ran.out.contains("Miso"), "{ran:?}");
    assert!(!ran.out.contains('\x1b'), "no colour into a pipe: {ran:?}");
    let explained = folder.run(["recall", "where is the backup key?", "--explain"]);
    for word in ["sim", "mod", "mood", "plan", "candidates", "kernel"] {
        assert!(explained.out.contains(word), "{word}: {explained:?}");
    }
    let hits = folder.run(["recall", "backup key", "--json", "--tag", "home"]).json()["hits"].clone();
    assert_eq!((&hits[0]["id"], hits.as_array().unwrap().len()), (&json!("key"), 1));

    let ran = folder.run(["get", "cat"]);
    assert!(ran.code == 0 && ran.out.contains("The cat is called Miso"), "{ran:?}");
    assert_eq!(folder.run(["get", "cat", "--json"]).json()["memory"]["valence"], -5);
    assert_eq!(folder.run(["reinforce", "cat", "-0.5", "--json"]).json()["recall_count"], 1);
    assert_eq!(folder.run(["stats", "--json"]).json()["live"], 2);
    assert_eq!(folder.run(["verify", "--json"]).json()["clean"], true);
    assert_eq!(folder.run(["forget", "cat"]).code, 0);
    assert_eq!(folder.run(["forget", "key", "--purge"]).code, 0);
    let ran = folder.run(["recall", "key"]);
    assert_eq!((ran.code, ran.out.trim()), (0, "nothing found"));
}

#[test]
fn a_text_may_come_from_the_standard_input() {
    let folder = Folder::new();
    assert_eq!(folder.run_with(["remember", "-", "--id", "a"], "two\nlines\r\n".as_bytes()).code, 0);
    assert_eq!(folder.run(["get", "a", "--json"]).json()["memory"]["text"], "two\nlines");
    assert_eq!(folder.run_with(["recall", "-", "--json"], b"lines").json()["hits"][0]["id"], "a");
    assert_eq!(folder.run_with(["remember", "-"], b"\xff").code, 2);
    assert_eq!(folder.run_with(["remember", "-"], &vec![b'x'; (1 << 20) + 10]).code, 2);
}

#[test]
fn the_exit_code_tells_wrong_usage_from_failure() {
    let folder = Folder::new();
    for usage in [
        &["recall"][..],
        &["nonsense"],
        &["remember", "x", "--at", "yesterday"],
        &["remember", "x", "--tier", "short"],
        &["remember", "x", "--valence", "128"],
        &["remember", "x", "--metadata", "[]"],
        &["remember", ""],
        &["remember", "x", "--namespace", "../x"],
        &["recall", "x", "-k", "-1"],
        &["recall", "x", "--profile", "calm"],
        &["exec", "--embedder", "http://localhost:11434/v1"],
        &["exec", "--durability", "never"],
        &["tour", "--json"],
        &[],
    ] {
        let ran = folder.run(usage);
        assert_eq!(ran.code, 2, "{usage:?}: {ran:?}");
        assert!(ran.out.is_empty() && !ran.err.is_empty(), "{usage:?}: {ran:?}");
    }
    let endpoint = folder.run(["exec", "--embedder", "http://localhost:11434/v1"]);
    assert!(endpoint.err.contains("not built yet"), "{endpoint:?}");

    let folder = Folder::new();
    let ran = folder.run(["recall", "x"]);
    assert!(ran.code == 1 && ran.err.starts_with("error: there is no store in"), "{ran:?}");
    assert!(!folder.store().exists(), "a recall made a store");
    assert_eq!(folder.run(["remember", "x", "--id", "a"]).code, 0);
    let ran = folder.run(["recall", "x", "--namespace", "other"]);
    assert!(ran.code == 1 && ran.err.contains("no namespace"), "{ran:?}");
    assert!(!folder.store().join("other").exists(), "a recall made a namespace");
    for (failed, named) in [(&["get", "b"][..], "\"b\""), (&["forget", "b"], "\"b\""), (&["reinforce", "b", "1"], "\"b\"")] {
        let ran = folder.run(failed);
        assert_eq!(ran.code, 1, "{failed:?}: {ran:?}");
        assert!(ran.err.starts_with("error: ") && ran.err.contains(named), "{failed:?}: {ran:?}");
    }
    assert_eq!(folder.run(["remember", "y", "--id", "a"]).code, 1, "one id, two contents");
    assert_eq!(folder.run(["stats", "--dim", "8"]).code, 1, "another dimension");
    assert_eq!(folder.run(["reinforce", "a", "2"]).code, 2);
}

/// Flips every bit of some bytes of a file of the namespace `default`.
fn damage(folder: &Folder, file: &str, from: u64, len: usize) {
    let path = folder.store().join("default").join(file);
    let mut file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut bytes = vec![0; len];
    file.seek(SeekFrom::Start(from)).unwrap();
    file.read_exact(&mut bytes).unwrap();
    bytes.iter_mut().for_each(|byte| *byte = !*byte);
    file.seek(SeekFrom::Start(from)).unwrap();
    file.write_all(&bytes).unwrap();
}

#[test]
fn damage_has_an_exit_code_of_its_own() {
    let folder = Folder::new();
    folder.run(["remember", "in one piece", "--id", "a"]);
    damage(&folder, "slabs/00000000/vectors.slab", 0, 64);
    let ran = folder.run(["verify"]);
    assert!(ran.code == 3 && ran.out.contains("vectors.slab") && ran.err.starts_with("error: "), "{ran:?}");
    damage(&folder, "superblock", 0, 128 << 10);
    for arguments in [&["stats"][..], &["remember", "x"], &["exec"]] {
        let ran = folder.run(arguments);
        assert!(ran.code == 3 && ran.err.contains("superblock"), "{arguments:?}: {ran:?}");
    }
}

#[test]
fn a_store_says_its_own_dimension_and_embedder_where_the_command_line_says_nothing() {
    let folder = Folder::new();
    assert_eq!(folder.run(["remember", "x", "--dim", "8", "--embedder", "none"]).code, 0);
    let stats = folder.run(["stats", "--json"]).json();
    assert_eq!((&stats["dimension"], &stats["embedder"]), (&json!(8), &json!("none")));
}

#[test]
fn the_namespaces_of_a_store_do_not_mix() {
    let folder = Folder::new();
    folder.run(["remember", "in one", "--namespace", "one", "--id", "a"]);
    folder.run(["remember", "in two", "--namespace", "two", "--id", "a"]);
    assert_eq!(folder.run(["get", "a", "--namespace", "one", "--json"]).json()["memory"]["text"], "in one");
    assert_eq!(folder.run(["get", "a", "--namespace", "two", "--json"]).json()["memory"]["text"], "in two");
}

#[cfg(all(unix, not(target_os = "macos")))]
#[test]
fn without_a_directory_the_store_lies_in_the_data_directory_of_the_platform() {
    let folder = Folder::new();
    let mut command = binary();
    command.env("XDG_DATA_HOME", folder.path()).args(["remember", "x"]);
    assert_eq!(run(command, b"").code, 0);
    assert!(folder.path().join("mnemolith").is_dir());
    let mut command = binary();
    command.env_remove("HOME").args(["stats"]);
    let ran = run(command, b"");
    assert!(ran.code == 2 && ran.err.contains("--dir"), "{ran:?}");
}

#[test]
fn the_version_names_the_kernel() {
    let mut command = binary();
    command.arg("--version");
    let ran = run(command, b"");
    assert!(ran.code == 0 && ran.out.starts_with(concat!("mnemolith ", env!("CARGO_PKG_VERSION"))), "{ran:?}");
    assert!(ran.out.contains("simd kernel"), "{ran:?}");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let folder = Folder::new();
    folder.run(["remember", "x"]);
    let mut child = binary()
        .arg("--dir")
        .arg(folder.store())
        .args(["recall", "x"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}
