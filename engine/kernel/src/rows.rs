//! Slabs: rows of fixed size, written once, read in place.
//!
//! A slab is three files of rows (headers, vectors, keys) and a derived tag column in private memory. Slots are numbered across
//! slabs in order; a slab's place and capacity follow from its number and the dimension alone, so replay lays out the same slabs.
//!
//! Crash behaviour: rows above the length that superblock and log vouch for are ignored and written again by replay.

use std::sync::Arc;

use mnemolith_backends::{Directory, ReadPass, Region, RegionWriter, WritePass};

use crate::error::{KernelError, Result};
use crate::format::{EncodingHeader, KeyRecord, LIVENESS_WORDS_PER_PAGE, PAGE_BYTES, SLOTS_PER_PAGE, row_stride};

/// The folder of the slabs.
pub(crate) const FOLDER: &str = "slabs";
const MIN_SLOTS: usize = 16;
const MAX_SLOTS: usize = 65_536;
const FIRST_VECTOR_BYTES: usize = 1 << 20;
const MAX_VECTOR_BYTES: usize = 256 << 20;
/// Slots are numbered in 32 bits.
pub(crate) const MAX_SLOT: u64 = u32::MAX as u64 - 1;

/// Slots of the slab with this number, for vectors of this dimension.
pub(crate) fn slab_capacity(number: usize, dimension: usize) -> usize {
    let row_bytes = row_stride(dimension) * 4;
    let floor = |bytes: usize| 1_usize << (bytes / row_bytes).max(1).ilog2();
    let first = floor(FIRST_VECTOR_BYTES).clamp(MIN_SLOTS, MAX_SLOTS);
    let most = floor(MAX_VECTOR_BYTES).clamp(MIN_SLOTS, MAX_SLOTS);
    first.checked_shl(u32::try_from(number.min(16)).unwrap_or(16)).unwrap_or(most).min(most)
}

/// A file of a slab.
pub(crate) fn slab_path(number: usize, file: &str) -> String {
    format!("{FOLDER}/{number:08}/{file}.slab")
}

/// Pages of a slab's strength file, and of its liveness file.
pub(crate) fn page_counts(capacity: usize) -> (usize, usize) {
    (capacity.div_ceil(SLOTS_PER_PAGE), capacity.div_ceil(64 * LIVENESS_WORDS_PER_PAGE))
}

/// The readers' handles of one slab.
#[derive(Debug)]
pub(crate) struct Rows {
    headers: Region,
    vectors: Region,
    keys: Region,
    masks: Region,
    /// Values per row, padding included.
    stride: usize,
}

impl Rows {
    pub(crate) fn headers<'a>(&'a self, pass: &'a ReadPass) -> &'a [EncodingHeader] {
        bytemuck::cast_slice(self.headers.slice(pass))
    }
    pub(crate) fn vectors<'a>(&'a self, pass: &'a ReadPass) -> &'a [f32] {
        bytemuck::cast_slice(self.vectors.slice(pass))
    }
    pub(crate) fn keys<'a>(&'a self, pass: &'a ReadPass) -> &'a [KeyRecord] {
        bytemuck::cast_slice(self.keys.slice(pass))
    }
    /// The derived column of tag masks.
    pub(crate) fn masks<'a>(&'a self, pass: &'a ReadPass) -> &'a [u64] {
        bytemuck::cast_slice(self.masks.slice(pass))
    }
    pub(crate) fn stride(&self) -> usize {
        self.stride
    }

    /// Makes the first `len` rows survive power loss.
    pub(crate) fn sync(&self, len: usize) -> Result<()> {
        self.headers.sync(len * size_of::<EncodingHeader>())?;
        self.vectors.sync(len * self.stride * 4)?;
        self.keys.sync(len * size_of::<KeyRecord>())?;
        Ok(())
    }
}

/// The writer's handles of one slab.
#[derive(Debug)]
pub(crate) struct RowWriters {
    headers: RegionWriter,
    vectors: RegionWriter,
    keys: RegionWriter,
    masks: RegionWriter,
    stride: usize,
    pub(crate) capacity: usize,
    /// The slab's first slot.
    pub(crate) base: u64,
}

impl RowWriters {
    /// A new slab, every block allocated.
    ///
    /// # Errors
    /// `NoSpace`; what was created of it is replaced by the next attempt.
    pub(crate) fn create(dir: &dyn Directory, number: usize, base: u64, dimension: usize) -> Result<Self> {
        let capacity = slab_capacity(number, dimension);
        let stride = row_stride(dimension);
        dir.create_folder(&format!("{FOLDER}/{number:08}"))?;
        let (strength_pages, liveness_pages) = page_counts(capacity);
        for (file, pages) in [("strength", strength_pages), ("liveness", liveness_pages)] {
            dir.create_zeroed(&slab_path(number, file), (pages * PAGE_BYTES) as u64)?;
        }
        Ok(Self {
            headers: dir.create_region(&slab_path(number, "headers"), (capacity * size_of::<EncodingHeader>()) as u64)?,
            vectors: dir.create_region(&slab_path(number, "vectors"), (capacity * stride * 4) as u64)?,
            keys: dir.create_region(&slab_path(number, "keys"), (capacity * size_of::<KeyRecord>()) as u64)?,
            masks: RegionWriter::anonymous(dir.gate(), capacity * 8)?,
            stride,
            capacity,
            base,
        })
    }

