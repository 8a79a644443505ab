//! Namespaces in private memory: for tests, and for stores that nobody wants to keep.
//!
//! What was written is there as long as a clone of the [`MemoryBackend`] lives: closing and reopening a namespace finds
//! its bytes again. Nothing survives the process, so every write counts as durable.

mod contents;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use contents::{Contents, CopiedFile, Lent};

use crate::uses::{UseToken, Uses};
use crate::{Backend, Directory, Gate, LogFile, RegionWriter, Result, StorageError, StorageErrorKind, names};

/// A root in memory. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct MemoryBackend {
    namespaces: Arc<Mutex<BTreeMap<String, Arc<Namespace>>>>,
}

/// All of a namespace at rest: what [`MemoryBackend::export`] gives and [`MemoryBackend::import`] takes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamespaceImage {
    /// Paths of the folders.
    pub folders: BTreeSet<String>,
    /// Contents of the files, by path.
    pub files: BTreeMap<String, Vec<u8>>,
}

impl MemoryBackend {
    /// An empty root.
    pub fn new() -> Self {
        Self::default()
    }

    /// Copies a namespace out, to keep it elsewhere or to look at its bytes; `None` where there is none.
    ///
    /// # Errors
    /// As [`Backend::open`]: the bytes of a namespace in use do not stand still.
    pub fn export(&self, namespace: &str) -> Result<Option<NamespaceImage>> {
        if !self.namespaces.lock().contains_key(namespace) {
            return Ok(None);
        }
        let directory = self.open_here(namespace)?;
        let (folders, paths) = {
            let tree = directory.tree();
            (tree.folders.clone(), tree.files.keys().cloned().collect::<Vec<_>>())
        };
        let mut files = BTreeMap::new();
        for path in paths {
            if let Some(bytes) = directory.read(&path, u64::MAX)? {
                files.insert(path, bytes);
            }
        }
        Ok(Some(NamespaceImage { folders, files }))
    }

    /// Puts an image in the place of a namespace and whatever it held. Folders that files lie in are made where the image lacks them.
    ///
    /// # Errors
    /// As [`Backend::remove`], or where the image holds a path that no backend accepts: the namespace is then gone or incomplete.
    pub fn import(&self, namespace: &str, image: &NamespaceImage) -> Result<()> {
        self.remove(namespace)?;
        let directory = self.open_here(namespace)?;
        image.folders.iter().try_for_each(|folder| directory.create_folder(folder))?;
        for (path, bytes) in &image.files {
            names::check_file("import", path)?;
            directory.create_folder(parent(path))?;
            directory.replace(path, bytes)?;
        }
        Ok(())
    }

    fn open_here(&self, namespace: &str) -> Result<MemoryDirectory> {
        names::check_namespace("open", namespace)?;
        let mut namespaces = self.namespaces.lock();
        let kept = Arc::clone(namespaces.entry(namespace.to_owned()).or_default());
        if kept.open.swap(true, Ordering::AcqRel) {
            return Err(already_open("open", namespace));
        }
        let hold = Hold { name: namespace.to_owned(), namespace: kept, gate: Gate::new(), uses: Mutex::default() };
        Ok(MemoryDirectory { hold: Arc::new(hold) })
    }
}

/// What remains of a namespace while nobody has it open.
#[derive(Debug, Default)]
struct Namespace {
    open: AtomicBool,
    tree: Mutex<Tree>,
}

#[derive(Debug, Default)]
struct Tree {
    folders: BTreeSet<String>,
    files: BTreeMap<String, Arc<Contents>>,
}

/// The lock of a namespace; whatever is reached through an open namespace holds it.
#[derive(Debug)]
struct Hold {
    name: String,
    namespace: Arc<Namespace>,
    gate: Gate,
    uses: Mutex<Uses>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.namespace.open.store(false, Ordering::Release);
    }
}

fn already_open(operation: &'static str, namespace: &str) -> StorageError {
    let pid = std::process::id();
    let kind = StorageErrorKind::AlreadyOpen { pid: Some(pid) };
    StorageError::of_kind(kind, operation, namespace, format!("it is open in process {pid}"))
}

impl Backend for MemoryBackend {
    fn namespaces(&self) -> Result<Vec<String>> {
        Ok(self.namespaces.lock().keys().cloned().collect())
    }

    fn open(&self, namespace: &str) -> Result<Arc<dyn Directory>> {
        Ok(Arc::new(self.open_here(namespace)?))
    }

    fn remove(&self, namespace: &str) -> Result<bool> {
        names::check_namespace("remove", namespace)?;
        let mut namespaces = self.namespaces.lock();
        let Some(kept) = namespaces.get(namespace) else {
            return Ok(false);
        };
        if kept.open.load(Ordering::Acquire) {
            return Err(already_open("remove", namespace));
        }
        namespaces.remove(namespace);
        Ok(true)
    }
}

#[derive(Debug)]
struct MemoryDirectory {
    hold: Arc<Hold>,
}

/// The folder a path lies in.
fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

fn missing(operation: &'static str, path: &str) -> StorageError {
    StorageError::of_kind(StorageErrorKind::NotFound, operation, path, "it does not exist")
}

impl Tree {
    fn has_folder(&self, folder: &str) -> bool {
        folder.is_empty() || self.folders.contains(folder)
    }

    fn find(&self, operation: &'static str, path: &str) -> Result<Arc<Contents>> {
        self.files.get(path).cloned().ok_or_else(|| missing(operation, path))
    }
}

