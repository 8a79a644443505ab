use super::*;
use crate::types::RelayTrace;
use mnemolith_temporal::Timestamp;

/// One of each; the compiler asks for a new variant here through `code`.
fn one_of_each() -> Vec<Error> {
    let text = || "it".to_owned();
    let path = || PathBuf::from("/data/main");
    vec![
        Error::MissingContent,
        Error::BlankText,
        Error::TextTooLong { len: 2, max: 1 },
        Error::NotFinite { index: 3, value: 1.0 },
        Error::ZeroVector,
        Error::WrongDimension { expected: 2, found: 1 },
        Error::NoEmbedder,
        Error::BlankId,
        Error::IdTooLong { len: 2, max: 1 },
        Error::IdConflict { id: text() },
        Error::TooManyTags { found: 2, max: 1 },
        Error::BlankTag { index: 0 },
        Error::TagTooLong { index: 0, len: 2, max: 1 },
        Error::MetadataTooLong { len: 2, max: 1 },
        Error::BlankField { field: text() },
        Error::FieldTooLong { field: text(), len: 2, max: 1 },
        Error::TooManyItems { field: "links", found: 2, max: 1 },
        Error::UnknownField { operation: text(), field: text() },
        Error::InvalidField { field: text(), message: text() },
        Error::InvalidName { namespace: text() },
        Error::UnknownTier { name: text() },
        Error::UnknownProfile { name: text() },
        Error::UnknownSource { name: text() },
        Error::OutOfRange { field: text(), value: 2.0, min: 0.0, max: 1.0 },
        Error::TimeOutOfRange { field: "at", value: Timestamp::MIN_FACT },
        Error::InvalidTime { field: text(), message: "a time".to_owned() },
        Error::NotFound { id: text() },
        Error::NoSuchNamespace { namespace: text() },
        Error::InvalidCursor,
        Error::AlreadyOpen { pid: Some(42), path: path() },
        Error::NoSpace { path: "wal/1".into(), during: text() },
        Error::Corrupt { path: path(), offset: 7, lsn: None, message: text() },
        Error::UnsupportedFormat { found: text(), supported: text() },
        Error::EmbedderMismatch { stored: text(), given: text() },
        Error::DimensionMismatch { stored: 2, given: 1 },
        Error::BadEmbedding { embedder: text(), message: text() },
        Error::Failed { cause: text() },
        Error::Closed,
        Error::Busy { what: text() },
        Error::Unavailable { service: text(), message: text() },
        Error::Storage { message: text() },
        Error::NoEntropy { message: text() },
        Error::Unsupported { what: text() },
        Error::Internal { place: text(), message: text() },
    ]
}

#[test]
fn codes_are_the_names_of_the_variants_and_messages_are_distinct() {
    let errors = one_of_each();
    let messages: std::collections::HashSet<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(messages.len(), errors.len());
    for error in &errors {
        let debug = format!("{error:?}");
        assert_eq!(debug.split([' ', '{']).next(), Some(error.code()));
    }
}

#[test]
fn breakers_never_count_the_callers_mistakes_and_only_passing_trouble_is_retried() {
    for error in one_of_each() {
        let trips = matches!(error.fault_kind(), FaultKind::Transient | FaultKind::Downstream);
        if error.kind() == ErrorKind::InvalidInput {
            assert!(!trips && !error.is_retryable(), "{error:?}");
            assert_eq!(error.fault_kind(), FaultKind::Validation);
        }
        let retryable = matches!(error.code(), "Busy" | "NoSpace" | "AlreadyOpen" | "Unavailable");
        assert_eq!(error.is_retryable(), retryable, "{error:?}");
    }
}

#[test]
fn a_holder_is_named() {
    let held = |pid| Error::AlreadyOpen { pid, path: PathBuf::from("/data/main") }.to_string();
    assert!(held(Some(42)).starts_with("/data/main is held by process 42;"));
    assert!(held(None).contains("process (unknown)"));
}

#[test]
fn a_failed_remember_keeps_its_trace_until_it_becomes_an_error() {
    let trace = vec![RelayTrace {
        relay: crate::types::Relay::DedupGuard,
        status: crate::types::RelayStatus::Failed,
        elapsed: std::time::Duration::ZERO,
        detail: String::new(),
    }];
    let failed = RememberError::new(Error::Closed, trace.clone());
    assert_eq!(failed.trace(), trace);
    assert_eq!(failed.to_string(), Error::Closed.to_string());
    assert_eq!((failed.code(), failed.kind()), ("Closed", ErrorKind::Failed));
    assert_eq!(Error::from(failed), Error::Closed);
    assert!(RememberError::from(Error::BlankText).trace().is_empty());
}
