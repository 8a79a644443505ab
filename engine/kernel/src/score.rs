//! The score of a memory under a query, on one scale for every plan.
//!
//! ```text
//! score = sim * modulation * tags * mood
//! sim        = max(0, cosine)
//! modulation = (1 + b * importance/10 * decay) / (1 + b)
//! decay      = 1 where pinned, else floor + (1 - floor) / sqrt(1 + age in days / (7 * strength))
//! tags       = 1 + g * popcount(mask & optional) / popcount(optional), 1 where no tags are optional
//! mood       = 1 - m * |valence of the query - current valence| / 255, 1 where the query has no mood
//! ```
//!
//! It exists twice. The canonical score is scalar, in `f64`, with a fixed order of operations that knows only `+ - * /` and the square
//! root, all of which IEEE 754 rounds correctly: it gives the same bits on every machine, and it alone decides scores and order. The
//! `f32` score of a block of rows, which the compiler vectorises, only selects candidates; [`error_bound`] says how far it can lie off.
//!
//! Invariant: every weight and every input is brought into its range before use, so a damaged header cannot make a score NaN, and every
//! factor lies in `[0, 1]` but for `tags`, which lies in `[1, 1 + g]`. The bound rests on that.

use std::cmp::Ordering;

use crate::format::{EncodingHeader, MutableState, flags};

const DAY_MS: f64 = 86_400_000.0;
/// Days in which a memory of strength 1 halves the square of its decay.
const DECAY_DAYS: f64 = 7.0;
const MAX_IMPORTANCE: f32 = 10.0;
const MAX_STRENGTH: f32 = 10.0;
/// The widest distance of two valences.
const VALENCE_RANGE: f64 = 255.0;
/// The most that importance and tags may weigh.
const MAX_WEIGHT: f64 = 10.0;
/// Half the distance from 1 to the next `f32`: the relative error of one operation.
const UNIT: f64 = 1.0 / 16_777_216.0;
/// Lanes of the canonical dot product.
const LANES: usize = 8;

/// How much each part of a score weighs. Values out of range count as the nearest end of it, NaN as the lower one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weights {
    /// `b`, in `[0, 10]`: how far importance, as far as it has not decayed, lifts a memory.
    pub importance: f64,
    /// `g`, in `[0, 10]`: how far optional tags lift a memory.
    pub tags: f64,
    /// `m`, in `[0, 1]`: how far a distance from the query's mood lowers a memory.
    pub mood: f64,
    /// In `[0, 1]`: what is left of a memory's importance however old it is.
    pub floor: f64,
}

impl Default for Weights {
    /// b = 0.20, g = 0.10, m = 0, floor = 0.35.
    fn default() -> Self {
        Self { importance: 0.20, tags: 0.10, mood: 0.0, floor: 0.35 }
    }
}

impl Weights {
    fn in_range(self) -> Self {
        Self {
            importance: within(self.importance, 0.0, MAX_WEIGHT),
            tags: within(self.tags, 0.0, MAX_WEIGHT),
            mood: within(self.mood, 0.0, 1.0),
            floor: within(self.floor, 0.0, 1.0),
        }
    }
}

/// The factors of a score: their product, from the first to the last, is the score bit for bit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Breakdown {
    /// Similarity, not below 0.
    pub sim: f64,
    /// Importance after decay.
    pub modulation: f64,
    /// Optional tags.
    pub tags: f64,
    /// Distance from the query's mood.
    pub mood: f64,
}

impl Breakdown {
    /// The score.
    pub fn score(&self) -> f64 {
        self.sim * self.modulation * self.tags * self.mood
    }
}

/// A memory with its canonical score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scored {
    /// The memory's slot.
    pub slot: u64,
    /// Its place in the order of memories: the log position that first stored it.
    pub lsn: u64,
    /// Its score.
    pub score: f64,
    /// The cosine of its vector with the query, which may be negative.
    pub cosine: f64,
    /// What the score is made of.
    pub breakdown: Breakdown,
}

impl Scored {
    /// The total order of answers: score descending, cosine descending, earlier in the log first.
    pub fn best_first(&self, other: &Self) -> Ordering {
        let by_score = other.score.total_cmp(&self.score);
        let by_cosine = || other.cosine.total_cmp(&self.cosine);
        by_score.then_with(by_cosine).then(self.lsn.cmp(&other.lsn)).then(self.slot.cmp(&other.slot))
    }
}

