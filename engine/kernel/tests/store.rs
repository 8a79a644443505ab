//! A store keeps what it acknowledged, over reopening with and without a checkpoint.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

use std::sync::Arc;

use mnemolith_backends::{Backend, FileBackend, MemoryBackend};
use mnemolith_kernel::format::MutableState;
use mnemolith_kernel::{NewRow, Store, StoreOptions};

fn options() -> StoreOptions {
    StoreOptions { dimension: Some(16), entropy: [7; 24], ..StoreOptions::new("t") }
}

fn unit(seed: u64) -> Vec<f32> {
    let values: Vec<f32> = (0..16).map(|i| ((seed * 31 + i * 7 + 1) as f32).sin()).collect();
    let norm = values.iter().map(|v| v * v).sum::<f32>().sqrt();
    values.iter().map(|v| v / norm).collect()
}

fn put(store: &Store, number: u64) -> u64 {
    let vector = unit(number);
    let (id, text) = (format!("m{number}"), format!("text of {number}"));
    let tags = [(format!("tag{}", number % 3), format!("Tag{}", number % 3))];
    let row = NewRow {
        id: &id,
        text: Some(&text),
        tags: &tags,
        content_hash: u128::from(number),
        vector: Some(&vector),
        norm: 1.0,
        importance: 1.0,
        session: Some("s"),
        event_time_ms: number as i64,
        registers: vec![(1, number.to_le_bytes().to_vec())],
        ..NewRow::default()
    };
    let stored = store.sequence().unwrap().store(&row).unwrap();
    store.wait(stored.lsn).unwrap();
    stored.slot
}

fn check(store: &Store, number: u64) {
    let reader = store.reader();
    let slot = reader.find_id(&format!("m{number}")).unwrap().unwrap();
    let row = reader.row(slot).unwrap();
    let payload = reader.payload(&row).unwrap();
    assert_eq!(payload.text.as_deref(), Some(format!("text of {number}").as_str()));
    assert_eq!(payload.session.as_deref(), Some("s"));
    assert_eq!(payload.tags[0].display, format!("Tag{}", number % 3));
    assert_eq!(store.reader().tag_number(&format!("tag{}", number % 3)), Some(payload.tags[0].id));
    assert_eq!(&reader.vector(&row).unwrap()[..16], unit(number).as_slice());
}

fn round_trip(backend: &dyn Backend) {
    for round in 0..3_u64 {
        let store = Store::open(backend.open("t").unwrap(), &options()).unwrap();
        for number in 0..round * 700 {
            check(&store, number);
        }
        for number in round * 700..(round + 1) * 700 {
            put(&store, number);
        }
        if round == 1 {
            store.checkpoint().unwrap();
        }
        assert_eq!(store.sequence().unwrap().register(1), Some(((round + 1) * 700 - 1).to_le_bytes().as_slice()));
        assert_eq!(store.verify().unwrap().problems, []);
    }
    let store = Store::open(backend.open("t").unwrap(), &options()).unwrap();
    let mut writer = store.sequence().unwrap();
    let slot = writer.find_id("m5").unwrap().unwrap();
    let state = MutableState { strength: 3.0, ..writer.row(slot).unwrap().state };
    writer.amend(vec![(slot, state)]).unwrap();
    let gone = writer.find_id("m6").unwrap().unwrap();
    let lsn = writer.forget(gone).unwrap();
    assert_eq!(writer.find_id("m6").unwrap(), None);
    drop(writer);
    store.wait(lsn).unwrap();
    drop(store);
    let store = Store::open(backend.open("t").unwrap(), &options()).unwrap();
    assert_eq!(store.reader().row(slot).unwrap().state, state);
    assert_eq!(store.reader().find_id("m6").unwrap(), None);
    assert_eq!(store.reader().live(), 2099);
    assert_eq!(store.verify().unwrap().problems, []);
}

#[test]
fn what_was_acknowledged_is_there_after_reopening() {
    round_trip(&MemoryBackend::new());
    let root = tempfile::tempdir().unwrap();
    round_trip(&FileBackend::new(root.path()));
}

/// What a crash leaves is a copy of the directory taken while the store is open: nothing of the close has run.
#[test]
fn a_store_that_was_never_closed_replays_its_log() {
    let root = tempfile::tempdir().unwrap();
    let store = Store::open(FileBackend::new(root.path().join("a")).open("t").unwrap(), &options()).unwrap();
    for number in 0..300 {
        put(&store, number);
    }
    store.checkpoint().unwrap();
    for number in 300..600 {
        put(&store, number);
    }
    let copy = root.path().join("b");
    assert!(std::process::Command::new("cp").arg("-r").arg(root.path().join("a")).arg(&copy).status().unwrap().success());
    drop(store);
    let store = Store::open(Arc::new(FileBackend::new(&copy)).open("t").unwrap(), &options()).unwrap();
    for number in 0..600 {
        check(&store, number);
    }
    assert_eq!(store.verify().unwrap().problems, []);
}

/// Records that come alone take a block of the log each: the log must not grow to many times what it holds.
#[test]
fn a_log_of_lonely_records_is_checkpointed_by_its_length() {
    let backend = MemoryBackend::new();
    let store = Store::open(backend.open("t").unwrap(), &StoreOptions { checkpoint_bytes: 64 << 10, ..options() }).unwrap();
    put(&store, 0);
    let slot = store.reader().find_id("m0").unwrap().unwrap();
    for number in 0..200_u32 {
        let mut writer = store.sequence().unwrap();
        let state = MutableState { recall_count: number, ..writer.row(slot).unwrap().state };
        let lsn = writer.amend(vec![(slot, state)]).unwrap();
        drop(writer);
        store.wait(lsn).unwrap();
    }
    assert!(store.stats().unwrap().checkpoint_lsn > 60, "{:?}", store.stats().unwrap());
}
