//! Regions as shared maps of files.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Arc;

use memmap2::{MmapOptions, MmapRaw};

use super::directory::Namespace;
use super::os::{self, Context};
use crate::region::RegionBytes;
use crate::uses::UseToken;
use crate::{RegionWriter, Result, StorageError, StorageErrorKind, names};

/// A whole file, mapped. The map needs no descriptor.
#[derive(Debug)]
struct Mapped {
    map: MmapRaw,
    base: NonNull<u8>,
    capacity: usize,
    path: PathBuf,
    _token: UseToken,
    _namespace: Arc<Namespace>,
}

// SAFETY: `base` is only written by whoever holds it, in `new`; the map may be used from any thread, as `MmapRaw` is
// itself.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

// SAFETY: `base` and `capacity` are those of the map, which lives until drop, is readable and writable, and starts on a
// page. Its file was checked to have that length and all of its blocks, so no page of it is missing; nobody in this process
// shortens it (files are replaced, never truncated), and the namespace lock keeps other processes out. Only msync looks at
// the bytes here.
unsafe impl RegionBytes for Mapped {
    fn base(&self) -> NonNull<u8> {
        self.base
    }

    fn capacity(&self) -> usize {
        self.capacity
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn sync(&self, offset: usize, len: usize) -> Result<()> {
        os::note("sync map of", &self.path);
        // Rounds to pages itself.
        self.map.flush_range(offset, len).context("sync", &self.path)
    }
}

/// Maps all of `file`, of which the first `published` bytes are in use.
pub(super) fn map(
    file: &File,
    path: &Path,
    capacity: u64,
    published: u64,
    token: UseToken,
    namespace: &Arc<Namespace>,
) -> Result<RegionWriter> {
    check(file, path, capacity)?;
    let capacity = usize::try_from(capacity).map_err(|_| names::invalid("map", &path.to_string_lossy(), "too large"))?;
    let map = MmapOptions::new().len(capacity).map_raw(file).context("map", path)?;
    let base = NonNull::new(map.as_mut_ptr()).ok_or_else(|| names::invalid("map", &path.to_string_lossy(), "mapped to nothing"))?;
    let namespace = Arc::clone(namespace);
    let gate = namespace.gate().clone();
    let mapped = Mapped { map, base, capacity, path: path.to_owned(), _token: token, _namespace: namespace };
    // SAFETY: the token, kept inside, shows that nobody else in this process uses the file under its name, and that nobody
    // will; the namespace lock, kept inside too, does the same for other processes and handles.
    unsafe { RegionWriter::over(Box::new(mapped), &gate, published) }
}

/// A map of a file that is too short, or that lacks blocks on a full disk, kills the process that touches it.
fn check(file: &File, path: &Path, capacity: u64) -> Result<()> {
    let damaged = |message| Err(StorageError::of_kind(StorageErrorKind::Damaged, "open", path, message));
    let len = file.metadata().context("inspect", path)?.len();
    if len != capacity {
        return damaged(format!("it has {len} bytes, not {capacity}"));
    }
    if !os::are_blocks_allocated(file, path, capacity)? {
        return damaged(format!("not all of its {capacity} bytes are allocated: it is sparse"));
    }
    Ok(())
}
