//! The 64-byte `EncodingHeader`: everything a scan needs about one memory, written once, scored in place.

use bytemuck::{Pod, Zeroable};

use super::crc;

/// The version stamped into every header.
pub const HEADER_VERSION: u8 = 1;

/// Bits of [`EncodingHeader::flags`].
pub mod flags {
    /// Exempt from decay.
    pub const PINNED: u8 = 1;
    /// The tier occupies bits 1 and 2: Working, Episodic, Semantic, Procedural.
    pub const TIER_SHIFT: u8 = 1;
    /// Two bits of tier.
    pub const TIER_MASK: u8 = 0b110;
    /// The payload carries a text.
    pub const HAS_TEXT: u8 = 1 << 3;
    /// Importance was forced to its maximum by surprise.
    pub const FLASHBULB: u8 = 1 << 4;
    /// Inferred by a model instead of stated.
    pub const INFERRED: u8 = 1 << 5;
    /// The vector row is meaningful.
    pub const HAS_VECTOR: u8 = 1 << 6;
}

/// One memory's header: 64 bytes, one cache line, little-endian, immutable once written.
#[derive(Debug, Clone, Copy, PartialEq, Pod, Zeroable)]
#[repr(C, align(64))]
pub struct EncodingHeader {
    /// [`HEADER_VERSION`].
    pub header_version: u8,
    /// See [`flags`].
    pub flags: u8,
    /// Valence as encoded, -127..=127.
    pub valence: i8,
    /// Arousal, 0..=255.
    pub arousal: u8,
    /// Importance, 0.05..=10.
    pub importance: f32,
    /// When it happened, milliseconds since the epoch, UTC.
    pub event_time_ms: i64,
    /// Bloom mask of the tags.
    pub tags: u64,
    /// L2 norm of the vector as it was given.
    pub norm: f32,
    /// Zero.
    pub reserved: u32,
    /// Where the payload lies: segment in the high half, byte offset in the low half.
    pub payload_at: u64,
    /// Bytes of the payload record.
    pub payload_len: u32,
    /// Interned session, 0 = none.
    pub session: u32,
    /// Surprise when it was encoded, in standard deviations.
    pub surprise_z: f32,
    /// Version of the persona that coloured it, 0 = none.
    pub soul_version: u16,
    /// Caller's source code.
    pub source: u8,
    /// Number of tags.
    pub tag_count: u8,
    /// CRC32C of the vector row, padding included.
    pub row_crc: u32,
    /// CRC32C of bytes 0..60.
    pub crc: u32,
}

const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<EncodingHeader>() == 64 && align_of::<EncodingHeader>() == 64);
    assert!(offset_of!(EncodingHeader, header_version) == 0 && offset_of!(EncodingHeader, flags) == 1);
    assert!(offset_of!(EncodingHeader, valence) == 2 && offset_of!(EncodingHeader, arousal) == 3);
    assert!(offset_of!(EncodingHeader, importance) == 4 && offset_of!(EncodingHeader, event_time_ms) == 8);
    assert!(offset_of!(EncodingHeader, tags) == 16 && offset_of!(EncodingHeader, norm) == 24);
    assert!(offset_of!(EncodingHeader, reserved) == 28 && offset_of!(EncodingHeader, payload_at) == 32);
    assert!(offset_of!(EncodingHeader, payload_len) == 40 && offset_of!(EncodingHeader, session) == 44);
    assert!(offset_of!(EncodingHeader, surprise_z) == 48 && offset_of!(EncodingHeader, soul_version) == 52);
    assert!(offset_of!(EncodingHeader, source) == 54 && offset_of!(EncodingHeader, tag_count) == 55);
    assert!(offset_of!(EncodingHeader, row_crc) == 56 && offset_of!(EncodingHeader, crc) == 60);
};

impl EncodingHeader {
    /// Stamps version and checksum.
    #[must_use]
    pub fn sealed(mut self) -> Self {
        self.header_version = HEADER_VERSION;
        self.crc = self.computed_crc();
        self
    }

    /// Whether the bytes are what was sealed.
    pub fn is_whole(&self) -> bool {
        self.header_version == HEADER_VERSION && self.crc == self.computed_crc()
    }

    /// Whether every byte was destroyed by a purge.
    pub fn is_scrubbed(&self) -> bool {
        bytemuck::bytes_of(self).iter().all(|&byte| byte == 0)
    }

    /// The tier, 0..=3.
    pub fn tier(&self) -> u8 {
        (self.flags & flags::TIER_MASK) >> flags::TIER_SHIFT
    }

    /// Whether a flag of [`flags`] is set.
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    fn computed_crc(&self) -> u32 {
        let unsealed = Self { crc: 0, ..*self };
        crc(0, bytemuck::bytes_of(&unsealed).get(..60).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> EncodingHeader {
        EncodingHeader {
            header_version: 0,
            flags: flags::PINNED | (2 << flags::TIER_SHIFT) | flags::HAS_TEXT,
            valence: -5,
            arousal: 200,
            importance: 2.5,
            event_time_ms: 0x0102_0304_0506_0708,
            tags: 0x1122_3344_5566_7788,
            norm: 1.0,
            reserved: 0,
            payload_at: 0x0000_0002_0000_0100,
            payload_len: 77,
            session: 9,
            surprise_z: -0.5,
            soul_version: 3,
            source: 4,
            tag_count: 2,
            row_crc: 0xdead_beef,
            crc: 0,
        }
        .sealed()
    }

    /// The format is what is on disk, not what the compiler makes of the struct: these bytes may never change.
    #[test]
    fn golden_bytes() {
        let bytes = bytemuck::bytes_of(&sample()).to_vec();
        let expected: [u8; 60] = [
            1, 0b1101, 0xfb, 200, 0, 0, 0x20, 0x40, 8, 7, 6, 5, 4, 3, 2, 1, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0, 0, 0x80,
            0x3f, 0, 0, 0, 0, 0, 1, 0, 0, 2, 0, 0, 0, 77, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0xbf, 3, 0, 4, 2, 0xef, 0xbe, 0xad, 0xde,
        ];
        assert_eq!(&bytes[..60], &expected);
        assert_eq!(bytes[60..], crc32c::crc32c(&expected).to_le_bytes());
    }

    #[test]
    fn every_bit_flip_is_noticed() {
        let header = sample();
        assert!(header.is_whole());
        assert_eq!(header.tier(), 2);
        for bit in 0..512 {
            let mut bytes: [u8; 64] = bytemuck::cast(header);
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(!bytemuck::cast::<_, EncodingHeader>(bytes).is_whole(), "bit {bit}");
        }
    }
}
