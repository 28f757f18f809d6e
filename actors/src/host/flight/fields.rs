//! Numbers and texts as words: how a record's content is put together and taken apart.

/// Longest text in a record, bytes; more is cut off.
pub(super) const TEXT_MAX: usize = 512;
/// Words of a record's content at most: two texts and ten numbers.
pub(super) const WORDS_MAX: usize = 2 * (TEXT_MAX / 8 + 1) + 10;

/// Bytes of a text that stand beside its length.
const BESIDE: usize = 6;

/// A record's content: numbers, in words of their own or side by side, and texts.
pub(super) struct RecordFields {
    words: [u64; WORDS_MAX],
    len: usize,
}

impl RecordFields {
    pub(super) fn new() -> Self {
        Self { words: [0; WORDS_MAX], len: 0 }
    }

    pub(super) fn clear(&mut self) {
        self.len = 0;
    }

    pub(super) fn content(&self) -> &[u64] {
        &self.words[..self.len]
    }

    pub(super) fn word(&mut self, word: u64) {
        if let Some(place) = self.words.get_mut(self.len) {
            *place = word;
            self.len += 1;
        }
    }

    pub(super) fn numbers<const N: usize>(&mut self, numbers: [u64; N]) {
        numbers.into_iter().for_each(|number| self.word(number));
    }

    /// A text: its length and first bytes in a word, the rest in the words behind it.
    pub(super) fn text(&mut self, text: &str) {
        let mut end = text.len().min(TEXT_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let text = &text.as_bytes()[..end];
        let (beside, rest) = text.split_at(text.len().min(BESIDE));
        self.word(text.len() as u64 | little(beside) << 16);
        let (chunks, rest) = rest.as_chunks::<8>();
        chunks.iter().for_each(|chunk| self.word(u64::from_le_bytes(*chunk)));
        if !rest.is_empty() {
            self.word(little(rest));
        }
    }
}

/// Words that a text of so many bytes takes at most.
pub(super) fn text_words(len: usize) -> usize {
    1 + len.min(TEXT_MAX).div_ceil(8)
}

/// Up to eight bytes as a word.
fn little(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// Reads what [`RecordFields`] took; `None` where it did not take that.
pub(super) struct Content<'a>(pub(super) &'a [u64]);

impl Content<'_> {
    pub(super) fn word(&mut self) -> Option<u64> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    pub(super) fn numbers<const N: usize>(&mut self) -> Option<[u64; N]> {
        let (numbers, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*numbers)
    }

    pub(super) fn text(&mut self) -> Option<String> {
        let first = self.word()?;
        let len = usize::from(first as u16);
        let (words, rest) = self.0.split_at_checked(len.saturating_sub(BESIDE).div_ceil(8))?;
        self.0 = rest;
        let mut bytes = first.to_le_bytes()[8 - BESIDE..].to_vec();
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        bytes.truncate(len);
        String::from_utf8(bytes).ok()
    }
}
