//! Recall against a naive reading of its specification, under every scoring kernel.
//!
//! The oracle below is written from the formula alone, in `f64`, over what the generator made and what `list` says of it; no code of the
//! engine takes part. `MNEMOLITH_QUICK=1` runs 20,000 memories instead of 100,000.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::disallowed_methods)]

mod common;

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use common::{Random, at, clock, vectors};
use mnemolith::{
    Durability, Hit, ListQuery, Memory, MemoryRecord, Profile, Recall, RecallQuery, Reinforce, RememberRequest, Soul, Tier, Timestamp,
    Update,
};
use xxhash_rust::xxh3::xxh3_128;

const DIMENSION: usize = 384;
const QUERIES: usize = 300;
const QUERY_VECTORS: usize = 60;
const DAY_MS: f64 = 86_400_000.0;
/// Two orders that differ only where the oracle's own scores are this close are one order.
const TIE: f64 = 2e-8;
/// Common ones first, down to one in a thousand.
const TAGS: [(&str, u64); 12] = [
    ("common", 2),
    ("Often", 3),
    ("weekly", 5),
    ("ops", 8),
    ("café", 10),
    ("people", 20),
    ("billing", 50),
    ("incident", 100),
    ("日本", 200),
    ("rare", 500),
    ("rarer", 1000),
    ("rarest", 1000),
];
const SESSIONS: u64 = 7;
const CLUSTER: usize = 400;

fn size() -> usize {
    if std::env::var_os("MNEMOLITH_QUICK").is_some() { 20_000 } else { 100_000 }
}

fn now() -> Timestamp {
    at("2026-06-01T12:00:00Z")
}

/// The vector of memory `i`. Every 50th repeats its predecessor, so that scores tie exactly; the first of all lie so close together that
/// only an exact score tells them apart.
fn vector_of(i: usize) -> Vec<f32> {
    if i < CLUSTER {
        let centre = Random::new(0xc1).vector(DIMENSION);
        return centre.iter().zip(Random::new(i as u64).vector(DIMENSION)).map(|(x, noise)| x + 3e-6 * noise).collect();
    }
    let source = if i % 50 == 49 { i - 1 } else { i };
    Random::new(0x5eed_0000 + source as u64).vector(DIMENSION)
}

/// When memory `i` happened: in the last 395 days, or in the next 5.
fn event_ms(i: usize) -> i64 {
    now().millis() - Random::new(0x7173 + i as u64).below(400 * DAY_MS as u64) as i64 + 5 * DAY_MS as i64
}

fn request(i: usize) -> RememberRequest {
    let mut random = Random::new(0xdeed_0000 + i as u64);
    let tags: Vec<&str> = TAGS.iter().filter(|(_, rarity)| random.one_in(*rarity)).map(|(tag, _)| *tag).collect();
    let mut request = RememberRequest::from_vector(vector_of(i))
        .id(format!("m{i}"))
        .tags(tags)
        .tier(Tier::ALL[random.below(4) as usize])
        .at(Timestamp::from_millis(event_ms(i)))
        .allow_duplicate(true);
    if random.one_in(3) {
        request = request.session(format!("s{}", random.below(SESSIONS)));
    }
    if random.one_in(2) {
        request = request.valence(random.below(255) as i64 - 127);
    } else if random.one_in(2) {
        request = request.reward(random.unit() * 2.0 - 1.0);
    }
    if random.one_in(3) {
        request = request.interest(random.unit()).urgency(random.unit()).challenge(random.unit());
    }
    if random.one_in(5) {
        request = request.soul(Soul::new(3).boost("ops", 2.0).boost("common", 0.3).valence_gain(-1.5));
    }
    request
}

