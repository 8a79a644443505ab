//! How surprising a memory is, and what follows from it: importance, valence, arousal, and
//! whether it is a flashbulb memory.
//!
//! Purpose: all the arithmetic of DOPAMINERGIC_SURPRISE as pure functions over `f64`.
//!
//! Invariants:
//! * equal inputs give bit-equal outputs on every platform: the only function beyond IEEE 754's
//!   exact ones is `libm::exp`, sums run in the order of the input, and nothing is fused;
//! * importance lies in [0.05, 10], for all inputs within their documented ranges;
//! * the statistics that come out are those that went in plus one sample, or, without a vector,
//!   the same; they are stored whole, so that a reopened store goes on bit-equally.
//!
//! Running moments after Welford (1962); the prediction error is that of Rescorla and Wagner
//! (1972) and Schultz, Dayan and Montague (1997); flashbulb memories after Brown and Kulik
//! (1977).

/// The least importance.
pub(crate) const IMPORTANCE_MIN: f64 = 0.05;
/// The greatest importance.
pub(crate) const IMPORTANCE_MAX: f64 = 10.0;
/// The importance from novelty while there are too few samples to judge it.
const IMPORTANCE_UNJUDGED: f64 = 1.0;
/// Samples needed before novelty is judged.
const SAMPLES_TO_JUDGE: u64 = 10;
/// Samples needed before a memory can be a flashbulb.
const SAMPLES_TO_FLASH: u64 = 20;
/// The deviation is taken to be at least this, so that a monotonous history does not turn a
/// trifle into a sensation.
const DEVIATION_MIN: f64 = 0.02;
/// A flashbulb's z is above this.
const FLASHBULB_Z: f64 = 3.0;
/// Neighbours below this cosine predict nothing.
const PREDICTING_COSINE: f64 = 0.3;
/// How far a reward moves the valence from its prediction.
const LEARNING_RATE: f64 = 0.7;
/// The full scale of a valence.
const VALENCE_SCALE: f64 = 127.0;

/// Count, mean and sum of squared deviations of the novelty of one (namespace, tier).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Statistics {
    /// Samples seen.
    pub(crate) count: u64,
    /// Their mean; 0 without samples.
    pub(crate) mean: f64,
    /// The sum of their squared deviations from the mean.
    pub(crate) m2: f64,
}

impl Statistics {
    /// Bytes of the stored form.
    pub(crate) const BYTES: usize = 24;

    /// These statistics and one more sample, after Welford.
    #[must_use]
    pub(crate) fn with(self, sample: f64) -> Self {
        let count = self.count.saturating_add(1);
        let before = sample - self.mean;
        let mean = self.mean + before / count as f64;
        let m2 = self.m2 + before * (sample - mean);
        Self { count, mean, m2 }
    }

    /// The population deviation; 0 without samples.
    pub(crate) fn deviation(self) -> f64 {
        if self.count == 0 { 0.0 } else { (self.m2 / self.count as f64).sqrt() }
    }

    /// Count, mean and m2, little-endian, every bit kept.
    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let words = [self.count, self.mean.to_bits(), self.m2.to_bits()];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// The inverse of [`Statistics::to_bytes`]; `None` for bytes that no statistics have.
    pub(crate) fn from_bytes(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let mut words = [0_u64; 3];
        for (word, from) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(from.try_into().ok()?);
        }
        let [count, mean, m2] = words;
        let (mean, m2) = (f64::from_bits(mean), f64::from_bits(m2));
        (mean.is_finite() && m2.is_finite() && m2 >= 0.0).then_some(Self { count, mean, m2 })
    }
}

/// The caller's hints, each in [0, 1].
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Hints {
    pub(crate) interest: Option<f64>,
    pub(crate) challenge: Option<f64>,
    pub(crate) urgency: Option<f64>,
}

impl Hints {
    fn given(self) -> bool {
        self.interest.is_some() || self.challenge.is_some() || self.urgency.is_some()
    }
}

/// What the persona does to this memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Temper<'a> {
    /// The boosts of the persona's tags that the memory carries, in the order of their names.
    pub(crate) boosts: &'a [f64],
    /// What valence is multiplied by.
    pub(crate) valence_gain: f64,
}

/// Everything the assessment looks at. All numbers are within the bounds that validation sets.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct SurpriseInput<'a> {
    /// Cosine and current valence of the nearest recent memories, at most 8, nearest first.
    /// The sums of V(s) run in this order.
    pub(crate) neighbours: &'a [(f64, i8)],
    /// Whether the memory has a vector. Without one the neighbours are not looked at.
    pub(crate) has_vector: bool,
    pub(crate) hints: Hints,
    /// In [-1, 1].
    pub(crate) reward: Option<f64>,
    /// In -127..=127.
    pub(crate) valence: Option<i8>,
    pub(crate) arousal: Option<u8>,
    pub(crate) temper: Option<Temper<'a>>,
}

/// What follows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Assessment {
    /// In [0.05, 10].
    pub(crate) importance: f32,
    /// Deviations of the novelty above its mean.
    pub(crate) z: f32,
    /// As to be encoded.
    pub(crate) valence: i8,
    /// As to be encoded.
    pub(crate) arousal: u8,
    /// Pinned, with the greatest importance.
    pub(crate) flashbulb: bool,
    /// The prediction error |r - V(s)|, 0 without a reward.
    pub(crate) delta: f64,
    /// 1 - the greatest cosine; `None` without a vector.
    pub(crate) novelty: Option<f64>,
    /// The statistics after this memory.
    pub(crate) after: Statistics,
}

