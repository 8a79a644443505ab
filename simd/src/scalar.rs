//! The oracle: the plainest way to write each kernel.
//!
//! Invariants: safe code only, and nothing shared with the vector kernels except the two functions
//! for the last, partial word of a bitset (which have a naive test of their own). Dot products are
//! summed in `f64`, where the product of two `f32` is exact, and rounded once at the end: this is
//! the most exact table, and the slowest.

use crate::Kernels;

/// The table of the scalar kernels.
pub(crate) static TABLE: Kernels =
    Kernels { name: "scalar", dot, dot_rows, dot_selected, mask_all, at_least, bits_and, bits_or, bits_and_not, bits_count };

fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sum = 0.0_f64;
    for (x, y) in a.iter().zip(b) {
        sum += f64::from(*x) * f64::from(*y);
    }
    sum as f32
}

fn dot_rows(query: &[f32], rows: &[f32], stride: usize, out: &mut [f32]) {
    for (i, score) in out.iter_mut().enumerate() {
        *score = dot(query, row(rows, i * stride, query.len()));
    }
}

fn dot_selected(query: &[f32], rows: &[f32], stride: usize, selected: &[u64], out: &mut [f32]) {
    for (i, score) in out.iter_mut().enumerate() {
        let word = selected.get(i / 64).copied().unwrap_or(0);
        if (word >> (i % 64)) & 1 == 1 {
            *score = dot(query, row(rows, i * stride, query.len()));
        }
    }
}

/// The row that starts at `start`; its presence is asserted by `Kernels`.
fn row(rows: &[f32], start: usize, len: usize) -> &[f32] {
    rows.get(start..start + len).unwrap_or(&[])
}

fn mask_all(column: &[u64], mask: u64, out: &mut [u64]) {
    for (block, word) in column.chunks(64).zip(out) {
        *word = mask_word(block, mask);
    }
}

/// One word of [`mask_all`], for up to 64 values.
pub(crate) fn mask_word(block: &[u64], mask: u64) -> u64 {
    let mut bits = 0;
    for (i, value) in block.iter().enumerate() {
        bits |= u64::from(value & mask == mask) << i;
    }
    bits
}

fn at_least(scores: &[f32], threshold: f32, out: &mut [u64]) {
    for (block, word) in scores.chunks(64).zip(out) {
        *word = at_least_word(block, threshold);
    }
}

/// One word of [`at_least`], for up to 64 scores.
pub(crate) fn at_least_word(block: &[f32], threshold: f32) -> u64 {
    let mut bits = 0;
    for (i, score) in block.iter().enumerate() {
        bits |= u64::from(*score >= threshold) << i;
    }
    bits
}

fn bits_and(dst: &mut [u64], src: &[u64]) {
    for (word, other) in dst.iter_mut().zip(src) {
        *word &= other;
    }
}

fn bits_or(dst: &mut [u64], src: &[u64]) {
    for (word, other) in dst.iter_mut().zip(src) {
        *word |= other;
    }
}

fn bits_and_not(dst: &mut [u64], src: &[u64]) {
    for (word, other) in dst.iter_mut().zip(src) {
        *word &= !other;
    }
}

fn bits_count(words: &[u64]) -> u64 {
    words.iter().map(|word| u64::from(word.count_ones())).sum()
}
