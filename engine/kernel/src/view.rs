//! Views: what readers see, a whole prefix of the log.
//!
//! A [`View`] is an immutable picture of the store after some LSN: how many slots exist, which are dead, what changed about them. The
//! sequencer keeps the head picture and edits it copy-on-write; each frame carries a copy, and the copy becomes the published
//! view when the frame is durable. So a reader always sees exactly the records up to one LSN, without a lock while it reads.

use std::sync::Arc;

use mnemolith_backends::{ReadPass, Region};
use mnemolith_simd::Kernels;
use parking_lot::RwLock;

use crate::dictionary::Words;
use crate::error::{KernelError, Result};
use crate::format::{EncodingHeader, KeyRecord, MutableState, Payload, PayloadAddress, SLOTS_PER_PAGE, crc};
use crate::index::SlabIndex;
use crate::rows::SharedRows;

/// The changed states of 64 neighbouring slots; `None` where a slot was never touched.
pub(crate) type StatePage = [Option<MutableState>; SLOTS_PER_PAGE];

/// One slab in a view.
#[derive(Debug, Clone)]
pub(crate) struct SlabView {
    pub(crate) rows: SharedRows,
    pub(crate) base: u64,
    pub(crate) capacity: usize,
    /// Rows that this view counts in.
    pub(crate) len: usize,
    /// Bits of the forgotten.
    pub(crate) dead: Arc<Vec<u64>>,
    /// Bits of the damaged: found so at open or at hydration, kept out of every answer.
    pub(crate) blocked: Arc<Vec<u64>>,
    pub(crate) states: Arc<Vec<Option<Arc<StatePage>>>>,
}

impl SlabView {
    pub(crate) fn new(rows: SharedRows, base: u64, capacity: usize) -> Self {
        let words = capacity.div_ceil(64);
        Self {
            rows,
            base,
            capacity,
            len: 0,
            dead: Arc::new(vec![0; words]),
            blocked: Arc::new(vec![0; words]),
            states: Arc::new(vec![None; capacity.div_ceil(SLOTS_PER_PAGE)]),
        }
    }

    /// Bits of the rows that exist, live, and are whole.
    pub(crate) fn live_bits(&self) -> Vec<u64> {
        let mut bits = vec![0_u64; self.len.div_ceil(64)];
        for (index, ((bit, dead), blocked)) in bits.iter_mut().zip(self.dead.iter()).zip(self.blocked.iter()).enumerate() {
            let rows = (self.len - index * 64).min(64);
            let exists = if rows == 64 { u64::MAX } else { (1 << rows) - 1 };
            *bit = exists & !dead & !blocked;
        }
        bits
    }

    pub(crate) fn is_dead(&self, index: usize) -> bool {
        bit(&self.dead, index)
    }

    pub(crate) fn is_blocked(&self, index: usize) -> bool {
        bit(&self.blocked, index)
    }

    pub(crate) fn state(&self, index: usize) -> Option<MutableState> {
        let page = self.states.get(index / SLOTS_PER_PAGE)?.as_ref()?;
        *page.get(index % SLOTS_PER_PAGE)?
    }

    /// Replaces what is known to have changed about a row; with `None` it was never touched.
    pub(crate) fn set_state(&mut self, index: usize, state: Option<MutableState>) {
        let Some(page) = Arc::make_mut(&mut self.states).get_mut(index / SLOTS_PER_PAGE) else {
            return;
        };
        let page = Arc::make_mut(page.get_or_insert_with(|| Arc::new([None; SLOTS_PER_PAGE])));
        if let Some(place) = page.get_mut(index % SLOTS_PER_PAGE) {
            *place = state;
        }
    }
}