/// Fills a namespace; what was forgotten, and the tags of what was updated.
fn prepare(path: &Path, n: usize) -> Vec<bool> {
    let memory = vectors(path, DIMENSION, &clock()).durability(Durability::Buffered).novelty_window(16).open().unwrap();
    let pending: Vec<_> = (0..n).map(|i| memory.remember_begin(request(i)).unwrap()).collect();
    for pending in pending {
        pending.wait().unwrap();
    }
    let mut random = Random::new(99);
    let mut forgotten = vec![false; n];
    for _ in 0..n / 30 {
        let i = random.below(n as u64) as usize;
        assert_eq!(memory.forget(&format!("m{i}")).unwrap(), !forgotten[i]);
        forgotten[i] = true;
    }
    let draw = |random: &mut Random| {
        loop {
            let i = random.below(n as u64) as usize;
            if !forgotten[i] {
                return i;
            }
        }
    };
    for _ in 0..n / 50 {
        let i = draw(&mut random);
        memory.reinforce(Reinforce::new(format!("m{i}"), random.unit() * 2.0 - 1.0)).unwrap();
    }
    for turn in 0..n / 200 {
        let tags: &[&str] = if turn % 2 == 0 { &["updated", "OPS"] } else { &["rare"] };
        memory.update(&format!("m{}", draw(&mut random)), Update::new().tags(tags.iter().copied())).unwrap();
    }
    memory.close().unwrap();
    forgotten
}

// ---- the queries -----------------------------------------------------------------------------------------------------------------

#[derive(Debug, Clone)]
struct Asked {
    vector: usize,
    tags_all: Vec<&'static str>,
    tags_any: Vec<&'static str>,
    tiers: Vec<Tier>,
    after: Option<i64>,
    before: Option<i64>,
    session: Option<String>,
    profile: Profile,
    mood: Option<i64>,
    k: usize,
}

fn query_vector(index: usize, n: usize) -> Vec<f32> {
    let mut random = Random::new(0xface + index as u64);
    let noise = random.vector(DIMENSION);
    if index.is_multiple_of(2) {
        return noise;
    }
    let near = vector_of(if index % 6 == 1 { 0 } else { random.below(n as u64) as usize });
    near.iter().zip(&noise).map(|(x, noise)| x + 0.7 * noise).collect()
}

