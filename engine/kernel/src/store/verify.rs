//! `verify`: reads everything and compares it with its checksums and with what must agree with it.

use mnemolith_backends::Directory;

use super::open::SUPERBLOCK;
use super::state::{PageKind, decode_state_page, state_path};
use super::{Shared, Store};
use crate::error::{KernelError, Result};
use crate::format::{COPY_BYTES, PAGE_BYTES, SLOTS_PER_PAGE, choose_superblock, decode_liveness_page};
use crate::index::{SlabIndex, index_path};
use crate::rows::{page_counts, slab_path};
use crate::view::{Reader, SlabView};
use crate::wal::recovery::{self, Expectation};

const MAX_SMALL_FILE_BYTES: u64 = 1 << 32;

/// Something that is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file, relative to the namespace.
    pub file: String,
    /// Byte offset in it.
    pub offset: u64,
    /// The slot it concerns, where one is known.
    pub slot: Option<u64>,
    /// What does not hold.
    pub what: String,
}

/// What a verification read, and what it found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verification {
    /// Rows checked: header, keys, vector, payload.
    pub rows: u64,
    /// Mutable pages checked.
    pub pages: u64,
    /// Index files checked.
    pub index_files: u64,
    /// Log records checked.
    pub log_records: u64,
    /// What is damaged; empty where all is well.
    pub problems: Vec<Problem>,
}

impl Verification {
    fn report(&mut self, file: impl Into<String>, offset: u64, slot: Option<u64>, what: impl Into<String>) {
        self.problems.push(Problem { file: file.into(), offset, slot, what: what.into() });
    }

    fn report_error(&mut self, error: KernelError, slot: Option<u64>) -> Result<()> {
        match error {
            KernelError::Corrupt { file, offset, what, .. } => self.report(file, offset, slot, what),
            other => return Err(other),
        }
        Ok(())
    }
}

impl Store {
    /// Checks every checksum of the namespace: superblock, snapshot, rows, payloads, mutable pages, index files and log. Writes nothing;
    /// readers and writers go on, checkpoints wait.
    ///
    /// # Errors
    /// Where the device does not answer. Damage is no error: it is in the result.
    pub fn verify(&self) -> Result<Verification> {
        let checkpointer = self.shared.checkpointer.lock();
        let mut found = Verification::default();
        let dir = self.shared.dir.as_ref();
        verify_small_files(dir, checkpointer.superblock.sequence, checkpointer.superblock.state_crc, &mut found)?;
        let reader = self.reader();
        for (number, slab) in reader.view.slabs.iter().enumerate() {
            verify_rows(&reader, number, slab, &mut found)?;
            let covered = checkpointer.superblock.slabs.get(number).map_or(0, |extent| extent.len);
            if covered > 0 {
                verify_pages(dir, number, slab, &mut found)?;
                verify_index(dir, number, covered as u32, &mut found)?;
            }
        }
        let superblock = &checkpointer.superblock;
        let expect = Expectation {
            store_uuid: superblock.store_uuid,
            first_segment: superblock.first_segment,
            checkpoint_lsn: superblock.checkpoint_lsn,
            durable_lsn: superblock.durable_lsn,
        };
        verify_log(&self.shared, &expect, &mut found)?;
        Ok(found)
    }
}

fn verify_small_files(dir: &dyn Directory, sequence: u64, state_crc: u32, found: &mut Verification) -> Result<()> {
    let file = dir.read(SUPERBLOCK, 2 * COPY_BYTES as u64)?.unwrap_or_default();
    match choose_superblock(&file) {
        Ok((block, damaged)) => {
            if damaged || block.sequence != sequence {
                found.report(SUPERBLOCK, 0, None, "one of the two copies is damaged");
            }
        }
        Err(error) => found.report_error(error, None)?,
    }
    let path = state_path(sequence);
    let state = dir.read(&path, MAX_SMALL_FILE_BYTES)?.unwrap_or_default();
    if super::state::Snapshot::decode(&state, state_crc).is_none() {
        found.report(path, 0, None, "the state snapshot is damaged");
    }
    Ok(())
}

fn verify_rows(reader: &Reader, number: usize, slab: &SlabView, found: &mut Verification) -> Result<()> {
    for index in 0..slab.len {
        let slot = slab.base + index as u64;
        let header = slab.rows.headers(&reader.pass).get(index);
        if slab.is_dead(index) && header.is_some_and(crate::format::EncodingHeader::is_scrubbed) {
            continue;
        }
        found.rows += 1;
        let checked = reader.row(slot).and_then(|row| {
            reader.vector(&row)?;
            reader.payload(&row)
        });
        if let Err(error) = checked {
            found.report_error(error, Some(slot))?;
        } else if slab.rows.masks(&reader.pass).get(index) != header.map(|header| &header.tags) {
            found.report(slab_path(number, "headers"), (index * 64) as u64, Some(slot), "the tag column disagrees with the header");
        }
    }
    Ok(())
}

fn verify_pages(dir: &dyn Directory, number: usize, slab: &SlabView, found: &mut Verification) -> Result<()> {
    let (strength_pages, liveness_pages) = page_counts(slab.capacity);
    for (kind, pages) in [(PageKind::Strength, strength_pages), (PageKind::Liveness, liveness_pages)] {
        let path = slab_path(number, kind.file());
        let file = dir.read(&path, MAX_SMALL_FILE_BYTES)?.unwrap_or_default();
        for page in 0..pages {
            found.pages += 1;
            let offset = (page * PAGE_BYTES) as u64;
            let bytes = file.get(page * PAGE_BYTES..(page + 1) * PAGE_BYTES).unwrap_or_default();
            let whole = match kind {
                PageKind::Liveness => decode_liveness_page(number as u32, page as u32, bytes).is_some(),
                PageKind::Strength => {
                    !bytes.is_empty() && decode_state_page(slab.base + (page * SLOTS_PER_PAGE) as u64, bytes).1.is_empty()
                }
            };
            if !whole {
                found.report(&path, offset, None, "the page's checksum does not match");
            }
        }
    }
    Ok(())
}

fn verify_index(dir: &dyn Directory, number: usize, len: u32, found: &mut Verification) -> Result<()> {
    found.index_files += 1;
    let file = dir.read(&index_path(number), MAX_SMALL_FILE_BYTES)?.unwrap_or_default();
    if SlabIndex::decode(&file, number, len).is_none() {
        found.report(index_path(number), 0, None, "the index file does not check out; the next open rebuilds it");
    }
    Ok(())
}

/// Reads the log as recovery would, with the committer held so that its end stands still.
fn verify_log(shared: &Shared, expect: &Expectation, found: &mut Verification) -> Result<()> {
    let _committer = shared.committer.lock();
    let mut records = 0;
    let end = recovery::scan(shared.dir.as_ref(), expect, &mut |_, _| {
        records += 1;
        Ok(())
    });
    found.log_records = records;
    match end {
        Ok(end) => {
            if let Some(cut) = end.cut.filter(|cut| !cut.blank) {
                found.report(cut.path, cut.offset, None, "bytes follow the last whole frame");
            }
            for segment in &end.segments {
                segment.close();
            }
        }
        Err(error) => found.report_error(error, None)?,
    }
    Ok(())
}
