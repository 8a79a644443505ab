//! Three classifications of an error: coarse, by fault, and by whether to retry.
//!
//! Purpose: programs, breakers and retry loops need not know the variants.
//!
//! Invariants: each is a function of the variant alone, and every variant is listed: a new one
//! does not compile until it is classified.

use super::Error;

/// Coarse classes of failure, for programs that act on the class alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The arguments are not acceptable; nothing was touched.
    InvalidInput,
    /// What was named does not exist.
    NotFound,
    /// The arguments contradict what the store holds.
    Conflict,
    /// What was to be created exists already.
    Duplicate,
    /// Another process holds the store.
    AlreadyOpen,
    /// The disk is full; writes resume once there is room.
    NoSpace,
    /// Stored bytes are damaged.
    Corrupt,
    /// The files are of a format this build does not read.
    UnsupportedFormat,
    /// The store has stopped accepting writes; reopen it.
    Failed,
    /// A limit on concurrent work is reached.
    Busy,
    /// Something outside the store did not answer.
    Unavailable,
}

impl ErrorKind {
    /// The name of the kind, as the exec protocol prints it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidInput => "InvalidInput",
            Self::NotFound => "NotFound",
            Self::Conflict => "Conflict",
            Self::Duplicate => "Duplicate",
            Self::AlreadyOpen => "AlreadyOpen",
            Self::NoSpace => "NoSpace",
            Self::Corrupt => "Corrupt",
            Self::UnsupportedFormat => "UnsupportedFormat",
            Self::Failed => "Failed",
            Self::Busy => "Busy",
            Self::Unavailable => "Unavailable",
        }
    }
}

impl std::fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Who is at fault, as the relays of the pathway see it. Circuit breakers count
/// [`FaultKind::Transient`] and [`FaultKind::Downstream`] only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// The input breaks a documented bound.
    Validation,
    /// The input is well formed and contradicts the state of the store.
    Contract,
    /// It may pass by itself.
    Transient,
    /// A service outside the store failed.
    Downstream,
    /// The storage below failed.
    Storage,
    /// A defect in the engine.
    Internal,
}