fn questions(n: usize) -> Vec<Asked> {
    let mut random = Random::new(0xbeef);
    (0..QUERIES)
        .map(|i| {
            let pick = |from: &[&[&'static str]], random: &mut Random| from[random.below(from.len() as u64) as usize].to_vec();
            // The ends of a time window are the times of memories, so that it is seen which of them it includes.
            let mut time = |oldest: u64| {
                let memories = std::iter::repeat_with(|| event_ms(random.below(n as u64) as usize));
                memories.into_iter().find(|ms| now().millis() - ms < (oldest as f64 * DAY_MS) as i64).unwrap()
            };
            let (after, before) = (time(330), time(200));
            Asked {
                vector: i % QUERY_VECTORS,
                tags_all: pick(&[&[], &[], &["COMMON"], &["rarer"], &["ops", "often"], &["common", "nowhere"]], &mut random),
                tags_any: pick(&[&[], &[], &["people"], &["billing", "Rare", "nowhere"], &["nowhere"]], &mut random),
                tiers: match random.below(4) {
                    0 => vec![Tier::Semantic],
                    1 => vec![Tier::Working, Tier::Procedural],
                    _ => Vec::new(),
                },
                after: random.one_in(3).then_some(after),
                before: random.one_in(3).then_some(before),
                session: random.one_in(4).then(|| format!("s{}", random.below(SESSIONS + 1))),
                profile: Profile::ALL[i % 6],
                mood: random.one_in(2).then(|| random.below(255) as i64 - 127),
                // Every answer of one in fifteen.
                k: if i % 15 == 4 { n + 10 } else { [0, 1, 10, 100][(i / 6) % 4] },
            }
        })
        .collect()
}

impl Asked {
    fn query(&self, n: usize) -> RecallQuery {
        let mut query = RecallQuery::from_vector(query_vector(self.vector, n))
            .k(self.k)
            .tags_all(self.tags_all.iter().copied())
            .tags_any(self.tags_any.iter().copied())
            .tiers(self.tiers.iter().copied())
            .profile(self.profile);
        if let Some(after) = self.after {
            query = query.after(Timestamp::from_millis(after));
        }
        if let Some(before) = self.before {
            query = query.before(Timestamp::from_millis(before));
        }
        if let Some(session) = &self.session {
            query = query.session(session.clone());
        }
        match self.mood {
            Some(mood) => query.mood(mood),
            None => query,
        }
    }
}

// ---- the oracle ------------------------------------------------------------------------------------------------------------------

/// b, g, m, floor, and the valences admitted.
fn weights(profile: Profile) -> (f64, f64, f64, f64, std::ops::RangeInclusive<i64>) {
    let weights = profile.weights();
    let window = weights.valence_window.map_or(-127..=127, |(from, to)| i64::from(from)..=i64::from(to));
    (weights.b, weights.g, weights.m, weights.floor, window)
}

/// Three distinct bits of 64, drawn without replacement: the digits of the hash to the bases 64, 63 and 62 say which of the free places.
fn tag_bits(tag: &str) -> u64 {
    let mut digits = xxh3_128(tag.to_lowercase().as_bytes());
    let mut free: Vec<u32> = (0..64).collect();
    (0..3).fold(0, |bits, _| {
        let base = free.len() as u128;
        let place = free.remove((digits % base) as usize);
        digits /= base;
        bits | 1 << place
    })
}

struct Known {
    id: String,
    unit: Vec<f32>,
    tags: Vec<String>,
    mask: u64,
    tier: Tier,
    at_ms: i64,
    session: Option<String>,
    importance: f64,
    pinned: bool,
    strength: f64,
    valence: i64,
    lsn: u64,
}

fn unit(vector: &[f32]) -> Vec<f32> {
    let norm = vector.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
    vector.iter().map(|x| (f64::from(*x) / norm) as f32).collect()
}

impl Known {
    fn new(record: &MemoryRecord) -> Self {
        let i: usize = record.id[1..].parse().unwrap();
        let tags: Vec<String> = record.tags.iter().map(|tag| tag.to_lowercase()).collect();
        Self {
            id: record.id.clone(),
            unit: unit(&vector_of(i)),
            mask: tags.iter().fold(0, |mask, tag| mask | tag_bits(tag)),
            tags,
            tier: record.tier,
            at_ms: record.at.millis(),
            session: record.session.clone(),
            importance: f64::from(record.importance),
            pinned: record.pinned,
            strength: f64::from(record.strength),
            valence: i64::from(record.current_valence),
            lsn: record.location.lsn,
        }
    }

    fn admitted(&self, asked: &Asked) -> bool {
        let has = |tag: &&'static str| self.tags.contains(&tag.to_lowercase());
        asked.tags_all.iter().all(has)
            && (asked.tags_any.is_empty() || asked.tags_any.iter().any(has))
            && (asked.tiers.is_empty() || asked.tiers.contains(&self.tier))
            && asked.after.is_none_or(|after| self.at_ms >= after)
            && asked.before.is_none_or(|before| self.at_ms < before)
            && asked.session.as_ref().is_none_or(|session| self.session.as_ref() == Some(session))
            && weights(asked.profile).4.contains(&self.valence)
    }

    fn score(&self, cosine: f64, asked: &Asked) -> f64 {
        let (b, g, m, floor, _) = weights(asked.profile);
        let age = ((now().millis() - self.at_ms) as f64 / DAY_MS).max(0.0);
        let decay = if self.pinned { 1.0 } else { floor + (1.0 - floor) * (1.0 + age / (7.0 * self.strength)).powf(-0.5) };
        let modulation = (1.0 + b * self.importance / 10.0 * decay) / (1.0 + b);
        let optional = asked.tags_any.iter().fold(0, |mask, tag| mask | tag_bits(tag));
        let tags = match optional {
            0 => 1.0,
            q => 1.0 + g * f64::from((self.mask & q).count_ones()) / f64::from(q.count_ones()),
        };
        let mood = asked.mood.map_or(1.0, |mood| 1.0 - m * (mood - self.valence).abs() as f64 / 255.0);
        cosine.max(0.0) * modulation * tags * mood
    }
}

/// Score, cosine and log position: what decides the order.
type Key = (f64, f64, u64);

/// Whether `a` may stand before `b`: it is better, equal and earlier, or too close to call.
fn may_precede(a: &Key, b: &Key) -> bool {
    let by = |x: f64, y: f64| if x == y { None } else { Some(x > y || y - x < TIE) };
    by(a.0, b.0).or_else(|| by(a.1, b.1)).unwrap_or(a.2 < b.2)
}

fn compare(asked: &Asked, hits: &[Hit], known: &[Known], places: &HashMap<&str, usize>, cosines: &[f64]) -> (usize, usize) {
    let key = |i: usize| -> Key { (known[i].score(cosines[i], asked), cosines[i], known[i].lsn) };
    let mut wanted: Vec<(Key, usize)> = (0..known.len()).filter(|&i| known[i].admitted(asked)).map(|i| (key(i), i)).collect();
    wanted.sort_by(|(a, _), (b, _)| b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1)).then(a.2.cmp(&b.2)));
    assert_eq!(hits.len(), asked.k.min(wanted.len()), "{asked:?}");
    let mut returned = vec![false; known.len()];
    let mut moved = 0;
    let mut last: Option<Key> = None;
    for (hit, (_, expected)) in hits.iter().zip(&wanted) {
        let i = *places.get(hit.id.as_str()).unwrap_or_else(|| panic!("{} is not live: {asked:?}", hit.id));
        assert!(known[i].admitted(asked), "{} does not qualify: {asked:?}", hit.id);
        assert!(!std::mem::replace(&mut returned[i], true), "{} twice: {asked:?}", hit.id);
        let key = key(i);
        assert!((hit.score - key.0).abs() < 1e-5, "{}: {} and not {}: {asked:?}", hit.id, hit.score, key.0);
        assert!((hit.cosine - key.1).abs() < 1e-5, "{}: {} and not {}: {asked:?}", hit.id, hit.cosine, key.1);
        let parts = hit.breakdown;
        assert!((parts.sim * parts.modulation * parts.tags * parts.mood - hit.score).abs() < 1e-5);
        assert!(last.is_none_or(|last| may_precede(&last, &key)), "{} is out of order: {last:?}, {key:?}: {asked:?}", hit.id);
        moved += usize::from(i != *expected);
        last = Some(key);
    }
    if let Some(last) = last {
        for (key, i) in wanted.iter().filter(|(_, i)| !returned[*i]) {
            assert!(may_precede(&last, key), "{} is missing: {key:?} beats {last:?}: {asked:?}", known[*i].id);
        }
    }
    (moved, wanted.len())
}

