//! Where the bytes of Mnemolith live: the seams and their implementations.

pub mod conformance;
mod error;
mod file;
mod gate;
mod heap;
mod memory;
mod names;
mod region;
mod seam;
mod uses;

pub use error::{StorageError, StorageErrorKind};
pub use file::FileBackend;
pub use gate::{Gate, ReadPass, WritePass};
pub use memory::{MemoryBackend, NamespaceImage};
pub use region::{Region, RegionWriter};
pub use seam::{Backend, Directory, LogFile, Result};
