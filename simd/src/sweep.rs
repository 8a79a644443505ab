//! The algorithms, once, over any `Lanes`; and the macro that makes a table of them.
//!
//! Invariants: every function is `#[inline(always)]` and free of closures, so that it is compiled
//! inside the `#[target_feature]` entry that calls it; a row is always summed by the same chains of
//! additions (`UNROLL` accumulators, folded in order), whether it is scored alone or in a group, so
//! its score does not depend on its neighbours.
//!
//! The group of four is what makes the kernels fast: one load of the query serves four rows, and
//! four times `UNROLL` independent chains hide the latency of a multiply-add.

use crate::lanes::Lanes;
use crate::scalar;

/// Rows scored together.
const GROUP: usize = 4;
/// `f32` values in a cache line.
const LINE_F32S: usize = 16;

/// Defines the table `TABLE` of the instruction set `$lanes`, whose entries carry `$feature`.
macro_rules! table {
    ($name:literal, $lanes:ty, $unroll:literal $(, #[$feature:meta])?) => {
        /// The table of this instruction set.
        pub(crate) static TABLE: $crate::Kernels = {
            use $crate::sweep;

            // SAFETY contract of every entry: the CPU has the feature above it, and the lengths
            // are as the method of `Kernels` with the entry's name asserts.

            $(#[$feature])?
            unsafe fn dot(a: &[f32], b: &[f32]) -> f32 {
                // SAFETY: the caller upholds the contract of the entries.
                unsafe { sweep::dot::<$lanes, $unroll>(a, b) }
            }

            $(#[$feature])?
            unsafe fn dot_rows(query: &[f32], rows: &[f32], stride: usize, out: &mut [f32]) {
                // SAFETY: the caller upholds the contract of the entries.
                unsafe { sweep::dot_rows::<$lanes, $unroll>(query, rows, stride, out) }
            }

            $(#[$feature])?
            unsafe fn dot_selected(
                query: &[f32],
                rows: &[f32],
                stride: usize,
                selected: &[u64],
                out: &mut [f32],
            ) {
                // SAFETY: the caller upholds the contract of the entries.
                unsafe { sweep::dot_selected::<$lanes, $unroll>(query, rows, stride, selected, out) }
            }

            $(#[$feature])?
            unsafe fn mask_all(column: &[u64], mask: u64, out: &mut [u64]) {
                // SAFETY: the caller upholds the contract of the entries.
                unsafe { sweep::mask_all::<$lanes>(column, mask, out) }
            }

            $(#[$feature])?
            unsafe fn at_least(scores: &[f32], threshold: f32, out: &mut [u64]) {
                // SAFETY: the caller upholds the contract of the entries.
                unsafe { sweep::at_least::<$lanes>(scores, threshold, out) }
            }

            $(#[$feature])?
            unsafe fn bits_and(dst: &mut [u64], src: &[u64]) {
                sweep::bits_and(dst, src)
            }

            $(#[$feature])?
            unsafe fn bits_or(dst: &mut [u64], src: &[u64]) {
                sweep::bits_or(dst, src)
            }

            $(#[$feature])?
            unsafe fn bits_and_not(dst: &mut [u64], src: &[u64]) {
                sweep::bits_and_not(dst, src)
            }

            $(#[$feature])?
            unsafe fn bits_count(words: &[u64]) -> u64 {
                sweep::bits_count(words)
            }

            $crate::Kernels {
                name: $name,
                dot,
                dot_rows,
                dot_selected,
                mask_all,
                at_least,
                bits_and,
                bits_or,
                bits_and_not,
                bits_count,
            }
        };
    };
}
pub(crate) use table;

/// The per-lane dot products of `query` with each of `rows`, whose lanes are still to be summed.
/// With `PREFETCH`, the same stretch of the rows `ahead` is brought towards the cache meanwhile.
///
/// # Safety
///
/// The CPU runs `V`, and `query.len()` values are readable behind each of `rows`. The pointers
/// `ahead` may be anything.
#[inline(always)]
unsafe fn dot_group<V: Lanes, const UNROLL: usize, const ROWS: usize, const PREFETCH: bool>(
    query: &[f32],
    rows: [*const f32; ROWS],
    ahead: [*const f32; ROWS],
) -> [V; ROWS] {
    let step = UNROLL * V::F32S;
    let q = query.as_ptr();
    // SAFETY: every load is of `V::F32S` values at `at + lane`, and the loop condition keeps
    // `at + step` within `query.len()`; the tail loads `left` values at most, which is what
    // remains. The rows are as long as the query by this function's contract.
    unsafe {
        let mut sums = [[V::zero(); ROWS]; UNROLL];
        let mut at = 0;
        while at + step <= query.len() {
            if PREFETCH {
                let mut line = 0;
                while line < step {
                    for row in ahead {
                        V::prefetch(row.wrapping_add(at + line));
                    }
                    line += LINE_F32S;
                }
            }
            for (lane, sums) in sums.iter_mut().enumerate() {
                let from = at + lane * V::F32S;
                let values = V::load(q.add(from));
                for (sum, row) in sums.iter_mut().zip(rows) {
                    *sum = sum.add_product(V::load(row.add(from)), values);
                }
            }
            at += step;
        }
        for sums in sums.iter_mut() {
            let left = (query.len() - at).min(V::F32S);
            if left == 0 {
                break;
            }
            let values = V::load_part(q.add(at), left);
            for (sum, row) in sums.iter_mut().zip(rows) {
                *sum = sum.add_product(V::load_part(row.add(at), left), values);
            }
            at += left;
        }
        fold::<V, ROWS>(&sums)
    }
}

/// Adds up the accumulators of each row, first to last.
///
/// # Safety
///
/// The CPU runs `V`.
#[inline(always)]
unsafe fn fold<V: Lanes, const ROWS: usize>(sums: &[[V; ROWS]]) -> [V; ROWS] {
    // SAFETY: the caller upholds the contract of `V`.
    unsafe {
        let Some((first, rest)) = sums.split_first() else {
            return [V::zero(); ROWS];
        };
        let mut totals = *first;
        for sums in rest {
            for (total, sum) in totals.iter_mut().zip(sums) {
                *total = total.add(*sum);
            }
        }
        totals
    }
}

/// The dot product of `query` with the one row at `row`.
///
/// # Safety
///
/// The CPU runs `V`, and `query.len()` values are readable behind `row`.
#[inline(always)]
unsafe fn dot_one<V: Lanes, const UNROLL: usize>(query: &[f32], row: *const f32) -> f32 {
    // SAFETY: the caller upholds the contract, which is that of `dot_group` for one row.
    unsafe {
        let [sum] = dot_group::<V, UNROLL, 1, false>(query, [row], [row]);
        let [total, ..] = V::sums([sum; GROUP]);
        total
    }
}

/// `a . b`.
///
/// # Safety
///
/// The CPU runs `V`, and `b` is at least as long as `a`.
#[inline(always)]
pub(crate) unsafe fn dot<V: Lanes, const UNROLL: usize>(a: &[f32], b: &[f32]) -> f32 {
    // SAFETY: `a.len()` values are readable behind `b` by this function's contract.
    unsafe { dot_one::<V, UNROLL>(a, b.as_ptr()) }
}

/// Scores every row.
///
/// # Safety
///
/// The CPU runs `V`, and `rows.len() >= (out.len() - 1) * stride + query.len()` unless `out` is
/// empty.
#[inline(always)]
pub(crate) unsafe fn dot_rows<V: Lanes, const UNROLL: usize>(query: &[f32], rows: &[f32], stride: usize, out: &mut [f32]) {
    let (groups, rest) = out.as_chunks_mut::<GROUP>();
    let mut row = rows.as_ptr();
    for group in groups {
        let at = group_of(row, stride);
        let ahead = group_of(row.wrapping_add(GROUP * stride), stride);
        // SAFETY: each group stands for four rows that `out` counts, and the contract says that
        // `rows` covers every row `out` counts.
        *group = unsafe {
            V::sums(if V::PREFETCH_DENSE {
                dot_group::<V, UNROLL, GROUP, true>(query, at, ahead)
            } else {
                dot_group::<V, UNROLL, GROUP, false>(query, at, ahead)
            })
        };
        row = row.wrapping_add(GROUP * stride);
    }
    for score in rest {
        // SAFETY: this row, too, is one that `out` counts.
        *score = unsafe { dot_one::<V, UNROLL>(query, row) };
        row = row.wrapping_add(stride);
    }
}

/// Four rows that follow each other. May point past the end: nothing is read here.
#[inline(always)]
fn group_of(first: *const f32, stride: usize) -> [*const f32; GROUP] {
    [first, first.wrapping_add(stride), first.wrapping_add(2 * stride), first.wrapping_add(3 * stride)]
}

/// Scores the selected rows, in groups of four whichever rows they are. The group to come is always
/// prefetched: the hardware cannot guess which rows are next.
///
/// # Safety
///
/// As for [`dot_rows`]. Bits of `selected` at or past `out.len()` are ignored.
#[inline(always)]
pub(crate) unsafe fn dot_selected<V: Lanes, const UNROLL: usize>(
    query: &[f32],
    rows: &[f32],
    stride: usize,
    selected: &[u64],
    out: &mut [f32],
) {
    let mut picked = Picked::new(selected, out.len());
    let mut group = picked.next_group();
    while group.len == GROUP {
        let next = picked.next_group();
        let at = group.pointers(rows, stride);
        let ahead = next.pointers(rows, stride);
        // SAFETY: `Picked` yields only rows below `out.len()`, and the contract says that `rows`
        // covers those.
        let scores = unsafe { V::sums(dot_group::<V, UNROLL, GROUP, true>(query, at, ahead)) };
        for (row, score) in group.rows.into_iter().zip(scores) {
            if let Some(slot) = out.get_mut(row) {
                *slot = score;
            }
        }
        group = next;
    }
    for row in group.rows.into_iter().take(group.len) {
        if let Some(slot) = out.get_mut(row) {
            // SAFETY: `row` is below `out.len()`, as above.
            *slot = unsafe { dot_one::<V, UNROLL>(query, rows.as_ptr().wrapping_add(row * stride)) };
        }
    }
}

/// Walks the set bits of a bitset in order, four at a time.
struct Picked<'a> {
    words: std::slice::Iter<'a, u64>,
    word: u64,
    /// The row that bit 0 of `word` stands for.
    base: usize,
    row_count: usize,
}

/// Up to four rows; those past `len` repeat the last one, so that every entry is a row there is
/// (or row 0, when there is none).
struct Group {
    rows: [usize; GROUP],
    len: usize,
}

impl Group {
    #[inline(always)]
    fn pointers(&self, rows: &[f32], stride: usize) -> [*const f32; GROUP] {
        let [a, b, c, d] = self.rows;
        let base = rows.as_ptr();
        [base.wrapping_add(a * stride), base.wrapping_add(b * stride), base.wrapping_add(c * stride), base.wrapping_add(d * stride)]
    }
}

impl<'a> Picked<'a> {
    #[inline(always)]
    fn new(selected: &'a [u64], row_count: usize) -> Self {
        let mut words = selected.iter();
        let word = words.next().copied().unwrap_or(0);
        Self { words, word, base: 0, row_count }
    }

    /// The next selected row below `row_count`.
    #[inline(always)]
    fn next_row(&mut self) -> Option<usize> {
        while self.word == 0 {
            self.word = *self.words.next()?;
            self.base += 64;
        }
        let row = self.base + self.word.trailing_zeros() as usize;
        self.word &= self.word - 1;
        (row < self.row_count).then_some(row)
    }

    #[inline(always)]
    fn next_group(&mut self) -> Group {
        let mut group = Group { rows: [0; GROUP], len: 0 };
        let mut last = 0;
        for slot in &mut group.rows {
            if let Some(row) = self.next_row() {
                last = row;
                group.len += 1;
            }
            *slot = last;
        }
        group
    }
}

/// Bit `i` of `out` tells whether `column[i]` has every bit of `mask`.
///
/// # Safety
///
/// The CPU runs `V`. Words of `out` past the column are left alone.
#[inline(always)]
pub(crate) unsafe fn mask_all<V: Lanes>(column: &[u64], mask: u64, out: &mut [u64]) {
    let (blocks, rest) = column.as_chunks::<64>();
    for (block, word) in blocks.iter().zip(&mut *out) {
        let mut bits = 0;
        let mut at = 0;
        while at < block.len() {
            // SAFETY: `V::U64S` divides 64, so as many values are readable at `at < 64`.
            bits |= unsafe { V::masked(block.as_ptr().add(at), mask) } << at;
            at += V::U64S;
        }
        *word = bits;
    }
    if let (false, Some(word)) = (rest.is_empty(), out.get_mut(blocks.len())) {
        *word = scalar::mask_word(rest, mask);
    }
}

/// Bit `i` of `out` tells whether `scores[i]` is at least `threshold`.
///
/// # Safety
///
/// The CPU runs `V`. Words of `out` past the scores are left alone.
#[inline(always)]
pub(crate) unsafe fn at_least<V: Lanes>(scores: &[f32], threshold: f32, out: &mut [u64]) {
    let (blocks, rest) = scores.as_chunks::<64>();
    for (block, word) in blocks.iter().zip(&mut *out) {
        let mut bits = 0;
        let mut at = 0;
        while at < block.len() {
            // SAFETY: `V::F32S` divides 64, so as many values are readable at `at < 64`.
            bits |= unsafe { V::at_least(block.as_ptr().add(at), threshold) } << at;
            at += V::F32S;
        }
        *word = bits;
    }
    if let (false, Some(word)) = (rest.is_empty(), out.get_mut(blocks.len())) {
        *word = scalar::at_least_word(rest, threshold);
    }
}

/// `dst &= src`. The compiler vectorises these four for the entry they are inlined into.
#[inline(always)]
pub(crate) fn bits_and(dst: &mut [u64], src: &[u64]) {
    for (word, other) in dst.iter_mut().zip(src) {
        *word &= other;
    }
}

/// `dst |= src`.
#[inline(always)]
pub(crate) fn bits_or(dst: &mut [u64], src: &[u64]) {
    for (word, other) in dst.iter_mut().zip(src) {
        *word |= other;
    }
}

/// `dst &= !src`.
#[inline(always)]
pub(crate) fn bits_and_not(dst: &mut [u64], src: &[u64]) {
    for (word, other) in dst.iter_mut().zip(src) {
        *word &= !other;
    }
}

/// How many bits are set.
#[inline(always)]
pub(crate) fn bits_count(words: &[u64]) -> u64 {
    let mut count = 0;
    for word in words {
        count += u64::from(word.count_ones());
    }
    count
}
