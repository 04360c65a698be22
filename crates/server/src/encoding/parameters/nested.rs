//! Ranges, multiranges and rows in PostgreSQL's binary form, read as texts.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use bytes::BytesMut;
use diligence_base::Result;
use diligence_db::postgres::{ColumnType, PostgresType, TEXT};
use diligence_db::{RangeKind, Zone};

use super::super::cursor::{Cursor, malformed};
use super::super::values::Values;
use super::{element_type, from_binary, is_text, read_type};

/// Rows within rows at most.
const DEPTH_MAX: usize = 32;

/// The text of a range: flags, and the bounds that there are. Fails with code 22P03 if the bytes are none.
pub(super) fn range_text(cursor: &mut Cursor<'_>, kind: RangeKind) -> Result<String> {
    const EMPTY: u8 = 1;
    const LOWER_INCLUSIVE: u8 = 2;
    const UPPER_INCLUSIVE: u8 = 4;
    const LOWER_INFINITE: u8 = 8;
    const UPPER_INFINITE: u8 = 16;
    let flags = cursor.take(1)?[0];
    if flags & EMPTY != 0 {
        return Ok("empty".to_owned());
    }
    let (element, _) = read_type(kind.element().oid()).unwrap_or((TEXT, false));
    let mut bound = |infinite: u8| -> Result<String> {
        if flags & infinite != 0 {
            return Ok(String::new());
        }
        let length = usize::try_from(cursor.i32()?).map_err(|_| malformed("a bound's length"))?;
        let value = from_binary(cursor.take(length)?, element)?;
        Ok(format!("\"{}\"", shown(&value, element)?))
    };
    let (lower, upper) = (bound(LOWER_INFINITE)?, bound(UPPER_INFINITE)?);
    let open = if flags & LOWER_INCLUSIVE != 0 { '[' } else { '(' };
    let close = if flags & UPPER_INCLUSIVE != 0 { ']' } else { ')' };
    Ok(format!("{open}{lower},{upper}{close}"))
}

/// The text of a multirange: how many ranges there are, and each with its length.
pub(super) fn multirange_text(cursor: &mut Cursor<'_>, kind: RangeKind) -> Result<String> {
    let count = cursor.i32()?;
    let ranges = (0..count).map(|_| {
        let length = usize::try_from(cursor.i32()?).map_err(|_| malformed("a range's length"))?;
        let mut own = Cursor(cursor.take(length)?);
        let range = range_text(&mut own, kind)?;
        own.end()?;
        Ok(range)
    });
    Ok(format!("{{{}}}", ranges.collect::<Result<Vec<_>>>()?.join(",")))
}

/// The text of a row: how many columns it has, and each with the number of its type and its length. Fails with code
/// 22P03 if the bytes are none.
pub(super) fn row_text(bytes: &[u8]) -> Result<String> {
    row_text_within(bytes, 0)
}

fn row_text_within(bytes: &[u8], depth: usize) -> Result<String> {
    let mut cursor = Cursor(bytes);
    let count = cursor.i32()?;
    // Each column has a type and a length.
    if depth > DEPTH_MAX || usize::try_from(count).map_or(true, |count| count > bytes.len() / 8) {
        return Err(malformed("a row has another number of columns"));
    }
    let mut columns = Vec::new();
    for _ in 0..count {
        let oid = cursor.i32()? as u32;
        let length = cursor.i32()?;
        if length == -1 {
            columns.push(String::new());
            continue;
        }
        let field = cursor.take(usize::try_from(length).map_err(|_| malformed("a column's length"))?)?;
        let text = match read_type(oid) {
            Some((_, true)) => array_text(field)?,
            Some((known, false)) => shown(&from_binary(field, known)?, known)?,
            // Of types that statements have made, enums are sent as texts, and rows as rows.
            None => match row_text_within(field, depth + 1) {
                Ok(row) => row,
                Err(_) => shown(&from_binary(field, TEXT)?, TEXT)?,
            },
        };
        columns.push(format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\"\"")));
    }
    cursor.end()?;
    Ok(format!("({})", columns.join(",")))
}

/// What stands in front of an array's elements.
pub(super) struct ArrayHead {
    /// PostgreSQL's number of their type.
    pub(super) oid: u32,
    /// How many there are, and the number of the first, in each dimension; none of an empty array.
    dimensions: Vec<(usize, i32)>,
}

