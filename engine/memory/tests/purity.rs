//! Reading writes nothing, and readers see one prefix of what each writer wrote.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::disallowed_methods)]

mod common;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use common::{Random, clock, fingerprint, texts, vectors};
use mnemolith::{Durability, ListQuery, Memory, MemoryRecord, Profile, RecallQuery, Reinforce, RememberRequest, Tier, Update};

const WORDS: [&str; 12] =
    ["deploy", "secret", "garden", "radiator", "invoice", "Lisbon", "painter", "database", "backup", "meeting", "kettle", "train"];

fn sentence(random: &mut Random) -> String {
    (0..6).map(|_| WORDS[random.below(12) as usize]).collect::<Vec<_>>().join(" ")
}

/// A store with everything in it: tags, sessions, updates, reinforcements, gaps.
fn lived_in(path: &Path) -> Memory {
    let memory = texts(path, &clock()).open().unwrap();
    let mut random = Random::new(3);
    for i in 0..300 {
        let request = RememberRequest::new(format!("{} {i}", sentence(&mut random)))
            .id(format!("m{i}"))
            .tier(Tier::ALL[i % 4])
            .tag(WORDS[i % 12])
            .session(format!("s{}", i % 5))
            .valence(i as i64 % 127);
        let _ = memory.remember_begin(request).unwrap();
    }
    for i in 0..20 {
        memory.forget(&format!("m{}", i * 7)).unwrap();
        memory.reinforce(Reinforce::new(format!("m{}", i * 7 + 1), 0.3)).unwrap();
    }
    memory.update("m2", Update::new().text("something else entirely")).unwrap();
    memory
}

fn questions() -> Vec<RecallQuery> {
    let mut random = Random::new(5);
    let mut questions: Vec<_> = Profile::ALL.into_iter().map(|profile| RecallQuery::new(sentence(&mut random)).profile(profile)).collect();
    questions.push(RecallQuery::new("kettle").tags_all(["deploy"]).explain(true));
    questions.push(RecallQuery::new("train").tags_any(["Kettle", "garden"]).mood(30).k(400).exact(true));
    questions.push(RecallQuery::new("train").session("s3").tiers([Tier::Episodic]).k(0));
    questions
}

/// Every reading call there is, and what it said.
fn read_everything(memory: &Memory) -> String {
    let mut said = String::new();
    for question in questions() {
        said += &format!("{:?}\n", memory.recall(question.clone()).unwrap());
        for id in ["m0", "m1", "m2", "nobody"] {
            said += &format!("{:?}\n", memory.why_not(id, question.clone()).unwrap());
        }
    }
    for id in ["m0", "m1", "m2", "m299", "nobody"] {
        said += &format!("{:?}\n", memory.get(id).unwrap());
    }
    said += &format!("{:?}\n", everything(memory));
    said += &format!("{:?}\n{:?}\n", memory.stats().unwrap(), memory.verify().unwrap());
    said + &format!("{:?}\n", memory.namespaces().unwrap())
}

fn everything(memory: &Memory) -> Vec<MemoryRecord> {
    let mut records = Vec::new();
    let mut query = ListQuery::new().limit(70);
    loop {
        let page = memory.list(query).unwrap();
        records.extend(page.memories);
        match page.cursor {
            Some(cursor) => query = ListQuery::new().limit(70).cursor(cursor),
            None => return records,
        }
    }
}

#[test]
fn equal_readings_give_equal_bytes_and_change_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let memory = lived_in(folder.path());
    let files = fingerprint(folder.path());
    let first = read_everything(&memory);
    assert!(first.contains("something else entirely") && first.len() > 100_000);
    assert_eq!(read_everything(&memory), first);
    assert_eq!(fingerprint(folder.path()), files);
    // A read in the middle of other reads, on other threads, is the same read.
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..4).map(|_| scope.spawn(|| read_everything(&memory))).collect();
        readers.into_iter().for_each(|reader| assert_eq!(reader.join().unwrap(), first));
    });
    assert_eq!(fingerprint(folder.path()), files);
}

#[test]
fn opening_reading_and_closing_changes_no_file() {
    let folder = tempfile::tempdir().unwrap();
    lived_in(folder.path()).close().unwrap();
    let files = fingerprint(folder.path());
    let mut said = Vec::new();
    for durability in [Durability::Sync, Durability::Buffered, Durability::Sync] {
        let memory = texts(folder.path(), &clock()).durability(durability).open().unwrap();
        said.push(read_everything(&memory));
        assert_eq!(fingerprint(folder.path()), files, "while it is open");
        memory.close().unwrap();
        assert_eq!(fingerprint(folder.path()), files, "after it was closed");
    }
    assert!(said.windows(2).all(|pair| pair[0] == pair[1]));
    // Dropping the handle without closing is no different.
    drop(texts(folder.path(), &clock()).open().unwrap());
    assert_eq!(fingerprint(folder.path()), files);
}

// ---- readers beside writers --------------------------------------------------------------------------------------------------------

const WRITERS: usize = 2;
const EACH: usize = 1500;

fn vector(writer: usize, n: usize) -> Vec<f32> {
    Random::new((writer * EACH + n) as u64).vector(16)
}

/// What a reader saw of each writer: the numbers, in the order they were listed.
fn seen_of<'a>(writer: usize, ids: impl Iterator<Item = &'a str>) -> Vec<usize> {
    let prefix = format!("w{writer}-");
    ids.filter_map(|id| id.strip_prefix(&prefix)).map(|number| number.parse().unwrap()).collect()
}

