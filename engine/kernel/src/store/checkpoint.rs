//! Checkpoints: make slabs and snapshots cover the log up to an LSN, so that older log can go.
//!
//! Order, each step durable before the next: log to the captured LSN; rows and payload; state snapshot (with copies of the mutable
//! pages) and changed index files; superblock into the other copy; mutable pages in place; then older segments and the older snapshot go.
//!
//! Crash behaviour: before the superblock the old checkpoint counts and everything it needs is still there; after it the new one
//! does, and its snapshot carries every page that may be torn. A purge's bytes are destroyed after the superblock; the mark in the
//! snapshot makes the next open finish the work.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mnemolith_backends::WritePass;
use parking_lot::MutexGuard;

use super::head::{Dirty, Head};
use super::open::SUPERBLOCK;
use super::state::{Snapshot, state_path};
use super::{Shared, Store, picture};
use crate::error::{KernelError, Result};
use crate::format::{Extent, PAGE_BYTES, PayloadAddress, Superblock};
use crate::index::index_path;
use crate::pool::Job;
use crate::rows::{scrub_above, slab_path};
use crate::view::View;
use crate::wal::tail::{Segment, remove_segments};

/// The last checkpoint.
#[derive(Debug)]
pub(crate) struct Checkpointer {
    pub(crate) superblock: Superblock,
}

/// What a checkpoint did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckpointOutcome {
    /// The LSN it covers.
    pub lsn: u64,
    /// Mutable pages written.
    pub pages: u64,
    /// Log segments removed.
    pub segments_removed: u64,
    /// Purged rows whose bytes were destroyed.
    pub rows_destroyed: u64,
}

/// How long a checkpoint waits for the readers that keep purged bytes in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Until the last of them is gone.
    Readers,
    /// Not at all: the caller may hold a reader itself. The purge stays marked and the next checkpoint finishes it.
    None,
}

/// What was taken under the sequencer's lock.
struct Capture {
    view: Arc<View>,
    dirty: Dirty,
    snapshot: Snapshot,
    /// Segments from here on are still needed.
    first_segment: u64,
    obsolete: Vec<Arc<Segment>>,
    payloads: Vec<Extent>,
    scrubs: Vec<u64>,
    log_bytes: u64,
}

impl Checkpointer {
    pub(crate) fn new(superblock: Superblock) -> Self {
        Self { superblock }
    }
}

impl Store {
    /// Writes a checkpoint now. Where something was purged it waits for the readers that may be looking at it: a thread that holds a
    /// [`Reader`](crate::Reader) must not call it.
    ///
    /// # Errors
    /// `NoSpace`: the old checkpoint and the log stay, nothing is lost. Any other device error latches.
    pub fn checkpoint(&self) -> Result<CheckpointOutcome> {
        let mut checkpointer = self.shared.checkpointer.lock();
        self.shared.run_checkpoint(&mut checkpointer, Patience::Readers)
    }
}

impl Shared {
    pub(crate) fn run_checkpoint(&self, checkpointer: &mut Checkpointer, patience: Patience) -> Result<CheckpointOutcome> {
        self.check()?;
        if self.is_covered(&checkpointer.superblock) {
            let lsn = checkpointer.superblock.checkpoint_lsn;
            return Ok(CheckpointOutcome { lsn, pages: 0, segments_removed: 0, rows_destroyed: 0 });
        }
        let capture = self.capture(checkpointer).inspect_err(|error| self.latch(error))?;
        let written = self.prepare(checkpointer, &capture).and_then(|(superblock, copy)| {
            // From here on a failure leaves open which checkpoint counts: whatever it is, it latches.
            self.make_it_count(checkpointer, &capture, superblock, &copy, patience).inspect_err(|error| self.fail(error))
        });
        if written.is_err() {
            self.put_back(capture);
        }
        written
    }

    /// Whether the last checkpoint covers everything already.
    fn is_covered(&self, superblock: &Superblock) -> bool {
        let head = self.head.lock();
        let unchanged = head.dirty.slabs.is_empty() && head.dirty.states.is_empty() && head.dirty.dead.is_empty();
        unchanged && head.view.lsn == superblock.checkpoint_lsn && head.scrubs.is_empty() && !superblock.scrub_pending
    }

