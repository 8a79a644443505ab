//! What counts as the same memory, and for how long.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::disallowed_methods)]

mod common;

use std::collections::HashSet;
use std::sync::Barrier;
use std::time::Duration;

use common::{at, clock, copy, texts, vectors};
use mnemolith::{
    ListQuery, ManualClock, Memory, RecallQuery, RelayStatus, RememberRequest, RememberResult, Status, Tier, Timestamp, Update,
};

const HOUR: Duration = Duration::from_secs(3600);
const TEXT: &str = "Alice moved to Lisbon";

struct Fixture {
    clock: ManualClock,
    memory: Memory,
    folder: tempfile::TempDir,
}

fn fixture() -> Fixture {
    let (clock, folder) = (clock(), tempfile::tempdir().unwrap());
    Fixture { memory: texts(folder.path(), &clock).open().unwrap(), clock, folder }
}

impl Fixture {
    fn remember(&self, request: RememberRequest) -> RememberResult {
        self.memory.remember(request).unwrap()
    }

    fn say(&self, text: &str) -> RememberResult {
        self.remember(RememberRequest::new(text))
    }

    fn live(&self) -> u64 {
        self.memory.stats().unwrap().live
    }

    fn last_seen(&self, id: &str) -> Timestamp {
        self.memory.get(id).unwrap().unwrap().last_seen
    }
}

/// The id it repeats, if it repeats one.
fn repeats(result: &RememberResult) -> Option<&str> {
    match &result.status {
        Status::Stored => None,
        Status::Duplicate { of } => Some(of),
    }
}

#[test]
fn a_repetition_within_the_window_stores_nothing_and_is_seen() {
    let f = fixture();
    let first = f.say(TEXT);
    assert_eq!(repeats(&first), None);
    f.clock.advance(3 * HOUR);
    let lsn = f.memory.stats().unwrap().lsn;
    let again = f.remember(RememberRequest::new(TEXT).tag("other").session("s").valence(100));
    assert_eq!((repeats(&again), again.id == first.id, again.location), (Some(first.id.as_str()), true, first.location));
    assert_eq!((again.importance, again.valence), (first.importance, 0));
    let statuses: Vec<RelayStatus> = again.trace.iter().map(|relay| relay.status).collect();
    assert_eq!(statuses[0], RelayStatus::Completed);
    assert_eq!(statuses[1..], [RelayStatus::Skipped; 5]);
    let stats = f.memory.stats().unwrap();
    assert_eq!((stats.live, stats.stored, stats.lsn), (1, 1, lsn + 1), "one log record refreshes the last sight");
    let record = f.memory.get(&first.id).unwrap().unwrap();
    assert_eq!(record.last_seen.millis_since(record.at), 3 * 3_600_000);
    assert!(record.tags.is_empty() && record.session.is_none());
}

#[test]
fn the_window_slides_with_every_sight() {
    let f = fixture();
    let first = f.say(TEXT);
    for day in 1..=30 {
        f.clock.advance(20 * HOUR);
        assert_eq!(repeats(&f.say(TEXT)), Some(first.id.as_str()), "after {day} times 20 hours");
    }
    assert_eq!(f.live(), 1);
    f.clock.advance(24 * HOUR);
    assert_eq!(repeats(&f.say(TEXT)), Some(first.id.as_str()), "the end of the window belongs to it");
    f.clock.advance(24 * HOUR + Duration::from_millis(1));
    let second = f.say(TEXT);
    assert_eq!((repeats(&second), second.id == first.id), (None, false));
    assert_eq!(f.live(), 2);
    f.clock.advance(HOUR);
    assert_eq!(repeats(&f.say(TEXT)), Some(second.id.as_str()), "the one that is in its window");
}

#[test]
fn the_window_reaches_back_as_far_as_forward() {
    let f = fixture();
    let (noon, day) = (at("2026-03-10T12:00:00Z"), 24 * 3_600_000);
    let moved = |by: i64| RememberRequest::new(TEXT).at(noon.checked_add_millis(by).unwrap());
    let first = f.remember(moved(0));
    assert_eq!(repeats(&f.remember(moved(-day))), Some(first.id.as_str()));
    assert_eq!(f.last_seen(&first.id), noon, "an earlier sight does not turn the last one back");
    assert_eq!(repeats(&f.remember(moved(-day - 1))), None);
    assert_eq!(repeats(&f.remember(moved(5 * day))), None);
    assert_eq!(f.live(), 3);
    // In the window of the first again, though others came since.
    assert_eq!(repeats(&f.remember(moved(day / 2))), Some(first.id.as_str()));
    assert_eq!(f.last_seen(&first.id), noon.checked_add_millis(day / 2).unwrap());
}

