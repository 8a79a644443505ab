//! AVX2 with FMA: eight `f32` lanes, sixteen registers.
//!
//! Invariant: the methods of `Avx2` are called by the entries of `TABLE` alone, which are reached
//! only after `detected` saw avx2, fma and popcnt.

use std::arch::x86_64::*;

use crate::lanes::Lanes;
use crate::sweep;

// Two accumulators for each of four rows: eight chains keep both multiply-add ports busy at a
// latency of four, and leave registers for the query.
sweep::table!(
    "avx2",
    Avx2,
    2,
    #[target_feature(enable = "avx2,fma,popcnt")]
);

/// A register of AVX2.
#[derive(Clone, Copy)]
struct Avx2(__m256);

/// A window of eight into this array, starting at `8 - n`, selects the first `n` lanes.
static PART_MASKS: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];

impl Lanes for Avx2 {
    const F32S: usize = 8;
    const U64S: usize = 4;
    const PREFETCH_DENSE: bool = true;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: AVX2 was detected by the contract of `Lanes`.
        Self(unsafe { _mm256_setzero_ps() })
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: AVX2 was detected, and eight values are readable, by the contract of `Lanes`.
        Self(unsafe { _mm256_loadu_ps(from) })
    }

    #[inline(always)]
    unsafe fn load_part(from: *const f32, count: usize) -> Self {
        // SAFETY: AVX2 was detected, and `count` values are readable, by the contract of `Lanes`;
        // a masked load touches no others. `count` is at most 8, so the window of eight masks
        // starts at 0 or later and ends at 16 or earlier.
        unsafe {
            let mask = _mm256_loadu_si256(PART_MASKS.as_ptr().add(8 - count).cast());
            Self(_mm256_maskload_ps(from, mask))
        }
    }

    #[inline(always)]
    unsafe fn add_product(self, a: Self, b: Self) -> Self {
        // SAFETY: FMA was detected by the contract of `Lanes`.
        Self(unsafe { _mm256_fmadd_ps(a.0, b.0, self.0) })
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: AVX2 was detected by the contract of `Lanes`.
        Self(unsafe { _mm256_add_ps(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn sums(rows: [Self; 4]) -> [f32; 4] {
        let [a, b, c, d] = rows;
        // SAFETY: AVX2 was detected by the contract of `Lanes`.
        unsafe { sums_of_four(a.0, b.0, c.0, d.0) }
    }

    #[inline(always)]
    unsafe fn at_least(from: *const f32, threshold: f32) -> u64 {
        // SAFETY: AVX2 was detected, and eight values are readable, by the contract of `Lanes`.
        let bits = unsafe {
            let values = _mm256_loadu_ps(from);
            let reached = _mm256_cmp_ps::<_CMP_GE_OQ>(values, _mm256_set1_ps(threshold));
            _mm256_movemask_ps(reached)
        };
        u64::from(bits.cast_unsigned())
    }

    #[inline(always)]
    unsafe fn masked(from: *const u64, mask: u64) -> u64 {
        // SAFETY: AVX2 was detected, and four values are readable, by the contract of `Lanes`.
        let bits = unsafe {
            let mask = _mm256_set1_epi64x(mask.cast_signed());
            let common = _mm256_and_si256(_mm256_loadu_si256(from.cast()), mask);
            _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(common, mask)))
        };
        u64::from(bits.cast_unsigned())
    }

    #[inline(always)]
    unsafe fn prefetch(line: *const f32) {
        // SAFETY: a prefetch is a hint and faults on no address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) }
    }
}

/// The sums over the lanes of four registers: neighbours are added first, then the halves.
///
/// # Safety
///
/// The CPU has AVX2.
#[inline(always)]
pub(super) unsafe fn sums_of_four(a: __m256, b: __m256, c: __m256, d: __m256) -> [f32; 4] {
    let mut sums = [0.0; 4];
    // SAFETY: AVX2 is there by this function's contract; the store is of the four values of `sums`.
    unsafe {
        let quads = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
        let halves = _mm_add_ps(_mm256_castps256_ps128(quads), _mm256_extractf128_ps::<1>(quads));
        _mm_storeu_ps(sums.as_mut_ptr(), halves);
    }
    sums
}
