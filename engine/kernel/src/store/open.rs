//! Opening: a new namespace is laid out with the superblock last; an existing one is read back to its last whole frame.
//!
//! Order: superblock, state snapshot, slabs (headers and keys checked, no vector row read), mutable pages, index files, log. Rows whose
//! header, keys or strength record is damaged are kept out of every answer and reported; damage that would change what is alive refuses the open.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use mnemolith_backends::{Directory, RegionWriter, StorageErrorKind};
use parking_lot::{Condvar, Mutex, RwLock};

use super::checkpoint::Checkpointer;
use super::head::Head;
use super::state::{PageKind, Snapshot, decode_state_page, state_path};
use super::{Identity, Shared, Store, StoreOptions, picture};
use crate::error::{KernelError, Result};
use crate::format::{
    COPY_BYTES, Extent, LIVENESS_WORDS_PER_PAGE, PAGE_BYTES, Payload, PayloadAddress, SLOTS_PER_PAGE, Superblock, choose_superblock,
    decode_liveness_page,
};
use crate::index::{SlabIndex, index_path};
use crate::pool::{Job, Signal};
use crate::rows::{RowWriters, page_counts, slab_capacity, slab_path};
use crate::view::{SlabView, set_bit};
use crate::wal::record::Record;
use crate::wal::recovery::{self, Expectation, LogEnd};
use crate::wal::tail::{FrameWriter, LogTail, remove_files};
use crate::wal::{self};

/// The superblock's file.
pub(crate) const SUPERBLOCK: &str = "superblock";
const MAX_SMALL_FILE_BYTES: u64 = 1 << 32;

impl Store {
    /// Opens a namespace, laying it out where it is new.
    ///
    /// # Errors
    /// `Corrupt`, `UnsupportedFormat`, a mismatch of dimension or embedder, or what the device answers. An error changes nothing that counts.
    pub fn open(dir: Arc<dyn Directory>, options: &StoreOptions) -> Result<Self> {
        let kernels = crate::active_kernels()?;
        let file = dir.read(SUPERBLOCK, 2 * COPY_BYTES as u64)?;
        let superblock = match file {
            Some(file) => choose_superblock(&file)?.0,
            None => {
                check_dimension(options)?;
                lay_out(dir.as_ref(), options)?
            }
        };
        let identity = check_identity(&superblock, options)?;
        let index = Arc::new(RwLock::new(Vec::new()));
        let (head, log_end) = load(&dir, &superblock, &identity, &index).map_err(missing_is_damage)?;
        let salt_seed = options.entropy.last_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let method = log_end.segments.last().map_or(Ok("none yet"), |segment| segment.file(dir.as_ref()).map(|file| file.method()))?;
        let writer = FrameWriter::new(identity.store_uuid, salt_seed, log_end.chain, log_end.last_lsn, method);
        let scrubs_left = !head.scrubs.is_empty();
        let shared = Arc::new(Shared {
            published: RwLock::new(picture(&head.view)),
            words: Arc::clone(&head.words),
            acknowledged: Mutex::new(head.view.lsn),
            durable_lsn: AtomicU64::new(log_end.last_lsn),
            checkpoint_lsn: AtomicU64::new(superblock.checkpoint_lsn),
            head: Arc::new(Mutex::new(head)),
            committer: Mutex::new(writer),
            progress: Condvar::new(),
            failed: OnceLock::new(),
            checkpointer: Mutex::new(Checkpointer::new(superblock)),
            durability: options.durability,
            checkpoint_bytes: options.checkpoint_bytes,
            dir,
            identity,
            kernels,
            index,
        });
        let store = Self { shared, signal: Arc::new(Signal::default()) };
        if scrubs_left {
            store.checkpoint()?;
        }
        // Until somebody writes it is as idle as any other, and holds no descriptor but the lock's.
        store.shared.idle();
        Ok(store)
    }
}

fn check_dimension(options: &StoreOptions) -> Result<()> {
    match options.dimension {
        Some(given) if given == 0 || given > u32::from(u16::MAX) => Err(KernelError::Dimension { given: u64::from(given) }),
        _ => Ok(()),
    }
}

