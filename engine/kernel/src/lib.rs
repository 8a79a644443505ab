//! The storage kernel of Mnemolith: format, log, slabs, indexes, scan and recovery. It knows bytes, not meaning.

#![deny(unsafe_code)]

mod dictionary;
mod error;
pub mod format;
mod index;
mod payload;
mod pool;
mod rows;
mod scan;
mod store;
mod view;
mod wal;

pub use error::{KernelError, Result};
pub use store::{CheckpointOutcome, Durability, NewRow, Problem, Sequencer, Store, StoreOptions, StoreStats, Stored, TIERS, Verification};
pub use view::{Reader, Row};
