//! Mnemolith: an embedded memory engine for AI agents.
//!
//! This crate is the whole public interface. Requests are built with `new` for what is required
//! and chained setters for the rest; results are plain data; every failure is one variant of
//! [`Error`].
#![forbid(unsafe_code)]

mod clock;
#[allow(dead_code)] // Until the store that calls it is built.
mod content;
mod embed;
mod error;
#[allow(dead_code)] // Until the store that calls it is built.
mod pathway;
#[allow(dead_code)] // Until the store that calls it is built.
mod surprise;
#[allow(dead_code)] // Until the store that calls it is built.
mod tags;
mod text;
mod types;
#[allow(dead_code)] // Until the store that calls it is built.
mod validate;
#[allow(dead_code)] // Until the store that calls it is built.
mod vector;

pub use clock::{Clock, Entropy, ManualClock, SeededEntropy, SystemClock, SystemEntropy};
pub use embed::{Embedder, HashingEmbedder};
pub use error::{Error, ErrorKind, FaultKind, RememberError, Result};
pub use mnemolith_temporal::{TimeError, Timestamp};
pub use types::{
    Breakdown, CheckpointReport, Durability, Enrichment, Hit, Limits, ListQuery, Location,
    MemoryRecord, Metadata, Page, Plan, Profile, Recall, RecallQuery, Reinforce, Reinforced, Relay,
    RelayStatus, RelayTrace, RememberRequest, RememberResult, Soul, Source, StatedRelation, Stats,
    Status, Tier, Update, VerifyReport, Weights, WhyNot,
};
