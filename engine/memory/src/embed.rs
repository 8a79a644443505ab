//! From text to vector.
//!
//! Purpose: the seam for embedders, and one that works on a fresh machine without a download.
//!
//! Invariants of [`HashingEmbedder`]: equal texts give bit-equal vectors on every platform and in
//! every version with the same identity, for vectors are on disk; a text that is not blank never
//! gives the zero vector.

use std::collections::BTreeMap;

use unicode_segmentation::UnicodeSegmentation;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::error::{Error, Result};
use crate::text::fold;
use crate::vector;

/// Turns texts into vectors, so that texts alike in meaning point alike.
pub trait Embedder: Send + Sync {
    /// Names the model and everything else that its vectors depend on. A store remembers it and
    /// refuses another.
    fn identity(&self) -> String;

    /// The dimension of every vector it makes.
    fn dimension(&self) -> usize;

    /// The vector of a text: finite, not zero, of any length.
    ///
    /// # Errors
    /// [`Error::Unavailable`] where the model cannot be reached now; the memory is then stored
    /// without a vector and gets it later. Any other error fails the call.
    fn embed(&self, text: &str) -> Result<Vec<f32>>;
}

/// A lexical embedder: texts are alike as far as they share words and parts of words.
///
/// It knows nothing of meaning: "car" and "automobile" are strangers, "deploy" and "deployment"
/// are not. It needs no model and no network, and the same text always gives the same vector.
///
/// Signed feature hashing (Weinberger et al. 2009) of two kinds of features: words by Unicode
/// Standard Annex 29 after NFKC and case folding, and the character 3-, 4- and 5-grams of each
/// word with a mark at either end (as in Bojanowski et al. 2017). Weights:
/// * a word counts 1 + ln(occurrences) times (n / (n + 2))^2, where n is its length in characters
///   (an ideograph counts for three): short words are frequent ones (Zipf 1935), and there is no
///   corpus to count in;
/// * punctuation and symbols count a tenth of that, so that they decide only where there is
///   little else;
/// * a word has four places of half its weight each, as in the sparse transforms of Kane and Nelson
///   (2014), so that a collision costs a quarter of a word and not the word;
/// * the grams of a word share half its weight, in the sense of the Euclidean norm, so that a
///   shared word always counts for more than shared parts.
#[derive(Debug, Clone)]
pub struct HashingEmbedder {
    dimension: usize,
}

/// Where the features of each kind begin; no kind's features equal another's.
const SEED_WORD: u64 = 0x6d6e_656d_6f00_0001;
const SEED_GRAM: u64 = 0x6d6e_656d_6f00_0002;
const SEED_TEXT: u64 = 0x6d6e_656d_6f00_0003;
const WORD_PLACES: u64 = 4;
const GRAM_LENGTHS: std::ops::RangeInclusive<usize> = 3..=5;
const GRAM_SHARE: f64 = 0.5;
const SYMBOL_SHARE: f64 = 0.1;
/// Stand at the ends of a word in its grams; no word contains them, being control characters.
const WORD_START: char = '\u{2}';
const WORD_END: char = '\u{3}';

impl HashingEmbedder {
    /// An embedder of this dimension, 1..=65,535. Below about 256 unrelated words collide often.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    pub fn new(dimension: usize) -> Result<Self> {
        vector::check_dimension(dimension)?;
        Ok(Self { dimension })
    }

    fn add(&self, sums: &mut [f64], seed: u64, feature: &[u8], weight: f64) {
        let hash = xxh3_64_with_seed(feature, seed);
        // The top bit is the sign and the others the place, so the two are independent.
        let place = (hash & (u64::MAX >> 1)) % self.dimension as u64;
        let signed = if hash >> 63 == 0 { weight } else { -weight };
        if let Some(sum) = usize::try_from(place).ok().and_then(|place| sums.get_mut(place)) {
            *sum += signed;
        }
    }

    fn add_word(&self, sums: &mut [f64], word: &str, occurrences: u32) {
        let length = word.chars().map(|c| if is_ideograph(c) { 3.0 } else { 1.0 }).sum::<f64>();
        let rarity = length / (length + 2.0);
        let mut weight = (1.0 + libm::log(f64::from(occurrences))) * rarity * rarity;
        if !word.contains(char::is_alphanumeric) {
            weight *= SYMBOL_SHARE;
        }
        for place in 0..WORD_PLACES {
            let share = weight / (WORD_PLACES as f64).sqrt();
            self.add(sums, SEED_WORD + (place << 32), word.as_bytes(), share);
        }
        let grams = grams(word);
        let share = weight * GRAM_SHARE / (grams.len().max(1) as f64).sqrt();
        for gram in grams {
            self.add(sums, SEED_GRAM, gram.as_bytes(), share);
        }
    }
}

