//! Documents: lexemes in order, with their positions and weights.

use std::borrow::Cow;

use diligence_base::{Error, Result};

use super::letters::CharacterClass;
use super::{Configuration, POSITION_MAX, POSITIONS_MAX, VECTOR_BYTES_MAX, WORD_BYTES_MAX, held_position};
use crate::text::json::{JsonKind, JsonPart};

/// How much a position counts: `D`, the least and what is not written, to `A`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Weight(u8);

impl Weight {
    /// The least.
    pub const D: Weight = Weight(0);

    /// The weight of a letter.
    pub fn of_letter(letter: char) -> Option<Self> {
        Some(Self(match letter.to_ascii_uppercase() {
            'A' => 3,
            'B' => 2,
            'C' => 1,
            'D' => 0,
            _ => return None,
        }))
    }

    /// Its letter.
    pub fn letter(self) -> char {
        ['D', 'C', 'B', 'A'][usize::from(self.0 & 3)]
    }

    /// From 0 for `D` to 3.
    pub fn rank(self) -> usize {
        usize::from(self.0)
    }

    /// Its bit among those of a query's operand.
    pub(super) fn bit(self) -> u8 {
        1 << self.0
    }
}

/// Where a lexeme is in its document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Counted from 1.
    pub at: u16,
    /// How much it counts.
    pub weight: Weight,
}

/// A word of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lexeme<'a> {
    /// The word.
    pub word: Cow<'a, str>,
    /// Its positions, ascending; none if they are not known.
    pub positions: Vec<Position>,
}

/// A value of `tsvector`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vector<'a> {
    /// The lexemes, ascending by their bytes.
    pub lexemes: Vec<Lexeme<'a>>,
}

impl<'a> Vector<'a> {
    /// The value of a text that a user writes, or that is held. Fails with 42601 if it is none, 54000 if it is too
    /// large.
    pub fn read(text: &'a str) -> Result<Self> {
        let mut tokens = Tokens::new(text, text, "tsvector", Reading::Vector);
        let mut lexemes = Vec::new();
        let mut is_sorted = true;
        while let Some(mut lexeme) = tokens.next()? {
            if lexeme.word.len() > WORD_BYTES_MAX {
                let message = format!("word is too long ({} bytes, max {WORD_BYTES_MAX} bytes)", lexeme.word.len());
                return Err(Error::input(message).with_code("54000"));
            }
            lexeme.settle();
            is_sorted &= lexemes.last().is_none_or(|last: &Lexeme<'_>| last.word < lexeme.word);
            lexemes.push(lexeme);
        }
        if !is_sorted {
            // Equal words keep their order.
            lexemes.sort_by(|a, b| a.word.cmp(&b.word));
            lexemes.dedup_by(|next, kept| {
                let is_same = next.word == kept.word;
                if is_same && !next.positions.is_empty() {
                    kept.positions.append(&mut next.positions);
                    kept.settle();
                }
                is_same
            });
        }
        Self { lexemes }.checked()
    }

    /// The document of a text. Fails with 54000 if it has 1 MiB or more.
    pub fn of_text(configuration: Configuration, text: &str) -> Result<Vector<'static>> {
        Vector::of_lexemes(configuration.lexemes(text))
    }

