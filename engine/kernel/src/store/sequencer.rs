//! The sequencer: the one writer at a time, which looks at everything sequenced so far (durable or not) and extends it.

use std::borrow::Cow;
use std::sync::Arc;

use parking_lot::{ArcMutexGuard, RawMutex};
use xxhash_rust::xxh3::xxh3_128;

use super::head::Head;
use super::{Shared, picture};
use crate::error::{KernelError, Result};
use crate::format::{EncodingHeader, KeyRecord, MutableState, NO_SLOT, Payload, PayloadAddress, PayloadTag, crc, flags, row_stride};
use crate::pool::{Job, Signal};
use crate::view::Row;
use crate::wal::MAX_RECORD_BYTES;
use crate::wal::record::{Record, StoreRecord};

/// What a tag takes besides its words: number and length in the payload, number in the list, number and length where it is new.
const TAG_BYTES: usize = 20;
/// What a register takes besides its value.
const REGISTER_BYTES: usize = 5;
/// More than everything of fixed size in a record, and a margin for the name of a replaced row's session.
const ROW_BYTES: usize = 64 << 10;

/// The right to write. Work handed in is on its way when it is dropped.
pub struct Sequencer {
    head: ArcMutexGuard<RawMutex, Head>,
    shared: Arc<Shared>,
    signal: Arc<Signal>,
}

impl std::fmt::Debug for Sequencer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sequencer").field("next_lsn", &self.head.next_lsn()).finish_non_exhaustive()
    }
}

/// A row to store. What the kernel works out itself (checksums, places, numbers of words) is not here.
#[derive(Debug, Clone, Default)]
pub struct NewRow<'a> {
    /// The live slot this row replaces under the same id: order and session are kept from it.
    pub replaces: Option<u64>,
    /// The memory's id.
    pub id: &'a str,
    /// Hash of its content.
    pub content_hash: u128,
    /// Its text.
    pub text: Option<&'a str>,
    /// Its tags: normal form and the caller's form.
    pub tags: &'a [(String, String)],
    /// Bloom mask of the tags.
    pub tag_mask: u64,
    /// Metadata, canonical JSON.
    pub metadata: &'a [u8],
    /// The session's name; ignored for a replacing row.
    pub session: Option<&'a str>,
    /// L2-normalised vector, of the store's dimension.
    pub vector: Option<&'a [f32]>,
    /// The vector's norm as it was given.
    pub norm: f32,
    /// Tier, 0..=3.
    pub tier: u8,
    /// Further bits of [`flags`].
    pub flags: u8,
    /// Valence as encoded.
    pub valence: i8,
    /// Arousal.
    pub arousal: u8,
    /// Importance.
    pub importance: f32,
    /// Surprise.
    pub surprise_z: f32,
    /// When it happened, milliseconds since the epoch.
    pub event_time_ms: i64,
    /// Persona version.
    pub soul_version: u16,
    /// Caller's source code.
    pub source: u8,
    /// The mutable state, where it is not the initial one.
    pub state: Option<MutableState>,
    /// Registers whose values change with this row.
    pub registers: Vec<(u8, Vec<u8>)>,
}

/// Where a row went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// Its slot.
    pub slot: u64,
    /// The record's LSN: wait for it.
    pub lsn: u64,
}

/// The hash by which an id is found.
fn id_hash(id: &str) -> u128 {
    xxh3_128(id.as_bytes())
}

impl Sequencer {
    pub(super) fn new(head: ArcMutexGuard<RawMutex, Head>, shared: Arc<Shared>, signal: Arc<Signal>) -> Self {
        Self { head, shared, signal }
    }

    /// The LSN the next record will get.
    pub fn next_lsn(&self) -> u64 {
        self.head.next_lsn()
    }

    /// The live slot of an id, durable or not.
    ///
    /// # Errors
    /// `Corrupt` where a candidate's payload cannot be read.
    pub fn find_id(&self, id: &str) -> Result<Option<u64>> {
        for slot in self.head.find_id(id_hash(id)) {
            if self.payload(slot)?.id == id {
                return Ok(Some(slot));
            }
        }
        Ok(None)
    }

    /// Live slots whose content has this hash, in the order they were stored.
    pub fn find_content(&self, hash: u128) -> Vec<u64> {
        let slots = self.head.candidates(|index| index.by_content(hash), |key| key.content_hash == hash);
        slots.into_iter().filter(|&slot| self.head.live.contains(slot as u32)).collect()
    }

