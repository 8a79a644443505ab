//! Frames: one group commit each.
//!
//! A whole frame proves itself (two seeded checksums), its place (seed and first LSN) and its predecessor (chained checksum); its
//! `durable_lsn` vouches for everything up to that position.

use super::segment::SegmentHeader;
use super::{BLOCK, MAX_RECORD_BYTES};
use crate::format::{Encoder, Input, crc};

/// Bytes of a frame's header.
pub(crate) const HEADER_BYTES: usize = 64;
const MAGIC: u32 = 0x4652_4d4e;
const VERSION: u16 = 1;
const KIND_RECORDS: u16 = 1;

/// A frame's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub(crate) epoch: u64,
    pub(crate) first_lsn: u64,
    /// The highest position known durable when the frame was written.
    pub(crate) durable_lsn: u64,
    pub(crate) record_count: u32,
    pub(crate) body_len: u32,
    pub(crate) previous_crc: u32,
}

/// A frame read back.
#[derive(Debug)]
pub(crate) struct Frame<'a> {
    pub(crate) header: FrameHeader,
    /// The checksum that the next frame carries.
    pub(crate) crc: u32,
    pub(crate) body: &'a [u8],
    /// Bytes it takes in the segment.
    pub(crate) padded_len: u64,
}

/// Bytes a frame with such a body takes in its segment.
pub(crate) fn padded_len(body_len: usize) -> u64 {
    (HEADER_BYTES as u64 + body_len as u64).next_multiple_of(BLOCK)
}

/// Completes a frame in place. `bytes` is [`HEADER_BYTES`] reserved bytes and the body; it comes back padded, with its checksum.
pub(crate) fn seal(bytes: &mut Vec<u8>, segment: &SegmentHeader, offset: u64, header: &FrameHeader) -> u32 {
    let seed = segment.seed(offset);
    bytes.resize(padded_len(bytes.len().saturating_sub(HEADER_BYTES)) as usize, 0);
    let body_crc = crc(seed, bytes.get(HEADER_BYTES..).unwrap_or_default());
    let mut head = Vec::with_capacity(HEADER_BYTES);
    let mut out = Encoder(&mut head);
    out.u32(MAGIC);
    out.u16(VERSION);
    out.u16(KIND_RECORDS);
    out.u64(header.epoch);
    out.u64(header.first_lsn);
    out.u64(header.durable_lsn);
    out.u32(header.record_count);
    out.u32(header.body_len);
    out.u32(header.previous_crc);
    out.u32(body_crc);
    out.bytes(&[0; 12]);
    let header_crc = crc(seed, out.0);
    out.u32(header_crc);
    if let Some(place) = bytes.get_mut(..HEADER_BYTES) {
        place.copy_from_slice(&head);
    }
    header_crc
}

/// The bytes a frame at the start of `bytes` takes, if its header is whole; the rest of the frame is not looked at.
pub(crate) fn peek(bytes: &[u8], segment: &SegmentHeader, offset: u64) -> Option<(FrameHeader, u64)> {
    let (head, sum) = bytes.get(..HEADER_BYTES)?.split_at_checked(HEADER_BYTES - 4)?;
    let mut input = Input::new(head);
    if input.u32()? != MAGIC || crc(segment.seed(offset), head).to_le_bytes() != *sum {
        return None;
    }
    if input.u16()? != VERSION || input.u16()? != KIND_RECORDS {
        return None;
    }
    let header = FrameHeader {
        epoch: input.u64()?,
        first_lsn: input.u64()?,
        durable_lsn: input.u64()?,
        record_count: input.u32()?,
        body_len: input.u32()?,
        previous_crc: input.u32()?,
    };
    ((header.body_len as usize) < MAX_RECORD_BYTES + BLOCK as usize).then(|| (header, padded_len(header.body_len as usize)))
}

/// A whole frame at the start of `bytes`, or nothing.
pub(crate) fn decode<'a>(bytes: &'a [u8], segment: &SegmentHeader, offset: u64) -> Option<Frame<'a>> {
    let (header, padded) = peek(bytes, segment, offset)?;
    let whole = bytes.get(..usize::try_from(padded).ok()?)?;
    let body_crc = u32::from_le_bytes(whole.get(44..48)?.try_into().ok()?);
    let header_crc = u32::from_le_bytes(whole.get(60..64)?.try_into().ok()?);
    let padded_body = whole.get(HEADER_BYTES..)?;
    (crc(segment.seed(offset), padded_body) == body_crc).then_some(())?;
    let body = padded_body.get(..header.body_len as usize)?;
    Some(Frame { header, crc: header_crc, body, padded_len: padded })
}

/// The records of a body, each with its position; `None` where the framing does not add up.
pub(crate) fn records<'a>(frame: &Frame<'a>) -> Option<Vec<(u64, &'a [u8])>> {
    let mut input = Input::new(frame.body);
    let mut records = Vec::new();
    for index in 0..u64::from(frame.header.record_count) {
        records.push((frame.header.first_lsn.checked_add(index)?, input.run()?));
    }
    (input.remaining() == 0).then_some(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment() -> SegmentHeader {
        SegmentHeader { store_uuid: 1, epoch: 2, salt: 3, sequence: 4, first_lsn: 5, durable_lsn: 4, previous_crc: 7 }
    }

    fn sample(offset: u64) -> (Vec<u8>, u32) {
        let mut bytes = vec![0; HEADER_BYTES];
        let mut out = Encoder(&mut bytes);
        out.run(b"first");
        out.run(b"");
        out.run(&[9; 5000]);
        let body_len = (bytes.len() - HEADER_BYTES) as u32;
        let header = FrameHeader { epoch: 2, first_lsn: 5, durable_lsn: 4, record_count: 3, body_len, previous_crc: 7 };
        let sum = seal(&mut bytes, &segment(), offset, &header);
        (bytes, sum)
    }

    #[test]
    fn round_trips() {
        let (bytes, sum) = sample(4096);
        assert_eq!(bytes.len(), 8192);
        let frame = decode(&bytes, &segment(), 4096).unwrap();
        assert_eq!((frame.crc, frame.padded_len), (sum, 8192));
        let found = records(&frame).unwrap();
        assert_eq!(found.iter().map(|(lsn, bytes)| (*lsn, bytes.len())).collect::<Vec<_>>(), [(5, 5), (6, 0), (7, 5000)]);
    }

    #[test]
    fn never_validates_elsewhere() {
        let (bytes, _) = sample(4096);
        assert!(decode(&bytes, &segment(), 8192).is_none(), "at another offset");
        assert!(decode(&bytes, &SegmentHeader { sequence: 5, ..segment() }, 4096).is_none(), "in another segment");
        assert!(decode(&bytes, &SegmentHeader { salt: 4, ..segment() }, 4096).is_none(), "after a recycling");
        for len in 0..bytes.len() {
            assert!(decode(&bytes[..len], &segment(), 4096).is_none(), "cut at {len}");
        }
    }

    #[test]
    fn every_bit_flip_is_noticed_padding_included() {
        let (bytes, _) = sample(4096);
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&flipped, &segment(), 4096).is_none(), "bit {bit}");
        }
    }
}