/// What a row brings to its score beside its vector.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Inputs {
    pub(crate) importance: f32,
    pub(crate) event_time_ms: i64,
    pub(crate) pinned: bool,
    pub(crate) tags: u64,
    pub(crate) strength: f32,
    pub(crate) valence: i8,
}

impl Inputs {
    /// Of a row's header and what changed since, `None` where nothing did.
    #[inline]
    pub(crate) fn new(header: &EncodingHeader, state: Option<&MutableState>) -> Self {
        Self {
            importance: within(header.importance, 0.0, MAX_IMPORTANCE),
            event_time_ms: header.event_time_ms,
            pinned: header.has(flags::PINNED),
            tags: header.tags,
            strength: state.map_or(1.0, |state| within(state.strength, 1.0, MAX_STRENGTH)),
            valence: state.map_or(header.valence, |state| state.valence),
        }
    }
}

/// `value`, or the end of the range it lies beyond; NaN is `low`.
#[inline]
fn within<T: PartialOrd + Copy>(value: T, low: T, high: T) -> T {
    let capped = if value < high { value } else { high };
    if value > low { capped } else { low }
}

/// The score's formula with everything in it that does not depend on the row.
#[derive(Debug, Clone)]
pub(crate) struct Scorer {
    weights: Weights,
    now_ms: i64,
    optional_tags: u64,
    mood: Option<i8>,
}

impl Scorer {
    /// `optional_tags` is the Bloom mask of the query's optional tags, 0 where there are none.
    pub(crate) fn new(weights: Weights, now_ms: i64, optional_tags: u64, mood: Option<i8>) -> Self {
        Self { weights: weights.in_range(), now_ms, optional_tags, mood }
    }

    /// The canonical score of a row whose similarity to the query is `similarity`.
    pub(crate) fn breakdown(&self, similarity: f64, row: &Inputs) -> Breakdown {
        let floor = self.weights.floor;
        let decay = if row.pinned {
            1.0
        } else {
            let age = self.age_ms(row.event_time_ms) as f64 / DAY_MS;
            floor + (1.0 - floor) / (1.0 + age / (DECAY_DAYS * f64::from(row.strength))).sqrt()
        };
        let b = self.weights.importance;
        let modulation = (1.0 + b * (f64::from(row.importance) / 10.0) * decay) / (1.0 + b);
        let tags = if self.optional_tags == 0 {
            1.0
        } else {
            let shared = f64::from((row.tags & self.optional_tags).count_ones());
            1.0 + self.weights.tags * (shared / f64::from(self.optional_tags.count_ones()))
        };
        let mood = self.mood.map_or(1.0, |mood| {
            let distance = f64::from(mood.abs_diff(row.valence));
            1.0 - self.weights.mood * (distance / VALENCE_RANGE)
        });
        // Not `f64::max`, which leaves the sign of a zero open.
        let sim = if similarity > 0.0 { similarity } else { 0.0 };
        Breakdown { sim, modulation, tags, mood }
    }

    /// [`error_bound`] of this formula.
    pub(crate) fn error_bound(&self, dimension: usize) -> f64 {
        error_bound(dimension, &self.weights)
    }

    /// [`slack`] of this formula.
    pub(crate) fn slack(&self, dimension: usize) -> f32 {
        slack(dimension, &self.weights)
    }

    /// Whether a score needs more of a row than its vector.
    pub(crate) fn reads_headers(&self) -> bool {
        self.weighs_importance() || self.weighs_tags() || self.weighs_mood()
    }

    fn weighs_importance(&self) -> bool {
        self.weights.importance > 0.0
    }

    fn weighs_tags(&self) -> bool {
        self.weights.tags > 0.0 && self.optional_tags != 0
    }

    fn weighs_mood(&self) -> bool {
        self.weights.mood > 0.0 && self.mood.is_some()
    }

    #[inline]
    fn age_ms(&self, event_time_ms: i64) -> i64 {
        self.now_ms.saturating_sub(event_time_ms).max(0)
    }

    /// Appends rows to the columns of a block: only to those that weigh anything.
    #[inline]
    pub(crate) fn gather(&self, rows: impl Iterator<Item = Inputs> + Clone, columns: &mut Columns) {
        if self.weighs_importance() {
            let per_ms = (1.0 / (DECAY_DAYS * DAY_MS)) as f32;
            columns.importance.extend(rows.clone().map(|row| row.importance));
            columns.wear.extend(rows.clone().map(|row| {
                let age = if row.pinned { 0 } else { self.age_ms(row.event_time_ms) };
                age as f32 * per_ms / row.strength
            }));
        }
        if self.weighs_tags() {
            columns.shared.extend(rows.clone().map(|row| (row.tags & self.optional_tags).count_ones() as f32));
        }
        if let Some(mood) = self.mood.filter(|_| self.weighs_mood()) {
            columns.distance.extend(rows.map(|row| f32::from(mood.abs_diff(row.valence))));
        }
    }

