//! What can go wrong below the facade, each with what a reader needs to act: path, offset, LSN, both numbers.

use std::sync::Arc;

use mnemolith_backends::{StorageError, StorageErrorKind};

/// What every kernel operation returns.
pub type Result<T> = std::result::Result<T, KernelError>;

/// A failed kernel operation. Cheap to clone: everybody who waits for one frame gets the same failure.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// The device or the system refused; nothing was acknowledged. On the durable path this also latches [`KernelError::Failed`].
    #[error("{0}")]
    Storage(Arc<StorageError>),
    /// Bytes that were acknowledged are damaged. Every open refuses, and changes nothing.
    #[error("{file} is damaged at byte {offset}{}: {what}; restore the namespace from a copy", lsn_words(*lsn))]
    Corrupt {
        /// The damaged file, relative to the namespace.
        file: String,
        /// Where in it the damage was noticed.
        offset: u64,
        /// The log position it concerns, where one is known.
        lsn: Option<u64>,
        /// What did not hold.
        what: String,
    },
    /// The store was written by a newer version of the format.
    #[error("{file} has format version {found}, this build reads up to {supported}; use a newer build")]
    UnsupportedFormat {
        /// The file that says so.
        file: String,
        /// The version found.
        found: u32,
        /// The newest version this build reads.
        supported: u32,
    },
    /// The store was made with another vector dimension.
    #[error("the store holds vectors of dimension {stored}, but it was opened with dimension {given}; open it with {stored}")]
    DimensionMismatch {
        /// The dimension on disk.
        stored: u32,
        /// The dimension asked for.
        given: u32,
    },
    /// The store was made by another embedder.
    #[error("the store was made with embedder `{stored}`, but it was opened with `{given}`; open it with `{stored}`")]
    EmbedderMismatch {
        /// The embedder on disk.
        stored: String,
        /// The embedder asked for.
        given: String,
    },
    /// A device error was seen on the durable path: nothing is accepted any more, what is durable stays readable, reopening clears it.
    #[error("the store stopped accepting writes after an earlier failure ({reason}); what is durable stays readable, reopen it to go on")]
    Failed {
        /// The first failure.
        reason: Arc<str>,
    },
    /// A value is larger than the format allows.
    #[error("{what} takes {len} bytes, the format allows {max}")]
    TooLarge {
        /// The value.
        what: &'static str,
        /// Its size.
        len: u64,
        /// The bound.
        max: u64,
    },
    /// A vector dimension that the format does not know.
    #[error("a vector has 1 to 65,535 dimensions, not {given}")]
    Dimension {
        /// The dimension asked for, or the length of the vector given.
        given: u64,
    },
    /// The scoring kernels asked for are not there.
    #[error("{0}")]
    Kernels(Arc<str>),
    /// The kernel contradicted itself: a defect, reported instead of a panic.
    #[error("internal contradiction: {0}")]
    Internal(&'static str),
}

fn lsn_words(lsn: Option<u64>) -> String {
    lsn.map(|lsn| format!(" (LSN {lsn})")).unwrap_or_default()
}

impl KernelError {
    /// Whether it is a clean `NoSpace`: nothing was changed and the same call works once there is room.
    pub fn is_no_space(&self) -> bool {
        matches!(self, Self::Storage(error) if error.kind == StorageErrorKind::NoSpace)
    }

    /// Whether the device failed in a way after which nothing may be assumed about it.
    pub(crate) fn is_device_failure(&self) -> bool {
        matches!(self, Self::Storage(_)) && !self.is_no_space()
    }

    pub(crate) fn corrupt(file: impl Into<String>, offset: u64, lsn: Option<u64>, what: impl Into<String>) -> Self {
        Self::Corrupt { file: file.into(), offset, lsn, what: what.into() }
    }
}

impl From<StorageError> for KernelError {
    fn from(error: StorageError) -> Self {
        // A file of a length its owner never gave it is damage like any other, not a failing device.
        if error.kind == StorageErrorKind::Damaged {
            return Self::corrupt(error.path.to_string_lossy(), 0, None, error.source.to_string());
        }
        Self::Storage(Arc::new(error))
    }
}
