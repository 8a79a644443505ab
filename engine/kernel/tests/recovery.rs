//! What recovery makes of whole files that are old, foreign, missing or half-way through a checkpoint.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod support;

use mnemolith_backends::{Backend, MemoryBackend, NamespaceImage, StorageErrorKind};
use mnemolith_kernel::{Durability, KernelError, Store, StoreOptions};
use support::{
    FaultyDirectory, amend, closed, dump, files_with, forget, frames, killed, open, options, purge, put, segments, store_row, unit,
};

fn refused(image: &NamespaceImage) -> KernelError {
    match open(image) {
        Ok((_, store)) => panic!("it opened with {} rows", dump(&store).rows.len()),
        Err(error) => error,
    }
}

fn corrupt(image: &NamespaceImage) -> (String, u64, Option<u64>) {
    match refused(image) {
        KernelError::Corrupt { file, offset, lsn, .. } => (file, offset, lsn),
        other => panic!("{other}"),
    }
}

/// A log of several segments, never closed: rows long enough that the first segments are full.
fn several_segments() -> NamespaceImage {
    let image = killed(None, |store| (0..12).for_each(|number| put(store, number, 100_000).unwrap()));
    assert_eq!(segments(&image).len(), 3);
    image
}

#[test]
fn a_cut_goes_on_in_a_new_epoch_and_nothing_old_comes_back() {
    let whole = killed(None, |store| (0..4).for_each(|number| put(store, number, 10).unwrap()));
    let path = segments(&whole)[0].clone();
    let last = frames(&whole.files[&path]).last().unwrap().0;
    let mut torn = whole.clone();
    torn.files.get_mut(&path).unwrap()[last + 100..].fill(0);
    let after = killed(Some(&torn), |store| (10..13).for_each(|number| put(store, number, 10).unwrap()));
    assert_eq!(segments(&after).len(), 2, "it goes on in a new segment");
    let expected = dump(&open(&after).unwrap().1);
    assert_eq!(expected.live, 6);
    assert_eq!(expected.rows.iter().map(|row| row.event_time_ms).collect::<Vec<_>>(), [0, 1, 2, 10, 11, 12]);
    // The frame that was cut off, back in its place: whole by its checksums, and of the old epoch.
    let mut back = after.clone();
    back.files.get_mut(&path).unwrap()[last..last + 4096].copy_from_slice(&whole.files[&path][last..last + 4096]);
    corrupt(&back);
    // Any old frame, in the place of any newer one or behind the last: never read as one of them.
    let newer = segments(&after)[1].clone();
    for (from, _) in frames(&whole.files[&path]) {
        for to in (4096..24_576).step_by(4096) {
            let mut mixed = after.clone();
            mixed.files.get_mut(&newer).unwrap()[to..to + 4096].copy_from_slice(&whole.files[&path][from..from + 4096]);
            match open(&mixed) {
                Ok((_, store)) => assert_eq!(dump(&store).rows[..], expected.rows[..dump(&store).rows.len()]),
                Err(error) => assert!(matches!(error, KernelError::Corrupt { .. }), "{error}"),
            }
        }
    }
}

#[test]
fn segments_that_were_swapped_copied_or_lost_are_refused() {
    let image = several_segments();
    let paths = segments(&image);
    for (from, to) in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)] {
        let mut copied = image.clone();
        copied.files.insert(paths[to].clone(), image.files[&paths[from]].clone());
        assert_eq!(corrupt(&copied).0, paths[to], "{from} over {to}");
        copied.files.insert(paths[from].clone(), image.files[&paths[to]].clone());
        corrupt(&copied);
    }
    for missing in &paths[..2] {
        let mut lost = image.clone();
        lost.files.remove(missing);
        corrupt(&lost);
        lost.files.insert(missing.clone(), vec![0; image.files[missing].len()]);
        corrupt(&lost);
    }
    let other = StoreOptions { entropy: [9; 24], ..options() };
    let backend = MemoryBackend::new();
    let store = Store::open(backend.open("t").unwrap(), &other).unwrap();
    put(&store, 70, 10).unwrap();
    drop(store);
    let foreign = backend.export("t").unwrap().unwrap();
    for path in &paths {
        let mut mixed = image.clone();
        mixed.files.insert(path.clone(), foreign.files[&segments(&foreign)[0]].clone());
        assert_eq!(&corrupt(&mixed).0, path);
    }
}

