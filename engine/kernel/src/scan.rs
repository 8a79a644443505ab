//! The exact scan: every admitted row is scored, and the answer is the canonical top k.
//!
//! A block of rows is admitted, multiplied with the query by a kernel, fused with what its headers say, and offered to the running
//! top k. Kernels only select candidates: whoever could be in the answer given their error is scored again by the canonical routine,
//! which alone decides. So an answer does not depend on the kernel, on the layout of the slabs, or on the order of the blocks.
//!
//! A row's header is read only where its dot product leaves it a chance: no factor but that of the tags exceeds 1.
//!
//! Invariants: memory is O(k + block); a slab without an admitted row is not touched, and neither is a block; checksums are not looked
//! at here, since whoever hands a memory out verifies it.

use mnemolith_simd::{Candidate, Kernels, TopK};
use parking_lot::RwLock;

use crate::admission::{ResolvedFilter, ones};
use crate::error::{KernelError, Result};
use crate::format::{EncodingHeader, SLOTS_PER_PAGE, row_stride};
use crate::index::SlabIndex;
use crate::score::{Breakdown, Columns, Inputs, Scored, Scorer, Weights, canonical_cosine, dot_slack};
use crate::view::{Reader, SlabView};

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;

/// Rows that are scored together: their scores stay in the first level of cache.
const BLOCK_ROWS: usize = 1024;
const WORD_ROWS: usize = 64;
const BLOCK_WORDS: usize = BLOCK_ROWS / WORD_ROWS;

const _: () = assert!(SLOTS_PER_PAGE == WORD_ROWS && BLOCK_ROWS.is_multiple_of(WORD_ROWS));

/// What is looked for.
#[derive(Debug, Clone)]
pub(crate) struct ScanRequest<'a> {
    /// Normalised, `dimension` values.
    pub(crate) query: &'a [f32],
    /// How many are wanted.
    pub(crate) k: usize,
    /// Whom to admit. A scan admits memories without a vector, at a cosine of 0, unless the filter requires one.
    pub(crate) filter: &'a ResolvedFilter,
    pub(crate) weights: Weights,
    /// Bloom mask of the optional tags; 0 where there are none.
    pub(crate) optional_tags: u64,
    /// The query's valence.
    pub(crate) mood: Option<i8>,
    pub(crate) now_ms: i64,
}

impl ScanRequest<'_> {
    /// The formula of the scores.
    pub(crate) fn scorer(&self) -> Scorer {
        Scorer::new(self.weights, self.now_ms, self.optional_tags, self.mood)
    }
}

/// What a scan found, and what it took.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ScanOutcome {
    /// The best, best first: k of them wherever k were admitted.
    pub hits: Vec<Scored>,
    /// Memories that the filter admitted.
    pub admitted: u64,
    /// Rows that were multiplied with the query. In a block of which most rows are admitted, that is all of them.
    pub rows_scanned: u64,
    /// Bytes of vectors and headers read for that. Headers of rows that cannot reach the answer are not read.
    pub bytes: u64,
    /// Canonical scores computed.
    pub candidates: u64,
}

/// The exact rank of one memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rank {
    /// How many admitted memories come before it.
    pub rank: u64,
    /// Its score.
    pub scored: Scored,
}

/// The k best memories that a filter admits. A `k` of 0 reads nothing.
///
/// # Errors
/// `Internal` where the query has another dimension than the rows; `Corrupt` as [`ResolvedFilter::slab_bits`].
pub(crate) fn scan(reader: &Reader, kernels: &Kernels, index: &RwLock<Vec<SlabIndex>>, request: &ScanRequest<'_>) -> Result<ScanOutcome> {
    let mut outcome = ScanOutcome::default();
    if request.k == 0 {
        return Ok(outcome);
    }
    let scorer = request.scorer();
    let mut rescored = 0;
    let mut failure = None;
    let slack = scorer.slack(request.query.len());
    let mut top = TopK::new(request.k, slack);
    // Reduces candidates to the canonical k best.
    let mut resolve = |candidates: &mut Vec<Candidate>| match best_of(reader, &scorer, request, candidates) {
        Ok(best) => {
            rescored += candidates.len() as u64;
            // Canonical keys lie within the error of themselves: the threshold stays what the slack assumes.
            let key = |scored: &Scored| Candidate { index: scored.slot, score: Scorer::canonical_key(scored) as f32 };
            *candidates = best.iter().map(key).collect();
        }
        Err(error) => {
            failure.get_or_insert(error);
            candidates.truncate(request.k);
        }
    };
    let mut blocks = 0_u64;
    let mut least = f32::NEG_INFINITY;
    walk(reader, kernels, index, request, &mut outcome, &mut |first, keys, admitted| {
        top.push_block(kernels, first, keys, admitted, &mut resolve);
        blocks += 1;
        // Often enough: it rises slowly later on, and asking costs O(k).
        if blocks.is_power_of_two() {
            let kth = top.clone().into_candidates().get(request.k - 1).map(|candidate| candidate.score);
            least = kth.map_or(least, |kth| kth - slack);
        }
        Ok(least)
    })?;
    if let Some(error) = failure {
        return Err(error);
    }
    let candidates = top.into_candidates();
    outcome.candidates = rescored + candidates.len() as u64;
    outcome.hits = best_of(reader, &scorer, request, &candidates)?;
    outcome.hits.sort_unstable_by(Scored::best_first);
    Ok(outcome)
}

