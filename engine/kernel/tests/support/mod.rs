//! What the damage tests share: rows to store, a logical dump to compare, images of namespaces that a process left behind without
//! closing them, and a directory that fails on demand.

#![allow(dead_code, reason = "each test binary uses its part")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod faulty;

use std::collections::BTreeMap;
use std::sync::Arc;

use mnemolith_backends::{Backend, MemoryBackend, NamespaceImage};
use mnemolith_kernel::format::{MutableState, Payload};
use mnemolith_kernel::{NewRow, Result, Sequencer, Store, StoreOptions};

pub(crate) use faulty::*;

pub(crate) const DIMENSION: u32 = 16;

pub(crate) fn options() -> StoreOptions {
    StoreOptions { dimension: Some(DIMENSION), entropy: [7; 24], ..StoreOptions::new("t") }
}

/// A unit vector that its number determines.
pub(crate) fn unit(number: u64) -> Vec<f32> {
    let values: Vec<f32> = (0..u64::from(DIMENSION)).map(|i| ((number * 31 + i * 7 + 1) as f32).sin()).collect();
    let norm = values.iter().map(|value| value * value).sum::<f32>().sqrt();
    values.iter().map(|value| value / norm).collect()
}

/// Stores row `number` with a text of about `text_len` bytes; nothing is waited for.
pub(crate) fn submit(store: &Store, number: u64, text_len: usize) -> Result<(u64, u64)> {
    store_row(&mut store.sequence()?, number, text_len)
}

/// As [`submit`], for who has the right to write already; slot and LSN.
pub(crate) fn store_row(writer: &mut Sequencer, number: u64, text_len: usize) -> Result<(u64, u64)> {
    let vector = unit(number);
    let (id, text) = (format!("m{number}"), format!("text of {number} {}", "x".repeat(text_len)));
    let tags = [(format!("tag{}", number % 3), format!("Tag{}", number % 3)), (format!("only{number}"), format!("Only{number}"))];
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
        registers: vec![((number % 3) as u8, number.to_le_bytes().to_vec())],
        ..NewRow::default()
    };
    let stored = writer.store(&row)?;
    Ok((stored.slot, stored.lsn))
}

/// Stores and waits.
pub(crate) fn put(store: &Store, number: u64, text_len: usize) -> Result<()> {
    store.wait(submit(store, number, text_len)?.1)
}

pub(crate) fn state(number: u64) -> MutableState {
    MutableState {
        strength: 1.0 + number as f32,
        valence: 3,
        recall_count: number as u32,
        last_recall_ms: number as i64,
        last_seen_ms: 2 * number as i64,
    }
}

/// Amends the row with this number and waits.
pub(crate) fn amend(store: &Store, number: u64) -> Result<()> {
    let mut writer = store.sequence()?;
    let slot = writer.find_id(&format!("m{number}"))?.unwrap();
    let lsn = writer.amend(vec![(slot, state(number))])?;
    drop(writer);
    store.wait(lsn)
}

/// Forgets the row with this number and waits.
pub(crate) fn forget(store: &Store, number: u64) -> Result<()> {
    let mut writer = store.sequence()?;
    let slot = writer.find_id(&format!("m{number}"))?.unwrap();
    let lsn = writer.forget(slot)?;
    drop(writer);
    store.wait(lsn)
}

/// Purges the row with this number and waits.
pub(crate) fn purge(store: &Store, number: u64) -> Result<()> {
    let lsn = store.sequence()?.purge(&format!("m{number}"))?;
    lsn.map_or(Ok(()), |lsn| store.wait(lsn))
}

/// Everything a caller can see of one memory.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DumpedRow {
    pub(crate) slot: u64,
    pub(crate) lsn: u64,
    pub(crate) predecessor: u64,
    pub(crate) payload: Payload,
    pub(crate) state: MutableState,
    pub(crate) vector: Vec<f32>,
    pub(crate) event_time_ms: i64,
}

/// Everything a caller can see.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Dump {
    pub(crate) lsn: u64,
    pub(crate) live: u64,
    pub(crate) rows: Vec<DumpedRow>,
    pub(crate) registers: Vec<Option<Vec<u8>>>,
    /// The dictionary's numbers of the words that the rows and their neighbours may use.
    pub(crate) tags: Vec<Option<u32>>,
}

