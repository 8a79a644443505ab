//! A namespace is written, closed, and found again.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests fail by panicking"
)]

use std::sync::Arc;

use mnemolith_backends::{Backend, FileBackend, MemoryBackend};

fn keeps_what_was_written(backend: Arc<dyn Backend>) {
    let space = backend.open("a").unwrap();
    assert!(backend.open("a").is_err());
    space.create_folder("slabs/1").unwrap();
    let mut writer = space.create_region("slabs/1/rows", 8192).unwrap();
    writer.append_at(64, b"row").unwrap();
    writer.region().publish(67);
    writer.sync(67).unwrap();
    let log = space.create_log("log", 8192).unwrap();
    log.write_durable_at(100, b"frame").unwrap();
    space.replace("small", b"text").unwrap();
    drop((writer, log, space));
    let space = backend.open("a").unwrap();
    let writer = space.open_region("slabs/1/rows", 8192, 67).unwrap();
    assert_eq!(&writer.region().slice(&space.gate().read())[64..], b"row");
    let mut buffer = [0; 5];
    space
        .open_log("log")
        .unwrap()
        .read_at(100, &mut buffer)
        .unwrap();
    assert_eq!(&buffer, b"frame");
    assert_eq!(
        space.read("small", 4).unwrap().as_deref(),
        Some(&b"text"[..])
    );
    drop((writer, space));
    assert!(backend.remove("a").unwrap());
    assert_eq!(backend.namespaces().unwrap(), Vec::<String>::new());
}

#[test]
fn memory_keeps_what_was_written() {
    keeps_what_was_written(Arc::new(MemoryBackend::new()));
}

#[test]
fn files_keep_what_was_written() {
    let root = tempfile::tempdir().unwrap();
    keeps_what_was_written(Arc::new(FileBackend::new(root.path().join("store"))));
}
