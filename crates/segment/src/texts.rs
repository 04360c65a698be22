//! Texts and other strings of bytes: as they are, as codes of frequent pieces ([`symbols`](crate::symbols)), or as
//! codes of a dictionary.
//!
//! ```text
//!   plain       0 (u8) | length (u64), lengths as numbers | for each vector where its bytes begin (u64) | bytes
//!   symbols     1 (u8) | table of symbols | as plain, of the codes
//!   dictionary  2 (u8) | values (u32) | length (u64), values as plain or symbols, in order | codes as numbers
//! ```

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow::array::{ArrayRef, DictionaryArray, Int32Array, StringArray};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use bytes::Bytes;
use hashbrown::HashMap;

use crate::bits::VECTOR_ROWS;
use crate::damage::{Reader, Result, damaged, put_part};
use crate::integers::{self, Integers};
use crate::symbols::{Decoder, Encoder, SYMBOL_BYTES_MAX};
use crate::views::{self, BUFFER_BYTES_MAX, Views, view};

const PLAIN: u8 = 0;
const SYMBOLS: u8 = 1;
const DICTIONARY: u8 = 2;

/// How often values of a dictionary occur on average at least.
const REPEATS_MIN: usize = 4;
/// Rows of which so many parts must be repeated before all are looked up.
const SAMPLE_ROWS: usize = 4096;
/// Values of a dictionary are decoded one by one until they are one of so many of its values: one by itself takes
/// about so many times as long as one among all.
const SINGLES_PART: usize = 64;
/// Symbols are used if what is left is this part of the texts at most: to read them takes longer.
const SYMBOLS_PART: (usize, usize) = (3, 4);
/// Texts of fewer bytes are left as they are.
const SYMBOLS_BYTES_MIN: usize = 2048;

/// A column of texts.
#[derive(Debug)]
pub(crate) enum Texts {
    Alone(Alone),
    Dictionary {
        codes: Integers,
        values: Alone,
        decoded: OnceLock<Result<Decoded>>,
        /// Values that were decoded by themselves.
        singles: usize,
    },
}

/// Texts of which each is stored.
#[derive(Clone, Debug)]
pub(crate) struct Alone {
    lengths: Integers,
    starts: Vec<u64>,
    bytes: Bytes,
    symbols: Option<Decoder>,
}

/// The values of a dictionary.
#[derive(Clone, Debug)]
pub(crate) struct Decoded {
    text: Buffer,
    pub views: Vec<u128>,
    /// As an array of text; `None` of other bytes.
    pub values: Option<ArrayRef>,
}

/// Appends texts, one at least.
pub(crate) fn encode(texts: &[&[u8]], out: &mut Vec<u8>) {
    let mut alone = Vec::new();
    match dictionary(texts) {
        None => encode_alone(texts, &mut alone),
        Some((values, codes)) => {
            encode_alone(&values, &mut alone);
            out.push(DICTIONARY);
            out.extend_from_slice(&(values.len() as u32).to_le_bytes());
            put_part(out, &alone);
            return integers::encode(&codes, out);
        }
    }
    out.extend_from_slice(&alone);
}

/// The different texts in order, and for each row which it is; `None` if they repeat too little.
fn dictionary<'a>(texts: &[&'a [u8]]) -> Option<(Vec<&'a [u8]>, Vec<u64>)> {
    let most = texts.len() / REPEATS_MIN;
    let mut numbers = HashMap::<&[u8], u32>::new();
    let mut codes = Vec::with_capacity(texts.len());
    for (row, text) in texts.iter().enumerate() {
        let next = numbers.len() as u32;
        codes.push(u64::from(*numbers.entry(text).or_insert(next)));
        // A text that comes anew in most rows so far will not repeat later.
        if numbers.len() > most.max(1) || row == SAMPLE_ROWS && numbers.len() * 4 > SAMPLE_ROWS * 3 {
            return None;
        }
    }
    let mut values = numbers.into_iter().collect::<Vec<_>>();
    values.sort_unstable();
    let mut places = vec![0; values.len()];
    values.iter().enumerate().for_each(|(place, (_, number))| places[*number as usize] = place as u64);
    codes.iter_mut().for_each(|code| *code = places[*code as usize]);
    Some((values.into_iter().map(|(text, _)| text).collect(), codes))
}