    /// A slab of which a checkpoint vouches for `len` rows. The tag column is derived again; no vector row is read.
    pub(crate) fn open(dir: &dyn Directory, number: usize, base: u64, dimension: usize, len: usize) -> Result<Self> {
        let capacity = slab_capacity(number, dimension);
        let stride = row_stride(dimension);
        let region = |file: &str, row_bytes: usize| {
            dir.open_region(&slab_path(number, file), (capacity * row_bytes) as u64, (len * row_bytes) as u64)
        };
        let mut slab = Self {
            headers: region("headers", size_of::<EncodingHeader>())?,
            vectors: region("vectors", stride * 4)?,
            keys: region("keys", size_of::<KeyRecord>())?,
            masks: RegionWriter::anonymous(dir.gate(), capacity * 8)?,
            stride,
            capacity,
            base,
        };
        let masks: Vec<u64> = slab.headers().iter().map(|header| header.tags).collect();
        slab.masks.append_at(0, bytemuck::cast_slice(&masks))?;
        slab.masks.region().publish(masks.len() * 8);
        Ok(slab)
    }

    pub(crate) fn rows(&self) -> Rows {
        Rows {
            headers: self.headers.region().clone(),
            vectors: self.vectors.region().clone(),
            keys: self.keys.region().clone(),
            masks: self.masks.region().clone(),
            stride: self.stride,
        }
    }

    /// Rows written so far.
    pub(crate) fn len(&self) -> usize {
        self.keys.written() / size_of::<KeyRecord>()
    }

    pub(crate) fn headers(&self) -> &[EncodingHeader] {
        bytemuck::cast_slice(self.headers.written_slice())
    }
    pub(crate) fn vectors(&self) -> &[f32] {
        bytemuck::cast_slice(self.vectors.written_slice())
    }
    pub(crate) fn keys(&self) -> &[KeyRecord] {
        bytemuck::cast_slice(self.keys.written_slice())
    }

    /// Writes the next row. Readers find it once a view counts it in.
    pub(crate) fn append(&mut self, header: &EncodingHeader, key: &KeyRecord, row: &[f32]) -> Result<()> {
        let index = self.len();
        if index >= self.capacity || row.len() != self.stride {
            return Err(KernelError::Internal("a row that does not fit its slab"));
        }
        let writes: [(&mut RegionWriter, &[u8]); 4] = [
            (&mut self.headers, bytemuck::bytes_of(header)),
            (&mut self.vectors, bytemuck::cast_slice(row)),
            (&mut self.masks, bytemuck::bytes_of(&header.tags)),
            (&mut self.keys, bytemuck::bytes_of(key)),
        ];
        for (region, bytes) in writes {
            let end = (index + 1) * bytes.len();
            region.append_at(index * bytes.len(), bytes)?;
            region.region().publish(end);
        }
        Ok(())
    }

    /// Destroys whatever lies above the rows written so far: rows that a crash left and nobody acknowledged.
    pub(crate) fn scrub_above(&mut self, pass: &mut WritePass) -> Result<()> {
        for region in [&mut self.headers, &mut self.keys, &mut self.vectors] {
            scrub_above(region, pass)?;
        }
        Ok(())
    }

    /// Destroys a row's bytes.
    pub(crate) fn scrub(&mut self, pass: &mut WritePass, index: usize) -> Result<()> {
        let row_bytes = self.stride * 4;
        self.headers.scrub(pass, index * size_of::<EncodingHeader>(), size_of::<EncodingHeader>())?;
        self.keys.scrub(pass, index * size_of::<KeyRecord>(), size_of::<KeyRecord>())?;
        self.vectors.scrub(pass, index * row_bytes, row_bytes)?;
        self.masks.scrub(pass, index * 8, 8)?;
        Ok(())
    }
}

/// Destroys whatever lies above what was written to a region.
pub(crate) fn scrub_above(region: &mut RegionWriter, pass: &mut WritePass) -> Result<()> {
    let (written, capacity) = (region.written(), region.region().capacity());
    Ok(region.scrub(pass, written, capacity - written)?)
}

/// A slab as its number, with shared reader handles.
pub(crate) type SharedRows = Arc<Rows>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacities_follow_the_rules_for_every_dimension() {
        for dimension in [1, 7, 16, 50, 100, 300, 384, 768, 1536, 4096, 16_384, 65_535] {
            let row_bytes = row_stride(dimension) * 4;
            assert_eq!(row_bytes % 64, 0);
            let mut previous = 0;
            for number in 0..24 {
                let slots = slab_capacity(number, dimension);
                assert!(slots.is_power_of_two() && (MIN_SLOTS..=MAX_SLOTS).contains(&slots), "{dimension}: {slots}");
                assert!(slots * row_bytes <= MAX_VECTOR_BYTES);
                assert!(number == 0 || slots == previous || slots == 2 * previous);
                previous = slots;
            }
            let first = slab_capacity(0, dimension);
            assert!(first * row_bytes <= FIRST_VECTOR_BYTES || first == MIN_SLOTS);
        }
        assert_eq!(slab_capacity(0, 384), 512);
    }
}
