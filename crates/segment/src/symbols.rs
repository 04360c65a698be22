//! Texts as codes of frequent pieces: each code of a byte stands for up to eight bytes.
//!
//! A chunk has a table of up to 255 *symbols* of one to eight bytes. Code 255 says that the next byte stands for
//! itself. Every text is encoded alone, so one can be read without those before it, and reading is a copy of eight
//! bytes for each code. The table is learned from a sample: encode it with the table so far, count the symbols that
//! occurred and the pairs of neighbors, keep the ones that cover most bytes; five times (Boncz, Neumann and Leis,
//! "FSST: Fast Random Access String Compression", VLDB 2020).
//!
//! ```text
//!   symbols (u8) | length of each (u8) | their bytes, one symbol after the other
//! ```

use hashbrown::HashMap;

use crate::damage::{Reader, Result, damaged};

/// Symbols of a table at most.
const SYMBOLS_MAX: usize = 255;
/// The next byte stands for itself.
const ESCAPE: u8 = 255;
/// Bytes of a symbol at most.
pub(crate) const SYMBOL_BYTES_MAX: usize = 8;
/// Bytes from which a table is learned.
const SAMPLE_BYTES: usize = 32 << 10;
/// How often a table is made anew.
const ROUNDS: usize = 5;
/// Places for symbols of three bytes and more.
const SLOTS: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Symbol {
    /// Its bytes, the first lowest; what is behind them is 0.
    bytes: u64,
    length: u8,
}

impl Symbol {
    fn of(text: &[u8]) -> Self {
        let length = text.len().min(SYMBOL_BYTES_MAX);
        Self { bytes: word(text) & mask(length), length: length as u8 }
    }

    fn joined(self, other: Self) -> Self {
        let length = usize::from(self.length + other.length).min(SYMBOL_BYTES_MAX);
        let behind = other.bytes.checked_shl(u32::from(self.length) * 8).unwrap_or(0);
        Self { bytes: (self.bytes | behind) & mask(length), length: length as u8 }
    }
}

fn mask(bytes: usize) -> u64 {
    u64::MAX.checked_shr(64 - 8 * bytes as u32).unwrap_or(0)
}

/// The first eight bytes; zeros for those that are not there.
#[inline(always)]
fn word(text: &[u8]) -> u64 {
    if let Some(bytes) = text.first_chunk() {
        return u64::from_le_bytes(*bytes);
    }
    let mut bytes = [0; 8];
    bytes[..text.len()].copy_from_slice(text);
    u64::from_le_bytes(bytes)
}

