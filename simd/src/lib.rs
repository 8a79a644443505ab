//! Vector kernels, bitsets and top-k of Mnemolith.
//!
//! Purpose: the inner loops of a scan, and nothing above them. The crate does no I/O, and no
//! kernel allocates; [`TopK`] holds O(k) candidates.
//!
//! Each algorithm is written once over a private trait of vector lanes (`lanes`, `sweep`) and
//! instantiated by thin entries per architecture. An entry is reached through a [`Kernels`] table
//! of function pointers, which is chosen once per process and called once per block of rows,
//! never once per row.
//!
//! Invariants:
//! * a table is only handed out after the CPU was seen to have every feature it needs;
//! * every length a kernel relies on is asserted by the method of [`Kernels`] that calls it, in
//!   release builds too, so no safe call can read or write out of bounds;
//! * within one table the score of a row depends on the query and on that row alone: not on its
//!   position in the block, not on its alignment, and not on which `dot` method was called;
//! * `scalar` is the oracle: it sums in `f64`, and every other table is tested against it.

mod dispatch;
mod error;
mod kernels;
mod lanes;
mod portable;
mod scalar;
mod sweep;
mod topk;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(test)]
mod tests;

pub use dispatch::{ENV_VAR, active, available, by_name};
pub use error::SimdError;
pub use kernels::Kernels;
pub use topk::{Candidate, TopK};
