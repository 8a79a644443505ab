//! Top-k against a sort of everything.

use proptest::collection::vec;
use proptest::prelude::*;

use super::{Noise, bit, bitset};
use crate::{Candidate, TopK, available};

/// A block of scores: base, scores, admitted rows.
type Block = (u64, Vec<f32>, Vec<u64>);

/// Sorts everything that was admitted and keeps what the k-th best minus the slack lets through.
fn naive(blocks: &[Block], k: usize, slack: f32) -> Vec<Candidate> {
    let mut all = Vec::new();
    for (base, scores, admitted) in blocks {
        for (i, &score) in scores.iter().enumerate() {
            if bit(admitted, i) && !score.is_nan() {
                let index = base + i as u64;
                all.push(Candidate { index, score });
            }
        }
    }
    all.sort_by(|a, b| {
        let by_score = b.score.partial_cmp(&a.score).unwrap();
        by_score.then(a.index.cmp(&b.index))
    });
    if k == 0 {
        all.clear();
    } else if let Some(kth) = all.get(k - 1).map(|candidate| candidate.score) {
        let slack_is_all = slack == f32::INFINITY;
        all.retain(|candidate| slack_is_all || candidate.score >= kth - slack);
    }
    all
}

fn no_resolve(_: &mut Vec<Candidate>) {
    panic!("there is nothing to resolve");
}

/// The caller's total order: score, then the lower index.
fn best_k(k: usize) -> impl FnMut(&mut Vec<Candidate>) {
    move |candidates| {
        candidates.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.index.cmp(&b.index)));
        candidates.truncate(k);
    }
}

fn top(blocks: &[Block], k: usize, slack: f32, resolve: &mut dyn FnMut(&mut Vec<Candidate>)) -> Vec<Vec<Candidate>> {
    let run = |kernels| {
        let mut top = TopK::new(k, slack);
        for (base, scores, admitted) in blocks {
            top.push_block(kernels, *base, scores, admitted, resolve);
        }
        top.into_candidates()
    };
    available().into_iter().map(run).collect()
}

/// Every row of these scores, as one block.
fn one_block(scores: Vec<f32>) -> Block {
    let admitted = vec![!0; scores.len().div_ceil(64)];
    (0, scores, admitted)
}

#[test]
fn no_rows_and_k_zero_keep_nothing() {
    let blocks = [one_block(vec![3.0, 1.0, 2.0])];
    for best in top(&blocks, 0, 1.0, &mut no_resolve) {
        assert_eq!(best, []);
    }
    for best in top(&[one_block(Vec::new())], 3, 0.0, &mut no_resolve) {
        assert_eq!(best, []);
    }
}

#[test]
fn k_above_the_number_of_rows_keeps_every_row_but_nan() {
    let mut noise = Noise(5);
    let mut scores = noise.values(10_000);
    scores[17] = f32::NAN;
    scores[18] = f32::NEG_INFINITY;
    let blocks = [one_block(scores)];
    for k in [10_000, 20_000, usize::MAX] {
        for best in top(&blocks, k, 0.0, &mut no_resolve) {
            assert_eq!(best.len(), 9_999);
            assert_eq!(best, naive(&blocks, k, 0.0));
        }
    }
}

#[test]
fn rows_that_are_not_admitted_and_bits_past_the_scores_do_not_count() {
    let blocks = [(40, vec![9.0, 1.0, 8.0, 2.0], vec![!0 << 1, !0])];
    for best in top(&blocks, 2, 0.0, &mut no_resolve) {
        let indexes: Vec<u64> = best.iter().map(|candidate| candidate.index).collect();
        assert_eq!(indexes, [42, 43]);
    }
}

#[test]
fn infinite_scores_are_kept_in_order() {
    let blocks = [one_block(vec![f32::NEG_INFINITY, 1.0, f32::NAN, f32::INFINITY, f32::INFINITY])];
    for (k, slack) in [(1, 0.0), (1, 5.0), (3, 0.5), (4, 0.0), (1, f32::INFINITY)] {
        for best in top(&blocks, k, slack, &mut no_resolve) {
            assert_eq!(best, naive(&blocks, k, slack), "k {k}, slack {slack}");
        }
    }
}

/// The buffer must not grow with the number of ties, and the caller's order decides among them.
#[test]
fn all_equal_scores_are_resolved_in_bounded_memory() {
    let k = 10;
    let bound = 2 * k + 1024;
    let blocks = [one_block(vec![0.5; 100_000])];
    for slack in [0.0, 0.25, f32::INFINITY] {
        let mut calls = 0;
        let mut order = best_k(k);
        let mut resolve = |candidates: &mut Vec<Candidate>| {
            calls += 1;
            assert!(candidates.len() > bound, "resolved too early");
            assert!(candidates.len() <= 2 * bound, "the buffer is not bounded");
            assert!(candidates.capacity() <= 4 * bound);
            order(candidates);
        };
        for best in top(&blocks, k, slack, &mut resolve) {
            assert!(best.len() <= 2 * bound);
            let first: Vec<u64> = best.iter().take(k).map(|c| c.index).collect();
            assert_eq!(first, (0..10).collect::<Vec<u64>>());
        }
        assert!(calls > 0);
        assert!(calls < 100_000 / bound * 2 * available().len());
    }
}

/// The worst order for a threshold: every row is better than all before it.
#[test]
fn rising_scores_cost_no_resolution() {
    let scores: Vec<f32> = (0..200_000_u32).map(|i| i as f32).collect();
    let blocks = [one_block(scores)];
    for best in top(&blocks, 10, 100.0, &mut no_resolve) {
        assert_eq!(best, naive(&blocks, 10, 100.0));
        assert_eq!(best.len(), 110);
    }
}

