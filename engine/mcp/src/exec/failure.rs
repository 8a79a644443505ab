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
        Self { kind: ErrorKind::InvalidInput, code, message: bounded(message.into()), trace: Vec::new() }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { kind: error.kind(), code: error.code(), message: bounded(error.to_string()), trace: Vec::new() }
    }
}

impl From<RememberError> for Failure {
    fn from(error: RememberError) -> Self {
        Self { trace: error.trace().to_vec(), ..Self::from(error.into_error()) }
    }
}

/// What is kept of both ends of a message that quotes too much.
const KEPT_BYTES: usize = 600;

/// A message names what it is about, and that may be a megabyte somebody sent: its middle is left out, its advice is not.
fn bounded(message: String) -> String {
    let boundary = |at: &usize| message.is_char_boundary(*at);
    let tail_at = (message.len().saturating_sub(KEPT_BYTES)..=message.len()).find(boundary).unwrap_or(message.len());
    let head_to = (0..=KEPT_BYTES).rev().find(boundary).unwrap_or(0);
    let left_out = tail_at.saturating_sub(head_to);
    match (message.get(..head_to), message.get(tail_at..)) {
        (Some(head), Some(tail)) if left_out > KEPT_BYTES => format!("{head}... ({left_out} bytes left out) ...{tail}"),
        _ => message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_keeps_both_ends_and_loses_the_middle_only_where_that_is_long() {
        for short in [String::new(), "short".to_owned(), "x".repeat(3 * KEPT_BYTES)] {
            assert_eq!(bounded(short.clone()), short);
        }
        for filler in ["x", "\u{e9}", "\u{1F600}"] {
            let message = bounded(format!("unknown op {}: the ops are", filler.repeat(1 << 20)));
            assert!(message.starts_with("unknown op ") && message.ends_with(": the ops are"), "{message}");
            assert!(message.contains("bytes left out") && message.len() < 3 * KEPT_BYTES, "{}", message.len());
        }
    }
}