/// Recovery reads a segment whole: what it takes for one has to be no longer than one can be.
#[test]
fn a_file_longer_than_any_segment_is_refused_unread() {
    let mut image = several_segments();
    let last = segments(&image).pop().unwrap();
    let longest = (64 << 20) + 4 * 4096;
    image.files.get_mut(&last).unwrap().resize(longest, 0);
    assert_eq!(dump(&open(&image).unwrap().1).live, 12);
    image.files.get_mut(&last).unwrap().push(0);
    assert_eq!(corrupt(&image).0, last);
}

/// A file that the superblock counts on and that is gone is damage, whichever it is, and not some error of the device.
#[test]
fn a_missing_file_is_damage() {
    let image = closed(None, |store| (0..3).for_each(|number| put(store, number, 10).unwrap()));
    for path in image.files.keys() {
        let mut lost = image.clone();
        lost.files.remove(path);
        match open(&lost) {
            Ok((_, store)) => {
                assert!(path.ends_with(".idx"), "{path}: only what can be made anew may be missing");
                assert_eq!(dump(&store).live, 3);
            }
            Err(KernelError::Corrupt { .. }) => {}
            Err(error) => panic!("{path}: {error}"),
        }
    }
}

/// An obsolete segment that comes back (a backup tool, a directory entry that a crash revived) is not read.
#[test]
fn an_obsolete_segment_is_ignored() {
    let before = several_segments();
    let after = closed(Some(&before), |_| ());
    let expected = dump(&open(&after).unwrap().1);
    for path in segments(&before) {
        for damage in [0, 1, 2] {
            let mut image = after.clone();
            let mut bytes = before.files[&path].clone();
            match damage {
                1 => bytes[..4096].fill(0),
                2 => bytes.fill(0),
                _ => {}
            }
            if image.files.insert(path.clone(), bytes).is_none() {
                let image = killed(Some(&image), |store| assert_eq!(dump(store), expected));
                assert!(!image.files.contains_key(&path), "it was removed");
            }
        }
    }
    // The one the superblock names is needed, and not any other.
    let mut lost = after.clone();
    lost.files.retain(|path, _| !path.starts_with("wal/"));
    corrupt(&lost);
    lost.files.insert(segments(&before)[0].clone(), before.files[&segments(&before)[0]].clone());
    corrupt(&lost);
}

#[test]
fn a_damaged_header_before_frames_is_no_tail() {
    let image = several_segments();
    for path in segments(&image) {
        let mut flipped = image.clone();
        flipped.files.get_mut(&path).unwrap()[40] ^= 1;
        let (file, offset, lsn) = corrupt(&flipped);
        assert_eq!((&file, offset), (&path, 0));
        assert_eq!(lsn, path[4..24].parse().ok());
    }
}

#[test]
fn superblocks_that_are_missing_garbage_or_newer_are_refused() {
    let image = closed(None, |store| put(store, 0, 10).unwrap());
    let mut missing = image.clone();
    missing.files.remove("superblock");
    assert_eq!(corrupt(&missing).0, "superblock");
    let fresh = killed(None, |store| put(store, 0, 10).unwrap());
    let mut missing = fresh;
    missing.files.remove("superblock");
    missing.files.retain(|path, _| !path.starts_with("slabs/"));
    assert_eq!(corrupt(&missing).0, "superblock", "a log alone is data too");
    for len in [0, 1, 4096, 65_536, 131_072, 200_000] {
        let mut garbage = image.clone();
        garbage.files.insert("superblock".into(), (0..len).map(|at: u32| (at * 31 % 251) as u8).collect());
        assert!(corrupt(&garbage).0.ends_with("superblock"), "{len} bytes");
    }
    let mut newer = image.clone();
    for copy in newer.files.get_mut("superblock").unwrap().chunks_mut(65_536).filter(|copy| copy[0] != 0) {
        copy[8] = 77;
        let sum = crc32c::crc32c(&copy[..65_532]);
        copy[65_532..].copy_from_slice(&sum.to_le_bytes());
    }
    match refused(&newer) {
        KernelError::UnsupportedFormat { found, supported, .. } => assert_eq!((found, supported), (77, 1)),
        other => panic!("{other}"),
    }
}

