//! The head: the newest picture of the store, ahead of what is durable, and everything the sequencer needs to extend it.
//!
//! Invariants: edits happen in LSN order under one lock; a record is applied only after room for all of it was made, so a
//! refused record changes nothing; applying the same record to the same picture gives the same picture, live and in replay.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use mnemolith_backends::Directory;
use parking_lot::RwLock;
use roaring::RoaringBitmap;

use crate::dictionary::{Dictionary, Words};
use crate::error::{KernelError, Result};
use crate::format::{EncodingHeader, KeyRecord, LIVENESS_WORDS_PER_PAGE, MutableState, NO_SLOT, SLOTS_PER_PAGE, flags, row_stride};
use crate::index::SlabIndex;
use crate::payload::PayloadWriters;
use crate::rows::{MAX_SLOT, RowWriters};
use crate::view::{SlabView, View, initial_state, set_bit};
use crate::wal::record::{Record, StoreRecord};
use crate::wal::tail::LogTail;

/// Number of tiers.
pub const TIERS: usize = 4;

/// See the module.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) dir: Arc<dyn Directory>,
    pub(crate) dimension: usize,
    pub(crate) view: View,
    pub(crate) slabs: Vec<RowWriters>,
    pub(crate) payload: PayloadWriters,
    /// Live slots, and per tier the live slots with a vector.
    pub(crate) live: RoaringBitmap,
    pub(crate) recent: [RoaringBitmap; TIERS],
    /// Opaque values whose after-images ride on store records.
    pub(crate) registers: BTreeMap<u8, Vec<u8>>,
    pub(crate) words: Arc<RwLock<Words>>,
    /// The newest memory of each session, by order LSN.
    session_tails: HashMap<u32, (u64, u64)>,
    pub(crate) index: Arc<RwLock<Vec<SlabIndex>>>,
    pub(crate) tail: LogTail<Arc<View>>,
    pub(crate) dirty: Dirty,
    /// Purged slots whose bytes are not destroyed yet.
    pub(crate) scrubs: BTreeSet<u64>,
    /// Whether what an earlier process left above the written rows and payloads, never acknowledged, was destroyed since the open.
    pub(crate) swept: bool,
}

/// What changed since the last checkpoint.
#[derive(Debug, Default, Clone)]
pub(crate) struct Dirty {
    /// Strength pages, by slab.
    pub(crate) states: BTreeSet<(usize, usize)>,
    /// Liveness pages, by slab.
    pub(crate) dead: BTreeSet<(usize, usize)>,
    /// Slabs with new rows.
    pub(crate) slabs: BTreeSet<usize>,
    /// Payload segments with new bytes.
    pub(crate) payloads: BTreeSet<usize>,
}

impl Head {
    pub(crate) fn new(dir: Arc<dyn Directory>, dimension: usize, index: Arc<RwLock<Vec<SlabIndex>>>, tail: LogTail<Arc<View>>) -> Self {
        Self {
            dir,
            dimension,
            view: View::default(),
            slabs: Vec::new(),
            payload: PayloadWriters::default(),
            live: RoaringBitmap::new(),
            recent: Default::default(),
            registers: BTreeMap::new(),
            words: Arc::default(),
            session_tails: HashMap::new(),
            index,
            tail,
            dirty: Dirty::default(),
            scrubs: BTreeSet::new(),
            swept: false,
        }
    }

    pub(crate) fn next_lsn(&self) -> u64 {
        self.view.lsn + 1
    }

    /// Adopts a slab that a checkpoint vouches for.
    pub(crate) fn adopt_slab(&mut self, writers: RowWriters, mut view: SlabView, index: SlabIndex) {
        view.len = writers.len();
        let base = writers.base;
        for (row, (header, key)) in writers.headers().iter().zip(writers.keys()).enumerate() {
            if view.is_blocked(row) || header.is_scrubbed() {
                continue;
            }
            let slot = base + row as u64;
            self.note_session(header, key, slot);
            if !view.is_dead(row) {
                self.view.live += 1;
                self.note_live(header, slot);
            }
        }
        self.view.stored += view.len as u64;
        self.view.slabs.push(view);
        self.slabs.push(writers);
        self.index.write().push(index);
    }

    /// Makes sure that the next slot has a slab.
    ///
    /// # Errors
    /// `NoSpace`, or the number of slots is used up: nothing has changed.
    pub(crate) fn reserve_slot(&mut self) -> Result<u64> {
        let slot = self.view.stored;
        if slot >= MAX_SLOT {
            return Err(KernelError::TooLarge { what: "the number of rows in a namespace", len: slot, max: MAX_SLOT });
        }
        if self.slabs.last().is_none_or(|slab| slab.len() == slab.capacity) {
            let writers = RowWriters::create(self.dir.as_ref(), self.slabs.len(), slot, self.dimension)?;
            if let Some(full) = self.index.write().last_mut() {
                full.settle();
            }
            self.view.slabs.push(SlabView::new(Arc::new(writers.rows()), slot, writers.capacity));
            self.slabs.push(writers);
            self.index.write().push(SlabIndex::default());
        }
        Ok(slot)
    }

