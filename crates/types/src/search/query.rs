//! Queries: operands with operators between them, as a list in which each operator follows what it is of.

use diligence_base::{Error, Result};

use super::letters::CharacterClass;
use super::vector::{Reading, Tokens, Weight, is_operator, write_word};
use super::{Configuration, POSITION_MAX, WORD_BYTES_MAX};

/// The largest distance between words of a phrase.
pub const DISTANCE_MAX: u16 = POSITION_MAX + 1;
/// Bytes of all operands, as PostgreSQL limits them.
const OPERAND_BYTES_MAX: usize = (1 << 20) - 1;

/// A word that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operand {
    /// The word.
    pub word: String,
    /// The weights that a position may have, a bit for each; any, if it is 0.
    pub weights: u8,
    /// Whether it is the beginning of what is asked for.
    pub is_prefix: bool,
}

/// An operand or an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A word.
    Operand(Operand),
    /// A stop word, while a query is made.
    Stop,
    /// Not what is before.
    Not,
    /// Both before.
    And,
    /// One of both before.
    Or,
    /// Both before, the right one so many words behind the left one.
    Phrase(u16),
}

impl Item {
    /// How many values an item takes of those before it.
    fn takes(&self) -> usize {
        match self {
            Self::Operand(_) | Self::Stop => 0,
            Self::Not => 1,
            Self::And | Self::Or | Self::Phrase(_) => 2,
        }
    }

    /// How tight an operator binds.
    fn tightness(&self) -> u8 {
        match self {
            Self::Or => 1,
            Self::And => 2,
            Self::Phrase(_) => 3,
            Self::Not => 4,
            Self::Operand(_) | Self::Stop => 5,
        }
    }
}

/// A value of `tsquery`. An empty one asks for nothing, and finds nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// Each operator follows its operands.
    pub items: Vec<Item>,
}

/// How a text is made a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuerySyntax {
    /// Operators between words: `to_tsquery`.
    Operators,
    /// All words: `plainto_tsquery`.
    Plain,
    /// All words, one behind the other: `phraseto_tsquery`.
    Phrase,
    /// As search engines have it: `websearch_to_tsquery`.
    Web,
}

impl Query {
    /// The value of a text that a user writes, or that is held. Fails with 42601 if it is none, 22023 for a distance
    /// that is too large, 54000 if it is too large.
    pub fn read(text: &str) -> Result<Self> {
        let mut maker = Maker::new(text, None);
        maker.operators()?;
        maker.query()
    }

    /// What a text asks for, by a configuration. Fails as [`read`](Self::read).
    pub fn of_text(configuration: Configuration, text: &str, syntax: QuerySyntax) -> Result<Self> {
        let plain = |operator| Some(Lexizing { configuration, operator });
        let mut maker = match syntax {
            QuerySyntax::Plain => Maker::new(text, plain(Item::And)),
            _ => Maker::new(text, plain(Item::Phrase(1))),
        };
        match syntax {
            QuerySyntax::Operators => maker.operators()?,
            QuerySyntax::Web => maker.web()?,
            QuerySyntax::Plain | QuerySyntax::Phrase if text.is_empty() => {}
            QuerySyntax::Plain | QuerySyntax::Phrase => maker.word(text, 0, false)?,
        }
        Ok(maker.query()?.without_stops())
    }

    /// The query of items. Fails with 42601 if an operator lacks an operand.
    pub(super) fn of_items(items: Vec<Item>) -> Result<Self> {
        let wrong = || Error::input("syntax error in tsquery").with_code("42601");
        let mut values = 0_usize;
        for item in &items {
            values = values.checked_sub(item.takes()).ok_or_else(wrong)? + 1;
        }
        if values > 1 { Err(wrong()) } else { Ok(Self { items }) }
    }

    /// Whether it asks for nothing.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The words that it asks for.
    pub fn operands(&self) -> impl Iterator<Item = &Operand> {
        self.items.iter().filter_map(|item| match item {
            Item::Operand(operand) => Some(operand),
            _ => None,
        })
    }