fn encode_alone(texts: &[&[u8]], out: &mut Vec<u8>) {
    let total = texts.iter().map(|text| text.len()).sum::<usize>();
    if total >= SYMBOLS_BYTES_MIN {
        let encoder = Encoder::learn(texts.len(), |place| texts[place]);
        let (part, whole) = SYMBOLS_PART;
        let stride = (texts.len() / 256).max(1);
        let (mut codes, mut sample) = (Vec::new(), 0);
        for text in texts.iter().step_by(stride) {
            encoder.encode(&text[..text.len().min(4096)], &mut codes);
            sample += text.len().min(4096);
        }
        if codes.len() * whole <= sample * part {
            out.push(SYMBOLS);
            encoder.put_table(out);
            let (mut codes, mut ends) = (Vec::with_capacity(total), Vec::with_capacity(texts.len()));
            for text in texts {
                encoder.encode(text, &mut codes);
                ends.push(codes.len());
            }
            return put_bytes(&ends, &codes, out);
        }
    }
    out.push(PLAIN);
    let (mut bytes, mut ends) = (Vec::with_capacity(total), Vec::with_capacity(texts.len()));
    for text in texts {
        bytes.extend_from_slice(text);
        ends.push(bytes.len());
    }
    put_bytes(&ends, &bytes, out);
}

fn put_bytes(ends: &[usize], bytes: &[u8], out: &mut Vec<u8>) {
    let mut before = 0;
    let lengths = ends.iter().map(|end| (end - std::mem::replace(&mut before, *end)) as u64).collect::<Vec<_>>();
    let mut part = Vec::new();
    integers::encode(&lengths, &mut part);
    put_part(out, &part);
    for vector in 0..ends.len().div_ceil(VECTOR_ROWS) {
        let start = if vector == 0 { 0 } else { ends[vector * VECTOR_ROWS - 1] };
        out.extend_from_slice(&(start as u64).to_le_bytes());
    }
    out.extend_from_slice(bytes);
}

impl Alone {
    fn open(rows: usize, mut reader: Reader) -> Result<Self> {
        let symbols = match reader.u8()? {
            PLAIN => None,
            SYMBOLS => Some(Decoder::open(&mut reader)?),
            _ => return damaged("its texts are of a form that is not known"),
        };
        let lengths = Integers::open(rows, reader.part()?)?;
        let starts = (0..rows.div_ceil(VECTOR_ROWS)).map(|_| reader.u64()).collect::<Result<Vec<_>>>()?;
        Ok(Self { lengths, starts, bytes: reader.rest(), symbols })
    }

    /// The bytes that are stored of a vector's rows, and where each of them ends there.
    fn vector(&self, vector: usize, rows: usize, ends: &mut Vec<u32>) -> Result<&[u8]> {
        ends.clear();
        let first = vector * VECTOR_ROWS;
        self.lengths.read(first..first + rows, None, ends);
        let mut sum = 0u64;
        for end in ends.iter_mut() {
            sum += u64::from(*end);
            *end = sum as u32;
        }
        let start = usize::try_from(self.starts[vector]).unwrap_or(usize::MAX);
        let bytes = self.bytes.get(start..).and_then(|bytes| bytes.get(..sum as usize));
        match bytes {
            Some(bytes) if sum <= u64::from(u32::MAX) => Ok(bytes),
            _ => damaged("a text is not there"),
        }
    }

    fn read(&self, rows: Range<usize>, selected: Option<&BooleanBuffer>, out: &mut Views) -> Result<()> {
        let mut ends = Vec::with_capacity(VECTOR_ROWS);
        let mut at = 0;
        for vector in rows.start / VECTOR_ROWS..rows.end.div_ceil(VECTOR_ROWS) {
            let first = vector * VECTOR_ROWS;
            let part = rows.start.max(first) - first..rows.end.min(first + VECTOR_ROWS) - first;
            let wanted = selected.map(|selected| selected.slice(at, part.len()));
            at += part.len();
            if wanted.as_ref().is_some_and(|wanted| wanted.count_set_bits() == 0) {
                continue;
            }
            let bytes = self.vector(vector, part.end, &mut ends)?;
            let start_of = |place: usize| if place == 0 { 0 } else { ends[place - 1] as usize };
            match (&wanted, &self.symbols) {
                (None, None) => {
                    let first = start_of(part.start);
                    let bytes = &bytes[first..];
                    let (room, base) = out.room(bytes.len())?;
                    room[..bytes.len()].copy_from_slice(bytes);
                    let mut start = base;
                    for end in &ends[part] {
                        let end = base + *end as usize - first;
                        out.taken(start, end);
                        start = end;
                    }
                }
                (wanted, _) => {
                    let mut one = |place: usize| self.put(&bytes[start_of(place)..ends[place] as usize], out);
                    match wanted {
                        None => part.into_iter().try_for_each(&mut one)?,
                        Some(wanted) => wanted.set_indices().map(|place| part.start + place).try_for_each(&mut one)?,
                    }
                }
            }
        }
        Ok(())
    }

