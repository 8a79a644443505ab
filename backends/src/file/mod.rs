//! Namespaces as directories of a local file system.
//!
//! # Promises and what they rest on
//! * One holder at a time: `LOCK` is locked (flock, exclusive) before anything else is touched and until the last thing
//!   reached through the namespace is gone: the directory, its logs, **its regions**. The system lets go of it when the
//!   process dies. Programs that ignore the lock can do what they like to the files; in particular, cutting a mapped file short
//!   kills the process that maps it.
//! * Whatever changes an entry of a directory syncs that directory before it reports success, except where
//!   [`Directory::sync_folder`](crate::Directory::sync_folder) is documented to be the caller's business.
//! * A file that could not be completed is removed. After a crash an unfinished file may be left under its name, and an
//!   unfinished replacement under a name that starts with a dot, which is never listed and goes at the next open.
//! * A removed namespace disappears by a single rename; what a crash leaves of it goes at the next open of any namespace.
//! * Only `LOCK` and open logs hold a descriptor.

#![allow(clippy::disallowed_methods, reason = "this module is the one home of std::fs")]

mod directory;
#[cfg(test)]
mod durability_tests;
mod lock;
mod log;
mod mapped;
mod os;
mod root;

pub use root::FileBackend;