    fn capture(&self, checkpointer: &Checkpointer) -> Result<Capture> {
        let mut guard = self.head.lock();
        let head = &mut *guard;
        let current = &head.view;
        // A purge has to leave every segment that may hold the record; so has a log that is long enough to be worth it.
        let long = head.tail.segments.len() > 1 || head.tail.bytes_since_checkpoint >= crate::wal::FIRST_SEGMENT_BYTES / 2;
        if head.tail.current_is_used() && (long || !head.scrubs.is_empty()) {
            // A full device has no room for a segment, and a checkpoint is what gives room back: then all segments but the current one go.
            // What was purged may lie in that one too, so it cannot stay for a purge.
            head.tail.rotate(current.lsn + 1, &|| picture(current)).or_else(|error| {
                let may_stay = error.is_no_space() && head.scrubs.is_empty();
                if may_stay { Ok(()) } else { Err(error) }
            })?;
        } else {
            head.tail.seal(&|| picture(current));
        }
        head.tail.frame_bytes_since_checkpoint = 0;
        drop_lonely_tags(head);
        drop_lonely_sessions(head);
        head.forget_purged();
        let view = picture(&head.view);
        let dirty = std::mem::take(&mut head.dirty);
        let snapshot = Snapshot::capture(head, &view, &dirty);
        let obsolete = head.tail.segments.len().saturating_sub(1);
        let obsolete: Vec<_> = head.tail.segments.drain(..obsolete).collect();
        let first_segment = head.tail.segments.first().map_or(checkpointer.superblock.first_segment, |segment| segment.sequence);
        let payloads =
            head.payload.used().map(|segment| Extent { capacity: segment.region().capacity() as u64, len: segment.written() as u64 });
        Ok(Capture {
            payloads: payloads.collect(),
            scrubs: head.scrubs.iter().copied().collect(),
            log_bytes: std::mem::take(&mut head.tail.bytes_since_checkpoint),
            view,
            dirty,
            snapshot,
            first_segment,
            obsolete,
        })
    }

    /// A checkpoint that failed leaves everything to the next one.
    fn put_back(&self, capture: Capture) {
        let mut head = self.head.lock();
        head.dirty.states.extend(capture.dirty.states);
        head.dirty.dead.extend(capture.dirty.dead);
        head.dirty.slabs.extend(capture.dirty.slabs);
        head.dirty.payloads.extend(capture.dirty.payloads);
        head.tail.segments.splice(0..0, capture.obsolete);
        head.tail.bytes_since_checkpoint += capture.log_bytes;
    }

    /// Everything the new superblock refers to, and its bytes. A full device is a clean refusal where it met a temporary file; a sync that failed
    /// latches whatever it says, because the system may have dropped what it could not write.
    fn prepare(&self, checkpointer: &Checkpointer, capture: &Capture) -> Result<(Superblock, Vec<u8>)> {
        self.drain();
        self.check()?;
        self.sync_log()?;
        self.sync_rows(capture).inspect_err(|error| self.fail(error))?;
        let sequence = checkpointer.superblock.sequence + 1;
        let state = capture.snapshot.encode();
        self.replace(&state_path(sequence), &state)?;
        for &slab in &capture.dirty.slabs {
            let file = self.index.read().get(slab).map(|index| index.encode(slab));
            if let Some(file) = file {
                self.replace(&index_path(slab), &file)?;
            }
        }
        let superblock = self.superblock(&checkpointer.superblock, capture, sequence, Snapshot::crc_of(&state));
        let copy = superblock.encode()?;
        Ok((superblock, copy))
    }

    fn replace(&self, path: &str, bytes: &[u8]) -> Result<()> {
        self.dir.replace(path, bytes).map_err(KernelError::from).inspect_err(|error| self.latch(error))
    }

    /// Writes the superblock, and does what had to wait for it.
    fn make_it_count(
        &self,
        checkpointer: &mut Checkpointer,
        capture: &Capture,
        superblock: Superblock,
        copy: &[u8],
        patience: Patience,
    ) -> Result<CheckpointOutcome> {
        let dir = self.dir.as_ref();
        let previous = checkpointer.superblock.sequence;
        dir.write_at(SUPERBLOCK, &[(superblock.offset(), copy)])?;
        self.checkpoint_lsn.store(superblock.checkpoint_lsn, Ordering::Release);
        checkpointer.superblock = superblock;
        self.write_pages(capture)?;
        let rows_destroyed = self.destroy_purged(&capture.scrubs, patience)?;
        remove_segments(dir, &capture.obsolete, !capture.scrubs.is_empty())?;
        dir.remove_file(&state_path(previous))?;
        dir.sync_folder(crate::index::FOLDER)?;
        Ok(CheckpointOutcome {
            lsn: capture.view.lsn,
            pages: capture.snapshot.pages.len() as u64,
            segments_removed: capture.obsolete.len() as u64,
            rows_destroyed,
        })
    }

    fn sync_rows(&self, capture: &Capture) -> Result<()> {
        for slab in capture.dirty.slabs.iter().filter_map(|&slab| capture.view.slabs.get(slab)) {
            slab.rows.sync(slab.len)?;
        }
        for &segment in &capture.dirty.payloads {
            if let Some((region, extent)) = capture.view.payloads.get(segment).zip(capture.payloads.get(segment)) {
                region.sync(extent.len as usize)?;
            }
        }
        Ok(())
    }

