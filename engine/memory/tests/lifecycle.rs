//! What happens to a memory after it was stored: changed, reinforced, forgotten, purged, listed, damaged.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::disallowed_methods)]

mod common;

use std::collections::HashSet;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{Random, clock, texts, vectors};
use mnemolith::backend::MemoryBackend;
use mnemolith::{
    Durability, Error, ListQuery, Memory, MemoryRecord, Metadata, RecallQuery, Reinforce, RememberError, RememberRequest, RememberResult,
    Status, Tier, Update,
};

fn store() -> (tempfile::TempDir, Memory) {
    let folder = tempfile::tempdir().unwrap();
    let memory = texts(folder.path(), &clock()).open().unwrap();
    (folder, memory)
}

fn remember(memory: &Memory, id: &str, text: &str) -> RememberResult {
    memory.remember(RememberRequest::new(text).id(id)).unwrap()
}

fn record(memory: &Memory, id: &str) -> MemoryRecord {
    memory.get(id).unwrap().unwrap_or_else(|| panic!("{id} is not there"))
}

fn listed(memory: &Memory) -> Vec<String> {
    memory.list(ListQuery::new().limit(1000)).unwrap().memories.into_iter().map(|record| record.id).collect()
}

fn found(memory: &Memory, query: RecallQuery) -> Vec<String> {
    memory.recall(query).unwrap().hits.into_iter().map(|hit| hit.id).collect()
}

fn object(key: &str, value: &str) -> Metadata {
    Metadata::from_iter([(key.to_owned(), value.into())])
}

// ---- update ------------------------------------------------------------------------------------------------------------------------

#[test]
fn an_update_keeps_the_place_and_replaces_what_it_names() {
    let (folder, memory) = store();
    for (id, text) in [("a", "the kettle is broken"), ("b", "the garden gate is green"), ("c", "the train leaves at nine")] {
        memory
            .remember(RememberRequest::new(text).id(id).tags(["Old", "shared"]).metadata(object("k", "1")).session("s").valence(9))
            .unwrap();
    }
    memory.reinforce(Reinforce::new("b", 1.0)).unwrap();
    let before = record(&memory, "b");
    let text = memory.update("b", Update::new().text("an invoice from the painter")).unwrap();
    let same = |record: &MemoryRecord| {
        let mut other = record.clone();
        (other.text, other.tags, other.metadata) = (before.text.clone(), before.tags.clone(), before.metadata.clone());
        other.location = before.location;
        other == before && record.location.lsn == before.location.lsn
    };
    assert!(same(&text), "{text:?}\n{before:?}");
    assert_eq!((text.text.as_deref(), &text.tags, &text.metadata), (Some("an invoice from the painter"), &before.tags, &before.metadata));
    let tagged = memory.update("b", Update::new().tags(["New", "shared"]).metadata(object("k", "2"))).unwrap();
    assert!(same(&tagged));
    assert_eq!(
        (&tagged.text, &tagged.tags, &tagged.metadata),
        (&text.text, &vec!["New".to_owned(), "shared".to_owned()], &object("k", "2"))
    );
    let unchanged = memory.update("b", Update::new()).unwrap();
    assert_eq!((unchanged.text, unchanged.tags, unchanged.metadata), (tagged.text, tagged.tags, tagged.metadata));
    memory.update("b", Update::new().metadata(Metadata::new())).unwrap();

    let check = |memory: &Memory| {
        assert_eq!(listed(memory), ["a", "b", "c"]);
        assert_eq!(found(memory, RecallQuery::new("painter's invoice").k(1)), ["b"]);
        assert_ne!(found(memory, RecallQuery::new("garden gate").k(1)), ["b"], "the old text has left the vector");
        assert_eq!(found(memory, RecallQuery::new("anything").tags_all(["new"])), ["b"]);
        assert_eq!(found(memory, RecallQuery::new("anything").tags_any(["OLD"])).len(), 2);
        assert!(!found(memory, RecallQuery::new("anything").tags_all(["old"])).contains(&"b".to_owned()));
        assert_eq!(memory.list(ListQuery::new().tags_all(["shared"])).unwrap().memories.len(), 3);
        assert!(record(memory, "b").metadata.is_empty());
        assert_eq!(record(memory, "c").predecessor.as_deref(), Some("b"));
        assert_eq!(record(memory, "b").predecessor.as_deref(), Some("a"));
        let stats = memory.stats().unwrap();
        assert_eq!((stats.live, stats.forgotten), (3, 0), "an update forgets nobody");
        assert!(memory.verify().unwrap().is_clean());
    };
    check(&memory);
    memory.close().unwrap();
    check(&texts(folder.path(), &clock()).open().unwrap());
}