    /// A sequenced row, its checksums checked: what is read here may be written again, under a checksum of its own.
    ///
    /// # Errors
    /// `Internal` where there is no such slot; `Corrupt` where header or keys are not what was written.
    pub fn row(&self, slot: u64) -> Result<Row> {
        let (header, key) = self.head.row(slot).ok_or(KernelError::Internal("a slot that does not exist"))?;
        if !header.is_whole() || !key.is_whole() {
            return Err(self.corrupt(slot, "headers", size_of::<EncodingHeader>(), None, "the row's checksum does not match"));
        }
        let state = self.head.state(slot).ok_or(KernelError::Internal("a slot without a state"))?;
        Ok(Row { slot, header, key, state })
    }

    /// A sequenced row's payload.
    ///
    /// # Errors
    /// `Corrupt` where the record is not what was written.
    pub fn payload(&self, slot: u64) -> Result<Payload> {
        let row = self.row(slot)?;
        let address = PayloadAddress::from_bits(row.header.payload_at);
        let bytes = self.head.payload.read(address, row.header.payload_len);
        bytes.and_then(|bytes| Payload::decode(address, bytes)).ok_or_else(|| {
            let file = crate::payload::segment_path(address.segment);
            KernelError::corrupt(file, u64::from(address.offset), Some(row.key.lsn), "the payload's checksum does not match")
        })
    }

    /// A sequenced row's vector, without its padding; empty where it has none.
    ///
    /// # Errors
    /// `Corrupt` where the row is not what was written: whoever writes it again must not vouch for it.
    pub fn vector(&self, slot: u64) -> Result<&[f32]> {
        let row = self.row(slot)?;
        if !row.header.has(flags::HAS_VECTOR) {
            return Ok(&[]);
        }
        let stride = row_stride(self.head.dimension);
        let values = self
            .head
            .view
            .locate(slot)
            .and_then(|(number, _, index)| self.head.slabs.get(number)?.vectors().get(index * stride..(index + 1) * stride));
        let values = values.ok_or(KernelError::Internal("a row above its slab"))?;
        if crc(0, bytemuck::cast_slice(values)) != row.header.row_crc {
            return Err(self.corrupt(slot, "vectors", stride * 4, Some(row.key.lsn), "the vector's checksum does not match"));
        }
        values.get(..self.head.dimension).ok_or(KernelError::Internal("a row shorter than the dimension"))
    }

    fn corrupt(&self, slot: u64, file: &str, row_bytes: usize, lsn: Option<u64>, what: &str) -> KernelError {
        let (number, index) = self.head.view.locate(slot).map_or((0, 0), |(number, _, index)| (number, index));
        KernelError::corrupt(crate::rows::slab_path(number, file), (index * row_bytes) as u64, lsn, what)
    }

    /// The `n` nearest by canonical cosine among the most recent `window` live memories of a tier that have a vector, with their
    /// current valence. Recency is the order of rows; a row written again under the same id counts as recent. A damaged one is kept out
    /// of every answer from now on, and the rest is looked at again.
    pub fn nearest(&mut self, tier: u8, query: &[f32], window: usize, n: usize) -> Vec<(f64, i8)> {
        loop {
            let found = self.nearest_slots(tier, query, window, n);
            let is_damaged = |slot: u64| self.vector(slot).is_err();
            let damaged: Vec<u64> = found.iter().map(|(slot, _)| *slot).filter(|&slot| is_damaged(slot)).collect();
            if damaged.is_empty() {
                return found.into_iter().filter_map(|(slot, cosine)| Some((cosine, self.head.state(slot)?.valence))).collect();
            }
            damaged.into_iter().for_each(|slot| self.shared.quarantine(&mut self.head, slot));
        }
    }

    fn nearest_slots(&self, tier: u8, query: &[f32], window: usize, n: usize) -> Vec<(u64, f64)> {
        let Some(slots) = self.head.recent.get(usize::from(tier)) else { return Vec::new() };
        let mut recent: Vec<u64> = slots.iter().rev().take(window).map(u64::from).collect();
        recent.reverse();
        let stride = row_stride(self.head.dimension);
        let runs = recent.chunk_by(|a, b| a + 1 == *b && !self.starts_slab(*b)).filter_map(|run| {
            let first = *run.first()?;
            let (number, _, index) = self.head.view.locate(first)?;
            Some((first, self.head.slabs.get(number)?.vectors().get(index * stride..(index + run.len()) * stride)?))
        });
        crate::scan::nearest_rows(self.shared.kernels, query, stride, runs, n)
    }