#[test]
fn both_ends_of_time_are_far_apart() {
    let f = fixture();
    f.remember(RememberRequest::new(TEXT).at(at("0001-01-01T00:00:00Z")));
    assert_eq!(repeats(&f.remember(RememberRequest::new(TEXT).at(at("9999-12-31T23:59:59.999Z")))), None);
}

#[test]
fn allow_duplicate_and_a_window_of_zero_store_everything() {
    let f = fixture();
    f.say(TEXT);
    let verbatim = f.remember(RememberRequest::new(TEXT).allow_duplicate(true));
    assert_eq!((repeats(&verbatim), f.live()), (None, 2));

    let folder = tempfile::tempdir().unwrap();
    let memory = texts(folder.path(), &clock()).dedup_window(Duration::ZERO).open().unwrap();
    let results: Vec<_> = (0..3).map(|_| memory.remember(RememberRequest::new(TEXT)).unwrap()).collect();
    assert!(results.iter().all(|result| repeats(result).is_none()));
    assert_eq!(memory.stats().unwrap().live, 3);
    // The same id with the same content is still the same memory.
    let named = || memory.remember(RememberRequest::new("named").id("n")).unwrap();
    assert_eq!((repeats(&named()), repeats(&named())), (None, Some("n")));
}

#[test]
fn one_character_or_its_case_makes_another_memory_and_spelling_does_not() {
    let f = fixture();
    for (one, other) in
        [("PostgreSQL 16", "PostgreSQL 18"), ("Polish the table", "polish the table"), ("a b", "ab"), ("a", "a\0"), ("fi", "ﬁ")]
    {
        assert_eq!((repeats(&f.say(one)), repeats(&f.say(other))), (None, None), "{one:?} and {other:?}");
    }
    let composed = f.say("the café  in\tLisbon\n");
    for spelling in ["the cafe\u{301} in Lisbon", "  the café in Lisbon", "the café\u{a0}in\u{2003}\u{2003}Lisbon"] {
        assert_eq!(repeats(&f.say(spelling)), Some(composed.id.as_str()), "{spelling:?}");
    }
    let kept = f.memory.get(&composed.id).unwrap().unwrap();
    assert_eq!(kept.text.as_deref(), Some("the café  in\tLisbon\n"), "the first spelling is kept as it was given");
}

#[test]
fn tiers_and_namespaces_are_apart() {
    let f = fixture();
    for tier in Tier::ALL {
        assert_eq!(repeats(&f.remember(RememberRequest::new(TEXT).tier(tier))), None, "{tier}");
    }
    for tier in Tier::ALL {
        assert!(f.remember(RememberRequest::new(TEXT).tier(tier)).is_duplicate(), "{tier}");
    }
    let other = texts(f.folder.path(), &f.clock).namespace("other").open().unwrap();
    assert_eq!(repeats(&other.remember(RememberRequest::new(TEXT)).unwrap()), None);
    assert_eq!((f.live(), other.stats().unwrap().live), (4, 1));
}

#[test]
fn what_was_forgotten_can_be_remembered_again() {
    let f = fixture();
    let first = f.remember(RememberRequest::new(TEXT).id("a").tag("one"));
    for round in 0..3 {
        assert!(f.memory.forget("a").unwrap());
        let again = f.remember(RememberRequest::new(TEXT).id("a").tag(format!("round{round}")));
        assert_eq!(repeats(&again), None);
        assert!(again.location.lsn > first.location.lsn);
        let record = f.memory.get("a").unwrap().unwrap();
        assert_eq!((record.text.as_deref(), record.tags), (Some(TEXT), vec![format!("round{round}")]));
        assert_eq!(f.memory.recall(RecallQuery::new(TEXT)).unwrap().hits.len(), 1);
    }
    f.memory.purge("a").unwrap();
    assert_eq!(repeats(&f.say(TEXT)), None);
    // Other content under the id of something forgotten is no conflict.
    assert_eq!(repeats(&f.remember(RememberRequest::new("something else").id("a"))), None);
}

#[test]
fn an_updated_text_counts_and_the_old_one_no_longer_does() {
    let f = fixture();
    f.remember(RememberRequest::new(TEXT).id("a"));
    f.memory.update("a", Update::new().text("Alice moved to Porto")).unwrap();
    assert_eq!(repeats(&f.say("Alice moved to Porto")), Some("a"));
    assert_eq!(repeats(&f.say(TEXT)), None);
    f.memory.update("a", Update::new().tags(["retagged"])).unwrap();
    assert_eq!(repeats(&f.say("Alice  moved to Porto")), Some("a"), "new tags are no new content");
}

