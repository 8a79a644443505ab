//! Namespaces: cheap, apart from each other, locked while open, and removable.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::disallowed_methods)]

mod common;

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use common::{clock, fingerprint, texts, vectors};
use mnemolith::{Builder, Embedder, Error, HashingEmbedder, Memory, RecallQuery, RememberRequest, Result};

/// Descriptors and threads are counted for the whole process: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn builder(path: &Path, name: &str) -> Builder {
    Memory::builder().path(path).namespace(name).clock(Arc::new(clock()))
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn threads() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("Threads:")).unwrap();
    line.trim().parse().unwrap()
}

/// Bytes that a directory really takes.
fn allocated(path: &Path) -> u64 {
    common::files(path).iter().map(|file| std::fs::metadata(file).unwrap().blocks() * 512).sum()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

#[test]
fn an_empty_namespace_is_small_and_opens_at_once() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let timed = |name: &str| {
        let started = Instant::now();
        let memory = builder(folder.path(), name).open().unwrap();
        let elapsed = started.elapsed();
        assert_eq!(memory.stats().unwrap().live, 0);
        memory.close().unwrap();
        elapsed
    };
    let created = median((0..15).map(|i| timed(&format!("n{i}"))).collect());
    let reopened = median((0..15).map(|i| timed(&format!("n{i}"))).collect());
    let bytes = allocated(&folder.path().join("n0"));
    println!("an empty namespace: {bytes} bytes, made in {created:.1?}, opened in {reopened:.1?}");
    assert!(bytes <= 2 << 20, "{bytes}");
    assert!(reopened < Duration::from_millis(10), "{reopened:?}");
    let memory = builder(folder.path(), "n0").open().unwrap();
    assert!(memory.stats().unwrap().disk_bytes <= 2 << 20);
    assert!(memory.recall(RecallQuery::new("anything")).unwrap().hits.is_empty());
}

const MAKERS: usize = 16;

/// Waits until the process holds no more descriptors than that; how many it holds.
fn settled(most: usize) -> usize {
    let started = Instant::now();
    while descriptors() > most && started.elapsed() < Duration::from_secs(15) {
        std::thread::sleep(Duration::from_millis(20));
    }
    descriptors()
}

#[test]
fn a_thousand_namespaces_take_few_descriptors_and_threads() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let name = |i: usize| format!("agent-{i}");
    let words = |i: usize| format!("the secret number of agent {i} is {}", i * i);
    let (before, threads_before) = (descriptors(), threads());
    let (mut most_descriptors, mut most_threads) = (0, 0);
    let started = Instant::now();
    // Making one is a matter of waiting for the device: several at a time wait together.
    std::thread::scope(|scope| {
        let make = |maker: usize| {
            let (name, words, path) = (&name, &words, folder.path());
            scope.spawn(move || {
                for i in (maker..1000).step_by(MAKERS) {
                    let memory = builder(path, &name(i)).open().unwrap();
                    memory.remember(RememberRequest::new(words(i)).id("secret")).unwrap();
                    memory.close().unwrap();
                }
            })
        };
        let makers: Vec<_> = (0..MAKERS).map(make).collect();
        while makers.iter().any(|maker| !maker.is_finished()) {
            (most_descriptors, most_threads) = (most_descriptors.max(descriptors()), most_threads.max(threads()));
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    println!("1000 made and written in {:.1?}, {most_descriptors} descriptors and {most_threads} threads at most", started.elapsed());
    assert!(most_descriptors <= before + 16 * MAKERS && most_threads <= threads_before + MAKERS + 8);

    let started = Instant::now();
    for i in 0..1000 {
        let memory = builder(folder.path(), &name(i)).open().unwrap();
        let hits = memory.recall(RecallQuery::new("secret number")).unwrap().hits;
        assert_eq!(hits.len(), 1);
        assert_eq!(hits[0].text, Some(words(i)));
        if i % 100 == 0 {
            assert!(memory.verify().unwrap().is_clean());
            assert_eq!(memory.namespaces().unwrap().len(), 1000);
        }
    }
    println!("1000 opened and checked in {:.1?}", started.elapsed());
    assert!(descriptors() <= before + 16, "{} before and {} after", before, descriptors());

    let open: Vec<Memory> = (0..200).map(|i| builder(folder.path(), &name(i)).open().unwrap()).collect();
    assert!(descriptors() <= before + 200 + 8, "{} for 200 that were only opened", descriptors() - before);
    for memory in &open {
        memory.remember(RememberRequest::new("all of them are in use").id("use")).unwrap();
    }
    let in_use = descriptors() - before;
    let idle = settled(before + 200 + 8) - before;
    let threads = threads();
    println!("200 open: {in_use} descriptors after each wrote, {idle} when idle, {threads} threads");
    assert!(idle <= 200 + 8, "{idle} descriptors for 200 idle namespaces");
    assert!(threads <= threads_before + 8, "{threads_before} and {threads} threads");
    for memory in &open {
        memory.remember(RememberRequest::new("and they wake up again")).unwrap();
        assert_eq!(memory.stats().unwrap().live, 3);
    }
    drop(open);
    assert!(settled(before + 8) <= before + 8);
}

#[test]
fn a_second_handle_is_told_who_has_it() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let memory = texts(folder.path(), &clock()).open().unwrap();
    let error = texts(folder.path(), &clock()).open().unwrap_err();
    let Error::AlreadyOpen { pid, path } = &error else { panic!("{error}") };
    assert_eq!((*pid, path.ends_with("default")), (Some(std::process::id()), true));
    assert!(error.to_string().contains(&std::process::id().to_string()));
    // A clone is the same handle: the namespace stays locked until the last one is gone, closed or not.
    let clone = memory.clone();
    memory.close().unwrap();
    assert_eq!(clone.get("a").unwrap_err(), Error::Closed);
    assert_eq!(clone.remember(RememberRequest::new("late")).unwrap_err().into_error(), Error::Closed);
    assert!(matches!(texts(folder.path(), &clock()).open(), Err(Error::AlreadyOpen { .. })));
    drop(clone);
    texts(folder.path(), &clock()).open().unwrap();
}

#[test]
fn names_are_checked_and_namespaces_do_not_see_each_other() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let longest = "n".repeat(63);
    for name in ["a", "0", "-", "_", "agent-7_x", longest.as_str()] {
        let memory = builder(folder.path(), name).open().unwrap();
        memory.remember(RememberRequest::new(format!("only in {name}")).id("same")).unwrap();
    }
    for name in ["a", "0", "-", "_", "agent-7_x", longest.as_str()] {
        let memory = builder(folder.path(), name).open().unwrap();
        assert_eq!(memory.get("same").unwrap().unwrap().text, Some(format!("only in {name}")));
        assert_eq!(memory.recall(RecallQuery::new("only")).unwrap().hits.len(), 1);
        assert_eq!(memory.namespaces().unwrap().len(), 6);
    }
    let sorted = builder(folder.path(), "a").open().unwrap().namespaces().unwrap();
    assert!(sorted.is_sorted() && sorted.contains(&longest), "{sorted:?}");
    let too_long = "n".repeat(64);
    for name in ["", "A", "a.b", "a/b", "..", "ä", "a b", too_long.as_str()] {
        assert!(matches!(builder(folder.path(), name).open(), Err(Error::InvalidName { .. })), "{name:?}");
    }
}

