//! The kernels of x86-64 over `std::arch`, and the detection that guards them.
//!
//! Invariant: [`detected`] is the only way to a table of this module, and it checks every feature
//! that the table's `#[target_feature]` entries name.

mod avx2;
mod avx512;

use crate::Kernels;

/// The tables this CPU can run, slowest first.
pub(crate) fn detected() -> impl Iterator<Item = &'static Kernels> {
    let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("popcnt");
    let avx512 = avx2 && is_x86_feature_detected!("avx512f");
    [(avx2, &avx2::TABLE), (avx512, &avx512::TABLE)].into_iter().filter_map(|(runs, table)| runs.then_some(table))
}