/// All numbers below the greatest are there, but for those that may be forgotten by now.
fn check_prefix(numbers: &BTreeSet<usize>, acknowledged: usize, forgettable: impl Fn(usize) -> bool) {
    let Some(&greatest) = numbers.last() else {
        assert!((0..acknowledged).all(forgettable), "{acknowledged} acknowledged, none seen");
        return;
    };
    let missing: Vec<usize> = (0..greatest).filter(|n| !numbers.contains(n) && !forgettable(*n)).collect();
    assert!(missing.is_empty(), "{greatest} is seen and {missing:?} are not");
    let unseen: Vec<usize> = (greatest + 1..acknowledged).filter(|n| !forgettable(*n)).collect();
    assert!(unseen.is_empty(), "acknowledged before the read, and not seen: {unseen:?}");
}

#[test]
fn readers_see_a_prefix_of_every_writer() {
    let folder = tempfile::tempdir().unwrap();
    let memory = vectors(folder.path(), 16, &clock()).durability(Durability::Buffered).novelty_window(8).open().unwrap();
    let done = AtomicBool::new(false);
    let acknowledged = [AtomicU64::new(0), AtomicU64::new(0)];
    let forgotten = AtomicU64::new(0);
    let reads = AtomicU64::new(0);
    // Every fifth memory of writer 0 may be forgotten, and no other.
    let forgettable = |writer: usize| move |n: usize| writer == 0 && n.is_multiple_of(5);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (memory, acknowledged) = (&memory, &acknowledged);
                scope.spawn(move || {
                    for n in 0..EACH {
                        let request =
                            RememberRequest::from_vector(vector(writer, n)).id(format!("w{writer}-{n}")).tag(format!("t{writer}"));
                        memory.remember(request).unwrap();
                        acknowledged[writer].store(n as u64 + 1, Ordering::SeqCst);
                    }
                })
            })
            .collect();
        let forgetter = scope.spawn(|| {
            for n in (0..EACH).step_by(5) {
                while acknowledged[0].load(Ordering::SeqCst) <= n as u64 || acknowledged[1].load(Ordering::SeqCst) <= n as u64 {
                    std::thread::yield_now();
                }
                assert!(memory.forget(&format!("w0-{n}")).unwrap());
                forgotten.store(n as u64 / 5 + 1, Ordering::SeqCst);
                memory.reinforce(Reinforce::new(format!("w1-{n}"), 1.0)).unwrap();
                if n % 100 == 0 {
                    memory.checkpoint().unwrap();
                }
            }
        });
        for reader in 0..8 {
            let (memory, done, acknowledged, forgotten, reads) = (&memory, &done, &acknowledged, &forgotten, &reads);
            scope.spawn(move || {
                let mut random = Random::new(reader);
                while !done.load(Ordering::SeqCst) {
                    let writer = random.below(2) as usize;
                    let mut before = acknowledged[writer].load(Ordering::SeqCst) as usize;
                    let forgotten = forgotten.load(Ordering::SeqCst) as usize;
                    let numbers: BTreeSet<usize> = if reader % 2 == 0 {
                        // One recall, whole: everything the writer has.
                        let query = RecallQuery::from_vector(vector(writer, 1)).k(10 * EACH).tags_all([format!("t{writer}")]);
                        let recall = memory.recall(query).unwrap();
                        assert_eq!(recall.hits.len() as u64, recall.plan.admitted, "the filters and the hits belong to one prefix");
                        seen_of(writer, recall.hits.iter().map(|hit| hit.id.as_str())).into_iter().collect()
                    } else {
                        // One page, as long as a page can be: in the order of storing, from the start.
                        let page = memory.list(ListQuery::new().limit(1000).tags_all([format!("t{writer}")])).unwrap();
                        let numbers = seen_of(writer, page.memories.iter().map(|record| record.id.as_str()));
                        assert!(numbers.is_sorted(), "a listing is in the order of storing");
                        assert_eq!(numbers.len(), page.memories.len());
                        if page.cursor.is_some() {
                            // Cut at its end, and whole up to there.
                            assert_eq!(numbers.len(), 1000);
                            before = 0;
                        }
                        numbers.into_iter().collect()
                    };
                    check_prefix(&numbers, before, forgettable(writer));
                    if writer == 0 {
                        assert!(numbers.iter().all(|n| n % 5 != 0 || n / 5 >= forgotten), "seen after it was forgotten");
                    }
                    reads.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        let ended: Vec<_> = writers.into_iter().map(|writer| writer.join()).chain([forgetter.join()]).collect();
        done.store(true, Ordering::SeqCst);
        ended.into_iter().for_each(|ended| ended.unwrap());
    });
    println!("{} reads beside the writers", reads.load(Ordering::SeqCst));
    assert!(reads.load(Ordering::SeqCst) > 50);
    let live = WRITERS * EACH - EACH / 5;
    assert_eq!(memory.stats().unwrap().live as usize, live);
    assert_eq!(everything(&memory).len(), live);
    memory.close().unwrap();
    let memory = vectors(folder.path(), 16, &clock()).open().unwrap();
    assert_eq!(everything(&memory).len(), live);
    assert!(memory.verify().unwrap().is_clean());
}

#[test]
fn what_was_acknowledged_is_in_the_next_read_of_every_kind() {
    let memory = Memory::in_memory().unwrap();
    for n in 0..200 {
        let words = format!("note {n} about the {}", WORDS[n % 12]);
        memory.remember(RememberRequest::new(words.clone()).id(format!("n{n}"))).unwrap();
        assert!(memory.get(&format!("n{n}")).unwrap().is_some());
        assert_eq!(memory.stats().unwrap().live, n as u64 + 1);
        assert_eq!(memory.recall(RecallQuery::new(words.clone()).k(1)).unwrap().hits[0].id, format!("n{n}"));
        assert!(memory.why_not(&format!("n{n}"), RecallQuery::new(words)).unwrap().rank.is_some());
        assert_eq!(everything(&memory).len(), n + 1);
    }
}