    /// Turns the dot products of a block into selection keys, a row of the columns each.
    ///
    /// A key is the score where the cosine is positive, and the cosine itself where it is not: so keys are ordered as answers
    /// are, by score and among scores of 0 by cosine, and rows that point away from the query do not tie at 0 by the thousand.
    pub(crate) fn fuse(&self, columns: &Columns, keys: &mut [f32]) {
        if self.weighs_importance() {
            let b = self.weights.importance;
            let base = (1.0 / (1.0 + b)) as f32;
            let gain = (b / (10.0 * (1.0 + b))) as f32;
            let floor = self.weights.floor as f32;
            let rest = (1.0 - self.weights.floor) as f32;
            for ((key, importance), wear) in keys.iter_mut().zip(&columns.importance).zip(&columns.wear) {
                let decay = floor + rest / (1.0 + wear).sqrt();
                let factor = base + gain * importance * decay;
                *key *= if *key > 0.0 { factor } else { 1.0 };
            }
        }
        if self.weighs_tags() {
            let gain = (self.weights.tags / f64::from(self.optional_tags.count_ones())) as f32;
            for (key, shared) in keys.iter_mut().zip(&columns.shared) {
                *key *= if *key > 0.0 { 1.0 + gain * shared } else { 1.0 };
            }
        }
        if self.weighs_mood() {
            let loss = (self.weights.mood / VALENCE_RANGE) as f32;
            for (key, distance) in keys.iter_mut().zip(&columns.distance) {
                *key *= if *key > 0.0 { 1.0 - loss * distance } else { 1.0 };
            }
        }
    }

    /// A dot product that a row needs for its key to reach `least`, whatever else is known of it.
    ///
    /// A positive dot product grows at most by `1 + g` and what fewer than 32 roundings add; one that is not positive stays.
    pub(crate) fn least_dot(&self, least: f32) -> f32 {
        if least <= 0.0 {
            return least;
        }
        let growth = if self.weighs_tags() { 1.0 + self.weights.tags } else { 1.0 };
        ((f64::from(least) / (growth * (1.0 + 64.0 * UNIT))) as f32).next_down()
    }

    /// What [`Scorer::fuse`] approximates.
    pub(crate) fn canonical_key(scored: &Scored) -> f64 {
        if scored.cosine > 0.0 { scored.score } else { scored.cosine }
    }
}

/// What [`Scorer::fuse`] needs of a block of rows, column by column.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    importance: Vec<f32>,
    /// Age over seven days times strength; 0 where pinned.
    wear: Vec<f32>,
    /// Optional tags that the row has.
    shared: Vec<f32>,
    /// From the query's mood.
    distance: Vec<f32>,
}

impl Columns {
    pub(crate) fn clear(&mut self) {
        for column in [&mut self.importance, &mut self.wear, &mut self.shared, &mut self.distance] {
            column.clear();
        }
    }
}

/// The cosine of two normalised vectors of one length, in `f64`.
///
/// Eight lanes, value `i` in lane `i % 8`, each summed in order; then the lanes as a tree, `((0 + 4) + (2 + 6)) + ((1 + 5) + (3 + 7))`.
/// Nothing is fused and no kernel takes part, so the same vectors give the same bits everywhere. It is never -0.
pub(crate) fn canonical_cosine(query: &[f32], row: &[f32]) -> f64 {
    let mut sums = [0.0_f64; LANES];
    let (query, query_tail) = query.as_chunks::<LANES>();
    let (row, row_tail) = row.as_chunks::<LANES>();
    for (query, row) in query.iter().zip(row) {
        for ((sum, a), b) in sums.iter_mut().zip(query).zip(row) {
            *sum += f64::from(*a) * f64::from(*b);
        }
    }
    for ((sum, a), b) in sums.iter_mut().zip(query_tail).zip(row_tail) {
        *sum += f64::from(*a) * f64::from(*b);
    }
    let [s0, s1, s2, s3, s4, s5, s6, s7] = sums;
    ((s0 + s4) + (s2 + s6)) + ((s1 + s5) + (s3 + s7))
}

