//! The content of a memory, for telling duplicates.
//!
//! Purpose: two memories with the same hash have the same content, up to collisions, which the
//! caller rules out by comparing the texts.
//!
//! Invariants:
//! * the hash covers the namespace, the tier, and the canonical text or else the vector;
//! * every part is framed by its length and kind, so that no two different contents are the
//!   same bytes;
//! * the hash never changes: it is on disk.

use xxhash_rust::xxh3::Xxh3;

pub(crate) use crate::text::canonical;
use crate::types::Tier;

const KIND_TEXT: u8 = 1;
const KIND_VECTOR: u8 = 2;

/// The hash of a memory with a text, whatever its vector. Case is significant; the Unicode
/// spelling and the amount of white space are not.
pub(crate) fn text_hash(namespace: &str, tier: Tier, text: &str) -> u128 {
    let canonical = canonical(text);
    let mut hasher = framed(namespace, tier, KIND_TEXT, canonical.len());
    hasher.update(canonical.as_bytes());
    hasher.digest128()
}

/// The hash of a memory without a text: of the vector's components as given, little-endian.
/// 0 and -0 differ.
pub(crate) fn vector_hash(namespace: &str, tier: Tier, vector: &[f32]) -> u128 {
    let mut hasher = framed(namespace, tier, KIND_VECTOR, vector.len());
    for component in vector {
        hasher.update(&component.to_le_bytes());
    }
    hasher.digest128()
}

fn framed(namespace: &str, tier: Tier, kind: u8, len: usize) -> Xxh3 {
    let mut hasher = Xxh3::new();
    hasher.update(&(namespace.len() as u64).to_le_bytes());
    hasher.update(namespace.as_bytes());
    hasher.update(&[tier.code(), kind]);
    hasher.update(&(len as u64).to_le_bytes());
    hasher
}

/// Whether two texts are the same content.
pub(crate) fn same_text(one: &str, other: &str) -> bool {
    one == other || canonical(one) == canonical(other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hash(text: &str) -> u128 {
        text_hash("main", Tier::Episodic, text)
    }

    #[test]
    fn spelling_and_spacing_do_not_count_and_everything_else_does() {
        assert_eq!(hash("caf\u{e9}  au\nlait "), hash("cafe\u{301} au lait"));
        assert!(same_text(" a  b", "a b"));
        assert_ne!(hash("PostgreSQL 16"), hash("PostgreSQL 18"));
        assert_ne!(hash("Polish"), hash("polish"));
        assert!(!same_text("Polish", "polish"));
        assert_ne!(hash("a b"), hash("ab"));
        assert_ne!(hash("a\0"), hash("a"));
        assert_ne!(hash("a"), text_hash("other", Tier::Episodic, "a"));
        assert_ne!(hash("a"), text_hash("main", Tier::Semantic, "a"));
        // The namespace does not flow into the text.
        assert_ne!(text_hash("ab", Tier::Working, "c"), text_hash("a", Tier::Working, "bc"));
    }

    #[test]
    fn a_vector_is_not_the_text_of_its_bytes() {
        let vector = [f32::from_le_bytes(*b"abcd")];
        assert_ne!(hash("abcd"), vector_hash("main", Tier::Episodic, &vector));
        assert_ne!(vector_hash("main", Tier::Episodic, &[1.0, 0.0]), vector_hash("main", Tier::Episodic, &[1.0]));
    }

    #[test]
    fn the_hash_never_changes() {
        // Golden: hashes are on disk.
        assert_eq!(hash("The deploy failed"), GOLDEN_TEXT);
        assert_eq!(vector_hash("main", Tier::Semantic, &[1.0, -2.5]), GOLDEN_VECTOR);
    }
    const GOLDEN_TEXT: u128 = 318_958_265_564_315_470_693_223_755_266_279_440_658;
    const GOLDEN_VECTOR: u128 = 169_473_932_135_589_537_585_513_819_833_751_699_131;

    proptest! {
        #[test]
        fn texts_hash_alike_exactly_if_they_are_the_same(
            one in "[aAé \u{301}e]{0,6}", other in "[aAé \u{301}e]{0,6}",
        ) {
            prop_assert_eq!(hash(&one) == hash(&other), same_text(&one, &other));
        }
    }
}
