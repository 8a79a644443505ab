//! AVX-512 F: sixteen `f32` lanes, thirty-two registers, masked loads for the tail.
//!
//! Invariant: the methods of `Avx512` are called by the entries of `TABLE` alone, which are reached
//! only after `detected` saw avx512f and everything the AVX2 table needs. No other subset of
//! AVX-512 is used.

use std::arch::x86_64::*;

use super::avx2::sums_of_four;
use crate::lanes::Lanes;
use crate::sweep;

// Two accumulators for each of four rows, as with AVX2 and for the same reason.
sweep::table!(
    "avx512",
    Avx512,
    2,
    #[target_feature(enable = "avx512f,avx2,fma,popcnt")]
);

/// A register of AVX-512.
#[derive(Clone, Copy)]
struct Avx512(__m512);

impl Lanes for Avx512 {
    const F32S: usize = 16;
    const U64S: usize = 8;
    const PREFETCH_DENSE: bool = false;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: AVX-512 F was detected by the contract of `Lanes`.
        Self(unsafe { _mm512_setzero_ps() })
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: AVX-512 F was detected, and sixteen values are readable, by the contract of
        // `Lanes`.
        Self(unsafe { _mm512_loadu_ps(from) })
    }

    #[inline(always)]
    unsafe fn load_part(from: *const f32, count: usize) -> Self {
        let mask = ((1_u32 << count) - 1) as __mmask16;
        // SAFETY: AVX-512 F was detected, and `count` values are readable, by the contract of
        // `Lanes`; a masked load touches no others.
        Self(unsafe { _mm512_maskz_loadu_ps(mask, from) })
    }

    #[inline(always)]
    unsafe fn add_product(self, a: Self, b: Self) -> Self {
        // SAFETY: AVX-512 F was detected by the contract of `Lanes`.
        Self(unsafe { _mm512_fmadd_ps(a.0, b.0, self.0) })
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: AVX-512 F was detected by the contract of `Lanes`.
        Self(unsafe { _mm512_add_ps(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn sums(rows: [Self; 4]) -> [f32; 4] {
        let [a, b, c, d] = rows;
        // SAFETY: AVX-512 F and AVX2 were detected by the contract of `Lanes`.
        unsafe { sums_of_four(halves(a), halves(b), halves(c), halves(d)) }
    }

    #[inline(always)]
    unsafe fn at_least(from: *const f32, threshold: f32) -> u64 {
        // SAFETY: AVX-512 F was detected, and sixteen values are readable, by the contract of
        // `Lanes`.
        let bits = unsafe {
            let values = _mm512_loadu_ps(from);
            _mm512_cmp_ps_mask::<_CMP_GE_OQ>(values, _mm512_set1_ps(threshold))
        };
        u64::from(bits)
    }

    #[inline(always)]
    unsafe fn masked(from: *const u64, mask: u64) -> u64 {
        // SAFETY: AVX-512 F was detected, and eight values are readable, by the contract of
        // `Lanes`.
        let bits = unsafe {
            let mask = _mm512_set1_epi64(mask.cast_signed());
            let common = _mm512_and_si512(_mm512_loadu_si512(from.cast()), mask);
            _mm512_cmpeq_epi64_mask(common, mask)
        };
        u64::from(bits)
    }

    #[inline(always)]
    unsafe fn prefetch(line: *const f32) {
        // SAFETY: a prefetch is a hint and faults on no address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) }
    }
}

/// The lower eight lanes plus the upper eight.
///
/// # Safety
///
/// The CPU has AVX-512 F.
#[inline(always)]
unsafe fn halves(row: Avx512) -> __m256 {
    // SAFETY: AVX-512 F is there by this function's contract. The upper half is taken as four
    // `f64`, for the `f32` form of the extraction would need AVX-512 DQ; the bits are the same.
    unsafe {
        let upper = _mm512_extractf64x4_pd::<1>(_mm512_castps_pd(row.0));
        _mm256_add_ps(_mm512_castps512_ps256(row.0), _mm256_castpd_ps(upper))
    }
}
