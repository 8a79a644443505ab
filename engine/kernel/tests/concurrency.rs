//! Readers, writers, checkpoints and purges at once: every reader sees a whole prefix of the log, and nobody waits forever.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]
#![allow(clippy::disallowed_methods, reason = "a watchdog needs a real clock")]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use mnemolith_backends::{Backend, MemoryBackend};
use mnemolith_kernel::{Store, StoreOptions};
use support::{options, store_row};

const RUN: Duration = Duration::from_secs(3);

#[derive(Debug, Clone, Copy)]
enum Event {
    Stored(i64),
    Purged(i64),
}

/// What was sequenced, noted while the right to write is held: whoever sees an LSN finds it here.
type Oracle = Mutex<BTreeMap<u64, Event>>;

fn expected(oracle: &Oracle, lsn: u64) -> BTreeSet<i64> {
    let mut numbers = BTreeSet::new();
    for event in oracle.lock().unwrap().range(..=lsn).map(|(_, event)| *event) {
        match event {
            Event::Stored(number) => numbers.insert(number),
            Event::Purged(number) => numbers.remove(&number),
        };
    }
    numbers
}

fn read(store: &Store, oracle: &Oracle, round: u64) {
    let reader = store.reader();
    let mut numbers = BTreeSet::new();
    for slot in reader.live_slots(0) {
        let row = reader.row(slot).unwrap();
        let payload = reader.payload(&row).unwrap();
        assert_eq!(payload.id, format!("m{}", row.header.event_time_ms));
        assert_eq!(reader.vector(&row).unwrap(), support::unit(row.header.event_time_ms as u64));
        numbers.insert(row.header.event_time_ms);
    }
    assert_eq!(numbers.len() as u64, reader.live());
    assert_eq!(numbers, expected(oracle, reader.lsn()), "at LSN {}", reader.lsn());
    // What a caller may do while it reads.
    if round.is_multiple_of(3) {
        store.reader().tag_number("tag1");
        assert!(store.stats().unwrap().lsn >= reader.lsn());
    }
}

fn write(store: &Store, oracle: &Oracle, number: u64) {
    let mut writer = store.sequence().unwrap();
    let (_, lsn) = store_row(&mut writer, number, 200).unwrap();
    oracle.lock().unwrap().insert(lsn, Event::Stored(number as i64));
    // A writer may want to read what is published, and a reader may wait for what it wrote.
    let reader = number.is_multiple_of(5).then(|| store.reader());
    drop(writer);
    store.wait(lsn).unwrap();
    drop(reader);
}

fn purge(store: &Store, oracle: &Oracle, number: u64) {
    let mut writer = store.sequence().unwrap();
    let Some(lsn) = writer.purge(&format!("m{number}")).unwrap() else { return };
    oracle.lock().unwrap().insert(lsn, Event::Purged(number as i64));
    drop(writer);
    store.wait(lsn).unwrap();
    assert_eq!(store.reader().find_id(&format!("m{number}")).unwrap(), None);
}

fn everything_at_once() {
    let backend = MemoryBackend::new();
    let store = Store::open(backend.open("t").unwrap(), &StoreOptions { checkpoint_bytes: 64 << 10, ..options() }).unwrap();
    let (oracle, stop, reads, checkpoints) = (Oracle::default(), AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let going = || !stop.load(Ordering::Relaxed);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while going() {
                    read(&store, &oracle, reads.fetch_add(1, Ordering::Relaxed));
                    std::thread::sleep(Duration::from_millis(2));
                }
            });
        }
        for writer in 1..3 {
            let (store, oracle) = (&store, &oracle);
            scope.spawn(move || {
                for number in (writer..).step_by(2).take_while(|_| going()) {
                    write(store, oracle, number);
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
        }
        scope.spawn(|| {
            while going() {
                store.checkpoint().unwrap();
                checkpoints.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        scope.spawn(|| {
            for number in (2..).step_by(3).take_while(|_| going()) {
                purge(&store, &oracle, number);
                std::thread::sleep(Duration::from_millis(4));
            }
        });
        let started = Instant::now();
        while started.elapsed() < RUN {
            std::thread::sleep(Duration::from_millis(20));
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(store.verify().unwrap().problems, []);
    let (lsn, reads, checkpoints) = (store.reader().lsn(), reads.into_inner(), checkpoints.into_inner());
    println!("{lsn} records, {reads} dumps, {checkpoints} checkpoints");
    assert!(lsn > 50 && reads > 50 && checkpoints > 2, "{lsn} records, {reads} dumps, {checkpoints} checkpoints");
    drop(store);
    let store = Store::open(backend.open("t").unwrap(), &options()).unwrap();
    read(&store, &oracle, 0);
}

#[test]
fn readers_see_prefixes_and_nobody_waits_forever() {
    let (done, watch) = mpsc::channel();
    let worker = std::thread::spawn(move || {
        everything_at_once();
        done.send(()).unwrap();
    });
    match watch.recv_timeout(RUN * 10) {
        Ok(()) | Err(mpsc::RecvTimeoutError::Disconnected) => worker.join().unwrap(),
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("somebody waits forever"),
    }
}

/// A reader may outlive its store on the thread that drops it, with a purge still to be carried out.
#[test]
fn a_reader_outlives_a_store_with_a_purge_pending() {
    let backend = MemoryBackend::new();
    let store = Arc::new(Store::open(backend.open("t").unwrap(), &options()).unwrap());
    (0..3).for_each(|number| support::put(&store, number, 10).unwrap());
    let reader = store.reader();
    support::purge(&store, 1).unwrap();
    drop(store);
    let row = reader.row(1).unwrap();
    assert_eq!(reader.payload(&row).unwrap().id, "m1", "what a reader saw stays while it reads");
    drop(reader);
    let store = Store::open(backend.open("t").unwrap(), &options()).unwrap();
    assert_eq!(store.reader().live(), 2);
    drop(store);
    assert_eq!(support::files_with(&backend.export("t").unwrap().unwrap(), b"text of 1 "), Vec::<String>::new());
}