#[test]
fn updates_of_many_threads_each_take_effect_whole() {
    let (_folder, memory) = store();
    remember(&memory, "a", "nobody has been here");
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let memory = &memory;
            scope.spawn(move || {
                for round in 0..20 {
                    let mark = format!("{thread}-{round}");
                    memory
                        .update("a", Update::new().text(format!("text {mark}")).tags([mark.clone()]).metadata(object("mark", &mark)))
                        .unwrap();
                    let now = record(memory, "a");
                    assert_eq!(now.text, Some(format!("text {}", now.tags[0])));
                    assert_eq!(now.metadata, object("mark", &now.tags[0]));
                }
            });
        }
    });
    assert_eq!(listed(&memory), ["a"]);
    assert_eq!(memory.stats().unwrap().live, 1);
}

// ---- reinforce ---------------------------------------------------------------------------------------------------------------------

#[test]
fn reinforcement_follows_its_formula() {
    let (folder, memory) = store();
    memory.remember(RememberRequest::new("does it work").id("a").valence(50)).unwrap();
    let (mut strength, mut valence) = (1.0_f64, 50.0_f64);
    let mut random = Random::new(8);
    for n in 1..=400_u32 {
        let outcome = random.unit() * 2.0 - 1.0;
        strength = (strength + 0.1 * (1.0 + outcome.max(0.0)) / strength).min(10.0);
        valence = (0.7 * valence + 0.3 * 127.0 * outcome).round();
        let result = memory.reinforce(Reinforce::new("a", outcome)).unwrap();
        assert!((f64::from(result.strength) - strength).abs() < 1e-4, "{n}: {result:?} and not {strength}");
        assert_eq!((f64::from(result.valence), result.recall_count), (valence, n));
    }
    for _ in 0..1000 {
        memory.reinforce(Reinforce::new("a", 1.0)).unwrap();
    }
    let check = |memory: &Memory| {
        let record = record(memory, "a");
        assert_eq!((record.strength, record.current_valence, record.valence, record.recall_count), (10.0, 126, 50, 1400));
        assert_eq!(record.last_recall, Some(common::at("2026-06-01T12:00:00Z")));
    };
    check(&memory);
    memory.close().unwrap();
    check(&texts(folder.path(), &clock()).open().unwrap());
}

#[test]
fn each_reinforcement_lifts_a_tied_older_memory() {
    let folder = tempfile::tempdir().unwrap();
    let clock = clock();
    let open = || vectors(folder.path(), 8, &clock).open().unwrap();
    let memory = open();
    for id in ["first", "second", "third"] {
        memory.remember(RememberRequest::from_vector(vec![1.0; 8]).id(id).allow_duplicate(true)).unwrap();
    }
    clock.advance(Duration::from_secs(30 * 86_400));
    let query = || RecallQuery::from_vector(vec![1.0; 8]);
    assert_eq!(found(&memory, query()), ["first", "second", "third"], "a tie goes to the earlier");
    let score = |memory: &Memory| memory.recall(query()).unwrap().hits.iter().find(|hit| hit.id == "third").unwrap().score;
    let mut last = score(&memory);
    for n in 0..20 {
        memory.reinforce(Reinforce::new("third", if n % 2 == 0 { 1.0 } else { -1.0 })).unwrap();
        let now = score(&memory);
        assert!(now > last, "reinforcement {n} did not lift it");
        last = now;
    }
    memory.reinforce(Reinforce::new("second", 0.0)).unwrap();
    assert_eq!(found(&memory, query()), ["third", "second", "first"]);
    memory.close().unwrap();
    let memory = open();
    assert_eq!(found(&memory, query()), ["third", "second", "first"]);
    assert_eq!(score(&memory).to_bits(), last.to_bits());
}

