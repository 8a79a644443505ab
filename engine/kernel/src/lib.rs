//! The storage kernel of Mnemolith: format, log, slabs, indexes, scan and recovery. It knows bytes, not meaning.

#![deny(unsafe_code)]

mod admission;
mod dictionary;
mod error;
pub mod format;
mod index;
mod payload;
mod pool;
mod rows;
mod scan;
mod score;
mod store;
mod view;
mod wal;

pub use admission::Filter;
pub use error::{KernelError, Result};
pub use scan::{Rank, ScanOutcome};
pub use score::{Breakdown, Scored, Weights};
pub use view::{Reader, Row};
