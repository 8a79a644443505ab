//! Append-only bytes that one writer extends and many readers read in place.
//!
//! # Who may touch which byte
//! Two lengths divide a region: `published <= written <= capacity`.
//! * `[..published]` may be read by anybody who holds a [`ReadPass`]; nobody changes it, except [`RegionWriter::scrub`],
//!   whose [`WritePass`] proves that no reader is inside.
//! * `[published..written]` is seen by the one [`RegionWriter`] alone.
//! * `[written..]` is written by the one [`RegionWriter`] alone, and read by nobody.
//!
//! `written` only grows and is stored with release order after the bytes; `published` only grows, never passes `written`
//! (read with acquire order), and is read with acquire order by readers. So every byte a reader can name was stored
//! before, and is stable while the reader's pass lives. Both lengths start from what the region was opened with.
//!
//! What the bytes lie in is behind [`RegionBytes`]: mapped files, private memory, and whatever joins later.

use std::fmt;
use std::io;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::lock_api::{ArcRwLockReadGuard, ArcRwLockWriteGuard};
use parking_lot::{RawRwLock, RwLock};

use crate::heap::Heap;
use crate::{Result, StorageError, StorageErrorKind};

/// Start of every region is a multiple of this many bytes.
pub(crate) const REGION_ALIGN: usize = 64;

/// Lets readers in together and keeps them out while bytes are destroyed.
#[derive(Debug, Clone)]
pub struct Gate {
    lock: Arc<RwLock<()>>,
}

/// A reader's permission: while it lives no published byte changes.
#[derive(Debug)]
pub struct ReadPass {
    guard: ArcRwLockReadGuard<RawRwLock, ()>,
}

/// The scrubber's permission: while it lives no reader holds a slice.
#[derive(Debug)]
pub struct WritePass {
    guard: ArcRwLockWriteGuard<RawRwLock, ()>,
}

impl Gate {
    /// A new gate, open.
    pub fn new() -> Self {
        Self { lock: Arc::new(RwLock::new(())) }
    }

    /// Enters as a reader, behind a scrubber that waits already: readers who keep arriving cannot hold it off.
    ///
    /// The price of that: a thread that already holds a pass of this gate must not ask for another.
    pub fn read(&self) -> ReadPass {
        ReadPass { guard: self.lock.read_arc() }
    }

    /// Waits until no reader is inside. A thread that holds a [`ReadPass`] of this gate and asks for this waits forever.
    pub fn write(&self) -> WritePass {
        WritePass { guard: self.lock.write_arc() }
    }

    /// As [`Gate::write`], without waiting: `None` while anybody is inside. For who may hold a [`ReadPass`] itself.
    pub fn try_write(&self) -> Option<WritePass> {
        self.lock.try_write_arc().map(|guard| WritePass { guard })
    }

    fn admitted(&self, pass: &ReadPass) -> bool {
        Arc::ptr_eq(&self.lock, ArcRwLockReadGuard::rwlock(&pass.guard))
    }

