//! What several test files need: seeded randomness, directory fingerprints, copies, stores on a manual clock.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mnemolith::{Builder, ManualClock, Memory, SeededEntropy, Timestamp};
use xxhash_rust::xxh3::xxh3_128;

/// SplitMix64.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// In [0, 1).
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A direction: the sum of four uniforms is near enough to a Gaussian for a test.
    pub(crate) fn vector(&mut self, dimension: usize) -> Vec<f32> {
        let mut vector: Vec<f32> = (0..dimension)
            .map(|_| {
                let bits = self.next();
                (0..4).map(|part| (bits >> (16 * part) & 0xffff) as f32 / 65_536.0 - 0.5).sum()
            })
            .collect();
        if vector.iter().all(|x| *x == 0.0) {
            vector[0] = 1.0;
        }
        vector
    }
}

pub(crate) fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

pub(crate) fn clock() -> ManualClock {
    ManualClock::new(at("2026-06-01T12:00:00Z"))
}

/// A namespace of vectors alone, on a clock that stands still, with a fixed identity.
pub(crate) fn vectors(path: &Path, dimension: usize, clock: &ManualClock) -> Builder {
    Memory::builder().path(path).dimension(dimension).no_embedder().clock(Arc::new(clock.clone())).entropy(Arc::new(SeededEntropy::new(7)))
}

/// A namespace with the built-in embedder, on a clock that stands still.
pub(crate) fn texts(path: &Path, clock: &ManualClock) -> Builder {
    Memory::builder().path(path).dimension(64).clock(Arc::new(clock.clone())).entropy(Arc::new(SeededEntropy::new(7)))
}

/// Every file below a directory but the locks, by relative path, with a hash of its bytes.
pub(crate) fn fingerprint(root: &Path) -> BTreeMap<PathBuf, u128> {
    files(root).into_iter().map(|path| (path.strip_prefix(root).unwrap().to_path_buf(), xxh3_128(&std::fs::read(&path).unwrap()))).collect()
}

/// Every file below a directory but the locks.
pub(crate) fn files(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name().is_some_and(|name| name != "LOCK") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Copies a directory as it lies there, locks left out: what a crash would have left.
pub(crate) fn copy(from: &Path, to: &Path) {
    for file in files(from) {
        let target = to.join(file.strip_prefix(from).unwrap());
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        std::fs::copy(&file, &target).unwrap();
    }
}