impl Error {
    /// The name of the variant, stable across versions.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::MissingContent => "MissingContent",
            Self::BlankText => "BlankText",
            Self::TextTooLong { .. } => "TextTooLong",
            Self::NotFinite { .. } => "NotFinite",
            Self::ZeroVector => "ZeroVector",
            Self::WrongDimension { .. } => "WrongDimension",
            Self::NoEmbedder => "NoEmbedder",
            Self::BlankId => "BlankId",
            Self::IdTooLong { .. } => "IdTooLong",
            Self::IdConflict { .. } => "IdConflict",
            Self::TooManyTags { .. } => "TooManyTags",
            Self::BlankTag { .. } => "BlankTag",
            Self::TagTooLong { .. } => "TagTooLong",
            Self::MetadataTooLong { .. } => "MetadataTooLong",
            Self::BlankField { .. } => "BlankField",
            Self::FieldTooLong { .. } => "FieldTooLong",
            Self::TooManyItems { .. } => "TooManyItems",
            Self::UnknownField { .. } => "UnknownField",
            Self::InvalidField { .. } => "InvalidField",
            Self::InvalidName { .. } => "InvalidName",
            Self::UnknownTier { .. } => "UnknownTier",
            Self::UnknownProfile { .. } => "UnknownProfile",
            Self::UnknownSource { .. } => "UnknownSource",
            Self::OutOfRange { .. } => "OutOfRange",
            Self::TimeOutOfRange { .. } => "TimeOutOfRange",
            Self::InvalidTime { .. } => "InvalidTime",
            Self::NotFound { .. } => "NotFound",
            Self::NoSuchNamespace { .. } => "NoSuchNamespace",
            Self::InvalidCursor => "InvalidCursor",
            Self::AlreadyOpen { .. } => "AlreadyOpen",
            Self::NoSpace { .. } => "NoSpace",
            Self::Corrupt { .. } => "Corrupt",
            Self::UnsupportedFormat { .. } => "UnsupportedFormat",
            Self::EmbedderMismatch { .. } => "EmbedderMismatch",
            Self::DimensionMismatch { .. } => "DimensionMismatch",
            Self::BadEmbedding { .. } => "BadEmbedding",
            Self::Failed { .. } => "Failed",
            Self::Closed => "Closed",
            Self::Busy { .. } => "Busy",
            Self::Unavailable { .. } => "Unavailable",
            Self::Storage { .. } => "Storage",
            Self::NoEntropy { .. } => "NoEntropy",
            Self::Unsupported { .. } => "Unsupported",
            Self::Internal { .. } => "Internal",
        }
    }

    /// The coarse class. A storage error or a defect counts as [`ErrorKind::Failed`]: the call
    /// failed through no fault of its arguments, and reopening is the way on.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::MissingContent
            | Self::BlankText
            | Self::TextTooLong { .. }
            | Self::NotFinite { .. }
            | Self::ZeroVector
            | Self::WrongDimension { .. }
            | Self::NoEmbedder
            | Self::BlankId
            | Self::IdTooLong { .. }
            | Self::TooManyTags { .. }
            | Self::BlankTag { .. }
            | Self::TagTooLong { .. }
            | Self::MetadataTooLong { .. }
            | Self::BlankField { .. }
            | Self::FieldTooLong { .. }
            | Self::TooManyItems { .. }
            | Self::UnknownField { .. }
            | Self::InvalidField { .. }
            | Self::InvalidName { .. }
            | Self::UnknownTier { .. }
            | Self::UnknownProfile { .. }
            | Self::UnknownSource { .. }
            | Self::OutOfRange { .. }
            | Self::TimeOutOfRange { .. }
            | Self::InvalidTime { .. }
            | Self::InvalidCursor
            | Self::Unsupported { .. } => ErrorKind::InvalidInput,
            Self::NotFound { .. } | Self::NoSuchNamespace { .. } => ErrorKind::NotFound,
            Self::IdConflict { .. } | Self::EmbedderMismatch { .. } | Self::DimensionMismatch { .. } => ErrorKind::Conflict,
            Self::AlreadyOpen { .. } => ErrorKind::AlreadyOpen,
            Self::NoSpace { .. } => ErrorKind::NoSpace,
            Self::Corrupt { .. } => ErrorKind::Corrupt,
            Self::UnsupportedFormat { .. } => ErrorKind::UnsupportedFormat,
            Self::Failed { .. } | Self::Closed | Self::Storage { .. } | Self::NoEntropy { .. } | Self::Internal { .. } => ErrorKind::Failed,
            Self::Busy { .. } => ErrorKind::Busy,
            Self::Unavailable { .. } | Self::BadEmbedding { .. } => ErrorKind::Unavailable,
        }
    }

    /// Who is at fault, as the pathway and its circuit breakers see it.
    #[must_use]
    pub const fn fault_kind(&self) -> FaultKind {
        match self.kind() {
            ErrorKind::InvalidInput => FaultKind::Validation,
            ErrorKind::NotFound | ErrorKind::Conflict | ErrorKind::Duplicate => FaultKind::Contract,
            ErrorKind::Busy | ErrorKind::AlreadyOpen => FaultKind::Transient,
            ErrorKind::Unavailable => FaultKind::Downstream,
            ErrorKind::NoSpace | ErrorKind::Corrupt | ErrorKind::UnsupportedFormat => FaultKind::Storage,
            ErrorKind::Failed => match self {
                Self::Closed => FaultKind::Contract,
                Self::Internal { .. } => FaultKind::Internal,
                _ => FaultKind::Storage,
            },
        }
    }

    /// Whether the same call, unchanged and without reopening, may succeed later.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(self.kind(), ErrorKind::Busy | ErrorKind::NoSpace | ErrorKind::AlreadyOpen | ErrorKind::Unavailable)
            && !matches!(self, Self::BadEmbedding { .. })
    }
}