impl Embedder for HashingEmbedder {
    fn identity(&self) -> String {
        "mnemolith-hashing-1".to_owned()
    }

    fn dimension(&self) -> usize {
        self.dimension
    }

    fn embed(&self, text: &str) -> Result<Vec<f32>> {
        if text.trim().is_empty() {
            return Err(Error::BlankText);
        }
        let folded = fold(text);
        // Ordered, so that the sums below always run in the same order.
        let mut words: BTreeMap<&str, u32> = BTreeMap::new();
        for word in folded.split_word_bounds().filter(|word| !word.trim().is_empty()) {
            let occurrences = words.entry(word).or_default();
            *occurrences = occurrences.saturating_add(1);
        }
        let mut sums = vec![0.0_f64; self.dimension];
        for (word, occurrences) in &words {
            self.add_word(&mut sums, word, *occurrences);
        }
        // Features of opposite sign may have cancelled out, or left only what rounding leaves.
        if sums.iter().map(|x| x * x).sum::<f64>() < 1e-12 {
            sums.fill(0.0);
            self.add(&mut sums, SEED_TEXT, folded.as_bytes(), 1.0);
        }
        let norm = sums.iter().map(|x| x * x).sum::<f64>().sqrt();
        Ok(sums.into_iter().map(|x| (x / norm) as f32).collect())
    }
}

/// Whether a character is a word, or nearly one, by itself: Han, kana and Hangul.
fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{2e80}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{20000}'..='\u{3ffff}')
}