/// Assesses one memory against the statistics as they were before it.
///
/// In this order:
/// 1. novelty, and z against the statistics before the sample;
/// 2. importance from novelty: 1.0 with fewer than 10 samples or without a vector;
/// 3. with any hint, importance from the stimulus instead, absent hints counting 0, and N being
///    the result of step 2 divided by 10 (so 0.1 while novelty is unjudged);
/// 4. the prediction error: importance * (1 + delta / 2), clamped;
/// 5. valence and arousal, from the caller, the reward and the prediction;
/// 6. the persona: importance times each boost, clamped; valence times the gain, rounded half
///    away from zero and clamped. Arousal and the prediction error keep to the valence from
///    before the gain, for the persona is said to change importance and valence only;
/// 7. a flashbulb overrides importance with 10, the persona's boosts included, and never lowers
///    anything;
/// 8. the sample joins the statistics.
pub(crate) fn assess(input: &SurpriseInput<'_>, before: Statistics) -> Assessment {
    let neighbours = if input.has_vector { input.neighbours } else { &[] };
    let novelty = input.has_vector.then(|| novelty(neighbours));

    let judged = novelty.filter(|_| before.count >= SAMPLES_TO_JUDGE);
    let z = judged.map_or(0.0, |sample| z_score(sample, before));
    let from_novelty = judged.map_or(IMPORTANCE_UNJUDGED, |_| logistic(1.2, z - 1.0));
    let unlearned = if input.hints.given() { logistic(8.0, stimulus(input.hints, from_novelty / 10.0) - 0.2) } else { from_novelty };

    let predicted = predicted_value(neighbours);
    let reward = input.reward.or_else(|| input.valence.map(|v| f64::from(v) / VALENCE_SCALE));
    let delta = reward.map_or(0.0, |reward| (reward - predicted).abs());
    let learned = clamp_importance(unlearned * (1.0 + delta / 2.0));

    let valence = match (input.valence, input.reward) {
        (Some(given), _) => given,
        (None, Some(reward)) => to_valence(VALENCE_SCALE * (predicted + LEARNING_RATE * (reward - predicted))),
        (None, None) => 0,
    };
    let arousal = input.arousal.unwrap_or_else(|| arousal(valence, delta));

    let (mut importance, mut felt) = (learned, valence);
    if let Some(temper) = input.temper {
        let boosted = temper.boosts.iter().fold(importance, |product, boost| product * boost);
        importance = clamp_importance(boosted);
        felt = to_valence(f64::from(valence) * temper.valence_gain);
    }

    let flashbulb = z > FLASHBULB_Z && before.count >= SAMPLES_TO_FLASH;
    if flashbulb {
        importance = IMPORTANCE_MAX;
    }
    Assessment {
        importance: importance as f32,
        z: z as f32,
        valence: felt,
        arousal,
        flashbulb,
        delta,
        novelty,
        after: novelty.map_or(before, |sample| before.with(sample)),
    }
}

/// 1 - the greatest cosine, in [0, 2]; 1 without neighbours. Cosines are held to [-1, 1], which
/// rounding may have left.
fn novelty(neighbours: &[(f64, i8)]) -> f64 {
    neighbours.iter().map(|(cosine, _)| cosine.clamp(-1.0, 1.0)).reduce(f64::max).map_or(1.0, |greatest| 1.0 - greatest)
}

fn z_score(sample: f64, statistics: Statistics) -> f64 {
    (sample - statistics.mean) / statistics.deviation().max(DEVIATION_MIN)
}

/// 0.05 + 9.95 / (1 + e^(-steepness * x)): from the least to the greatest importance.
fn logistic(steepness: f64, x: f64) -> f64 {
    IMPORTANCE_MIN + (IMPORTANCE_MAX - IMPORTANCE_MIN) / (1.0 + libm::exp(-steepness * x))
}

/// .30 I N + .10 C + .20 U + .40 N, added from left to right.
fn stimulus(hints: Hints, n: f64) -> f64 {
    let hint = |given: Option<f64>| given.unwrap_or(0.0);
    0.30 * hint(hints.interest) * n + 0.10 * hint(hints.challenge) + 0.20 * hint(hints.urgency) + 0.40 * n
}

/// V(s): the cosine-weighted mean valence of the neighbours that are near enough, in [-1, 1].
fn predicted_value(neighbours: &[(f64, i8)]) -> f64 {
    let (mut weighted, mut weights) = (0.0, 0.0);
    for (cosine, valence) in neighbours {
        if *cosine >= PREDICTING_COSINE {
            weighted += cosine * (f64::from(*valence) / VALENCE_SCALE);
            weights += cosine;
        }
    }
    if weights > 0.0 { weighted / weights } else { 0.0 }
}

/// max(2 |valence|, round(255 min(1, delta))), at most 255.
fn arousal(valence: i8, delta: f64) -> u8 {
    let felt = 2 * u16::from(valence.unsigned_abs());
    let surprised = (255.0 * delta.min(1.0)).round() as u16;
    u8::try_from(felt.max(surprised)).unwrap_or(u8::MAX)
}

/// Rounded half away from zero, and held to -127..=127.
fn to_valence(value: f64) -> i8 {
    value.round().clamp(-VALENCE_SCALE, VALENCE_SCALE) as i8
}

fn clamp_importance(value: f64) -> f64 {
    value.clamp(IMPORTANCE_MIN, IMPORTANCE_MAX)
}

#[cfg(test)]
#[path = "surprise_tests.rs"]
mod tests;