    fn starts_slab(&self, slot: u64) -> bool {
        self.head.view.slabs.binary_search_by_key(&slot, |slab| slab.base).is_ok()
    }

    /// An opaque register's newest value.
    pub fn register(&self, key: u8) -> Option<&[u8]> {
        self.head.registers.get(&key).map(Vec::as_slice)
    }

    /// Stores a row.
    ///
    /// # Errors
    /// `NoSpace`, `TooLarge`, `Dimension` or `Failed`: nothing has changed. Any other device error latches.
    pub fn store(&mut self, row: &NewRow<'_>) -> Result<Stored> {
        self.shared.check()?;
        check_row(row, self.head.dimension)?;
        let shared = Arc::clone(&self.shared);
        self.store_checked(row).inspect_err(|error| shared.latch(error))
    }

    fn store_checked(&mut self, row: &NewRow<'_>) -> Result<Stored> {
        let head = &mut *self.head;
        let replaced =
            row.replaces.map(|slot| head.row(slot).ok_or(KernelError::Internal("a replaced slot that does not exist"))).transpose()?;
        let normals: Vec<&str> = row.tags.iter().map(|(normal, _)| normal.as_str()).collect();
        let words = Arc::clone(&head.words);
        let words = words.read();
        let (tag_ids, new_tags) = Head::intern(&words.tags, &normals);
        let (session_ids, mut new_sessions) = Head::intern(&words.sessions, row.session.as_slice());
        let session = replaced.as_ref().map_or(session_ids.first().copied().unwrap_or(0), |(header, _)| header.session);
        let session_name = if replaced.is_some() { words.sessions.word(session) } else { row.session };
        let payload = Payload {
            id: row.id.to_owned(),
            text: row.text.map(str::to_owned),
            tags: tag_ids.iter().zip(row.tags).map(|(id, (_, display))| PayloadTag { id: *id, display: display.clone() }).collect(),
            metadata: row.metadata.to_vec(),
            session: session_name.map(str::to_owned),
        };
        drop(words);
        let payload_len = payload.encode(PayloadAddress { segment: 0, offset: 0 }).len();
        let slot = head.reserve_slot()?;
        let (address, _) = head.payload.reserve(head.dir.as_ref(), payload_len)?;
        let lsn = head.next_lsn();
        let vector = row.vector.unwrap_or_default();
        let key = KeyRecord {
            content_hash: row.content_hash,
            id_hash: id_hash(row.id),
            lsn: replaced.as_ref().map_or(lsn, |(_, key)| key.lsn),
            predecessor: replaced
                .as_ref()
                .map_or_else(|| if session == 0 { NO_SLOT } else { head.session_tail(session) }, |(_, key)| key.predecessor),
            last_seen_base_ms: row.event_time_ms,
            reserved: 0,
            crc: 0,
        }
        .sealed();
        let record = Record::Store(Box::new(StoreRecord {
            slot,
            replaces: row.replaces,
            header: header(row, address, payload_len, session, vector, head.dimension),
            key,
            state: row.state,
            vector: Cow::Borrowed(vector),
            payload: Cow::Owned(payload.encode(address)),
            tag_ids,
            new_tags,
            new_session: new_sessions.pop().filter(|_| replaced.is_none()),
            registers: row.registers.iter().map(|(key, value)| (*key, Cow::Borrowed(value.as_slice()))).collect(),
        }));
        self.append(&record).map(|lsn| Stored { slot, lsn })
    }

    /// Records new mutable states; the LSN to wait for.
    ///
    /// # Errors
    /// As [`Sequencer::store`].
    pub fn amend(&mut self, states: Vec<(u64, MutableState)>) -> Result<u64> {
        self.append(&Record::Amend(states))
    }

    /// Forgets a memory: gone from every read at once, its bytes stay until they are compacted. The LSN to wait for.
    ///
    /// # Errors
    /// As [`Sequencer::store`].
    pub fn forget(&mut self, slot: u64) -> Result<u64> {
        self.append(&Record::Remove { slots: vec![slot], purge: false })
    }

