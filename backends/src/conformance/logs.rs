//! Segments of the write-ahead log.

use super::{kind, list_checks, open, pattern};
use crate::{Backend, LogFile, StorageErrorKind};

list_checks!(
    a_new_log_is_zero_and_has_its_length,
    a_log_keeps_what_was_written,
    a_log_is_written_at_any_offset,
    a_log_does_not_grow,
    a_log_replaces_what_had_its_name,
    a_log_takes_writes_from_many_threads,
);

fn everything(log: &dyn LogFile) -> Vec<u8> {
    let mut bytes = vec![0xee; log.len() as usize];
    log.read_at(0, &mut bytes).unwrap();
    bytes
}

fn a_new_log_is_zero_and_has_its_length(backend: &dyn Backend) {
    let space = open(backend);
    assert_eq!(kind(space.open_log("log")), StorageErrorKind::NotFound);
    for len in [256 * 1024, 4096, 10_001, (2 << 20) + 1] {
        let log = space.create_log("log", len).unwrap();
        assert_eq!(log.len(), len);
        assert!(!log.is_empty());
        assert!(!log.method().is_empty());
        assert!(everything(&*log).iter().all(|byte| *byte == 0));
        assert_eq!(space.open_log("log").unwrap().len(), len);
    }
    assert!(space.create_log("log", 0).unwrap().is_empty());
}

fn a_log_keeps_what_was_written(backend: &dyn Backend) {
    let space = open(backend);
    let log = space.create_log("log", 64 * 1024).unwrap();
    let mut expected = vec![0; 64 * 1024];
    for frame in 0..8_usize {
        let bytes = pattern(4096, frame as u8);
        match frame % 2 {
            0 => log.write_durable_at(frame as u64 * 4096, &bytes).unwrap(),
            _ => log.write_at(frame as u64 * 4096, &bytes).unwrap(),
        }
        expected[frame * 4096..][..4096].copy_from_slice(&bytes);
    }
    log.sync().unwrap();
    assert_eq!(everything(&*log), expected);
    drop(log);
    assert_eq!(everything(&*space.open_log("log").unwrap()), expected);
    drop(space);
    assert_eq!(everything(&*open(backend).open_log("log").unwrap()), expected);
}

fn a_log_is_written_at_any_offset(backend: &dyn Backend) {
    let len = 3 << 20;
    let log = open(backend).create_log("log", len).unwrap();
    let mut expected = vec![0; len as usize];
    for (seed, (offset, size)) in
        [(0, 1), (3, 4096), (4095, 2), (511, 513), (len - 1, 1), (777_777, 2 << 20), (5, 0)].into_iter().enumerate()
    {
        let bytes = pattern(size, seed as u8);
        log.write_durable_at(offset, &bytes).unwrap();
        expected[offset as usize..][..size].copy_from_slice(&bytes);
        let mut back = vec![0; size];
        log.read_at(offset, &mut back).unwrap();
        assert_eq!(back, bytes);
    }
    assert_eq!(everything(&*log), expected);
}

fn a_log_does_not_grow(backend: &dyn Backend) {
    let log = open(backend).create_log("log", 5000).unwrap();
    for (offset, size) in [(5000, 1), (4999, 2), (0, 5001), (u64::MAX, 1), (u64::MAX - 4, 5), (5001, 0)] {
        let mut bytes = vec![7; size];
        assert_eq!(kind(log.write_durable_at(offset, &bytes)), StorageErrorKind::Io, "{size} at {offset}");
        assert_eq!(kind(log.write_at(offset, &bytes)), StorageErrorKind::Io, "{size} at {offset}");
        assert_eq!(kind(log.read_at(offset, &mut bytes)), StorageErrorKind::Io, "{size} at {offset}");
    }
    log.read_at(5000, &mut []).unwrap();
    assert_eq!(log.len(), 5000);
    assert_eq!(everything(&*log), [0; 5000]);
}

fn a_log_replaces_what_had_its_name(backend: &dyn Backend) {
    let space = open(backend);
    let old = space.create_log("log", 4096).unwrap();
    old.write_durable_at(0, &[1; 4096]).unwrap();
    let new = space.create_log("log", 8192).unwrap();
    old.write_durable_at(0, &[2; 4096]).unwrap();
    assert_eq!(everything(&*new), [0; 8192], "the old handle writes to the old file");
    assert_eq!(everything(&*old), [2; 4096]);
}

fn a_log_takes_writes_from_many_threads(backend: &dyn Backend) {
    const THREADS: usize = 4;
    const PIECES: usize = 16;
    let log = open(backend).create_log("log", (THREADS * PIECES * 1000) as u64).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let log = &log;
            scope.spawn(move || {
                for piece in (0..PIECES).map(|piece| piece * THREADS + thread) {
                    log.write_durable_at(piece as u64 * 1000, &pattern(1000, piece as u8)).unwrap();
                }
            });
        }
    });
    let expected: Vec<u8> = (0..THREADS * PIECES).flat_map(|piece| pattern(1000, piece as u8)).collect();
    assert_eq!(everything(&*log), expected);
}