    fn emptied(&self, pass: &WritePass) -> bool {
        Arc::ptr_eq(&self.lock, ArcRwLockWriteGuard::rwlock(&pass.guard))
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

/// What a region's bytes lie in.
///
/// The hooks are called by the one writer (`sync` by anybody), after the bytes changed in place: a backend that keeps
/// its own account of what is durable learns from them which bytes are dirty, and needs no access to the memory itself.
///
/// # Safety
/// From creation until drop, `base()` and `capacity()` always give the same answer; the `capacity()` bytes from `base()`
/// are one initialised allocation, readable and writable from any thread, and `base()` is a multiple of [`REGION_ALIGN`].
/// The implementation itself neither reads nor writes them, other than through calls that hand bytes to the system.
pub(crate) unsafe trait RegionBytes: Send + Sync + fmt::Debug {
    /// First byte.
    fn base(&self) -> NonNull<u8>;
    /// Number of bytes.
    fn capacity(&self) -> usize;
    /// What it is called in messages.
    fn path(&self) -> &Path;
    /// `bytes` were stored at `offset`.
    fn wrote(&self, _offset: usize, _bytes: &[u8]) {}
    /// `len` bytes at `offset` were overwritten with zeros.
    fn zeroed(&self, _offset: usize, _len: usize) {}
    /// Makes these bytes survive power loss. Not called for an empty range.
    fn sync(&self, offset: usize, len: usize) -> Result<()>;
}

#[derive(Debug)]
struct Inner {
    /// Copied from `bytes` so that a slice costs no virtual call.
    base: NonNull<u8>,
    capacity: usize,
    written: AtomicUsize,
    published: AtomicUsize,
    gate: Gate,
    bytes: Box<dyn RegionBytes>,
}

// SAFETY: `base` points into memory that `RegionBytes` promises to be usable from any thread while `bytes` lives, and the
// rules at the head of this module keep readers and the writer on disjoint bytes. Everything else is Send by itself.
unsafe impl Send for Inner {}
// SAFETY: as above; shared use goes through atomics and the gate.
unsafe impl Sync for Inner {}

impl Inner {
    fn error(&self, operation: &'static str, message: String) -> StorageError {
        StorageError::new(operation, self.bytes.path(), io::Error::new(io::ErrorKind::InvalidInput, message))
    }

    /// The end of a range that lies inside the capacity.
    fn end(&self, operation: &'static str, offset: usize, len: usize) -> Result<usize> {
        offset
            .checked_add(len)
            .filter(|end| *end <= self.capacity)
            .ok_or_else(|| self.error(operation, format!("{len} bytes at {offset} run past the capacity of {}", self.capacity)))
    }

    fn sync(&self, offset: usize, len: usize) -> Result<()> {
        self.end("sync", offset, len)?;
        if len == 0 {
            return Ok(());
        }
        self.bytes.sync(offset, len)
    }
}

/// A reader's handle.
#[derive(Debug, Clone)]
pub struct Region {
    inner: Arc<Inner>,
}

impl Region {
    /// Bytes it can hold.
    pub fn capacity(&self) -> usize {
        self.inner.capacity
    }

    /// Bytes that readers may see (acquire).
    pub fn published(&self) -> usize {
        self.inner.published.load(Ordering::Acquire)
    }

    /// The published bytes, 64-byte aligned at their start.
    ///
    /// # Panics
    /// When `pass` comes from another gate than the region's: such a pass holds no scrubber off, so there is no slice to give.
    pub fn slice<'a>(&'a self, pass: &'a ReadPass) -> &'a [u8] {
        assert!(self.inner.gate.admitted(pass), "a read pass of another gate was shown to {}", self.inner.bytes.path().display());
        let len = self.published();
        // SAFETY: `base` is valid for `capacity` initialised bytes while `inner` lives, which `'a` borrows, and
        // `len <= written <= capacity`. Nothing stores below `written` except `scrub`, which needs the write pass of this
        // gate, and the assertion above showed that `pass`, borrowed for `'a`, keeps that from being given out.
        unsafe { std::slice::from_raw_parts(self.inner.base.as_ptr(), len) }
    }

    /// Raises the published length (release); never lowers it.
    ///
    /// # Panics
    /// When `len` lies beyond what was written: publishing bytes that nobody wrote is a bug of the caller that must not
    /// reach a reader.
    pub fn publish(&self, len: usize) {
        let written = self.inner.written.load(Ordering::Acquire);
        assert!(len <= written, "published length {len} lies beyond the {written} bytes written to {}", self.inner.bytes.path().display());
        self.inner.published.fetch_max(len, Ordering::AcqRel);
    }

    /// Makes the first `len` bytes survive power loss (msync where mapped), as far as they were stored before the call.
    ///
    /// The same as [`RegionWriter::sync`], for a checkpoint that must not hold the writer up.
    pub fn sync(&self, len: usize) -> Result<()> {
        self.inner.sync(0, len)
    }
}

/// The writer's handle, unique.
#[derive(Debug)]
pub struct RegionWriter {
    region: Region,
}

impl RegionWriter {
    /// Private zeroed memory, 64-byte aligned, behind the same face.
    pub fn anonymous(gate: &Gate, capacity: usize) -> Result<Self> {
        let heap = Heap::zeroed(capacity).map_err(|source| StorageError::new("allocate", "private memory", source))?;
        // SAFETY: the memory was made here and is moved in, so no other region can lie over it.
        unsafe { Self::over(Box::new(heap), gate, 0) }
    }

    /// The writer of a region over `bytes`, of which the first `published` are written and visible.
    ///
    /// # Errors
    /// [`StorageErrorKind::Damaged`] where `published` lies beyond the capacity.
    ///
    /// # Safety
    /// While this writer or any clone of its region lives, nothing else reads or writes the same bytes: not another region,
    /// and not another view of what lies under them.
    pub(crate) unsafe fn over(bytes: Box<dyn RegionBytes>, gate: &Gate, published: u64) -> Result<Self> {
        let capacity = bytes.capacity();
        let base = bytes.base();
        assert!(base.as_ptr().addr().is_multiple_of(REGION_ALIGN), "a region starts at a multiple of {REGION_ALIGN}");
        let written = usize::try_from(published).ok().filter(|len| *len <= capacity).ok_or_else(|| {
            let message = format!("{published} bytes are said to be in use, and its capacity is {capacity}");
            StorageError::of_kind(StorageErrorKind::Damaged, "open", bytes.path(), message)
        })?;
        let inner =
            Inner { base, capacity, written: AtomicUsize::new(written), published: AtomicUsize::new(written), gate: gate.clone(), bytes };
        Ok(Self { region: Region { inner: Arc::new(inner) } })
    }

    /// The reader's handle.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// End of what was appended.
    pub fn written(&self) -> usize {
        // Only this handle stores it.
        self.region.inner.written.load(Ordering::Relaxed)
    }

    /// Writes `bytes` at `offset`, which must not lie below what was appended so far; bytes skipped stay as they are.
    pub fn append_at(&mut self, offset: usize, bytes: &[u8]) -> Result<()> {
        let inner = &*self.region.inner;
        let end = inner.end("append to", offset, bytes.len())?;
        let written = self.written();
        if offset < written {
            return Err(inner.error("append to", format!("offset {offset} lies below the {written} bytes already written")));
        }
        // SAFETY: `offset + bytes.len() <= capacity` was checked, and `base` is valid for that many bytes. Nobody reads or
        // writes at or beyond `written`: readers stop at `published <= written`, and `&mut self` is the only writer, with no
        // `written_slice` alive. So the source, even where it is a slice of this region, does not overlap the target.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), inner.base.as_ptr().add(offset), bytes.len());
        }
        inner.bytes.wrote(offset, bytes);
        inner.written.store(end, Ordering::Release);
        Ok(())
    }

    /// Everything, published or not: the writer alone may see what it appended last.
    pub fn written_slice(&self) -> &[u8] {
        // SAFETY: `base` is valid for `capacity >= written` initialised bytes while the region lives. Storing anywhere in
        // the region takes `&mut self`, which the borrow of the result excludes.
        unsafe { std::slice::from_raw_parts(self.region.inner.base.as_ptr(), self.written()) }
    }

    /// Makes the first `len` bytes survive power loss (msync where mapped).
    pub fn sync(&self, len: usize) -> Result<()> {
        self.region.sync(len)
    }

    /// Overwrites bytes with zeros and makes that durable.
    ///
    /// Any range inside the capacity will do: beyond what was written may lie what a crash left there. The lengths stay.
    ///
    /// # Errors
    /// A pass of another gate than the region's, or a range past the capacity, changes nothing.
    pub fn scrub(&mut self, pass: &mut WritePass, offset: usize, len: usize) -> Result<()> {
        let inner = &*self.region.inner;
        if !inner.gate.emptied(pass) {
            return Err(inner.error("scrub", "the write pass belongs to another gate".to_owned()));
        }
        inner.end("scrub", offset, len)?;
        // SAFETY: the range lies inside the capacity. The pass of this region's own gate shows that no read pass is alive,
        // hence no slice of a reader, and none can be made before `pass` is given back; `&mut self` excludes the writer's.
        unsafe {
            std::ptr::write_bytes(inner.base.as_ptr().add(offset), 0, len);
        }
        inner.bytes.zeroed(offset, len);
        inner.sync(offset, len)
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;

    /// Memory that notes what it is told.
    #[derive(Debug)]
    struct Noting {
        heap: Heap,
        notes: Arc<Mutex<Vec<String>>>,
    }

    // SAFETY: everything is the heap's own answer, and the heap lives as long.
    unsafe impl RegionBytes for Noting {
        fn base(&self) -> NonNull<u8> {
            self.heap.base()
        }
        fn capacity(&self) -> usize {
            self.heap.capacity()
        }
        fn path(&self) -> &Path {
            Path::new("noting")
        }
        fn wrote(&self, offset: usize, bytes: &[u8]) {
            self.notes.lock().push(format!("wrote {bytes:?} at {offset}"));
        }
        fn zeroed(&self, offset: usize, len: usize) {
            self.notes.lock().push(format!("zeroed {len} at {offset}"));
        }
        fn sync(&self, offset: usize, len: usize) -> Result<()> {
            self.notes.lock().push(format!("sync {len} at {offset}"));
            Ok(())
        }
    }

    #[test]
    fn what_lies_under_a_region_learns_what_changed() {
        let notes = Arc::default();
        let noting = Noting { heap: Heap::zeroed(100).unwrap(), notes: Arc::clone(&notes) };
        let gate = Gate::new();
        // SAFETY: the memory was made here and is moved in.
        let mut writer = unsafe { RegionWriter::over(Box::new(noting), &gate, 0) }.unwrap();
        writer.append_at(10, &[1, 2]).unwrap();
        writer.append_at(99, &[1, 2]).unwrap_err();
        writer.sync(0).unwrap();
        writer.sync(12).unwrap();
        writer.region().sync(5).unwrap();
        writer.scrub(&mut Gate::new().write(), 0, 12).unwrap_err();
        writer.scrub(&mut gate.write(), 3, 4).unwrap();
        let expected = ["wrote [1, 2] at 10", "sync 12 at 0", "sync 5 at 0", "zeroed 4 at 3", "sync 4 at 3"];
        assert_eq!(*notes.lock(), expected);
    }

    #[test]
    #[should_panic(expected = "lies beyond the 3 bytes written")]
    fn nothing_is_published_that_was_not_written() {
        let mut writer = RegionWriter::anonymous(&Gate::new(), 10).unwrap();
        writer.append_at(0, b"abc").unwrap();
        writer.region().publish(4);
    }

    #[test]
    #[should_panic(expected = "a read pass of another gate")]
    fn a_read_pass_of_another_gate_opens_nothing() {
        let writer = RegionWriter::anonymous(&Gate::new(), 10).unwrap();
        writer.region().slice(&Gate::new().read());
    }

    #[test]
    fn a_row_is_copied_within_its_region() {
        let gate = Gate::new();
        let mut writer = RegionWriter::anonymous(&gate, 10).unwrap();
        writer.append_at(0, b"abcde").unwrap();
        let region = writer.region().clone();
        region.publish(5);
        writer.append_at(5, region.slice(&gate.read())).unwrap();
        assert_eq!(writer.written_slice(), b"abcdeabcde");
    }
}