/// How far the `f32` dot product of two normalised vectors can lie from [`canonical_cosine`], under every kernel.
///
/// A kernel sums in at least eight lanes. A product is rounded once and then passes at most `dimension / 8` additions of its lane, one
/// for the tail, and a handful that fold accumulators and lanes: fewer than `n = dimension / 8 + 32` roundings, each of which
/// changes it by a factor in `1 +- u`, `u = 2^-24`. So the error is at most `n u / (1 - n u)` times the sum of the products' magnitudes,
/// which the Cauchy-Schwarz inequality bounds by the product of the two norms. The last factor covers `1 / (1 - n u)` (1.0005 at
/// dimension 65,535), norms that rounding to `f32` left above 1, products that underflow, and the canonical sum's own 2^-40.
pub(crate) fn dot_error_bound(dimension: usize) -> f64 {
    (dimension / LANES + 32) as f64 * UNIT * 1.01
}

/// How far the `f32` key of a row can lie from the canonical one.
///
/// The factors pass fewer than 32 roundings together, constants included, and multiply to at most `1 + g`; the dot product brings
/// its own error, which they multiply. Where approximate and canonical cosine lie on two sides of zero, both keys are at most `1 + g`
/// times their cosine, and the bound still holds.
pub(crate) fn error_bound(dimension: usize, weights: &Weights) -> f64 {
    (1.0 + weights.in_range().tags) * (dot_error_bound(dimension) + 32.0 * UNIT)
}

/// How far below the k-th best key a row can lie and still be in the canonical top k: twice the error, and not less than 1e-5.
///
/// k rows have keys of at least the k-th, hence canonical keys of at least the k-th minus the error. So has every row of the
/// canonical top k, and its own key lies at most another error lower.
pub(crate) fn slack(dimension: usize, weights: &Weights) -> f32 {
    rounded_up(2.0 * error_bound(dimension, weights))
}

/// [`slack`] where the dot product itself is the key.
pub(crate) fn dot_slack(dimension: usize) -> f32 {
    rounded_up(2.0 * dot_error_bound(dimension))
}

fn rounded_up(bound: f64) -> f32 {
    (bound.max(1e-5) as f32).next_up()
}

#[cfg(test)]
mod tests {
    use mnemolith_simd::available;
    use proptest::prelude::*;

    use super::*;
    use crate::scan::fixture::{NOW_MS, Random, normalised};

    const DAY: i64 = 86_400_000;

    fn plain() -> Inputs {
        Inputs { importance: 5.0, event_time_ms: NOW_MS, pinned: false, tags: 0, strength: 1.0, valence: 0 }
    }

    fn random_inputs(random: &mut Random) -> Inputs {
        Inputs {
            importance: random.below(1000) as f32 / 100.0,
            event_time_ms: NOW_MS - random.below(10_000 * DAY as u64) as i64 / (1 + random.below(10_000) as i64) + DAY,
            pinned: random.one_in(4),
            tags: random.bits() & random.bits(),
            strength: 1.0 + random.below(90) as f32 / 10.0,
            valence: random.bits() as i8,
        }
    }

    /// The key that a block of one row gets.
    fn fused(scorer: &Scorer, dot: f32, row: Inputs) -> f32 {
        let mut columns = Columns::default();
        scorer.gather([row].into_iter(), &mut columns);
        let mut keys = [dot];
        scorer.fuse(&columns, &mut keys);
        keys[0]
    }

    fn canonical(scorer: &Scorer, cosine: f64, row: &Inputs) -> f64 {
        let breakdown = scorer.breakdown(cosine, row);
        Scorer::canonical_key(&Scored { slot: 0, lsn: 0, score: breakdown.score(), cosine, breakdown })
    }

