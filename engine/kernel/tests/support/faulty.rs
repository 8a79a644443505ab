//! A directory that counts the calls that change anything, and fails them on demand. A call that fails changed nothing.
//!
//! Regions are handed through: what is written in place behaves like the page cache of a machine that stays up.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use mnemolith_backends::{Directory, Gate, LogFile, RegionWriter, Result, StorageError};

/// What a failing call says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// EIO, from the chosen call on.
    Io,
    /// ENOSPC, at the chosen call alone.
    NoSpace,
}

#[derive(Debug, Default)]
struct State {
    calls: AtomicU64,
    /// The call that fails, from 1; 0 for none.
    at: AtomicU64,
    no_space: AtomicBool,
    /// Whether the call that failed makes room: creates a file or writes a temporary one.
    hit_allocation: AtomicBool,
    hits: AtomicU64,
}

/// The hand on the switch.
#[derive(Debug, Clone, Default)]
pub(crate) struct Control(Arc<State>);

impl Control {
    /// Fails the `n`-th changing call counted from now.
    pub(crate) fn fail_at(&self, n: u64, fault: Fault) {
        self.0.no_space.store(fault == Fault::NoSpace, Ordering::SeqCst);
        self.0.hits.store(0, Ordering::SeqCst);
        self.0.at.store(self.calls() + n, Ordering::SeqCst);
    }

    /// From now on nothing changes any more: the process is dead.
    pub(crate) fn kill(&self) {
        self.fail_at(1, Fault::Io);
    }

    /// From now on everything works.
    pub(crate) fn heal(&self) {
        self.0.at.store(0, Ordering::SeqCst);
    }

    /// Changing calls so far.
    pub(crate) fn calls(&self) -> u64 {
        self.0.calls.load(Ordering::SeqCst)
    }

    /// Calls that failed.
    pub(crate) fn hits(&self) -> u64 {
        self.0.hits.load(Ordering::SeqCst)
    }

    /// Whether the last call that failed was one that makes room.
    pub(crate) fn hit_allocation(&self) -> bool {
        self.0.hit_allocation.load(Ordering::SeqCst)
    }

    fn change(&self, operation: &'static str, path: &str, allocates: bool) -> Result<()> {
        let call = self.0.calls.fetch_add(1, Ordering::SeqCst) + 1;
        let (at, no_space) = (self.0.at.load(Ordering::SeqCst), self.0.no_space.load(Ordering::SeqCst));
        if at == 0 || call < at || (no_space && call > at) {
            return Ok(());
        }
        self.0.hit_allocation.store(allocates, Ordering::SeqCst);
        self.0.hits.fetch_add(1, Ordering::SeqCst);
        let source = if no_space { io::Error::from(io::ErrorKind::StorageFull) } else { io::Error::other("injected EIO") };
        Err(StorageError::new(operation, path, source))
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct FaultyDirectory {
    inner: Arc<dyn Directory>,
    control: Control,
}

impl FaultyDirectory {
    pub(crate) fn over(inner: Arc<dyn Directory>) -> (Arc<dyn Directory>, Control) {
        let control = Control::default();
        (Arc::new(Self { inner, control: control.clone() }), control)
    }

    fn log(&self, path: &str, inner: Box<dyn LogFile>) -> Box<dyn LogFile> {
        Box::new(FaultyLog { inner, path: path.to_owned(), control: self.control.clone() })
    }
}

impl Directory for FaultyDirectory {
    fn path(&self) -> PathBuf {
        self.inner.path()
    }
    fn gate(&self) -> &Gate {
        self.inner.gate()
    }
    fn list(&self, folder: &str) -> Result<Vec<String>> {
        self.inner.list(folder)
    }
    fn create_folder(&self, folder: &str) -> Result<()> {
        self.control.change("create", folder, true)?;
        self.inner.create_folder(folder)
    }
    fn sync_folder(&self, folder: &str) -> Result<()> {
        self.control.change("sync", folder, false)?;
        self.inner.sync_folder(folder)
    }
    fn remove_file(&self, path: &str) -> Result<bool> {
        self.control.change("remove", path, false)?;
        self.inner.remove_file(path)
    }
    fn read(&self, path: &str, max_len: u64) -> Result<Option<Vec<u8>>> {
        self.inner.read(path, max_len)
    }
    fn replace(&self, path: &str, bytes: &[u8]) -> Result<()> {
        self.control.change("replace", path, true)?;
        self.inner.replace(path, bytes)
    }
    fn create_zeroed(&self, path: &str, len: u64) -> Result<()> {
        self.control.change("create", path, true)?;
        self.inner.create_zeroed(path, len)
    }
    fn write_at(&self, path: &str, runs: &[(u64, &[u8])]) -> Result<()> {
        self.control.change("write", path, false)?;
        self.inner.write_at(path, runs)
    }
    fn create_log(&self, path: &str, len: u64) -> Result<Box<dyn LogFile>> {
        self.control.change("create", path, true)?;
        Ok(self.log(path, self.inner.create_log(path, len)?))
    }
    fn open_log(&self, path: &str) -> Result<Box<dyn LogFile>> {
        Ok(self.log(path, self.inner.open_log(path)?))
    }
    fn create_region(&self, path: &str, capacity: u64) -> Result<RegionWriter> {
        self.control.change("create", path, true)?;
        self.inner.create_region(path, capacity)
    }
    fn open_region(&self, path: &str, capacity: u64, published: u64) -> Result<RegionWriter> {
        self.inner.open_region(path, capacity, published)
    }
    fn allocated_bytes(&self) -> Result<u64> {
        self.inner.allocated_bytes()
    }
}

#[derive(Debug)]
struct FaultyLog {
    inner: Box<dyn LogFile>,
    path: String,
    control: Control,
}

impl LogFile for FaultyLog {
    fn write_durable_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.control.change("write", &self.path, false)?;
        self.inner.write_durable_at(offset, bytes)
    }
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.control.change("write", &self.path, false)?;
        self.inner.write_at(offset, bytes)
    }
    fn sync(&self) -> Result<()> {
        self.control.change("sync", &self.path, false)?;
        self.inner.sync()
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.inner.read_at(offset, buffer)
    }
    fn len(&self) -> u64 {
        self.inner.len()
    }
    fn method(&self) -> &'static str {
        self.inner.method()
    }
}