/// How many admitted memories come before the one in `slot`; `None` where it is not admitted itself.
///
/// # Errors
/// As [`scan`].
pub(crate) fn rank_of(
    reader: &Reader,
    kernels: &Kernels,
    index: &RwLock<Vec<SlabIndex>>,
    request: &ScanRequest<'_>,
    slot: u64,
) -> Result<Option<Rank>> {
    if !reader.is_live(slot) {
        return Ok(None);
    }
    let scorer = request.scorer();
    let scored = rescore(reader, &scorer, request.query, slot)?;
    let key = Scorer::canonical_key(&scored);
    let bound = scorer.error_bound(request.query.len());
    // Rows below it, all of which come after, do not interest; the memory itself cannot lie below it.
    let least = ((key - bound) as f32).next_down();
    let mut rank = 0;
    let mut found = false;
    walk(reader, kernels, index, request, &mut ScanOutcome::default(), &mut |first, keys, admitted| {
        for ((first, word), keys) in (first..).step_by(WORD_ROWS).zip(admitted).zip(keys.chunks(WORD_ROWS)) {
            for (place, other) in ones(*word).filter_map(|place| Some((place, f64::from(*keys.get(place)?)))) {
                let place = first + place as u64;
                found |= place == slot;
                let before = if (other - key).abs() > bound {
                    other > key
                } else {
                    rescore(reader, &scorer, request.query, place)?.best_first(&scored).is_lt()
                };
                rank += u64::from(before);
            }
        }
        Ok(least)
    })?;
    Ok(found.then_some(Rank { rank, scored }))
}

/// The canonical score of one row, live or not, by the cosine of its vector.
///
/// # Errors
/// `Internal` where the view has no such slot.
pub(crate) fn rescore(reader: &Reader, scorer: &Scorer, query: &[f32], slot: u64) -> Result<Scored> {
    let (_, slab, row) = reader.view.locate(slot).ok_or(NO_ROW)?;
    let start = row * slab.rows.stride();
    let vector = slab.rows.vectors(&reader.pass).get(start..start + query.len()).ok_or(NO_ROW)?;
    score_as(reader, scorer, canonical_cosine(query, vector), slot)
}

/// The canonical score of one row, live or not, whose similarity came from elsewhere: it stands in the place of the cosine.
///
/// # Errors
/// `Internal` where the view has no such slot.
pub(crate) fn score_as(reader: &Reader, scorer: &Scorer, similarity: f64, slot: u64) -> Result<Scored> {
    let (_, slab, row) = reader.view.locate(slot).ok_or(NO_ROW)?;
    let header = slab.rows.headers(&reader.pass).get(row).ok_or(NO_ROW)?;
    let lsn = slab.rows.keys(&reader.pass).get(row).ok_or(NO_ROW)?.lsn;
    let breakdown: Breakdown = scorer.breakdown(similarity, &Inputs::new(header, slab.state(row).as_ref()));
    Ok(Scored { slot, lsn, score: breakdown.score(), cosine: similarity, breakdown })
}

const NO_ROW: KernelError = KernelError::Internal("a row above its slab");

/// The canonical k best of some candidates, in no order.
fn best_of(reader: &Reader, scorer: &Scorer, request: &ScanRequest<'_>, candidates: &[Candidate]) -> Result<Vec<Scored>> {
    let scored = candidates.iter().map(|candidate| rescore(reader, scorer, request.query, candidate.index));
    let mut scored = scored.collect::<Result<Vec<_>>>()?;
    keep_best(&mut scored, request.k, Scored::best_first);
    Ok(scored)
}

