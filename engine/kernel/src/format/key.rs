//! The 64-byte key record beside each header: the two hashes by which a memory is found, its place in the order, its predecessor.

use bytemuck::{Pod, Zeroable};

use super::crc;

/// Where a slot number means "none".
pub const NO_SLOT: u64 = u64::MAX;

/// One memory's keys, written once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C, align(64))]
pub struct KeyRecord {
    /// Hash of the content, for the dedup guard.
    pub content_hash: u128,
    /// Hash of the id.
    pub id_hash: u128,
    /// The log position that first stored the memory: its place in the order, kept when the row is rewritten.
    pub lsn: u64,
    /// The slot of the previous memory of its session, [`NO_SLOT`] where it is the first.
    pub predecessor: u64,
    /// When its content was last seen, as of encoding, milliseconds since the epoch.
    pub last_seen_base_ms: i64,
    /// Zero.
    pub reserved: u32,
    /// CRC32C of bytes 0..60.
    pub crc: u32,
}

const _: () = assert!(size_of::<KeyRecord>() == 64);

impl KeyRecord {
    /// Stamps the checksum.
    #[must_use]
    pub fn sealed(mut self) -> Self {
        self.crc = self.computed_crc();
        self
    }

    /// Whether the bytes are what was sealed.
    pub fn is_whole(&self) -> bool {
        self.crc == self.computed_crc()
    }

    fn computed_crc(&self) -> u32 {
        crc(0, bytemuck::bytes_of(self).get(..60).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_flip_is_noticed() {
        let key =
            KeyRecord { content_hash: 7, id_hash: 9, lsn: 3, predecessor: NO_SLOT, last_seen_base_ms: -1, reserved: 0, crc: 0 }.sealed();
        assert!(key.is_whole());
        for bit in 0..512 {
            let mut bytes: [u8; 64] = bytemuck::cast(key);
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(!bytemuck::cast::<_, KeyRecord>(bytes).is_whole(), "bit {bit}");
        }
    }
}
