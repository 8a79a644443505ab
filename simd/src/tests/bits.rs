//! Masks, thresholds and bitsets of every table against naive code.

use proptest::collection::vec;
use proptest::prelude::*;

use super::{Noise, bitset};
use crate::{Kernels, available};

fn check_mask(column: &[u64], mask: u64) {
    let expected = bitset(column.iter().map(|value| value & mask == mask));
    for kernels in available() {
        let mut out = vec![!0; expected.len()];
        kernels.mask_all(column, mask, &mut out);
        assert_eq!(out, expected, "{} at {}", kernels.name(), column.len());
    }
}

fn check_at_least(scores: &[f32], threshold: f32) {
    let expected = bitset(scores.iter().map(|score| *score >= threshold));
    for kernels in available() {
        let mut out = vec![!0; expected.len()];
        kernels.at_least(scores, threshold, &mut out);
        assert_eq!(out, expected, "{} at {}", kernels.name(), scores.len());
    }
}

fn check_sets(dst: &[u64], src: &[u64]) {
    type Combine = fn(&Kernels, &mut [u64], &[u64]);
    type Naive = fn(u64, u64) -> u64;
    let operations: [(Combine, Naive); 3] =
        [(Kernels::bits_and, |a, b| a & b), (Kernels::bits_or, |a, b| a | b), (Kernels::bits_and_not, |a, b| a & !b)];
    for kernels in available() {
        for (combine, naive) in operations {
            let mut out = dst.to_vec();
            combine(kernels, &mut out, src);
            let expected: Vec<u64> = dst.iter().zip(src).map(|(a, b)| naive(*a, *b)).collect();
            assert_eq!(out, expected, "{}", kernels.name());
        }
        let naive: u64 = (0..dst.len() * 64).map(|i| u64::from(super::bit(dst, i))).sum();
        assert_eq!(kernels.bits_count(dst), naive, "{}", kernels.name());
    }
}

#[test]
fn every_remainder_of_a_column_is_masked() {
    let mut noise = Noise(3);
    let column: Vec<u64> = (0..300).map(|_| noise.next()).collect();
    for len in 0..=260 {
        for start in 0..3 {
            let column = &column[start..start + len];
            check_mask(column, 0b11);
            check_mask(column, (1 << 63) | 1);
        }
    }
}

#[test]
fn mask_zero_selects_every_row_there_is_and_no_tail_bit() {
    for len in [1_usize, 63, 64, 65, 130] {
        for kernels in available() {
            let mut out = vec![0; len.div_ceil(64)];
            kernels.mask_all(&vec![0; len], 0, &mut out);
            assert_eq!(kernels.bits_count(&out), len as u64, "{}", kernels.name());
        }
    }
}

#[test]
fn every_remainder_of_scores_is_compared() {
    let mut noise = Noise(4);
    let scores = noise.values(300);
    for len in 0..=260 {
        for start in 0..3 {
            check_at_least(&scores[start..start + len], 0.25);
        }
    }
}

#[test]
fn nan_is_at_least_nothing_and_infinities_compare_as_numbers() {
    let mut scores = Vec::new();
    for _ in 0..20 {
        scores.extend([f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, f32::MIN_POSITIVE / 2.0]);
    }
    for threshold in [f32::NEG_INFINITY, f32::INFINITY, f32::NAN, 0.0, -0.0, f32::MIN_POSITIVE / 4.0] {
        check_at_least(&scores, threshold);
    }
}

#[test]
fn results_of_another_length_than_the_input_are_refused() {
    type Call = fn(&Kernels);
    let calls: [(&str, Call); 7] = [
        ("mask, short", |k| k.mask_all(&[0; 65], 0, &mut [0])),
        ("mask, long", |k| k.mask_all(&[0; 64], 0, &mut [0; 2])),
        ("scores, short", |k| k.at_least(&[0.0; 65], 0.0, &mut [0])),
        ("scores, long", |k| k.at_least(&[0.0; 64], 0.0, &mut [0; 2])),
        ("and", |k| k.bits_and(&mut [0], &[])),
        ("or", |k| k.bits_or(&mut [], &[0])),
        ("and not", |k| k.bits_and_not(&mut [0], &[0, 0])),
    ];
    for kernels in available() {
        for (what, call) in calls {
            let outcome = std::panic::catch_unwind(|| call(kernels));
            assert!(outcome.is_err(), "{}: {what}", kernels.name());
        }
    }
}

proptest! {
    #[test]
    fn masks_agree_with_naive_code(column in vec(any::<u64>(), 0..400), a: u64, b: u64, c: u64) {
        check_mask(&column, a & b & c);
        check_mask(&column, a);
        check_mask(&column, 0);
    }

    #[test]
    fn thresholds_agree_with_naive_code(
        scores in vec(any::<f32>(), 0..400),
        free: f32,
        chosen in 0_usize..400,
    ) {
        check_at_least(&scores, free);
        if let Some(&score) = scores.get(chosen) {
            check_at_least(&scores, score);
        }
    }

    #[test]
    fn bitsets_agree_with_naive_code(pairs in vec(any::<(u64, u64)>(), 0..130), start in 0_usize..4) {
        let (dst, src): (Vec<u64>, Vec<u64>) = pairs.into_iter().unzip();
        let start = start.min(dst.len());
        check_sets(&dst[start..], &src[start..]);
    }
}
