//! Dot products of every table against the oracle.

use proptest::collection::vec;
use proptest::prelude::*;

use super::{Noise, bit};
use crate::{Kernels, available, scalar};

/// What stands in `out` where a kernel must not write.
const UNTOUCHED: f32 = -12345.5;

/// The oracle's score, and the most that another table may differ from it: each product passes
/// through a chain of at most `len / 8` additions and a few more for the tail and the final sums.
fn oracle(query: &[f32], row: &[f32]) -> (f32, f32) {
    let magnitude: f64 = query.iter().zip(row).map(|(a, b)| (f64::from(*a) * f64::from(*b)).abs()).sum();
    let steps = (query.len() / 8 + 12) as f64;
    let bound = steps * f64::from(f32::EPSILON) * magnitude + f64::from(f32::MIN_POSITIVE);
    (scalar::TABLE.dot(query, row), bound as f32)
}

fn assert_score(kernels: &Kernels, query: &[f32], row: &[f32], score: f32) {
    let (expected, bound) = oracle(query, row);
    let agrees = if expected.is_nan() {
        score.is_nan()
    } else if expected.is_infinite() {
        score == expected
    } else {
        (score - expected).abs() <= bound
    };
    assert!(agrees, "{}: {score} instead of {expected} +- {bound}, length {}", kernels.name(), query.len());
}

/// Checks `dot_rows`, `dot_selected` and `dot` of every table on one input.
fn check(query: &[f32], rows: &[f32], stride: usize, row_count: usize, selected: &[u64]) {
    for kernels in available() {
        let mut all = vec![UNTOUCHED; row_count];
        kernels.dot_rows(query, rows, stride, &mut all);
        let mut some = vec![UNTOUCHED; row_count];
        kernels.dot_selected(query, rows, stride, selected, &mut some);
        for i in 0..row_count {
            let row = &rows[i * stride..i * stride + query.len()];
            assert_score(kernels, query, row, all[i]);
            let alone = kernels.dot(query, row);
            assert!(same(alone, all[i]), "{}: row {i} of {row_count} scores {} in its group and {alone} alone", kernels.name(), all[i]);
            let expected = if bit(selected, i) { all[i] } else { UNTOUCHED };
            assert!(same(some[i], expected), "{}: selected row {i} of {row_count}: {} instead of {expected}", kernels.name(), some[i]);
        }
    }
}