    #[test]
    fn figures_worked_out_by_hand() {
        let close = |value: f64, expected: f64| assert!((value - expected).abs() < 1e-7, "{value} instead of {expected}");
        let scorer = Scorer::new(Weights::default(), NOW_MS, 0, None);
        let fresh = scorer.breakdown(0.8, &plain());
        close(fresh.modulation, 1.1 / 1.2);
        assert_eq!((fresh.sim, fresh.tags, fresh.mood), (0.8, 1.0, 1.0));
        // 21 days: decay 0.35 + 0.65 / 2 = 0.675.
        let old = Inputs { event_time_ms: NOW_MS - 21 * DAY, ..plain() };
        close(scorer.breakdown(0.8, &old).modulation, 1.0675 / 1.2);
        // Three times the strength: one week of wear, 0.35 + 0.65 / sqrt 2.
        let strong = Inputs { strength: 3.0, ..old };
        close(scorer.breakdown(0.8, &strong).modulation, (1.0 + 0.1 * (0.35 + 0.65 / 2_f64.sqrt())) / 1.2);
        assert_eq!(scorer.breakdown(0.8, &Inputs { pinned: true, ..old }), fresh);
        assert_eq!(scorer.breakdown(0.8, &Inputs { event_time_ms: NOW_MS + DAY, ..plain() }), fresh);
        assert_eq!(scorer.breakdown(-0.8, &plain()).score().to_bits(), 0);
        let tagged = Scorer::new(Weights::default(), NOW_MS, 0b1111, None);
        close(tagged.breakdown(0.8, &Inputs { tags: 0b1_0101, ..plain() }).tags, 1.05);
        let moody = Scorer::new(Weights { mood: 0.5, ..Weights::default() }, NOW_MS, 0, Some(-100));
        close(moody.breakdown(0.8, &Inputs { valence: 104, ..plain() }).mood, 0.6);
    }

    #[test]
    fn the_canonical_cosine_adds_in_the_order_it_promises() {
        // Every order of these sums gives other bits.
        let row: Vec<f32> = (0..29).map(|i| [1e8, 3.0, -1e8, 1e-7][i % 4] * (1.0 + i as f32 / 7.0)).collect();
        let query: Vec<f32> = (0..29).map(|i| 1.0 / (1.0 + i as f32)).collect();
        let lane = |lane: usize| (lane..29).step_by(8).fold(0.0, |sum, i| sum + f64::from(query[i]) * f64::from(row[i]));
        let expected = ((lane(0) + lane(4)) + (lane(2) + lane(6))) + ((lane(1) + lane(5)) + (lane(3) + lane(7)));
        let in_line: f64 = (0..29).map(|i| f64::from(query[i]) * f64::from(row[i])).sum();
        assert_ne!(expected.to_bits(), in_line.to_bits(), "the figures do not tell orders apart");
        assert_eq!(canonical_cosine(&query, &row).to_bits(), expected.to_bits());
        assert_eq!(canonical_cosine(&[-0.0, 0.0], &[1.0, -1.0]).to_bits(), 0);
        assert_eq!(canonical_cosine(&[], &[]).to_bits(), 0);
    }

    #[test]
    fn the_order_is_total() {
        let breakdown = Breakdown { sim: 0.0, modulation: 1.0, tags: 1.0, mood: 1.0 };
        let at = |score, cosine, lsn, slot| Scored { slot, lsn, score, cosine, breakdown };
        let best_first = [at(0.9, 0.1, 9, 9), at(0.5, 0.6, 9, 8), at(0.5, 0.5, 3, 7), at(0.5, 0.5, 4, 1), at(0.5, 0.5, 4, 2)];
        for (i, a) in best_first.iter().enumerate() {
            for (j, b) in best_first.iter().enumerate() {
                assert_eq!(a.best_first(b), i.cmp(&j));
            }
        }
    }

