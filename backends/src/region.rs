//! Append-only bytes that one writer extends and many readers read in place.

use std::sync::Arc;

use crate::Result;

/// Lets readers in together and keeps them out while bytes are destroyed.
#[derive(Debug, Clone)]
pub struct Gate {}

/// A reader's permission: while it lives no published byte changes.
#[derive(Debug)]
pub struct ReadPass {}

/// The scrubber's permission: while it lives no reader holds a slice.
#[derive(Debug)]
pub struct WritePass {}

impl Gate {
    /// A new gate, open.
    pub fn new() -> Self {
        todo!()
    }
    /// Enters as a reader. Recursive: a thread that already holds a pass never waits for a scrubber that waits for it.
    pub fn read(&self) -> ReadPass {
        todo!()
    }
    /// Waits until no reader is inside.
    pub fn write(&self) -> WritePass {
        todo!()
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

/// A reader's handle.
#[derive(Debug, Clone)]
pub struct Region {
    inner: Arc<()>,
}

impl Region {
    /// Bytes it can hold.
    pub fn capacity(&self) -> usize {
        todo!()
    }
    /// Bytes that readers may see (acquire).
    pub fn published(&self) -> usize {
        todo!()
    }
    /// The published bytes, 64-byte aligned at their start.
    pub fn slice<'a>(&'a self, _pass: &'a ReadPass) -> &'a [u8] {
        let _ = &self.inner;
        todo!()
    }
    /// Raises the published length (release); never lowers it.
    pub fn publish(&self, _len: usize) {
        todo!()
    }
}

/// The writer's handle, unique.
#[derive(Debug)]
pub struct RegionWriter {
    region: Region,
}

impl RegionWriter {
    /// Private zeroed memory, 64-byte aligned, behind the same face.
    pub fn anonymous(_gate: &Gate, _capacity: usize) -> Result<Self> {
        todo!()
    }
    /// The reader's handle.
    pub fn region(&self) -> &Region {
        &self.region
    }
    /// End of what was appended.
    pub fn written(&self) -> usize {
        todo!()
    }
    /// Writes `bytes` at `offset`, which must not lie below what was appended so far; bytes skipped stay as they are.
    pub fn append_at(&mut self, _offset: usize, _bytes: &[u8]) -> Result<()> {
        todo!()
    }
    /// Everything, published or not: the writer alone may see what it appended last.
    pub fn written_slice(&self) -> &[u8] {
        todo!()
    }
    /// Makes the first `len` bytes survive power loss (msync where mapped).
    pub fn sync(&self, _len: usize) -> Result<()> {
        todo!()
    }
    /// Overwrites bytes with zeros and makes that durable.
    pub fn scrub(&mut self, _pass: &mut WritePass, _offset: usize, _len: usize) -> Result<()> {
        todo!()
    }
}
