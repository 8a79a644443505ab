//! Time for Mnemolith: instants and, above them, bitemporal facts.
//!
//! This crate is pure: it reads no clock and touches no file. Every instant that the public
//! interface takes or returns is a [`Timestamp`], so that seconds and milliseconds, or local
//! and universal time, cannot be mixed up.
#![forbid(unsafe_code)]

mod timestamp;

pub use timestamp::{TimeError, Timestamp};