#[test]
fn a_dropped_namespace_is_gone_with_all_it_held() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let keep = builder(folder.path(), "keep").open().unwrap();
    let gone = builder(folder.path(), "gone").open().unwrap();
    gone.remember(RememberRequest::new("an unforgettable word: xyzzyplugh").id("a")).unwrap();
    assert!(matches!(keep.drop_namespace("gone"), Err(Error::AlreadyOpen { pid: Some(pid), .. }) if pid == std::process::id()));
    assert!(matches!(keep.drop_namespace("keep"), Err(Error::AlreadyOpen { .. })));
    assert_eq!(gone.stats().unwrap().live, 1);
    gone.close().unwrap();
    let files = fingerprint(&folder.path().join("keep"));
    assert!(keep.drop_namespace("gone").unwrap());
    assert!(!keep.drop_namespace("gone").unwrap());
    assert_eq!(keep.namespaces().unwrap(), ["keep"]);
    assert!(!folder.path().join("gone").exists());
    assert_eq!(fingerprint(&folder.path().join("keep")), files);
    let again = builder(folder.path(), "gone").dimension(9).open().unwrap();
    assert_eq!((again.stats().unwrap().live, again.stats().unwrap().dimension), (0, 9));
    assert_eq!(again.get("a").unwrap(), None);
}

struct Other;

impl Embedder for Other {
    fn identity(&self) -> String {
        "other-model-2".to_owned()
    }
    fn dimension(&self) -> usize {
        8
    }
    fn embed(&self, text: &str) -> Result<Vec<f32>> {
        Ok(vec![text.len() as f32; 8])
    }
}

#[test]
fn another_dimension_or_embedder_is_refused_and_changes_nothing() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    texts(folder.path(), &clock()).open().unwrap().remember(RememberRequest::new("kept")).unwrap();
    let files = fingerprint(folder.path());
    let error = texts(folder.path(), &clock()).dimension(65).open().unwrap_err();
    assert_eq!(error, Error::DimensionMismatch { stored: 64, given: 65 });
    assert!(error.to_string().contains("64") && error.to_string().contains("65"));
    let stored = HashingEmbedder::new(64).unwrap().identity();
    let error = Memory::builder().path(folder.path()).no_embedder().open().unwrap_err();
    assert_eq!(error, Error::EmbedderMismatch { stored: stored.clone(), given: "none".to_owned() });
    let error = Memory::builder().path(folder.path()).embedder(Arc::new(Other)).open().unwrap_err();
    assert!(matches!(error, Error::DimensionMismatch { .. } | Error::EmbedderMismatch { .. }), "{error}");
    let error = Memory::builder().path(folder.path()).embedder(Arc::new(Other)).dimension(64).open().unwrap_err();
    assert_eq!(error.code(), "InvalidField", "{error}");
    assert_eq!(fingerprint(folder.path()), files);
    // Without a word about either, the namespace says what it is.
    let memory = Memory::open(folder.path()).unwrap();
    assert_eq!((memory.stats().unwrap().dimension, memory.stats().unwrap().embedder), (64, stored));

    let named = tempfile::tempdir().unwrap();
    let open = || Memory::builder().path(named.path()).embedder(Arc::new(Other)).open();
    open().unwrap().remember(RememberRequest::new("by another model")).unwrap();
    assert_eq!(open().unwrap().stats().unwrap().embedder, "other-model-2");
    let error = Memory::open(named.path()).unwrap_err();
    let Error::EmbedderMismatch { stored, .. } = &error else { panic!("{error}") };
    assert_eq!(stored, "other-model-2");

    let plain = tempfile::tempdir().unwrap();
    vectors(plain.path(), 8, &clock()).open().unwrap();
    assert!(matches!(Memory::builder().path(plain.path()).embedder(Arc::new(Other)).open(), Err(Error::EmbedderMismatch { .. })));
    assert_eq!(Memory::open(plain.path()).unwrap().stats().unwrap().embedder, "none");
}
