//! Stores laid out by hand over memory, and the random rows they hold.

use std::sync::Arc;

use bytemuck::Zeroable;
use mnemolith_backends::{Backend, Directory, MemoryBackend};
use parking_lot::RwLock;

use crate::format::{EncodingHeader, KeyRecord, MutableState, NO_SLOT, Payload, PayloadTag, flags, row_stride};
use crate::index::SlabIndex;
use crate::payload::PayloadWriters;
use crate::rows::RowWriters;
use crate::view::{Reader, SlabView, View, set_bit};

pub(crate) const NOW_MS: i64 = 1_700_000_000_000;

/// A small generator of numbers (splitmix64).
#[derive(Debug, Clone)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.bits() % end
    }

    pub(crate) fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    /// In `[-1, 1)`.
    pub(crate) fn signed(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }

    pub(crate) fn vector(&mut self, dimension: usize) -> Vec<f32> {
        normalised((0..dimension).map(|_| self.signed()).collect())
    }
}

pub(crate) fn normalised(values: Vec<f64>) -> Vec<f32> {
    let norm = values.iter().map(|value| value * value).sum::<f64>().sqrt();
    values.iter().map(|value| (value / norm) as f32).collect()
}

/// A row as the test knows it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Memory {
    /// Filled in by [`world`].
    pub(crate) slot: u64,
    pub(crate) lsn: u64,
    pub(crate) vector: Vec<f32>,
    pub(crate) importance: f32,
    pub(crate) event_time_ms: i64,
    pub(crate) valence: i8,
    pub(crate) flags: u8,
    /// Tag numbers; the Bloom mask has bit `number % 5`, so that numbers collide.
    pub(crate) tags: Vec<u32>,
    pub(crate) state: Option<(f32, i8)>,
    pub(crate) dead: bool,
    pub(crate) blocked: bool,
}

impl Memory {
    /// Live, with a vector, everything else at its plainest.
    pub(crate) fn plain(lsn: u64, vector: Vec<f32>) -> Self {
        Self {
            slot: 0,
            lsn,
            vector,
            importance: 1.0,
            event_time_ms: NOW_MS,
            valence: 0,
            flags: flags::HAS_VECTOR,
            tags: Vec::new(),
            state: None,
            dead: false,
            blocked: false,
        }
    }

    pub(crate) fn mask(&self) -> u64 {
        bloom(&self.tags)
    }

    pub(crate) fn is_live(&self) -> bool {
        !self.dead && !self.blocked
    }

    pub(crate) fn valence_now(&self) -> i8 {
        self.state.map_or(self.valence, |state| state.1)
    }
}

pub(crate) fn bloom(tags: &[u32]) -> u64 {
    tags.iter().fold(0, |mask, tag| mask | 1 << (tag % 5))
}

/// Rows of every kind: copies that tie but for their place in the log, rows that almost tie, dead ones, touched ones.
pub(crate) fn memories(random: &mut Random, dimension: usize, count: usize) -> Vec<Memory> {
    let mut rows: Vec<Memory> = Vec::new();
    for number in 0..count as u64 {
        // The order of the log is not the order of the slots.
        let lsn = number ^ 1;
        let known = rows.get(random.below(number.max(1)) as usize).cloned();
        let memory = match known {
            Some(known) if random.one_in(4) => Memory { lsn, ..known },
            Some(known) if known.flags & flags::HAS_VECTOR != 0 && random.one_in(4) => {
                let nudged = known.vector.iter().map(|value| f64::from(*value) + 2e-7 * random.signed());
                Memory { lsn, vector: normalised(nudged.collect()), ..known }
            }
            _ => Memory {
                slot: 0,
                lsn,
                vector: random.vector(dimension),
                importance: 0.05 + random.below(200) as f32 / 20.0,
                event_time_ms: NOW_MS - random.below(400) as i64 * 3_600_000 + 36_000_000,
                valence: random.below(255) as i8,
                flags: flags::HAS_VECTOR | ((random.below(4) as u8) << flags::TIER_SHIFT) | (u8::from(random.one_in(5)) * flags::PINNED),
                tags: (1..=9).filter(|_| random.one_in(3)).collect(),
                state: random.one_in(6).then(|| (1.0 + random.below(90) as f32 / 10.0, random.below(255) as i8)),
                dead: random.one_in(10),
                blocked: random.one_in(20),
            },
        };
        let vectorless = random.one_in(15);
        rows.push(if vectorless {
            Memory { vector: vec![0.0; dimension], flags: memory.flags & !flags::HAS_VECTOR, ..memory }
        } else {
            memory
        });
    }
    rows
}

