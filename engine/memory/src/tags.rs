//! Tags: their normal form, and the 64-bit mask that filters by them.
//!
//! Purpose: two spellings of one tag are one tag, and most memories without a tag are passed
//! over without a look at their tags.
//!
//! Invariants:
//! * a normal form is its own normal form, and is never blank;
//! * a tag sets exactly [`BITS_PER_TAG`] distinct bits, which depend on its normal form alone
//!   and never change, for masks are on disk;
//! * `mask(tags) & mask(query) == mask(query)` whenever every tag of the query is among the tags:
//!   the mask never hides a match. It may let a mismatch through, so exact tags are compared
//!   after it.
//!
//! A Bloom filter (Bloom 1970) of 64 bits, with the bits of one tag drawn without replacement.

use std::collections::HashSet;

use xxhash_rust::xxh3::xxh3_128;

use crate::error::{Error, Result};
use crate::text::fold;
use crate::types::Limits;

/// Bits that each tag sets.
pub(crate) const BITS_PER_TAG: u32 = 3;

/// The normal form of a tag: NFKC, full case fold, trimmed.
pub(crate) fn normalise(tag: &str) -> String {
    fold(tag).trim().to_owned()
}

/// The normal forms of a list of tags, without repetitions, in the order of first occurrence.
///
/// # Errors
/// [`Error::TooManyTags`] (counted as given, before repetitions collapse), [`Error::BlankTag`],
/// [`Error::TagTooLong`] (as given, or in its normal form: one character may become eighteen).
pub(crate) fn normalise_all(tags: &[String]) -> Result<Vec<String>> {
    Ok(pairs(tags)?.into_iter().map(|(normal, _)| normal).collect())
}

/// As [`normalise_all`], each with the form in which it was given first.
///
/// # Errors
/// As [`normalise_all`].
pub(crate) fn pairs(tags: &[String]) -> Result<Vec<(String, String)>> {
    if tags.len() > Limits::TAGS {
        return Err(Error::TooManyTags { found: tags.len(), max: Limits::TAGS });
    }
    let mut seen = HashSet::with_capacity(tags.len());
    let mut out = Vec::with_capacity(tags.len());
    for (index, tag) in tags.iter().enumerate() {
        let too_long = |len| Error::TagTooLong { index, len, max: Limits::TAG_BYTES };
        if tag.len() > Limits::TAG_BYTES {
            return Err(too_long(tag.len()));
        }
        let normal = normalise(tag);
        if normal.is_empty() {
            return Err(Error::BlankTag { index });
        }
        if normal.len() > Limits::TAG_BYTES {
            return Err(too_long(normal.len()));
        }
        if seen.insert(normal.clone()) {
            out.push((normal, tag.clone()));
        }
    }
    Ok(out)
}

/// The bits of one tag in its normal form.
///
/// The 128 bits of the hash are one number, read in a mixed base: a digit below 64 places the
/// first bit, one below 63 the second among the places left, one below 62 the third. So every
/// triple is equally likely, but for a bias below 2^-110.
pub(crate) fn bits(normal: &str) -> u64 {
    let mut rest = xxh3_128(normal.as_bytes());
    let mut mask = 0_u64;
    for taken in 0..BITS_PER_TAG {
        let places = u128::from(64 - taken);
        mask |= nth_free(mask, rest % places);
        rest /= places;
    }
    mask
}

/// The `n`th bit, from 0 and from below, that `mask` leaves free.
fn nth_free(mask: u64, n: u128) -> u64 {
    let mut free = !mask;
    for _ in 0..n {
        free &= free.wrapping_sub(1);
    }
    free & free.wrapping_neg()
}

