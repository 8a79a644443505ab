//! The table of kernels: the safe face of this crate's unsafe code.
//!
//! Invariant: each method asserts, in release builds too, exactly the lengths its function pointer
//! relies on. The asserts cost one comparison per block of rows. A table is only reachable through
//! `dispatch`, which detects the CPU features first; the SAFETY comments below rest on these two.

use std::fmt;

/// Query, rows, stride, selected rows, scores.
type DotSelected = unsafe fn(&[f32], &[f32], usize, &[u64], &mut [f32]);

/// A table of function pointers to the kernels of one instruction set, chosen once.
///
/// Get one from [`active`](crate::active); all tables compute the same results, up to the rounding
/// of `f32` sums.
///
/// ```
/// let kernels = mnemolith_simd::active()?;
/// // Two rows of two numbers, each padded to three.
/// let rows = [1.0, 2.0, 0.0, 3.0, 4.0, 0.0];
/// let mut scores = [0.0; 2];
/// kernels.dot_rows(&[10.0, 1.0], &rows, 3, &mut scores);
/// assert_eq!(scores, [12.0, 34.0]);
/// # Ok::<(), mnemolith_simd::SimdError>(())
/// ```
pub struct Kernels {
    pub(crate) name: &'static str,
    pub(crate) dot: unsafe fn(&[f32], &[f32]) -> f32,
    pub(crate) dot_rows: unsafe fn(&[f32], &[f32], usize, &mut [f32]),
    pub(crate) dot_selected: DotSelected,
    pub(crate) mask_all: unsafe fn(&[u64], u64, &mut [u64]),
    pub(crate) at_least: unsafe fn(&[f32], f32, &mut [u64]),
    pub(crate) bits_and: unsafe fn(&mut [u64], &[u64]),
    pub(crate) bits_or: unsafe fn(&mut [u64], &[u64]),
    pub(crate) bits_and_not: unsafe fn(&mut [u64], &[u64]),
    pub(crate) bits_count: unsafe fn(&[u64]) -> u64,
}

impl fmt::Debug for Kernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kernels").field(&self.name).finish()
    }
}

impl Kernels {
    /// The name of the table: `scalar`, `portable`, `avx2` or `avx512`. Reports print it.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// `a . b`, the sum of the products, in `f32`. Zero for empty slices.
    ///
    /// Every table agrees with `scalar` on NaN and on infinities as long as no partial sum leaves
    /// the range of `f32`; `scalar` sums in `f64` and so overflows later than the others.
    ///
    /// # Panics
    ///
    /// When the lengths differ.
    pub fn dot(&self, a: &[f32], b: &[f32]) -> f32 {
        assert!(a.len() == b.len(), "dot: the lengths must be equal");
        // SAFETY: the features were detected by `dispatch`; the lengths are asserted above.
        unsafe { (self.dot)(a, b) }
    }

    /// Sets `out[i] = query . rows[i * stride .. i * stride + query.len()]` for every `i`. The row
    /// count is `out.len()`; `stride` counts `f32` values.
    ///
    /// # Panics
    ///
    /// When `stride < query.len()`, or when `rows` ends before the last row does, that is when
    /// `rows.len() < (out.len() - 1) * stride + query.len()`.
    pub fn dot_rows(&self, query: &[f32], rows: &[f32], stride: usize, out: &mut [f32]) {
        assert_rows(query.len(), rows.len(), stride, out.len());
        // SAFETY: the features were detected by `dispatch`; the lengths are asserted above.
        unsafe { (self.dot_rows)(query, rows, stride, out) }
    }