#[test]
fn whoever_asks_for_another_store_is_told() {
    let backend = MemoryBackend::new();
    let named = StoreOptions { embedder: Some("hash".into()), ..options() };
    let store = Store::open(backend.open("t").unwrap(), &named).unwrap();
    let error = backend.open("t").unwrap_err();
    assert_eq!(error.kind, StorageErrorKind::AlreadyOpen { pid: Some(std::process::id()) });
    drop(store);
    let open = |options: &StoreOptions| Store::open(backend.open("t").unwrap(), options).map(|store| store.dimension());
    assert!(matches!(
        open(&StoreOptions { dimension: Some(17), ..named.clone() }),
        Err(KernelError::DimensionMismatch { stored: 16, given: 17 })
    ));
    assert!(matches!(open(&StoreOptions { embedder: Some("x".into()), ..named.clone() }), Err(KernelError::EmbedderMismatch { .. })));
    assert_eq!(open(&StoreOptions { dimension: None, embedder: None, ..named }).unwrap(), 16);
    for given in [0, 65_536] {
        let new = StoreOptions { dimension: Some(given), ..options() };
        let result = Store::open(MemoryBackend::new().open("t").unwrap(), &new);
        assert!(matches!(result, Err(KernelError::Dimension { .. })), "{given}");
    }
}

/// A process that dies at any call of a checkpoint leaves a store that opens to the same dump, goes on, and can be checkpointed.
#[test]
fn a_checkpoint_may_stop_at_any_call() {
    let before = closed(None, |store| {
        (0..20).for_each(|number| put(store, number, 10).unwrap());
        amend(store, 3).unwrap();
    });
    for call in 1.. {
        let backend = MemoryBackend::new();
        backend.import("t", &before).unwrap();
        let (directory, control) = FaultyDirectory::over(backend.open("t").unwrap());
        let store = Store::open(directory, &options()).unwrap();
        (20..30).for_each(|number| put(&store, number, 10).unwrap());
        amend(&store, 4).unwrap();
        amend(&store, 25).unwrap();
        forget(&store, 5).unwrap();
        let expected = dump(&store);
        control.fail_at(call, support::Fault::Io);
        let done = store.checkpoint();
        control.kill();
        drop(store);
        let image = backend.export("t").unwrap().unwrap();
        // Twice: the second checkpoint removes the snapshot that the first one left.
        let first = closed(Some(&image), |store| {
            assert_eq!(dump(store), expected, "stopped at call {call}");
            put(store, 40, 10).unwrap();
        });
        let second = closed(Some(&first), |store| {
            let found = dump(store);
            assert_eq!(found.rows[..found.rows.len() - 1], expected.rows[..], "stopped at call {call}, after another checkpoint");
            assert_eq!(found.live, expected.live + 1);
            assert_eq!(store.verify().unwrap().problems, [], "stopped at call {call}");
        });
        drop(second);
        if done.is_ok() {
            assert!(call > 5);
            return;
        }
    }
}

/// What a checkpoint wrote and the superblock does not name yet may or may not have reached the device.
#[test]
fn before_its_superblock_any_part_of_a_checkpoint_may_be_there() {
    let before = killed(None, |store| {
        (0..20).for_each(|number| put(store, number, 10).unwrap());
        store.checkpoint().unwrap();
        (20..30).for_each(|number| put(store, number, 10).unwrap());
        amend(store, 4).unwrap();
        forget(store, 5).unwrap();
    });
    let expected = dump(&open(&before).unwrap().1);
    let after = killed(Some(&before), |store| {
        store.checkpoint().unwrap();
    });
    let parts = ["index/state-", "index/0", "wal/"];
    for subset in 0..1 << parts.len() {
        let mut image = before.clone();
        let taken = |path: &str| parts.iter().enumerate().any(|(bit, part)| subset >> bit & 1 == 1 && path.starts_with(part));
        // Only what is added or replaced: removals come after the superblock.
        image.files.extend(after.files.iter().filter(|(path, _)| taken(path)).map(|(path, bytes)| (path.clone(), bytes.clone())));
        assert_eq!(dump(&open(&image).unwrap().1), expected, "subset {subset:b}");
        // After the superblock the pages may be there, or the old ones, or torn: the snapshot has them.
        let mut image = after.clone();
        for (path, bytes) in before.files.iter().filter(|(path, _)| path.ends_with("strength.slab") || path.ends_with("liveness.slab")) {
            let torn = [0, 512, 2048, 4096][subset % 4];
            image.files.get_mut(path).unwrap()[..torn].copy_from_slice(&bytes[..torn]);
        }
        let image = closed(Some(&image), |store| {
            assert_eq!(dump(store), expected, "torn pages {subset:b}");
            put(store, 50, 10).unwrap();
        });
        let found = dump(&open(&image).unwrap().1);
        assert_eq!(found.rows[..found.rows.len() - 1], expected.rows[..], "torn pages {subset:b}, a checkpoint later");
    }
}

const SECRET: &str = "text of 7 ";