#[test]
fn simultaneous_reinforcements_all_count() {
    let (_folder, memory) = store();
    remember(&memory, "a", "counted");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..25 {
                    memory.reinforce(Reinforce::new("a", 0.0)).unwrap();
                }
            });
        }
    });
    let strength = (0..200).fold(1.0_f32, |s, _| (f64::from(s) + 0.1 / f64::from(s)) as f32);
    assert_eq!((record(&memory, "a").recall_count, record(&memory, "a").strength), (200, strength));
}

// ---- forget and purge --------------------------------------------------------------------------------------------------------------

#[test]
fn what_is_forgotten_is_gone_from_every_read_at_once() {
    let (folder, memory) = store();
    for i in 0..60 {
        let request = RememberRequest::new(format!("number {i} of a series")).id(format!("n{i}")).tag("series").session("s");
        memory.remember(request).unwrap();
    }
    let check = |memory: &Memory, gone: &[&str]| {
        let query = || RecallQuery::new("a series").k(100);
        for id in gone {
            assert_eq!(memory.get(id).unwrap(), None);
            let why = memory.why_not(id, query()).unwrap();
            assert_eq!((why.rank, why.reasons.len()), (None, 1));
            assert_eq!(memory.update(id, Update::new().tags(["x"])).unwrap_err(), Error::NotFound { id: (*id).to_owned() });
            assert_eq!(memory.reinforce(Reinforce::new(*id, 0.0)).unwrap_err(), Error::NotFound { id: (*id).to_owned() });
            assert!(!memory.forget(id).unwrap());
        }
        for ids in
            [listed(memory), found(memory, query()), found(memory, query().tags_all(["series"])), found(memory, query().session("s"))]
        {
            assert_eq!(ids.len(), 60 - gone.len());
            assert!(gone.iter().all(|id| !ids.contains(&(*id).to_owned())));
        }
        let stats = memory.stats().unwrap();
        assert_eq!(
            (stats.live, stats.forgotten, stats.per_tier["episodic"]),
            (60 - gone.len() as u64, gone.len() as u64, 60 - gone.len() as u64)
        );
    };
    let gone = ["n0", "n30", "n31", "n59"];
    for (i, id) in gone.iter().enumerate() {
        assert!(memory.forget(id).unwrap());
        check(&memory, &gone[..=i]);
    }
    // The chain of the session closes over the gap.
    assert_eq!(record(&memory, "n32").predecessor.as_deref(), Some("n29"));
    assert_eq!(record(&memory, "n1").predecessor, None);
    memory.close().unwrap();
    let memory = texts(folder.path(), &clock()).open().unwrap();
    check(&memory, &gone);
    memory.remember(RememberRequest::new("the next of the series").id("n60").tag("series").session("s")).unwrap();
    assert_eq!(record(&memory, "n60").predecessor.as_deref(), Some("n58"));
}

/// Whether any file below has these bytes.
fn files_with(root: &Path, bytes: &[u8]) -> Vec<PathBuf> {
    let has = |file: &PathBuf| std::fs::read(file).unwrap().windows(bytes.len()).any(|window| window == bytes);
    common::files(root).into_iter().filter(has).collect()
}

fn unit_bytes(vector: &[f32]) -> Vec<u8> {
    let norm = vector.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
    vector.iter().flat_map(|x| ((f64::from(*x) / norm) as f32).to_le_bytes()).collect()
}

