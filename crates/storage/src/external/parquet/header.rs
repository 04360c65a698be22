//! What a page is: its header, and its text once that is there.

use bytes::Bytes;

use super::snappy;

/// What is wrong with a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Malformed(pub String);

impl From<snappy::MalformedBlock> for Malformed {
    fn from(error: snappy::MalformedBlock) -> Self {
        Malformed(format!("a compressed page is malformed: {}", error.0))
    }
}

impl From<super::runs::MalformedRuns> for Malformed {
    fn from(error: super::runs::MalformedRuns) -> Self {
        Malformed(error.0.to_owned())
    }
}

/// An error about a page.
pub(super) fn malformed<T>(what: impl Into<String>) -> Result<T, Malformed> {
    Err(Malformed(what.into()))
}

/// Structures within structures in a page header: the format needs three.
const DEPTH_MAX: usize = 16;

/// Encodings by their numbers in the format.
pub(super) mod encoding {
    pub const PLAIN: i32 = 0;
    pub const PLAIN_DICTIONARY: i32 = 2;
    pub const RLE: i32 = 3;
    pub const RLE_DICTIONARY: i32 = 8;

    /// Whether values are codes of a dictionary.
    pub fn is_dictionary(encoding: i32) -> bool {
        matches!(encoding, PLAIN_DICTIONARY | RLE_DICTIONARY)
    }
}

/// What a page's header says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Header {
    pub kind: Kind,
    pub encoding: i32,
    /// Values, counting NULLs; rows in a flat column.
    pub values: usize,
    /// Bytes of the page when it is not compressed.
    pub text_bytes: usize,
    pub page_bytes: usize,
    level_encoding: i32,
    /// Version 2: the length of the definition levels, which are not compressed.
    pub level_bytes: usize,
    pub repetition_bytes: usize,
    pub is_compressed: bool,
}

impl Header {
    /// The header at the beginning of these bytes, and how many of them it has.
    pub fn read(bytes: &[u8]) -> Result<(Self, usize), Malformed> {
        let mut reader = Compact { bytes, at: 0 };
        let header = reader.page_header()?;
        Ok((header, reader.at))
    }

    /// Whether it is of a page of plain values.
    pub fn is_plain_data(&self) -> bool {
        matches!(self.kind, Kind::Data | Kind::DataV2) && self.encoding == encoding::PLAIN
    }

    /// Bytes of the page as it is in the file.
    pub fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Bytes of the repetition and of the definition levels, where they stand apart.
    pub fn level_bytes(&self) -> (usize, usize) {
        (self.repetition_bytes, self.level_bytes)
    }

    /// Whether the page is compressed, if pages of the chunk are.
    pub fn is_compressed(&self) -> bool {
        self.is_compressed
    }

    /// The header of a page of some of its values.
    pub fn of_part(&self, values: usize, text_bytes: usize) -> Self {
        let kind = Kind::Data;
        let level_encoding = encoding::RLE;
        Self { kind, values, text_bytes, page_bytes: text_bytes, level_encoding, level_bytes: 0, ..self.clone() }
    }

    /// Whether the definition levels are in an encoding that is read here. The other one was given up long ago.
    pub fn levels_are_runs(&self) -> bool {
        self.kind != Kind::Data || self.level_encoding == encoding::RLE
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    #[default]
    Other,
    Data,
    DataV2,
    Dictionary,
}

/// A page's text and where things are in it.
#[derive(Debug, Default)]
pub(super) struct Page {
    pub text: Text,
    /// Definition levels, if the column may be NULL.
    pub levels: std::ops::Range<usize>,
    /// Where the values begin.
    pub values: usize,
}

/// Bytes of a page.
#[derive(Debug)]
pub(super) enum Text {
    /// As fetched.
    Fetched(Bytes),
    /// Decompressed.
    Own(Vec<u8>),
}

impl Default for Text {
    fn default() -> Self {
        Text::Own(Vec::new())
    }
}

impl std::ops::Deref for Text {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Text::Fetched(bytes) => bytes,
            Text::Own(bytes) => bytes,
        }
    }
}

/// Thrift's compact protocol, as far as page headers, and what is looked for in footers, need it.
/// Format: <https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>.
pub(super) struct Compact<'a> {
    pub bytes: &'a [u8],
    pub at: usize,
}

/// The types of fields.
pub(super) mod field {
    pub const STOP: u8 = 0;
    pub const TRUE: u8 = 1;
    pub const FALSE: u8 = 2;
    pub const BYTE: u8 = 3;
    pub const I16: u8 = 4;
    pub const I32: u8 = 5;
    pub const I64: u8 = 6;
    pub const DOUBLE: u8 = 7;
    pub const BINARY: u8 = 8;
    pub const LIST: u8 = 9;
    pub const SET: u8 = 10;
    pub const MAP: u8 = 11;
    pub const STRUCT: u8 = 12;
}