fn slot(bytes: u64) -> usize {
    let three = bytes & 0xff_ffff;
    (three.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize % SLOTS
}

/// Encodes texts.
pub(crate) struct Encoder {
    symbols: Vec<Symbol>,
    /// The code of a symbol of three bytes and more by its first three; of several, the one that covers most.
    long: Vec<Option<(Symbol, u8)>>,
    /// The code of the symbol of two bytes, or of one, by the two bytes; and its length.
    short: Vec<(u8, u8)>,
}

impl Encoder {
    /// Learns a table from some of the texts, of which there are `texts`.
    pub fn learn<'a>(texts: usize, text_at: impl Fn(usize) -> &'a [u8]) -> Self {
        let (mut sample, mut bytes) = (Vec::new(), 0);
        // Texts from everywhere, in an order that no period of theirs follows.
        let stride = (texts / 1031).max(1);
        for start in 0..stride.min(7) {
            for place in (start..texts).step_by(stride) {
                if bytes >= SAMPLE_BYTES {
                    break;
                }
                let text = text_at(place);
                let text = &text[..text.len().min(SAMPLE_BYTES / 16)];
                bytes += text.len();
                sample.push(text);
            }
        }
        let mut encoder = Self::of(Vec::new());
        for round in 0..ROUNDS {
            encoder = encoder.better(&sample, round + 1 == ROUNDS);
        }
        encoder
    }

    /// Symbols by what they cover, the most first.
    fn of(symbols: Vec<Symbol>) -> Self {
        let mut long = vec![None; SLOTS];
        let mut short = vec![(ESCAPE, 0); 1 << 16];
        for (code, symbol) in symbols.iter().enumerate() {
            if symbol.length == 1 {
                for second in 0..256usize {
                    let place = &mut short[symbol.bytes as usize | second << 8];
                    if place.1 < 1 {
                        *place = (code as u8, 1);
                    }
                }
            } else if symbol.length == 2 {
                short[symbol.bytes as usize] = (code as u8, 2);
            } else {
                let place = &mut long[slot(symbol.bytes)];
                if place.is_none() {
                    *place = Some((*symbol, code as u8));
                }
            }
        }
        Self { symbols, long, short }
    }

    /// The code that the text begins with, and how many bytes it covers.
    #[inline(always)]
    fn next(&self, text: &[u8]) -> (u8, usize) {
        let next = word(text);
        if let Some((symbol, code)) = &self.long[slot(next)] {
            let length = usize::from(symbol.length);
            if length <= text.len() && next & mask(length) == symbol.bytes {
                return (*code, length);
            }
        }
        let (code, length) = self.short[next as usize & 0xffff];
        // Behind the end of the text a zero is no byte of it.
        if usize::from(length) <= text.len() && length > 0 {
            return (code, usize::from(length));
        }
        if length == 2 {
            let alone = self.symbols.iter().position(|symbol| symbol.length == 1 && symbol.bytes == u64::from(text[0]));
            if let Some(code) = alone {
                return (code as u8, 1);
            }
        }
        (ESCAPE, 1)
    }

    fn better(&self, sample: &[&[u8]], is_last: bool) -> Self {
        let mut covered = HashMap::<Symbol, usize>::new();
        for text in sample {
            let mut rest = *text;
            let mut before: Option<Symbol> = None;
            while !rest.is_empty() {
                let (_, length) = self.next(rest);
                let symbol = Symbol::of(&rest[..length]);
                *covered.entry(symbol).or_default() += length;
                if length > 1 {
                    // A byte alone stays a candidate.
                    *covered.entry(Symbol::of(&rest[..1])).or_default() += 1;
                }
                if let Some(before) = before.replace(symbol)
                    && !is_last
                {
                    let joined = before.joined(symbol);
                    *covered.entry(joined).or_default() += usize::from(joined.length);
                }
                rest = &rest[length..];
            }
        }
        let mut best = covered.into_iter().collect::<Vec<_>>();
        best.sort_unstable_by_key(|(symbol, covers)| (std::cmp::Reverse(*covers), symbol.bytes, symbol.length));
        // A symbol whose slot is taken would never be found.
        let mut slots = vec![false; SLOTS];
        let is_found = |symbol: &Symbol| symbol.length < 3 || !std::mem::replace(&mut slots[slot(symbol.bytes)], true);
        let symbols = best.into_iter().map(|(symbol, _)| symbol).filter(is_found).take(SYMBOLS_MAX);
        Self::of(symbols.collect())
    }

    /// Appends a text.
    pub fn encode(&self, text: &[u8], out: &mut Vec<u8>) {
        let mut rest = text;
        while let Some(first) = rest.first() {
            let (code, length) = self.next(rest);
            out.push(code);
            if code == ESCAPE {
                out.push(*first);
            }
            rest = &rest[length..];
        }
    }

    /// Appends the table.
    pub fn put_table(&self, out: &mut Vec<u8>) {
        out.push(self.symbols.len() as u8);
        out.extend(self.symbols.iter().map(|symbol| symbol.length));
        for symbol in &self.symbols {
            out.extend_from_slice(&symbol.bytes.to_le_bytes()[..usize::from(symbol.length)]);
        }
    }
}

/// Decodes texts.
#[derive(Clone, Debug)]
pub(crate) struct Decoder {
    bytes: Box<[[u8; SYMBOL_BYTES_MAX]; 256]>,
    lengths: Box<[u8; 256]>,
}

impl Decoder {
    /// Reads a table. Fails if the bytes are not one.
    pub fn open(reader: &mut Reader) -> Result<Self> {
        let count = usize::from(reader.u8()?);
        let given = reader.take(count)?;
        // A code that has no symbol stands for nothing: it is found when the text has not its length.
        let (mut bytes, mut lengths) = (Box::new([[0; SYMBOL_BYTES_MAX]; 256]), Box::new([0; 256]));
        for (code, length) in given.iter().enumerate() {
            let length = usize::from(*length);
            if length == 0 || length > SYMBOL_BYTES_MAX {
                return damaged("a symbol has no byte, or too many");
            }
            bytes[code][..length].copy_from_slice(&reader.take(length)?);
            lengths[code] = length as u8;
        }
        Ok(Self { bytes, lengths })
    }

    /// Decodes a text to the beginning of `room`, which has eight bytes for each code, and gives its length.
    #[inline]
    pub fn decode(&self, codes: &[u8], room: &mut [u8]) -> usize {
        // Eight bytes are copied for each code, and what is too much is written over.
        let (mut at, mut end) = (0, 0);
        while at < codes.len() {
            let code = usize::from(codes[at]);
            if code == usize::from(ESCAPE) {
                let Some(byte) = codes.get(at + 1) else { break };
                room[end] = *byte;
                (at, end) = (at + 2, end + 1);
                continue;
            }
            let Some(to) = room[end..].first_chunk_mut() else { break };
            *to = self.bytes[code];
            (at, end) = (at + 1, end + usize::from(self.lengths[code]));
        }
        end
    }
}
