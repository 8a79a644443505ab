//! The vector registers of one instruction set, as the algorithms of `sweep` see them.
//!
//! Invariants of an implementation: every method is `#[inline(always)]`, so that its intrinsics
//! end up inside the `#[target_feature]` entry that instantiates the algorithm (a method that
//! stayed a call of its own would be slow, though still correct); loads accept any alignment;
//! lane `i` is the `i`-th value in memory, and bit `i` of a result speaks of it.

/// One register of `f32` lanes.
///
/// # Safety
///
/// Every method may only be called on a CPU that has the instruction set of the implementation.
/// Methods that take a pointer say how much must be readable behind it.
pub(crate) trait Lanes: Copy {
    /// How many `f32` values one register holds: a divisor of 64.
    const F32S: usize;
    /// How many `u64` values [`Lanes::masked`] looks at: a divisor of 64.
    const U64S: usize;
    /// Whether a dense scan gains from prefetching the next group of rows. Measured with 1M rows of
    /// 384 in DRAM: 1.17 times for AVX2, and a loss of 4 % for AVX-512, whose wider loads keep
    /// enough misses in flight by themselves.
    const PREFETCH_DENSE: bool;

    /// All lanes zero.
    unsafe fn zero() -> Self;

    /// The first [`Lanes::F32S`] values at `from`, all of which must be readable.
    unsafe fn load(from: *const f32) -> Self;

    /// The first `count` values at `from`, which must be readable; the other lanes are zero. Reads
    /// nothing past them. `count` is in `1..=F32S`.
    unsafe fn load_part(from: *const f32, count: usize) -> Self;

    /// `self + a * b`, fused where the instruction set can.
    unsafe fn add_product(self, a: Self, b: Self) -> Self;

    /// `self + other`.
    unsafe fn add(self, other: Self) -> Self;

    /// The sum over the lanes of each of four registers. The order in which the lanes of one
    /// register are added does not depend on its place among the four.
    unsafe fn sums(rows: [Self; 4]) -> [f32; 4];

    /// Bit `i` tells whether lane `i` of the [`Lanes::F32S`] values at `from`, all readable, is at
    /// least `threshold`. NaN is not.
    unsafe fn at_least(from: *const f32, threshold: f32) -> u64;

    /// Bit `i` tells whether value `i` of the [`Lanes::U64S`] values at `from`, all readable, has
    /// every bit of `mask`.
    unsafe fn masked(from: *const u64, mask: u64) -> u64;

    /// Hints that the cache line at `line` will be read soon. Any address is allowed, for a
    /// prefetch never faults.
    unsafe fn prefetch(line: *const f32);
}