fn bit(words: &[u64], index: usize) -> bool {
    words.get(index / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
}

/// Sets a bit copy-on-write; whether it was clear.
pub(crate) fn set_bit(words: &mut Arc<Vec<u64>>, index: usize) -> bool {
    let clear = !bit(words, index);
    if let Some(word) = Arc::make_mut(words).get_mut(index / 64) {
        *word |= 1 << (index % 64);
    }
    clear
}

/// A whole prefix of the log.
#[derive(Debug, Clone, Default)]
pub(crate) struct View {
    /// The last LSN it includes.
    pub(crate) lsn: u64,
    pub(crate) slabs: Vec<SlabView>,
    pub(crate) payloads: Vec<Region>,
    /// Live memories.
    pub(crate) live: u64,
    /// Rows ever stored.
    pub(crate) stored: u64,
}

impl View {
    /// The slab of a slot and the row in it, if the view counts it in.
    pub(crate) fn locate(&self, slot: u64) -> Option<(usize, &SlabView, usize)> {
        let number = self.slabs.partition_point(|slab| slab.base <= slot).checked_sub(1)?;
        let slab = self.slabs.get(number)?;
        let index = usize::try_from(slot - slab.base).ok()?;
        (index < slab.len).then_some((number, slab, index))
    }

    /// Keeps a slot out of every answer.
    pub(crate) fn block(&mut self, slot: u64) {
        let Some((number, slab, index)) = self.locate(slot) else { return };
        let live = !slab.is_dead(index);
        if let Some(slab) = self.slabs.get_mut(number)
            && set_bit(&mut slab.blocked, index)
        {
            self.live -= u64::from(live);
        }
    }
}

/// What is known of one row.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Its slot, across all slabs.
    pub slot: u64,
    /// Its header.
    pub header: EncodingHeader,
    /// Its keys.
    pub key: KeyRecord,
    /// What changed since, or what follows from the header where nothing did.
    pub state: MutableState,
}

/// A reader: one view, and the pass that keeps its bytes in place.
#[derive(Debug)]
pub struct Reader {
    pub(crate) view: Arc<View>,
    pub(crate) pass: ReadPass,
    pub(crate) index: Arc<RwLock<Vec<SlabIndex>>>,
    pub(crate) words: Arc<RwLock<Words>>,
    pub(crate) kernels: &'static Kernels,
}

impl Reader {
    /// The last LSN this reader sees.
    pub fn lsn(&self) -> u64 {
        self.view.lsn
    }

    /// Live memories.
    pub fn live(&self) -> u64 {
        self.view.live
    }

    /// Whether a slot exists, is not forgotten and is not damaged.
    pub fn is_live(&self, slot: u64) -> bool {
        self.view.locate(slot).is_some_and(|(_, slab, index)| !slab.is_dead(index) && !slab.is_blocked(index))
    }

    /// The slab of a slot and its row in it.
    pub fn location(&self, slot: u64) -> Option<(u32, u32)> {
        let (number, _, index) = self.view.locate(slot)?;
        Some((u32::try_from(number).ok()?, u32::try_from(index).ok()?))
    }

    /// The live slot of an id.
    ///
    /// # Errors
    /// `Corrupt` where no row that is whole has the id, and one that is damaged may have had it.
    pub fn find_id(&self, id: &str) -> Result<Option<u64>> {
        let hash = xxhash_rust::xxh3::xxh3_128(id.as_bytes());
        let mut damage = None;
        for slot in self.candidates(hash) {
            let has_id = self.row(slot).and_then(|row| Ok(row.key.id_hash == hash && self.payload(&row)?.id == id));
            match has_id {
                Ok(true) => return Ok(Some(slot)),
                Ok(false) => {}
                Err(error @ KernelError::Corrupt { .. }) => damage = damage.or(Some(error)),
                Err(error) => return Err(error),
            }
        }
        damage.map_or(Ok(None), Err)
    }

    /// Memories ever stored, as far as rows are left of them: each once, however often it was written again under its id.
    ///
    /// A row written for the first time has a place in the order of memories above all before it; one written again keeps the old place.
    pub fn memories(&self) -> u64 {
        let mut last = 0;
        let mut memories = 0;
        for slab in &self.view.slabs {
            let rows = slab.rows.headers(&self.pass).iter().zip(slab.rows.keys(&self.pass)).take(slab.len);
            for key in rows.filter(|(header, _)| !header.is_scrubbed()).map(|(_, key)| key) {
                if key.lsn > last {
                    last = key.lsn;
                    memories += 1;
                }
            }
        }
        memories
    }

    /// Slots, not forgotten, whose id may have this hash.
    fn candidates(&self, hash: u128) -> Vec<u64> {
        let index = self.index.read();
        let slots = index.iter().zip(&self.view.slabs).flat_map(|(index, slab)| {
            let rows = index.by_id(hash).into_iter().map(|row| row as usize);
            rows.filter(|&row| row < slab.len && !slab.is_dead(row)).map(|row| slab.base + row as u64)
        });
        slots.collect()
    }