/// Approximate scores within `error` of the exact ones, and twice that as slack: after exact
/// rescoring the true top k is there, although `resolve` had to cut the ties again and again.
#[test]
fn the_exact_top_k_survives_approximate_scores_and_resolution() {
    let (k, error) = (25, 0.01_f32);
    let mut noise = Noise(6);
    // So many rows near the top that far more than the bound lie within the slack.
    let exact: Vec<f32> = (0..60_000).map(|_| noise.value().abs() * 0.03).collect();
    let approximate: Vec<f32> = exact.iter().map(|e| e + noise.value() * error).collect();
    let order = |a: &Candidate, b: &Candidate| {
        let (x, y) = (exact[a.index as usize], exact[b.index as usize]);
        y.total_cmp(&x).then(a.index.cmp(&b.index))
    };
    let mut calls = 0;
    let mut resolve = |candidates: &mut Vec<Candidate>| {
        calls += 1;
        candidates.sort_by(order);
        candidates.truncate(k);
    };
    let mut expected: Vec<u64> = (0..60_000).collect();
    expected.sort_by(|a, b| exact[*b as usize].total_cmp(&exact[*a as usize]).then(a.cmp(b)));
    expected.truncate(k);
    let blocks = [one_block(approximate)];
    for mut best in top(&blocks, k, 2.0 * error, &mut resolve) {
        best.sort_by(order);
        best.truncate(k);
        let indexes: Vec<u64> = best.iter().map(|candidate| candidate.index).collect();
        assert_eq!(indexes, expected);
    }
    assert!(calls > 0, "the test must reach resolution");
}

/// After a resolution the buffer may know fewer good scores than were seen. If the threshold fell,
/// rows that lost would come back.
#[test]
fn the_threshold_never_falls_after_a_resolution() {
    let k = 4;
    // Good scores that the caller's order rejects in favour of worse ones within the slack, then
    // enough of the worse ones to prune again, then rows below the threshold of the good ones.
    let mut scores = vec![0.5; 100];
    scores.extend([1.0; 1964]);
    scores.extend([0.5; 2100]);
    scores.extend([0.4; 64]);
    let mut resolve = |candidates: &mut Vec<Candidate>| {
        candidates.sort_by_key(|candidate| candidate.index);
        candidates.truncate(k);
    };
    for best in top(&[one_block(scores)], k, 0.5, &mut resolve) {
        assert!(best.iter().all(|candidate| candidate.score >= 0.5));
    }
}

#[test]
fn misuse_is_refused() {
    type Call = fn();
    let calls: [(&str, Call); 5] = [
        ("negative slack", || {
            TopK::new(1, -0.5);
        }),
        ("NaN slack", || {
            TopK::new(1, f32::NAN);
        }),
        ("too few bits", || {
            top(&[(0, vec![0.0; 65], vec![!0])], 1, 0.0, &mut no_resolve);
        }),
        ("index overflow", || {
            top(&[(u64::MAX, vec![0.0; 2], vec![!0])], 1, 0.0, &mut no_resolve);
        }),
        ("nothing resolved", || {
            top(&[one_block(vec![0.0; 5000])], 1, 0.0, &mut |_| ());
        }),
    ];
    for (what, call) in calls {
        assert!(std::panic::catch_unwind(call).is_err(), "{what}");
    }
}

/// Blocks with many ties, some NaN and some rows left out, in a random order.
fn blocks() -> impl Strategy<Value = Vec<Block>> {
    let score = prop_oneof![
        10 => -1.0_f32..1.0,
        10 => (-8_i8..8).prop_map(|step| f32::from(step) / 8.0),
        1 => Just(f32::NAN),
        1 => Just(f32::INFINITY),
        1 => Just(f32::NEG_INFINITY),
    ];
    let block = vec((score, prop::bool::weighted(0.8)), 0..700);
    vec(block, 0..8)
        .prop_map(|blocks| {
            let mut base = 0;
            let number = |rows: Vec<(f32, bool)>| {
                let (scores, admitted): (Vec<f32>, Vec<bool>) = rows.into_iter().unzip();
                base += 10_000;
                (base, scores, bitset(admitted))
            };
            blocks.into_iter().map(number).collect::<Vec<Block>>()
        })
        .prop_shuffle()
}

/// Compares with the sort: every candidate, or the first k where ties had to be resolved.
fn check_against_sort(blocks: &[Block], k: usize, slack: f32) {
    let expected = naive(blocks, k, slack);
    let first = k.min(expected.len());
    let mut resolved = false;
    let mut order = best_k(k);
    let mut resolve = |candidates: &mut Vec<Candidate>| {
        resolved = true;
        order(candidates);
    };
    let every_best = top(blocks, k, slack, &mut resolve);
    for best in every_best {
        if resolved {
            assert_eq!(best[..first], expected[..first]);
        } else {
            assert_eq!(best, expected);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_candidates_are_those_of_a_sort(
        blocks in blocks(),
        k in 0_usize..40,
        slack in prop_oneof![Just(0.0_f32), 0.0_f32..0.3],
    ) {
        check_against_sort(&blocks, k, slack);
    }

    #[test]
    fn the_order_of_the_blocks_does_not_matter(blocks in blocks(), k in 1_usize..3000) {
        check_against_sort(&blocks, k, 0.01);
        let backwards: Vec<Block> = blocks.into_iter().rev().collect();
        check_against_sort(&backwards, k, 0.01);
    }
}
