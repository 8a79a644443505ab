//! The state snapshot of a checkpoint: registers, dictionaries, pending purges, and copies of the mutable pages it writes in place.
//!
//! The copies make a page that a crash tears harmless: the snapshot is durable before the superblock that names it, the superblock before
//! the first page is touched, and the snapshot is removed only by the next checkpoint, when those pages are durable.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::dictionary::{Dictionary, Words};
use crate::format::{Encoder, Input, MutableState, PAGE_BYTES, SLOTS_PER_PAGE, StrengthRecord, crc, encode_liveness_page};
use crate::store::head::{Dirty, Head};
use crate::view::{StatePage, View};

const MAGIC: &[u8; 8] = b"MNEMOSTA";

/// The file of a checkpoint's snapshot.
pub(crate) fn state_path(sequence: u64) -> String {
    format!("{}/state-{sequence:020}.snap", crate::index::FOLDER)
}

/// Which mutable file a page belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PageKind {
    Strength,
    Liveness,
}

impl PageKind {
    /// The file's name in the slab's folder.
    pub(crate) fn file(self) -> &'static str {
        match self {
            Self::Strength => "strength",
            Self::Liveness => "liveness",
        }
    }
}

/// A page's place: kind, slab, page number.
pub(crate) type PageId = (PageKind, u32, u32);

/// What a snapshot holds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Snapshot {
    pub(crate) registers: BTreeMap<u8, Vec<u8>>,
    pub(crate) words: Words,
    pub(crate) scrubs: BTreeSet<u64>,
    pub(crate) pages: BTreeMap<PageId, Vec<u8>>,
}

impl Snapshot {
    /// The head's, with the pages that are dirty in `view`.
    pub(crate) fn capture(head: &Head, view: &View, dirty: &Dirty) -> Self {
        let mut pages = BTreeMap::new();
        for &(slab, page) in &dirty.states {
            let states = view.slabs.get(slab).and_then(|slab| Some((slab.base, slab.states.get(page)?.as_deref()?)));
            if let Some((base, states)) = states {
                let first = base + (page * SLOTS_PER_PAGE) as u64;
                pages.insert((PageKind::Strength, slab as u32, page as u32), encode_state_page(first, states));
            }
        }
        for &(slab, page) in &dirty.dead {
            let words =
                view.slabs.get(slab).map(|slab| slab.dead.chunks(crate::format::LIVENESS_WORDS_PER_PAGE).nth(page).unwrap_or_default());
            pages.insert(
                (PageKind::Liveness, slab as u32, page as u32),
                encode_liveness_page(slab as u32, page as u32, words.unwrap_or_default()),
            );
        }
        Self { registers: head.registers.clone(), words: head.words.read().clone(), scrubs: head.scrubs.clone(), pages }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut out = Encoder(&mut bytes);
        out.bytes(MAGIC);
        out.u32(crate::format::FORMAT_VERSION);
        out.u32(self.registers.len() as u32);
        for (key, value) in &self.registers {
            out.u8(*key);
            out.run(value);
        }
        for dictionary in [&self.words.tags, &self.words.sessions] {
            let entries = dictionary.entries();
            out.u32(entries.len() as u32);
            for entry in entries {
                out.u8(u8::from(entry.is_some()));
                out.run(entry.unwrap_or_default().as_bytes());
            }
        }
        out.u32(self.scrubs.len() as u32);
        self.scrubs.iter().for_each(|slot| out.u64(*slot));
        out.u32(self.pages.len() as u32);
        for ((kind, slab, page), page_bytes) in &self.pages {
            out.u8(*kind as u8);
            out.u32(*slab);
            out.u32(*page);
            out.bytes(page_bytes);
        }
        let sum = crc(0, &bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads a snapshot with the checksum the superblock names; `None` where it is not that one.
    pub(crate) fn decode(bytes: &[u8], expected_crc: u32) -> Option<Self> {
        let (body, sum) = bytes.split_at_checked(bytes.len().checked_sub(4)?)?;
        (crc(0, body).to_le_bytes() == *sum && *sum == expected_crc.to_le_bytes()).then_some(())?;
        let mut input = Input::new(body);
        (input.take(8)? == MAGIC && input.u32()? == crate::format::FORMAT_VERSION).then_some(())?;
        let mut snapshot = Self::default();
        for _ in 0..input.u32()? {
            let key = input.u8()?;
            snapshot.registers.insert(key, input.run()?.to_vec());
        }
        snapshot.words = Words { tags: dictionary(&mut input)?, sessions: dictionary(&mut input)? };
        for _ in 0..input.u32()? {
            snapshot.scrubs.insert(input.u64()?);
        }
        for _ in 0..input.u32()? {
            let kind = match input.u8()? {
                0 => PageKind::Strength,
                1 => PageKind::Liveness,
                _ => return None,
            };
            let id = (kind, input.u32()?, input.u32()?);
            snapshot.pages.insert(id, input.take(PAGE_BYTES)?.to_vec());
        }
        (input.remaining() == 0).then_some(snapshot)
    }

    /// The checksum at a snapshot's end.
    pub(crate) fn crc_of(bytes: &[u8]) -> u32 {
        bytes.last_chunk().map_or(0, |sum| u32::from_le_bytes(*sum))
    }
}

fn dictionary(input: &mut Input<'_>) -> Option<Dictionary> {
    let count = input.u32()? as usize;
    (count.checked_mul(5)? <= input.remaining()).then_some(())?;
    let entries = (0..count).map(|_| Some((input.u8()? != 0, input.text()?))).collect::<Option<Vec<_>>>()?;
    Some(Dictionary::from_entries(entries.into_iter().map(|(present, word)| present.then_some(Cow::Borrowed(word)))))
}

fn encode_state_page(first_slot: u64, states: &StatePage) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(PAGE_BYTES);
    for (slot, state) in (first_slot..).zip(states) {
        match state {
            Some(state) => bytes.extend_from_slice(bytemuck::bytes_of(&StrengthRecord::new(slot, state))),
            None => bytes.extend_from_slice(&[0; size_of::<StrengthRecord>()]),
        }
    }
    bytes
}

/// The states on a page, and the rows whose record is damaged.
pub(crate) fn decode_state_page(first_slot: u64, bytes: &[u8]) -> (Vec<Option<MutableState>>, Vec<usize>) {
    let mut damaged = Vec::new();
    let records = bytes.chunks_exact(size_of::<StrengthRecord>()).enumerate();
    let states = records.map(|(row, record)| {
        let record: StrengthRecord = bytemuck::pod_read_unaligned(record);
        record.read(first_slot + row as u64).unwrap_or_else(|_| {
            damaged.push(row);
            None
        })
    });
    (states.collect(), damaged)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_and_notices_every_flip() {
        let mut snapshot = Snapshot::default();
        snapshot.registers.insert(3, vec![1, 2, 3]);
        snapshot.words.tags.set(1, "tag");
        snapshot.words.tags.set(2, "gone");
        snapshot.words.tags.remove(2);
        snapshot.words.sessions.set(1, "s");
        snapshot.scrubs.insert(9);
        snapshot.pages.insert((PageKind::Liveness, 1, 2), vec![7; PAGE_BYTES]);
        let bytes = snapshot.encode();
        let sum = Snapshot::crc_of(&bytes);
        assert_eq!(Snapshot::decode(&bytes, sum).as_ref(), Some(&snapshot));
        assert_eq!(Snapshot::decode(&bytes, sum ^ 1), None, "another checkpoint's");
        for bit in (0..bytes.len() * 8).step_by(3) {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Snapshot::decode(&flipped, sum), None, "bit {bit}");
        }
    }
}