    /// The text form.
    pub fn text(&self) -> String {
        // What was written of the values before, with how tight their operators bind.
        let mut written: Vec<(String, u8)> = Vec::new();
        for item in &self.items {
            let tightness = item.tightness();
            let parentheses = |(text, inner): (String, u8), is_right_of_phrase: bool| {
                let is_phrase = inner == Item::Phrase(1).tightness();
                match inner < tightness || is_right_of_phrase && is_phrase {
                    true => format!("( {text} )"),
                    false => text,
                }
            };
            let mut popped = || written.pop().unwrap_or_default();
            let text = match item {
                Item::Operand(operand) => operand.text(),
                Item::Stop => String::new(),
                Item::Not => format!("!{}", parentheses(popped(), false)),
                binary => {
                    let right = parentheses(popped(), matches!(binary, Item::Phrase(_)));
                    let mut text = parentheses(popped(), false);
                    match binary {
                        Item::And => text.push_str(" & "),
                        Item::Or => text.push_str(" | "),
                        Item::Phrase(1) => text.push_str(" <-> "),
                        Item::Phrase(distance) => text.push_str(&format!(" <{distance}> ")),
                        _ => {}
                    }
                    text.push_str(&right);
                    text
                }
            };
            written.push((text, tightness));
        }
        written.pop().unwrap_or_default().0
    }

    /// Bytes that are equal if PostgreSQL takes queries for equal, and sort as it sorts them.
    pub fn order_key(&self) -> Vec<u8> {
        let bytes = self.operands().map(|operand| operand.word.len() + 1).sum::<usize>() + 8 + 12 * self.items.len();
        let mut key = Vec::new();
        for size in [self.items.len(), bytes] {
            key.extend_from_slice(&u32::try_from(size).unwrap_or(u32::MAX).to_be_bytes());
        }
        // Distances stand behind what is on both sides of them: with how many of their values are still to come.
        let mut open: Vec<(usize, Option<u16>)> = Vec::new();
        for item in self.items.iter().rev() {
            let operator = match item {
                Item::Not => 1,
                Item::And => 2,
                Item::Or => 3,
                Item::Phrase(_) => 4,
                Item::Operand(_) | Item::Stop => 0,
            };
            if operator > 0 {
                key.extend_from_slice(&[u8::MAX - 2, u8::MAX - operator]);
                let distance = if let Item::Phrase(distance) = item { Some(*distance) } else { None };
                open.push((item.takes(), distance));
                continue;
            }
            let word = if let Item::Operand(operand) = item { operand.word.as_str() } else { "" };
            key.push(u8::MAX - 1);
            key.extend_from_slice(&(u32::MAX - (checksum(word.as_bytes()) ^ 0x8000_0000)).to_be_bytes());
            key.extend_from_slice(word.as_bytes());
            key.push(0);
            while let Some((left, distance)) = open.pop() {
                if left > 1 {
                    open.push((left - 1, distance));
                    break;
                }
                key.extend(distance.into_iter().flat_map(|distance| (u16::MAX - distance).to_be_bytes()));
            }
        }
        key
    }

    /// Both queries with an operator between them; the other one, if one is empty.
    pub fn combined(mut self, other: Self, operator: Item) -> Self {
        if self.is_empty() || other.is_empty() {
            return if self.is_empty() { other } else { self };
        }
        self.items.extend(other.items);
        self.items.push(operator);
        self
    }

    /// The opposite of a query.
    pub fn negated(mut self) -> Self {
        if !self.is_empty() {
            self.items.push(Item::Not);
        }
        self
    }

    /// Whether all words of another query are in this one.
    pub fn contains(&self, other: &Self) -> bool {
        other.operands().all(|wanted| self.operands().any(|operand| operand.word == wanted.word))
    }

    /// What an index could look for: the query without what it must not find. `None` if nothing is left.
    pub fn searchable(&self) -> Option<Self> {
        let mut stack: Vec<Option<Vec<Item>>> = Vec::new();
        for item in &self.items {
            let found = match item.takes() {
                0 => Some(vec![item.clone()]),
                1 => {
                    stack.pop();
                    None
                }
                _ => {
                    let (right, left) = (stack.pop().flatten(), stack.pop().flatten());
                    match (left, right) {
                        (Some(mut left), Some(right)) => {
                            left.extend(right);
                            left.push(item.clone());
                            Some(left)
                        }
                        (Some(one), None) | (None, Some(one)) if *item != Item::Or => Some(one),
                        _ => None,
                    }
                }
            };
            stack.push(found);
        }
        stack.pop().flatten().map(|items| Self { items })
    }