#[test]
fn a_purge_leaves_no_byte_behind() {
    let folder = tempfile::tempdir().unwrap();
    let open = || vectors(folder.path(), 32, &clock()).open().unwrap();
    let memory = open();
    let (secret, second, kept) = (Random::new(1).vector(32), Random::new(2).vector(32), Random::new(3).vector(32));
    let secrets: [&[u8]; 8] = [
        b"xyzzyplugh",
        b"quuxfrobnicate",
        b"metagrault",
        b"lonely-tag",
        b"LONELY-TAG",
        b"formertag",
        b"secret-id-garply",
        b"only-its-session",
    ];
    let request = |vector: &[f32]| RememberRequest::new("the password is xyzzyplugh").vector(vector.to_vec()).id("secret-id-garply");
    memory
        .remember(
            request(&secret)
                .tags(["LONELY-TAG", "shared-tag", "formertag"])
                .metadata(object("m", "metagrault"))
                .session("only-its-session"),
        )
        .unwrap();
    memory.remember(RememberRequest::new("kept for ever").vector(kept.clone()).id("kept").tag("shared-tag")).unwrap();
    memory.checkpoint().unwrap();
    memory.update("secret-id-garply", Update::new().text("now it is quuxfrobnicate").tags(["lonely-tag", "shared-tag"])).unwrap();
    memory.reinforce(Reinforce::new("secret-id-garply", 0.5)).unwrap();
    memory.forget("secret-id-garply").unwrap();
    memory.remember(request(&second).tag("lonely-tag").allow_duplicate(true)).unwrap();
    for bytes in &secrets[..7] {
        assert!(!files_with(folder.path(), bytes).is_empty(), "{:?} should be there before", String::from_utf8_lossy(bytes));
    }
    for vector in [&secret, &second] {
        assert!(!files_with(folder.path(), &unit_bytes(vector)).is_empty());
    }

    assert!(memory.purge("secret-id-garply").unwrap());
    assert_eq!(memory.get("secret-id-garply").unwrap(), None);
    assert_eq!(listed(&memory), ["kept"]);
    let report = memory.checkpoint().unwrap();
    assert_eq!(report.rows_destroyed, 3, "the first, its updated version, and the one stored again");
    let clean = |memory: &Memory| {
        for bytes in secrets {
            let files = files_with(folder.path(), bytes);
            assert!(files.is_empty(), "{:?} is left in {files:?}", String::from_utf8_lossy(bytes));
        }
        for vector in [&secret, &second] {
            assert_eq!(files_with(folder.path(), &unit_bytes(vector)), Vec::<PathBuf>::new());
        }
        assert!(!files_with(folder.path(), b"shared-tag").is_empty() && !files_with(folder.path(), &unit_bytes(&kept)).is_empty());
        assert_eq!(found(memory, RecallQuery::from_vector(secret.clone()).k(9)), ["kept"]);
        assert_eq!(found(memory, RecallQuery::from_vector(kept.clone()).tags_all(["shared-tag"])), ["kept"]);
        assert!(found(memory, RecallQuery::from_vector(kept.clone()).tags_all(["lonely-tag"])).is_empty());
        assert!(memory.verify().unwrap().is_clean());
        assert!(!memory.purge("secret-id-garply").unwrap(), "nothing of it is left");
    };
    clean(&memory);
    memory.close().unwrap();
    let memory = open();
    clean(&memory);
    // The id, the text and the tag can be used again.
    let again = memory.remember(request(&secret).tag("lonely-tag")).unwrap();
    assert_eq!(again.status, Status::Stored);
    assert_eq!(found(&memory, RecallQuery::from_vector(secret).tags_all(["lonely-tag"])), ["secret-id-garply"]);
}

// ---- list --------------------------------------------------------------------------------------------------------------------------

struct StopWhenDropped<'a>(&'a AtomicBool);