fn vector_bytes(number: u64) -> Vec<u8> {
    unit(number).iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn assert_gone(image: &NamespaceImage, context: &str) {
    for needle in [SECRET.as_bytes(), &vector_bytes(7), b"only7", b"Only7"] {
        assert_eq!(files_with(image, needle), Vec::<String>::new(), "{context}: {:?}", String::from_utf8_lossy(needle));
    }
}

#[test]
fn a_purge_leaves_nothing_wherever_the_process_dies() {
    let before = killed(None, |store| {
        (0..10).for_each(|number| put(store, number, 10).unwrap());
        store.checkpoint().unwrap();
        (10..15).for_each(|number| put(store, number, 10).unwrap());
    });
    assert!(files_with(&before, SECRET.as_bytes()).len() >= 2);
    for call in 1.. {
        let backend = MemoryBackend::new();
        backend.import("t", &before).unwrap();
        let (directory, control) = FaultyDirectory::over(backend.open("t").unwrap());
        let store = Store::open(directory, &options()).unwrap();
        purge(&store, 7).unwrap();
        let expected = dump(&store);
        assert_eq!(expected.live, 14);
        control.fail_at(call, support::Fault::Io);
        let done = store.checkpoint();
        control.kill();
        drop(store);
        let image = backend.export("t").unwrap().unwrap();
        if done.is_ok() {
            assert_gone(&image, "checkpoint");
        }
        // Whatever the crash left, opening (and closing, where no superblock had marked it) finishes it.
        let image = killed(Some(&image), |store| {
            let found = dump(store);
            assert_eq!(found.rows, expected.rows, "stopped at call {call}");
            assert_eq!(store.verify().unwrap().problems, [], "stopped at call {call}");
        });
        assert_gone(&image, &format!("stopped at call {call}, opened again"));
        if done.is_ok() {
            return;
        }
    }
}

#[test]
fn a_purge_takes_the_name_of_a_session_that_only_it_had() {
    let image = closed(None, |store| {
        for (id, session) in [("a", "lonely"), ("b", "shared"), ("c", "shared"), ("d", "kept")] {
            let row = mnemolith_kernel::NewRow { id, session: Some(session), ..Default::default() };
            let lsn = store.sequence().unwrap().store(&row).unwrap().lsn;
            store.wait(lsn).unwrap();
        }
        for id in ["a", "b"] {
            let lsn = store.sequence().unwrap().purge(id).unwrap().unwrap();
            store.wait(lsn).unwrap();
        }
    });
    assert_eq!(files_with(&image, b"lonely"), Vec::<String>::new());
    let (_, store) = open(&image).unwrap();
    assert_eq!(["lonely", "shared", "kept"].map(|name| store.reader().session_number(name)), [None, Some(2), Some(3)]);
    let row = mnemolith_kernel::NewRow { id: "e", session: Some("lonely"), ..Default::default() };
    store.sequence().unwrap().store(&row).unwrap();
    assert_eq!(store.reader().session_number("lonely"), Some(4), "a number is never used again");
}

/// A memory that was never acknowledged left its bytes above the rows; stored again elsewhere and purged, it must be gone from both places.
#[test]
fn a_purge_finds_what_an_unacknowledged_attempt_left() {
    let backend = MemoryBackend::new();
    let (directory, control) = FaultyDirectory::over(backend.open("t").unwrap());
    let store = Store::open(directory, &options()).unwrap();
    put(&store, 0, 10).unwrap();
    // A slab that no checkpoint knows is made anew by replay.
    store.checkpoint().unwrap();
    control.kill();
    let mut writer = store.sequence().unwrap();
    let (_, first) = store_row(&mut writer, 50, 10).unwrap();
    store_row(&mut writer, 7, 10).unwrap();
    drop(writer);
    store.wait(first).unwrap_err();
    drop(store);
    let image = backend.export("t").unwrap().unwrap();
    assert!(!files_with(&image, SECRET.as_bytes()).is_empty());
    let image = closed(Some(&image), |store| {
        put(store, 7, 10).unwrap();
        purge(store, 7).unwrap();
    });
    assert_gone(&image, "stored again and purged");
}

/// A record too long for the segment at hand, with nothing in that segment yet.
#[test]
fn a_long_record_in_front_of_an_unused_segment() {
    let image = killed(None, |store| {
        put(store, 0, 400_000).unwrap();
        put(store, 1, 10).unwrap();
    });
    let image = killed(Some(&image), |store| {
        assert_eq!(dump(store).live, 2);
        store.checkpoint().unwrap();
        put(store, 2, 20_000_000).unwrap();
        put(store, 3, 10).unwrap();
    });
    let image = killed(Some(&image), |store| {
        assert_eq!(dump(store).live, 4);
        store.checkpoint().unwrap();
        put(store, 4, 10).unwrap();
    });
    assert_eq!(dump(&open(&image).unwrap().1).live, 5);
}

/// A record that is refused must leave no trace in how the next ones are laid out, or replay lays them out otherwise.
#[test]
fn a_refused_record_does_not_change_where_the_next_ones_go() {
    let image = killed(None, |store| {
        let huge = "x".repeat(70 << 20);
        let row = mnemolith_kernel::NewRow { id: "huge", text: Some(&huge), ..Default::default() };
        let error = store.sequence().unwrap().store(&row).unwrap_err();
        assert!(matches!(error, KernelError::TooLarge { .. }), "{error}");
        let row = mnemolith_kernel::NewRow { id: "short", vector: Some(&[1.0; 3]), ..Default::default() };
        let error = store.sequence().unwrap().store(&row).unwrap_err();
        assert!(matches!(error, KernelError::Dimension { given: 3 }), "{error}");
        let tags: Vec<_> = (0..256).map(|n| (n.to_string(), n.to_string())).collect();
        let row = mnemolith_kernel::NewRow { id: "tags", tags: &tags, ..Default::default() };
        assert!(matches!(store.sequence().unwrap().store(&row), Err(KernelError::TooLarge { .. })));
        (0..20).for_each(|number| put(store, number, 30_000).unwrap());
        // A flag that claims a vector the row does not have must not reach the log.
        let row = mnemolith_kernel::NewRow { id: "flag", flags: 0xff, ..Default::default() };
        let lsn = store.sequence().unwrap().store(&row).unwrap().lsn;
        store.wait(lsn).unwrap();
    });
    assert_eq!(open(&image).unwrap().1.reader().live(), 21);
}

/// What is only written survives the process in the buffered mode too.
#[test]
fn buffered_writes_survive_the_process() {
    let backend = MemoryBackend::new();
    let (directory, control) = FaultyDirectory::over(backend.open("t").unwrap());
    let store = Store::open(directory, &StoreOptions { durability: Durability::Buffered, ..options() }).unwrap();
    (0..200).for_each(|number| put(&store, number, 3000).unwrap());
    let expected = dump(&store);
    control.kill();
    drop(store);
    let image = backend.export("t").unwrap().unwrap();
    assert!(segments(&image).len() > 1);
    assert_eq!(dump(&open(&image).unwrap().1), expected);
}

/// Bytes above the rows that count say nothing, whatever they are.
#[test]
fn records_above_the_rows_are_harmless() {
    let mut image = closed(None, |store| (0..3).for_each(|number| put(store, number, 10).unwrap()));
    for (path, bytes) in &mut image.files {
        let row_bytes = 64;
        let counted = if path.starts_with("payload/") { 4096 } else { 3 * row_bytes };
        if path.ends_with("strength.slab")
            || path.ends_with("headers.slab")
            || path.ends_with("keys.slab")
            || path.ends_with("vectors.slab")
        {
            bytes[counted..counted + 1024].fill(0x5a);
        }
    }
    let image = killed(Some(&image), |store| {
        (3..30).for_each(|number| put(store, number, 10).unwrap());
        assert_eq!(dump(store).live, 30);
    });
    assert_eq!(dump(&open(&image).unwrap().1).live, 30);
}

/// A guess at what was purged must not be confirmed by what index and strength still say of it.
#[test]
fn a_purge_leaves_no_hash_and_no_strength() {
    let image = closed(None, |store| {
        (0..4).for_each(|number| put(store, number, 20).unwrap());
        amend(store, 2).unwrap();
    });
    let id_hash = (xxhash_rust::xxh3::xxh3_128(b"m2") as u64).to_le_bytes();
    let strength = "slabs/00000000/strength.slab";
    let record = |image: &NamespaceImage| image.files[strength][2 * 64..3 * 64].to_vec();
    assert!(!files_with(&image, &id_hash).is_empty() && record(&image) != [0; 64], "there is something to destroy");
    let purged = closed(Some(&image), |store| purge(store, 2).unwrap());
    assert_eq!(files_with(&purged, &id_hash), Vec::<String>::new());
    assert_eq!(record(&purged), [0; 64]);
    let (_backend, store) = open(&purged).unwrap();
    assert_eq!((store.verify().unwrap().problems, dump(&store).live), (Vec::new(), 3));
    put(&store, 2, 20).unwrap();
    assert!(store.reader().find_id("m2").unwrap().is_some());
}
