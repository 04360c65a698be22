//! Columns of arguments, as the engine lays them out.

use core::ops::Range;

use crate::memory::slice;

/// A column as it is described in the memory.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct RawColumn {
    /// Its kind: that of a [`Number`], [`BOOLEAN`], [`NUMERIC`], [`TEXT`] or [`BYTES`], or of arrays of these.
    pub kind: u32,
    /// Its rows; of the elements of arrays, how many elements there are.
    pub rows: u32,
    /// The address of a bit for each row, 0 for NULL; 0 if there are no NULLs.
    pub validity: u32,
    /// The address of `rows + 1` offsets, of values of any length.
    pub offsets: u32,
    /// The address of the values; of arrays, of a column that has all elements.
    pub values: u32,
    /// Bytes of the values.
    pub bytes: u32,
}

/// The kind of truth values, which are bits.
pub const BOOLEAN: u32 = 0;
/// The kind of decimals, which are texts.
pub const NUMERIC: u32 = 6;
/// The kind of texts, and of all that goes as text.
pub const TEXT: u32 = 7;
/// The kind of bytes.
pub const BYTES: u32 = 8;
/// What the kind of arrays is beside that of their elements.
pub const ARRAYS_FROM: u32 = 16;

/// Numbers whose columns are slices.
pub trait Number: Copy + Default + 'static {
    /// The kind of their columns.
    const KIND: u32;
}

macro_rules! numbers {
    ($($number:ty: $kind:literal),+) => {$(
        impl Number for $number {
            const KIND: u32 = $kind;
        }
    )+};
}

numbers!(i16: 1, i32: 2, i64: 3, f32: 4, f64: 5);

/// A column of a batch. Functions that take another kind than the column has panic, which ends the query.
#[derive(Clone, Copy, Debug)]
pub struct Column<'b> {
    raw: &'b RawColumn,
}

impl<'b> Column<'b> {
    /// The column that is described so.
    ///
    /// # Safety
    /// What it names lies in the memory as the engine lays it out, and stays for `'b`.
    pub(crate) unsafe fn new(raw: &'b RawColumn) -> Self {
        Self { raw }
    }

    /// How many rows it has.
    pub fn rows(&self) -> usize {
        self.raw.rows as usize
    }

    /// Its kind.
    pub fn kind(&self) -> u32 {
        self.raw.kind
    }

    /// Whether a value is NULL. What stands for it elsewhere may be anything.
    pub fn is_null(&self, row: usize) -> bool {
        assert!(row < self.rows(), "a row that is not there");
        // SAFETY: there is a bit for each row.
        self.raw.validity != 0 && !unsafe { bit(self.raw.validity, self.rows(), row) }
    }

    /// All numbers, those that stand for NULL among them.
    pub fn numbers<T: Number>(&self) -> &'b [T] {
        self.must_be(T::KIND);
        // SAFETY: so many numbers of this kind lie there.
        unsafe { slice(self.raw.values, self.rows()) }
    }

    /// A number; `None` of NULL.
    pub fn number<T: Number>(&self, row: usize) -> Option<T> {
        if self.is_null(row) {
            None
        } else {
            Some(self.numbers()[row])
        }
    }

    /// A truth value; `None` of NULL.
    pub fn boolean(&self, row: usize) -> Option<bool> {
        self.must_be(BOOLEAN);
        // SAFETY: there is a bit for each row, and `is_null` has looked whether there is the row.
        if self.is_null(row) {
            None
        } else {
            Some(unsafe { bit(self.raw.values, self.rows(), row) })
        }
    }

    /// A text, or a decimal, date or time as one; `None` of NULL.
    pub fn text(&self, row: usize) -> Option<&'b str> {
        assert!(matches!(self.raw.kind, TEXT | NUMERIC), "a column that has no texts");
        // SAFETY: the engine's texts are UTF-8.
        self.blob(row).map(|bytes| unsafe { core::str::from_utf8_unchecked(bytes) })
    }

    /// Bytes; `None` of NULL.
    pub fn bytes(&self, row: usize) -> Option<&'b [u8]> {
        self.must_be(BYTES);
        self.blob(row)
    }

    fn blob(&self, row: usize) -> Option<&'b [u8]> {
        if self.is_null(row) {
            return None;
        }
        let range = self.range(row);
        // SAFETY: the offsets lie within the values.
        Some(&unsafe { slice::<u8>(self.raw.values, self.raw.bytes as usize) }[range])
    }

    /// Where the elements of an array are among [`elements`](Self::elements), or the bytes of a text.
    pub fn range(&self, row: usize) -> Range<usize> {
        // SAFETY: there is one more than rows, or none at all.
        let offsets =
            unsafe { slice::<u32>(self.raw.offsets, if self.raw.offsets == 0 { 0 } else { self.rows() + 1 }) };
        offsets[row] as usize..offsets[row + 1] as usize
    }

    /// The elements of all arrays.
    pub fn elements(&self) -> Column<'b> {
        assert!(self.raw.kind >= ARRAYS_FROM, "a column that has no arrays");
        // SAFETY: the values of arrays are a column.
        unsafe { Column::new(&slice(self.raw.values, 1)[0]) }
    }

    /// The numbers of an array, those that stand for NULL among them; `None` of NULL.
    pub fn array<T: Number>(&self, row: usize) -> Option<&'b [T]> {
        if self.is_null(row) {
            None
        } else {
            Some(&self.elements().numbers()[self.range(row)])
        }
    }

    fn must_be(&self, kind: u32) {
        assert!(self.raw.kind == kind, "a column of another kind");
    }
}

/// # Safety
/// There are so many bits, among them this one.
unsafe fn bit(bits: u32, count: usize, place: usize) -> bool {
    // SAFETY: as the caller says.
    let bits = unsafe { slice::<u8>(bits, (count + 7) / 8) };
    bits[place / 8] >> (place % 8) & 1 == 1
}
