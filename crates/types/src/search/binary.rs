//! The binary form of values, as PostgreSQL's protocol has it.

use diligence_base::{Error, Result};

use super::dictionaries::{Configuration, Dictionary};
use super::query::{Item, Operand, Query};
use super::vector::{Lexeme, Position, Vector, Weight};
use super::{POSITION_MAX, SearchKind};

/// The mark of an operand, and that of an operator.
const OPERAND: u8 = 1;
const OPERATOR: u8 = 2;

impl SearchKind {
    /// The binary form of a value that is held as this text.
    pub fn binary(self, text: &str) -> Vec<u8> {
        match self {
            Self::Vector => Vector::read(text).map(|vector| of_vector(&vector)).unwrap_or_default(),
            Self::Query => Query::read(text).map(|query| of_query(&query)).unwrap_or_default(),
            Self::Configuration => Configuration::oid_of(text).to_be_bytes().to_vec(),
            Self::Dictionary => Dictionary::oid_of(text).to_be_bytes().to_vec(),
        }
    }

    /// The text as which the value of a binary form is held. Fails with 22P03 if it is none.
    pub fn of_binary(self, bytes: &[u8]) -> Result<String> {
        let mut bytes = Bytes(bytes);
        let text = match self {
            Self::Vector => vector(&mut bytes)?,
            Self::Query => query(&mut bytes)?,
            Self::Configuration => {
                let oid = bytes.number()?;
                let known = Configuration::all().find(|(_, known)| *known == oid);
                known.map(|(one, _)| one.name().to_owned()).ok_or_else(malformed)?
            }
            Self::Dictionary => {
                let oid = bytes.number()?;
                let known = Dictionary::all().find(|(_, known)| *known == oid);
                known.map(|(one, _)| one.name()).ok_or_else(malformed)?
            }
        };
        if bytes.0.is_empty() { Ok(text) } else { Err(malformed()) }
    }
}

fn malformed() -> Error {
    Error::input("the binary form of the value is malformed").with_code("22P03")
}

/// Lexemes with a zero behind each, how many positions it has, and these, with their weights in the upper bits.
fn of_vector(vector: &Vector<'_>) -> Vec<u8> {
    let mut out = (vector.lexemes.len() as u32).to_be_bytes().to_vec();
    for lexeme in &vector.lexemes {
        out.extend_from_slice(lexeme.word.as_bytes());
        out.push(0);
        out.extend_from_slice(&(lexeme.positions.len() as u16).to_be_bytes());
        for position in &lexeme.positions {
            let weight = (position.weight.rank() as u16) << 14;
            out.extend_from_slice(&(weight | position.at).to_be_bytes());
        }
    }
    out
}

fn vector(bytes: &mut Bytes<'_>) -> Result<String> {
    let mut vector = Vector::default();
    for _ in 0..bytes.number()? {
        let word = bytes.text()?;
        let mut positions = Vec::new();
        for _ in 0..bytes.short()? {
            let position = bytes.short()?;
            let weight = Weight::of_letter(['D', 'C', 'B', 'A'][usize::from(position >> 14)]).unwrap_or(Weight::D);
            positions.push(Position { at: position & POSITION_MAX, weight });
        }
        vector.lexemes.push(Lexeme { word: word.into(), positions });
    }
    // Reading puts into order what was sent in another one.
    SearchKind::Vector.held(&vector.text())
}

/// Operators before their operands, the right one first: the items from the last one on.
fn of_query(query: &Query) -> Vec<u8> {
    let mut out = (query.items.len() as u32).to_be_bytes().to_vec();
    for item in query.items.iter().rev() {
        let operator = match item {
            Item::Operand(operand) => {
                out.extend_from_slice(&[OPERAND, operand.weights, u8::from(operand.is_prefix)]);
                out.extend_from_slice(operand.word.as_bytes());
                out.push(0);
                continue;
            }
            Item::Not => 1,
            Item::And => 2,
            Item::Or => 3,
            Item::Phrase(_) => 4,
            Item::Stop => continue,
        };
        out.extend_from_slice(&[OPERATOR, operator]);
        if let Item::Phrase(distance) = item {
            out.extend_from_slice(&distance.to_be_bytes());
        }
    }
    out
}

fn query(bytes: &mut Bytes<'_>) -> Result<String> {
    let mut items = Vec::new();
    for _ in 0..bytes.number()? {
        let item = match bytes.byte()? {
            OPERAND => {
                let (weights, is_prefix) = (bytes.byte()? & 15, bytes.byte()? != 0);
                Item::Operand(Operand { word: bytes.text()?.to_owned(), weights, is_prefix })
            }
            OPERATOR => match bytes.byte()? {
                1 => Item::Not,
                2 => Item::And,
                3 => Item::Or,
                4 => Item::Phrase(bytes.short()?),
                _ => return Err(malformed()),
            },
            _ => return Err(malformed()),
        };
        items.push(item);
    }
    items.reverse();
    Query::of_items(items).map(|query| query.text())
}

/// What is left of a binary form.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or_else(malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn short(&mut self) -> Result<u16> {
        self.take(2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn number(&mut self) -> Result<u32> {
        self.take(4).map(|bytes| u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// A text up to a zero.
    fn text(&mut self) -> Result<&'a str> {
        let length = self.0.iter().position(|byte| *byte == 0).ok_or_else(malformed)?;
        let text = self.take(length + 1)?;
        std::str::from_utf8(&text[..length]).map_err(|_| malformed())
    }
}
