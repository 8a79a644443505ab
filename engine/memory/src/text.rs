//! Unicode normal forms that more than one module needs.
//!
//! Purpose: one definition of case folding and of white space.
//!
//! Invariants: [`fold`] is idempotent; nothing here depends on a locale.
//!
//! Unicode Standard Annex 15 (normal forms) and the Unicode Standard, section 3.13 (default
//! caseless matching).

use caseless::Caseless;
use unicode_normalization::UnicodeNormalization;

/// NFKC with full case fold, untrimmed.
///
/// Folding can undo a normal form and normalising can expose a cased letter, so the steps are
/// those of the compatibility caseless match (definition D146 of the Unicode Standard), and a
/// last NFKC composes what the standard leaves decomposed.
pub(crate) fn fold(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    text.nfd().default_case_fold().nfkd().default_case_fold().nfkd().nfkc().collect()
}

/// NFC, trimmed, with each run of white space as one space. Case stays.
pub(crate) fn canonical(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut gap = false;
    // A normal form never joins or splits white space with NFC, so it is safe to do in one pass.
    for c in text.nfc() {
        if c.is_whitespace() {
            gap = !out.is_empty();
        } else {
            if gap {
                out.push(' ');
                gap = false;
            }
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn folding_is_full_and_compatible() {
        assert_eq!(fold("Straße"), "strasse");
        assert_eq!(fold("STRASSE"), "strasse");
        assert_eq!(fold("ΌΣΟΣ"), fold("όσος"));
        assert_eq!(fold("ﬁle"), "file");
        assert_eq!(fold("Ａ１"), "a1");
        assert_eq!(fold("e\u{301}"), "é");
        assert_eq!(fold("İ"), fold("i\u{307}"));
    }

    #[test]
    fn white_space_collapses_and_case_stays() {
        assert_eq!(canonical("  a\t\n b\u{a0}\u{2003}C  "), "a b C");
        assert_eq!(canonical("e\u{301}"), "é");
        assert_eq!(canonical(" \n "), "");
    }

    proptest! {
        #[test]
        fn both_forms_are_idempotent(text in "\\PC{0,24}") {
            let folded = fold(&text);
            prop_assert_eq!(fold(&folded), folded.clone());
            let canonical_text = canonical(&text);
            prop_assert_eq!(canonical(&canonical_text), canonical_text.clone());
        }

        #[test]
        fn upper_and_lower_case_fold_alike(text in "[a-zà-öø-ýα-ωа-я]{0,16}") {
            prop_assert_eq!(fold(&text.to_uppercase()), fold(&text));
        }
    }
}