#[test]
fn vectors_without_a_text_are_the_same_bit_by_bit() {
    let folder = tempfile::tempdir().unwrap();
    let memory = vectors(folder.path(), 4, &clock()).open().unwrap();
    let store = |vector: [f32; 4]| memory.remember(RememberRequest::from_vector(vector.to_vec())).unwrap();
    let first = store([1.0, 2.0, 3.0, 4.0]);
    assert_eq!(repeats(&store([1.0, 2.0, 3.0, 4.0])), Some(first.id.as_str()));
    assert_eq!(repeats(&store([2.0, 4.0, 6.0, 8.0])), None, "the same direction, another vector");
    assert_eq!(repeats(&store([1.0, 2.0, 3.0, 4.000_000_5])), None);
    // A text decides where there is one, whatever the vector.
    let texted = |vector: [f32; 4]| memory.remember(RememberRequest::new(TEXT).vector(vector.to_vec())).unwrap();
    let with_text = texted([1.0, 2.0, 3.0, 4.0]);
    assert_eq!(repeats(&with_text), None);
    assert_eq!(repeats(&texted([4.0, 3.0, 2.0, 1.0])), Some(with_text.id.as_str()));
}

#[test]
fn one_id_with_one_content_is_one_memory_for_ever() {
    let f = fixture();
    f.remember(RememberRequest::new(TEXT).id("a"));
    f.clock.advance(1000 * 24 * HOUR);
    assert_eq!(repeats(&f.remember(RememberRequest::new(TEXT).id("a"))), Some("a"));
    assert_eq!(repeats(&f.remember(RememberRequest::new(TEXT).id("a").allow_duplicate(true))), Some("a"));
    assert_eq!(f.memory.remember(RememberRequest::new("other").id("a")).unwrap_err().code(), "IdConflict");
    let other_tier = f.memory.remember(RememberRequest::new(TEXT).id("a").tier(Tier::Semantic)).unwrap_err();
    assert_eq!(other_tier.code(), "IdConflict", "the tier belongs to the content");
    // A new id for content that is in its window is a duplicate of the old id.
    assert_eq!(repeats(&f.remember(RememberRequest::new(TEXT).id("b"))), Some("a"));
    assert_eq!((f.live(), f.memory.get("b").unwrap()), (1, None));
}

fn sixteen_at_once(memory: &Memory, request: impl Fn(usize) -> RememberRequest + Sync) -> Vec<RememberResult> {
    let barrier = Barrier::new(16);
    let (barrier, request) = (&barrier, &request);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..16)
            .map(|thread| {
                scope.spawn(move || {
                    barrier.wait();
                    memory.remember(request(thread)).unwrap()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn sixteen_threads_with_one_content_store_one_memory() {
    let f = fixture();
    for round in 0..25 {
        let same_id = sixteen_at_once(&f.memory, |_| RememberRequest::new(format!("named {round}")).id(format!("n{round}")));
        let same_text = sixteen_at_once(&f.memory, |_| RememberRequest::new(format!("nameless {round}")));
        for results in [same_id, same_text] {
            assert_eq!(results.iter().filter(|result| !result.is_duplicate()).count(), 1);
            assert_eq!(results.iter().map(|result| &result.id).collect::<HashSet<_>>().len(), 1);
        }
    }
    assert_eq!(f.live(), 50);
    assert_eq!(f.memory.list(ListQuery::new()).unwrap().memories.len(), 50);
}

#[test]
fn sixteen_threads_with_one_id_and_sixteen_contents_store_one_memory() {
    let f = fixture();
    for round in 0..10 {
        let (memory, barrier) = (&f.memory, &Barrier::new(16));
        let outcomes: Vec<_> = std::thread::scope(|scope| {
            let spawn = |thread: usize| {
                scope.spawn(move || {
                    barrier.wait();
                    memory.remember(RememberRequest::new(format!("content {thread}")).id(format!("r{round}")).allow_duplicate(true))
                })
            };
            let threads: Vec<_> = (0..16).map(spawn).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
        assert!(outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).all(|error| error.code() == "IdConflict"));
    }
    assert_eq!(f.live(), 10);
}

#[test]
fn the_window_survives_reopening_and_a_crash() {
    let f = fixture();
    let first = f.say(TEXT);
    f.clock.advance(20 * HOUR);
    assert!(f.say(TEXT).is_duplicate());
    let seen = f.last_seen(&first.id);
    // A copy of the files is what a crash leaves: everything so far is in the log alone.
    let crashed = tempfile::tempdir().unwrap();
    copy(f.folder.path(), crashed.path());
    f.memory.close().unwrap();
    f.clock.advance(20 * HOUR);
    for path in [f.folder.path(), crashed.path()] {
        let memory = texts(path, &f.clock).open().unwrap();
        assert_eq!(memory.get(&first.id).unwrap().unwrap().last_seen, seen);
        assert_eq!(repeats(&memory.remember(RememberRequest::new(TEXT)).unwrap()), Some(first.id.as_str()));
        memory.close().unwrap();
    }
    f.clock.advance(25 * HOUR);
    let memory = texts(f.folder.path(), &f.clock).open().unwrap();
    assert_eq!(repeats(&memory.remember(RememberRequest::new(TEXT)).unwrap()), None);
}
