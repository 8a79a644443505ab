//! The nouns of the public interface: what goes in and what comes out.
//!
//! Purpose: plain data, without behaviour that touches a store.
//!
//! Invariants:
//! * what goes in is built with `new` for what is required and chained setters for the rest,
//!   and is checked by the call that takes it, not by its setters;
//! * what comes out has public fields and is `#[non_exhaustive]`, so that it can grow.

mod query;
mod remember;
mod report;
mod vocabulary;

pub use query::{Breakdown, Hit, ListQuery, MemoryRecord, Page, Plan, Recall, RecallQuery, WhyNot};
pub use remember::{
    Enrichment, Location, Reinforce, Reinforced, RelayTrace, RememberRequest, RememberResult, Soul, StatedRelation, Status, Update,
};
pub use report::{CheckpointReport, Stats, VerifyReport};
pub use vocabulary::{Durability, Limits, Profile, Relay, RelayStatus, Source, Tier, Weights};

/// A JSON object: what metadata is made of.
pub type Metadata = serde_json::Map<String, serde_json::Value>;
