//! The best k of a stream of scores: a running threshold and a buffer, no heap.
//!
//! Most rows of a scan lose, so the work per row is one vector comparison with the threshold; only
//! winners are touched one by one. They collect in a buffer, and when it fills up it is pruned to
//! those within `slack` of the k-th best, which raises the threshold.
//!
//! Invariants:
//! * `kth` is the k-th best score of some k candidates that were pushed (minus infinity before
//!   there were k), and it never falls. `kth - slack` is the threshold: it never exceeds the
//!   threshold of the complete stream, so what it drops early would be dropped in the end, and the
//!   order of the blocks does not matter;
//! * the buffer never holds more than twice the bound, `2 * (2k + 1024)`, so memory is O(k)
//!   whatever the scores are;
//! * pruning is amortised: after one that left r candidates, the next comes no sooner than after
//!   as many pushes as it costs, up to a constant factor.

use std::cmp::Ordering;

use crate::Kernels;

/// Scores compared with the threshold at a time: their bits fit in a few cache lines on the stack.
const CHUNK_SCORES: usize = 2048;
const CHUNK_WORDS: usize = CHUNK_SCORES / 64;

/// A row and its score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// The index of the row: the `base` of its block plus its place in the block.
    pub index: u64,
    /// Its score; never NaN.
    pub score: f32,
}

/// The best candidates seen so far: deterministic, in O(k) memory, without a heap.
///
/// It keeps every candidate whose score is at least the k-th best score minus `slack`. When the
/// scores are approximate, a slack of twice their error bound keeps every row that could be in the
/// true top k, for the caller to score exactly afterwards.
///
/// ```
/// use mnemolith_simd::TopK;
///
/// let kernels = mnemolith_simd::active()?;
/// let mut top = TopK::new(2, 0.0);
/// top.push_block(kernels, 100, &[0.5, 0.9, 0.1, 0.7], &[0b1111], &mut |tied| tied.truncate(2));
/// let best: Vec<u64> = top.into_candidates().iter().map(|c| c.index).collect();
/// assert_eq!(best, [101, 103]);
/// # Ok::<(), mnemolith_simd::SimdError>(())
/// ```
#[derive(Debug, Clone)]
pub struct TopK {
    k: usize,
    slack: f32,
    kth: f32,
    candidates: Vec<Candidate>,
    /// The buffer is pruned when it holds this many.
    prune_at: usize,
}

impl TopK {
    /// Keeps the best `k` and whatever is within `slack` of them. With a `k` of 0 nothing is kept,
    /// with a `k` above the number of rows everything is; an infinite `slack` turns pruning by
    /// score off, and leaves it to `resolve` to bound the memory.
    ///
    /// # Panics
    ///
    /// When `slack` is negative or NaN.
    pub fn new(k: usize, slack: f32) -> Self {
        assert!(slack >= 0.0, "the slack must not be negative");
        Self { k, slack, kth: f32::NEG_INFINITY, candidates: Vec::new(), prune_at: soonest_prune(k) }
    }

    /// Offers `scores[i]` as the score of row `base + i`, for every `i` whose bit is set in
    /// `admitted` (bit `i % 64` of word `i / 64`; bits past the scores are ignored). The other
    /// scores may be anything, and NaN is never kept.
    ///
    /// `resolve` is called only when more than `2k + 1024` candidates are still within the slack
    /// of the k-th best. It must reduce the vector to the best `k` under the caller's own total
    /// order, in any order. This is exact, because a row outside the best k of those seen can never
    /// be in the final top k.
    ///
    /// # Panics
    ///
    /// When `admitted` has fewer than `scores.len().div_ceil(64)` words, when an index would exceed
    /// `u64`, or when `resolve` leaves another number of candidates than `k`.
    pub fn push_block(
        &mut self,
        kernels: &Kernels,
        base: u64,
        scores: &[f32],
        admitted: &[u64],
        resolve: &mut dyn FnMut(&mut Vec<Candidate>),
    ) {
        assert!(admitted.len() >= scores.len().div_ceil(64), "push_block: a bit per score is needed");
        assert!(base.checked_add(scores.len() as u64).is_some(), "push_block: the indexes must fit in 64 bits");
        if self.k == 0 {
            return;
        }
        let mut base = base;
        let chunks = scores.chunks(CHUNK_SCORES);
        for (scores, admitted) in chunks.zip(admitted.chunks(CHUNK_WORDS)) {
            self.push_chunk(kernels, base, scores, admitted, resolve);
            base += scores.len() as u64;
        }
    }

