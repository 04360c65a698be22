//! Values of fixed width: numbers, dates, times, decimals.

use std::marker::PhantomData;
use std::sync::Arc;

use arrow::array::{ArrayData, ArrayRef, BooleanArray, make_array};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::datatypes::{ArrowNativeType, DataType};

use super::flat::{Values, range};
use super::header::{Malformed, Page, Text};

/// How a stored value becomes a value of an array.
pub(super) trait Convert: Send + 'static {
    /// What arrays hold.
    type Item: ArrowNativeType + Copy + Default + Send;
    /// Whether values are stored as arrays hold them, so that many can be copied at once.
    const SAME: bool;
    /// Bytes of a stored value.
    fn width(&self) -> usize;
    /// An error if one of these stored values is none of the type.
    fn check(&self, _raw: &[u8]) -> Result<(), Malformed> {
        Ok(())
    }
    /// The value that is stored in these bytes, which are [`width`](Self::width) many and were checked.
    fn convert(&self, raw: &[u8]) -> Self::Item;
}

/// Fixed-width values in little-endian order, as `From` to `To`.
pub(super) struct Cast<From, To>(pub PhantomData<fn(From) -> To>);

/// Big-endian two's complement numbers of any width up to 16 bytes: decimals of other writers.
pub(super) struct BigEndian<To> {
    pub width: usize,
    pub to: PhantomData<fn() -> To>,
}

macro_rules! cast {
    ($($from:ty => $to:ty, $same:literal;)*) => {$(
        impl Convert for Cast<$from, $to> {
            type Item = $to;
            const SAME: bool = $same;

            fn width(&self) -> usize {
                size_of::<$from>()
            }

            #[inline(always)]
            fn convert(&self, raw: &[u8]) -> $to {
                let mut bytes = [0; size_of::<$from>()];
                bytes.copy_from_slice(raw);
                <$from>::from_le_bytes(bytes) as $to
            }
        }
    )*};
}

cast! {
    i32 => i32, true;
    i64 => i64, true;
    f32 => f32, true;
    f64 => f64, true;
    i32 => i64, false;
    i32 => i128, false;
    i64 => i128, false;
    i32 => i8, false;
    i32 => i16, false;
    i32 => u8, false;
    i32 => u16, false;
}

macro_rules! big_endian {
    ($($to:ty),*) => {$(
        impl Convert for BigEndian<$to> {
            type Item = $to;
            const SAME: bool = false;

            fn width(&self) -> usize {
                self.width
            }

            fn check(&self, raw: &[u8]) -> Result<(), Malformed> {
                // Most writers store no more bytes than the type's digits need.
                if self.width > size_of::<$to>() {
                    let fits = |raw| <$to>::try_from(big_endian(raw)).is_ok();
                    if !raw.chunks_exact(self.width).all(fits) {
                        return Err(Malformed("a decimal has more digits than its type".to_owned()));
                    }
                }
                Ok(())
            }

            #[inline(always)]
            fn convert(&self, raw: &[u8]) -> $to {
                big_endian(raw) as $to
            }
        }
    )*};
}

/// A number of up to 16 bytes.
#[inline(always)]
fn big_endian(raw: &[u8]) -> i128 {
    let negative = raw.first().is_some_and(|byte| byte & 0x80 != 0);
    let mut bytes = [if negative { 0xff } else { 0 }; 16];
    bytes[16 - raw.len()..].copy_from_slice(raw);
    i128::from_be_bytes(bytes)
}

big_endian!(i64, i128);

/// Intervals: months, days and milliseconds, each without a sign, as Arrow's months, days and nanoseconds.
pub(super) struct Intervals;

impl Convert for Intervals {
    type Item = i128;
    const SAME: bool = false;

    fn width(&self) -> usize {
        12
    }

    fn check(&self, raw: &[u8]) -> Result<(), Malformed> {
        let part = |raw: &[u8]| i32::from_le_bytes([raw[0], raw[1], raw[2], raw[3]]);
        // More than 178 million years are none.
        if raw.chunks_exact(12).any(|raw| part(raw) < 0 || part(&raw[4..]) < 0) {
            return Err(Malformed("an interval has more months or days than there can be".to_owned()));
        }
        Ok(())
    }

    #[inline(always)]
    fn convert(&self, raw: &[u8]) -> i128 {
        let part = |at: usize| u32::from_le_bytes([raw[at], raw[at + 1], raw[at + 2], raw[at + 3]]);
        let nanos = i64::from(part(8)) * 1_000_000;
        // The bytes of months, days and nanoseconds in this order.
        i128::from(part(0)) | i128::from(part(4)) << 32 | i128::from(nanos) << 64
    }
}

/// Fixed-width values of one type of arrays.
pub(super) struct Fixed<C: Convert> {
    convert: C,
    data_type: DataType,
    dictionary: Vec<C::Item>,
    text: Text,
    /// Where the next plain value is.
    at: usize,
}

impl<C: Convert> Fixed<C> {
    pub fn new(convert: C, data_type: DataType) -> Self {
        Self { convert, data_type, dictionary: Vec::new(), text: Text::default(), at: 0 }
    }

    fn append(&self, raw: &[u8], out: &mut Vec<C::Item>) -> Result<(), Malformed> {
        self.convert.check(raw)?;
        let width = self.convert.width();
        if C::SAME {
            let count = raw.len() / width;
            out.reserve(count);
            // SAFETY: there is room for `count` more items of `width` bytes each, for which any bytes are a value.
            unsafe {
                let to = out.as_mut_ptr().add(out.len()).cast::<u8>();
                std::ptr::copy_nonoverlapping(raw.as_ptr(), to, count * width);
                out.set_len(out.len() + count);
            }
        } else {
            out.extend(raw.chunks_exact(width).map(|raw| self.convert.convert(raw)));
        }
        Ok(())
    }
}

