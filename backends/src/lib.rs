//! Where the bytes of Mnemolith live: the seams and their implementations.

mod error;
mod region;
mod seam;

pub use error::{StorageError, StorageErrorKind};
pub use region::{Gate, ReadPass, Region, RegionWriter, WritePass};
pub use seam::{Backend, Directory, LogFile, Result};