/// A store that lies still.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) reader: Reader,
    pub(crate) index: Arc<RwLock<Vec<SlabIndex>>>,
    /// In the order of their slots.
    pub(crate) rows: Vec<Memory>,
    // Its regions are kept by the view; the namespace lives as long as the test.
    _dir: Arc<dyn Directory>,
}

/// Lays rows out over slabs. The view counts in all of them; behind each slab's last, one more row lies that it does not count.
pub(crate) fn world(dimension: usize, slabs: Vec<Vec<Memory>>) -> World {
    let dir = MemoryBackend::new().open("t").unwrap();
    dir.create_folder(crate::payload::FOLDER).unwrap();
    let mut payloads = PayloadWriters::default();
    let mut view = View::default();
    let (mut indexes, mut known, mut base) = (Vec::new(), Vec::new(), 0);
    for (number, rows) in slabs.into_iter().enumerate() {
        let mut writers = RowWriters::create(dir.as_ref(), number, base, dimension).unwrap();
        let mut slab = SlabView::new(Arc::new(writers.rows()), base, writers.capacity);
        let mut index = SlabIndex::default();
        slab.len = rows.len();
        let unseen = Memory { tags: (1..=9).collect(), ..Memory::plain(0, vec![1.0; dimension]) };
        for (place, memory) in rows.into_iter().chain([unseen]).take(writers.capacity).enumerate() {
            let tags = memory.tags.iter().map(|&id| PayloadTag { id, display: id.to_string() });
            let payload = Payload { id: place.to_string(), tags: tags.collect(), ..Payload::default() };
            let length = payload.encode(crate::format::PayloadAddress { segment: 0, offset: 0 }).len();
            let (address, _) = payloads.reserve(dir.as_ref(), length).unwrap();
            let bytes = payload.encode(address);
            payloads.write(dir.as_ref(), address, &bytes).unwrap();
            let mut vector = memory.vector.clone();
            vector.resize(row_stride(dimension), 0.0);
            let header = EncodingHeader {
                flags: memory.flags,
                valence: memory.valence,
                importance: memory.importance,
                event_time_ms: memory.event_time_ms,
                tags: memory.mask(),
                payload_at: address.to_bits(),
                payload_len: bytes.len() as u32,
                row_crc: crate::format::crc(0, bytemuck::cast_slice(&vector)),
                ..EncodingHeader::zeroed()
            };
            let key = KeyRecord { lsn: memory.lsn, predecessor: NO_SLOT, ..KeyRecord::zeroed() }.sealed();
            writers.append(&header.sealed(), &key, &vector).unwrap();
            index.insert(place as u32, &key, &memory.tags);
            if memory.dead {
                set_bit(&mut slab.dead, place);
            }
            if memory.blocked {
                set_bit(&mut slab.blocked, place);
            }
            if let Some((strength, valence)) = memory.state {
                slab.set_state(place, Some(MutableState { strength, valence, recall_count: 1, last_recall_ms: 0, last_seen_ms: 0 }));
            }
            if place < slab.len {
                known.push(Memory { slot: base + place as u64, ..memory });
            }
        }
        base += writers.capacity as u64;
        view.slabs.push(slab);
        indexes.push(index);
    }
    view.payloads = payloads.segments.iter().map(|segment| segment.region().clone()).collect();
    view.live = known.iter().filter(|memory| memory.is_live()).count() as u64;
    let index = Arc::new(RwLock::new(indexes));
    let reader = Reader {
        view: Arc::new(view),
        pass: dir.gate().read(),
        index: Arc::clone(&index),
        words: Arc::default(),
        kernels: mnemolith_simd::active().unwrap(),
    };
    World { reader, index, rows: known, _dir: dir }
}

/// Rows over three slabs, the middle one full to a multiple of 64 where there are enough.
pub(crate) fn random_world(random: &mut Random, dimension: usize, count: usize) -> World {
    let mut rows = memories(random, dimension, count);
    let last = rows.split_off(count - count / 4);
    let middle = rows.split_off((rows.len() / 2).min(500));
    world(dimension, vec![rows, middle, last])
}