/// The character 3-, 4- and 5-grams of a word between its end marks.
fn grams(word: &str) -> Vec<String> {
    let marked: Vec<char> = std::iter::once(WORD_START).chain(word.chars()).chain(std::iter::once(WORD_END)).collect();
    GRAM_LENGTHS.flat_map(|length| marked.windows(length)).map(|gram| gram.iter().collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn embed(text: &str) -> Vec<f32> {
        HashingEmbedder::new(384).unwrap().embed(text).unwrap()
    }

    fn cosine(one: &str, other: &str) -> f64 {
        let (one, other) = (embed(one), embed(other));
        one.iter().zip(&other).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    }

    const MEMORIES: [&str; 8] = [
        "Caroline went to the pottery workshop on Saturday",
        "The deployment failed because the database password had expired",
        "Melanie's favourite painter is Vermeer",
        "We agreed to use PostgreSQL 16 for the billing service",
        "The cat sleeps on the warm radiator all afternoon",
        "Alice works at Google as a site reliability engineer",
        "Прививка собаки назначена на четверг",
        "会議は水曜日の午後に延期された",
    ];

    #[test]
    fn a_text_is_found_by_its_own_words() {
        for (query, wanted) in [
            ("pottery workshop", 0),
            ("why did the deploy fail? database passwords", 1),
            ("painter Vermeer", 2),
            ("which PostgreSQL for billing", 3),
            ("CAT RADIATOR", 4),
            ("where does Alice work", 5),
            ("собака прививка", 6),
            ("会議 水曜日", 7),
        ] {
            let scores: Vec<f64> = MEMORIES.iter().map(|text| cosine(query, text)).collect();
            let best = (0..scores.len()).max_by(|a, b| scores[*a].total_cmp(&scores[*b])).unwrap();
            assert_eq!(best, wanted, "{query}: {scores:?}");
            for (other, score) in scores.iter().enumerate().filter(|(other, _)| *other != wanted) {
                assert!(scores[wanted] > 2.0 * score, "{query}: {other} of {scores:?}");
            }
        }
    }

    #[test]
    fn unrelated_texts_are_nearly_orthogonal_and_forms_of_a_word_are_not() {
        for (one, other) in [(0, 3), (1, 2), (4, 6), (5, 7)] {
            let cosine = cosine(MEMORIES[one], MEMORIES[other]);
            assert!(cosine.abs() < 0.2, "{one} and {other}: {cosine}");
        }
        for (one, other) in
            [("deploy", "deployment"), ("work", "worked"), ("database", "databases"), ("painter", "painting"), ("собака", "собаки")]
        {
            let cosine = cosine(one, other);
            assert!((0.05..0.5).contains(&cosine), "{one} and {other}: {cosine}");
        }
        assert!(cosine("deploy", "deploy") > 0.999_999);
        assert!((cosine("Straße", "STRASSE") - 1.0).abs() < 1e-6);
    }

    #[test]
    fn no_text_that_is_not_blank_gives_zero() {
        for dimension in [1, 2, 3, 64] {
            let embedder = HashingEmbedder::new(dimension).unwrap();
            for text in ["🦀", "👩‍👩‍👧", "?!", "...", "\u{200b}", "\0", "a", "e\u{301}", "你", "- -"] {
                let vector = embedder.embed(text).unwrap();
                assert_eq!(vector.len(), dimension);
                assert_eq!(vector::check(&vector, Some(dimension)), Ok(()), "{text:?}");
            }
        }
        assert_ne!(embed("🦀"), embed("🐙"));
        assert_eq!(HashingEmbedder::new(8).unwrap().embed(" \t"), Err(Error::BlankText));
    }

    #[test]
    fn features_that_cancel_out_leave_a_direction() {
        // In one dimension every feature is +w or -w, and some words cancel out exactly.
        let embedder = HashingEmbedder::new(1).unwrap();
        for word in ('a'..='z').flat_map(|a| ('a'..='z').map(move |b| format!("{a}{b}{a}"))) {
            let vector = embedder.embed(&word).unwrap();
            assert!(vector == [1.0] || vector == [-1.0], "{word}: {vector:?}");
        }
    }

    #[test]
    fn the_dimension_has_bounds() {
        assert!(matches!(HashingEmbedder::new(0), Err(Error::OutOfRange { .. })));
        assert!(HashingEmbedder::new(65_535).is_ok());
        assert!(HashingEmbedder::new(65_536).is_err());
    }

    #[test]
    fn the_vectors_of_one_identity_never_change() {
        // Golden: vectors are on disk. A change here needs a new identity.
        let embedder = HashingEmbedder::new(4).unwrap();
        let bits: Vec<u32> = embedder.embed("Mnemolith remembers C++").unwrap().iter().map(|x| x.to_bits()).collect();
        assert_eq!(bits, GOLDEN);
    }
    const GOLDEN: [u32; 4] = [1_063_474_076, 1_052_747_197, 1_049_140_415, 1_011_965_758];

    proptest! {
        #[test]
        fn vectors_have_length_one_and_repeat(text in "\\PC{1,40}", dimension in 1_usize..40) {
            prop_assume!(!text.trim().is_empty());
            let embedder = HashingEmbedder::new(dimension).unwrap();
            let vector = embedder.embed(&text).unwrap();
            let norm: f64 = vector.iter().map(|x| f64::from(*x).powi(2)).sum();
            prop_assert!((norm - 1.0).abs() < 1e-5);
            prop_assert_eq!(embedder.embed(&text).unwrap(), vector);
        }
    }
}
