//! Log records: self-contained after-images, never deltas, so that replay over any fuzzy state of the slabs is idempotent.

use std::borrow::Cow;

use crate::format::{Encoder, EncodingHeader, Input, KeyRecord, MutableState, StrengthRecord, flags};

/// A word interned for the first time by a record: its number and its text.
pub(crate) type NewWord<'a> = (u32, Cow<'a, str>);

/// A memory's row: stored new, or rewritten under the same id.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StoreRecord<'a> {
    pub(crate) slot: u64,
    /// The slot this row replaces, where the memory existed.
    pub(crate) replaces: Option<u64>,
    pub(crate) header: EncodingHeader,
    pub(crate) key: KeyRecord,
    /// The mutable state of a rewritten row; a new one's follows from its header.
    pub(crate) state: Option<MutableState>,
    /// Dimension-many values, empty without a vector.
    pub(crate) vector: Cow<'a, [f32]>,
    pub(crate) payload: Cow<'a, [u8]>,
    pub(crate) tag_ids: Vec<u32>,
    pub(crate) new_tags: Vec<NewWord<'a>>,
    pub(crate) new_session: Option<NewWord<'a>>,
    /// After-images of the opaque registers it changes.
    pub(crate) registers: Vec<(u8, Cow<'a, [u8]>)>,
}

/// One record of the log.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Record<'a> {
    Store(Box<StoreRecord<'a>>),
    /// After-images of the mutable state of some slots.
    Amend(Vec<(u64, MutableState)>),
    /// The slots are dead; with `purge` their bytes are to be destroyed too.
    Remove {
        slots: Vec<u64>,
        purge: bool,
    },
}

const STORE: u8 = 1;
const AMEND: u8 = 2;
const REMOVE: u8 = 3;
const PURGE: u8 = 4;

impl<'a> Record<'a> {
    /// Appends the record's bytes.
    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        let mut out = Encoder(bytes);
        match self {
            Self::Store(record) => {
                out.u8(STORE);
                record.encode(&mut out);
            }
            Self::Amend(states) => {
                out.u8(AMEND);
                out.u32(states.len() as u32);
                for (slot, state) in states {
                    out.u64(*slot);
                    out.bytes(bytemuck::bytes_of(&StrengthRecord::new(*slot, state)));
                }
            }
            Self::Remove { slots, purge } => {
                out.u8(if *purge { PURGE } else { REMOVE });
                out.u32(slots.len() as u32);
                for slot in slots {
                    out.u64(*slot);
                }
            }
        }
    }

    /// Reads a record of a store of this dimension; `None` where the bytes are no record.
    pub(crate) fn decode(bytes: &'a [u8], dimension: usize) -> Option<Self> {
        let mut input = Input::new(bytes);
        let record = match input.u8()? {
            STORE => Self::Store(Box::new(StoreRecord::decode(&mut input, dimension)?)),
            AMEND => {
                let count = bounded(&mut input, 8 + size_of::<StrengthRecord>())?;
                let states = (0..count).map(|_| {
                    let slot = input.u64()?;
                    let state = input.record::<StrengthRecord>()?.read(slot).ok()??;
                    Some((slot, state))
                });
                Self::Amend(states.collect::<Option<_>>()?)
            }
            kind @ (REMOVE | PURGE) => {
                let count = bounded(&mut input, 8)?;
                Self::Remove { slots: (0..count).map(|_| input.u64()).collect::<Option<_>>()?, purge: kind == PURGE }
            }
            _ => return None,
        };
        (input.remaining() == 0).then_some(record)
    }
}

/// A count that the remaining bytes can really hold.
fn bounded(input: &mut Input<'_>, each: usize) -> Option<usize> {
    let count = input.u32()? as usize;
    (count.checked_mul(each)? <= input.remaining()).then_some(count)
}