impl MemoryDirectory {
    fn tree(&self) -> parking_lot::MutexGuard<'_, Tree> {
        self.hold.namespace.tree.lock()
    }

    /// Puts a file at a name, in place of whatever was there.
    fn put(&self, operation: &'static str, path: &str, contents: Arc<Contents>) -> Result<()> {
        let mut tree = self.tree();
        if !tree.has_folder(parent(path)) {
            return Err(missing(operation, path));
        }
        if tree.has_folder(path) {
            return Err(names::invalid(operation, path, "it is a folder"));
        }
        tree.files.insert(path.to_owned(), contents);
        self.hold.uses.lock().forget(path);
        Ok(())
    }

    fn open_copied(&self, operation: &'static str, path: &str) -> Result<CopiedFile> {
        names::check_file(operation, path)?;
        let tree = self.tree();
        let contents = tree.find(operation, path)?;
        let token = self.hold.uses.lock().enter_copying(operation, path)?;
        Ok(CopiedFile { contents, path: path.to_owned(), token, hold: Arc::clone(&self.hold) })
    }

    fn lend_region(&self, path: &str, capacity: u64, published: u64) -> Result<RegionWriter> {
        let tree = self.tree();
        let contents = tree.find("open", path)?;
        if contents.len() != capacity {
            let message = format!("it has {} bytes, not {capacity}", contents.len());
            return Err(StorageError::of_kind(StorageErrorKind::Damaged, "open", path, message));
        }
        let token = self.hold.uses.lock().enter_region("open", path)?;
        let lent = Lent { contents, path: PathBuf::from(path), _token: token, _hold: Arc::clone(&self.hold) };
        // SAFETY: the token, kept inside, shows that nobody else uses the file and keeps everybody out; the hold, kept
        // inside too, does the same for other handles of the namespace.
        unsafe { RegionWriter::over(Box::new(lent), &self.hold.gate, published) }
    }
}

impl Directory for MemoryDirectory {
    fn path(&self) -> PathBuf {
        PathBuf::from(&self.hold.name)
    }

    fn gate(&self) -> &Gate {
        &self.hold.gate
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        names::check_folder("list", folder)?;
        let tree = self.tree();
        let inside: BTreeSet<String> = tree
            .folders
            .iter()
            .chain(tree.files.keys())
            .filter(|path| parent(path) == folder)
            .map(|path| path.rsplit('/').next().unwrap_or(path).to_owned())
            .collect();
        Ok(inside.into_iter().collect())
    }

    fn create_folder(&self, folder: &str) -> Result<()> {
        names::check_folder("create", folder)?;
        let mut tree = self.tree();
        let ends = folder.match_indices('/').map(|(at, _)| at).chain([folder.len()]);
        let levels: Vec<&str> = ends.filter_map(|end| folder.get(..end)).filter(|level| !level.is_empty()).collect();
        if levels.iter().any(|level| tree.files.contains_key(*level)) {
            return Err(names::invalid("create", folder, "a file has that name"));
        }
        tree.folders.extend(levels.into_iter().map(str::to_owned));
        Ok(())
    }

    fn sync_folder(&self, folder: &str) -> Result<()> {
        names::check_folder("sync", folder)?;
        if self.tree().has_folder(folder) { Ok(()) } else { Err(missing("sync", folder)) }
    }

    fn remove_file(&self, path: &str) -> Result<bool> {
        names::check_file("remove", path)?;
        let mut tree = self.tree();
        if tree.has_folder(path) {
            return Err(names::invalid("remove", path, "it is a folder"));
        }
        self.hold.uses.lock().forget(path);
        Ok(tree.files.remove(path).is_some())
    }

    fn read(&self, path: &str, max_len: u64) -> Result<Option<Vec<u8>>> {
        let file = match self.open_copied("read", path) {
            Ok(file) => file,
            Err(error) if error.kind == StorageErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let len = file.contents.len();
        if len > max_len {
            let message = format!("it has {len} bytes, more than the {max_len} expected");
            return Err(StorageError::of_kind(StorageErrorKind::Damaged, "read", path, message));
        }
        file.with_writer(len, |writer| Ok(Some(writer.written_slice().to_vec())))
    }

    fn replace(&self, path: &str, bytes: &[u8]) -> Result<()> {
        names::check_file("replace", path)?;
        let contents = Contents::new("replace", path, bytes.len() as u64)?;
        let file =
            CopiedFile { contents: Arc::clone(&contents), path: path.to_owned(), token: UseToken::default(), hold: Arc::clone(&self.hold) };
        file.write("replace", 0, bytes)?;
        self.put("replace", path, contents)
    }

    fn create_zeroed(&self, path: &str, len: u64) -> Result<()> {
        names::check_file("create", path)?;
        self.put("create", path, Contents::new("create", path, len)?)
    }

    fn write_at(&self, path: &str, runs: &[(u64, &[u8])]) -> Result<()> {
        let file = self.open_copied("write", path)?;
        for (offset, bytes) in runs {
            names::check_range("write", path, *offset, bytes.len(), file.contents.len())?;
        }
        runs.iter().try_for_each(|(offset, bytes)| file.write("write", *offset, bytes))
    }

    fn create_log(&self, path: &str, len: u64) -> Result<Box<dyn LogFile>> {
        self.create_zeroed(path, len)?;
        self.open_log(path)
    }

    fn open_log(&self, path: &str) -> Result<Box<dyn LogFile>> {
        Ok(Box::new(self.open_copied("open", path)?))
    }

    fn create_region(&self, path: &str, capacity: u64) -> Result<RegionWriter> {
        self.create_zeroed(path, capacity)?;
        self.lend_region(path, capacity, 0)
    }

    fn open_region(&self, path: &str, capacity: u64, published: u64) -> Result<RegionWriter> {
        names::check_file("open", path)?;
        self.lend_region(path, capacity, published)
    }

    fn allocated_bytes(&self) -> Result<u64> {
        Ok(self.tree().files.values().map(|contents| contents.len()).sum())
    }
}
