//! Surprise: what novelty makes of a memory, and that neither a restart, a crash nor the number of threads changes a bit of it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::disallowed_methods)]

mod common;

use std::path::Path;

use common::{Random, at, clock, copy, vectors};
use mnemolith::{
    Durability, ListQuery, Memory, MemoryRecord, Profile, RecallQuery, Reinforce, RememberRequest, RememberResult, Soul, Tier, Update,
};

const DIMENSION: usize = 24;

fn open(path: &Path) -> Memory {
    vectors(path, DIMENSION, &clock()).durability(Durability::Buffered).open().unwrap()
}

/// Memories in clusters, so that novelty varies, with everything that moves importance.
fn request(i: usize) -> RememberRequest {
    let mut random = Random::new(0xabc0 + i as u64);
    let centre = Random::new(random.below(5)).vector(DIMENSION);
    let noise = random.vector(DIMENSION);
    let spread = 0.2 + random.unit() as f32;
    let vector: Vec<f32> = centre.iter().zip(&noise).map(|(x, noise)| x + spread * noise).collect();
    let mut request = RememberRequest::from_vector(vector).id(format!("m{i}")).allow_duplicate(true);
    request = request.tier([Tier::Episodic, Tier::Episodic, Tier::Semantic][random.below(3) as usize]);
    if random.one_in(3) {
        request = request.reward(random.unit() * 2.0 - 1.0);
    }
    if random.one_in(4) {
        request = request.valence(random.below(255) as i64 - 127);
    }
    if random.one_in(5) {
        request = request.interest(random.unit()).urgency(random.unit());
    }
    if random.one_in(6) {
        request = request.tag("felt").soul(Soul::new(2).boost("Felt", 1.7).valence_gain(-0.5));
    }
    request
}

type Bits = (u32, u32, i8, u8, bool);

fn bits(result: &RememberResult) -> Bits {
    (result.surprise_z.to_bits(), result.importance.to_bits(), result.valence, result.arousal, result.flashbulb)
}

fn recorded(record: &MemoryRecord) -> Bits {
    (record.surprise_z.to_bits(), record.importance.to_bits(), record.valence, record.arousal, record.flashbulb)
}

fn everything(memory: &Memory) -> Vec<MemoryRecord> {
    let page = memory.list(ListQuery::new().limit(1000)).unwrap();
    assert_eq!(page.cursor, None);
    page.memories
}

fn go_on(memory: &Memory, from: usize, to: usize) -> Vec<Bits> {
    (from..to).map(|i| bits(&memory.remember(request(i)).unwrap())).collect()
}

/// Changes that surprise looks at later: valences, gaps, rows written again.
fn live_on(memory: &Memory) {
    for i in (0..100).step_by(9) {
        memory.reinforce(Reinforce::new(format!("m{i}"), if i % 2 == 0 { 1.0 } else { -1.0 })).unwrap();
        memory.forget(&format!("m{}", i + 1)).unwrap();
        memory.update(&format!("m{}", i + 2), Update::new().tags(["moved"])).unwrap();
    }
}

#[test]
fn neither_reopening_nor_a_crash_changes_a_bit_of_what_follows() {
    let [unbroken, reopened, crashed] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
    let memory = open(unbroken.path());
    go_on(&memory, 0, 150);
    live_on(&memory);
    memory.checkpoint().unwrap();
    go_on(&memory, 150, 250);
    // The files as they lie there while the store is open, twice: one copy is opened as after a crash, one is closed properly in between.
    copy(unbroken.path(), crashed.path());
    copy(unbroken.path(), reopened.path());
    let before: Vec<Bits> = everything(&memory).iter().map(recorded).collect();
    let expected = go_on(&memory, 250, 400);
    assert!(expected.iter().any(|bits| f32::from_bits(bits.0) > 1.0) && expected.iter().any(|bits| f32::from_bits(bits.0) < -0.5));

    let after_crash = open(crashed.path());
    assert_eq!(everything(&after_crash).iter().map(recorded).collect::<Vec<_>>(), before);
    assert_eq!(go_on(&after_crash, 250, 400), expected);
    open(reopened.path()).close().unwrap();
    let mut followed = Vec::new();
    for part in 0..5 {
        let memory = open(reopened.path());
        followed.extend(go_on(&memory, 250 + 30 * part, 280 + 30 * part));
        memory.close().unwrap();
    }
    assert_eq!(followed, expected);
}

#[test]
fn threads_change_nothing_that_the_order_of_the_log_does_not_say() {
    let folder = tempfile::tempdir().unwrap();
    let memory = open(folder.path());
    std::thread::scope(|scope| {
        for thread in 0..16 {
            let memory = &memory;
            scope.spawn(move || {
                for i in 0..40 {
                    memory.remember(request(thread * 40 + i)).unwrap();
                }
            });
        }
    });
    let records = everything(&memory);
    assert_eq!(records.len(), 640);
    let replayed = tempfile::tempdir().unwrap();
    let replay = open(replayed.path());
    for record in &records {
        let i: usize = record.id[1..].parse().unwrap();
        assert_eq!(bits(&replay.remember(request(i)).unwrap()), recorded(record), "{}", record.id);
    }
    // The statistics themselves are equal too, or what follows would differ.
    assert_eq!(go_on(&memory, 640, 680), go_on(&replay, 640, 680));
}