    /// One text, of which these bytes are stored.
    #[inline]
    fn put(&self, stored: &[u8], out: &mut Views) -> Result<()> {
        let Some(symbols) = &self.symbols else {
            let (room, start) = out.room(stored.len())?;
            room[..stored.len()].copy_from_slice(stored);
            out.taken(start, start + stored.len());
            return Ok(());
        };
        let (room, start) = out.room(stored.len() * SYMBOL_BYTES_MAX)?;
        let length = symbols.decode(stored, room);
        out.taken(start, start + length);
        Ok(())
    }

    /// The texts at these places, in their order, which may have a place several times.
    fn read_at(&self, places: &[u32], out: &mut Views) -> Result<()> {
        let rows = self.lengths.rows();
        let (mut ends, mut bytes, mut held) = (Vec::with_capacity(VECTOR_ROWS), &[][..], None);
        for place in places.iter().map(|place| *place as usize) {
            if place >= rows {
                return damaged("a code is not in the dictionary");
            }
            let (vector, place) = (place / VECTOR_ROWS, place % VECTOR_ROWS);
            if held != Some(vector) {
                bytes = self.vector(vector, VECTOR_ROWS.min(rows - vector * VECTOR_ROWS), &mut ends)?;
                held = Some(vector);
            }
            let start = if place == 0 { 0 } else { ends[place - 1] as usize };
            self.put(&bytes[start..ends[place] as usize], out)?;
        }
        Ok(())
    }

    /// All texts, side by side, and where each of them ends.
    fn all(&self) -> Result<(Vec<u8>, Vec<usize>)> {
        let rows = self.lengths.rows();
        let (mut text, mut all) = (Vec::new(), Vec::with_capacity(rows));
        let mut ends = Vec::with_capacity(VECTOR_ROWS);
        for vector in 0..rows.div_ceil(VECTOR_ROWS) {
            let bytes = self.vector(vector, VECTOR_ROWS.min(rows - vector * VECTOR_ROWS), &mut ends)?;
            let mut start = 0;
            for end in &ends {
                let codes = &bytes[start..*end as usize];
                match &self.symbols {
                    None => text.extend_from_slice(codes),
                    Some(symbols) => {
                        let filled = text.len();
                        text.resize(filled + codes.len() * SYMBOL_BYTES_MAX, 0);
                        let length = symbols.decode(codes, &mut text[filled..]);
                        text.truncate(filled + length);
                    }
                }
                all.push(text.len());
                start = *end as usize;
            }
        }
        Ok((text, all))
    }

    fn own_bytes(&self) -> usize {
        self.lengths.own_bytes() + size_of_val(&*self.starts) + self.symbols.as_ref().map_or(0, |_| 256 * 9)
    }
}

impl Decoded {
    fn new(values: &Alone, is_text: bool) -> Result<Self> {
        let (text, ends) = values.all()?;
        if text.len() > BUFFER_BYTES_MAX {
            return damaged("its dictionary has too many bytes");
        }
        let (mut views, mut offsets) = (Vec::with_capacity(ends.len()), Vec::with_capacity(ends.len() + 1));
        offsets.push(0);
        let mut start = 0;
        for end in ends {
            views.push(view(&text, start, end, 0));
            offsets.push(end as i32);
            start = end;
        }
        let text = Buffer::from_vec(text);
        let values = match is_text {
            false => None,
            true => match StringArray::try_new(OffsetBuffer::new(ScalarBuffer::from(offsets)), text.clone(), None) {
                Ok(values) => Some(Arc::new(values) as ArrayRef),
                Err(_) => return damaged("a text is not UTF-8"),
            },
        };
        Ok(Self { text, views, values })
    }
}

impl Texts {
    /// Reads a column of so many rows. Fails if the bytes are not one.
    pub fn open(rows: usize, mut reader: Reader) -> Result<Self> {
        let whole = reader.clone();
        if reader.u8()? != DICTIONARY {
            return Ok(Self::Alone(Alone::open(rows, whole)?));
        }
        let count = reader.u32()? as usize;
        if count == 0 || count > rows {
            return damaged("its dictionary has no value, or too many");
        }
        let values = Alone::open(count, reader.part()?)?;
        Ok(Self::Dictionary { codes: Integers::open(rows, reader)?, values, decoded: OnceLock::new(), singles: 0 })
    }