/// Lays out a new namespace: folders, log, state snapshot, and the superblock that makes them count.
fn lay_out(dir: &dyn Directory, options: &StoreOptions) -> Result<Superblock> {
    refuse_orphans(dir)?;
    for folder in [crate::rows::FOLDER, crate::payload::FOLDER, crate::index::FOLDER, wal::FOLDER] {
        dir.create_folder(folder)?;
    }
    dir.create_log(&wal::segment_path(1), wal::FIRST_SEGMENT_BYTES)?;
    let state = Snapshot::default().encode();
    dir.replace(&state_path(1), &state)?;
    let superblock = Superblock {
        sequence: 1,
        store_uuid: options.entropy.first_chunk().map_or(0, |bytes| u128::from_le_bytes(*bytes)),
        namespace: options.namespace.clone(),
        embedder: options.embedder.clone().unwrap_or_else(|| options.new_embedder.clone()),
        dimension: options.dimension.unwrap_or(options.new_dimension),
        checkpoint_lsn: 0,
        durable_lsn: 0,
        first_segment: 1,
        state_crc: Snapshot::crc_of(&state),
        scrub_pending: false,
        slabs: Vec::new(),
        payloads: Vec::new(),
    };
    let mut file = vec![0; 2 * COPY_BYTES];
    let copy = superblock.encode()?;
    if let Some(place) = file.get_mut(superblock.offset() as usize..).and_then(|rest| rest.get_mut(..copy.len())) {
        place.copy_from_slice(&copy);
    }
    dir.replace(SUPERBLOCK, &file)?;
    Ok(superblock)
}

/// Without a superblock only the leavings of an unfinished layout may be there: anything more was a store once.
fn refuse_orphans(dir: &dyn Directory) -> Result<()> {
    let mut used = !dir.list(crate::rows::FOLDER)?.is_empty();
    for name in dir.list(wal::FOLDER)? {
        let log = dir.open_log(&format!("{}/{name}", wal::FOLDER))?;
        let mut block = vec![0; log.len().min(2 * wal::BLOCK) as usize];
        log.read_at(0, &mut block)?;
        used |= block.iter().any(|&byte| byte != 0);
    }
    if used {
        return Err(KernelError::corrupt(SUPERBLOCK, 0, None, "it is missing, but the namespace holds data"));
    }
    Ok(())
}

fn check_identity(superblock: &Superblock, options: &StoreOptions) -> Result<Identity> {
    let stored = superblock.dimension;
    if let Some(given) = options.dimension
        && given != stored
    {
        return Err(KernelError::DimensionMismatch { stored, given });
    }
    if let Some(given) = &options.embedder
        && *given != superblock.embedder
    {
        return Err(KernelError::EmbedderMismatch { stored: superblock.embedder.clone(), given: given.clone() });
    }
    if superblock.namespace != options.namespace {
        let what = format!("it belongs to namespace `{}`", superblock.namespace);
        return Err(KernelError::corrupt(SUPERBLOCK, 0, None, what));
    }
    Ok(Identity { dimension: stored, embedder: superblock.embedder.clone(), store_uuid: superblock.store_uuid })
}

/// A file that is not there, once a superblock was read, is one that the superblock vouches for.
fn missing_is_damage(error: KernelError) -> KernelError {
    match error {
        KernelError::Storage(error) if error.kind == StorageErrorKind::NotFound => {
            KernelError::corrupt(error.path.display().to_string(), 0, None, "it is missing, but the superblock counts on it")
        }
        other => other,
    }
}

/// Reads what the checkpoint covers, then the log.
fn load(
    dir: &Arc<dyn Directory>,
    superblock: &Superblock,
    identity: &Identity,
    index: &Arc<RwLock<Vec<SlabIndex>>>,
) -> Result<(Head, LogEnd)> {
    let state = dir.read(&state_path(superblock.sequence), MAX_SMALL_FILE_BYTES)?.unwrap_or_default();
    let snapshot = Snapshot::decode(&state, superblock.state_crc)
        .ok_or_else(|| KernelError::corrupt(state_path(superblock.sequence), 0, None, "it is not the snapshot of the last checkpoint"))?;
    let tail = LogTail::new(Arc::clone(dir), Vec::new(), None, superblock.first_segment, 1);
    let mut head = Head::new(Arc::clone(dir), identity.dimension as usize, Arc::clone(index), tail);
    // An empty segment was made for a record that was refused; whoever needs one makes it anew.
    for (number, extent) in superblock.payloads.iter().enumerate().filter(|(_, extent)| extent.len > 0) {
        let path = crate::payload::segment_path(number as u32);
        let writer = dir.open_region(&path, extent.capacity, extent.len)?;
        head.view.payloads.push(writer.region().clone());
        head.payload.segments.push(writer);
    }
    for (number, extent) in superblock.slabs.iter().enumerate() {
        load_slab(&mut head, number, *extent, &snapshot, number + 1 < superblock.slabs.len())?;
    }
    head.registers = snapshot.registers;
    *head.words.write() = snapshot.words;
    head.scrubs = snapshot.scrubs;
    head.view.lsn = superblock.checkpoint_lsn;
    let log_end = replay(&mut head, dir, superblock)?;
    Ok((head, log_end))
}

