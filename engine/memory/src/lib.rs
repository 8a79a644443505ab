//! Mnemolith: an embedded memory engine for AI agents.
//!
//! This crate is the whole public interface. Requests are built with `new` for what is required
//! and chained setters for the rest; results are plain data; every failure is one variant of
//! [`Error`].
#![forbid(unsafe_code)]

mod clock;
mod content;
mod embed;
mod error;
mod facade;
mod pathway;
mod surprise;
mod tags;
mod text;
mod types;
mod validate;
mod vector;

/// The seam below the engine, for embedders that bring their own place for the bytes or test against faults.
pub use mnemolith_backends as backend;

pub use clock::{Clock, Entropy, ManualClock, SeededEntropy, SystemClock, SystemEntropy};
pub use embed::{Embedder, HashingEmbedder};
pub use error::{Error, ErrorKind, FaultKind, RememberError, Result};
pub use facade::{Builder, Memory, PendingRemember, simd_kernel};
pub use mnemolith_temporal::{TimeError, Timestamp};
pub use types::{
    Breakdown, CheckpointReport, Durability, Enrichment, Hit, Limits, ListQuery, Location, MemoryRecord, Metadata, Page, Plan, Profile,
    Recall, RecallQuery, Reinforce, Reinforced, Relay, RelayStatus, RelayTrace, RememberRequest, RememberResult, Soul, Source,
    StatedRelation, Stats, Status, Tier, Update, VerifyReport, Weights, WhyNot,
};

/// The README's examples compile.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
