//! One error type for everything that touches a device: what was done, where, and what the system said.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// What kind of failure it was: what the caller can do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StorageErrorKind {
    /// Another holder has the namespace open.
    AlreadyOpen {
        /// Its process, where it could be read.
        pid: Option<u32>,
    },
    /// The device is full (ENOSPC, EDQUOT). Nothing was changed.
    NoSpace,
    /// What was asked for does not exist.
    NotFound,
    /// A file is not what its owner wrote: wrong length, sparse where it must not be.
    Damaged,
    /// The device or the system failed.
    Io,
}

/// A failed storage operation: the operation, the path, and the system's own error with its errno.
#[derive(Debug)]
pub struct StorageError {
    /// What kind of failure it was.
    pub kind: StorageErrorKind,
    /// The operation that failed, as a verb: `create`, `write`, `sync`.
    pub operation: &'static str,
    /// The file or directory it failed on.
    pub path: PathBuf,
    /// The system's error.
    pub source: io::Error,
}

impl StorageError {
    /// Wraps a system error; the kind follows from its errno.
    pub fn new(operation: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        let kind = match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StorageErrorKind::NoSpace,
            io::ErrorKind::NotFound => StorageErrorKind::NotFound,
            _ => StorageErrorKind::Io,
        };
        Self { kind, operation, path: path.into(), source }
    }

    /// A failure of a given kind, told in words.
    pub fn of_kind(kind: StorageErrorKind, operation: &'static str, path: impl Into<PathBuf>, message: impl Into<String>) -> Self {
        Self { kind, operation, path: path.into(), source: io::Error::other(message.into()) }
    }
}

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} {}: {}", self.operation, self.path.display(), self.source)
    }
}

impl std::error::Error for StorageError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}
