//! Text in other encodings, and with other line ends, into UTF-8 with line feeds; and UTF-8 into other encodings.

use std::io::Read;

use diligence_base::{Error, Result};

use crate::external::options::{Encoding, OpenOptions};

/// Bytes taken at once.
const READ_BYTES: usize = 64 * 1024;

/// What to do about a text that is not UTF-8.
pub(super) const ENCODING_HINT: &str =
    "say the file's encoding, such as encoding = 'cp1252' or 'latin-1', or convert it to UTF-8";

/// The first byte of a text that is not UTF-8.
pub(super) fn not_utf8(text: &[u8]) -> Option<u8> {
    std::str::from_utf8(text).err().map(|error| text[error.valid_up_to()])
}

/// What cp1252 has for the bytes 0x80 to 0x9f; those that it does not have are themselves.
const CP1252: [char; 32] = [
    '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}', '\u{90}', '‘', '’',
    '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
];

/// How a text becomes UTF-8 with line feeds.
#[derive(Clone, Debug)]
pub(in crate::external) struct Encoded {
    encoding: Encoding,
    /// Whether a carriage return alone ends a line.
    is_carriage: bool,
    quote: u8,
    is_quoted: bool,
    /// Bytes of a character that is not all here.
    rest: Vec<u8>,
    /// Bytes that were taken.
    taken: u64,
    /// The byte where the first half of a character is that has no other half.
    flaw: Option<u64>,
}

impl Encoded {
    /// What the options and the first bytes of a text say; `None` if it is UTF-8 with line feeds.
    pub fn of(first: &[u8], options: &OpenOptions) -> Option<Self> {
        let marked = match first {
            [0xff, 0xfe, ..] => Some(Encoding::Utf16),
            [0xfe, 0xff, ..] => Some(Encoding::Utf16BigEndian),
            _ => None,
        };
        let encoding = match options.encoding {
            None | Some(Encoding::Utf16 | Encoding::Utf16BigEndian) if marked.is_some() => marked?,
            other => other.unwrap_or(Encoding::Utf8),
        };
        let quote = options.csv.quote.unwrap_or(b'"');
        let (is_carriage, is_quoted, rest) = (false, false, Vec::new());
        let mut encoded = Self { encoding, is_carriage, quote, is_quoted, rest, taken: 0, flaw: None };
        let text = encoded.whole(first);
        encoded.is_carriage = memchr::memchr(b'\r', &text).is_some() && memchr::memchr(b'\n', &text).is_none();
        // A carriage return at the end may be half of a line end.
        encoded.is_carriage &= memchr::memchr(b'\r', &text) != Some(text.len().saturating_sub(1));
        encoded.is_needed().then_some(encoded)
    }

    /// The same for texts whose line ends mean nothing.
    pub fn without_line_ends(self) -> Self {
        Self { is_carriage: false, ..self }
    }

    /// Whether anything changes.
    pub fn is_needed(&self) -> bool {
        self.encoding != Encoding::Utf8 || self.is_carriage
    }

    /// A text that is looked at: what is no character of the encoding is said when it is read.
    pub fn whole(&self, text: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(text.len() + text.len() / 8);
        let mut fresh = Self { rest: Vec::new(), is_quoted: false, taken: 0, ..self.clone() };
        fresh.take(text, &mut out);
        out
    }

    /// Reads what another reader reads. Reading fails where a half of a character stands alone.
    pub fn reader(self, inner: Box<dyn Read + Send>) -> impl Read + Send {
        EncodedReader { encoded: self, inner, out: Vec::new(), start: 0, is_done: false }
    }

    /// Takes more bytes of the text.
    fn take(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let from = out.len();
        let push = |out: &mut Vec<u8>, character: char| {
            out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        };
        match self.encoding {
            Encoding::Utf8 => out.extend_from_slice(bytes),
            Encoding::Latin1 => bytes.iter().for_each(|&byte| push(out, char::from(byte))),
            Encoding::Cp1252 => bytes.iter().for_each(|&byte| match byte {
                0x80..=0x9f => push(out, CP1252[usize::from(byte - 0x80)]),
                _ => push(out, char::from(byte)),
            }),
            Encoding::Utf16 | Encoding::Utf16BigEndian => {
                self.rest.extend_from_slice(bytes);
                let is_big = self.encoding == Encoding::Utf16BigEndian;
                let unit = |pair: &[u8]| match is_big {
                    true => u16::from_be_bytes([pair[0], pair[1]]),
                    false => u16::from_le_bytes([pair[0], pair[1]]),
                };
                let mut end = self.rest.len() / 2 * 2;
                // The first half of a pair waits for the second.
                if end >= 2 && (0xd800..0xdc00).contains(&unit(&self.rest[end - 2..end])) {
                    end -= 2;
                }
                let units = self.rest[..end].chunks_exact(2).map(unit);
                let mut at = self.taken;
                for character in char::decode_utf16(units) {
                    if character.is_err() {
                        self.flaw.get_or_insert(at);
                    }
                    let character = character.unwrap_or(char::REPLACEMENT_CHARACTER);
                    at += 2 * character.len_utf16() as u64;
                    push(out, character);
                }
                self.taken += end as u64;
                self.rest.drain(..end);
            }
        }
        if self.is_carriage {
            for byte in &mut out[from..] {
                if *byte == self.quote {
                    self.is_quoted = !self.is_quoted;
                } else if *byte == b'\r' && !self.is_quoted {
                    *byte = b'\n';
                }
            }
        }
    }
}