    /// [`dot_rows`](Self::dot_rows) for the rows whose bit is set in `selected` (row `i` is bit
    /// `i % 64` of word `i / 64`). Other entries of `out` keep their value, and bits at or past
    /// `out.len()` are ignored. The scores are those of `dot_rows`, bit for bit.
    ///
    /// # Panics
    ///
    /// As [`dot_rows`](Self::dot_rows), and when `selected` has fewer than
    /// `out.len().div_ceil(64)` words.
    pub fn dot_selected(&self, query: &[f32], rows: &[f32], stride: usize, selected: &[u64], out: &mut [f32]) {
        assert_rows(query.len(), rows.len(), stride, out.len());
        assert!(selected.len() >= out.len().div_ceil(64), "dot_selected: a bit per row is needed");
        // SAFETY: the features were detected by `dispatch`; the lengths are asserted above.
        unsafe { (self.dot_selected)(query, rows, stride, selected, out) }
    }

    /// Sets bit `i` of `out` to `(column[i] & mask) == mask`, and the tail bits of the last word to
    /// zero. A mask of 0 selects every row there is.
    ///
    /// # Panics
    ///
    /// When `out.len() != column.len().div_ceil(64)`.
    pub fn mask_all(&self, column: &[u64], mask: u64, out: &mut [u64]) {
        assert!(out.len() == column.len().div_ceil(64), "mask_all: out must hold a bit per row");
        // SAFETY: the features were detected by `dispatch`; the lengths are asserted above.
        unsafe { (self.mask_all)(column, mask, out) }
    }

    /// Sets bit `i` of `out` to `scores[i] >= threshold`, and the tail bits of the last word to
    /// zero. NaN is never at least anything.
    ///
    /// # Panics
    ///
    /// When `out.len() != scores.len().div_ceil(64)`.
    pub fn at_least(&self, scores: &[f32], threshold: f32, out: &mut [u64]) {
        assert!(out.len() == scores.len().div_ceil(64), "at_least: out must hold a bit per score");
        // SAFETY: the features were detected by `dispatch`; the lengths are asserted above.
        unsafe { (self.at_least)(scores, threshold, out) }
    }

    /// `dst &= src`, word by word.
    ///
    /// # Panics
    ///
    /// When the lengths differ.
    pub fn bits_and(&self, dst: &mut [u64], src: &[u64]) {
        assert_words(dst.len(), src.len());
        // SAFETY: the features were detected by `dispatch`; the lengths are asserted above.
        unsafe { (self.bits_and)(dst, src) }
    }

    /// `dst |= src`, word by word.
    ///
    /// # Panics
    ///
    /// When the lengths differ.
    pub fn bits_or(&self, dst: &mut [u64], src: &[u64]) {
        assert_words(dst.len(), src.len());
        // SAFETY: the features were detected by `dispatch`; the lengths are asserted above.
        unsafe { (self.bits_or)(dst, src) }
    }

    /// `dst &= !src`, word by word.
    ///
    /// # Panics
    ///
    /// When the lengths differ.
    pub fn bits_and_not(&self, dst: &mut [u64], src: &[u64]) {
        assert_words(dst.len(), src.len());
        // SAFETY: the features were detected by `dispatch`; the lengths are asserted above.
        unsafe { (self.bits_and_not)(dst, src) }
    }

    /// How many bits are set.
    pub fn bits_count(&self, words: &[u64]) -> u64 {
        // SAFETY: the features were detected by `dispatch`; any slice will do.
        unsafe { (self.bits_count)(words) }
    }
}

/// The contract of the row kernels: rows do not overlap, and `rows` covers the last of them.
fn assert_rows(query_len: usize, rows_len: usize, stride: usize, row_count: usize) {
    assert!(stride >= query_len, "a row must be as long as the query");
    let Some(last_row) = row_count.checked_sub(1) else {
        return;
    };
    let needed = last_row.checked_mul(stride).and_then(|start| start.checked_add(query_len));
    assert!(needed.is_some_and(|needed| rows_len >= needed), "rows must hold a row per output");
}

/// The contract of the kernels that combine two bitsets.
fn assert_words(dst_len: usize, src_len: usize) {
    assert!(dst_len == src_len, "bitsets must have the same length");
}