fn load_slab(head: &mut Head, number: usize, extent: Extent, snapshot: &Snapshot, full: bool) -> Result<()> {
    let base = head.view.stored;
    let capacity = slab_capacity(number, head.dimension);
    let len = usize::try_from(extent.len).unwrap_or(usize::MAX);
    if extent.capacity != capacity as u64 || len > capacity || (full && len != capacity) {
        return Err(KernelError::corrupt(SUPERBLOCK, 0, None, format!("the extent of slab {number} cannot be")));
    }
    let dir = Arc::clone(&head.dir);
    let writers = RowWriters::open(dir.as_ref(), number, base, head.dimension, len)?;
    let mut view = SlabView::new(Arc::new(writers.rows()), base, capacity);
    load_liveness(head, number, len, &mut view, snapshot)?;
    block_damaged_rows(&writers, &mut view);
    load_states(head, number, len, &mut view, snapshot)?;
    let file = dir.read(&index_path(number), MAX_SMALL_FILE_BYTES)?.unwrap_or_default();
    let index = SlabIndex::decode(&file, number, len as u32).unwrap_or_else(|| {
        head.dirty.slabs.insert(number);
        rebuild_index(&writers, &view, &head.payload.segments)
    });
    head.adopt_slab(writers, view, index);
    Ok(())
}

/// The page as the snapshot has it, else as the file has it; and whether the file has to get the snapshot's.
///
/// A crash may have come before the page was written in place, and the next checkpoint removes the snapshot: unless it writes the
/// page, what the snapshot alone holds would be forgotten.
fn page(file: &[u8], snapshot: &Snapshot, kind: PageKind, slab: usize, number: usize) -> (Vec<u8>, bool) {
    let in_place = file.get(number * PAGE_BYTES..(number + 1) * PAGE_BYTES).unwrap_or_default();
    match snapshot.pages.get(&(kind, slab as u32, number as u32)) {
        Some(copy) => (copy.clone(), copy != in_place),
        None => (in_place.to_vec(), false),
    }
}

fn load_liveness(head: &mut Head, number: usize, len: usize, view: &mut SlabView, snapshot: &Snapshot) -> Result<()> {
    let path = slab_path(number, PageKind::Liveness.file());
    let file = head.dir.read(&path, MAX_SMALL_FILE_BYTES)?.unwrap_or_default();
    let mut words = Vec::new();
    for page_number in 0..page_counts(view.capacity).1 {
        let (bytes, stale) = page(&file, snapshot, PageKind::Liveness, number, page_number);
        if stale {
            head.dirty.dead.insert((number, page_number));
        }
        let decoded = decode_liveness_page(number as u32, page_number as u32, &bytes);
        let damaged = || KernelError::corrupt(&path, (page_number * PAGE_BYTES) as u64, None, "the page's checksum does not match");
        words.extend(decoded.ok_or_else(damaged)?);
    }
    debug_assert!(words.len() <= view.dead.len().next_multiple_of(LIVENESS_WORDS_PER_PAGE));
    words.truncate(view.dead.len());
    // Bits above the rows that count say nothing about rows to come.
    for (index, word) in words.iter_mut().enumerate() {
        let rows = len.saturating_sub(index * 64).min(64) as u32;
        *word &= u64::MAX.checked_shr(64 - rows).unwrap_or(0);
    }
    view.dead = Arc::new(words);
    Ok(())
}

