//! The storage kernel of Mnemolith: format, log, slabs, indexes, scan and recovery. It knows bytes, not meaning.

#![deny(unsafe_code)]

mod admission;
mod dictionary;
mod error;
pub mod format;
mod index;
mod payload;
mod pool;
mod query;
mod rows;
mod scan;
mod score;
mod store;
mod view;
mod wal;

pub use admission::Filter;
pub use error::{KernelError, Result};
pub use query::Query;
pub use scan::{Rank, ScanOutcome};
pub use score::{Breakdown, Scored, Weights};
pub use store::{CheckpointOutcome, Durability, NewRow, Problem, Sequencer, Store, StoreOptions, StoreStats, Stored, TIERS, Verification};
pub use view::{Reader, Row};

/// The scoring kernels this machine will use: `scalar`, `portable`, `avx2` or `avx512`.
///
/// # Errors
/// `Kernels` where `MNEMOLITH_SIMD` asks for one that is unknown or that this CPU lacks.
pub fn kernel_name() -> Result<&'static str> {
    active_kernels().map(mnemolith_simd::Kernels::name)
}

fn active_kernels() -> Result<&'static mnemolith_simd::Kernels> {
    mnemolith_simd::active().map_err(|error| KernelError::Kernels(error.to_string().into()))
}