// ---- the tests -------------------------------------------------------------------------------------------------------------------

fn open(path: &Path) -> Memory {
    vectors(path, DIMENSION, &clock()).durability(Durability::Buffered).open().unwrap()
}

/// Every bit of every answer.
fn digest(hits: &[Hit]) -> u128 {
    let mut bytes = Vec::new();
    for hit in hits {
        let parts = hit.breakdown;
        bytes.extend_from_slice(hit.id.as_bytes());
        for value in [hit.score, hit.cosine, parts.sim, parts.modulation, parts.tags, parts.mood] {
            bytes.extend_from_slice(&value.to_bits().to_le_bytes());
        }
    }
    xxh3_128(&bytes)
}

fn digests(memory: &Memory, n: usize) -> String {
    questions(n).iter().map(|asked| format!("{:032x}\n", digest(&memory.recall(asked.query(n)).unwrap().hits))).collect()
}

#[test]
fn recall_is_what_the_formula_says_under_every_kernel() {
    let n = size();
    let folder = tempfile::tempdir().unwrap();
    let started = Instant::now();
    let forgotten = prepare(folder.path(), n);
    println!("{n} memories prepared in {:.1?}", started.elapsed());

    let memory = open(folder.path());
    let started = Instant::now();
    let known = everything(&memory);
    let live = forgotten.iter().filter(|forgotten| !**forgotten).count();
    assert_eq!((known.len(), memory.stats().unwrap().live as usize), (live, live));
    assert!(known.windows(2).all(|pair| pair[0].lsn < pair[1].lsn), "a listing is in the order of storing");
    println!("listed in {:.1?}", started.elapsed());

    let started = Instant::now();
    let recalls: Vec<Recall> = questions(n).iter().map(|asked| memory.recall(asked.query(n)).unwrap()).collect();
    println!("{QUERIES} recalls in {:.1?} with {}", started.elapsed(), memory.stats().unwrap().kernel);

    let started = Instant::now();
    let places: HashMap<&str, usize> = known.iter().enumerate().map(|(i, known)| (known.id.as_str(), i)).collect();
    let mut compared = 0;
    let (mut moved, mut empty, mut cut) = (0, 0, 0);
    let questions = questions(n);
    for vector in 0..QUERY_VECTORS {
        let query = unit(&query_vector(vector, n));
        let cosines: Vec<f64> =
            known.iter().map(|known| known.unit.iter().zip(&query).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()).collect();
        for (asked, recall) in questions.iter().zip(&recalls).filter(|(asked, _)| asked.vector == vector) {
            let hits = &recall.hits;
            let (here, admitted) = compare(asked, hits, &known, &places, &cosines);
            assert!(
                asked.k == 0 || recall.plan.admitted == admitted as u64,
                "{} admitted and not {admitted}: {asked:?}",
                recall.plan.admitted
            );
            compared += hits.len();
            moved += here;
            empty += usize::from(admitted == 0);
            cut += usize::from(admitted > hits.len());
        }
    }
    println!("{compared} hits compared in {:.1?}; {moved} swapped within {TIE:e}", started.elapsed());
    assert!(moved * 100 < compared, "only near ties may be swapped");
    // The questions are worth asking: many answers are whole, many are cut at k, some are empty.
    assert!(compared > n / 4 && empty > 10 && cut > 100 && empty + cut < QUERIES, "{compared} {empty} {cut}");
    let expected: String = recalls.iter().map(|recall| format!("{:032x}\n", digest(&recall.hits))).collect();
    memory.close().unwrap();
    same_under_every_kernel(folder.path(), &expected);
}