impl<'a> StoreRecord<'a> {
    fn encode(&self, out: &mut Encoder<'_>) {
        out.u8(u8::from(self.replaces.is_some()) | (u8::from(self.state.is_some()) << 1) | (u8::from(self.new_session.is_some()) << 2));
        out.u64(self.slot);
        out.u64(self.replaces.unwrap_or(0));
        out.bytes(bytemuck::bytes_of(&self.header));
        out.bytes(bytemuck::bytes_of(&self.key));
        if let Some(state) = &self.state {
            out.bytes(bytemuck::bytes_of(&StrengthRecord::new(self.slot, state)));
        }
        out.bytes(bytemuck::cast_slice(&self.vector));
        out.run(&self.payload);
        out.u32(self.tag_ids.len() as u32);
        for id in &self.tag_ids {
            out.u32(*id);
        }
        out.u32(self.new_tags.len() as u32);
        for (id, text) in self.new_tags.iter().chain(&self.new_session) {
            out.u32(*id);
            out.run(text.as_bytes());
        }
        out.u32(self.registers.len() as u32);
        for (key, value) in &self.registers {
            out.u8(*key);
            out.run(value);
        }
    }

    fn decode(input: &mut Input<'a>, dimension: usize) -> Option<Self> {
        let present = input.u8()?;
        let slot = input.u64()?;
        let replaced = input.u64()?;
        let header: EncodingHeader = input.record()?;
        let key: KeyRecord = input.record()?;
        (header.is_whole() && key.is_whole()).then_some(())?;
        let state = if present & 2 != 0 { input.record::<StrengthRecord>()?.read(slot).ok()? } else { None };
        let vector = input.floats(if header.has(flags::HAS_VECTOR) { dimension } else { 0 })?;
        let payload = Cow::Borrowed(input.run()?);
        let tag_count = bounded(input, 4)?;
        let tag_ids = (0..tag_count).map(|_| input.u32()).collect::<Option<_>>()?;
        let new_count = bounded(input, 8)?;
        let mut word = || Some((input.u32()?, Cow::Borrowed(input.text()?)));
        let new_tags = (0..new_count).map(|_| word()).collect::<Option<_>>()?;
        let new_session = if present & 4 != 0 { Some(word()?) } else { None };
        let register_count = bounded(input, 5)?;
        let registers = (0..register_count).map(|_| Some((input.u8()?, Cow::Borrowed(input.run()?)))).collect::<Option<_>>()?;
        Some(Self {
            slot,
            replaces: (present & 1 != 0).then_some(replaced),
            header,
            key,
            state,
            vector,
            payload,
            tag_ids,
            new_tags,
            new_session,
            registers,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::NO_SLOT;
    use bytemuck::Zeroable;

    fn state() -> MutableState {
        MutableState { strength: 2.0, valence: 1, recall_count: 3, last_recall_ms: 4, last_seen_ms: 5 }
    }

    fn samples() -> Vec<Record<'static>> {
        let header = EncodingHeader { flags: flags::HAS_VECTOR, ..EncodingHeader::zeroed() }.sealed();
        let key = KeyRecord { predecessor: NO_SLOT, ..KeyRecord::zeroed() }.sealed();
        let full = StoreRecord {
            slot: 9,
            replaces: Some(2),
            header,
            key,
            state: Some(state()),
            vector: Cow::Owned(vec![0.5, -1.0, 0.25]),
            payload: Cow::Owned(b"payload".to_vec()),
            tag_ids: vec![1, 2],
            new_tags: vec![(2, "two".into())],
            new_session: Some((1, "s".into())),
            registers: vec![(3, Cow::Owned(vec![1, 2]))],
        };
        let bare = StoreRecord {
            replaces: None,
            state: None,
            header: EncodingHeader::zeroed().sealed(),
            vector: Cow::Owned(vec![]),
            new_session: None,
            ..full.clone()
        };
        vec![
            Record::Store(Box::new(full)),
            Record::Store(Box::new(bare)),
            Record::Amend(vec![(1, state()), (70, state())]),
            Record::Remove { slots: vec![4, 5], purge: false },
            Record::Remove { slots: vec![4], purge: true },
        ]
    }

    #[test]
    fn records_round_trip_and_no_prefix_or_extension_is_a_record() {
        for record in samples() {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            assert_eq!(Record::decode(&bytes, 3).as_ref(), Some(&record));
            for len in 0..bytes.len() {
                assert_eq!(Record::decode(&bytes[..len], 3), None, "cut at {len}");
            }
            bytes.push(0);
            assert_eq!(Record::decode(&bytes, 3), None, "one byte too many");
        }
    }

    #[test]
    fn a_length_is_never_believed_before_it_is_bounded() {
        for kind in [AMEND, REMOVE, PURGE] {
            let mut bytes = vec![kind];
            bytes.extend_from_slice(&u32::MAX.to_le_bytes());
            assert_eq!(Record::decode(&bytes, 3), None);
        }
    }
}
