//! Pages of the mutable regions: strength (64 records of 64 bytes) and liveness (bits with a trailer).
//!
//! They live in private memory and reach the disk only at a checkpoint, in place, each page of 4 KiB; a copy in the state
//! snapshot makes a torn page harmless. An all-zero strength record means "never touched": its values follow from the header.

use bytemuck::{Pod, Zeroable};

use super::{Encoder, Input, crc};

/// Bytes of a page.
pub(crate) const PAGE_BYTES: usize = 4096;
/// Strength records on a page.
pub const SLOTS_PER_PAGE: usize = 64;
/// Words of liveness bits on a page; the trailer takes the last 16 bytes.
pub(crate) const LIVENESS_WORDS_PER_PAGE: usize = 510;

/// What changes about a memory after it was encoded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MutableState {
    /// Resistance to decay, 1..=10.
    pub strength: f32,
    /// Valence after reinforcement.
    pub valence: i8,
    /// Number of reinforcements.
    pub recall_count: u32,
    /// Time of the last reinforcement, milliseconds since the epoch; 0 where there was none.
    pub last_recall_ms: i64,
    /// When its content was last seen, milliseconds since the epoch.
    pub last_seen_ms: i64,
}

/// A record's bytes are not what was written in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DamagedRecord;

/// A [`MutableState`] on disk.
#[derive(Debug, Clone, Copy, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct StrengthRecord {
    strength: f32,
    recall_count: u32,
    last_recall_ms: i64,
    last_seen_ms: i64,
    valence: i8,
    present: u8,
    zero: [u8; 34],
    crc: u32,
}

const _: () = assert!(size_of::<StrengthRecord>() == 64);

impl StrengthRecord {
    /// The record of a slot.
    pub fn new(slot: u64, state: &MutableState) -> Self {
        let mut record = Self {
            strength: state.strength,
            recall_count: state.recall_count,
            last_recall_ms: state.last_recall_ms,
            last_seen_ms: state.last_seen_ms,
            valence: state.valence,
            present: 1,
            zero: [0; 34],
            crc: 0,
        };
        record.crc = record.computed_crc(slot);
        record
    }

    /// The state, `Ok(None)` where the slot was never touched.
    ///
    /// # Errors
    /// Where the bytes are not what was written for this slot.
    pub fn read(&self, slot: u64) -> Result<Option<MutableState>, DamagedRecord> {
        if bytemuck::bytes_of(self).iter().all(|&byte| byte == 0) {
            return Ok(None);
        }
        if self.crc != self.computed_crc(slot) {
            return Err(DamagedRecord);
        }
        Ok(Some(MutableState {
            strength: self.strength,
            valence: self.valence,
            recall_count: self.recall_count,
            last_recall_ms: self.last_recall_ms,
            last_seen_ms: self.last_seen_ms,
        }))
    }

    fn computed_crc(&self, slot: u64) -> u32 {
        let seed = crc(0, &slot.to_le_bytes());
        crc(seed, bytemuck::bytes_of(self).get(..60).unwrap_or_default())
    }
}

/// A liveness page: bits of the dead, then slab, page number, checksum.
pub(crate) fn encode_liveness_page(slab: u32, page: u32, words: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(PAGE_BYTES);
    let mut out = Encoder(&mut bytes);
    for index in 0..LIVENESS_WORDS_PER_PAGE {
        out.u64(words.get(index).copied().unwrap_or(0));
    }
    out.u32(slab);
    out.u32(page);
    out.u32(0);
    let sum = crc(0, out.0);
    out.u32(sum);
    bytes
}

/// The bits of a liveness page; `None` where it is damaged. An all-zero page is one that was never written: nobody is dead.
pub(crate) fn decode_liveness_page(slab: u32, page: u32, bytes: &[u8]) -> Option<Vec<u64>> {
    if bytes.len() == PAGE_BYTES && bytes.iter().all(|&byte| byte == 0) {
        return Some(vec![0; LIVENESS_WORDS_PER_PAGE]);
    }
    let (body, sum) = bytes.split_at_checked(PAGE_BYTES - 4)?;
    let mut input = Input::new(bytes);
    let words = (0..LIVENESS_WORDS_PER_PAGE).map(|_| input.u64()).collect::<Option<Vec<_>>>()?;
    let whole = input.u32()? == slab && input.u32()? == page && crc(0, body).to_le_bytes() == *sum;
    whole.then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strength_record_round_trips_and_notices_flips_and_misplacement() {
        let state = MutableState { strength: 1.5, valence: -3, recall_count: 2, last_recall_ms: 5, last_seen_ms: 6 };
        let record = StrengthRecord::new(17, &state);
        assert_eq!(record.read(17), Ok(Some(state)));
        assert_eq!(record.read(18), Err(DamagedRecord));
        for bit in 0..512 {
            let mut bytes: [u8; 64] = bytemuck::cast(record);
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(bytemuck::cast::<_, StrengthRecord>(bytes).read(17), Err(DamagedRecord), "bit {bit}");
            let mut untouched = [0_u8; 64];
            untouched[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(bytemuck::cast::<_, StrengthRecord>(untouched).read(17), Err(DamagedRecord), "bit {bit} of zeros");
        }
    }

    #[test]
    fn liveness_page_round_trips_and_notices_flips() {
        let words: Vec<u64> = (0..LIVENESS_WORDS_PER_PAGE as u64).map(|word| word.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        let page = encode_liveness_page(3, 1, &words);
        assert_eq!(page.len(), PAGE_BYTES);
        assert_eq!(decode_liveness_page(3, 1, &page).as_deref(), Some(words.as_slice()));
        assert_eq!(decode_liveness_page(3, 2, &page), None);
        assert_eq!(decode_liveness_page(3, 0, &[0; PAGE_BYTES]), Some(vec![0; LIVENESS_WORDS_PER_PAGE]));
        for bit in (0..PAGE_BYTES * 8).step_by(7) {
            let mut flipped = page.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode_liveness_page(3, 1, &flipped), None, "bit {bit}");
        }
    }
}
