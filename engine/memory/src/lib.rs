//! Mnemolith: an embedded memory engine for AI agents.
//!
//! This crate is the whole public interface. Requests are built with `new` for what is required
//! and chained setters for the rest; results are plain data; every failure is one variant of
//! [`Error`].
#![forbid(unsafe_code)]

mod error;
mod types;

pub use error::{Error, ErrorKind, FaultKind, RememberError, Result};
pub use mnemolith_temporal::{TimeError, Timestamp};
pub use types::{
    Breakdown, CheckpointReport, Durability, Enrichment, Hit, Limits, ListQuery, Location,
    MemoryRecord, Metadata, Page, Plan, Profile, Recall, RecallQuery, Reinforce, Reinforced, Relay,
    RelayStatus, RelayTrace, RememberRequest, RememberResult, Soul, Source, StatedRelation, Stats,
    Status, Tier, Update, VerifyReport, Weights, WhyNot,
};
