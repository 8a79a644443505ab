//! A segment's header block: 4 KiB at its start, written durably before its first frame.

use super::BLOCK;
use crate::format::{Encoder, FORMAT_VERSION, Input, crc};

const MAGIC: &[u8; 8] = b"MNEMOWAL";

/// What identifies a segment and binds it to its store, its place in the chain and its incarnation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) store_uuid: u128,
    /// Raised whenever recovery cut a tail: frames of an older epoch prove nothing.
    pub(crate) epoch: u64,
    /// Seeds every checksum of the segment.
    pub(crate) salt: u64,
    /// Position in the chain, from 1.
    pub(crate) sequence: u64,
    /// The first log position it may hold.
    pub(crate) first_lsn: u64,
    /// The highest log position known durable when it was started.
    pub(crate) durable_lsn: u64,
    /// Checksum of the last frame of the previous segment.
    pub(crate) previous_crc: u32,
}

/// What a header block turned out to be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HeaderBlock {
    Whole(SegmentHeader),
    /// Never written.
    Blank,
    Damaged,
    /// Whole, of a newer format.
    Newer(u32),
}

impl SegmentHeader {
    /// The whole block.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(BLOCK as usize);
        let mut out = Encoder(&mut bytes);
        out.bytes(MAGIC);
        out.u32(FORMAT_VERSION);
        out.u32(self.previous_crc);
        out.bytes(&self.store_uuid.to_le_bytes());
        for value in [self.epoch, self.salt, self.sequence, self.first_lsn, self.durable_lsn] {
            out.u64(value);
        }
        bytes.resize(BLOCK as usize - 4, 0);
        let sum = crc(0, &bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads a block.
    pub(crate) fn decode(block: &[u8]) -> HeaderBlock {
        if block.iter().all(|&byte| byte == 0) {
            return HeaderBlock::Blank;
        }
        Self::parse(block).unwrap_or(HeaderBlock::Damaged)
    }

    fn parse(block: &[u8]) -> Option<HeaderBlock> {
        let (body, sum) = block.split_at_checked(BLOCK as usize - 4)?;
        if crc(0, body).to_le_bytes() != *sum {
            return None;
        }
        let mut input = Input::new(body);
        if input.take(8)? != MAGIC {
            return None;
        }
        let version = input.u32()?;
        if version > FORMAT_VERSION {
            return Some(HeaderBlock::Newer(version));
        }
        let previous_crc = input.u32()?;
        let store_uuid = u128::from_le_bytes(input.take(16)?.try_into().ok()?);
        let header = Self {
            store_uuid,
            epoch: input.u64()?,
            salt: input.u64()?,
            sequence: input.u64()?,
            first_lsn: input.u64()?,
            durable_lsn: input.u64()?,
            previous_crc,
        };
        Some(HeaderBlock::Whole(header))
    }

    /// The seed of the checksums of a frame at `offset`.
    pub(crate) fn seed(&self, offset: u64) -> u32 {
        xxhash_rust::xxh3::xxh3_64(bytemuck::bytes_of(&[self.salt, self.sequence, offset])) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_and_notices_every_flip() {
        let header = SegmentHeader { store_uuid: 1, epoch: 2, salt: 3, sequence: 4, first_lsn: 5, durable_lsn: 6, previous_crc: 7 };
        let block = header.encode();
        assert_eq!(block.len() as u64, BLOCK);
        assert_eq!(SegmentHeader::decode(&block), HeaderBlock::Whole(header));
        assert_eq!(SegmentHeader::decode(&vec![0; BLOCK as usize]), HeaderBlock::Blank);
        for bit in 0..block.len() * 8 {
            let mut flipped = block.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(SegmentHeader::decode(&flipped), HeaderBlock::Damaged, "bit {bit}");
        }
        assert_ne!(header.seed(4096), header.seed(8192));
        assert_ne!(header.seed(4096), SegmentHeader { salt: 9, ..header }.seed(4096));
    }
}