    /// The document of the values of a JSON document that `takes` names.
    pub(crate) fn of_json(
        configuration: Configuration,
        json: JsonPart<'_>,
        takes: JsonParts,
    ) -> Result<Vector<'static>> {
        let mut found = Vec::new();
        let mut position = 0;
        takes.each(json, &mut |text| {
            let before = found.len();
            configuration.lexemes_from(text, &mut position, &mut |lexeme, at| found.push((lexeme, at)));
            // So that no phrase goes from one value to the next.
            position += usize::from(found.len() > before);
        })?;
        Vector::of_lexemes(found)
    }

    fn of_lexemes(mut found: Vec<(String, usize)>) -> Result<Vector<'static>> {
        found.sort();
        let mut lexemes: Vec<Lexeme<'static>> = Vec::new();
        for (word, position) in found {
            let at = held_position(position);
            let position = Position { at, weight: Weight::D };
            match lexemes.last_mut().filter(|last| last.word == word) {
                Some(last) => {
                    let latest = last.positions.last().map_or(0, |position| position.at);
                    if last.positions.len() < POSITIONS_MAX && latest != POSITION_MAX && latest != at {
                        last.positions.push(position);
                    }
                }
                None => lexemes.push(Lexeme { word: Cow::Owned(word), positions: vec![position] }),
            }
        }
        Vector { lexemes }.checked()
    }

    /// The words of an array. Fails with 22004 for a NULL among them, 22003 for an empty one.
    pub fn of_words(words: impl Iterator<Item = Option<&'a str>>) -> Result<Self> {
        let null = || Error::value("lexeme array may not contain nulls").with_code("22004");
        let empty = || Error::value("lexeme array may not contain empty strings").with_code("2200F");
        let mut words = words
            .map(|word| word.ok_or_else(null).and_then(|word| if word.is_empty() { Err(empty()) } else { Ok(word) }))
            .collect::<Result<Vec<_>>>()?;
        words.sort_unstable();
        words.dedup();
        let lexeme = |word| Lexeme { word: Cow::Borrowed(word), positions: vec![] };
        Self { lexemes: words.into_iter().map(lexeme).collect() }.checked()
    }

    fn checked(self) -> Result<Self> {
        let bytes = self.data_bytes();
        if bytes > VECTOR_BYTES_MAX {
            let message = format!("string is too long for tsvector ({bytes} bytes, max {VECTOR_BYTES_MAX} bytes)");
            return Err(Error::value(message).with_code("54000"));
        }
        Ok(self)
    }

    /// Bytes of words and positions, as PostgreSQL lays them out.
    fn data_bytes(&self) -> usize {
        self.lexemes.iter().fold(0, |bytes, lexeme| {
            let bytes = bytes + lexeme.word.len();
            match lexeme.positions.len() {
                0 => bytes,
                positions => bytes.next_multiple_of(2) + 2 + 2 * positions,
            }
        })
    }

    /// The text form.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for (index, lexeme) in self.lexemes.iter().enumerate() {
            if index > 0 {
                out.push(' ');
            }
            write_word(&mut out, &lexeme.word);
            for (index, position) in lexeme.positions.iter().enumerate() {
                out.push(if index > 0 { ',' } else { ':' });
                out.push_str(&position.at.to_string());
                if position.weight != Weight::D {
                    out.push(position.weight.letter());
                }
            }
        }
        out
    }

    /// Bytes that sort as PostgreSQL sorts documents: by their sizes first.
    pub fn order_key(&self) -> Vec<u8> {
        let mut key = Vec::new();
        let bytes = 8 + 4 * self.lexemes.len() + self.data_bytes();
        for size in [bytes, self.lexemes.len()] {
            key.extend_from_slice(&u32::try_from(size).unwrap_or(u32::MAX).to_be_bytes());
        }
        for lexeme in &self.lexemes {
            key.push(u8::from(lexeme.positions.is_empty()));
            key.extend_from_slice(lexeme.word.as_bytes());
            key.push(0);
            if !lexeme.positions.is_empty() {
                let count = u16::try_from(lexeme.positions.len()).unwrap_or(u16::MAX);
                key.extend_from_slice(&(u16::MAX - count).to_be_bytes());
            }
            for position in &lexeme.positions {
                key.extend_from_slice(&(u16::MAX - position.at).to_be_bytes());
                key.push(u8::MAX - position.weight.0);
            }
        }
        key
    }

    /// The document without positions.
    pub fn stripped(mut self) -> Self {
        self.lexemes.iter_mut().for_each(|lexeme| lexeme.positions.clear());
        self
    }

    /// All positions with one weight; with words, only theirs.
    pub fn with_weight(mut self, weight: Weight, words: Option<&[&str]>) -> Self {
        for lexeme in &mut self.lexemes {
            if words.is_none_or(|words| words.contains(&lexeme.word.as_ref())) {
                lexeme.positions.iter_mut().for_each(|position| position.weight = weight);
            }
        }
        self
    }

    /// The document without some words.
    pub fn without(mut self, words: &[&str]) -> Self {
        self.lexemes.retain(|lexeme| !words.contains(&lexeme.word.as_ref()));
        self
    }

    /// The lexemes with positions of some weights, and only those.
    pub fn of_weights(mut self, weights: &[Weight]) -> Self {
        for lexeme in &mut self.lexemes {
            lexeme.positions.retain(|position| weights.contains(&position.weight));
        }
        self.lexemes.retain(|lexeme| !lexeme.positions.is_empty());
        self
    }

    /// One document behind another. Fails with 54000 if it is too large.
    pub fn joined(self, behind: Self) -> Result<Self> {
        let last = self.lexemes.iter().flat_map(|lexeme| &lexeme.positions).map(|position| position.at).max();
        let offset = usize::from(last.unwrap_or(0));
        let mut lexemes: Vec<Lexeme<'a>> = Vec::with_capacity(self.lexemes.len() + behind.lexemes.len());
        let (mut left, mut right) = (self.lexemes.into_iter().peekable(), behind.lexemes.into_iter().peekable());
        loop {
            let takes_left = match (left.peek(), right.peek()) {
                (Some(left), Some(right)) => left.word <= right.word,
                (left, None) if left.is_none() => break,
                (left, _) => left.is_some(),
            };
            if takes_left {
                lexemes.extend(left.next());
                continue;
            }
            let Some(moved) = right.next() else { break };
            let at = match lexemes.last() {
                Some(last) if last.word == moved.word => lexemes.len() - 1,
                _ => {
                    lexemes.push(Lexeme { word: moved.word, positions: vec![] });
                    lexemes.len() - 1
                }
            };
            let positions = &mut lexemes[at].positions;
            for position in moved.positions {
                let is_full = positions.len() > POSITIONS_MAX;
                if is_full || positions.last().is_some_and(|last| last.at == POSITION_MAX) {
                    break;
                }
                positions.push(Position { at: held_position(usize::from(position.at) + offset), ..position });
            }
        }
        Self { lexemes }.checked()
    }

    /// The lexemes that a query's operand stands for: those of which `word` is a beginning, or the word itself.
    pub(super) fn found(&self, word: &str, is_prefix: bool) -> &[Lexeme<'a>] {
        let first = self.lexemes.partition_point(|lexeme| lexeme.word.as_ref() < word);
        let rest = &self.lexemes[first..];
        let count = match is_prefix {
            true => rest.iter().take_while(|lexeme| lexeme.word.starts_with(word)).count(),
            false => usize::from(rest.first().is_some_and(|lexeme| lexeme.word == word)),
        };
        &rest[..count]
    }
}

