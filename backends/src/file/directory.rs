//! One open namespace.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::lock::NamespaceLock;
use super::log::FileLog;
use super::mapped;
use super::os::{self, Context, Unfinished};
use crate::uses::{UseToken, Uses};
use crate::{Directory, Gate, LogFile, RegionWriter, Result, StorageError, StorageErrorKind, names};

/// Replacements are written to a file of this name and a number in the namespace itself.
const TEMPORARY: &str = ".tmp-";

/// What everything that was reached through a namespace holds on to. Its lock goes last.
#[derive(Debug)]
pub(super) struct Namespace {
    path: PathBuf,
    gate: Gate,
    /// Locked while a name changes its meaning or a file is opened by name.
    uses: Mutex<Uses>,
    temporaries: AtomicU64,
    lock: NamespaceLock,
}

impl Namespace {
    pub(super) fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Nobody but us may write here.
    pub(super) fn check_held(&self) -> Result<()> {
        self.lock.check(&self.path)
    }
}

/// The handle.
#[derive(Debug)]
pub(super) struct FileDirectory {
    namespace: Arc<Namespace>,
}

impl FileDirectory {
    /// Takes over a locked namespace and removes what replacements left unfinished.
    pub(super) fn new(path: PathBuf, lock: NamespaceLock) -> Result<Self> {
        for name in os::names_in(&path)?.iter().filter(|name| name.starts_with(TEMPORARY)) {
            os::unlink(&path.join(name))?;
        }
        let namespace = Namespace { path, gate: Gate::new(), uses: Mutex::default(), temporaries: AtomicU64::new(0), lock };
        Ok(Self { namespace: Arc::new(namespace) })
    }

    #[cfg(test)]
    pub(super) fn of(namespace: Arc<Namespace>) -> Self {
        Self { namespace }
    }

    #[cfg(test)]
    pub(super) fn namespace(&self) -> Arc<Namespace> {
        Arc::clone(&self.namespace)
    }

    fn file(&self, operation: &'static str, path: &str) -> Result<PathBuf> {
        names::check_file(operation, path)?;
        Ok(self.namespace.path.join(path))
    }

    fn folder(&self, operation: &'static str, folder: &str) -> Result<PathBuf> {
        names::check_folder(operation, folder)?;
        Ok(if folder.is_empty() { self.namespace.path.clone() } else { self.namespace.path.join(folder) })
    }

    /// A new file at a name, in place of whatever was there: who uses the old file keeps it.
    fn create(&self, name: &str, path: &Path) -> Result<(File, Unfinished)> {
        self.namespace.check_held()?;
        let mut uses = self.namespace.uses.lock();
        os::unlink(path)?;
        uses.forget(name);
        let file = os::create_new(path)?;
        Ok((file, Unfinished::new(path)))
    }

    /// An existing file, to copy into or out of.
    fn open(&self, operation: &'static str, name: &str, write: bool) -> Result<(File, PathBuf, UseToken)> {
        let path = self.file(operation, name)?;
        let mut uses = self.namespace.uses.lock();
        let file = os::open(&path, write)?;
        let token = uses.enter_copying(operation, name)?;
        Ok((file, path, token))
    }

    /// A new file of `len` zero bytes that is all there, and durable under its name.
    fn create_allocated(&self, name: &str, len: u64, zeros: Zeros) -> Result<(File, PathBuf)> {
        let path = self.file("create", name)?;
        let (file, unfinished) = self.create(name, &path)?;
        os::allocate(&file, &path, len)?;
        if zeros == Zeros::Written {
            os::write_zeros(&file, &path, len)?;
        }
        os::sync_file(&file, &path)?;
        sync_parent(&path)?;
        if !os::are_blocks_allocated(&file, &path, len)? {
            let message = format!("the file system does not allocate all of its {len} bytes");
            return Err(StorageError::of_kind(StorageErrorKind::Io, "allocate", &path, message));
        }
        unfinished.finish();
        Ok((file, path))
    }
}

/// Whether zeros are written, or left to what the system shows for bytes that were allocated and never written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Zeros {
    Written,
    Implied,
}

fn sync_parent(path: &Path) -> Result<()> {
    path.parent().map_or(Ok(()), os::sync_directory)
}

impl Directory for FileDirectory {
    fn path(&self) -> PathBuf {
        self.namespace.path.clone()
    }

    fn check_held(&self) -> Result<()> {
        self.namespace.check_held()
    }

