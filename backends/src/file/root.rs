//! The root: which namespaces there are, opening and removing them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::directory::FileDirectory;
use super::lock::NamespaceLock;
use super::os;
use crate::{Backend, Directory, Result, StorageError, StorageErrorKind, names};

/// A removed namespace is renamed to this, its own name, and a number, before it is taken apart.
const REMOVED: &str = ".removed-";

/// A directory whose directories are namespaces.
#[derive(Debug)]
pub struct FileBackend {
    root: PathBuf,
    /// Whether this backend has looked for what a crash left of removed namespaces.
    swept: AtomicBool,
}

impl FileBackend {
    /// The root at `root`, which need not exist: it is created, with its parents, when the first namespace is opened.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        let root = if root.as_os_str().is_empty() { PathBuf::from(".") } else { root };
        Self { root, swept: AtomicBool::new(false) }
    }

    /// Finishes removals that a crash interrupted. What cannot be removed now is tried again at the next open.
    fn sweep(&self) {
        if !self.swept.load(Ordering::Relaxed) && self.remove_leftovers().is_ok() {
            self.swept.store(true, Ordering::Relaxed);
        }
    }

    fn remove_leftovers(&self) -> Result<()> {
        for name in os::names_in(&self.root)?.into_iter().filter(|name| name.starts_with(REMOVED)) {
            let path = self.root.join(name);
            // A removal in progress holds the lock, and takes care of the rest itself. It unlinks the lock last, and a lock
            // made here would keep it from removing the directory.
            match NamespaceLock::take_existing("remove", &path) {
                Ok(Some(_held)) => os::remove_tree(&path, names::LOCK)?,
                Ok(None) => os::remove_empty(&path)?,
                Err(error) if matches!(error.kind, StorageErrorKind::AlreadyOpen { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Moves a namespace out of the way under a name that nobody uses.
    fn set_aside(&self, namespace: &str, directory: &Path) -> Result<PathBuf> {
        let process = std::process::id();
        let mut number = 0_u64;
        loop {
            // Two processes in containers of their own may have the same id, and one that died may have left the name.
            let aside = self.root.join(format!("{REMOVED}{namespace}-{process}-{number}"));
            match os::rename(directory, &aside) {
                Ok(()) => return Ok(aside),
                Err(error) if is_taken(&error) => number += 1,
                Err(error) => return Err(error),
            }
        }
    }
}

/// Whether a rename found a directory with something in it at its target. Which of the two it is depends on the file system.
fn is_taken(error: &StorageError) -> bool {
    matches!(error.source.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists)
}

/// Creates a directory and its missing parents, each durable before the next.
fn create_durably(path: &Path) -> Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    if let Some(parent) = parent {
        create_durably(parent)?;
    }
    os::make_directory(path)?;
    os::sync_directory(parent.unwrap_or(Path::new(".")))
}

impl Backend for FileBackend {
    fn namespaces(&self) -> Result<Vec<String>> {
        let mut found = os::names_in(&self.root)?;
        found.retain(|name| names::is_namespace(name) && self.root.join(name).is_dir());
        Ok(found)
    }

    fn open(&self, namespace: &str) -> Result<Arc<dyn Directory>> {
        names::check_namespace("open", namespace)?;
        self.sweep();
        let path = self.root.join(namespace);
        loop {
            create_durably(&self.root)?;
            os::make_directory(&path)?;
            let Some(taken) = NamespaceLock::take("open", &path)? else {
                continue;
            };
            if taken.fresh {
                // Before the pid is written: whoever finds a pid may take the entries for durable.
                os::sync_directory(&path)?;
                os::sync_directory(&self.root)?;
            }
            taken.lock.sign(&path)?;
            return Ok(Arc::new(FileDirectory::new(path, taken.lock)?));
        }
    }

    fn remove(&self, namespace: &str) -> Result<bool> {
        names::check_namespace("remove", namespace)?;
        let path = self.root.join(namespace);
        let Some(taken) = NamespaceLock::take("remove", &path)? else {
            return Ok(false);
        };
        taken.lock.sign(&path)?;
        let aside = self.set_aside(namespace, &path)?;
        os::sync_directory(&self.root)?;
        os::remove_tree(&aside, names::LOCK)?;
        os::sync_directory(&self.root)?;
        Ok(true)
    }
}