impl ArrayHead {
    /// Takes it from the front. Fails with code 22P03 if it is none, or says more elements than there are bytes for.
    pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        /// PostgreSQL's.
        const DIMENSIONS_MAX: i32 = 6;
        let count = cursor.i32()?;
        if !(0..=DIMENSIONS_MAX).contains(&count) {
            return Err(malformed("an array has 0 to 6 dimensions"));
        }
        let _has_nulls = cursor.i32()?;
        let oid = cursor.i32()? as u32;
        let dimension = |_| {
            let length = usize::try_from(cursor.i32()?).map_err(|_| malformed("an array's length"))?;
            Ok((length, cursor.i32()?))
        };
        let head = Self { oid, dimensions: (0..count).map(dimension).collect::<Result<_>>()? };
        let mut lengths = head.dimensions.iter().map(|(length, _)| *length);
        let elements = lengths.try_fold(1, usize::checked_mul);
        // Each element has a length of four bytes at least.
        if !head.dimensions.is_empty() && elements.is_none_or(|elements| elements > cursor.0.len() / 4) {
            return Err(malformed("an array is shorter than it says"));
        }
        Ok(head)
    }

    /// How many elements the first dimension has.
    pub(super) fn count(&self) -> usize {
        self.dimensions.first().map_or(0, |(length, _)| *length)
    }

    /// Writes the elements of a dimension, and of those within it.
    fn write(&self, dimension: usize, cursor: &mut Cursor<'_>, out: &mut String) -> Result<()> {
        out.push('{');
        for place in 0..self.dimensions.get(dimension).map_or(0, |(length, _)| *length) {
            if place > 0 {
                out.push(',');
            }
            match dimension + 1 < self.dimensions.len() {
                true => self.write(dimension + 1, cursor, out)?,
                false => self.write_element(cursor, out)?,
            }
        }
        out.push('}');
        Ok(())
    }

    fn write_element(&self, cursor: &mut Cursor<'_>, out: &mut String) -> Result<()> {
        let length = cursor.i32()?;
        if length == -1 {
            out.push_str("NULL");
            return Ok(());
        }
        let bytes = cursor.take(usize::try_from(length).map_err(|_| malformed("an element's length"))?)?;
        let text = match read_type(self.oid) {
            Some((_, true)) => return Err(malformed("an array's elements are arrays")),
            Some((known, false)) => shown(&from_binary(bytes, known)?, known)?,
            // Of types that statements have made, enums are sent as texts, and rows as rows.
            None => row_text(bytes).or_else(|_| shown(&from_binary(bytes, TEXT)?, TEXT))?,
        };
        out.push('"');
        for character in text.chars() {
            if matches!(character, '"' | '\\') {
                out.push('\\');
            }
            out.push(character);
        }
        out.push('"');
        Ok(())
    }
}

/// The text of an array. Fails with code 22P03 if the bytes are none.
fn array_text(bytes: &[u8]) -> Result<String> {
    let mut cursor = Cursor(bytes);
    let head = ArrayHead::read(&mut cursor)?;
    let mut text = String::new();
    if head.dimensions.iter().any(|(_, first)| *first != 1) {
        let bounds = head.dimensions.iter().map(|(length, first)| {
            let first = i64::from(*first);
            format!("[{first}:{}]", first + *length as i64 - 1)
        });
        text = bounds.collect::<String>() + "=";
    }
    head.write(0, &mut cursor, &mut text)?;
    cursor.end()?;
    Ok(text)
}

/// The literal of an array which SQL has to read: of several dimensions, with another first number than 1, or of
/// elements that are held as texts and are none, as `jsonb` is. `None` for others, and for arrays of rows and enums.
pub(super) fn literal_of_array(bytes: &[u8]) -> Result<Option<String>> {
    let head = ArrayHead::read(&mut Cursor(bytes))?;
    let is_plain = head.dimensions.len() < 2 && head.dimensions.iter().all(|(_, first)| *first == 1);
    let is_held =
        read_type(head.oid).is_some_and(|(known, _)| element_type(known) == DataType::Utf8View && !is_text(known));
    if is_plain && !is_held { Ok(None) } else { array_text(bytes).map(Some) }
}