    /// Purges every row an id ever had, forgotten and rewritten ones included: gone at once, their bytes are destroyed by the next
    /// checkpoint. `None` where nothing of the id is left.
    ///
    /// # Errors
    /// As [`Sequencer::store`].
    pub fn purge(&mut self, id: &str) -> Result<Option<u64>> {
        let hash = id_hash(id);
        let slots = self.head.candidates(|index| index.by_id(hash), |key| key.id_hash == hash);
        let left = |slot: &u64| !self.head.scrubs.contains(slot) && self.head.row(*slot).is_some_and(|(header, _)| !header.is_scrubbed());
        let slots: Vec<u64> = slots.into_iter().filter(left).collect();
        if slots.is_empty() {
            return Ok(None);
        }
        self.append(&Record::Remove { slots, purge: true }).map(Some)
    }

    fn append(&mut self, record: &Record<'_>) -> Result<u64> {
        self.shared.check()?;
        let head = &mut *self.head;
        let mut bytes = Vec::with_capacity(4096);
        record.encode(&mut bytes);
        let lsn = head.next_lsn();
        let view = &head.view;
        head.tail.reserve(bytes.len(), lsn, &|| picture(view)).inspect_err(|error| self.shared.latch(error))?;
        if let Err(error) = head.apply(lsn, record) {
            // The picture and the log no longer agree: nothing more may be accepted on top of it.
            self.shared.fail(&error);
            return Err(error);
        }
        head.tail.push(&bytes)?;
        Ok(lsn)
    }
}

impl Drop for Sequencer {
    fn drop(&mut self) {
        if self.head.tail.has_work() {
            let job: Arc<dyn Job> = Arc::clone(&self.shared) as _;
            self.signal.kick(job);
        }
    }
}

/// Refuses what the format has no place for, before anything is made for it: a record that replay cannot read back, or that no
/// frame holds, must not come to be.
fn check_row(row: &NewRow<'_>, dimension: usize) -> Result<()> {
    if let Some(vector) = row.vector
        && vector.len() != dimension
    {
        return Err(KernelError::Dimension { given: vector.len() as u64 });
    }
    if row.tags.len() > usize::from(u8::MAX) {
        return Err(KernelError::TooLarge { what: "a row's list of tags", len: row.tags.len() as u64, max: u64::from(u8::MAX) });
    }
    // A tag's words are in the payload, and once more in the record where it is new; the rest has a fixed size.
    let words: usize = row.tags.iter().map(|(normal, display)| normal.len() + display.len() + TAG_BYTES).sum();
    let session = 2 * row.session.map_or(0, str::len);
    let registers: usize = row.registers.iter().map(|(_, value)| value.len() + REGISTER_BYTES).sum();
    let len = row.id.len() + row.text.map_or(0, str::len) + row.metadata.len() + words + session + registers + dimension * 4 + ROW_BYTES;
    if len > MAX_RECORD_BYTES {
        return Err(KernelError::TooLarge { what: "a row", len: len as u64, max: MAX_RECORD_BYTES as u64 });
    }
    Ok(())
}

fn header(row: &NewRow<'_>, address: PayloadAddress, payload_len: usize, session: u32, vector: &[f32], dimension: usize) -> EncodingHeader {
    let mut padded = vec![0.0_f32; row_stride(dimension)];
    padded.iter_mut().zip(vector).for_each(|(place, value)| *place = *value);
    let has = |flag: u8, present: bool| if present { flag } else { 0 };
    EncodingHeader {
        header_version: 0,
        flags: (row.flags & !(flags::TIER_MASK | flags::HAS_TEXT | flags::HAS_VECTOR))
            | ((row.tier << flags::TIER_SHIFT) & flags::TIER_MASK)
            | has(flags::HAS_TEXT, row.text.is_some())
            | has(flags::HAS_VECTOR, row.vector.is_some()),
        valence: row.valence,
        arousal: row.arousal,
        importance: row.importance,
        event_time_ms: row.event_time_ms,
        tags: row.tag_mask,
        norm: row.norm,
        reserved: 0,
        payload_at: address.to_bits(),
        payload_len: payload_len as u32,
        session,
        surprise_z: row.surprise_z,
        soul_version: row.soul_version,
        source: row.source,
        tag_count: row.tags.len() as u8,
        row_crc: crc(0, bytemuck::cast_slice(&padded)),
        crc: 0,
    }
    .sealed()
}