    /// Applies a record: the same code while running and in replay.
    pub(crate) fn apply(&mut self, lsn: u64, record: &Record<'_>) -> Result<()> {
        match record {
            Record::Store(store) => self.apply_store(store)?,
            Record::Amend(states) => states.iter().for_each(|(slot, state)| self.set_state(*slot, *state)),
            Record::Remove { slots, purge } => {
                for &slot in slots {
                    self.kill(slot);
                    if *purge {
                        self.scrubs.insert(slot);
                    }
                }
            }
        }
        self.view.lsn = lsn;
        Ok(())
    }

    fn apply_store(&mut self, record: &StoreRecord<'_>) -> Result<()> {
        if self.reserve_slot()? != record.slot {
            return Err(KernelError::Internal("a stored row out of order"));
        }
        let mut row = vec![0.0; row_stride(self.dimension)];
        row.iter_mut().zip(record.vector.iter()).for_each(|(place, value)| *place = *value);
        let address = crate::format::PayloadAddress::from_bits(record.header.payload_at);
        self.payload.write(self.dir.as_ref(), address, &record.payload)?;
        self.note_payload(address.segment as usize);
        let number = self.slabs.len() - 1;
        let slab = self.slabs.last_mut().ok_or(KernelError::Internal("no slab after one was reserved"))?;
        let local = slab.len();
        slab.append(&record.header, &record.key, &row)?;
        self.dirty.slabs.insert(number);
        if let Some(index) = self.index.write().last_mut() {
            index.insert(local as u32, &record.key, &record.tag_ids);
        }
        if !record.new_tags.is_empty() || record.new_session.is_some() {
            let mut words = self.words.write();
            record.new_tags.iter().for_each(|(id, word)| words.tags.set(*id, word));
            record.new_session.iter().for_each(|(id, word)| words.sessions.set(*id, word));
        }
        for (key, value) in &record.registers {
            self.registers.insert(*key, value.to_vec());
        }
        self.count_in(record)
    }

    fn count_in(&mut self, record: &StoreRecord<'_>) -> Result<()> {
        if let Some(view) = self.view.slabs.last_mut() {
            view.len += 1;
        }
        self.view.stored += 1;
        self.view.live += 1;
        self.note_live(&record.header, record.slot);
        self.note_session(&record.header, &record.key, record.slot);
        if let Some(state) = record.state {
            self.set_state(record.slot, state);
        }
        if let Some(replaced) = record.replaces {
            self.kill(replaced);
        }
        Ok(())
    }

    fn note_payload(&mut self, segment: usize) {
        if self.view.payloads.len() <= segment
            && let Some(writer) = self.payload.segments.get(segment)
        {
            self.view.payloads.push(writer.region().clone());
        }
        self.dirty.payloads.insert(segment);
    }

    fn note_live(&mut self, header: &EncodingHeader, slot: u64) {
        let slot = slot as u32;
        self.live.insert(slot);
        if header.has(flags::HAS_VECTOR)
            && let Some(tier) = self.recent.get_mut(usize::from(header.tier()))
        {
            tier.insert(slot);
        }
    }

    fn note_session(&mut self, header: &EncodingHeader, key: &KeyRecord, slot: u64) {
        if header.session != 0 {
            let tail = self.session_tails.entry(header.session).or_insert((key.lsn, slot));
            if key.lsn >= tail.0 {
                *tail = (key.lsn, slot);
            }
        }
    }

    /// Keeps a damaged slot out of every answer and out of the novelty of what follows.
    pub(crate) fn block(&mut self, slot: u64) {
        self.view.block(slot);
        self.live.remove(slot as u32);
        for tier in &mut self.recent {
            tier.remove(slot as u32);
        }
    }

    fn kill(&mut self, slot: u64) {
        let Some((number, _, index)) = self.view.locate(slot) else {
            return;
        };
        let Some(slab) = self.view.slabs.get_mut(number) else {
            return;
        };
        if set_bit(&mut slab.dead, index) && !slab.is_blocked(index) {
            self.view.live -= 1;
        }
        self.dirty.dead.insert((number, index / (64 * LIVENESS_WORDS_PER_PAGE)));
        self.live.remove(slot as u32);
        for tier in &mut self.recent {
            tier.remove(slot as u32);
        }
    }