/// Drops all but the best `k`.
fn keep_best<T>(items: &mut Vec<T>, k: usize, order: impl Fn(&T, &T) -> std::cmp::Ordering) {
    if k < items.len() {
        items.select_nth_unstable_by(k, order);
        items.truncate(k);
    }
}

/// Receives the first slot of a block, a selection key per row, and the bits of the rows whose key means anything; says below which
/// key a row is of no interest from then on.
type Visit<'a> = dyn FnMut(u64, &[f32], &[u64]) -> Result<f32> + 'a;

/// Shows every block with an admitted row that may be of interest.
fn walk(
    reader: &Reader,
    kernels: &Kernels,
    index: &RwLock<Vec<SlabIndex>>,
    request: &ScanRequest<'_>,
    tally: &mut ScanOutcome,
    visit: &mut Visit<'_>,
) -> Result<()> {
    let scorer = request.scorer();
    let mut block = Block::default();
    let mut least = f32::NEG_INFINITY;
    for (number, slab) in reader.view.slabs.iter().enumerate() {
        let stride = slab.rows.stride();
        if stride != row_stride(request.query.len()) {
            return Err(KernelError::Internal("a query of another dimension than the rows"));
        }
        let mut bits = request.filter.slab_bits(reader, kernels, index, (number, slab))?;
        let headers = slab.rows.headers(&reader.pass).get(..slab.len).ok_or(NO_ROW)?;
        let vectors = slab.rows.vectors(&reader.pass).get(..slab.len * stride).ok_or(NO_ROW)?;
        let blocks = bits.chunks_mut(BLOCK_WORDS).zip(headers.chunks(BLOCK_ROWS)).zip(vectors.chunks(BLOCK_ROWS * stride));
        for (first, ((admitted, headers), vectors)) in (0..).step_by(BLOCK_ROWS).zip(blocks) {
            if kernels.bits_count(admitted) == 0 {
                continue;
            }
            request.filter.refine(slab, headers, first, admitted);
            let count = kernels.bits_count(admitted);
            if count == 0 {
                continue;
            }
            let rows = Rows { slab, first, headers, vectors };
            let scanned = block.multiply(kernels, request.query, &rows, admitted, count);
            let fused = if scorer.reads_headers() { block.fuse(&scorer, kernels, &rows, admitted, least) } else { 0 };
            let headers_read = if request.filter.reads_headers() { scanned } else { fused };
            tally.admitted += count;
            tally.rows_scanned += scanned;
            tally.bytes += scanned * (stride * size_of::<f32>()) as u64 + headers_read * size_of::<EncodingHeader>() as u64;
            least = visit(slab.base + first as u64, &block.keys, admitted)?;
        }
    }
    Ok(())
}

/// The rows of a block.
struct Rows<'a> {
    slab: &'a SlabView,
    /// Its first row in the slab.
    first: usize,
    headers: &'a [EncodingHeader],
    vectors: &'a [f32],
}

/// What is known of a block's rows.
#[derive(Debug, Default)]
struct Block {
    keys: Vec<f32>,
    columns: Columns,
    /// Places and keys of the selected rows, close together.
    places: Vec<usize>,
    picked: Vec<f32>,
}

impl Block {
    /// Multiplies the rows with the query, all of them where most are admitted; how many it were.
    fn multiply(&mut self, kernels: &Kernels, query: &[f32], rows: &Rows<'_>, admitted: &[u64], count: u64) -> u64 {
        let stride = rows.slab.rows.stride();
        self.keys.resize(rows.headers.len(), 0.0);
        if is_dense(count, rows) {
            kernels.dot_rows(query, rows.vectors, stride, &mut self.keys);
            return rows.headers.len() as u64;
        }
        kernels.dot_selected(query, rows.vectors, stride, admitted, &mut self.keys);
        count
    }

    /// Turns dot products into keys, and clears the bits of rows whose key cannot reach `least` whatever their header says: no
    /// header of theirs is read. How many were.
    fn fuse(&mut self, scorer: &Scorer, kernels: &Kernels, rows: &Rows<'_>, admitted: &mut [u64], least: f32) -> u64 {
        let mut hopeful = [0; BLOCK_WORDS];
        if let Some(hopeful) = hopeful.get_mut(..admitted.len()) {
            kernels.at_least(&self.keys, scorer.least_dot(least), hopeful);
            kernels.bits_and(admitted, hopeful);
        }
        let count = kernels.bits_count(admitted);
        if is_dense(count, rows) {
            self.fuse_all(scorer, rows);
            return rows.headers.len() as u64;
        }
        self.fuse_some(scorer, rows, admitted);
        count
    }