fn load_states(head: &mut Head, number: usize, len: usize, view: &mut SlabView, snapshot: &Snapshot) -> Result<()> {
    let path = slab_path(number, PageKind::Strength.file());
    let file = head.dir.read(&path, MAX_SMALL_FILE_BYTES)?;
    let pages = page_counts(view.capacity).0;
    let file = file.filter(|file| file.len() == pages * PAGE_BYTES);
    let file = file.ok_or_else(|| KernelError::corrupt(&path, 0, None, "it is missing or has the wrong length"))?;
    for page_number in 0..pages {
        let first_row = page_number * SLOTS_PER_PAGE;
        let (bytes, stale) = page(&file, snapshot, PageKind::Strength, number, page_number);
        if stale {
            head.dirty.states.insert((number, page_number));
        }
        let (states, damaged) = decode_state_page(view.base + first_row as u64, &bytes);
        // Records above the rows that count say nothing about rows to come, damaged or not.
        let counted = len.saturating_sub(first_row);
        for (row, state) in states.into_iter().enumerate().take(counted) {
            if let Some(state) = state {
                view.set_state(first_row + row, Some(state));
            }
        }
        for row in damaged.into_iter().filter(|&row| row < counted) {
            set_bit(&mut view.blocked, first_row + row);
        }
    }
    Ok(())
}

/// Rows whose header or keys are damaged are never answered with. A scrubbed row is dead and blank, not damaged.
fn block_damaged_rows(writers: &RowWriters, view: &mut SlabView) {
    for (row, (header, key)) in writers.headers().iter().zip(writers.keys()).enumerate() {
        let scrubbed = view.is_dead(row) && header.is_scrubbed();
        let whole = header.is_whole() && key.is_whole();
        if !scrubbed && !whole {
            set_bit(&mut view.blocked, row);
        }
    }
}

fn rebuild_index(writers: &RowWriters, view: &SlabView, payloads: &[RegionWriter]) -> SlabIndex {
    let mut index = SlabIndex::default();
    for (row, (header, key)) in writers.headers().iter().zip(writers.keys()).enumerate() {
        if view.is_dead(row) && header.is_scrubbed() {
            index.skip(row as u32);
            continue;
        }
        let address = PayloadAddress::from_bits(header.payload_at);
        let bytes = payloads.get(address.segment as usize).and_then(|segment| {
            let from = address.offset as usize;
            segment.written_slice().get(from..from + header.payload_len as usize)
        });
        let payload = bytes.filter(|_| !view.is_blocked(row)).and_then(|bytes| Payload::decode(address, bytes));
        let tags: Vec<u32> = payload.into_iter().flat_map(|payload| payload.tags).map(|tag| tag.id).collect();
        index.insert(row as u32, key, &tags);
    }
    index
}

/// Applies the log behind the checkpoint and settles how it goes on.
fn replay(head: &mut Head, dir: &Arc<dyn Directory>, superblock: &Superblock) -> Result<LogEnd> {
    let expect = Expectation {
        store_uuid: superblock.store_uuid,
        first_segment: superblock.first_segment,
        checkpoint_lsn: superblock.checkpoint_lsn,
        durable_lsn: superblock.durable_lsn,
    };
    let dimension = head.dimension;
    let end = recovery::scan(dir.as_ref(), &expect, &mut |lsn, bytes| {
        let undecodable = || KernelError::corrupt(wal::FOLDER, 0, Some(lsn), "a whole frame holds a record that cannot be read");
        let record = Record::decode(bytes, dimension).ok_or_else(undecodable)?;
        head.tail.bytes_since_checkpoint += bytes.len() as u64 + 4;
        head.apply(lsn, &record)
    })?;
    // What was read may be in the page cache only: it counts once it is on the device.
    for segment in &end.segments {
        segment.file(dir.as_ref())?.sync()?;
    }
    if let Some(cut) = &end.cut {
        recovery::destroy(dir.as_ref(), cut)?;
    }
    // A purge whose checkpoint was interrupted left its record in them.
    remove_files(dir.as_ref(), end.obsolete.iter().map(String::as_str), superblock.scrub_pending)?;
    let bytes_since_checkpoint = head.tail.bytes_since_checkpoint;
    head.tail = LogTail::new(Arc::clone(dir), end.segments.clone(), end.cursor, end.next_sequence, end.epoch);
    head.tail.bytes_since_checkpoint = bytes_since_checkpoint;
    remove_leavings(dir.as_ref(), superblock)?;
    Ok(end)
}

/// Snapshots of other checkpoints are the leavings of a crash.
fn remove_leavings(dir: &dyn Directory, superblock: &Superblock) -> Result<()> {
    let current = state_path(superblock.sequence);
    let mut removed = false;
    for name in dir.list(crate::index::FOLDER)? {
        let path = format!("{}/{name}", crate::index::FOLDER);
        if name.starts_with("state-") && path != current {
            removed |= dir.remove_file(&path)?;
        }
    }
    if removed {
        dir.sync_folder(crate::index::FOLDER)?;
    }
    Ok(())
}