/// The dump, and the slots that hydration refused.
pub(crate) fn dump_what_can_be_read(store: &Store) -> (Dump, Vec<u64>) {
    let reader = store.reader();
    let mut dump = Dump { lsn: reader.lsn(), live: reader.live(), ..Dump::default() };
    let mut refused = Vec::new();
    for slot in reader.live_slots(0) {
        let read = || -> Result<DumpedRow> {
            let row = reader.row(slot)?;
            let vector = reader.vector(&row)?.to_vec();
            let payload = reader.payload(&row)?;
            let (lsn, predecessor, event_time_ms) = (row.key.lsn, row.key.predecessor, row.header.event_time_ms);
            Ok(DumpedRow { slot, lsn, predecessor, payload, state: row.state, vector, event_time_ms })
        };
        match read() {
            Ok(row) => dump.rows.push(row),
            Err(_) => refused.push(slot),
        }
    }
    for row in &dump.rows {
        if refused.is_empty() {
            assert_eq!(reader.find_id(&row.payload.id).unwrap(), Some(row.slot));
        }
    }
    drop(reader);
    dump.tags = (0..3).map(|n| store.reader().tag_number(&format!("tag{n}"))).collect();
    dump.registers =
        store.sequence().map_or_else(|_| Vec::new(), |writer| (0..3).map(|n| writer.register(n).map(<[u8]>::to_vec)).collect());
    (dump, refused)
}

/// The dump of a store in which every row can be read.
pub(crate) fn dump(store: &Store) -> Dump {
    let (dump, refused) = dump_what_can_be_read(store);
    assert_eq!(refused, Vec::<u64>::new(), "rows that cannot be read");
    assert_eq!(dump.rows.len() as u64, dump.live);
    dump
}

/// What a process that dies leaves of its namespace: everything it wrote, and nothing of what closing would have done.
pub(crate) fn killed(image: Option<&NamespaceImage>, work: impl FnOnce(&Store)) -> NamespaceImage {
    let backend = MemoryBackend::new();
    if let Some(image) = image {
        backend.import("t", image).unwrap();
    }
    let (directory, control) = FaultyDirectory::over(backend.open("t").unwrap());
    let store = Store::open(directory, &options()).unwrap();
    work(&store);
    control.kill();
    drop(store);
    backend.export("t").unwrap().unwrap()
}

/// As [`killed`], closed properly.
pub(crate) fn closed(image: Option<&NamespaceImage>, work: impl FnOnce(&Store)) -> NamespaceImage {
    let backend = MemoryBackend::new();
    if let Some(image) = image {
        backend.import("t", image).unwrap();
    }
    let store = Store::open(backend.open("t").unwrap(), &options()).unwrap();
    work(&store);
    drop(store);
    backend.export("t").unwrap().unwrap()
}

/// Opens a copy of an image.
pub(crate) fn open(image: &NamespaceImage) -> Result<(MemoryBackend, Store)> {
    let backend = MemoryBackend::new();
    backend.import("t", image).unwrap();
    let store = Store::open(backend.open("t").unwrap(), &options())?;
    Ok((backend, store))
}

/// Opens a directory that dies when the store is dropped.
pub(crate) fn open_mortal(directory: Arc<dyn mnemolith_backends::Directory>) -> (Control, Result<Store>) {
    let (directory, control) = FaultyDirectory::over(directory);
    let store = Store::open(directory, &options());
    (control, store)
}

/// The paths of an image's log segments, in order.
pub(crate) fn segments(image: &NamespaceImage) -> Vec<String> {
    image.files.keys().filter(|path| path.starts_with("wal/")).cloned().collect()
}

/// Offset and first LSN of every frame of a segment.
pub(crate) fn frames(segment: &[u8]) -> Vec<(usize, u64)> {
    let starts = (4096..segment.len()).step_by(4096);
    let is_frame = |at: &usize| segment[*at..].starts_with(&0x4652_4d4e_u32.to_le_bytes());
    starts.filter(is_frame).map(|at| (at, u64::from_le_bytes(segment[at + 16..at + 24].try_into().unwrap()))).collect()
}

/// Whether every bit is to be tried, and not a sample.
pub(crate) fn exhaustive() -> bool {
    std::env::var_os("MNEMOLITH_EXHAUSTIVE").is_some_and(|value| value == "1")
}

/// Counts of outcomes from both halves of a range of cases, on two threads.
pub(crate) fn in_halves(run: impl Fn(usize) -> BTreeMap<&'static str, u64> + Sync) -> BTreeMap<&'static str, u64> {
    let (first, second) = std::thread::scope(|scope| {
        let other = scope.spawn(|| run(1));
        (run(0), other.join().unwrap())
    });
    let mut counts = first;
    second.into_iter().for_each(|(outcome, count)| *counts.entry(outcome).or_default() += count);
    counts
}

/// Files of an image that hold these bytes.
pub(crate) fn files_with(image: &NamespaceImage, needle: &[u8]) -> Vec<String> {
    let holds = |bytes: &Vec<u8>| bytes.windows(needle.len()).any(|window| window == needle);
    image.files.iter().filter(|(_, bytes)| holds(bytes)).map(|(path, _)| path.clone()).collect()
}