impl Compact<'_> {
    fn byte(&mut self) -> Result<u8, Malformed> {
        let byte = self.bytes.get(self.at).copied();
        self.at += 1;
        byte.ok_or_else(|| Malformed("a page header is cut off".to_owned()))
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        malformed("a number in a page header is too long")
    }

    fn signed(&mut self) -> Result<i64, Malformed> {
        let raw = self.varint()?;
        Ok((raw >> 1) as i64 ^ -((raw & 1) as i64))
    }

    fn i32(&mut self) -> Result<i32, Malformed> {
        i32::try_from(self.signed()?).or_else(|_| malformed("a number in a page header is too large"))
    }

    fn size(&mut self) -> Result<usize, Malformed> {
        usize::try_from(self.i32()?).or_else(|_| malformed("a size in a page header is negative"))
    }

    /// The number of elements of a list, and their type.
    pub fn list(&mut self) -> Result<(u64, u8), Malformed> {
        let byte = self.byte()?;
        let count = match byte >> 4 {
            15 => self.varint()?,
            count => u64::from(count),
        };
        if count > self.bytes.len() as u64 {
            return malformed("a list in a page header is too long");
        }
        Ok((count, byte & 0x0f))
    }

    /// The next field of a structure: its number and type, or `None` at its end.
    pub fn field(&mut self, last: &mut i16) -> Result<Option<(i16, u8)>, Malformed> {
        let byte = self.byte()?;
        let ty = byte & 0x0f;
        if ty == field::STOP {
            return Ok(None);
        }
        *last = match byte >> 4 {
            0 => i16::try_from(self.signed()?).or_else(|_| malformed("a field in a page header has no number"))?,
            delta => last.wrapping_add(i16::from(delta)),
        };
        Ok(Some((*last, ty)))
    }

    pub fn skip(&mut self, ty: u8, depth: usize) -> Result<(), Malformed> {
        if depth > DEPTH_MAX {
            return malformed("a page header is nested too deep");
        }
        match ty {
            field::TRUE | field::FALSE => {}
            field::BYTE => {
                self.byte()?;
            }
            field::I16 | field::I32 | field::I64 => {
                self.varint()?;
            }
            field::DOUBLE => self.pass(8)?,
            field::BINARY => {
                let length = self.varint()?;
                self.pass(length)?;
            }
            field::LIST | field::SET => {
                let (count, ty) = self.list()?;
                self.skip_elements(count, &[ty], depth)?;
            }
            field::MAP => {
                let count = self.varint()?;
                if count > 0 {
                    let types = self.byte()?;
                    self.skip_elements(count, &[types >> 4, types & 0x0f], depth)?;
                }
            }
            field::STRUCT => {
                let mut last = 0;
                while let Some((_, ty)) = self.field(&mut last)? {
                    self.skip(ty, depth + 1)?;
                }
            }
            _ => return malformed("a page header has a field of no type"),
        }
        Ok(())
    }

    fn skip_elements(&mut self, count: u64, types: &[u8], depth: usize) -> Result<(), Malformed> {
        if count > self.bytes.len() as u64 {
            return malformed("a list in a page header is too long");
        }
        for _ in 0..count {
            for &ty in types {
                // Within lists a truth value is a byte.
                let ty = if matches!(ty, field::TRUE | field::FALSE) { field::BYTE } else { ty };
                self.skip(ty, depth + 1)?;
            }
        }
        Ok(())
    }

    fn pass(&mut self, bytes: u64) -> Result<(), Malformed> {
        if bytes > (self.bytes.len() - self.at.min(self.bytes.len())) as u64 {
            return malformed("a page header is cut off");
        }
        self.at += bytes as usize;
        Ok(())
    }

    fn page_header(&mut self) -> Result<Header, Malformed> {
        let mut header = Header { is_compressed: true, ..Header::default() };
        let mut kind = None;
        let mut described = None;
        let mut last = 0;
        while let Some((number, ty)) = self.field(&mut last)? {
            match (number, ty) {
                (1, field::I32) => kind = Some(self.i32()?),
                (2, field::I32) => header.text_bytes = self.size()?,
                (3, field::I32) => header.page_bytes = self.size()?,
                (5, field::STRUCT) => {
                    described = Some(0);
                    self.data_header(&mut header)?;
                }
                (7, field::STRUCT) => {
                    described = Some(2);
                    self.dictionary_header(&mut header)?;
                }
                (8, field::STRUCT) => {
                    described = Some(3);
                    self.data_header_v2(&mut header)?;
                }
                (_, ty) => self.skip(ty, 0)?,
            }
        }
        header.kind = match kind {
            Some(0) => Kind::Data,
            Some(2) => Kind::Dictionary,
            Some(3) => Kind::DataV2,
            Some(_) => Kind::Other,
            None => return malformed("a page header does not say what the page is"),
        };
        if header.kind != Kind::Other && described != kind {
            return malformed("a page header does not describe its page");
        }
        Ok(header)
    }

    fn data_header(&mut self, header: &mut Header) -> Result<(), Malformed> {
        let mut last = 0;
        while let Some((number, ty)) = self.field(&mut last)? {
            match (number, ty) {
                (1, field::I32) => header.values = self.size()?,
                (2, field::I32) => header.encoding = self.i32()?,
                (3, field::I32) => header.level_encoding = self.i32()?,
                (_, ty) => self.skip(ty, 1)?,
            }
        }
        Ok(())
    }

    fn dictionary_header(&mut self, header: &mut Header) -> Result<(), Malformed> {
        let mut last = 0;
        while let Some((number, ty)) = self.field(&mut last)? {
            match (number, ty) {
                (1, field::I32) => header.values = self.size()?,
                (2, field::I32) => header.encoding = self.i32()?,
                (_, ty) => self.skip(ty, 1)?,
            }
        }
        Ok(())
    }

    fn data_header_v2(&mut self, header: &mut Header) -> Result<(), Malformed> {
        let mut last = 0;
        while let Some((number, ty)) = self.field(&mut last)? {
            match (number, ty) {
                (1, field::I32) => header.values = self.size()?,
                (4, field::I32) => header.encoding = self.i32()?,
                (5, field::I32) => header.level_bytes = self.size()?,
                (6, field::I32) => header.repetition_bytes = self.size()?,
                (7, field::TRUE) => header.is_compressed = true,
                (7, field::FALSE) => header.is_compressed = false,
                (_, ty) => self.skip(ty, 1)?,
            }
        }
        Ok(())
    }
}