/// Equal to the bit, any NaN being as good as another.
fn same(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

#[test]
fn every_remainder_of_length_and_row_count_is_scored() {
    let mut noise = Noise(1);
    let values = noise.values(70 * 140 + 140);
    for len in 0..=130 {
        let stride = len + noise.next() as usize % 4;
        // Any start, so that rows are aligned to nothing but four bytes.
        let (query, rows) = values[noise.next() as usize % 8..].split_at(len);
        for row_count in 1..=70 {
            let selected = [noise.next() & noise.next(), noise.next()];
            check(query, rows, stride, row_count, &selected);
        }
    }
}

#[test]
fn long_rows_are_scored_within_the_error_bound() {
    let mut noise = Noise(2);
    for len in [255, 256, 384, 768, 1000, 1536, 4099] {
        let query = noise.values(len);
        let rows = noise.values(9 * (len + 5));
        check(&query, &rows, len + 5, 9, &[0b1_0110_1101]);
    }
}

#[test]
fn no_rows_and_empty_queries_are_scored_as_nothing_and_zero() {
    for kernels in available() {
        kernels.dot_rows(&[1.0], &[], 1, &mut []);
        kernels.dot_selected(&[1.0], &[], 1, &[], &mut []);
        assert_eq!(kernels.dot(&[], &[]), 0.0);
        let mut out = [UNTOUCHED; 5];
        kernels.dot_rows(&[], &[], 0, &mut out);
        assert_eq!(out, [0.0; 5]);
        let mut out = [UNTOUCHED; 5];
        kernels.dot_selected(&[], &[], 0, &[0b01001], &mut out);
        assert_eq!(out, [0.0, UNTOUCHED, UNTOUCHED, 0.0, UNTOUCHED]);
    }
}

#[test]
fn bits_past_the_last_row_are_ignored() {
    for kernels in available() {
        let mut out = [UNTOUCHED; 3];
        kernels.dot_selected(&[2.0], &[1.0, 2.0, 3.0], 1, &[!0, !0], &mut out);
        assert_eq!(out, [2.0, 4.0, 6.0]);
    }
}

/// A NaN just outside a row must not leak in, neither from the padding nor from the next row.
#[test]
fn what_lies_between_rows_is_not_read_into_a_score() {
    for kernels in available() {
        for len in 0..=70 {
            let stride = len + 40;
            let mut rows = vec![f32::NAN; 6 * stride];
            for row in rows.chunks_mut(stride) {
                row[..len].fill(1.0);
            }
            let mut buffer = vec![1.0; len + 40];
            buffer[len..].fill(f32::NAN);
            let mut out = [UNTOUCHED; 6];
            kernels.dot_rows(&buffer[..len], &rows, stride, &mut out);
            assert_eq!(out, [len as f32; 6], "{} at {len}", kernels.name());
        }
    }
}

#[test]
fn lengths_that_do_not_fit_are_refused_by_every_table() {
    type Call = fn(&Kernels);
    let calls: [(&str, Call); 7] = [
        ("unequal", |k| {
            k.dot(&[1.0], &[]);
        }),
        ("narrow stride", |k| k.dot_rows(&[1.0; 2], &[1.0; 9], 1, &mut [0.0])),
        ("last row cut", |k| {
            k.dot_rows(&[1.0; 2], &[1.0; 4], 3, &mut [0.0; 2]);
        }),
        ("overflow", |k| {
            k.dot_rows(&[1.0], &[1.0; 4], usize::MAX, &mut [0.0; 3]);
        }),
        ("too few bits", |k| {
            k.dot_selected(&[1.0], &[1.0; 65], 1, &[!0], &mut [0.0; 65]);
        }),
        ("selected row cut", |k| {
            k.dot_selected(&[1.0], &[1.0], 1, &[1], &mut [0.0; 2]);
        }),
        ("no row", |k| k.dot_rows(&[1.0], &[], 1, &mut [0.0])),
    ];
    for kernels in available() {
        for (what, call) in calls {
            let outcome = std::panic::catch_unwind(|| call(kernels));
            assert!(outcome.is_err(), "{}: {what}", kernels.name());
        }
    }
}

/// Mostly ordinary numbers of any size whose products stay far inside the range of `f32`.
fn ordinary() -> impl Strategy<Value = f32> {
    prop_oneof![
        8 => -2.0_f32..2.0,
        1 => -1e6_f32..1e6,
        1 => -1e-6_f32..1e-6,
        1 => Just(0.0),
        1 => Just(-0.0),
    ]
}

/// As `ordinary`, with NaN and infinities now and then.
fn special() -> impl Strategy<Value = f32> {
    prop_oneof![
        40 => ordinary(),
        1 => Just(f32::NAN),
        1 => Just(f32::INFINITY),
        1 => Just(f32::NEG_INFINITY),
    ]
}

/// An unaligned block: query length, row count, padding, offset, values, selection.
#[derive(Debug)]
struct Block {
    len: usize,
    row_count: usize,
    stride: usize,
    offset: usize,
    values: Vec<f32>,
    selected: Vec<u64>,
}

fn block(value: impl Strategy<Value = f32> + Clone) -> impl Strategy<Value = Block> {
    (0..=130_usize, 1..=70_usize, 0..=9_usize, 0..16_usize).prop_flat_map(move |(len, row_count, padding, offset)| {
        let stride = len + padding;
        let needed = offset + len + (row_count - 1) * stride + len;
        (vec(value.clone(), needed), vec(any::<u64>(), 2)).prop_map(move |(values, selected)| Block {
            len,
            row_count,
            stride,
            offset,
            values,
            selected,
        })
    })
}

fn check_block(block: &Block) {
    let (query, rows) = block.values[block.offset..].split_at(block.len);
    check(query, rows, block.stride, block.row_count, &block.selected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn ordinary_rows_agree_with_the_oracle(block in block(ordinary().boxed())) {
        check_block(&block);
    }

    #[test]
    fn nan_and_infinities_agree_with_the_oracle(block in block(special().boxed())) {
        check_block(&block);
    }
}
