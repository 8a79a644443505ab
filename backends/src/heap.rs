//! Private zeroed memory that a region can lie in.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::io;
use std::path::Path;
use std::ptr::NonNull;

use crate::Result;
use crate::region::{REGION_ALIGN, RegionBytes};

/// Zeroed memory, 64-byte aligned, given back on drop.
///
/// The block is larger than asked and aligned by hand: an allocator asked for zeroed memory of unusual alignment
/// touches every page of it, and one asked for plain zeroed memory takes pages that are zero already.
#[derive(Debug)]
pub(crate) struct Heap {
    block: NonNull<u8>,
    layout: Layout,
    base: NonNull<u8>,
    capacity: usize,
}

// SAFETY: it owns its block, and lets nobody at it except through the pointer that `RegionBytes` hands out.
unsafe impl Send for Heap {}
// SAFETY: as above; no method touches the bytes.
unsafe impl Sync for Heap {}

impl Heap {
    /// `capacity` zero bytes, or an error where there is not that much memory.
    pub(crate) fn zeroed(capacity: usize) -> io::Result<Self> {
        let refused = || io::Error::new(io::ErrorKind::OutOfMemory, format!("no memory for {capacity} bytes"));
        let len = capacity.checked_add(REGION_ALIGN).ok_or_else(refused)?;
        let layout = Layout::from_size_align(len, 1).map_err(|_| refused())?;
        // SAFETY: `len >= REGION_ALIGN`, so the size is not zero.
        let block = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(refused)?;
        let skip = block.as_ptr().addr().next_multiple_of(REGION_ALIGN) - block.as_ptr().addr();
        // SAFETY: `skip < REGION_ALIGN` and the block is `capacity + REGION_ALIGN` bytes long.
        let base = unsafe { block.add(skip) };
        Ok(Self { block, layout, base, capacity })
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        // SAFETY: `block` came from `alloc_zeroed` with this layout and is given back once.
        unsafe { dealloc(self.block.as_ptr(), self.layout) }
    }
}

// SAFETY: `base` lies less than `REGION_ALIGN` into a zeroed block of `capacity + REGION_ALIGN` bytes, is aligned by
// construction, never changes, and the block lives until drop. Nothing here touches the bytes.
unsafe impl RegionBytes for Heap {
    fn base(&self) -> NonNull<u8> {
        self.base
    }

    fn capacity(&self) -> usize {
        self.capacity
    }

    fn path(&self) -> &Path {
        Path::new("private memory")
    }

    fn sync(&self, _offset: usize, _len: usize) -> Result<()> {
        Ok(())
    }
}