    /// The live memory that came before this one in its session, forgotten ones passed over.
    pub fn predecessor(&self, row: &Row) -> Option<u64> {
        let mut slot = row.key.predecessor;
        while let Some((_, slab, index)) = self.view.locate(slot) {
            if self.is_live(slot) {
                return Some(slot);
            }
            let keys = slab.rows.keys(&self.pass).get(index).filter(|key| key.is_whole());
            let key = keys?;
            if let Some(moved) = self.rewritten(key) {
                return Some(moved);
            }
            slot = key.predecessor;
        }
        None
    }

    /// Where a memory whose old row is dead lies now, if it was written again under its id.
    fn rewritten(&self, old: &KeyRecord) -> Option<u64> {
        self.candidates(old.id_hash)
            .into_iter()
            .find(|&slot| self.row(slot).is_ok_and(|row| row.key.id_hash == old.id_hash && row.key.lsn == old.lsn))
    }

    /// Every live slot from `from` on, in order.
    pub fn live_slots(&self, from: u64) -> impl Iterator<Item = u64> + '_ {
        self.view.slabs.iter().flat_map(move |slab| {
            let first = usize::try_from(from.saturating_sub(slab.base)).unwrap_or(usize::MAX);
            (first..slab.len).filter(|&index| !slab.is_dead(index) && !slab.is_blocked(index)).map(|index| slab.base + index as u64)
        })
    }

    /// A row, its checksums checked.
    ///
    /// # Errors
    /// `Corrupt` where header or keys are not what was written.
    pub fn row(&self, slot: u64) -> Result<Row> {
        let (number, slab, index) = self.view.locate(slot).ok_or(KernelError::Internal("a slot that does not exist"))?;
        let header = slab.rows.headers(&self.pass).get(index).copied();
        let key = slab.rows.keys(&self.pass).get(index).copied();
        let (header, key) = header.zip(key).ok_or(KernelError::Internal("a row above its slab"))?;
        if slab.is_blocked(index) || !header.is_whole() || !key.is_whole() {
            return Err(KernelError::corrupt(
                crate::rows::slab_path(number, "headers"),
                (index * 64) as u64,
                None,
                "the row's checksum does not match",
            ));
        }
        Ok(Row { slot, header, key, state: slab.state(index).unwrap_or_else(|| initial_state(&header, &key)) })
    }

    /// A row's vector, `dimension` values and padding, its checksum checked against the header.
    ///
    /// # Errors
    /// `Corrupt` where the row is not what was written.
    pub fn vector(&self, row: &Row) -> Result<&[f32]> {
        let (number, slab, index) = self.view.locate(row.slot).ok_or(KernelError::Internal("a slot that does not exist"))?;
        let stride = slab.rows.stride();
        let values = slab.rows.vectors(&self.pass).get(index * stride..(index + 1) * stride);
        let values = values.ok_or(KernelError::Internal("a row above its slab"))?;
        if crc(0, bytemuck::cast_slice(values)) != row.header.row_crc {
            let file = crate::rows::slab_path(number, "vectors");
            return Err(KernelError::corrupt(file, (index * stride * 4) as u64, Some(row.key.lsn), "the vector's checksum does not match"));
        }
        Ok(values)
    }

    /// A row's payload.
    ///
    /// # Errors
    /// `Corrupt` where the record is not what was written.
    pub fn payload(&self, row: &Row) -> Result<Payload> {
        let address = PayloadAddress::from_bits(row.header.payload_at);
        let damaged = || {
            let file = crate::payload::segment_path(address.segment);
            KernelError::corrupt(file, u64::from(address.offset), Some(row.key.lsn), "the payload's checksum does not match")
        };
        let region = self.view.payloads.get(address.segment as usize).ok_or_else(damaged)?;
        let from = address.offset as usize;
        let bytes = region.slice(&self.pass).get(from..from + row.header.payload_len as usize).ok_or_else(damaged)?;
        Payload::decode(address, bytes).ok_or_else(damaged)
    }
}

/// The state of a row that nothing has touched.
pub(crate) fn initial_state(header: &EncodingHeader, key: &KeyRecord) -> MutableState {
    MutableState { strength: 1.0, valence: header.valence, recall_count: 0, last_recall_ms: 0, last_seen_ms: key.last_seen_base_ms }
}
