//! What can go wrong, one variant per distinct failure.
//!
//! Purpose: a caller, a program or a model can tell from the value alone what to change, and
//! whether to retry, reopen or give up.
//!
//! Invariants:
//! * every message names the field (with its index where it is a list), what was found and what
//!   is allowed;
//! * [`Error`] is `Clone`, because one failed sync answers every caller that waited for it;
//! * the three classifications ([`Error::kind`], [`Error::fault_kind`],
//!   [`Error::is_retryable`]) are functions of the variant alone.

mod classify;
mod remember;

use std::path::PathBuf;

pub use classify::{ErrorKind, FaultKind};
pub use remember::RememberError;

/// The result of every fallible call but those that also report a relay trace.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong.
///
/// Bounds are counted in bytes of UTF-8 unless the field says otherwise.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    // ---- content -------------------------------------------------------------------------
    /// Neither a text nor a vector was given.
    #[error("neither text nor vector was given; give at least one of them")]
    MissingContent,
    /// The text is empty or white space only.
    #[error("the text is blank; give some text, or leave it out and give a vector")]
    BlankText,
    /// The text is too long.
    #[error("the text has {len} bytes and at most {max} are allowed; split it into several memories")]
    TextTooLong {
        /// Bytes found.
        len: usize,
        /// Bytes allowed.
        max: usize,
    },
    /// A component of the vector is NaN or infinite.
    #[error("vector[{index}] is {value}; every component must be a finite number")]
    NotFinite {
        /// Position in the vector, from 0.
        index: usize,
        /// The component found.
        value: f32,
    },
    /// Every component of the vector is zero, or so small that its norm is.
    #[error("the vector has norm zero and so no direction; give a vector with a non-zero component")]
    ZeroVector,
    /// The vector is not of the namespace's dimension.
    #[error("the vector has dimension {found} and this namespace takes dimension {expected}")]
    WrongDimension {
        /// The dimension of the namespace.
        expected: usize,
        /// The dimension found.
        found: usize,
    },
    /// A text query needs nothing from the store that it does not have, but this call does: no
    /// embedder is configured and no vector was given.
    #[error("this call needs a vector, and the store has no embedder; give a vector or open with an embedder")]
    NoEmbedder,

    // ---- names and lists -----------------------------------------------------------------
    /// The id is empty.
    #[error("the id is empty; give a non-empty id, or leave it out and one is chosen")]
    BlankId,
    /// The id is too long.
    #[error("the id has {len} bytes and at most {max} are allowed")]
    IdTooLong {
        /// Bytes found.
        len: usize,
        /// Bytes allowed.
        max: usize,
    },
    /// The id names a memory with other content.
    #[error("id {id:?} already names a memory with other content; choose another id, or update that memory")]
    IdConflict {
        /// The id.
        id: String,
    },
    /// Too many tags.
    #[error("{found} tags were given and at most {max} are allowed")]
    TooManyTags {
        /// Tags found.
        found: usize,
        /// Tags allowed.
        max: usize,
    },
    /// A tag is empty or white space only.
    #[error("tags[{index}] is blank; remove it")]
    BlankTag {
        /// Position in the list, from 0.
        index: usize,
    },
    /// A tag is too long, as given or in its normal form.
    #[error("tags[{index}] has {len} bytes and at most {max} are allowed")]
    TagTooLong {
        /// Position in the list, from 0.
        index: usize,
        /// Bytes found.
        len: usize,
        /// Bytes allowed.
        max: usize,
    },
    /// The metadata is too long.
    #[error("the metadata has {len} bytes as JSON and at most {max} are allowed")]
    MetadataTooLong {
        /// Bytes found.
        len: usize,
        /// Bytes allowed.
        max: usize,
    },
    /// A name other than an id or a tag is empty or white space only.
    #[error("{field} is blank; give it a value or leave it out")]
    BlankField {
        /// Which field, with its index where it is a list: `session`, `relations[2].subject`.
        field: String,
    },
    /// A name other than an id or a tag is too long.
    #[error("{field} has {len} bytes and at most {max} are allowed")]
    FieldTooLong {
        /// Which field, with its index where it is a list.
        field: String,
        /// Bytes found.
        len: usize,
        /// Bytes allowed.
        max: usize,
    },
    /// A list other than the tags is too long.
    #[error("{field} has {found} items and at most {max} are allowed")]
    TooManyItems {
        /// Which list.
        field: &'static str,
        /// Items found.
        found: usize,
        /// Items allowed.
        max: usize,
    },
    /// A field this operation does not have.
    #[error("unknown field {field:?}; the operation {operation} does not have it")]
    UnknownField {
        /// The operation.
        operation: String,
        /// The field found.
        field: String,
    },
    /// A field is of the wrong type, or missing.
    #[error("{field}: {message}")]
    InvalidField {
        /// Which field.
        field: String,
        /// What is wrong and what to write instead.
        message: String,
    },
    /// The namespace's name is not acceptable.
    #[error("{namespace:?} is not a namespace; use 1 to 63 characters of a-z, 0-9, - and _")]
    InvalidName {
        /// The name found.
        namespace: String,
    },
    /// The tier's name is unknown.
    #[error("{name:?} is not a tier; use working, episodic, semantic or procedural")]
    UnknownTier {
        /// The name found.
        name: String,
    },
    /// The profile's name is unknown.
    #[error("{name:?} is not a profile; use balanced, exploring, critical, recalling, debugging or similarity")]
    UnknownProfile {
        /// The name found.
        name: String,
    },
    /// The source's name is unknown.
    #[error("{name:?} is not a source; use unspecified, user, agent, tool, document, inferred or imported")]
    UnknownSource {
        /// The name found.
        name: String,
    },

    // ---- numbers and times ---------------------------------------------------------------
    /// A number is outside its range, or is NaN.
    #[error("{field} is {value}; it must be {min} to {max}")]
    OutOfRange {
        /// Which field, with its key where it is a map.
        field: String,
        /// The number found.
        value: f64,
        /// The least number allowed.
        min: f64,
        /// The greatest number allowed.
        max: f64,
    },
    /// An instant is outside the years a memory may carry.
    #[error("{field} is {value}; a memory's time must be in the years 0001 to 9999")]
    TimeOutOfRange {
        /// Which field.
        field: &'static str,
        /// The instant found.
        value: mnemolith_temporal::Timestamp,
    },
    /// A text is not an instant.
    #[error("{field}: {message}")]
    InvalidTime {
        /// Which field.
        field: String,
        /// What is wrong and what to write instead.
        message: String,
    },

    // ---- the store -----------------------------------------------------------------------
    /// No such memory, or it was forgotten.
    #[error("no memory has the id {id:?}; it was never stored or was forgotten")]
    NotFound {
        /// The id.
        id: String,
    },
    /// No such namespace.
    #[error("there is no namespace {namespace:?}; remembering something in it creates it")]
    NoSuchNamespace {
        /// The name.
        namespace: String,
    },
    /// The cursor was not made by this query on this store.
    #[error("the cursor is not one that this listing returned; start again without a cursor")]
    InvalidCursor,
    /// Another process holds the store.
    #[error(
        "{} is held by process {}; close it there first",
        path.display(),
        pid.map_or_else(|| "(unknown)".to_owned(), |pid| pid.to_string())
    )]
    AlreadyOpen {
        /// The holder, where the lock file names it.
        pid: Option<u32>,
        /// The namespace's directory.
        path: PathBuf,
    },
    /// The disk is full.
    #[error("no space left to {during} {}; make room and repeat the call, without reopening", path.display())]
    NoSpace {
        /// The file.
        path: PathBuf,
        /// What was being done, as a verb.
        during: String,
    },
    /// Stored bytes are damaged.
    #[error("{} is damaged at byte {offset}: {message}; restore the namespace from a copy", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// The log sequence number concerned, where one is known.
        lsn: Option<u64>,
        /// What was found and what was expected.
        message: String,
    },
    /// A format this build does not read.
    #[error("the store has format {found} and this build reads {supported}; use the build that wrote it, or export and import")]
    UnsupportedFormat {
        /// The format found.
        found: String,
        /// The formats read.
        supported: String,
    },
    /// The store was made by another embedder.
    #[error("the store was made with embedder {stored:?} and {given:?} was given; open it with the former, or re-embed")]
    EmbedderMismatch {
        /// The identity in the store.
        stored: String,
        /// The identity given.
        given: String,
    },
    /// The store has another dimension.
    #[error("the store has dimension {stored} and {given} was given; open it with {stored}, or re-embed")]
    DimensionMismatch {
        /// The dimension of the store.
        stored: usize,
        /// The dimension given.
        given: usize,
    },
    /// The embedder returned something that is not an embedding of its own dimension.
    #[error("embedder {embedder:?} returned an unusable vector: {message}")]
    BadEmbedding {
        /// The embedder's identity.
        embedder: String,
        /// What is wrong with the vector.
        message: String,
    },
    /// The journal has failed and accepts no more writes.
    #[error("the store stopped accepting writes after a storage error: {cause}; what was acknowledged is safe, reopen to go on")]
    Failed {
        /// The first error.
        cause: String,
    },
    /// The store was closed, through this handle or another of the same store.
    #[error("the store is closed; open it again")]
    Closed,
    /// A limit on concurrent work is reached.
    #[error("too much is in progress: {what}; repeat the call a little later")]
    Busy {
        /// Which limit.
        what: String,
    },
    /// A service outside the store did not answer.
    #[error("{service} is unavailable: {message}")]
    Unavailable {
        /// Which service: an embedder, an extractor, a provider.
        service: String,
        /// What happened.
        message: String,
    },
    /// The storage below failed, without having latched.
    #[error("storage error: {message}")]
    Storage {
        /// What happened, with the file and the operation.
        message: String,
    },
    /// The randomness of the operating system failed.
    #[error("the system gave no randomness: {message}")]
    NoEntropy {
        /// What happened.
        message: String,
    },
    /// A feature that this build does not have.
    #[error("{what} is not in this build; leave it out")]
    Unsupported {
        /// Which feature.
        what: String,
    },
    /// A defect in the engine: please report it.
    #[error("internal error in {place}: {message}; this is a defect, please report it")]
    Internal {
        /// Where.
        place: String,
        /// What happened.
        message: String,
    },
}

impl Error {
    /// The error for a text that is not an instant, naming the field it stood in.
    #[must_use]
    pub fn invalid_time(field: impl Into<String>, error: &mnemolith_temporal::TimeError) -> Self {
        Self::InvalidTime { field: field.into(), message: error.to_string() }
    }
}

#[cfg(test)]
mod tests;
