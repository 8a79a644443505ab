//! Payload segments: append-only bytes beside the slabs, addressed by (segment, offset).
//!
//! A segment's capacity follows from its number and its first record, so replay lays out the same segments.

use mnemolith_backends::{Directory, RegionWriter};

use crate::error::{KernelError, Result};
use crate::format::PayloadAddress;

/// The folder of the segments.
pub(crate) const FOLDER: &str = "payload";
const FIRST_BYTES: usize = 256 << 10;
const MAX_BYTES: usize = 64 << 20;
const ALIGN: usize = 8;

/// The file of a segment.
pub(crate) fn segment_path(number: u32) -> String {
    format!("{FOLDER}/{number:08}.seg")
}

/// Bytes of a segment that starts with a record of `record_len` bytes.
fn capacity(number: usize, record_len: usize) -> usize {
    FIRST_BYTES.checked_shl(u32::try_from(number.min(16)).unwrap_or(16)).unwrap_or(MAX_BYTES).min(MAX_BYTES).max(record_len)
}

/// The writer's handles.
#[derive(Debug, Default)]
pub(crate) struct PayloadWriters {
    pub(crate) segments: Vec<RegionWriter>,
}

impl PayloadWriters {
    /// Makes room for a record and says where it will lie; whether a segment was added.
    ///
    /// # Errors
    /// `NoSpace`: nothing has changed.
    pub(crate) fn reserve(&mut self, dir: &dyn Directory, len: usize) -> Result<(PayloadAddress, bool)> {
        if let Some(last) = self.segments.last().filter(|last| last.written() > 0) {
            let offset = last.written().next_multiple_of(ALIGN);
            if offset + len <= last.region().capacity() {
                return Ok((self.address(self.segments.len() - 1, offset)?, false));
            }
        }
        self.drop_unused();
        self.add(dir, len)?;
        Ok((self.address(self.segments.len() - 1, 0)?, true))
    }

    /// Forgets a segment that was made for a record that was refused afterwards: its capacity followed from that record, and replay,
    /// which never sees it, would lay out another one. The next attempt replaces the file.
    fn drop_unused(&mut self) {
        self.segments.pop_if(|last| last.written() == 0);
    }

    /// The segments that hold records.
    pub(crate) fn used(&self) -> impl Iterator<Item = &RegionWriter> {
        self.segments.iter().filter(|segment| segment.written() > 0)
    }

    fn address(&self, segment: usize, offset: usize) -> Result<PayloadAddress> {
        let address = u32::try_from(segment).ok().zip(u32::try_from(offset).ok());
        let (segment, offset) = address.ok_or(KernelError::Internal("a payload address beyond 32 bits"))?;
        Ok(PayloadAddress { segment, offset })
    }

    fn add(&mut self, dir: &dyn Directory, record_len: usize) -> Result<()> {
        let number = self.segments.len();
        let path = segment_path(u32::try_from(number).unwrap_or(u32::MAX));
        self.segments.push(dir.create_region(&path, capacity(number, record_len) as u64)?);
        Ok(())
    }

    /// Writes a record at the address it was promised or logged with; whether a segment was added.
    pub(crate) fn write(&mut self, dir: &dyn Directory, address: PayloadAddress, bytes: &[u8]) -> Result<bool> {
        let number = address.segment as usize;
        if number < self.segments.len().saturating_sub(1) {
            return Err(KernelError::Internal("a payload record behind a later segment"));
        }
        let added = number == self.segments.len();
        if added {
            self.add(dir, bytes.len())?;
        }
        let segment = self.segments.get_mut(number).ok_or(KernelError::Internal("a payload segment out of order"))?;
        segment.append_at(address.offset as usize, bytes)?;
        segment.region().publish(address.offset as usize + bytes.len());
        Ok(added)
    }

    /// The bytes of a record.
    pub(crate) fn read(&self, address: PayloadAddress, len: u32) -> Option<&[u8]> {
        let from = address.offset as usize;
        self.segments.get(address.segment as usize)?.written_slice().get(from..from + len as usize)
    }
}