/// The text of a value, as PostgreSQL shows it.
fn shown(value: &ArrayRef, known: PostgresType) -> Result<String> {
    let column = ColumnType { oid: known.oid, element: known, is_array: false, modifier: -1 };
    let mut out = BytesMut::new();
    Values::new(value, &column, Zone::UTC)?.text(0, &column, &mut out);
    String::from_utf8(out.to_vec()).map_err(|_| malformed("it is no text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(oid: i32, value: &[u8]) -> Vec<u8> {
        [&oid.to_be_bytes()[..], &(value.len() as i32).to_be_bytes(), value].concat()
    }

    #[test]
    fn rows_are_read_from_their_binary_form() {
        let null = [25_i32.to_be_bytes(), (-1_i32).to_be_bytes()].concat();
        let row =
            [&3_i32.to_be_bytes()[..], &field(23, &7_i32.to_be_bytes()), &field(25, b"a \"b\" \\"), &null].concat();
        assert_eq!(row_text(&row).unwrap(), r#"("7","a ""b"" \\",)"#);
        let outer = [&1_i32.to_be_bytes()[..], &field(70_000, &row)].concat();
        assert_eq!(row_text(&outer).unwrap(), r#"("(""7"",""a """"b"""" \\\\"",)")"#);
        let of_enum = [&1_i32.to_be_bytes()[..], &field(70_000, b"ok")].concat();
        assert_eq!(row_text(&of_enum).unwrap(), r#"("ok")"#);
        for wrong in [&row[..row.len() - 1], &[0, 0, 0, 9][..], b"ok", b""] {
            assert!(row_text(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn ranges_are_read_from_their_binary_form() {
        let read = |bytes: &[u8], kind| range_text(&mut Cursor(bytes), kind);
        let numbers = b"\x02\0\0\0\x04\0\0\0\x01\0\0\0\x04\0\0\0\x05";
        assert_eq!(read(numbers, RangeKind::Integer).unwrap(), r#"["1","5")"#);
        assert_eq!(read(b"\x01", RangeKind::Integer).unwrap(), "empty");
        assert_eq!(read(b"\x18", RangeKind::Date).unwrap(), "(,)");
        let until = b"\x08\0\0\0\x08\0\0\0\0\0\0\0\0";
        assert_eq!(read(until, RangeKind::TimestampTz).unwrap(), r#"(,"2000-01-01 00:00:00+00")"#);
        let several = [&1_i32.to_be_bytes()[..], &(numbers.len() as i32).to_be_bytes(), numbers].concat();
        assert_eq!(multirange_text(&mut Cursor(&several), RangeKind::Integer).unwrap(), r#"{["1","5")}"#);
        assert!(read(b"\x02\0\0\0\x04\0\0", RangeKind::Integer).is_err() && read(b"", RangeKind::Date).is_err());
    }

    /// An array's head, with its dimensions, and its elements.
    fn array(oid: i32, dimensions: &[(i32, i32)], elements: &[Option<&[u8]>]) -> Vec<u8> {
        let mut bytes = [dimensions.len() as i32, 0, oid].map(i32::to_be_bytes).concat();
        dimensions.iter().for_each(|(length, first)| bytes.extend([*length, *first].map(i32::to_be_bytes).concat()));
        for element in elements {
            bytes.extend(element.map_or(-1, |element| element.len() as i32).to_be_bytes());
            bytes.extend(element.unwrap_or_default());
        }
        bytes
    }

    #[test]
    fn arrays_that_sql_has_to_read_become_literals() {
        let numbers = [1, 2, 3, 4].map(i32::to_be_bytes);
        let numbers = numbers.each_ref().map(|number| Some(&number[..]));
        let literal = |bytes: &[u8]| literal_of_array(bytes).unwrap();
        assert_eq!(literal(&array(23, &[(4, 1)], &numbers)), None);
        assert_eq!(literal(&array(23, &[], &[])), None);
        assert_eq!(literal(&array(25, &[(1, 1)], &[Some(b"{")])), None);
        assert_eq!(literal(&array(23, &[(2, 1), (2, 1)], &numbers)).unwrap(), r#"{{"1","2"},{"3","4"}}"#);
        assert_eq!(literal(&array(23, &[(1, 5)], &[None])).unwrap(), "[5:5]={NULL}");
        let jsonb = array(3802, &[(1, 1)], &[Some(b"\x01{\"a\": \"\\\\\"}")]);
        assert_eq!(literal(&jsonb).unwrap(), r#"{"{\"a\": \"\\\\\"}"}"#);
        let ranges = array(3904, &[(1, 1)], &[Some(b"\x02\0\0\0\x04\0\0\0\x01\0\0\0\x04\0\0\0\x05")]);
        assert_eq!(literal(&ranges).unwrap(), r#"{"[\"1\",\"5\")"}"#);
        let row = [&1_i32.to_be_bytes()[..], &field(1007, &array(23, &[(2, 1), (2, 1)], &numbers))].concat();
        assert_eq!(row_text(&row).unwrap(), r#"("{{""1"",""2""},{""3"",""4""}}")"#);
        for wrong in [
            array(23, &[(3, 1), (2, 1)], &numbers),
            array(23, &[(-1, 1)], &[]),
            array(23, &[(i32::MAX, 1), (i32::MAX, 1), (i32::MAX, 1)], &[]),
            array(23, &[(1, 1); 7], &numbers[..1]),
            array(1007, &[(1, 2)], &numbers[..1]),
        ] {
            assert_eq!(literal_of_array(&wrong).unwrap_err().code(), Some("22P03"), "{wrong:?}");
        }
    }
}
