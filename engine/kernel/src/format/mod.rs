//! The bytes on disk: what each record looks like, and how a damaged one is told from a whole one.
//!
//! Invariants: every integer has an explicit width and is little-endian; every record carries its own checksum; no length
//! read from disk sizes an allocation before it was bounded by the bytes that are there.

#![allow(unsafe_code, reason = "bytemuck's derives implement its unsafe marker traits; they check the layout at compile time")]

mod codec;
mod header;
mod key;
mod page;
mod payload;
mod superblock;

pub(crate) use codec::{Encoder, Input};
pub use header::{EncodingHeader, HEADER_VERSION, flags};
pub use key::{KeyRecord, NO_SLOT};
pub use page::{DamagedRecord, MutableState, SLOTS_PER_PAGE, StrengthRecord};
pub(crate) use page::{LIVENESS_WORDS_PER_PAGE, PAGE_BYTES, decode_liveness_page, encode_liveness_page};
pub use payload::{Payload, PayloadAddress, PayloadTag};
pub(crate) use superblock::{COPY_BYTES, Extent, Superblock, choose as choose_superblock};

/// The version of the on-disk format this build writes, and the newest it reads.
pub const FORMAT_VERSION: u32 = 1;

#[cfg(not(target_endian = "little"))]
compile_error!("records are cast in place as little-endian; a big-endian port must swap them first");

/// CRC32C (Castagnoli, RFC 3720 appendix B.4) of `bytes`, continued from `seed`.
pub(crate) fn crc(seed: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(seed, bytes)
}

/// The vector row stride in `f32`s: the dimension rounded up to 64 bytes, so that every row starts on a cache line.
pub fn row_stride(dimension: usize) -> usize {
    dimension.next_multiple_of(16)
}