fn everything(memory: &Memory) -> Vec<Known> {
    let mut known = Vec::new();
    let mut query = ListQuery::new().limit(1000);
    loop {
        let page = memory.list(query).unwrap();
        known.extend(page.memories.iter().map(Known::new));
        match page.cursor {
            Some(cursor) => query = ListQuery::new().limit(1000).cursor(cursor),
            None => return known,
        }
    }
}

fn same_under_every_kernel(store: &Path, expected: &str) {
    let results = tempfile::tempdir().unwrap();
    let mut ran = Vec::new();
    for kernel in ["scalar", "portable", "avx2", "avx512"] {
        let started = Instant::now();
        let result = results.path().join(kernel);
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "answers_of_one_kernel", "--nocapture"])
            .env("MNEMOLITH_SIMD", kernel)
            .env("MNEMOLITH_ORACLE_STORE", store)
            .env("MNEMOLITH_ORACLE_RESULT", &result)
            .output()
            .unwrap();
        assert!(child.status.success(), "{kernel}: {}", String::from_utf8_lossy(&child.stdout));
        let result = std::fs::read_to_string(&result).unwrap();
        if result == "absent" {
            println!("{kernel}: not on this machine");
            continue;
        }
        let (name, answers) = result.split_once('\n').unwrap();
        assert_eq!(name, kernel);
        let differing: Vec<usize> =
            answers.lines().zip(expected.lines()).enumerate().filter(|(_, (a, b))| a != b).map(|(i, _)| i).collect();
        assert!(answers == expected, "{kernel} answers questions {differing:?} otherwise");
        println!("{kernel}: the same {QUERIES} answers in {:.1?}", started.elapsed());
        ran.push(kernel);
    }
    assert!(ran.starts_with(&["scalar", "portable"]));
}

/// The other half of the test above, in a process of its own; on its own it has nothing to do.
#[test]
fn answers_of_one_kernel() {
    let Some(store) = std::env::var_os("MNEMOLITH_ORACLE_STORE") else { return };
    let result = std::env::var_os("MNEMOLITH_ORACLE_RESULT").unwrap();
    let Ok(kernel) = mnemolith::simd_kernel() else {
        return std::fs::write(result, "absent").unwrap();
    };
    let memory = open(Path::new(&store));
    std::fs::write(result, format!("{kernel}\n{}", digests(&memory, size()))).unwrap();
}