impl Lexeme<'_> {
    /// Its positions ascending; of equal ones the one that counts most. Of the last position, which stands for all
    /// behind it, the first one stays if others are before it, as in PostgreSQL.
    fn settle(&mut self) {
        let positions = &mut self.positions;
        if positions.windows(2).any(|pair| pair[0].at >= pair[1].at) {
            positions.sort_by_key(|position| position.at);
            let is_last_only = positions.first().is_some_and(|first| first.at == POSITION_MAX);
            positions.dedup_by(|next, kept| {
                if next.at == kept.at && (is_last_only || kept.at != POSITION_MAX) {
                    kept.weight = kept.weight.max(next.weight);
                }
                next.at == kept.at
            });
        }
        positions.truncate(POSITIONS_MAX + 1);
    }
}

/// A word in quotes.
pub(super) fn write_word(out: &mut String, word: &str) {
    out.push('\'');
    for character in word.chars() {
        if matches!(character, '\'' | '\\') {
            out.push(character);
        }
        out.push(character);
    }
    out.push('\'');
}

/// Which values of a JSON document are searched.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct JsonParts {
    pub(crate) texts: bool,
    pub(crate) numbers: bool,
    pub(crate) booleans: bool,
    pub(crate) keys: bool,
}

impl JsonParts {
    /// Calls a function with each such value, in order. Fails with 22P05 for a character that no text has.
    fn each(self, json: JsonPart<'_>, give: &mut dyn FnMut(&str)) -> Result<()> {
        match json.kind() {
            JsonKind::Text if self.texts => give(&json.unquoted()?),
            JsonKind::Number if self.numbers => give(json.text()),
            JsonKind::Boolean if self.booleans => give(json.text()),
            JsonKind::Array => json.elements().try_for_each(|element| self.each(element, give))?,
            JsonKind::Object => {
                for (key, value) in json.members() {
                    if self.keys {
                        give(&key.unquoted()?);
                    }
                    self.each(value, give)?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// What is read: words alone, or with what stands around them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// With positions.
    Vector,
    /// Operators of queries end a word.
    Query,
    /// Quotes and backslashes are letters, too, but a double quote ends a word.
    Web,
}

/// Reads words that may be in quotes, with backslashes before letters that mean nothing.
pub(super) struct Tokens<'a> {
    text: &'a str,
    /// What is read, and where.
    whole: &'a str,
    what: &'static str,
    reading: Reading,
    at: usize,
}

impl<'a> Tokens<'a> {
    /// Reads `text`, a part of `whole`, which errors name.
    pub(super) fn new(text: &'a str, whole: &'a str, what: &'static str, reading: Reading) -> Self {
        Self { text, whole, what, reading, at: 0 }
    }

    /// Where the next word is looked for.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn wrong(&self) -> Error {
        Error::input(format!("syntax error in {}: \"{}\"", self.what, self.whole)).with_code("42601")
    }

    fn escaped(&mut self) -> Result<char> {
        let unfinished = || Error::input(format!("there is no escaped character: \"{}\"", self.whole));
        let escaped = self.peek().ok_or_else(|| unfinished().with_code("42601"))?;
        self.at += escaped.len_utf8();
        Ok(escaped)
    }

    /// The next word with its positions; `None` at the end. Fails with 42601.
    pub(super) fn next(&mut self) -> Result<Option<Lexeme<'a>>> {
        let is_web = self.reading == Reading::Web;
        while let Some(next) = self.peek()
            && CharacterClass::of(next) == CharacterClass::Blank
        {
            self.at += next.len_utf8();
        }
        let word = match self.peek() {
            None => return Ok(None),
            Some('\'') if !is_web => self.in_quotes()?,
            Some(next) if self.reading != Reading::Vector && is_operator(next) => return Err(self.wrong()),
            Some(_) => self.plain()?,
        };
        let mut positions = Vec::new();
        if self.reading == Reading::Vector && self.peek() == Some(':') {
            self.positions(&mut positions)?;
        }
        Ok(Some(Lexeme { word, positions }))
    }

    fn in_quotes(&mut self) -> Result<Cow<'a, str>> {
        self.at += 1;
        let start = self.at;
        let mut changed: Option<String> = None;
        loop {
            let at = self.at;
            let next = self.peek().ok_or_else(|| self.wrong())?;
            self.at += next.len_utf8();
            let taken = match next {
                '\'' if self.peek() == Some('\'') => {
                    self.at += 1;
                    '\''
                }
                '\'' => {
                    let word = changed.map_or(Cow::Borrowed(&self.text[start..at]), Cow::Owned);
                    return if word.is_empty() { Err(self.wrong()) } else { Ok(word) };
                }
                '\\' => self.escaped()?,
                other => {
                    if let Some(changed) = &mut changed {
                        changed.push(other);
                    }
                    continue;
                }
            };
            changed.get_or_insert_with(|| self.text[start..at].to_owned()).push(taken);
        }
    }

