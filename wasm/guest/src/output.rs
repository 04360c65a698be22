//! The column of results.

use core::fmt;

use crate::column::{Number, RawColumn, ARRAYS_FROM, BOOLEAN, BYTES, NUMERIC, TEXT};
use crate::memory::{allocate, extend, slice_mut};

/// Why a function fails: the message of the query's error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    address: u32,
}

impl Message {
    /// What is said for want of memory.
    const NO_MEMORY: Message = Message { address: 0 };

    /// A message of this text.
    pub fn new(text: &str) -> Self {
        let address = match allocate(4 + text.len()) {
            Some(address) => address,
            None => return Self::NO_MEMORY,
        };
        // SAFETY: the block is as long, and nobody else has it.
        let block = unsafe { slice_mut::<u8>(address, 4 + text.len()) };
        block[..4].copy_from_slice(&(text.len() as u32).to_le_bytes());
        block[4..].copy_from_slice(text.as_bytes());
        Self { address }
    }

    /// Where it is.
    pub(crate) fn address(self) -> u32 {
        // There is no room for a message about that: the query ends all the same.
        assert!(self.address != 0, "no memory");
        self.address
    }
}

impl From<&str> for Message {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

/// The column that a function fills, by one of the functions below, once.
#[derive(Debug)]
pub struct Output<'b> {
    rows: usize,
    raw: &'b mut RawColumn,
    is_filled: bool,
}

impl<'b> Output<'b> {
    pub(crate) fn new(rows: usize, raw: &'b mut RawColumn) -> Self {
        Self { rows, raw, is_filled: false }
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The kind that the function was declared to give.
    pub fn kind(&self) -> u32 {
        self.raw.kind
    }

    /// Fails if there are no results.
    pub(crate) fn check(&self) -> Result<(), Message> {
        if self.is_filled || self.rows == 0 {
            Ok(())
        } else {
            Err(Message::new("the function has given no results"))
        }
    }

    fn begins(&mut self, is_kind: bool) -> Result<(), Message> {
        if !is_kind {
            return Err(Message::new("the function is declared to return another type"));
        }
        self.is_filled = true;
        Ok(())
    }

    /// The number of each row; `None` is NULL. Fails if the function was declared to give another type.
    pub fn numbers<T: Number>(&mut self, mut value: impl FnMut(usize) -> Option<T>) -> Result<(), Message> {
        self.begins(self.raw.kind == T::KIND)?;
        let (address, values) = block::<T>(self.rows)?;
        let mut validity = Validity::new(self.rows)?;
        for (row, place) in values.iter_mut().enumerate() {
            match value(row) {
                Some(value) => *place = value,
                None => validity.is_null(row),
            }
        }
        self.raw.values = address;
        self.raw.validity = validity.address();
        Ok(())
    }

    /// The truth value of each row; `None` is NULL. Fails like [`numbers`](Self::numbers).
    pub fn booleans(&mut self, mut value: impl FnMut(usize) -> Option<bool>) -> Result<(), Message> {
        self.begins(self.raw.kind == BOOLEAN)?;
        let (address, bits) = block::<u8>((self.rows + 7) / 8)?;
        let mut validity = Validity::new(self.rows)?;
        for row in 0..self.rows {
            match value(row) {
                Some(is_true) => bits[row / 8] |= u8::from(is_true) << (row % 8),
                None => validity.is_null(row),
            }
        }
        self.raw.values = address;
        self.raw.validity = validity.address();
        Ok(())
    }

    /// The text of each row, which `write` appends to what it gets; false is NULL. Of types that go as texts, it is
    /// read like a literal. Fails like [`numbers`](Self::numbers), and without memory.
    pub fn texts(&mut self, write: impl FnMut(usize, &mut Text) -> bool) -> Result<(), Message> {
        self.begins(matches!(self.raw.kind, TEXT | NUMERIC))?;
        self.blobs(write)
    }

    /// The bytes of each row. Fails like [`texts`](Self::texts).
    pub fn bytes(&mut self, write: impl FnMut(usize, &mut Text) -> bool) -> Result<(), Message> {
        self.begins(self.raw.kind == BYTES)?;
        self.blobs(write)
    }

    fn blobs(&mut self, mut write: impl FnMut(usize, &mut Text) -> bool) -> Result<(), Message> {
        let (of_offsets, offsets) = block::<u32>(self.rows + 1)?;
        let mut validity = Validity::new(self.rows)?;
        let mut text = Text::default();
        for row in 0..self.rows {
            let before = text.bytes;
            if !write(row, &mut text) {
                text.bytes = before;
                validity.is_null(row);
            }
            offsets[row + 1] = text.bytes as u32;
        }
        if text.has_failed {
            return Err(Message::NO_MEMORY);
        }
        self.raw.offsets = of_offsets;
        self.raw.values = text.address;
        self.raw.validity = validity.address();
        Ok(())
    }

    /// The array of each row: its numbers, which `write` pushes, or NULL if that gives false. Fails like
    /// [`texts`](Self::texts).
    pub fn arrays<T: Number>(&mut self, mut write: impl FnMut(usize, &mut Array<T>) -> bool) -> Result<(), Message> {
        self.begins(self.raw.kind == ARRAYS_FROM + T::KIND)?;
        let (of_offsets, offsets) = block::<u32>(self.rows + 1)?;
        let (of_elements, elements) = block::<RawColumn>(1)?;
        let mut validity = Validity::new(self.rows)?;
        let mut array = Array { text: Text::default(), count: 0, number: core::marker::PhantomData };
        for row in 0..self.rows {
            let (bytes, count) = (array.text.bytes, array.count);
            if !write(row, &mut array) {
                (array.text.bytes, array.count) = (bytes, count);
                validity.is_null(row);
            }
            offsets[row + 1] = array.count;
        }
        if array.text.has_failed {
            return Err(Message::NO_MEMORY);
        }
        elements[0] =
            RawColumn { kind: T::KIND, rows: array.count, values: array.text.address, ..RawColumn::default() };
        self.raw.offsets = of_offsets;
        self.raw.values = of_elements;
        self.raw.validity = validity.address();
        Ok(())
    }
}

/// A block for so many values, which are 0.
fn block<T: Default>(count: usize) -> Result<(u32, &'static mut [T]), Message> {
    let bytes = count.checked_mul(core::mem::size_of::<T>()).ok_or(Message::NO_MEMORY)?;
    let address = allocate(bytes).ok_or(Message::NO_MEMORY)?;
    // SAFETY: the block is as long and was given to nobody else; numbers may be any bytes. It stays until the next
    // batch, and nobody keeps it for longer.
    let values = unsafe { slice_mut::<T>(address, count) };
    values.iter_mut().for_each(|value| *value = T::default());
    Ok((address, values))
}

/// Bits that say which rows are NULL.
struct Validity {
    address: u32,
    bits: &'static mut [u8],
    has_nulls: bool,
}

impl Validity {
    fn new(rows: usize) -> Result<Self, Message> {
        let (address, bits) = block::<u8>((rows + 7) / 8)?;
        bits.iter_mut().for_each(|bits| *bits = 0xff);
        Ok(Self { address, bits, has_nulls: false })
    }

