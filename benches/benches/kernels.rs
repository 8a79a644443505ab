//! The kernels of every table this CPU can run, over data that fits the caches.
//!
//! `cargo bench -p mnemolith-benches --bench kernels`
//!
//! Compare within one run only: absolute times differ from machine to machine. The rows of
//! `dot_rows` (0.75 and 1.5 MiB) sit in the second-level cache of a current CPU, the columns of 1M
//! rows in the third.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use mnemolith_simd::{TopK, available};

const ROW_COUNT: usize = 512;
const COLUMN_LEN: usize = 1_000_000;
const K: usize = 10;

/// A fixed stream of pseudo-random words (xorshift), so that every run sees the same data.
struct Noise(u64);

impl Iterator for Noise {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        Some(self.0)
    }
}

/// Values in -1..1.
fn values(seed: u64, len: usize) -> Vec<f32> {
    let unit = |word: u64| (word >> 40) as f32 / (1_u64 << 23) as f32 - 1.0;
    Noise(seed).map(unit).take(len).collect()
}

fn dot_rows(c: &mut Criterion) {
    for dim in [384, 768] {
        let query = values(1, dim);
        let rows = values(2, ROW_COUNT * dim);
        let mut scores = vec![0.0; ROW_COUNT];
        let mut group = c.benchmark_group(format!("dot_rows/{dim}x{ROW_COUNT}"));
        group.throughput(Throughput::Bytes((rows.len() * size_of::<f32>()) as u64));
        for kernels in available() {
            group.bench_function(kernels.name(), |b| {
                b.iter(|| {
                    kernels.dot_rows(black_box(&query), black_box(&rows), dim, &mut scores);
                    black_box(&mut scores);
                });
            });
        }
        group.finish();
    }
}

fn mask_all(c: &mut Criterion) {
    let column: Vec<u64> = Noise(3).take(COLUMN_LEN).collect();
    let mut bits = vec![0; COLUMN_LEN.div_ceil(64)];
    let mut group = c.benchmark_group("mask_all/1M");
    group.throughput(Throughput::Bytes((COLUMN_LEN * size_of::<u64>()) as u64));
    for kernels in available() {
        group.bench_function(kernels.name(), |b| {
            b.iter(|| {
                kernels.mask_all(black_box(&column), black_box(0b111), &mut bits);
                black_box(&mut bits);
            });
        });
    }
    group.finish();
}

/// The rival of `TopK`: a heap of the best k, its root the worst of them. The order of `f32` is
/// made total by its bits, as the standard library does it.
fn top_by_heap(scores: &[f32]) -> Vec<Reverse<(i32, u64)>> {
    let mut heap = BinaryHeap::with_capacity(K + 1);
    for (index, score) in (0_u64..).zip(scores) {
        let bits = score.to_bits().cast_signed();
        let key = bits ^ ((bits >> 31).cast_unsigned() >> 1).cast_signed();
        if heap.len() < K {
            heap.push(Reverse((key, index)));
        } else if let Some(mut worst) = heap.peek_mut()
            && key > worst.0.0
        {
            *worst = Reverse((key, index));
        }
    }
    heap.into_sorted_vec()
}

fn top_10(c: &mut Criterion) {
    let scores = values(4, COLUMN_LEN);
    let admitted = vec![!0; COLUMN_LEN.div_ceil(64)];
    let mut group = c.benchmark_group("top_10/1M");
    group.bench_function("heap", |b| b.iter(|| top_by_heap(black_box(&scores))));
    for kernels in available() {
        group.bench_function(kernels.name(), |b| {
            b.iter(|| {
                let mut top = TopK::new(K, 0.0);
                let scores = black_box(&scores);
                top.push_block(kernels, 0, scores, &admitted, &mut |tied| tied.truncate(K));
                top.into_candidates()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, dot_rows, mask_all, top_10);
criterion_main!(benches);