    fn plain(&mut self) -> Result<Cow<'a, str>> {
        let is_web = self.reading == Reading::Web;
        let start = self.at;
        let mut changed: Option<String> = None;
        loop {
            let at = self.at;
            let Some(next) = self.peek() else { break };
            let is_first = at == start;
            let ends = match next {
                ':' | '"' if is_first => false,
                ':' => true,
                '"' => is_web,
                next if CharacterClass::of(next) == CharacterClass::Blank => true,
                next => self.reading != Reading::Vector && is_operator(next) && !is_first,
            };
            if ends {
                break;
            }
            self.at += next.len_utf8();
            if next == '\\' && !is_web {
                let escaped = self.escaped()?;
                changed.get_or_insert_with(|| self.text[start..at].to_owned()).push(escaped);
            } else if let Some(changed) = &mut changed {
                changed.push(next);
            }
        }
        Ok(changed.map_or(Cow::Borrowed(&self.text[start..self.at]), Cow::Owned))
    }

    /// `:1A,2` behind a word.
    fn positions(&mut self, positions: &mut Vec<Position>) -> Result<()> {
        loop {
            // A colon or a comma.
            self.at += 1;
            let digits = self.text[self.at..].bytes().take_while(u8::is_ascii_digit).count();
            if digits == 0 {
                return Err(self.wrong());
            }
            let number = &self.text[self.at..self.at + digits];
            self.at += digits;
            let at = held_position(number.parse().unwrap_or(usize::MAX));
            if at == 0 {
                let message = format!("wrong position info in tsvector: \"{}\"", self.whole);
                return Err(Error::input(message).with_code("42601"));
            }
            let mut position = Position { at, weight: Weight::D };
            loop {
                let next = self.peek();
                if next.is_none_or(|next| CharacterClass::of(next) == CharacterClass::Blank) {
                    positions.push(position);
                    return Ok(());
                }
                let next = next.unwrap_or(' ');
                let weight = if next == '*' { Weight::of_letter('A') } else { Weight::of_letter(next) };
                match weight {
                    // Digits behind a letter are passed over, as in PostgreSQL.
                    _ if next.is_ascii_digit() => {}
                    _ if next == ',' => break,
                    Some(weight) if position.weight == Weight::D => position.weight = weight,
                    _ => return Err(self.wrong()),
                }
                self.at += 1;
            }
            positions.push(position);
        }
    }
}

/// Whether a character is an operator of queries.
pub(super) fn is_operator(character: char) -> bool {
    matches!(character, '!' | '&' | '|' | '(' | ')' | '<')
}
