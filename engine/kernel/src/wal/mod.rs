//! The write-ahead log: the truth.
//!
//! A log is a chain of fixed-length segments, each zero-filled before its first frame. A frame is one group commit: a 64-byte
//! header and length-prefixed records, padded to 4 KiB, never spanning segments. Checksums are seeded with the segment's salt, its
//! sequence number and the frame's offset, and every frame carries its predecessor's checksum: stale, copied or misplaced bytes never validate.
//!
//! Crash behaviour: a torn frame is a tail and is cut, unless something vouches that it was durable; see [`recovery`].

pub(crate) mod frame;
pub(crate) mod record;
pub(crate) mod recovery;
pub(crate) mod segment;
pub(crate) mod tail;

/// Frames start on this boundary on every path.
pub(crate) const BLOCK: u64 = 4096;
/// A frame's body is at most this long, unless one record alone is longer.
pub(crate) const MAX_FRAME_BYTES: usize = 1 << 20;
/// The first segment's length; each next one is twice as long up to [`MAX_SEGMENT_BYTES`].
pub(crate) const FIRST_SEGMENT_BYTES: u64 = 256 << 10;
/// The longest segment, unless one record needs more.
pub(crate) const MAX_SEGMENT_BYTES: u64 = 16 << 20;
/// No record is longer: the bound every length is checked against before it is believed.
pub(crate) const MAX_RECORD_BYTES: usize = 64 << 20;
/// No segment's file is longer: the header block and a frame of one longest record, with all that goes around it.
pub(crate) const MAX_FILE_BYTES: u64 = MAX_RECORD_BYTES as u64 + 4 * BLOCK;

/// The folder of the segments.
pub(crate) const FOLDER: &str = "wal";

/// The file of the segment that starts at `first_lsn`.
pub(crate) fn segment_path(first_lsn: u64) -> String {
    format!("{FOLDER}/{first_lsn:020}.wal")
}
