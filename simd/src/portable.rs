//! The kernels over `wide`: the fallback of every architecture, with no run-time detection.
//!
//! `wide` picks its instructions when the crate is compiled, so a stock x86-64 build gets SSE2 from
//! it and an aarch64 build gets NEON. Invariant: nothing here needs a feature the build's target
//! does not promise, so the table runs on every CPU the program starts on.

use wide::f32x8;

use crate::lanes::Lanes;
use crate::sweep;

// One accumulator of eight lanes per row: four rows already fill half of SSE2's sixteen registers.
sweep::table!("portable", f32x8, 1);

/// Values at `from`, at any alignment.
///
/// # Safety
///
/// All eight are readable.
#[inline(always)]
unsafe fn read(from: *const f32) -> f32x8 {
    // SAFETY: readable by this function's contract; the read is unaligned.
    f32x8::from(unsafe { from.cast::<[f32; 8]>().read_unaligned() })
}

impl Lanes for f32x8 {
    const F32S: usize = 8;
    const U64S: usize = 8;
    /// `wide` has no prefetch.
    const PREFETCH_DENSE: bool = false;

    #[inline(always)]
    unsafe fn zero() -> Self {
        f32x8::ZERO
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: eight values are readable by the contract of `Lanes::load`.
        unsafe { read(from) }
    }

    #[inline(always)]
    unsafe fn load_part(from: *const f32, count: usize) -> Self {
        let mut values = [0.0; 8];
        for (i, value) in values.iter_mut().enumerate().take(count) {
            // SAFETY: `i < count`, and `count` values are readable by the contract.
            *value = unsafe { from.add(i).read() };
        }
        f32x8::from(values)
    }

    #[inline(always)]
    unsafe fn add_product(self, a: Self, b: Self) -> Self {
        a.mul_add(b, self)
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        self + other
    }

    #[inline(always)]
    unsafe fn sums(rows: [Self; 4]) -> [f32; 4] {
        let [a, b, c, d] = rows;
        [a.reduce_add(), b.reduce_add(), c.reduce_add(), d.reduce_add()]
    }

    #[inline(always)]
    unsafe fn at_least(from: *const f32, threshold: f32) -> u64 {
        // SAFETY: eight values are readable by the contract of `Lanes::at_least`.
        let values = unsafe { read(from) };
        u64::from(values.simd_ge(f32x8::splat(threshold)).to_bitmask())
    }

    /// Written for the compiler: SSE2 has no comparison of 64-bit lanes for `wide` to use.
    #[inline(always)]
    unsafe fn masked(from: *const u64, mask: u64) -> u64 {
        // SAFETY: eight values are readable by the contract; the read is unaligned.
        let values = unsafe { from.cast::<[u64; 8]>().read_unaligned() };
        let mut bits = 0;
        for (i, value) in values.into_iter().enumerate() {
            bits |= u64::from(value & mask == mask) << i;
        }
        bits
    }

    #[inline(always)]
    unsafe fn prefetch(_line: *const f32) {}
}
