//! Every single-bit flip of the files of a slab, its payload, its index, the state snapshot and the superblock, after a clean close.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod support;

use std::collections::BTreeMap;

use mnemolith_backends::{Backend, MemoryBackend, NamespaceImage};
use mnemolith_kernel::{KernelError, Store};
use support::{DumpedRow, amend, closed, dump, dump_what_can_be_read, exhaustive, forget, open, open_mortal, purge, put, unit};

const ROWS: u64 = 20;

/// Rows of every kind: touched, forgotten, purged, plain.
fn image() -> NamespaceImage {
    let image = closed(None, |store| {
        (0..ROWS).for_each(|number| put(store, number, 20).unwrap());
        amend(store, 3).unwrap();
        forget(store, 5).unwrap();
        purge(store, 7).unwrap();
    });
    // Another checkpoint, whose snapshot does not carry the pages: what is read is what lies in place.
    let image = closed(Some(&image), |store| amend(store, 4).unwrap());
    closed(Some(&image), |store| {
        let lsn = store.sequence().unwrap().amend(vec![]).unwrap();
        store.wait(lsn).unwrap();
    })
}

/// A file and how many of its bytes count.
fn targets(image: &NamespaceImage) -> Vec<(String, usize)> {
    let counted = |path: &str, bytes: &[u8]| match path.rsplit('/').next().unwrap_or_default() {
        "headers.slab" | "keys.slab" | "vectors.slab" => ROWS as usize * 64,
        "strength.slab" | "liveness.slab" => 4096,
        _ if path.starts_with("payload/") => bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1),
        _ => bytes.len(),
    };
    let files = image.files.iter().filter(|(path, _)| !path.starts_with("wal/") && *path != "superblock");
    files.map(|(path, bytes)| (path.clone(), counted(path, bytes))).collect()
}

struct Case {
    image: NamespaceImage,
    rows: Vec<DumpedRow>,
    live: u64,
}

impl Case {
    fn flip(&self, backend: &MemoryBackend, path: &str, bit: usize) -> &'static str {
        let (at, bytes) = (bit / 8, &self.image.files[path]);
        let directory = backend.open("t").unwrap();
        directory.write_at(path, &[(at as u64, &[bytes[at] ^ (1 << (bit % 8))])]).unwrap();
        let (control, store) = open_mortal(directory);
        control.kill();
        let outcome = match store {
            Err(KernelError::Corrupt { .. }) => "open",
            Err(error) => panic!("{path} bit {bit}: {error}"),
            Ok(store) => self.opened(&store, path, bit),
        };
        backend.open("t").unwrap().write_at(path, &[(at as u64, &[bytes[at]])]).unwrap();
        outcome
    }

    fn opened(&self, store: &Store, path: &str, bit: usize) -> &'static str {
        let (found, refused) = dump_what_can_be_read(store);
        let is_known =
            |row: &DumpedRow| self.rows.binary_search_by_key(&row.slot, |known| known.slot).is_ok_and(|at| self.rows[at] == *row);
        assert!(found.rows.iter().all(is_known), "{path} bit {bit}: a wrong record");
        // A row that is kept out of the answers is counted out too; one that hydration refuses is missing and nothing else.
        assert_eq!(found.live, (found.rows.len() + refused.len()) as u64, "{path} bit {bit}");
        assert!(found.live + 1 >= self.live, "{path} bit {bit}: one flip, several rows");
        let reported = !store.verify().unwrap().problems.is_empty();
        match (refused.is_empty() && found.live == self.live, reported) {
            (false, true) => "hydration and verify",
            (true, true) => "verify",
            (true, false) => "harmless",
            (false, false) => panic!("{path} bit {bit}: a row is missing and verify is content"),
        }
    }
}

fn report(what: &str, counts: &BTreeMap<&str, u64>) {
    println!("{what}: {} flips, {counts:?}", counts.values().sum::<u64>());
}

#[test]
fn every_flip_of_a_slab_is_found() {
    let image = image();
    let expected = dump(&open(&image).unwrap().1);
    assert_eq!(expected.live, ROWS - 2);
    let case = Case { image, rows: expected.rows, live: expected.live };
    for (path, counted) in targets(&case.image) {
        let len = case.image.files[&path].len();
        let counts = support::in_halves(|part| {
            let backend = MemoryBackend::new();
            backend.import("t", &case.image).unwrap();
            let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
            let step = if exhaustive() { 1 } else { 37 };
            let bits = (0..counted * 8).filter(|bit| bit % step == 0 || bit / 8 < 8);
            for bit in bits.filter(|bit| bit / 37 % 2 == part) {
                *counts.entry(case.flip(&backend, &path, bit)).or_default() += 1;
            }
            // Above what counts: a page's checksum may notice, no row may suffer.
            for bit in (counted * 8..len * 8).step_by(if exhaustive() { 4_001 } else { 400_009 }).filter(|bit| bit / 3 % 2 == part) {
                let outcome = case.flip(&backend, &path, bit);
                assert!(["harmless", "verify", "open"].contains(&outcome), "{path} bit {bit}, above what counts: {outcome}");
                *counts.entry("above what counts").or_default() += 1;
            }
            counts
        });
        report(&path, &counts);
        let scrubbed_or_padding = counts.get("harmless").copied().unwrap_or(0) as usize;
        assert!(scrubbed_or_padding * 4 < counted * 8 / if exhaustive() { 1 } else { 37 } + 64, "{path}: flips that nothing finds");
    }
}

/// What a writer reads it may write again, under a checksum that then says that all is well.
#[test]
fn a_writer_is_given_nothing_damaged() {
    let mut image = closed(None, |store| (0..4).for_each(|number| put(store, number, 20).unwrap()));
    let vectors = "slabs/00000000/vectors.slab";
    image.files.get_mut(vectors).unwrap()[2 * 64 + 5] ^= 4;
    let (_backend, store) = open(&image).unwrap();
    let mut writer = store.sequence().unwrap();
    for slot in 0..4 {
        match writer.vector(slot) {
            Ok(values) => assert_eq!((slot == 2, values), (false, unit(slot).as_slice())),
            Err(KernelError::Corrupt { file, offset, .. }) => assert_eq!((slot, file.as_str(), offset), (2, vectors, 128)),
            Err(error) => panic!("{error}"),
        }
    }
    // It is not among the neighbours of what comes next either, and from then on in no answer.
    assert_eq!(writer.nearest(0, &unit(2), 512, 8).len(), 3);
    drop(writer);
    assert_eq!(store.reader().live(), 3);
}

/// A store without slabs opens fast enough to try all of the superblock.
#[test]
fn every_flip_of_a_superblock_is_found() {
    let image = closed(None, |store| {
        for _ in 0..2 {
            let lsn = store.sequence().unwrap().amend(vec![]).unwrap();
            store.wait(lsn).unwrap();
            store.checkpoint().unwrap();
        }
    });
    let case = Case { live: 0, rows: Vec::new(), image };
    let bytes = case.image.files["superblock"].len();
    let counts = support::in_halves(|part| {
        let backend = MemoryBackend::new();
        backend.import("t", &case.image).unwrap();
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        let chosen = |bit: &usize| exhaustive() || bit.is_multiple_of(211) || bit / 8 % 65_536 < 160;
        for bit in (0..bytes * 8).filter(chosen).filter(|bit| bit % 2 == part) {
            *counts.entry(case.flip(&backend, "superblock", bit)).or_default() += 1;
        }
        counts
    });
    report("superblock", &counts);
    assert!(!counts.contains_key("harmless"), "{counts:?}");
}
