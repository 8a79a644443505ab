//! Lines of bounded length from an input that is not trusted.
//!
//! A line of any bytes comes back whole up to the limit; of a longer one nothing is kept: the rest is skipped without being
//! stored, so the memory a peer can claim by never sending a newline is the limit and no more.

use std::io::{self, BufRead, Read};

/// What a session keeps allocated between lines; a buffer that a big line has grown beyond this is given back.
const KEPT_CAPACITY_BYTES: usize = 1 << 20;

/// One line, or why there is none.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// The bytes of a line, without its newline.
    Bytes(&'a [u8]),
    /// A line longer than the limit; it was skipped.
    TooLong,
}

/// Reads lines of at most `limit` bytes.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    input: R,
    limit: usize,
    buffer: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(input: R, limit: usize) -> Self {
        Self { input, limit, buffer: Vec::new() }
    }

    /// The next line; `None` at the end of the input. A last line needs no newline.
    pub(crate) fn next_line(&mut self) -> io::Result<Option<Line<'_>>> {
        self.buffer.clear();
        self.buffer.shrink_to(KEPT_CAPACITY_BYTES);
        // One byte more than the limit holds the newline of a line that fits exactly.
        let bound = u64::try_from(self.limit).unwrap_or(u64::MAX).saturating_add(1);
        self.input.by_ref().take(bound).read_until(b'\n', &mut self.buffer)?;
        if self.buffer.last() == Some(&b'\n') {
            self.buffer.pop();
        } else if self.buffer.is_empty() {
            return Ok(None);
        } else if self.buffer.len() > self.limit {
            self.input.skip_until(b'\n')?;
            return Ok(Some(Line::TooLong));
        }
        Ok(Some(Line::Bytes(&self.buffer)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(input: &[u8], limit: usize) -> Vec<Option<Vec<u8>>> {
        let mut lines = Lines::new(io::BufReader::with_capacity(3, input), limit);
        let mut read = Vec::new();
        while let Some(line) = lines.next_line().unwrap() {
            read.push(match line {
                Line::Bytes(bytes) => Some(bytes.to_vec()),
                Line::TooLong => None,
            });
        }
        read
    }

    fn line(text: &str) -> Option<Vec<u8>> {
        Some(text.as_bytes().to_vec())
    }

    #[test]
    fn lines_come_back_without_their_newline_and_the_last_needs_none() {
        assert_eq!(read_all(b"one\n\ntwo", 8), [line("one"), line(""), line("two")]);
        assert_eq!(read_all(b"", 8), []);
        assert_eq!(read_all(b"\n", 8), [line("")]);
    }

    #[test]
    fn a_line_of_exactly_the_limit_fits_and_one_byte_more_is_skipped_whole() {
        assert_eq!(read_all(b"12345678\nnext\n", 8), [line("12345678"), line("next")]);
        assert_eq!(read_all(b"123456789\nnext\n", 8), [None, line("next")]);
        assert_eq!(read_all(b"12345678", 8), [line("12345678")]);
        assert_eq!(read_all(b"0123456789012345678901234567890\nnext", 8), [None, line("next")]);
        assert_eq!(read_all(b"0123456789", 8), [None]);
    }

    #[test]
    fn bytes_that_are_not_utf8_come_back_as_they_are() {
        assert_eq!(read_all(b"\xff\xfe\nnext", 8), [Some(vec![0xff, 0xfe]), line("next")]);
    }
}
