//! Where the bytes of Mnemolith live: the seams and their implementations.

pub mod conformance;
mod error;
mod file;
mod heap;
mod memory;
mod names;
mod region;
mod seam;
mod uses;

pub use error::{StorageError, StorageErrorKind};
pub use file::FileBackend;
pub use memory::{MemoryBackend, NamespaceImage};
pub use region::{Gate, ReadPass, Region, RegionWriter, WritePass};
pub use seam::{Backend, Directory, LogFile, Result};