    /// The query without stop words: phrases around them are so much longer.
    fn without_stops(self) -> Self {
        /// What is left of a part, and how much longer phrases to its left and right are.
        #[derive(Default)]
        struct StoppedPart {
            items: Option<Vec<Item>>,
            left: u16,
            right: u16,
        }
        let longer = |sum: u32| u16::try_from(sum).unwrap_or(u16::MAX);
        let sum = |parts: &[u16]| longer(parts.iter().map(|part| u32::from(*part)).sum());
        let mut stack: Vec<StoppedPart> = Vec::new();
        for item in self.items {
            let part = match item.takes() {
                0 => StoppedPart { items: (item != Item::Stop).then(|| vec![item]), ..StoppedPart::default() },
                1 => {
                    let mut part = stack.pop().unwrap_or_default();
                    if let Some(items) = &mut part.items {
                        items.push(item);
                    }
                    part
                }
                _ => {
                    let (right, left) = (stack.pop().unwrap_or_default(), stack.pop().unwrap_or_default());
                    let distance = if let Item::Phrase(distance) = item { Some(distance) } else { None };
                    match (left.items, right.items, distance) {
                        (None, None, Some(distance)) => {
                            let all = sum(&[left.left, distance, right.left]);
                            StoppedPart { items: None, left: all, right: all }
                        }
                        (None, None, None) => {
                            let most = left.left.max(right.left);
                            StoppedPart { items: None, left: most, right: most }
                        }
                        (None, items, Some(distance)) => {
                            StoppedPart { items, left: sum(&[left.left, distance, right.left]), right: right.right }
                        }
                        (None, items, None) => StoppedPart { items, left: right.left, right: right.right },
                        (items, None, Some(distance)) => {
                            StoppedPart { items, left: left.left, right: sum(&[left.right, distance, right.right]) }
                        }
                        (items, None, None) => StoppedPart { items, left: left.left, right: left.right },
                        (Some(mut items), Some(others), distance) => {
                            items.extend(others);
                            match distance {
                                Some(distance) => {
                                    items.push(Item::Phrase(sum(&[distance, left.right, right.left])));
                                    StoppedPart { items: Some(items), left: left.left, right: right.right }
                                }
                                None => {
                                    items.push(item);
                                    StoppedPart { items: Some(items), left: 0, right: 0 }
                                }
                            }
                        }
                    }
                }
            };
            stack.push(part);
        }
        Self { items: stack.pop().and_then(|part| part.items).unwrap_or_default() }
    }
}

impl Operand {
    fn text(&self) -> String {
        let mut out = String::new();
        write_word(&mut out, &self.word);
        if self.is_prefix || self.weights != 0 {
            out.push(':');
        }
        if self.is_prefix {
            out.push('*');
        }
        let letters = ['A', 'B', 'C', 'D'].into_iter();
        let has = |letter: &char| Weight::of_letter(*letter).is_some_and(|weight| self.weights & weight.bit() != 0);
        out.extend(letters.filter(has));
        out
    }
}

/// How words of a text become operands.
struct Lexizing {
    configuration: Configuration,
    /// What stands between the lexemes of one word.
    operator: Item,
}

/// An operator that waits for what is to its right, or an open parenthesis.
enum Waiting {
    Operator(Item),
    Parenthesis,
}

/// Makes a query of a text.
struct Maker<'a> {
    text: &'a str,
    at: usize,
    lexizing: Option<Lexizing>,
    items: Vec<Item>,
    waiting: Vec<Waiting>,
    operand_bytes: usize,
}

