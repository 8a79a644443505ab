//! The seams: what a place for bytes must offer.
//!
//! A [`Backend`] is a root that holds namespaces; a [`Directory`] is one open, locked namespace; a [`LogFile`] is one
//! segment of the write-ahead log; a [`Region`] is a fixed-length run of append-only bytes that many
//! threads read in place. The kernel owns framing, group commit and recovery once, above these.
//!
//! Paths are relative to the namespace, `/`-separated, and made only of the kernel's own names: `slabs/00000003/headers.slab`.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::{Gate, Region, RegionWriter, StorageError};

/// What every operation of a backend returns.
pub type Result<T> = std::result::Result<T, StorageError>;

/// A root that holds namespaces, each an isolated directory.
pub trait Backend: Send + Sync + fmt::Debug {
    /// The names of the namespaces under the root, sorted; none where the root does not exist yet.
    fn namespaces(&self) -> Result<Vec<String>>;

    /// Opens a namespace, creating its directory where missing, and takes its exclusive lock before anything else is touched.
    ///
    /// # Errors
    /// [`StorageErrorKind::AlreadyOpen`](crate::StorageErrorKind::AlreadyOpen) with the holder's pid, at once, while another holder lives
    /// (another process, or another handle in this one).
    fn open(&self, namespace: &str) -> Result<Arc<dyn Directory>>;

    /// Removes a namespace with all it holds and makes the removal durable. `false` where there was none.
    ///
    /// # Errors
    /// As [`Backend::open`]: a namespace in use is not removed.
    fn remove(&self, namespace: &str) -> Result<bool>;
}

/// One open namespace. The lock is released when it, and every log and region reached through it, is dropped: a region is
/// read in place, and must not meet another holder's writes.
///
/// A file under a region is the region's alone: while any handle of it lives, reading, writing or opening the file by name
/// is an error. Removing or replacing it is none: who has the old file keeps it.
pub trait Directory: Send + Sync + fmt::Debug {
    /// Where it lies, for messages.
    fn path(&self) -> PathBuf;

    /// Whether the namespace is still this handle's alone. Writes by name and to the log ask by themselves; a writer of regions, whose
    /// bytes are simply memory, asks before it begins.
    ///
    /// # Errors
    /// The lock was taken away from outside: nothing may be written any more.
    fn check_held(&self) -> Result<()> {
        Ok(())
    }

    /// The gate of every region of this namespace.
    fn gate(&self) -> &Gate;

    /// Names of the entries of a folder (`""` is the namespace itself), sorted; none where it does not exist.
    fn list(&self, folder: &str) -> Result<Vec<String>>;

    /// Creates a folder and its parents where missing, and makes the entry durable. Idempotent.
    fn create_folder(&self, folder: &str) -> Result<()>;

    /// Makes creations, renames and removals in a folder durable.
    fn sync_folder(&self, folder: &str) -> Result<()>;

    /// Removes a file; `false` where there was none. Durable after [`Directory::sync_folder`] of its folder.
    fn remove_file(&self, path: &str) -> Result<bool>;

    /// Reads a whole file of at most `max_len` bytes; `None` where it does not exist, an error where it is longer.
    fn read(&self, path: &str, max_len: u64) -> Result<Option<Vec<u8>>>;

    /// Replaces a whole file atomically and durably: temporary file, write, sync, rename, directory sync.
    ///
    /// # Errors
    /// On `NoSpace` the temporary file is gone and the old content is untouched.
    fn replace(&self, path: &str, bytes: &[u8]) -> Result<()>;

    /// Creates a file of `len` zero bytes, every block really allocated, durable with its directory entry.
    fn create_zeroed(&self, path: &str, len: u64) -> Result<()>;

    /// Writes runs of bytes inside an existing file, then one data sync. A run past its end is an error and writes nothing.
    fn write_at(&self, path: &str, runs: &[(u64, &[u8])]) -> Result<()>;

    /// Creates a log segment of `len` bytes, allocated **and zero-filled**, durable with its directory entry, and opens it.
    ///
    /// # Errors
    /// On `NoSpace` nothing remains of the file.
    fn create_log(&self, path: &str, len: u64) -> Result<Box<dyn LogFile>>;

    /// Opens an existing log segment.
    fn open_log(&self, path: &str) -> Result<Box<dyn LogFile>>;

    /// Creates a region of `capacity` bytes: a new file, every block allocated (checked by block count) before it is mapped,
    /// durable with its directory entry. An existing file of that name is replaced.
    fn create_region(&self, path: &str, capacity: u64) -> Result<RegionWriter>;

    /// Opens an existing region of exactly `capacity` bytes with its first `published` bytes visible to readers.
    fn open_region(&self, path: &str, capacity: u64, published: u64) -> Result<RegionWriter>;

    /// Bytes the namespace takes on its device (allocated blocks).
    fn allocated_bytes(&self) -> Result<u64>;
}

/// One segment of the write-ahead log, of fixed length.
pub trait LogFile: Send + Sync + fmt::Debug {
    /// Writes all of `bytes` at `offset`; when it returns they survive power loss. Interrupted and short writes are
    /// continued inside; any error means that nothing may be assumed about the range.
    fn write_durable_at(&self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Writes all of `bytes` at `offset` without asking for durability: they survive the process, not power loss.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Makes everything written so far survive power loss.
    fn sync(&self) -> Result<()>;

    /// Fills `buffer` from `offset`; running past the end is an error.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()>;

    /// Length in bytes.
    fn len(&self) -> u64;

    /// Whether the segment has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How durable writes are made, for reports: `pwritev2(RWF_DSYNC)`, `pwrite+fdatasync`, `memory`.
    fn method(&self) -> &'static str;
}

/// A reader's handle is a clone of the region, a writer's handle is unique.
const _: fn(&RegionWriter) -> &Region = RegionWriter::region;
