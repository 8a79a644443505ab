//! Many namespaces in one process: threads and descriptors stay bounded.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]
#![allow(clippy::disallowed_methods, reason = "what the process holds is read from /proc")]

mod support;

use std::time::Duration;

use mnemolith_backends::{Backend, FileBackend};
use mnemolith_kernel::{Store, StoreOptions};
use support::{options, put};

const NAMESPACES: usize = 64;

fn threads() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    status.lines().find_map(|line| line.strip_prefix("Threads:")).unwrap().trim().parse().unwrap()
}

/// What the open descriptors below a directory point to.
fn descriptors(root: &std::path::Path) -> Vec<String> {
    let links = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    links.filter(|target| target.starts_with(root)).map(|target| target.display().to_string()).collect()
}

/// Looks again for a while: threads rest and end in their own time.
fn eventually(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..500 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("{what}");
}

#[test]
fn idle_namespaces_hold_nothing_but_their_lock() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path().canonicalize().unwrap();
    let backend = FileBackend::new(&root);
    let before = threads();
    let open = |number: usize| {
        let name = format!("n{number}");
        Store::open(backend.open(&name).unwrap(), &StoreOptions { namespace: name, ..options() }).unwrap()
    };
    let stores: Vec<Store> = (0..NAMESPACES).map(open).collect();
    let mut most = 0;
    for round in 0..3 {
        std::thread::scope(|scope| {
            for part in stores.chunks(NAMESPACES / 8) {
                scope.spawn(move || part.iter().for_each(|store| put(store, round, 100).unwrap()));
            }
            most = most.max(threads());
        });
    }
    // Eight here and four writers; as many may have finished and not be gone yet.
    assert!(most <= before + 2 * (8 + 4), "{most} threads");
    eventually("an idle namespace holds more than its lock", || descriptors(&root).len() == NAMESPACES);
    assert!(descriptors(&root).iter().all(|target| target.ends_with("/LOCK")), "{:?}", descriptors(&root));
    eventually("threads without work stay", || threads() == before);
    // Whoever writes again gets its descriptors, and gives them back.
    put(&stores[0], 10, 100).unwrap();
    eventually("descriptors are kept", || descriptors(&root).len() == NAMESPACES);
    drop(stores);
    eventually("a closed namespace holds something", || descriptors(&root).is_empty());
    for number in 0..NAMESPACES {
        assert_eq!(open(number).reader().live(), if number == 0 { 4 } else { 3 });
    }
    println!("{most} threads at most, {NAMESPACES} descriptors at rest");
}
