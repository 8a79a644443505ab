//! Interned words: tags and session names get small numbers that are never used again for another word.

use std::borrow::Cow;
use std::collections::HashMap;

/// The words of a namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Words {
    /// Tags in normal form.
    pub(crate) tags: Dictionary,
    /// Names of sessions.
    pub(crate) sessions: Dictionary,
}

/// Words by number and numbers by word. Numbers start at 1; 0 means none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Dictionary {
    words: Vec<Option<Box<str>>>,
    numbers: HashMap<Box<str>, u32>,
}

impl Dictionary {
    pub(crate) fn number(&self, word: &str) -> Option<u32> {
        self.numbers.get(word).copied()
    }

    pub(crate) fn word(&self, number: u32) -> Option<&str> {
        self.words.get(usize::try_from(number).ok()?.checked_sub(1)?)?.as_deref()
    }

    /// The number the `ahead`-th next new word will get.
    pub(crate) fn next_number(&self, ahead: usize) -> u32 {
        u32::try_from(self.words.len() + ahead + 1).unwrap_or(u32::MAX)
    }

    /// Enters a word under its number.
    pub(crate) fn set(&mut self, number: u32, word: &str) {
        let Some(index) = (number as usize).checked_sub(1) else {
            return;
        };
        if self.words.len() <= index {
            self.words.resize(index + 1, None);
        }
        if let Some(place) = self.words.get_mut(index) {
            *place = Some(word.into());
        }
        self.numbers.insert(word.into(), number);
    }

    /// Drops a word; its number stays taken.
    pub(crate) fn remove(&mut self, number: u32) {
        let Some(place) = (number as usize).checked_sub(1).and_then(|index| self.words.get_mut(index)) else {
            return;
        };
        // The word may have got a newer number since: that one stays.
        if let Some(word) = place.take()
            && self.numbers.get(&word) == Some(&number)
        {
            self.numbers.remove(&word);
        }
    }

    /// Words in use.
    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Every word in the order of its number, dropped ones as `None`.
    pub(crate) fn entries(&self) -> impl ExactSizeIterator<Item = Option<&str>> {
        self.words.iter().map(Option::as_deref)
    }

    /// A dictionary of such entries.
    pub(crate) fn from_entries<'a>(entries: impl Iterator<Item = Option<Cow<'a, str>>>) -> Self {
        let mut dictionary = Self::default();
        for (index, entry) in entries.enumerate() {
            match entry {
                Some(word) => dictionary.set(u32::try_from(index + 1).unwrap_or(u32::MAX), &word),
                None => dictionary.words.push(None),
            }
        }
        dictionary
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_never_reused() {
        let mut dictionary = Dictionary::default();
        dictionary.set(dictionary.next_number(0), "a");
        dictionary.set(dictionary.next_number(0), "b");
        dictionary.remove(2);
        assert_eq!((dictionary.number("b"), dictionary.word(2), dictionary.len()), (None, None, 1));
        assert_eq!(dictionary.next_number(0), 3);
        dictionary.set(3, "a");
        dictionary.remove(1);
        assert_eq!((dictionary.number("a"), dictionary.word(1), dictionary.word(3)), (Some(3), None, Some("a")), "a newer number stays");
        let again = Dictionary::from_entries(dictionary.entries().map(|entry| entry.map(Cow::Borrowed)));
        assert_eq!(again, dictionary);
    }
}