    /// All remaining candidates, those with a score of at least the k-th best minus the slack:
    /// best first, equal scores by index. At most `2 * (2k + 1024)` of them; `resolve` is not
    /// called again.
    pub fn into_candidates(mut self) -> Vec<Candidate> {
        self.prune_by_score();
        self.candidates.sort_unstable_by(|a, b| best_first(a, b).then(a.index.cmp(&b.index)));
        self.candidates
    }

    fn push_chunk(&mut self, kernels: &Kernels, base: u64, scores: &[f32], admitted: &[u64], resolve: &mut dyn FnMut(&mut Vec<Candidate>)) {
        let word_count = scores.len().div_ceil(64);
        let mut bits = [0; CHUNK_WORDS];
        let Some(bits) = bits.get_mut(..word_count) else {
            return; // A chunk is never longer than `CHUNK_SCORES`.
        };
        // Scores that were not admitted are compared as well: that costs less than skipping them.
        kernels.at_least(scores, self.threshold(), bits);
        for ((word, admitted), (place, scores)) in bits.iter().zip(admitted).zip((0_u64..).step_by(64).zip(scores.chunks(64))) {
            let mut winners = word & admitted;
            while winners != 0 {
                let bit = winners.trailing_zeros();
                winners &= winners - 1;
                if let Some(&score) = scores.get(bit as usize) {
                    let index = base + place + u64::from(bit);
                    self.push(Candidate { index, score }, resolve);
                }
            }
        }
    }

    fn push(&mut self, candidate: Candidate, resolve: &mut dyn FnMut(&mut Vec<Candidate>)) {
        // The bits of the chunk were found with the threshold it began with; it may have risen.
        if candidate.score >= self.threshold() {
            self.candidates.push(candidate);
            if self.candidates.len() >= self.prune_at {
                self.prune(resolve);
            }
        }
    }

    #[cold]
    fn prune(&mut self, resolve: &mut dyn FnMut(&mut Vec<Candidate>)) {
        self.prune_by_score();
        let bound = self.bound();
        if self.candidates.len() > bound {
            resolve(&mut self.candidates);
            assert!(self.candidates.len() == self.k, "resolve must leave exactly k candidates");
        }
        // As many pushes as candidates stayed pay for the next pruning. No more than the bound
        // stay, so the buffer never exceeds twice the bound.
        let stayed = self.candidates.len();
        self.prune_at = stayed.saturating_mul(2).max(soonest_prune(self.k));
    }

    /// Raises `kth` to the k-th best of the buffer and drops what is then below the threshold.
    fn prune_by_score(&mut self) {
        let Some(place) = self.k.checked_sub(1) else {
            return;
        };
        if place >= self.candidates.len() {
            return;
        }
        let (_, kth, _) = self.candidates.select_nth_unstable_by(place, best_first);
        // Once `resolve` dropped rows, the buffer alone may know less than was seen: never fall.
        self.kth = self.kth.max(kth.score);
        let threshold = self.threshold();
        self.candidates.retain(|candidate| candidate.score >= threshold);
    }

    /// The lowest score that is still kept. Rounding loses no one: when `kth - slack` rounds up,
    /// then to the next `f32`, and no score lies in between.
    fn threshold(&self) -> f32 {
        if self.slack.is_infinite() {
            return f32::NEG_INFINITY; // Infinity minus infinity would be NaN.
        }
        self.kth - self.slack
    }

    /// How many candidates may stay after pruning without asking the caller to resolve them.
    fn bound(&self) -> usize {
        self.k.saturating_mul(2).saturating_add(1024)
    }
}

/// The fewest candidates worth pruning: a low number raises the threshold early in the scan.
fn soonest_prune(k: usize) -> usize {
    k.saturating_mul(2).saturating_add(64)
}

/// Higher scores first. There is no NaN among candidates, so this is a total order of scores.
fn best_first(a: &Candidate, b: &Candidate) -> Ordering {
    b.score.partial_cmp(&a.score).unwrap_or(Ordering::Equal)
}
