//! From the kernel's words to the facade's: errors, durability, records.

use std::path::PathBuf;

use mnemolith_backends::{StorageError, StorageErrorKind};
use mnemolith_kernel::format::{Payload, flags};
use mnemolith_kernel::{KernelError, Reader, Row};

use crate::Timestamp;
use crate::error::{Error, Result};
use crate::types::{Durability, Location, MemoryRecord, Metadata, Source, Tier};

/// A kernel error as the caller sees it.
pub(crate) fn error(error: KernelError) -> Error {
    match error {
        KernelError::Storage(error) => storage(&error),
        KernelError::Corrupt { file, offset, lsn, what } => Error::Corrupt { path: PathBuf::from(file), offset, lsn, message: what },
        KernelError::UnsupportedFormat { file, found, supported } => {
            Error::UnsupportedFormat { found: format!("version {found} ({file})"), supported: format!("versions up to {supported}") }
        }
        KernelError::DimensionMismatch { stored, given } => Error::DimensionMismatch { stored: stored as usize, given: given as usize },
        KernelError::EmbedderMismatch { stored, given } => Error::EmbedderMismatch { stored: embedder(&stored), given: embedder(&given) },
        KernelError::Failed { reason } => Error::Failed { cause: reason.to_string() },
        KernelError::Kernels(message) => Error::InvalidField { field: "MNEMOLITH_SIMD".to_owned(), message: message.to_string() },
        other => Error::Internal { place: "kernel".to_owned(), message: other.to_string() },
    }
}

/// An embedder's identity as the caller sees it.
pub(crate) fn embedder(identity: &str) -> String {
    if identity.is_empty() { "none".to_owned() } else { identity.to_owned() }
}

/// A storage error as the caller sees it.
pub(crate) fn storage_error(error: StorageError) -> Error {
    storage(&error)
}

fn storage(error: &StorageError) -> Error {
    match error.kind {
        StorageErrorKind::AlreadyOpen { pid } => Error::AlreadyOpen { pid, path: error.path.clone() },
        StorageErrorKind::NoSpace => Error::NoSpace { path: error.path.clone(), during: error.operation.to_owned() },
        StorageErrorKind::Damaged => Error::Corrupt { path: error.path.clone(), offset: 0, lsn: None, message: error.source.to_string() },
        _ => Error::Storage { message: error.to_string() },
    }
}

pub(crate) fn durability(durability: Durability) -> mnemolith_kernel::Durability {
    match durability {
        Durability::Sync => mnemolith_kernel::Durability::Sync,
        Durability::Group { max_delay } => mnemolith_kernel::Durability::Group { max_delay },
        Durability::Buffered => mnemolith_kernel::Durability::Buffered,
    }
}

/// Where a row lies.
pub(crate) fn location(partition: u32, slot: u32, lsn: u64) -> Location {
    Location { partition, slot, lsn }
}

pub(crate) fn tier(row: &Row) -> Tier {
    Tier::from_code(row.header.tier()).unwrap_or_default()
}

pub(crate) fn tags(payload: &Payload) -> Vec<String> {
    payload.tags.iter().map(|tag| tag.display.clone()).collect()
}

/// Metadata as it was given. What is stored was checked when it was written and again by its checksum.
pub(crate) fn metadata(payload: &Payload) -> Metadata {
    serde_json::from_slice(&payload.metadata).unwrap_or_default()
}

/// The id of the memory before this one in its session, damaged ones passed over.
fn predecessor(reader: &Reader, row: &Row) -> Result<Option<String>, KernelError> {
    let mut row = *row;
    while let Some(slot) = reader.predecessor(&row) {
        row = match reader.row(slot) {
            Ok(row) => row,
            Err(KernelError::Corrupt { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        match reader.payload(&row) {
            Ok(payload) => return Ok(Some(payload.id)),
            Err(KernelError::Corrupt { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Everything there is to know of a row, every checksum checked: a memory whose vector is damaged is damaged.
pub(crate) fn record(reader: &Reader, row: &Row) -> Result<MemoryRecord, KernelError> {
    reader.vector(row)?;
    let payload = reader.payload(row)?;
    let (partition, slot) = reader.location(row.slot).unwrap_or_default();
    let predecessor = predecessor(reader, row)?;
    let header = &row.header;
    Ok(MemoryRecord {
        tags: tags(&payload),
        metadata: metadata(&payload),
        id: payload.id,
        text: payload.text,
        tier: tier(row),
        session: payload.session,
        at: Timestamp::from_millis(header.event_time_ms),
        valence: header.valence,
        current_valence: row.state.valence,
        arousal: header.arousal,
        importance: header.importance,
        surprise_z: header.surprise_z,
        flashbulb: header.has(flags::FLASHBULB),
        pinned: header.has(flags::PINNED),
        strength: row.state.strength,
        recall_count: row.state.recall_count,
        last_recall: (row.state.recall_count > 0).then(|| Timestamp::from_millis(row.state.last_recall_ms)),
        last_seen: Timestamp::from_millis(row.state.last_seen_ms),
        location: location(partition, slot, row.key.lsn),
        predecessor,
        has_vector: header.has(flags::HAS_VECTOR),
        source: Source::from_code(header.source).unwrap_or_default(),
        soul_version: header.soul_version,
    })
}
