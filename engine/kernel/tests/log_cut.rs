//! A log whose last frame was cut at any byte loses that frame at most, and goes on.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod support;

use mnemolith_backends::NamespaceImage;
use support::{Dump, dump, exhaustive, frames, killed, open, options, put, segments};

const ROWS: u64 = 6;

/// A store that was never closed, and the dump after each row.
fn image() -> (NamespaceImage, Vec<Dump>) {
    let mut dumps = vec![Dump::default()];
    let image = killed(None, |store| {
        for number in 0..ROWS {
            put(store, number, 100).unwrap();
            dumps.push(dump(store));
        }
    });
    (image, dumps)
}

/// Opens, and gives what is there, what is there the second time, and what is there after another write.
fn reopen(image: &NamespaceImage) -> (Dump, Dump, Dump) {
    let mut first = None;
    let image = killed(Some(image), |store| first = Some(dump(store)));
    let (backend, store) = open(&image).unwrap();
    let second = dump(&store);
    put(&store, 100, 10).unwrap();
    let third = dump(&store);
    assert_eq!(store.verify().unwrap().problems, []);
    drop(store);
    let store = mnemolith_kernel::Store::open(mnemolith_backends::Backend::open(&backend, "t").unwrap(), &options()).unwrap();
    assert_eq!(dump(&store), third, "what was written after the cut");
    (first.unwrap(), second, third)
}

fn cut_everywhere(cut: impl Fn(&mut Vec<u8>, usize)) {
    let (image, dumps) = image();
    let path = &segments(&image)[0];
    let (start, lsn) = *frames(&image.files[path]).last().unwrap();
    assert_eq!(lsn, ROWS);
    let chosen = |at: &usize| exhaustive() || at - start <= 128 || at.is_multiple_of(29) || start + 4096 - at <= 64;
    for at in (start..=start + 4096).filter(chosen) {
        let mut image = image.clone();
        cut(image.files.get_mut(path).unwrap(), at);
        let (first, second, third) = reopen(&image);
        let expected = &dumps[if at == start + 4096 { ROWS } else { first.lsn.max(ROWS - 1) } as usize];
        assert_eq!(&first, expected, "cut at {at}");
        assert_eq!(first, second, "cut at {at}");
        assert_eq!(third.live, second.live + 1);
    }
}

#[test]
fn cut_to_zeros_at_every_byte() {
    cut_everywhere(|bytes, at| bytes[at..].fill(0));
}

#[test]
fn truncated_at_every_byte() {
    cut_everywhere(|bytes, at| bytes.truncate(at));
}

/// The record is longer than a block: whole blocks of the frame may be missing.
#[test]
fn a_long_last_frame_cut_at_every_sector() {
    let before = killed(None, |store| put(store, 0, 10).unwrap());
    let whole = killed(Some(&before), |store| put(store, 1, 40_000).unwrap());
    let path = &segments(&whole)[0];
    let (start, _) = *frames(&whole.files[path]).last().unwrap();
    for at in (start..start + 40_000).step_by(if exhaustive() { 512 } else { 2048 }) {
        let mut image = whole.clone();
        image.files.get_mut(path).unwrap()[at..].fill(0);
        assert_eq!(reopen(&image).0.lsn, 1, "cut at {at}");
        // Sectors may reach the device in any order.
        let mut image = whole.clone();
        image.files.get_mut(path).unwrap()[at..at + 512].fill(0);
        assert_eq!(reopen(&image).0.lsn, 1, "a hole at {at}");
    }
}