impl<'a> Maker<'a> {
    fn new(text: &'a str, lexizing: Option<Lexizing>) -> Self {
        Self { text, at: 0, lexizing, items: vec![], waiting: vec![], operand_bytes: 0 }
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn skip_blanks(&mut self) {
        while let Some(next) = self.peek().filter(|next| CharacterClass::of(*next) == CharacterClass::Blank) {
            self.at += next.len_utf8();
        }
    }

    fn wrong(&self) -> Error {
        Error::input(format!("syntax error in tsquery: \"{}\"", self.text)).with_code("42601")
    }

    fn too_large(&self, what: &str) -> Error {
        Error::input(format!("{what} in tsquery: \"{}\"", self.text)).with_code("54000")
    }

    /// The query. Fails with 42601 if an operator lacks an operand.
    fn query(mut self) -> Result<Query> {
        Query::of_items(std::mem::take(&mut self.items)).map_err(|_| self.wrong())
    }

    /// Puts an operator behind those that bind tighter.
    fn operator(&mut self, operator: Item) {
        let is_not = operator == Item::Not;
        while let Some(Waiting::Operator(before)) = self.waiting.last() {
            // NOT associates to the right, others to the left.
            let stays = match is_not {
                true => operator.tightness() >= before.tightness(),
                false => operator.tightness() > before.tightness(),
            };
            if stays {
                break;
            }
            if let Some(Waiting::Operator(before)) = self.waiting.pop() {
                self.items.push(before);
            }
        }
        self.waiting.push(Waiting::Operator(operator));
    }

    /// Ends what is in the latest parenthesis, or everything.
    fn close(&mut self) {
        while let Some(Waiting::Operator(operator)) = self.waiting.pop() {
            self.items.push(operator);
        }
    }

    /// A word with its modifiers becomes operands.
    fn word(&mut self, word: &str, weights: u8, is_prefix: bool) -> Result<()> {
        let Some(lexizing) = &self.lexizing else { return self.operand(word.to_owned(), weights, is_prefix) };
        let operator = lexizing.operator.clone();
        let lexemes = lexizing.configuration.lexemes(word);
        if lexemes.is_empty() {
            self.items.push(Item::Stop);
        }
        let (mut before, mut count) = (0, 0);
        for (lexeme, position) in lexemes {
            // Stop words between two lexemes keep their places.
            while before > 0 && before + 1 < position {
                self.items.push(Item::Stop);
                if count > 0 {
                    self.items.push(operator.clone());
                }
                count += 1;
                before += 1;
            }
            before = position;
            self.operand(lexeme, weights, is_prefix)?;
            if count > 0 {
                self.items.push(operator.clone());
            }
            count += 1;
        }
        Ok(())
    }

    fn operand(&mut self, word: String, weights: u8, is_prefix: bool) -> Result<()> {
        if word.len() > WORD_BYTES_MAX {
            return Err(self.too_large("word is too long"));
        }
        if self.operand_bytes >= OPERAND_BYTES_MAX {
            return Err(self.too_large("value is too big"));
        }
        self.operand_bytes += word.len() + 1;
        self.items.push(Item::Operand(Operand { word, weights, is_prefix }));
        Ok(())
    }

    /// Reads words with operators between them.
    fn operators(&mut self) -> Result<()> {
        let (mut is_first, mut depth) = (true, 0_usize);
        let mut wants_operand = true;
        loop {
            self.skip_blanks();
            let next = self.peek();
            if wants_operand {
                match next {
                    Some('!') => {
                        self.at += 1;
                        self.operator(Item::Not);
                    }
                    Some('(') => {
                        self.at += 1;
                        depth += 1;
                        self.waiting.push(Waiting::Parenthesis);
                    }
                    Some(':') => return Err(self.wrong()),
                    None if is_first => return Ok(()),
                    None => {
                        let message = format!("no operand in tsquery: \"{}\"", self.text);
                        return Err(Error::input(message).with_code("42601"));
                    }
                    Some(_) => {
                        let word = self.token(Reading::Query)?;
                        let (weights, is_prefix) = self.modifiers();
                        self.word(&word, weights, is_prefix)?;
                        wants_operand = false;
                    }
                }
                is_first = false;
                continue;
            }
            match next {
                None if depth > 0 => return Err(self.wrong()),
                None => {
                    self.close();
                    return Ok(());
                }
                Some(')') if depth > 0 => {
                    self.at += 1;
                    depth -= 1;
                    self.close();
                }
                Some(sign) => {
                    let operator = match sign {
                        '&' => Item::And,
                        '|' => Item::Or,
                        '<' => self.phrase()?,
                        _ => return Err(self.wrong()),
                    };
                    // A phrase has been passed over already.
                    self.at += usize::from(sign != '<');
                    self.operator(operator);
                    wants_operand = true;
                }
            }
        }
    }

    /// A word from here on, which must be there.
    fn token(&mut self, reading: Reading) -> Result<String> {
        let mut tokens = Tokens::new(&self.text[self.at..], self.text, "tsquery", reading);
        let word = tokens.next()?.map(|lexeme| lexeme.word.into_owned());
        let passed = tokens.at();
        self.at += passed;
        word.ok_or_else(|| self.wrong())
    }

    /// `:*AB` behind a word.
    fn modifiers(&mut self) -> (u8, bool) {
        let (mut weights, mut is_prefix) = (0, false);
        if self.peek() != Some(':') {
            return (weights, is_prefix);
        }
        self.at += 1;
        while let Some(next) = self.peek() {
            match (next, Weight::of_letter(next)) {
                ('*', _) => is_prefix = true,
                (_, Some(weight)) => weights |= weight.bit(),
                _ => break,
            }
            self.at += 1;
        }
        (weights, is_prefix)
    }

    /// `<->` or `<3>`.
    fn phrase(&mut self) -> Result<Item> {
        let rest = &self.text[self.at + 1..];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (distance, length) = match rest.starts_with('-') {
            true => (1, 1),
            false if digits > 0 => (rest[..digits].parse().unwrap_or(u64::MAX), digits),
            false => return Err(self.wrong()),
        };
        let distance = u16::try_from(distance).ok().filter(|distance| *distance <= DISTANCE_MAX);
        let distance = distance.ok_or_else(too_far)?;
        // PostgreSQL wants something behind it.
        if !rest[length..].starts_with('>') || rest.len() == length + 1 {
            return Err(self.wrong());
        }
        self.at += length + 2;
        Ok(Item::Phrase(distance))
    }

    /// Reads what people write into search engines: nothing is an error.
    fn web(&mut self) -> Result<()> {
        let mut is_first = true;
        loop {
            // An operand.
            loop {
                self.skip_blanks();
                match self.peek() {
                    Some('-') => {
                        self.at += 1;
                        self.operator(Item::Not);
                        is_first = false;
                    }
                    Some('"') => {
                        let start = self.at + 1;
                        let end = self.text[start..].find('"').map_or(self.text.len(), |length| start + length);
                        self.at = (end + 1).min(self.text.len());
                        let text = self.text;
                        self.word(&text[start..end], 0, false)?;
                        break;
                    }
                    Some(next) if is_operator(next) => {
                        self.at += 1;
                        is_first = false;
                    }
                    None => {
                        if !is_first {
                            self.items.push(Item::Stop);
                        }
                        self.close();
                        return Ok(());
                    }
                    Some(_) => {
                        let word = self.token(Reading::Web)?;
                        self.word(&word, 0, false)?;
                        break;
                    }
                }
            }
            is_first = false;
            // What is between operands.
            loop {
                self.skip_blanks();
                match self.peek() {
                    None => {
                        self.close();
                        return Ok(());
                    }
                    Some(_) if self.is_or() => {
                        self.at += 2;
                        self.operator(Item::Or);
                        break;
                    }
                    Some(next) if is_operator(next) => self.at += 1,
                    Some(_) => {
                        self.operator(Item::And);
                        break;
                    }
                }
            }
        }
    }

    /// Whether `or` is an operator here: a word of its own with something behind it.
    fn is_or(&self) -> bool {
        let rest = &self.text[self.at..];
        let Some(rest) = rest.get(2..).filter(|_| rest[..2].eq_ignore_ascii_case("or")) else { return false };
        let mut behind = rest.chars();
        let ends_word = behind.next().is_some_and(|next| {
            let class = CharacterClass::of(next);
            !matches!(next, '-' | '_') && !matches!(class, CharacterClass::Letter | CharacterClass::Digit)
        });
        ends_word && behind.any(|next| CharacterClass::of(next) != CharacterClass::Blank)
    }
}

/// The error for a distance in a phrase.
pub fn too_far() -> Error {
    let message =
        format!("distance in phrase operator must be an integer value between zero and {DISTANCE_MAX} inclusive");
    Error::input(message).with_code("22023")
}

/// The checksum by which PostgreSQL compares operands first: bytes at the wrong end of a table of CRC-32.
pub(super) fn checksum(bytes: &[u8]) -> u32 {
    let entry =
        |index: u32| (0..8).fold(index, |rest, _| if rest & 1 == 1 { 0xEDB8_8320 ^ (rest >> 1) } else { rest >> 1 });
    !bytes.iter().fold(u32::MAX, |sum, byte| entry((sum >> 24) ^ u32::from(*byte)) ^ (sum << 8))
}