// ---- an oracle for novelty ---------------------------------------------------------------------------------------------------------

/// The running statistics and the recent live memories of one tier, naively.
#[derive(Default)]
struct Oracle {
    samples: Vec<f64>,
    live: Vec<(String, Vec<f32>)>,
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

impl Oracle {
    fn z(&mut self, id: &str, vector: &[f32], window: usize) -> f64 {
        let recent = self.live.iter().rev().take(window);
        let novelty = 1.0 - recent.map(|(_, other)| cosine(vector, other)).fold(f64::NEG_INFINITY, f64::max);
        let novelty = if self.live.is_empty() || window == 0 { 1.0 } else { novelty };
        let n = self.samples.len() as f64;
        let mean = self.samples.iter().sum::<f64>() / n;
        let deviation = (self.samples.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt();
        let z = if self.samples.len() < 10 { 0.0 } else { (novelty - mean) / deviation.max(0.02) };
        self.samples.push(novelty);
        self.live.push((id.to_owned(), vector.to_vec()));
        z
    }

    fn forget(&mut self, id: &str) {
        self.live.retain(|(other, _)| other != id);
    }
}

#[test]
fn novelty_is_measured_against_the_recent_and_the_living() {
    for window in [0, 1, 7, 512] {
        let folder = tempfile::tempdir().unwrap();
        let memory = vectors(folder.path(), DIMENSION, &clock()).durability(Durability::Buffered).novelty_window(window).open().unwrap();
        let (mut oracle, mut random) = (Oracle::default(), Random::new(4));
        let mut stored = 0;
        for i in 0..700 {
            let id = format!("m{i}");
            let vector: Vec<f32> = random.vector(DIMENSION).iter().map(|x| x + 0.3).collect();
            let result = memory.remember(RememberRequest::from_vector(vector.clone()).id(id.as_str())).unwrap();
            let z = oracle.z(&id, &vector, window);
            assert!((f64::from(result.surprise_z) - z).abs() < 1e-4, "window {window}, {id}: {} and not {z}", result.surprise_z);
            let importance = if i < 10 { 1.0 } else { 0.05 + 9.95 / (1.0 + (-1.2 * (z - 1.0)).exp()) };
            if !result.flashbulb {
                assert!((f64::from(result.importance) - importance).abs() < 1e-3, "{id}: {} and not {importance}", result.importance);
            }
            assert_eq!(result.flashbulb, f64::from(result.surprise_z) > 3.0 && i >= 20);
            stored += 1;
            // What is forgotten leaves the window, and something older takes its place.
            if random.one_in(3) {
                let gone = format!("m{}", stored - 1 - random.below(stored.min(12)));
                assert_eq!(memory.forget(&gone).unwrap(), oracle.live.iter().any(|(id, _)| *id == gone));
                oracle.forget(&gone);
            }
        }
    }
}

#[test]
fn forgetting_the_one_like_it_makes_a_memory_new_again() {
    let next = |forget: bool| {
        let memory = Memory::builder().dimension(DIMENSION).no_embedder().open().unwrap();
        for i in 0..40 {
            memory.remember(request(i).tier(Tier::Episodic)).unwrap();
        }
        if forget {
            memory.forget("m20").unwrap();
        }
        memory.remember(request(20).id("again").tier(Tier::Episodic)).unwrap().surprise_z
    };
    let (known, forgotten) = (next(false), next(true));
    assert!(forgotten > known + 0.3, "{known} and {forgotten}");
}

#[test]
fn tiers_have_statistics_of_their_own() {
    let memory = Memory::builder().dimension(DIMENSION).no_embedder().open().unwrap();
    for i in 0..30 {
        memory.remember(request(i).tier(Tier::Episodic)).unwrap();
    }
    for i in 30..40 {
        let result = memory.remember(request(i).tier(Tier::Procedural)).unwrap();
        assert_eq!(result.surprise_z, 0.0, "the first ten of a tier are not judged");
    }
    assert_ne!(memory.remember(request(40).tier(Tier::Procedural)).unwrap().surprise_z, 0.0);
}

#[test]
fn monotony_never_flashes() {
    let memory = Memory::builder().dimension(DIMENSION).no_embedder().open().unwrap();
    let vector = Random::new(1).vector(DIMENSION);
    for i in 0..600 {
        let result = memory.remember(RememberRequest::from_vector(vector.clone()).allow_duplicate(true)).unwrap();
        assert!(!result.flashbulb && result.surprise_z <= 0.0, "number {i}: {result:?}");
    }
}

#[test]
fn an_outlier_flashes_is_pinned_and_never_fades() {
    let folder = tempfile::tempdir().unwrap();
    let memory = open(folder.path());
    let centre = Random::new(1).vector(DIMENSION);
    let near = |i: u64| -> Vec<f32> {
        let noise = Random::new(100 + i).vector(DIMENSION);
        centre.iter().zip(&noise).map(|(x, noise)| x + 0.3 * noise).collect()
    };
    let opposite: Vec<f32> = centre.iter().map(|x| -x).collect();
    let old = at("1999-12-31T23:59:59Z");
    // Nineteen samples are too few to flash.
    for i in 0..19 {
        assert!(!memory.remember(RememberRequest::from_vector(near(i)).at(old)).unwrap().flashbulb);
    }
    let early = memory.remember(RememberRequest::from_vector(opposite.clone()).id("early").at(old)).unwrap();
    assert!(early.surprise_z > 3.0 && !early.flashbulb && early.importance < 10.0, "{early:?}");
    memory.forget("early").unwrap();
    for i in 20..60 {
        memory.remember(RememberRequest::from_vector(near(i)).at(old)).unwrap();
    }
    let unloved = Soul::new(9).boost("dull", 0.0);
    let flash = memory.remember(RememberRequest::from_vector(opposite.clone()).id("flash").at(old).tag("dull").soul(unloved)).unwrap();
    assert!(flash.flashbulb && flash.surprise_z > 3.0 && flash.importance == 10.0, "{flash:?}");
    let check = |memory: &Memory| {
        let record = memory.get("flash").unwrap().unwrap();
        assert!(record.flashbulb && record.pinned && record.importance == 10.0 && record.soul_version == 9);
        let hit = memory.recall(RecallQuery::from_vector(opposite.clone()).profile(Profile::Critical).k(1)).unwrap().hits.remove(0);
        assert_eq!(hit.id, "flash");
        assert!((hit.breakdown.modulation - 1.0).abs() < 1e-7, "importance 10 without decay: {hit:?}");
        let pinned: Vec<_> = everything(memory).into_iter().filter(|record| record.pinned != record.flashbulb).collect();
        assert!(pinned.is_empty());
    };
    check(&memory);
    memory.update("flash", Update::new().tags(["still"])).unwrap();
    check(&memory);
    memory.close().unwrap();
    check(&open(folder.path()));
}

#[test]
fn a_memory_without_a_vector_is_not_judged_and_adds_no_sample() {
    let with_texts = |texts: bool| {
        let memory = Memory::builder().dimension(DIMENSION).no_embedder().open().unwrap();
        let mut judged = Vec::new();
        for i in 0..40 {
            if texts {
                let result = memory.remember(RememberRequest::new(format!("text {i}"))).unwrap();
                assert_eq!((result.surprise_z, result.importance), (0.0, 1.0));
            }
            judged.push(bits(&memory.remember(request(i)).unwrap()));
        }
        judged
    };
    assert_eq!(with_texts(true), with_texts(false));
}

#[test]
fn a_reward_is_judged_against_what_similar_memories_led_to() {
    let memory = Memory::builder().dimension(DIMENSION).no_embedder().open().unwrap();
    let vector = Random::new(1).vector(DIMENSION);
    let same = |id: &str| RememberRequest::from_vector(vector.clone()).id(id).allow_duplicate(true);
    let first = memory.remember(same("a").reward(1.0)).unwrap();
    // Nothing predicted: delta 1, valence round(127 * 0.7), arousal 255, importance 1 * 1.5.
    assert_eq!((first.valence, first.arousal, first.importance), (89, 255, 1.5));
    let second = memory.remember(same("b").reward(1.0)).unwrap();
    // Predicted 89/127: delta 38/127, valence round(89 + 0.7 * 38), arousal 2 * 116.
    assert_eq!((second.valence, second.arousal), (116, 232));
    assert!((second.importance - (1.0 + 38.0 / 254.0)).abs() < 1e-6);
    // Reinforcement changes what is predicted: 0.7 * 89 - 0.3 * 127 = 24.2, and 0.7 * 116 - 38.1 = 43.1.
    memory.reinforce(Reinforce::new("a", -1.0)).unwrap();
    memory.reinforce(Reinforce::new("b", -1.0)).unwrap();
    let third = memory.remember(same("c").reward(0.0)).unwrap();
    let predicted = (24.0 + 43.0) / 2.0 / 127.0;
    assert_eq!(third.valence, (127.0_f64 * 0.3 * predicted).round() as i8);
    assert!((f64::from(third.importance) - (1.0 + predicted / 2.0)).abs() < 1e-6);
    // The caller's own valence and arousal are kept exactly.
    let own = memory.remember(same("d").reward(1.0).valence(-3).arousal(7)).unwrap();
    assert_eq!((own.valence, own.arousal), (-3, 7));
}
