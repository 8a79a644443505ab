//! Why a request was not carried out.

use mnemolith::{Error, ErrorKind, RelayTrace, RememberError};

/// The coarse kind, the distinct code and the words; and for `remember` how far it came.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Failure {
    pub(crate) kind: ErrorKind,
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) trace: Vec<RelayTrace>,
}

impl Failure {
    /// A request that is not acceptable as it stands.
    pub(crate) fn invalid(code: &'static str, message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::InvalidInput, code, message: message.into(), trace: Vec::new() }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { kind: error.kind(), code: error.code(), message: error.to_string(), trace: Vec::new() }
    }
}

impl From<RememberError> for Failure {
    fn from(error: RememberError) -> Self {
        Self { trace: error.trace().to_vec(), ..Self::from(error.into_error()) }
    }
}