impl Drop for StopWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn pages_under_concurrent_writes_have_everything_that_stayed_and_nothing_twice() {
    let folder = tempfile::tempdir().unwrap();
    let memory = vectors(folder.path(), 8, &clock()).durability(Durability::Buffered).novelty_window(4).open().unwrap();
    let put = |id: String, seed: usize| {
        memory.remember(RememberRequest::from_vector(Random::new(seed as u64).vector(8)).id(id).allow_duplicate(true)).unwrap();
    };
    (0..500).for_each(|i| put(format!("m{i}"), i));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Comings and goings, and old memories written again: none of it moves what stays.
            for i in 0.. {
                if stop.load(Ordering::SeqCst) {
                    break;
                }
                put(format!("new{i}"), 1000 + i);
                memory.update(&format!("m{}", i * 7 % 500), Update::new().metadata(object("round", &i.to_string()))).unwrap();
                if i % 3 == 0 {
                    memory.forget(&format!("new{i}")).unwrap();
                }
            }
        });
        // The writer ends when this does, however it ends.
        let _stop = StopWhenDropped(&stop);
        for limit in [1, 7, 64, 499, 1000] {
            let mut ids = Vec::new();
            let mut query = ListQuery::new().limit(limit);
            loop {
                let page = memory.list(query).unwrap();
                assert!(page.memories.len() == limit || page.cursor.is_none());
                assert!(page.memories.windows(2).all(|pair| pair[0].location.lsn < pair[1].location.lsn));
                ids.extend(page.memories.into_iter().map(|record| record.id));
                match page.cursor.filter(|_| ids.len() < 1500) {
                    Some(cursor) => query = ListQuery::new().limit(limit).cursor(cursor),
                    None => break,
                }
            }
            assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len(), "limit {limit}: nothing twice");
            let stayed: Vec<&String> = ids.iter().filter(|id| id.starts_with('m')).collect();
            assert_eq!(stayed, (0..500).map(|i| format!("m{i}")).collect::<Vec<_>>().iter().collect::<Vec<_>>(), "limit {limit}");
        }
    });
    // A cursor outlives a checkpoint and reopening, and is refused by another namespace.
    let page = memory.list(ListQuery::new().limit(10)).unwrap();
    let cursor = page.cursor.unwrap();
    memory.close().unwrap();
    let memory = vectors(folder.path(), 8, &clock()).open().unwrap();
    assert_eq!(memory.list(ListQuery::new().limit(10).cursor(cursor.as_str())).unwrap().memories[0].id, "m10");
    let other = Memory::in_memory().unwrap();
    assert_eq!(other.list(ListQuery::new().cursor(cursor)).unwrap_err(), Error::InvalidCursor);
}

// ---- damage ------------------------------------------------------------------------------------------------------------------------

/// Flips one bit in every place of a file where these bytes begin; how many there were.
fn flip(file: &Path, bytes: &[u8]) -> usize {
    let contents = std::fs::read(file).unwrap();
    let places: Vec<usize> = (0..=contents.len().saturating_sub(bytes.len())).filter(|&at| contents[at..].starts_with(bytes)).collect();
    let open = std::fs::OpenOptions::new().write(true).open(file).unwrap();
    for &place in &places {
        open.write_at(&[contents[place] ^ 1], place as u64).unwrap();
    }
    places.len()
}

fn words(i: usize) -> String {
    format!("memory number {i:03} of the damaged store")
}

fn vector(i: usize) -> Vec<f32> {
    Random::new(50 + i as u64).vector(32)
}

/// A closed store of twenty memories in one session.
fn twenty(folder: &Path) {
    let memory = vectors(folder, 32, &clock()).open().unwrap();
    for i in 0..20 {
        memory.remember(RememberRequest::new(words(i)).vector(vector(i)).id(format!("m{i}")).tag("all").session("s")).unwrap();
    }
    memory.close().unwrap();
}

