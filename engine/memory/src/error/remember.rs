//! The error of `remember`, which carries the trace of its relays.
//!
//! Purpose: a failure says how far the pathway came.
//!
//! Invariants: the pair is boxed, so that a `Result` with it stays small.

use super::{Error, ErrorKind, FaultKind};
use crate::types::RelayTrace;

/// A failed `remember`: the error, and every relay in order with how far it came.
///
/// `?` turns it into an [`Error`] where the trace is of no interest.
#[derive(Debug, Clone, PartialEq)]
pub struct RememberError {
    inner: Box<(Error, Vec<RelayTrace>)>,
}

impl RememberError {
    /// An error with its trace.
    #[must_use]
    pub fn new(error: Error, trace: Vec<RelayTrace>) -> Self {
        Self { inner: Box::new((error, trace)) }
    }

    /// What went wrong.
    #[must_use]
    pub fn error(&self) -> &Error {
        &self.inner.0
    }

    /// Every relay in order. Empty if the request was refused before the first relay.
    #[must_use]
    pub fn trace(&self) -> &[RelayTrace] {
        &self.inner.1
    }

    /// The error without its trace.
    #[must_use]
    pub fn into_error(self) -> Error {
        self.inner.0
    }

    /// See [`Error::code`].
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.error().code()
    }

    /// See [`Error::kind`].
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.error().kind()
    }

    /// See [`Error::fault_kind`].
    #[must_use]
    pub fn fault_kind(&self) -> FaultKind {
        self.error().fault_kind()
    }

    /// See [`Error::is_retryable`].
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.error().is_retryable()
    }
}

impl std::fmt::Display for RememberError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.error().fmt(f)
    }
}

impl std::error::Error for RememberError {}

impl From<Error> for RememberError {
    fn from(error: Error) -> Self {
        Self::new(error, Vec::new())
    }
}

impl From<RememberError> for Error {
    fn from(error: RememberError) -> Self {
        error.into_error()
    }
}