    fn set_state(&mut self, slot: u64, state: MutableState) {
        let Some((number, _, index)) = self.view.locate(slot) else {
            return;
        };
        if let Some(slab) = self.view.slabs.get_mut(number) {
            slab.set_state(index, Some(state));
            self.dirty.states.insert((number, index / SLOTS_PER_PAGE));
        }
    }

    /// Drops what index and mutable state still say of rows whose purge is pending.
    pub(crate) fn forget_purged(&mut self) {
        let mut by_slab: BTreeMap<usize, BTreeSet<u32>> = BTreeMap::new();
        for &slot in &self.scrubs {
            if let Some((number, _, index)) = self.view.locate(slot) {
                by_slab.entry(number).or_default().insert(index as u32);
            }
        }
        let mut indexes = self.index.write();
        for (number, rows) in by_slab {
            if let Some(index) = indexes.get_mut(number) {
                index.remove(&rows);
                self.dirty.slabs.insert(number);
            }
            let Some(slab) = self.view.slabs.get_mut(number) else { continue };
            for row in rows.into_iter().map(|row| row as usize).filter(|&row| slab.state(row).is_some()).collect::<Vec<_>>() {
                slab.set_state(row, None);
                self.dirty.states.insert((number, row / SLOTS_PER_PAGE));
            }
        }
    }

    /// Header and keys of a sequenced row.
    pub(crate) fn row(&self, slot: u64) -> Option<(EncodingHeader, KeyRecord)> {
        let (number, _, index) = self.view.locate(slot)?;
        let slab = self.slabs.get(number)?;
        Some((*slab.headers().get(index)?, *slab.keys().get(index)?))
    }

    /// The mutable state of a sequenced row.
    pub(crate) fn state(&self, slot: u64) -> Option<MutableState> {
        let (_, slab, index) = self.view.locate(slot)?;
        slab.state(index).or_else(|| self.row(slot).map(|(header, key)| initial_state(&header, &key)))
    }

    /// Slots, live or not, whose keys a predicate accepts, among the candidates an index lookup gives.
    pub(crate) fn candidates(&self, lookup: impl Fn(&SlabIndex) -> Vec<u32>, accept: impl Fn(&KeyRecord) -> bool) -> Vec<u64> {
        let mut slots = Vec::new();
        for (index, slab) in self.index.read().iter().zip(&self.slabs) {
            let rows = lookup(index).into_iter().filter(|&row| slab.keys().get(row as usize).is_some_and(&accept));
            slots.extend(rows.map(|row| slab.base + u64::from(row)));
        }
        slots
    }

    /// The live slots of an id.
    pub(crate) fn find_id(&self, id_hash: u128) -> Vec<u64> {
        let slots = self.candidates(|index| index.by_id(id_hash), |key| key.id_hash == id_hash);
        slots.into_iter().filter(|&slot| self.live.contains(slot as u32)).collect()
    }

    /// The newest live memory of a session.
    pub(crate) fn session_tail(&self, session: u32) -> u64 {
        let mut slot = self.session_tails.get(&session).map_or(NO_SLOT, |tail| tail.1);
        while slot != NO_SLOT && !self.live.contains(slot as u32) {
            // A damaged predecessor could lead anywhere, in a circle too.
            let row = self.row(slot).filter(|(header, key)| header.is_whole() && key.is_whole());
            slot = row.map_or(NO_SLOT, |(_, key)| self.moved(&key));
        }
        slot
    }

    /// Where the memory of a dead row's predecessor lies now.
    fn moved(&self, key: &KeyRecord) -> u64 {
        let Some((_, before)) = self.row(key.predecessor) else {
            return NO_SLOT;
        };
        let same = self.find_id(before.id_hash).into_iter().find(|&slot| self.row(slot).is_some_and(|(_, key)| key.lsn == before.lsn));
        same.unwrap_or(key.predecessor)
    }

    /// Numbers for words: known ones, and new ones in order of appearance.
    pub(crate) fn intern<'a>(dictionary: &Dictionary, words: &[&'a str]) -> (Vec<u32>, Vec<(u32, Cow<'a, str>)>) {
        let (mut ids, mut new) = (Vec::with_capacity(words.len()), Vec::<(u32, Cow<'a, str>)>::new());
        for word in words {
            let known = dictionary.number(word).or_else(|| new.iter().find(|(_, text)| text == word).map(|(id, _)| *id));
            let id = known.unwrap_or_else(|| {
                let id = dictionary.next_number(new.len());
                new.push((id, Cow::Borrowed(word)));
                id
            });
            ids.push(id);
        }
        (ids, new)
    }
}
