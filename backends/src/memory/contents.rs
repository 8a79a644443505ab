//! The bytes of one file in memory, and the two ways to them: in place, and by copying.

use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Arc;

use parking_lot::Mutex;

use super::Hold;
use crate::heap::Heap;
use crate::region::RegionBytes;
use crate::uses::UseToken;
use crate::{LogFile, RegionWriter, Result, StorageError, names};

/// The bytes of one file.
#[derive(Debug)]
pub(super) struct Contents {
    heap: Heap,
    /// Held by whoever copies in or out.
    copying: Mutex<()>,
}

impl Contents {
    pub(super) fn new(operation: &'static str, path: &str, len: u64) -> Result<Arc<Self>> {
        let heap = usize::try_from(len)
            .map_err(|_| std::io::Error::from(std::io::ErrorKind::OutOfMemory))
            .and_then(Heap::zeroed)
            .map_err(|source| StorageError::new(operation, path, source))?;
        Ok(Arc::new(Self { heap, copying: Mutex::new(()) }))
    }

    pub(super) fn len(&self) -> u64 {
        self.heap.capacity() as u64
    }
}

/// The bytes of one file while somebody uses them; a region over them, or one that lasts a single copy.
#[derive(Debug)]
pub(super) struct Lent {
    pub(super) contents: Arc<Contents>,
    pub(super) path: PathBuf,
    pub(super) _token: UseToken,
    pub(super) _hold: Arc<Hold>,
}

// SAFETY: everything is the heap's own answer, and `contents` keeps the heap alive.
unsafe impl RegionBytes for Lent {
    fn base(&self) -> NonNull<u8> {
        self.contents.heap.base()
    }

    fn capacity(&self) -> usize {
        self.contents.heap.capacity()
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn sync(&self, _offset: usize, _len: usize) -> Result<()> {
        Ok(())
    }
}

/// A file that is read and written by copying.
#[derive(Debug)]
pub(super) struct CopiedFile {
    pub(super) contents: Arc<Contents>,
    pub(super) path: String,
    pub(super) token: UseToken,
    pub(super) hold: Arc<Hold>,
}

impl CopiedFile {
    /// Runs `work` on a writer over the whole file that takes the first `written` bytes for written.
    pub(super) fn with_writer<T>(&self, written: u64, work: impl FnOnce(&mut RegionWriter) -> Result<T>) -> Result<T> {
        let _alone = self.contents.copying.lock();
        let lent = Lent {
            contents: Arc::clone(&self.contents),
            path: PathBuf::from(&self.path),
            _token: Arc::clone(&self.token),
            _hold: Arc::clone(&self.hold),
        };
        // SAFETY: the token shows that no region lies over the file, and none can while it is held; the lock keeps other
        // copies out. The writer does not outlive this call: `work` sees it by reference, and its region is not kept.
        let mut writer = unsafe { RegionWriter::over(Box::new(lent), &self.hold.gate, written) }?;
        work(&mut writer)
    }

    pub(super) fn write(&self, operation: &'static str, offset: u64, bytes: &[u8]) -> Result<()> {
        let end = names::check_range(operation, &self.path, offset, bytes.len(), self.contents.len())?;
        self.with_writer(0, |writer| writer.append_at(end as usize - bytes.len(), bytes))
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let end = names::check_range("read", &self.path, offset, buffer.len(), self.contents.len())?;
        self.with_writer(self.contents.len(), |writer| {
            let start = end as usize - buffer.len();
            if let Some(bytes) = writer.written_slice().get(start..end as usize) {
                buffer.copy_from_slice(bytes);
            }
            Ok(())
        })
    }
}

impl LogFile for CopiedFile {
    fn write_durable_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.write("write", offset, bytes)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.write("write", offset, bytes)
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.read(offset, buffer)
    }

    fn len(&self) -> u64 {
        self.contents.len()
    }

    fn method(&self) -> &'static str {
        "memory"
    }
}