    /// Keys of all rows, admitted or not.
    fn fuse_all(&mut self, scorer: &Scorer, rows: &Rows<'_>) {
        self.columns.clear();
        for (page, headers) in (rows.first / SLOTS_PER_PAGE..).zip(rows.headers.chunks(SLOTS_PER_PAGE)) {
            // Most pages of states were never touched: then no row of them asks.
            match rows.slab.states.get(page).and_then(Option::as_ref) {
                None => scorer.gather(headers.iter().map(|header| Inputs::new(header, None)), &mut self.columns),
                Some(states) => {
                    let rows = headers.iter().zip(states.iter());
                    scorer.gather(rows.map(|(header, state)| Inputs::new(header, state.as_ref())), &mut self.columns);
                }
            }
        }
        scorer.fuse(&self.columns, &mut self.keys);
    }

    /// Keys of the selected rows; the header of no other is touched.
    fn fuse_some(&mut self, scorer: &Scorer, rows: &Rows<'_>, selected: &[u64]) {
        self.places.clear();
        for (first, word) in (0..).step_by(WORD_ROWS).zip(selected) {
            self.places.extend(ones(*word).map(|place| first + place));
        }
        self.columns.clear();
        let inputs = self.places.iter().filter_map(|&place| {
            let header = rows.headers.get(place)?;
            Some(Inputs::new(header, rows.slab.state(rows.first + place).as_ref()))
        });
        scorer.gather(inputs, &mut self.columns);
        self.picked.clear();
        self.picked.extend(self.places.iter().filter_map(|&place| self.keys.get(place)));
        scorer.fuse(&self.columns, &mut self.picked);
        for (&place, picked) in self.places.iter().zip(&self.picked) {
            if let Some(key) = self.keys.get_mut(place) {
                *key = *picked;
            }
        }
    }
}

/// Whether it is cheaper to work on all rows of a block than to pick `count` of them.
fn is_dense(count: u64, rows: &Rows<'_>) -> bool {
    count * 2 > rows.headers.len() as u64
}

/// The `n` rows nearest to a normalised query among runs of rows: by canonical cosine, then by slot.
///
/// A run is the slot of its first row and its rows, `stride` values each; runs do not overlap and come in any order.
pub(crate) fn nearest_rows<'a>(
    kernels: &Kernels,
    query: &[f32],
    stride: usize,
    runs: impl Iterator<Item = (u64, &'a [f32])>,
    n: usize,
) -> Vec<(u64, f64)> {
    let mut runs: Vec<(u64, &[f32])> = runs.collect();
    runs.sort_unstable_by_key(|run| run.0);
    let cosine = |slot: u64| {
        let run = runs.partition_point(|run| run.0 <= slot).checked_sub(1).and_then(|run| runs.get(run));
        let row = run.and_then(|(first, rows)| {
            let start = usize::try_from(slot - first).ok()? * stride;
            rows.get(start..start + query.len())
        });
        canonical_cosine(query, row.unwrap_or_default())
    };
    let best_of = |candidates: &[Candidate]| {
        let mut best: Vec<(u64, f64)> = candidates.iter().map(|candidate| (candidate.index, cosine(candidate.index))).collect();
        keep_best(&mut best, n, |a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        best
    };
    let mut resolve = |candidates: &mut Vec<Candidate>| {
        *candidates = best_of(candidates).iter().map(|&(index, cosine)| Candidate { index, score: cosine as f32 }).collect();
    };
    let mut top = TopK::new(n, dot_slack(query.len()));
    let mut keys = Vec::new();
    for (first, rows) in &runs {
        for (first, rows) in (*first..).step_by(BLOCK_ROWS).zip(rows.chunks(BLOCK_ROWS * stride)) {
            keys.resize(rows.len() / stride, 0.0);
            kernels.dot_rows(query, rows, stride, &mut keys);
            top.push_block(kernels, first, &keys, &[u64::MAX; BLOCK_WORDS], &mut resolve);
        }
    }
    let mut best = best_of(&top.into_candidates());
    best.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    best
}
