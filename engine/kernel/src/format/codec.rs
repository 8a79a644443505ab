//! Little-endian encoding and bounded decoding.
//!
//! Invariant: [`Input`] never reads past its bytes and never allocates; a short input is `None`.

use std::borrow::Cow;

/// Appends little-endian values to a buffer.
pub(crate) struct Encoder<'a>(pub(crate) &'a mut Vec<u8>);

impl Encoder<'_> {
    pub(crate) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }
    pub(crate) fn u16(&mut self, value: u16) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }
    pub(crate) fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }
    pub(crate) fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }
    pub(crate) fn bytes(&mut self, value: &[u8]) {
        self.0.extend_from_slice(value);
    }
    /// A run of bytes behind its length as u32; the callers bound lengths long before.
    pub(crate) fn run(&mut self, value: &[u8]) {
        self.u32(u32::try_from(value.len()).unwrap_or(u32::MAX));
        self.bytes(value);
    }
}

/// A bounded reader over bytes that may be damaged.
#[derive(Clone, Copy)]
pub(crate) struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }
    pub(crate) fn remaining(&self) -> usize {
        self.rest.len()
    }
    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.rest.split_at_checked(len)?;
        self.rest = tail;
        Some(head)
    }
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }
    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(u8::from_le_bytes)
    }
    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }
    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }
    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
    /// A run of bytes behind its length as u32.
    pub(crate) fn run(&mut self) -> Option<&'a [u8]> {
        let len = self.u32()?;
        self.take(usize::try_from(len).ok()?)
    }
    /// A run of UTF-8 behind its length as u32.
    pub(crate) fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.run()?).ok()
    }
    /// A plain record, copied out so that alignment does not matter.
    pub(crate) fn record<T: bytemuck::AnyBitPattern>(&mut self) -> Option<T> {
        self.take(size_of::<T>()).map(bytemuck::pod_read_unaligned)
    }
    /// `count` little-endian f32s; borrowed where they happen to be aligned.
    pub(crate) fn floats(&mut self, count: usize) -> Option<Cow<'a, [f32]>> {
        let bytes = self.take(count.checked_mul(4)?)?;
        Some(match bytemuck::try_cast_slice(bytes) {
            Ok(aligned) => Cow::Borrowed(aligned),
            Err(_) => Cow::Owned(bytes.chunks_exact(4).map(bytemuck::pod_read_unaligned).collect()),
        })
    }
}