#[test]
fn damage_costs_the_memory_it_hit_and_no_other() {
    for (kind, file) in [("payload", "payload/00000000.seg"), ("vector", "slabs/00000000/vectors.slab")] {
        let folder = tempfile::tempdir().unwrap();
        twenty(folder.path());
        let file = folder.path().join("default").join(file);
        let bytes = |i: usize| if kind == "payload" { words(i).into_bytes() } else { unit_bytes(&vector(i)) };
        for i in [3, 11] {
            assert_eq!(flip(&file, &bytes(i)), 1, "{kind} {i}");
        }
        let memory = vectors(folder.path(), 32, &clock()).open().unwrap();
        let report = memory.verify().unwrap();
        assert_eq!(report.problems.len(), 2, "{kind}: {report:?}");
        assert!(report.problems.iter().all(|problem| problem.contains("checksum")), "{report:?}");
        let all = || RecallQuery::from_vector(vector(3)).k(100).tags_all(["all"]);
        let recall = memory.recall(all()).unwrap();
        let ids: HashSet<&str> = recall.hits.iter().map(|hit| hit.id.as_str()).collect();
        assert_eq!((recall.hits.len(), ids.len()), (18, 18), "{kind}");
        assert!(!ids.contains("m3") && !ids.contains("m11"), "{kind}");
        assert_eq!(recall.plan.reasons.iter().filter(|reason| reason.contains("set aside")).count(), 2, "{:?}", recall.plan.reasons);
        let again = memory.recall(all()).unwrap();
        assert_eq!(again.hits, recall.hits, "{kind}: what was set aside stays aside");
        let stats = memory.stats().unwrap();
        assert_eq!((stats.live, stats.quarantined), (18, 2), "{kind}");
        for id in ["m3", "m11"] {
            assert_eq!(memory.get(id).unwrap_err().code(), "Corrupt", "{kind}");
        }
        // Their neighbours, in the session too, are whole.
        for i in (0..20).filter(|i| ![3, 11].contains(i)) {
            let record = record(&memory, &format!("m{i}"));
            assert_eq!(record.text, Some(words(i)));
            let before = if [4, 12].contains(&i) { i.checked_sub(2) } else { i.checked_sub(1) };
            assert_eq!(record.predecessor, before.map(|i| format!("m{i}")), "{kind}");
        }
        assert_eq!(listed(&memory).len(), 18, "{kind}");
        assert_eq!(memory.verify().unwrap().problems.len(), 2, "{kind}: damage is reported as long as it is there");
        // The store goes on: new memories, and the damaged content again.
        let new = memory.remember(RememberRequest::new("something new").vector(vector(90)).id("new")).unwrap();
        assert_eq!(new.status, Status::Stored);
        let healed = memory.remember(RememberRequest::new(words(3)).vector(vector(3)).id("healed")).unwrap();
        assert_eq!((healed.status, record(&memory, "healed").text), (Status::Stored, Some(words(3))), "{kind}");
        assert!(memory.purge("m11").unwrap(), "{kind}: what is damaged can be purged");
        memory.checkpoint().unwrap();
        assert_eq!(memory.verify().unwrap().problems.len(), 1, "{kind}");
    }
}

#[test]
fn damage_is_met_by_every_call_without_a_recall_before() {
    for (kind, file) in [("payload", "payload/00000000.seg"), ("vector", "slabs/00000000/vectors.slab")] {
        let folder = tempfile::tempdir().unwrap();
        twenty(folder.path());
        let file = folder.path().join("default").join(file);
        let bytes = if kind == "payload" { words(7).into_bytes() } else { unit_bytes(&vector(7)) };
        assert_eq!(flip(&file, &bytes), 1);
        let open = || vectors(folder.path(), 32, &clock()).open().unwrap();
        assert_eq!(open().get("m7").unwrap_err().code(), "Corrupt", "{kind}");
        // Rewriting a row must not vouch for bytes that nobody checked.
        assert_eq!(open().update("m7", Update::new().tags(["new"])).unwrap_err().code(), "Corrupt", "{kind}");
        assert_eq!(open().verify().unwrap().problems.len(), 1, "{kind}");
        // A neighbour's record does not depend on it.
        assert_eq!(open().get("m8").unwrap().unwrap().text, Some(words(8)), "{kind}");
        assert_eq!(listed(&open()).len(), 19, "{kind}");
        let memory = open();
        let stored = memory.remember(RememberRequest::new(words(7)).vector(vector(7)).id("again")).unwrap();
        assert_eq!(stored.status, Status::Stored, "{kind}: what cannot be read is no original");
        let hits = memory.recall(RecallQuery::from_vector(vector(7)).k(1)).unwrap().hits;
        assert_eq!((hits[0].id.as_str(), hits[0].text.as_deref()), ("again", Some(words(7).as_str())), "{kind}");
    }
}