/// The mask of some tags in their normal form.
pub(crate) fn mask<T: AsRef<str>>(normal: &[T]) -> u64 {
    normal.iter().fold(0, |mask, tag| mask | bits(tag.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn list(tags: &[&str]) -> Vec<String> {
        tags.iter().map(|tag| (*tag).to_owned()).collect()
    }

    #[test]
    fn spellings_of_one_tag_collapse_in_order_of_first_occurrence() {
        let tags = list(&["Zeta", " alpha", "ZETA ", "ＡＬＰＨＡ", "straße", "STRASSE"]);
        assert_eq!(normalise_all(&tags).unwrap(), ["zeta", "alpha", "strasse"]);
    }

    #[test]
    fn each_bound_has_its_own_error() {
        assert_eq!(normalise_all(&vec!["a".to_owned(); 65]), Err(Error::TooManyTags { found: 65, max: 64 }));
        assert!(normalise_all(&vec!["a".to_owned(); 64]).is_ok());
        assert_eq!(normalise_all(&list(&["a", " \t"])), Err(Error::BlankTag { index: 1 }));
        let long = "x".repeat(257);
        assert_eq!(normalise_all(&list(&["a", &long])), Err(Error::TagTooLong { index: 1, len: 257, max: 256 }));
        assert!(normalise_all(&list(&[&long[..256]])).is_ok());
        // One Arabic ligature of 3 bytes becomes a phrase of 33.
        let expanding = "\u{fdfa}".repeat(10);
        assert!(matches!(normalise_all(&[expanding]), Err(Error::TagTooLong { index: 0, .. })));
    }

    #[test]
    fn the_bits_of_a_tag_never_change() {
        // Golden: masks are on disk.
        assert_eq!(bits("deploy"), GOLDEN_DEPLOY);
        assert_eq!(bits("é"), GOLDEN_E_ACUTE);
    }
    const GOLDEN_DEPLOY: u64 = 285_873_023_222_784;
    const GOLDEN_E_ACUTE: u64 = 2_251_799_814_734_848;

    #[test]
    fn free_bits_are_counted_from_below() {
        assert_eq!(nth_free(0, 0), 1);
        assert_eq!(nth_free(0, 63), 1 << 63);
        assert_eq!(nth_free(0b1011, 0), 0b100);
        assert_eq!(nth_free(0b1011, 1), 0b1_0000);
        assert_eq!(nth_free(1 | 1 << 63, 61), 1 << 62);
    }

    /// The chance that a tag that is not there seems to be, beside `n` others: by inclusion and
    /// exclusion over which of its three bits none of the others sets.
    fn expected_rate(n: u32) -> f64 {
        let choose3 = |m: f64| m * (m - 1.0) * (m - 2.0) / 6.0;
        [1.0, 3.0, 3.0, 1.0]
            .iter()
            .enumerate()
            .map(|(j, ways)| {
                let sign = if j % 2 == 0 { 1.0 } else { -1.0 };
                let missed = choose3(64.0 - j as f64) / choose3(64.0);
                sign * ways * missed.powi(n as i32)
            })
            .sum()
    }

    #[test]
    fn false_positives_are_as_rare_as_the_formula_says() {
        for (n, memories) in [(5_u32, 40_000_u32), (10, 8_000), (20, 2_000), (50, 500)] {
            let (mut hits, mut trials) = (0_u64, 0_u64);
            for memory in 0..memories {
                let tags: Vec<String> = (0..n).map(|t| format!("{n}/{memory}/tag {t}")).collect();
                let mask = mask(&tags);
                for probe in 0..100 {
                    let query = bits(&format!("{n}/{memory}/absent {probe}"));
                    hits += u64::from(mask & query == query);
                    trials += 1;
                }
            }
            let (measured, expected) = (hits as f64 / trials as f64, expected_rate(n));
            assert!((measured / expected - 1.0).abs() < 0.05, "{n} tags: measured {measured}, expected {expected}");
        }
    }

    proptest! {
        #[test]
        fn three_bits_a_tag_and_no_match_hidden(
            tags in prop::collection::vec("\\PC{1,12}", 1..20),
            pick in any::<prop::sample::Index>(),
        ) {
            prop_assume!(tags.iter().all(|tag| !normalise(tag).is_empty()));
            let normal = normalise_all(&tags).unwrap();
            for tag in &normal {
                prop_assert_eq!(bits(tag).count_ones(), BITS_PER_TAG);
                prop_assert_eq!(&normalise(tag), tag);
            }
            let query = bits(&normal[pick.index(normal.len())]);
            prop_assert_eq!(mask(&normal) & query, query);
        }
    }
}
