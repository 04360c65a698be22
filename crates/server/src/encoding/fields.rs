//! Fields in PostgreSQL's binary form: lengths, dates, ranges, addresses.

use arrow::datatypes::{Decimal256Type, DecimalType};
use bytes::{BufMut, BytesMut};
use diligence_db::postgres::UNBOUNDED_NUMERIC;
use diligence_db::{Address, Multirange, NetworkKind, Range, RangeKind, read_mac};

use super::numeric::without_zeros;
use super::text;

/// Days from 1970-01-01 to 2000-01-01, where PostgreSQL counts from.
pub(super) const EPOCH_DAYS: i32 = 10_957;
/// Microseconds from 1970 to 2000.
pub(super) const EPOCH_MICROSECONDS: i64 = EPOCH_DAYS as i64 * 86_400_000_000;

/// Fills in the length of what was written from `start` on, without so many bytes of its own.
pub(super) fn put_length(start: usize, own: usize, out: &mut BytesMut) {
    let length = (out.len() - start - own) as i32;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

/// Writes a field of a few bytes with its length, at once.
pub(super) fn put_field<const BYTES: usize>(value: [u8; BYTES], out: &mut BytesMut) {
    let mut field = [0; 12];
    field[3] = BYTES as u8;
    field[4..4 + BYTES].copy_from_slice(&value);
    out.put_slice(&field[..4 + BYTES]);
}

/// Days since 2000 of days since 1970. The infinities are the same numbers everywhere.
pub(super) fn since_2000(days: i32) -> i32 {
    match days {
        i32::MIN | i32::MAX => days,
        days => days.saturating_sub(EPOCH_DAYS),
    }
}

/// The number of ranges, and each with its length before it.
pub(super) fn multirange_binary(text: &str, kind: RangeKind, out: &mut BytesMut) {
    let multirange = Multirange::held(text, kind);
    let ranges = multirange.as_ref().map_or(&[][..], Multirange::ranges);
    out.put_i32(ranges.len() as i32);
    for range in ranges {
        let start = out.len();
        out.put_i32(0);
        range_binary(&range.text(), kind, out);
        put_length(start, 4, out);
    }
}

/// Of an address of the internet protocol its family, the length of its network, whether it is a `cidr`, how many bytes
/// it has, and these; of other addresses the bytes.
pub(super) fn network_binary(text: &str, kind: NetworkKind, out: &mut BytesMut) {
    const FAMILIES: [u8; 2] = [2, 3];
    if !kind.is_internet() {
        return out.put_slice(&read_mac(text, kind).unwrap_or_default());
    }
    let Ok(address) = Address::read(text, NetworkKind::Inet) else { return };
    let bytes = address.bits.to_be_bytes();
    let bytes = &bytes[bytes.len() - usize::from(address.width() / 8)..];
    out.put_u8(FAMILIES[usize::from(address.is_long)]);
    out.put_u8(address.length);
    out.put_u8(u8::from(kind == NetworkKind::Cidr));
    out.put_u8(bytes.len() as u8);
    out.put_slice(bytes);
}

/// Flags, and the bounds that there are.
pub(super) fn range_binary(text: &str, kind: RangeKind, out: &mut BytesMut) {
    const EMPTY: u8 = 1;
    const LOWER: [u8; 2] = [2, 8];
    const UPPER: [u8; 2] = [4, 16];
    let Some((lower, upper)) = Range::held(text, kind).ok().and_then(|range| range.bounds) else {
        return out.put_u8(EMPTY);
    };
    let mut flags = 0;
    for (bound, [inclusive, infinite]) in [(&lower, LOWER), (&upper, UPPER)] {
        match bound.value {
            None => flags |= infinite,
            Some(_) if bound.is_inclusive => flags |= inclusive,
            Some(_) => {}
        }
    }
    out.put_u8(flags);
    for value in [lower, upper].into_iter().filter_map(|bound| bound.value) {
        let number = value.to_i128().and_then(|value| i64::try_from(value).ok()).unwrap_or_default();
        match kind {
            RangeKind::Integer => put_field((number as i32).to_be_bytes(), out),
            RangeKind::BigInt => put_field(number.to_be_bytes(), out),
            RangeKind::Date => put_field(since_2000(i32::try_from(number).unwrap_or_default()).to_be_bytes(), out),
            RangeKind::Timestamp | RangeKind::TimestampTz => {
                let moment = match number {
                    infinity @ (i64::MIN | i64::MAX) => infinity,
                    moment => moment.saturating_sub(EPOCH_MICROSECONDS),
                };
                put_field(moment.to_be_bytes(), out);
            }
            RangeKind::Numeric => {
                let start = out.len();
                out.put_i32(0);
                let (precision, scale) = UNBOUNDED_NUMERIC;
                let shown = Decimal256Type::format_decimal(value, precision, scale);
                text::numeric_of_text(without_zeros(&shown).as_bytes(), out);
                put_length(start, 4, out);
            }
        }
    }
}
