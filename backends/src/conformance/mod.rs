//! What every backend must do, as checks that a backend's own tests run.
//!
//! ```
//! use std::sync::Arc;
//! use mnemolith_backends::{Backend, MemoryBackend, conformance};
//!
//! conformance::run(&|| Arc::new(MemoryBackend::new()) as Arc<dyn Backend>);
//! ```
//!
//! A check fails by panicking. What needs another process, a full disk or a power cut is each backend's own to test.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "checks fail by panicking, as tests do"
)]

mod files;
mod logs;
mod namespaces;
mod regions;
mod sharing;

use std::fmt::Debug;
use std::sync::Arc;

use crate::{Backend, Directory, Result, StorageErrorKind};

/// One promise, and how to see whether a backend keeps it.
#[derive(Debug, Clone, Copy)]
pub struct Check {
    /// What is promised.
    pub name: &'static str,
    /// Panics where the backend, which has no namespaces yet, does not keep it.
    pub run: fn(&dyn Backend),
}

/// Makes checks of functions, each named as its function.
macro_rules! list_checks {
    ($($name:ident),+ $(,)?) => {
        pub(super) const CHECKS: &[super::Check] = &[$(super::Check { name: stringify!($name), run: $name }),+];
    };
}
use list_checks;

/// Every check.
pub fn checks() -> impl Iterator<Item = Check> {
    [namespaces::CHECKS, files::CHECKS, logs::CHECKS, regions::CHECKS, sharing::CHECKS].into_iter().flatten().copied()
}

/// Runs every check, each on a backend of its own: `make` returns one without any namespaces.
///
/// # Panics
/// At the first check that fails.
pub fn run(make: &dyn Fn() -> Arc<dyn Backend>) {
    for check in checks() {
        let backend = make();
        assert_eq!(backend.namespaces().unwrap(), Vec::<String>::new(), "{} needs an empty root", check.name);
        // A panic names the check by the function it comes from.
        (check.run)(&*backend);
    }
}

/// The one namespace that most checks work in.
fn open(backend: &dyn Backend) -> Arc<dyn Directory> {
    backend.open("space").unwrap()
}

/// The kind of an error that must be there.
#[track_caller]
fn kind<T: Debug>(result: Result<T>) -> StorageErrorKind {
    result.expect_err("an error").kind
}

/// Bytes that differ from place to place.
fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8 ^ (at / 251) as u8 ^ seed).collect()
}