    fn is_null(&mut self, row: usize) {
        self.bits[row / 8] &= !(1 << (row % 8));
        self.has_nulls = true;
    }

    fn address(&self) -> u32 {
        if self.has_nulls {
            self.address
        } else {
            0
        }
    }
}

/// The texts of a column, one after the other.
#[derive(Debug, Default)]
pub struct Text {
    address: u32,
    bytes: usize,
    capacity: usize,
    has_failed: bool,
}

impl Text {
    /// Appends a text.
    pub fn push_str(&mut self, text: &str) {
        self.push_bytes(text.as_bytes());
    }

    /// Appends a character.
    pub fn push(&mut self, letter: char) {
        self.push_str(letter.encode_utf8(&mut [0; 4]));
    }

    /// Appends bytes; of texts, they are UTF-8.
    pub fn push_bytes(&mut self, more: &[u8]) {
        let wanted = self.bytes + more.len();
        if wanted > self.capacity && !self.reserve(wanted) {
            return;
        }
        // SAFETY: the block is as long as the capacity, and this text's own.
        let block = unsafe { slice_mut::<u8>(self.address, wanted) };
        block[self.bytes..].copy_from_slice(more);
        self.bytes = wanted;
    }

    /// Makes room, elsewhere if need be. False without memory, and ever after.
    fn reserve(&mut self, wanted: usize) -> bool {
        let capacity = wanted.max(2 * self.capacity).max(1024);
        if self.has_failed || u32::try_from(capacity).is_err() {
            self.has_failed = true;
            return false;
        }
        if self.capacity > 0 && extend(self.address, self.capacity, capacity) {
            self.capacity = capacity;
            return true;
        }
        let address = match allocate(capacity) {
            Some(address) => address,
            None => {
                self.has_failed = true;
                return false;
            }
        };
        // SAFETY: two blocks, both this text's own.
        let (from, to) = unsafe { (slice_mut::<u8>(self.address, self.bytes), slice_mut::<u8>(address, self.bytes)) };
        to.copy_from_slice(from);
        (self.address, self.capacity) = (address, capacity);
        true
    }
}

impl Extend<char> for Text {
    fn extend<I: IntoIterator<Item = char>>(&mut self, letters: I) {
        letters.into_iter().for_each(|letter| self.push(letter));
    }
}

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push_str(text);
        if self.has_failed {
            Err(fmt::Error)
        } else {
            Ok(())
        }
    }
}

