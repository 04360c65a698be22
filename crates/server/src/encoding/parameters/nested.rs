//! Ranges, multiranges and rows in PostgreSQL's binary form, read as texts.

use arrow::array::ArrayRef;
use bytes::BytesMut;
use diligence_base::Result;
use diligence_db::postgres::{ColumnType, PostgresType, TEXT, type_of_oid};
use diligence_db::{RangeKind, Zone};

use super::super::cursor::{Cursor, malformed};
use super::super::values::Values;
use super::{from_binary, list_from_binary};

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
    let (element, _) = type_of_oid(kind.element().oid()).unwrap_or((TEXT, false));
    let mut bound = |infinite: u8| -> Result<String> {
        if flags & infinite != 0 {
            return Ok(String::new());
        }
        let length = usize::try_from(cursor.i32()?).map_err(|_| malformed("a bound's length"))?;
        let value = from_binary(cursor.take(length)?, element)?;
        Ok(format!("\"{}\"", shown(&value, element, false)?))
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
        let text = match type_of_oid(oid) {
            Some((known, true)) => shown(&list_from_binary(field)?, known, true)?,
            Some((known, false)) => shown(&from_binary(field, known)?, known, false)?,
            // Of types that statements have made, enums are sent as texts, and rows as rows.
            None => match row_text_within(field, depth + 1) {
                Ok(row) => row,
                Err(_) => shown(&from_binary(field, TEXT)?, TEXT, false)?,
            },
        };
        columns.push(format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\"\"")));
    }
    cursor.end()?;
    Ok(format!("({})", columns.join(",")))
}

/// The text of a value, as PostgreSQL shows it.
fn shown(value: &ArrayRef, known: PostgresType, is_array: bool) -> Result<String> {
    let oid = if is_array { known.array_oid } else { known.oid };
    let column = ColumnType { oid, element: known, is_array, modifier: -1 };
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
}
