//! What the administrative calls return.
//!
//! Purpose: plain data. Invariant: figures are as of one moment and name their unit.

use std::collections::BTreeMap;
use std::time::Duration;

/// What a checkpoint did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CheckpointReport {
    /// Everything up to this log sequence number is in the slabs.
    pub checkpoint_lsn: u64,
    /// Mutable pages written.
    pub pages: u64,
    /// Log segments removed.
    pub segments_removed: u64,
    /// Purged rows whose bytes were destroyed.
    pub rows_destroyed: u64,
    /// Time it took, by the store's monotonic clock.
    pub elapsed: Duration,
}

/// What a verification found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Live memories.
    pub memories: u64,
    /// Rows checked, with their vectors and payloads; forgotten ones included.
    pub rows: u64,
    /// Pages of mutable state checked.
    pub pages: u64,
    /// Index files checked.
    pub index_files: u64,
    /// Log records checked.
    pub log_records: u64,
    /// What is damaged, a line each; empty where all is well.
    pub problems: Vec<String>,
}

impl VerifyReport {
    /// Whether nothing was found.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }
}

/// Figures of one namespace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Stats {
    /// The namespace.
    pub namespace: String,
    /// Memories that can be recalled.
    pub live: u64,
    /// Memories ever stored, but for those whose purged bytes are destroyed; an updated memory is one.
    pub stored: u64,
    /// Memories forgotten of them.
    pub forgotten: u64,
    /// Live memories by tier name.
    pub per_tier: BTreeMap<&'static str, u64>,
    /// Distinct tags.
    pub tags: u64,
    /// Sessions.
    pub sessions: u64,
    /// Memories set aside because their bytes are damaged.
    pub quarantined: u64,
    /// Slabs.
    pub slabs: u64,
    /// Bytes of the namespace's directory.
    pub disk_bytes: u64,
    /// Bytes of texts, tags and metadata.
    pub payload_bytes: u64,
    /// The last log sequence number given out.
    pub lsn: u64,
    /// The last that is known to survive power loss.
    pub durable_lsn: u64,
    /// The last that is in the slabs.
    pub checkpoint_lsn: u64,
    /// How the journal writes, and why so.
    pub journal: String,
    /// The vector kernel in use.
    pub kernel: &'static str,
    /// The dimension of the vectors; 0 while none is fixed.
    pub dimension: usize,
    /// The identity of the embedder; `none` where there is none.
    pub embedder: String,
}