/// The numbers of a column's arrays, one after the other.
#[derive(Debug)]
pub struct Array<T> {
    text: Text,
    count: u32,
    number: core::marker::PhantomData<T>,
}

impl<T: Number> Array<T> {
    /// Appends a number.
    pub fn push(&mut self, number: T) {
        self.extend_from_slice(&[number]);
    }

    /// Appends numbers.
    pub fn extend_from_slice(&mut self, numbers: &[T]) {
        let bytes = core::mem::size_of_val(numbers);
        // SAFETY: numbers are bytes without gaps.
        self.text.push_bytes(unsafe { core::slice::from_raw_parts(numbers.as_ptr() as *const u8, bytes) });
        self.count += numbers.len() as u32;
    }
}

#[cfg(test)]
mod tests {
    use core::fmt::Write;
    use std::vec::Vec;

    use super::*;
    use crate::column::Column;
    use crate::memory::slice;
    use crate::memory::tests::alone;

    /// The column that a function makes, as an argument of another.
    fn made(kind: u32, rows: usize, fill: impl FnOnce(&mut Output<'_>) -> Result<(), Message>) -> Column<'static> {
        let (_, raw) = block::<RawColumn>(1).unwrap();
        let raw = &mut raw[0];
        (raw.kind, raw.rows) = (kind, rows as u32);
        fill(&mut Output::new(rows, raw)).unwrap();
        if kind == TEXT || kind == BYTES {
            // SAFETY: there is one more than rows.
            raw.bytes = unsafe { slice::<u32>(raw.offsets, rows + 1) }[rows];
        }
        // SAFETY: what it names stays as long as the test has the memory.
        unsafe { Column::new(raw) }
    }

    #[test]
    fn what_was_written_is_read() {
        let _alone = alone();
        let numbers = made(3, 10, |output| output.numbers(|row| if row == 9 { None } else { Some(row as i64 - 5) }));
        let read = (0..10).map(|row| numbers.number::<i64>(row)).collect::<Vec<_>>();
        assert_eq!((read[0], read[8], read[9]), (Some(-5), Some(3), None));
        let truths = made(BOOLEAN, 9, |output| output.booleans(|row| if row == 1 { None } else { Some(row == 8) }));
        assert_eq!((truths.boolean(0), truths.boolean(1), truths.boolean(8)), (Some(false), None, Some(true)));
        let texts = made(TEXT, 3, |output| {
            output.texts(|row, text| {
                write!(text, "{row}ä{}", "x".repeat(2000 * row)).unwrap();
                row != 1
            })
        });
        assert_eq!((texts.text(0), texts.text(1), texts.text(2).map(str::len)), (Some("0ä"), None, Some(4003)));
        assert_eq!(texts.range(1), 3..3, "NULL has no bytes");
        let arrays = made(ARRAYS_FROM + 5, 3, |output| {
            output.arrays::<f64>(|row, array| {
                array.extend_from_slice(&[0.5, 1.5]);
                array.push(row as f64);
                row != 1
            })
        });
        assert_eq!((arrays.array::<f64>(0), arrays.array::<f64>(1)), (Some(&[0.5, 1.5, 0.0][..]), None));
        assert_eq!((arrays.array::<f64>(2), arrays.elements().rows()), (Some(&[0.5, 1.5, 2.0][..]), 6));
        let none = made(3, 2, |output| output.numbers(|row| Some(row as i64)));
        assert!(!none.is_null(0) && none.numbers::<i64>() == [0, 1]);
    }

    #[test]
    fn a_result_of_another_type_and_none_are_messages() {
        let _alone = alone();
        let mut raw = RawColumn { kind: TEXT, ..RawColumn::default() };
        let mut output = Output::new(2, &mut raw);
        let said = |message: Message| {
            let address = message.address();
            // SAFETY: a message is its length and as many bytes.
            let bytes = unsafe { slice::<u8>(address + 4, slice::<u32>(address, 1)[0] as usize) };
            std::string::String::from_utf8_lossy(bytes).into_owned()
        };
        assert!(said(output.check().unwrap_err()).contains("no results"));
        assert!(said(output.numbers(|_| Some(1_i64)).unwrap_err()).contains("another type"));
        assert_eq!(
            output.texts(|_, text| {
                text.push_bytes(&[b'x'; 400_000]);
                true
            }),
            Err(Message::NO_MEMORY)
        );
        output.texts(|_, _| true).unwrap();
        assert_eq!(output.check(), Ok(()));
    }
}
