//! The one error of this crate: a kernel table that cannot be had.
//!
//! Invariant: the message names the value that was asked for and every value that would work, so
//! the reader can fix the setting without opening the documentation.

use std::fmt;

use crate::dispatch::ENV_VAR;

/// Why a table of kernels could not be chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SimdError {
    /// No table of this name exists in any build: correct the name.
    Unknown {
        /// The name that was asked for.
        requested: String,
        /// The names this CPU supports.
        supported: Vec<&'static str>,
    },
    /// The table exists, but this CPU (or this build's architecture) cannot run it: pick another.
    Unsupported {
        /// The name that was asked for.
        requested: String,
        /// The names this CPU supports.
        supported: Vec<&'static str>,
    },
}

impl fmt::Display for SimdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (requested, supported, why) = match self {
            Self::Unknown { requested, supported } => (requested, supported, "is not a kernel table"),
            Self::Unsupported { requested, supported } => (requested, supported, "is a kernel table this CPU cannot run"),
        };
        write!(f, "{requested:?} {why}; set {ENV_VAR} to one of [{}], or leave it unset", supported.join(", "))
    }
}

impl std::error::Error for SimdError {}
