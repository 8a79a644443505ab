//! The storage kernel of Mnemolith: format, log, slabs, indexes, scan and recovery. Knows bytes, not meaning.

#![deny(unsafe_code)]

mod error;
pub mod format;

pub use error::{KernelError, Result};