    /// What the form is called.
    pub fn form(&self) -> &'static str {
        match self {
            Self::Alone(Alone { symbols: None, .. }) => "plain",
            Self::Alone(_) => "symbols",
            Self::Dictionary { .. } => "dictionary",
        }
    }

    /// Bytes that it holds, at most, beside those that it was opened with.
    pub fn own_bytes(&self) -> usize {
        match self {
            Self::Alone(alone) => alone.own_bytes(),
            Self::Dictionary { codes, values, .. } => {
                // A code stands for eight bytes at most.
                let text = values.bytes.len() * if values.symbols.is_some() { 8 } else { 1 };
                codes.own_bytes() + values.own_bytes() + text + values.lengths.rows() * 20
            }
        }
    }

    /// The texts of some rows; of those that are selected, if `selected` says which. As codes of the dictionary, if
    /// that is wanted and there is one whose values repeat.
    pub fn read(
        &mut self,
        is_text: bool,
        rows: Range<usize>,
        selected: Option<&BooleanBuffer>,
        nulls: Option<NullBuffer>,
        wants_codes: bool,
    ) -> Result<ArrayRef> {
        match self {
            Self::Alone(alone) => {
                let count = selected.map_or(rows.len(), BooleanBuffer::count_set_bits);
                let mut views = Views::new(is_text, count);
                alone.read(rows, selected, &mut views)?;
                views.finish(nulls)
            }
            Self::Dictionary { codes, values, decoded, singles } => {
                let mut numbers = Vec::<u32>::new();
                codes.read(rows, selected, &mut numbers);
                if decoded.get().is_none() && (*singles + numbers.len()) * SINGLES_PART <= values.lengths.rows() {
                    *singles += numbers.len();
                    let mut views = Views::new(is_text, numbers.len());
                    values.read_at(&numbers, &mut views)?;
                    return views.finish(nulls);
                }
                let decoded = match decoded.get_or_init(|| Decoded::new(values, is_text)) {
                    Ok(decoded) => decoded,
                    Err(error) => return Err(error.clone()),
                };
                let largest = numbers.iter().copied().max().unwrap_or(0);
                if largest as usize >= decoded.views.len() {
                    return damaged("a code is not in the dictionary");
                }
                if wants_codes && let Some(values) = &decoded.values {
                    let keys = numbers.into_iter().map(|number| number as i32).collect::<Vec<_>>();
                    let keys = Int32Array::new(ScalarBuffer::from(keys), nulls);
                    // SAFETY: all keys are in the dictionary.
                    return Ok(Arc::new(unsafe { DictionaryArray::new_unchecked(keys, values.clone()) }));
                }
                let views = numbers.iter().map(|number| decoded.views[*number as usize]).collect::<Vec<_>>();
                let (views, buffers) = views::compacted(views, &decoded.text);
                // SAFETY: the views are of ranges of the text, which is UTF-8 if it has to be.
                Ok(unsafe { views::array(is_text, views, buffers, nulls) })
            }
        }
    }

    /// The codes and the values of a dictionary; `None` if there is none. Fails if these are damaged.
    pub fn dictionary(&self, is_text: bool) -> Result<Option<(&Integers, &Decoded)>> {
        let Self::Dictionary { codes, values, decoded, .. } = self else { return Ok(None) };
        match decoded.get_or_init(|| Decoded::new(values, is_text)) {
            Ok(decoded) => Ok(Some((codes, decoded))),
            Err(error) => Err(error.clone()),
        }
    }

    /// How many values its dictionary has; `None` if it has none.
    pub fn values(&self) -> Option<usize> {
        match self {
            Self::Alone(_) => None,
            Self::Dictionary { values, .. } => Some(values.lengths.rows()),
        }
    }

    /// Codes of a dictionary; `None` if there is none.
    pub fn codes(&self) -> Option<&Integers> {
        match self {
            Self::Alone(_) => None,
            Self::Dictionary { codes, .. } => Some(codes),
        }
    }
}

impl Decoded {
    /// The values as an array.
    pub fn array(&self, is_text: bool, nulls: Option<NullBuffer>) -> ArrayRef {
        // SAFETY: the views are of ranges of the text, which is UTF-8 if it has to be.
        unsafe { views::array(is_text, self.views.clone(), vec![self.text.clone()], nulls) }
    }
}