#[test]
fn many_damaged_memories_are_no_reason_to_give_up() {
    let folder = tempfile::tempdir().unwrap();
    let open = || vectors(folder.path(), 32, &clock()).durability(Durability::Buffered).open().unwrap();
    let memory = open();
    for i in 0..400 {
        memory.remember(RememberRequest::new(words(i)).vector(vector(i)).id(format!("m{i}"))).unwrap();
    }
    memory.close().unwrap();
    let file = folder.path().join("default/slabs/00000000/vectors.slab");
    // A run of two hundred rows of 128 bytes.
    std::fs::OpenOptions::new().write(true).open(&file).unwrap().write_at(&vec![0x55; 200 * 128], 100 * 128).unwrap();
    let memory = open();
    let hits = memory.recall(RecallQuery::from_vector(vector(0)).k(400)).unwrap().hits;
    assert_eq!(hits.len(), 200);
    assert_eq!(memory.stats().unwrap().quarantined, 200);
}

// ---- batches, full disks, other backends -------------------------------------------------------------------------------------------

fn batch() -> Vec<RememberRequest> {
    let mut requests: Vec<RememberRequest> =
        (0..40).map(|i| RememberRequest::new(format!("item {}", i % 30)).tag(format!("t{}", i % 3))).collect();
    requests[5] = RememberRequest::new(" ");
    requests[9] = RememberRequest::new("first owner").id("taken");
    requests[12] = RememberRequest::new("second owner").id("taken");
    requests[33] = RememberRequest::from_vector(vec![1.0; 3]);
    requests[34] = RememberRequest::new("semantic item").tier(Tier::Semantic).session("s").reward(0.4);
    requests
}

/// All of a result but the time it took.
fn outcome(result: Result<RememberResult, RememberError>) -> String {
    let untimed = |trace: &[mnemolith::RelayTrace]| {
        trace.iter().map(|relay| format!("{} {} {}", relay.relay, relay.status, relay.detail)).collect::<Vec<_>>()
    };
    match result {
        Ok(mut result) => {
            let trace = untimed(&result.trace);
            result.trace.clear();
            format!("{result:?} {trace:?}")
        }
        Err(error) => format!("{:?} {:?}", error.error(), untimed(error.trace())),
    }
}

#[test]
fn a_batch_equals_the_same_calls_in_sequence() {
    let [one, other] = std::array::from_fn(|_| store());
    let batched: Vec<String> = one.1.remember_batch(batch()).into_iter().map(outcome).collect();
    let sequence: Vec<String> = batch().into_iter().map(|request| outcome(other.1.remember(request))).collect();
    assert_eq!(batched, sequence);
    assert_eq!(batched.iter().filter(|outcome| outcome.contains("Duplicate { of")).count(), 6);
    for code in ["BlankText", "IdConflict", "WrongDimension"] {
        assert_eq!(batched.iter().filter(|outcome| outcome.starts_with(code)).count(), 1, "{code}: {batched:#?}");
    }
    let list = |memory: &Memory| memory.list(ListQuery::new()).unwrap().memories;
    assert_eq!(list(&one.1), list(&other.1));
    assert_eq!(one.1.remember_batch(Vec::new()), Vec::new());
}