/// Writes text in UTF-8 in another encoding. Fails with 22P05 for a character that the encoding does not have.
pub(in crate::external) fn encode(encoding: Encoding, text: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let text = std::str::from_utf8(text).map_err(|_| Error::bug("text that is written is UTF-8"))?;
    for character in text.chars() {
        let byte = match encoding {
            Encoding::Utf8 => {
                out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                continue;
            }
            Encoding::Utf16 => {
                out.extend(character.encode_utf16(&mut [0; 2]).iter().flat_map(|unit| unit.to_le_bytes()));
                continue;
            }
            Encoding::Utf16BigEndian => {
                out.extend(character.encode_utf16(&mut [0; 2]).iter().flat_map(|unit| unit.to_be_bytes()));
                continue;
            }
            Encoding::Cp1252 if !matches!(character, '\0'..='\x7f' | '\u{a0}'..='\u{ff}') => {
                CP1252.iter().position(|own| *own == character).map(|place| 0x80 + place as u8)
            }
            Encoding::Latin1 | Encoding::Cp1252 => u8::try_from(u32::from(character)).ok(),
        };
        out.push(byte.ok_or_else(|| {
            let name = if encoding == Encoding::Latin1 { "LATIN1" } else { "WIN1252" };
            Error::value(format!("the character '{character}' has no equivalent in encoding \"{name}\""))
                .with_code("22P05")
        })?);
    }
    Ok(())
}

struct EncodedReader {
    encoded: Encoded,
    inner: Box<dyn Read + Send>,
    out: Vec<u8>,
    start: usize,
    is_done: bool,
}

impl Read for EncodedReader {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        while self.start == self.out.len() && !self.is_done {
            self.out.clear();
            self.start = 0;
            let mut bytes = vec![0; READ_BYTES];
            let read = self.inner.read(&mut bytes)?;
            self.is_done = read == 0;
            self.encoded.take(&bytes[..read], &mut self.out);
            if let Some(at) = self.encoded.flaw {
                return Err(std::io::Error::other(format!(
                    "at byte {at}, its UTF-16 has one half of a character only"
                )));
            }
            if self.is_done && !self.encoded.rest.is_empty() {
                return Err(std::io::Error::other("its UTF-16 ends within a character"));
            }
        }
        let length = buffer.len().min(self.out.len() - self.start);
        buffer[..length].copy_from_slice(&self.out[self.start..self.start + length]);
        self.start += length;
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_leave_utf_8() {
        let written = |encoding, text: &str| {
            let mut out = Vec::new();
            encode(encoding, text.as_bytes(), &mut out).map(|()| out)
        };
        assert_eq!(written(Encoding::Latin1, "café").unwrap(), b"caf\xe9");
        assert_eq!(written(Encoding::Cp1252, "€ é").unwrap(), b"\x80 \xe9");
        assert_eq!(written(Encoding::Utf16BigEndian, "a😀").unwrap(), b"\0a\xd8\x3d\xde\0");
        for encoding in [Encoding::Latin1, Encoding::Cp1252] {
            assert_eq!(written(encoding, "日").unwrap_err().code(), Some("22P05"));
        }
        assert!(written(Encoding::Latin1, "€").is_err());
    }

    #[test]
    fn texts_become_utf_8() {
        let read = |options: &OpenOptions, bytes: &[u8]| {
            let encoded = Encoded::of(bytes, options).unwrap();
            let mut text = String::new();
            let reader = encoded.clone().reader(Box::new(std::io::Cursor::new(bytes.to_vec())));
            { reader }.read_to_string(&mut text).unwrap();
            assert_eq!(encoded.whole(bytes), text.as_bytes());
            text
        };
        let with = |encoding| OpenOptions { encoding: Some(encoding), ..OpenOptions::default() };
        assert_eq!(read(&with(Encoding::Latin1), b"caf\xe9"), "café");
        assert_eq!(read(&with(Encoding::Cp1252), b"\x80 5"), "€ 5");
        let wide = "\u{feff}a😀b".encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>();
        assert_eq!(read(&OpenOptions::default(), &wide), "\u{feff}a😀b");
        let wide = "a😀".encode_utf16().flat_map(u16::to_be_bytes).collect::<Vec<_>>();
        assert_eq!(read(&with(Encoding::Utf16BigEndian), &wide), "a😀");
        assert_eq!(read(&OpenOptions::default(), b"a,b\r1,\"x\ry\"\r"), "a,b\n1,\"x\ry\"\n");
        assert!(Encoded::of(b"a\r\nb", &OpenOptions::default()).is_none());
    }

    #[test]
    fn halves_of_characters_are_errors() {
        let options = OpenOptions { encoding: Some(Encoding::Utf16), ..OpenOptions::default() };
        for (units, at) in [(&[0x61, 0xd83d, 0x62, 0x63][..], 2), (&[0xd83d, 0xde00, 0xde00], 4)] {
            let bytes = units.iter().flat_map(|unit: &u16| unit.to_le_bytes()).collect::<Vec<_>>();
            let encoded = Encoded::of(&bytes, &options).unwrap();
            let error = { encoded.reader(Box::new(std::io::Cursor::new(bytes))) }.read_to_end(&mut Vec::new());
            assert!(error.unwrap_err().to_string().contains(&format!("at byte {at},")));
        }
    }
}