    fn gate(&self) -> &Gate {
        &self.namespace.gate
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        let mut found = os::names_in(&self.folder("list", folder)?)?;
        found.retain(|name| names::is_listed(folder, name));
        Ok(found)
    }

    fn create_folder(&self, folder: &str) -> Result<()> {
        names::check_folder("create", folder)?;
        let mut path = self.namespace.path.clone();
        for level in folder.split('/').filter(|level| !level.is_empty()) {
            let above = path.clone();
            path.push(level);
            os::make_directory(&path)?;
            // Even where it was there: a crash may have come between making it and making it durable.
            os::sync_directory(&above)?;
        }
        Ok(())
    }

    fn sync_folder(&self, folder: &str) -> Result<()> {
        os::sync_directory(&self.folder("sync", folder)?)
    }

    fn remove_file(&self, path: &str) -> Result<bool> {
        let full = self.file("remove", path)?;
        let mut uses = self.namespace.uses.lock();
        let removed = os::unlink(&full)?;
        uses.forget(path);
        Ok(removed)
    }

    fn read(&self, path: &str, max_len: u64) -> Result<Option<Vec<u8>>> {
        let Some((file, full, _token)) = os::if_found(self.open("read", path, false))? else {
            return Ok(None);
        };
        let len = file.metadata().context("inspect", &full)?.len();
        let mut bytes = Vec::new();
        if len <= max_len {
            file.take(max_len.saturating_add(1)).read_to_end(&mut bytes).context("read", &full)?;
        }
        if len.max(bytes.len() as u64) > max_len {
            let message = format!("it has {len} bytes, more than the {max_len} expected");
            return Err(StorageError::of_kind(StorageErrorKind::Damaged, "read", &full, message));
        }
        Ok(Some(bytes))
    }

    fn replace(&self, path: &str, bytes: &[u8]) -> Result<()> {
        let full = self.file("replace", path)?;
        let number = self.namespace.temporaries.fetch_add(1, Ordering::Relaxed);
        let temporary = self.namespace.path.join(format!("{TEMPORARY}{number}"));
        let file = os::create_new(&temporary)?;
        let unfinished = Unfinished::new(&temporary);
        os::write_all_at(&file, &temporary, 0, bytes)?;
        os::sync_file(&file, &temporary)?;
        {
            let mut uses = self.namespace.uses.lock();
            os::rename(&temporary, &full)?;
            uses.forget(path);
        }
        unfinished.finish();
        sync_parent(&full)
    }

    fn create_zeroed(&self, path: &str, len: u64) -> Result<()> {
        self.create_allocated(path, len, Zeros::Implied).map(drop)
    }

    fn write_at(&self, path: &str, runs: &[(u64, &[u8])]) -> Result<()> {
        self.namespace.check_held()?;
        let (file, full, _token) = self.open("write", path, true)?;
        let len = file.metadata().context("inspect", &full)?.len();
        for (offset, bytes) in runs {
            names::check_range("write", path, *offset, bytes.len(), len)?;
        }
        for (offset, bytes) in runs {
            os::write_all_at(&file, &full, *offset, bytes)?;
        }
        os::sync_data(&file, &full)
    }

    fn create_log(&self, path: &str, len: u64) -> Result<Box<dyn LogFile>> {
        let (file, full) = self.create_allocated(path, len, Zeros::Written)?;
        let token = self.namespace.uses.lock().enter_copying("create", path)?;
        Ok(Box::new(FileLog::new(file, &full, token, Arc::clone(&self.namespace))?))
    }

    fn open_log(&self, path: &str) -> Result<Box<dyn LogFile>> {
        let (file, full, token) = self.open("open", path, true)?;
        Ok(Box::new(FileLog::new(file, &full, token, Arc::clone(&self.namespace))?))
    }

    fn create_region(&self, path: &str, capacity: u64) -> Result<RegionWriter> {
        self.create_allocated(path, capacity, Zeros::Implied)?;
        self.open_region(path, capacity, 0)
    }

    fn open_region(&self, path: &str, capacity: u64, published: u64) -> Result<RegionWriter> {
        let full = self.file("open", path)?;
        let mut uses = self.namespace.uses.lock();
        let file = os::open(&full, true)?;
        let token = uses.enter_region("open", path)?;
        mapped::map(&file, &full, capacity, published, token, &self.namespace)
    }

    fn allocated_bytes(&self) -> Result<u64> {
        os::allocated_below(&self.namespace.path)
    }
}
