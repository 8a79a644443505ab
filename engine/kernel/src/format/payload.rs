//! Payload records: id, text, tags, metadata and session of one memory, append-only, each with its own checksum.
//!
//! Layout: crc32c u32 (seeded with the address, over the rest), then runs behind u32 lengths. The checksum's seed makes a record that
//! lies at the wrong place as bad as a damaged one.

use super::{Encoder, Input, crc};

/// Where a payload record lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PayloadAddress {
    /// Segment number.
    pub segment: u32,
    /// Byte offset in it.
    pub offset: u32,
}

impl PayloadAddress {
    /// As the header holds it.
    pub fn to_bits(self) -> u64 {
        (u64::from(self.segment) << 32) | u64::from(self.offset)
    }

    /// From the header's form.
    pub fn from_bits(bits: u64) -> Self {
        Self { segment: (bits >> 32) as u32, offset: bits as u32 }
    }
}

/// One tag as the caller wrote it, with its dictionary id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayloadTag {
    /// The id of its normal form.
    pub id: u32,
    /// As it was given.
    pub display: String,
}

/// What a payload record holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Payload {
    /// The memory's id.
    pub id: String,
    /// Its text, where it has one.
    pub text: Option<String>,
    /// Its tags, in the caller's order.
    pub tags: Vec<PayloadTag>,
    /// Metadata as canonical JSON bytes; empty where there is none.
    pub metadata: Vec<u8>,
    /// The name of its session.
    pub session: Option<String>,
}

impl Payload {
    /// The record for its place.
    pub fn encode(&self, address: PayloadAddress) -> Vec<u8> {
        let text_len = self.text.as_ref().map_or(0, String::len);
        let mut bytes = Vec::with_capacity(64 + self.id.len() + text_len + self.metadata.len() + self.tags.len() * 24);
        let mut out = Encoder(&mut bytes);
        out.u32(0);
        out.u8(u8::from(self.text.is_some()) | (u8::from(self.session.is_some()) << 1));
        out.u8(u8::try_from(self.tags.len()).unwrap_or(u8::MAX));
        out.u16(0);
        out.run(self.id.as_bytes());
        out.run(self.text.as_deref().unwrap_or_default().as_bytes());
        out.run(self.session.as_deref().unwrap_or_default().as_bytes());
        out.run(&self.metadata);
        for tag in &self.tags {
            out.u32(tag.id);
            out.run(tag.display.as_bytes());
        }
        let sum = record_crc(address, bytes.get(4..).unwrap_or_default());
        if let Some(place) = bytes.get_mut(..4) {
            place.copy_from_slice(&sum.to_le_bytes());
        }
        bytes
    }

    /// The record at its place; `None` where the bytes are not what was written there.
    pub fn decode(address: PayloadAddress, bytes: &[u8]) -> Option<Self> {
        let mut input = Input::new(bytes);
        if input.u32()? != record_crc(address, bytes.get(4..)?) {
            return None;
        }
        let present = input.u8()?;
        let tag_count = input.u8()?;
        input.u16()?;
        let id = input.text()?.to_owned();
        let text = input.text()?;
        let session = input.text()?;
        let metadata = input.run()?.to_vec();
        let tags =
            (0..tag_count).map(|_| Some(PayloadTag { id: input.u32()?, display: input.text()?.to_owned() })).collect::<Option<Vec<_>>>()?;
        Some(Self {
            id,
            text: (present & 1 != 0).then(|| text.to_owned()),
            tags,
            metadata,
            session: (present & 2 != 0).then(|| session.to_owned()),
        })
    }
}

fn record_crc(address: PayloadAddress, body: &[u8]) -> u32 {
    crc(crc(0, &address.to_bits().to_le_bytes()), body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_and_notices_every_flip_and_every_other_place() {
        let payload = Payload {
            id: "a#/../\n🦀".into(),
            text: Some("with a \0 inside".into()),
            tags: vec![PayloadTag { id: 3, display: "Rust".into() }],
            metadata: b"{}".to_vec(),
            session: Some("s".into()),
        };
        let address = PayloadAddress { segment: 2, offset: 64 };
        assert_eq!(PayloadAddress::from_bits(address.to_bits()), address);
        let bytes = payload.encode(address);
        assert_eq!(Payload::decode(address, &bytes), Some(payload));
        assert_eq!(Payload::decode(PayloadAddress { segment: 2, offset: 128 }, &bytes), None);
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Payload::decode(address, &flipped), None, "bit {bit}");
        }
        for len in 0..bytes.len() {
            assert_eq!(Payload::decode(address, &bytes[..len]), None, "cut at {len}");
        }
    }
}