    #[test]
    fn no_header_and_no_weight_makes_a_score_that_is_not_a_number() {
        let wild = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -3.0, 1e30];
        for value in wild {
            let header = EncodingHeader { importance: value, event_time_ms: i64::MIN, ..bytemuck::Zeroable::zeroed() };
            let state = MutableState { strength: value, valence: -128, recall_count: 0, last_recall_ms: 0, last_seen_ms: 0 };
            let row = Inputs::new(&header, Some(&state));
            for weight in wild {
                let weight = f64::from(weight);
                let weights = Weights { importance: weight, tags: weight, mood: weight, floor: weight };
                let scorer = Scorer::new(weights, i64::MAX, 0b11, Some(127));
                let (score, key) = (scorer.breakdown(1.0, &row).score(), fused(&scorer, 1.0, row));
                assert!((0.0..=11.0).contains(&score), "{value} {weight}: {score}");
                assert!((f64::from(key) - score).abs() <= scorer.error_bound(1), "{value} {weight}: {score}, {key}");
            }
        }
    }

    #[test]
    fn the_slack_grows_with_the_dimension_and_is_never_below_its_floor() {
        let weights = Weights::default();
        assert_eq!(dot_slack(1), 1e-5_f32.next_up());
        for dimension in [1, 50, 384, 1536, 4096, 65_535] {
            let least = (dimension as f64 / 8.0 + 32.0) * 2_f64.powi(-24) * 2.0;
            assert!(f64::from(slack(dimension, &weights)) >= least.max(1e-5), "{dimension}");
            let untagged = slack(dimension, &Weights { tags: 0.0, ..weights });
            assert!(slack(dimension, &weights) > untagged || untagged == dot_slack(1), "{dimension}");
        }
        assert!(slack(384, &weights) < 2e-5 && slack(65_535, &weights) < 2e-3);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn keys_of_a_block_lie_within_1e_5_of_the_canonical_ones(seed: u64) {
            let mut random = Random(seed);
            for dimension in [1, 7, 16, 50, 384] {
                let weight = |random: &mut Random, default| if random.one_in(2) { default } else { random.below(11) as f64 / 10.0 };
                let weights = Weights {
                    importance: weight(&mut random, 0.2),
                    tags: weight(&mut random, 0.1).min(0.2),
                    mood: weight(&mut random, 0.0),
                    floor: weight(&mut random, 0.35),
                };
                let optional = if random.one_in(2) { random.bits() & random.bits() & random.bits() } else { 0 };
                let scorer = Scorer::new(weights, NOW_MS, optional, random.one_in(2).then(|| random.bits() as i8));
                let query = random.vector(dimension);
                let rows: Vec<(Vec<f32>, Inputs)> = (0..40)
                    .map(|_| {
                        let share = random.signed();
                        let blend = query.iter().map(|value| f64::from(*value) * share + 0.5 * random.signed());
                        (normalised(blend.collect()), random_inputs(&mut random))
                    })
                    .collect();
                for kernels in available() {
                    let mut columns = Columns::default();
                    let mut keys: Vec<f32> = rows.iter().map(|(row, _)| kernels.dot(&query, row)).collect();
                    scorer.gather(rows.iter().map(|(_, inputs)| *inputs), &mut columns);
                    scorer.fuse(&columns, &mut keys);
                    for (key, (row, inputs)) in keys.iter().zip(&rows) {
                        prop_assert!(kernels.dot(&query, row) >= scorer.least_dot(*key), "a row would be skipped that reaches {key}");
                        let expected = canonical(&scorer, canonical_cosine(&query, row), inputs);
                        let off = (f64::from(*key) - expected).abs();
                        prop_assert!(off <= 1e-5 && off <= scorer.error_bound(dimension), "{} {dimension}: {off}", kernels.name());
                    }
                }
            }
        }
    }

    /// Sums of equal values round in the same direction all along a binade: about the worst that `f32` can do.
    #[test]
    fn the_bound_holds_for_adversarial_rows() {
        let mut random = Random(7);
        for dimension in [4096, 65_535] {
            let mut worst = 0.0_f64;
            let scorer = Scorer::new(Weights { tags: 1.0, mood: 0.5, ..Weights::default() }, NOW_MS, u64::MAX, Some(-128));
            let (mut allowed, dots_allowed) = (scorer.error_bound(dimension), dot_error_bound(dimension));
            for step in 0..48_u32 {
                // A step up in the middle carries the sum of the first part into the binade where the rest rounds worst.
                let height = 1.0 + f64::from(step) / 16.0;
                let mut query = vec![1.0; dimension];
                let mut row = vec![1.0; dimension];
                match step % 3 {
                    0 => query[..dimension / 2].fill(height),
                    1 => row.iter_mut().step_by(2).for_each(|value| *value = -height),
                    _ => row[..64].fill(height * 20.0),
                }
                let (query, row) = (normalised(query), normalised(row));
                let cosine = canonical_cosine(&query, &row);
                let inputs = Inputs { tags: u64::MAX, pinned: true, importance: 10.0, valence: -128, ..random_inputs(&mut random) };
                for kernels in available() {
                    let dot = kernels.dot(&query, &row);
                    let off = (f64::from(dot) - cosine).abs();
                    assert!(off <= dots_allowed, "{} at {dimension}: {off} > {dots_allowed}", kernels.name());
                    let off = (f64::from(fused(&scorer, dot, inputs)) - canonical(&scorer, cosine, &inputs)).abs();
                    assert!(off <= allowed, "{} at {dimension}: {off} > {allowed}", kernels.name());
                    assert!(dot >= scorer.least_dot(fused(&scorer, dot, inputs)), "{} at {dimension}", kernels.name());
                    worst = worst.max(off);
                }
            }
            allowed /= 50.0;
            assert!(worst > allowed, "at {dimension} nothing came near the bound: {worst} against a fiftieth of it, {allowed}");
        }
    }
}