impl<C: Convert> Values for Fixed<C> {
    type Item = C::Item;

    fn set_dictionary(&mut self, page: Page, values: usize) -> Result<(), Malformed> {
        let bytes = range(page.values, values, self.convert.width(), &page.text)?;
        let mut dictionary = Vec::new();
        self.append(&page.text[bytes], &mut dictionary)?;
        self.dictionary = dictionary;
        Ok(())
    }

    fn start_plain(&mut self, page: Page, _: usize) -> Result<(), Malformed> {
        (self.text, self.at) = (page.text, page.values);
        Ok(())
    }

    fn plain(&mut self, count: usize, out: &mut Vec<C::Item>) -> Result<(), Malformed> {
        let bytes = range(self.at, count, self.convert.width(), &self.text)?;
        self.append(&self.text[bytes.clone()], out)?;
        self.at = bytes.end;
        Ok(())
    }

    fn plain_selected(&mut self, selected: &BooleanBuffer, out: &mut Vec<C::Item>) -> Result<(), Malformed> {
        let width = self.convert.width();
        let bytes = range(self.at, selected.len(), width, &self.text)?;
        let raw = &self.text[bytes.clone()];
        self.convert.check(raw)?;
        out.extend(selected.set_indices().map(|row| self.convert.convert(&raw[row * width..(row + 1) * width])));
        self.at = bytes.end;
        Ok(())
    }

    fn skip_plain(&mut self, count: usize) -> Result<(), Malformed> {
        self.at = range(self.at, count, self.convert.width(), &self.text)?.end;
        Ok(())
    }

    fn look_up(&mut self, codes: &[u32], out: &mut Vec<C::Item>) -> Result<(), Malformed> {
        check_codes(codes, self.dictionary.len())?;
        let dictionary = self.dictionary.as_slice();
        // SAFETY: all codes were just checked against the dictionary's length.
        out.extend(codes.iter().map(|&code| unsafe { *dictionary.get_unchecked(code as usize) }));
        Ok(())
    }

    fn take_text(&mut self) -> Text {
        std::mem::take(&mut self.text)
    }

    fn finish(&mut self, items: Vec<C::Item>, nulls: Option<NullBuffer>) -> Result<ArrayRef, Malformed> {
        let builder = ArrayData::builder(self.data_type.clone())
            .len(items.len())
            .add_buffer(Buffer::from_vec(items))
            .nulls(nulls);
        // SAFETY: the buffer has one item of the type's width per row, and any bits are a value of the type.
        Ok(make_array(unsafe { builder.build_unchecked() }))
    }
}

/// Truth values, one bit each: the first one's is the lowest of its byte.
#[derive(Default)]
pub(super) struct Bits {
    text: Text,
    /// Which bit is the next value.
    at: usize,
}

impl Bits {
    /// The places of the next values.
    fn next(&mut self, count: usize) -> Result<std::ops::Range<usize>, Malformed> {
        let bits = self.text.len().saturating_mul(8);
        let end = self.at.checked_add(count).filter(|&end| end <= bits);
        let end = end.ok_or_else(|| Malformed("a page has fewer values than rows".to_owned()))?;
        Ok(std::mem::replace(&mut self.at, end)..end)
    }

    fn value(&self, place: usize) -> bool {
        self.text[place / 8] >> (place % 8) & 1 == 1
    }
}

impl Values for Bits {
    type Item = bool;
    const IN_RUNS: bool = true;

    fn set_dictionary(&mut self, _: Page, _: usize) -> Result<(), Malformed> {
        Err(Malformed("truth values have a dictionary".to_owned()))
    }

    fn start_plain(&mut self, page: Page, _: usize) -> Result<(), Malformed> {
        (self.text, self.at) = (page.text, page.values.saturating_mul(8));
        Ok(())
    }

    fn plain(&mut self, count: usize, out: &mut Vec<bool>) -> Result<(), Malformed> {
        let places = self.next(count)?;
        out.extend(places.map(|place| self.value(place)));
        Ok(())
    }

    fn plain_selected(&mut self, selected: &BooleanBuffer, out: &mut Vec<bool>) -> Result<(), Malformed> {
        let places = self.next(selected.len())?;
        out.extend(selected.set_indices().map(|row| self.value(places.start + row)));
        Ok(())
    }

    fn skip_plain(&mut self, count: usize) -> Result<(), Malformed> {
        self.next(count).map(drop)
    }

    fn look_up(&mut self, codes: &[u32], out: &mut Vec<bool>) -> Result<(), Malformed> {
        out.extend(codes.iter().map(|&code| code == 1));
        Ok(())
    }

    fn take_text(&mut self) -> Text {
        std::mem::take(&mut self.text)
    }

    fn finish(&mut self, items: Vec<bool>, nulls: Option<NullBuffer>) -> Result<ArrayRef, Malformed> {
        Ok(Arc::new(BooleanArray::new(BooleanBuffer::from(items), nulls)))
    }
}

/// Whether all codes are of a dictionary.
pub(super) fn check_codes(codes: &[u32], values: usize) -> Result<(), Malformed> {
    // A maximum can be computed for many codes at once, a search for the first bad one cannot.
    let max = codes.iter().fold(0, |max, &code| max.max(code));
    if max as usize >= values && !codes.is_empty() {
        return Err(Malformed(format!("a code is {max}, but the dictionary has {values} values")));
    }
    Ok(())
}