#[test]
fn a_full_disk_refuses_cleanly_and_goes_on_once_there_is_room() {
    let mount = tempfile::tempdir().unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=12m", "tmpfs"]).arg(mount.path()).output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        println!("skipped: this user may not mount a tmpfs");
        return;
    }
    struct Mounted(PathBuf);
    impl Drop for Mounted {
        fn drop(&mut self) {
            let _ = Command::new("umount").arg("-l").arg(&self.0).status();
        }
    }
    let mounted = Mounted(mount.path().to_path_buf());
    let open = || texts(mount.path(), &clock()).open().unwrap();
    let memory = open();
    let ballast = mount.path().join("ballast");
    std::fs::write(&ballast, vec![1; 5 << 20]).unwrap();
    let long = |i: usize| format!("{i} {}", "a long story ".repeat(4000));
    let mut acknowledged = 0;
    let error = loop {
        match memory.remember(RememberRequest::new(long(acknowledged)).id(format!("m{acknowledged}"))) {
            Ok(_) => acknowledged += 1,
            Err(error) => break error,
        }
        assert!(acknowledged < 1000, "the disk never filled");
    };
    assert_eq!((error.code(), error.is_retryable()), ("NoSpace", true), "{error}");
    assert!(acknowledged > 3, "{acknowledged}");
    let check = |memory: &Memory, count: usize| {
        assert_eq!(memory.stats().unwrap().live as usize, count);
        for i in 0..count {
            assert_eq!(record(memory, &format!("m{i}")).text, Some(long(i)));
        }
        assert!(memory.verify().unwrap().is_clean());
    };
    check(&memory, acknowledged);
    assert_eq!(memory.get(&format!("m{acknowledged}")).unwrap(), None);
    assert_eq!(memory.remember(RememberRequest::new(long(acknowledged)).id("still")).unwrap_err().code(), "NoSpace");
    std::fs::remove_file(&ballast).unwrap();
    for _ in 0..5 {
        memory.remember(RememberRequest::new(long(acknowledged)).id(format!("m{acknowledged}"))).unwrap();
        acknowledged += 1;
    }
    check(&memory, acknowledged);
    memory.close().unwrap();
    let memory = open();
    check(&memory, acknowledged);
    drop(memory);
    drop(mounted);
}

#[test]
fn a_namespace_in_memory_does_the_same() {
    let backend = Arc::new(MemoryBackend::new());
    let open = |name: &str| Memory::builder().backend(backend.clone()).namespace(name).clock(Arc::new(clock())).open().unwrap();
    let memory = open("main");
    let [a, b] = ["a", "b"].map(|id| remember(&memory, id, &format!("the first words of {id}")));
    assert!(a.location.lsn < b.location.lsn);
    assert!(memory.remember(RememberRequest::new("the first  words of a")).unwrap().is_duplicate());
    memory.update("a", Update::new().text("the second words").tags(["changed"])).unwrap();
    memory.reinforce(Reinforce::new("a", 1.0)).unwrap();
    assert!(memory.forget("b").unwrap());
    remember(&memory, "c", "to be purged");
    assert!(memory.purge("c").unwrap());
    assert_eq!(memory.checkpoint().unwrap().rows_destroyed, 1);
    let check = |memory: &Memory| {
        assert_eq!(listed(memory), ["a"]);
        let a = record(memory, "a");
        assert_eq!((a.text.as_deref(), a.recall_count, a.tags), (Some("the second words"), 1, vec!["changed".to_owned()]));
        assert_eq!(found(memory, RecallQuery::new("second").tags_all(["Changed"])), ["a"]);
        assert!(memory.verify().unwrap().is_clean());
    };
    check(&memory);
    assert!(matches!(Memory::builder().backend(backend.clone()).namespace("main").open(), Err(Error::AlreadyOpen { .. })));
    // The backend keeps what the handle wrote.
    memory.close().unwrap();
    let memory = open("main");
    check(&memory);
    drop(open("other"));
    assert_eq!(memory.namespaces().unwrap(), ["main", "other"]);
    assert!(memory.drop_namespace("other").unwrap());
    assert_eq!(memory.namespaces().unwrap(), ["main"]);
}

#[test]
fn an_update_of_nothing_writes_nothing() {
    let memory = Memory::in_memory().unwrap();
    memory.remember(RememberRequest::new("as it was").id("a").tags(["x"]).tags(["y"])).unwrap();
    let before = memory.stats().unwrap().lsn;
    assert_eq!(memory.update("a", Update::new()).unwrap(), memory.get("a").unwrap().unwrap());
    assert_eq!(memory.get("a").unwrap().unwrap().tags, ["x", "y"], "tags add up");
    assert_eq!(memory.stats().unwrap().lsn, before);
    assert!(matches!(memory.update("b", Update::new()), Err(Error::NotFound { .. })));
}