    fn superblock(&self, last: &Superblock, capture: &Capture, sequence: u64, state_crc: u32) -> Superblock {
        let slabs = capture.view.slabs.iter().map(|slab| Extent { capacity: slab.capacity as u64, len: slab.len as u64 });
        Superblock {
            sequence,
            checkpoint_lsn: capture.view.lsn,
            durable_lsn: capture.view.lsn,
            first_segment: capture.first_segment,
            state_crc,
            scrub_pending: !capture.scrubs.is_empty(),
            slabs: slabs.collect(),
            payloads: capture.payloads.clone(),
            ..last.clone()
        }
    }

    fn write_pages(&self, capture: &Capture) -> Result<()> {
        let mut pages = capture.snapshot.pages.iter().peekable();
        while let Some(((kind, slab, _), _)) = pages.peek().copied() {
            let mut runs: Vec<(u64, &[u8])> = Vec::new();
            while let Some(((_, _, page), bytes)) = pages.next_if(|((k, s, _), _)| k == kind && s == slab) {
                runs.push((u64::from(*page) * PAGE_BYTES as u64, bytes));
            }
            self.dir.write_at(&slab_path(*slab as usize, kind.file()), &runs)?;
        }
        Ok(())
    }

    /// Keeps readers and writers out at once. Neither lock is waited for with the other one held: a writer may want to read, and a
    /// reader may want to look something up among what is sequenced.
    fn alone(&self, patience: Patience) -> Option<(WritePass, MutexGuard<'_, Head>)> {
        loop {
            let pass = match patience {
                Patience::Readers => self.dir.gate().write(),
                Patience::None => self.dir.gate().try_write()?,
            };
            if let Some(head) = self.head.try_lock() {
                return Some((pass, head));
            }
            drop(pass);
            if patience == Patience::None {
                return None;
            }
            drop(self.head.lock());
        }
    }

    /// Destroys the bytes of purged rows once no reader can be looking at them.
    fn destroy_purged(&self, scrubs: &[u64], patience: Patience) -> Result<u64> {
        if scrubs.is_empty() {
            return Ok(0);
        }
        let Some((mut pass, mut guard)) = self.alone(patience) else {
            return Ok(0);
        };
        let head = &mut *guard;
        sweep(head, &mut pass)?;
        for &slot in scrubs {
            let Some((number, _, index)) = head.view.locate(slot) else { continue };
            let Some(slab) = head.slabs.get_mut(number) else { continue };
            let Some(header) = slab.headers().get(index).copied() else { continue };
            let address = PayloadAddress::from_bits(header.payload_at);
            if header.is_whole()
                && let Some(segment) = head.payload.segments.get_mut(address.segment as usize)
            {
                segment.scrub(&mut pass, address.offset as usize, header.payload_len as usize)?;
            }
            slab.scrub(&mut pass, index)?;
            head.scrubs.remove(&slot);
        }
        Ok(scrubs.len() as u64)
    }
}

/// Destroys, once after an open, what an earlier process may have left above the rows and payloads that count: a memory that was
/// written and never acknowledged, stored again by its caller and purged since, must not lie there a second time.
fn sweep(head: &mut Head, pass: &mut WritePass) -> Result<()> {
    if head.swept {
        return Ok(());
    }
    for slab in &mut head.slabs {
        slab.scrub_above(pass)?;
    }
    for segment in &mut head.payload.segments {
        scrub_above(segment, pass)?;
    }
    head.swept = true;
    Ok(())
}

/// A purge takes with it the names of sessions of which no other row is left, forgotten ones included: those keep the name beside
/// their text.
fn drop_lonely_sessions(head: &mut Head) {
    let purged = head.scrubs.iter().filter_map(|&slot| head.row(slot));
    let mut lonely: BTreeSet<u32> = purged.map(|(header, _)| header.session).filter(|&session| session != 0).collect();
    for slab in &head.slabs {
        for (slot, header) in (slab.base..).zip(slab.headers()) {
            if lonely.is_empty() {
                return;
            }
            if lonely.contains(&header.session) && !head.scrubs.contains(&slot) {
                lonely.remove(&header.session);
            }
        }
    }
    let mut words = head.words.write();
    lonely.iter().for_each(|&session| words.sessions.remove(session));
}

/// A purge takes with it the tags that nothing else uses.
fn drop_lonely_tags(head: &mut Head) {
    if head.scrubs.is_empty() {
        return;
    }
    let index = head.index.read();
    let mut words = head.words.write();
    let mut lonely = Vec::new();
    for (position, _) in words.tags.entries().enumerate().filter(|(_, word)| word.is_some()) {
        let tag = position as u32 + 1;
        let used = index.iter().zip(&head.slabs).any(|(index, slab)| {
            index.posting(tag).is_some_and(|rows| rows.iter().any(|row| head.live.contains((slab.base + u64::from(row)) as u32)))
        });
        if !used {
            lonely.push(tag);
        }
    }
    lonely.iter().for_each(|&tag| words.tags.remove(tag));
}
