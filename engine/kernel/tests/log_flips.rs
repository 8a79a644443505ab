//! Every single-bit flip of a log segment that holds 64 KiB of frames.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod support;

use std::collections::BTreeMap;

use mnemolith_backends::{Backend, MemoryBackend, NamespaceImage};
use mnemolith_kernel::KernelError;
use support::{Dump, dump, exhaustive, frames, killed, open_mortal, put, segments};

const CONTENT_BYTES: usize = 64 << 10;

fn image() -> (NamespaceImage, Vec<Dump>) {
    let mut dumps = vec![Dump::default()];
    let mut image = killed(None, |store| {
        for number in 0.. {
            put(store, number, 3000).unwrap();
            let lsn = store.reader().lsn();
            dumps.push(dump(store));
            if (1 + lsn) as usize * 4096 == CONTENT_BYTES {
                break;
            }
        }
    });
    // Nothing of the mapped files reached the disk: the log alone rebuilds it.
    image.files.retain(|path, _| !path.starts_with("slabs/") && !path.starts_with("payload/"));
    (image, dumps)
}

struct Case {
    path: String,
    image: NamespaceImage,
    dumps: Vec<Dump>,
    frames: Vec<(usize, u64)>,
}

impl Case {
    /// What becomes of the store with this bit flipped.
    fn flip(&self, backend: &MemoryBackend, bit: usize) -> &'static str {
        let directory = backend.open("t").unwrap();
        let (at, bytes) = (bit / 8, &self.image.files[&self.path]);
        directory.write_at(&self.path, &[(at as u64, &[bytes[at] ^ (1 << (bit % 8))])]).unwrap();
        let (control, store) = open_mortal(directory);
        let last = self.dumps.len() as u64 - 1;
        let outcome = match store {
            Err(KernelError::Corrupt { file, offset, lsn, .. }) => {
                let (start, expected) = self.frames.iter().rev().find(|frame| frame.0 <= at).copied().unwrap_or((0, 1));
                assert_eq!((file.as_str(), offset, lsn), (self.path.as_str(), start as u64, Some(expected)), "bit {bit}");
                assert!(at < CONTENT_BYTES);
                // Whoever refuses changes nothing: the bit back, and all is as it was.
                backend.open("t").unwrap().write_at(&self.path, &[(at as u64, &[bytes[at]])]).unwrap();
                "Corrupt, with its place"
            }
            Err(error) => panic!("bit {bit}: {error}"),
            Ok(store) => {
                let found = dump(&store);
                assert_eq!(&found, &self.dumps[found.lsn as usize], "bit {bit}");
                assert!(found.lsn + 1 >= last, "bit {bit} lost what a later frame vouches for");
                assert_eq!(store.verify().unwrap().problems, [], "bit {bit} was left behind");
                control.kill();
                drop(store);
                backend.import("t", &self.image).unwrap();
                if found.lsn == last { "harmless: destroyed with the tail" } else { "cut: the last frame, for which nothing vouches" }
            }
        };
        let in_last = at >= self.frames.last().unwrap().0 && at < CONTENT_BYTES;
        assert_eq!(outcome.starts_with("cut"), in_last, "bit {bit}: {outcome}");
        assert_eq!(outcome.starts_with("harmless"), at >= CONTENT_BYTES, "bit {bit}: {outcome}");
        outcome
    }
}

#[test]
fn every_flip_is_found_or_harmless() {
    let (image, dumps) = image();
    let path = segments(&image).pop().unwrap();
    let case = Case { frames: frames(&image.files[&path]), path, image, dumps };
    assert_eq!(case.frames.len(), CONTENT_BYTES / 4096 - 1);
    let all = case.image.files[&case.path].len() * 8;
    let is_header = |bit: usize| bit < 128 * 8 || (bit < CONTENT_BYTES * 8 && bit / 8 % 4096 < 64);
    let is_chosen = |bit: &usize| match (exhaustive(), *bit < CONTENT_BYTES * 8) {
        (true, true) => true,
        (true, false) => bit.is_multiple_of(37),
        (false, true) => bit.is_multiple_of(37) || is_header(*bit),
        (false, false) => bit.is_multiple_of(3701),
    };
    let run = |part: usize| {
        let backend = MemoryBackend::new();
        backend.import("t", &case.image).unwrap();
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        for bit in (0..all).filter(is_chosen).filter(|bit| bit / 8 % 2 == part) {
            *counts.entry(case.flip(&backend, bit)).or_default() += 1;
        }
        counts
    };
    let mut counts = support::in_halves(run);
    counts.insert("all", counts.values().sum());
    println!("log: {counts:?}");
}
