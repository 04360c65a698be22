//! PostgreSQL's text and binary forms of numbers, dates and intervals, written straight into a buffer.
//!
//! A result has millions of values: nothing here allocates for one, but for decimals of more than 38 digits.

use bytes::{BufMut, BytesMut};
use diligence_db::Zone;

/// `00` to `99`.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    pairs
};

/// A whole number.
pub(super) fn integer(value: impl itoa::Integer, out: &mut BytesMut) {
    out.put_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// A single-precision number.
pub(super) fn float32(value: f32, out: &mut BytesMut) {
    if value.is_finite() {
        float(ryu::Buffer::new().format_finite(value), 6, out);
    } else {
        not_finite(f64::from(value), out);
    }
}

/// A double-precision number.
pub(super) fn float64(value: f64, out: &mut BytesMut) {
    if value.is_finite() {
        float(ryu::Buffer::new().format_finite(value), 15, out);
    } else {
        not_finite(value, out);
    }
}

fn not_finite(value: f64, out: &mut BytesMut) {
    out.put_slice(if value.is_nan() {
        b"NaN"
    } else if value > 0.0 {
        b"Infinity"
    } else {
        b"-Infinity"
    });
}

/// The shortest text that reads as the same number, with an exponent where PostgreSQL has one: below 10⁻⁴, and from
/// 10^`digits` on. `shortest` is any shortest text: `1.25e-7`, `0.1`, `100.0`.
fn float(shortest: &str, digits: i32, out: &mut BytesMut) {
    let shortest = match shortest.strip_prefix('-') {
        Some(rest) => {
            out.put_u8(b'-');
            rest
        }
        None => shortest,
    };
    let (mantissa, exponent) = match shortest.split_once('e') {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().unwrap_or(0)),
        None => (shortest, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    // All digits without a point: 17 at most are worth something, 21 with zeros.
    let mut all = [0; 32];
    let count = whole.len() + fraction.len();
    all[..whole.len()].copy_from_slice(whole.as_bytes());
    all[whole.len()..count].copy_from_slice(fraction.as_bytes());
    let leading = all[..count].iter().take_while(|digit| **digit == b'0').count();
    let trailing = all[leading..count].iter().rev().take_while(|digit| **digit == b'0').count();
    let significant = &all[leading..count - trailing];
    if significant.is_empty() {
        return out.put_u8(b'0');
    }
    let exponent = exponent + whole.len() as i32 - 1 - leading as i32;
    if exponent < -4 || exponent >= digits {
        out.put_u8(significant[0]);
        if significant.len() > 1 {
            out.put_u8(b'.');
            out.put_slice(&significant[1..]);
        }
        out.put_slice(if exponent < 0 { b"e-" } else { b"e+" });
        if exponent.abs() < 10 {
            out.put_u8(b'0');
        }
        return integer(exponent.abs(), out);
    }
    if exponent < 0 {
        out.put_slice(&b"0.0000"[..2 + (-exponent - 1) as usize]);
        return out.put_slice(significant);
    }
    let whole = exponent as usize + 1;
    match significant.split_at_checked(whole) {
        Some((whole, [])) => out.put_slice(whole),
        Some((whole, fraction)) => {
            out.put_slice(whole);
            out.put_u8(b'.');
            out.put_slice(fraction);
        }
        None => {
            out.put_slice(significant);
            out.put_bytes(b'0', whole - significant.len());
        }
    }
}

/// A decimal of so many digits after the point.
pub(super) fn decimal(value: i128, scale: i8, out: &mut BytesMut) {
    let mut buffer = itoa::Buffer::new();
    // Most fit, and are written in half the time then.
    let digits = match i64::try_from(value) {
        Ok(narrow) => buffer.format(narrow),
        Err(_) => buffer.format(value),
    };
    decimal_digits(digits, scale, out);
}

/// A decimal from its digits.
fn decimal_digits(digits: &str, scale: i8, out: &mut BytesMut) {
    if scale <= 0 {
        out.put_slice(digits.as_bytes());
        let zeros = if digits == "0" { 0 } else { usize::from(scale.unsigned_abs()) };
        return out.put_bytes(b'0', zeros);
    }
    let scale = usize::from(scale.unsigned_abs());
    let digits = match digits.strip_prefix('-') {
        Some(rest) => {
            out.put_u8(b'-');
            rest.as_bytes()
        }
        None => digits.as_bytes(),
    };
    match digits.len().checked_sub(scale) {
        Some(whole @ 1..) => {
            out.put_slice(&digits[..whole]);
            out.put_u8(b'.');
            out.put_slice(&digits[whole..]);
        }
        _ => {
            out.put_slice(b"0.");
            out.put_bytes(b'0', scale - digits.len());
            out.put_slice(digits);
        }
    }
}

/// PostgreSQL's binary numeric of a decimal: digits in base 10,000.
pub(super) fn numeric(value: i128, scale: i8, out: &mut BytesMut) {
    // Groups of four digits begin at the point: what is behind it is filled up with zeros.
    let fill = (4 - scale.rem_euclid(4)) % 4;
    let magnitude = u64::try_from(value.unsigned_abs()).ok();
    let magnitude = magnitude.and_then(|magnitude| magnitude.checked_mul(10u64.pow(u32::from(fill.unsigned_abs()))));
    let (Some(mut rest), 0..) = (magnitude, scale) else {
        let mut text = BytesMut::new();
        decimal(value, scale, &mut text);
        return numeric_of_text(&text, out);
    };
    let behind = i16::from((scale + 3) / 4);
    let mut weight = -behind - 1;
    // From the last on: a u64 has five groups.
    let (mut groups, mut first) = ([0i16; 5], 5);
    while rest > 0 {
        first -= 1;
        weight += 1;
        groups[first] = (rest % 10_000) as i16;
        rest /= 10_000;
    }
    let trailing = groups[first..].iter().rev().take_while(|group| **group == 0).count();
    numeric_groups(&groups[first..groups.len() - trailing], weight, value < 0, i16::from(scale), out);
}

/// PostgreSQL's binary numeric from a decimal's text.
pub(super) fn numeric_of_text(text: &[u8], out: &mut BytesMut) {
    let negative = text.first() == Some(&b'-');
    let text = if negative { &text[1..] } else { text };
    let point = text.iter().position(|byte| *byte == b'.');
    let (whole, fraction) = match point {
        Some(point) => (&text[..point], &text[point + 1..]),
        None => (text, &text[..0]),
    };
    let digit = |byte: u8| i16::from(byte - b'0');
    let mut groups = Vec::with_capacity(whole.len() / 4 + fraction.len() / 4 + 2);
    let head = whole.len() % 4;
    if head > 0 {
        groups.push(whole[..head].iter().fold(0, |value, byte| value * 10 + digit(*byte)));
    }
    for chunk in whole[head..].chunks(4) {
        groups.push(chunk.iter().fold(0, |value, byte| value * 10 + digit(*byte)));
    }
    let weight = groups.len() as i16 - 1;
    for chunk in fraction.chunks(4) {
        let value = chunk.iter().fold(0, |value, byte| value * 10 + digit(*byte));
        groups.push(value * 10i16.pow(4 - chunk.len() as u32));
    }
    let leading = groups.iter().take_while(|group| **group == 0).count();
    while groups.last() == Some(&0) {
        groups.pop();
    }
    let groups = groups.get(leading..).unwrap_or_default();
    numeric_groups(groups, weight - leading as i16, negative, fraction.len() as i16, out);
}

/// The groups have no zeros at either end; the first one counts `weight` powers of 10,000.
fn numeric_groups(groups: &[i16], weight: i16, negative: bool, scale: i16, out: &mut BytesMut) {
    out.put_i16(groups.len() as i16);
    out.put_i16(if groups.is_empty() { 0 } else { weight });
    out.put_u16(if negative && !groups.is_empty() { 0x4000 } else { 0 });
    out.put_i16(scale);
    groups.iter().for_each(|group| out.put_i16(*group));
}

/// A date by days since 1970; the largest and the smallest that a column holds are the infinities.
pub(super) fn date(days: i64, out: &mut BytesMut) {
    match i32::try_from(days) {
        Ok(i32::MAX) => return out.put_slice(b"infinity"),
        Ok(i32::MIN) => return out.put_slice(b"-infinity"),
        _ => {}
    }
    let era = date_of_era(days, out);
    out.put_slice(era);
}

/// Writes a date, and gives what has to follow for years before Christ.
fn date_of_era(days: i64, out: &mut BytesMut) -> &'static [u8] {
    // The civil calendar from days: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", civil_from_days.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (shown, suffix): (i64, &[u8]) = if year <= 0 { (1 - year, b" BC") } else { (year, b"") };
    match usize::try_from(shown) {
        Ok(shown @ 0..10_000) => {
            out.put_slice(&PAIRS[shown / 100]);
            out.put_slice(&PAIRS[shown % 100]);
        }
        _ => integer(shown, out),
    }
    let [month, day] = [month, day].map(|part| PAIRS[part.unsigned_abs() as usize % 100]);
    out.put_slice(&[b'-', month[0], month[1], b'-', day[0], day[1]]);
    suffix
}

/// A time of the day, or longer.
pub(super) fn time(microseconds: i64, out: &mut BytesMut) {
    let seconds = microseconds.div_euclid(1_000_000);
    match usize::try_from(seconds / 3600) {
        Ok(hours @ 0..100) => out.put_slice(&PAIRS[hours]),
        _ => integer(seconds / 3600, out),
    }
    let [minute, second] = [seconds / 60 % 60, seconds % 60].map(|part| PAIRS[part.unsigned_abs() as usize]);
    out.put_slice(&[b':', minute[0], minute[1], b':', second[0], second[1]]);
    let fraction = microseconds.rem_euclid(1_000_000) as usize;
    if fraction > 0 {
        let mut digits = [b'.'; 7];
        for (index, pair) in [fraction / 10_000, fraction / 100 % 100, fraction % 100].into_iter().enumerate() {
            digits[1 + 2 * index..3 + 2 * index].copy_from_slice(&PAIRS[pair]);
        }
        let zeros = digits.iter().rev().take_while(|digit| **digit == b'0').count();
        out.put_slice(&digits[..7 - zeros]);
    }
}

/// A moment by microseconds since 1970; the largest and the smallest are the infinities. With a zone it is shown there,
/// with its distance from Greenwich.
pub(super) fn timestamp(microseconds: i64, zone: Option<&Zone>, out: &mut BytesMut) {
    match microseconds {
        i64::MAX => return out.put_slice(b"infinity"),
        i64::MIN => return out.put_slice(b"-infinity"),
        _ => {}
    }
    let offset = zone.map(|zone| zone.offset_at(microseconds));
    let local = microseconds.saturating_add(i64::from(offset.unwrap_or(0)) * 1_000_000);
    let day = 86_400_000_000;
    let era = date_of_era(local.div_euclid(day), out);
    out.put_u8(b' ');
    time(local.rem_euclid(day), out);
    if let Some(offset) = offset {
        out.put_u8(if offset < 0 { b'-' } else { b'+' });
        let seconds = offset.unsigned_abs() as usize;
        let [hours, minutes, seconds] = [seconds / 3600, seconds / 60 % 60, seconds % 60];
        out.put_slice(&PAIRS[hours]);
        for part in [minutes, seconds].iter().take(if seconds > 0 { 2 } else { usize::from(minutes > 0) }) {
            out.put_u8(b':');
            out.put_slice(&PAIRS[*part]);
        }
    }
    out.put_slice(era);
}

/// `1 year 2 mons -3 days 04:05:06.7`, as PostgreSQL's style `postgres`.
pub(super) fn interval(months: i32, days: i32, microseconds: i64, out: &mut BytesMut) {
    let start = out.len();
    let mut is_before = false;
    let parts: [(i32, &[u8]); 3] = [(months / 12, b" year"), (months % 12, b" mon"), (days, b" day")];
    for (count, unit) in parts.into_iter().filter(|(count, _)| *count != 0) {
        if out.len() > start {
            out.put_u8(b' ');
        }
        // A positive part after a negative one has its sign.
        if is_before && count > 0 {
            out.put_u8(b'+');
        }
        is_before = count < 0;
        integer(count, out);
        out.put_slice(unit);
        if count != 1 {
            out.put_u8(b's');
        }
    }
    let has_date = out.len() > start;
    if microseconds != 0 || !has_date {
        if has_date {
            out.put_u8(b' ');
        }
        match microseconds < 0 {
            true => out.put_u8(b'-'),
            false if is_before => out.put_u8(b'+'),
            false => {}
        }
        time(microseconds.saturating_abs(), out);
    }
}

/// Bytes as `\x`, and two letters each.
pub(super) fn bytea(bytes: &[u8], out: &mut BytesMut) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.put_slice(b"\\x");
    out.reserve(2 * bytes.len());
    for byte in bytes {
        out.put_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{Date32Type, Decimal128Type, DecimalType, TimestampMicrosecondType};
    use arrow::temporal_conversions::{as_date, as_datetime};
    use diligence_base::seams::Random;

    use super::*;

    fn text(write: impl FnOnce(&mut BytesMut)) -> String {
        let mut out = BytesMut::new();
        write(&mut out);
        String::from_utf8(out.to_vec()).unwrap()
    }

    fn bits(random: &mut Random) -> u64 {
        (random.below(1 << 32) << 32 | random.below(1 << 32)) as u64
    }

    /// Values of every size.
    fn sizes(random: &mut Random) -> i128 {
        let value = i128::from(bits(random)) << 64 | i128::from(bits(random));
        value >> random.below(127)
    }

    #[test]
    fn doubles_are_written_as_postgres_does() {
        let values = [0.1, 1e15, 123456789012345.0, 1e-5, 0.0001, 1.5e300, -0.0, f64::NAN, f64::INFINITY, 100.0];
        let expected =
            ["0.1", "1e+15", "123456789012345", "1e-05", "0.0001", "1.5e+300", "-0", "NaN", "Infinity", "100"];
        assert_eq!(values.map(|value| text(|out| float64(value, out))), expected);
        assert_eq!(text(|out| float32(1e6, out)) + &text(|out| float32(0.1, out)), "1e+060.1");
    }

    #[test]
    fn floats_are_read_as_what_they_were_and_have_no_needless_digit() {
        let mut random = Random::new(1);
        for _ in 0..20_000 {
            let value = f64::from_bits(bits(&mut random));
            let near = random.below(1 << 40) as f64 / 10f64.powi(random.below(12) as i32);
            for value in [value, near, near.trunc()].into_iter().filter(|value| value.is_finite()) {
                let shown = text(|out| float64(value, out));
                assert_eq!(shown.parse::<f64>().unwrap().to_bits(), value.to_bits(), "{shown}");
                let digits = |text: &str| {
                    let mantissa = text.split('e').next().unwrap_or_default().replace(['-', '.'], "");
                    mantissa.trim_start_matches('0').trim_end_matches('0').len()
                };
                assert_eq!(digits(&shown), digits(&format!("{value:e}")));
                let narrow = value as f32;
                if narrow.is_finite() {
                    assert_eq!(text(|out| float32(narrow, out)).parse::<f32>().unwrap().to_bits(), narrow.to_bits());
                }
            }
        }
    }

    #[test]
    fn decimals_are_written_as_arrow_shows_them_and_pack_into_the_same_groups_as_their_text() {
        let mut random = Random::new(2);
        for round in 0..20_000 {
            let value = if round % 7 == 0 { i128::from(round / 7) } else { sizes(&mut random) };
            let value = value % 10i128.pow(38);
            let scale = random.below(39) as i8;
            let shown = text(|out| decimal(value, scale, out));
            assert_eq!(shown, Decimal128Type::format_decimal(value, 38, scale));
            let (mut direct, mut by_text) = (BytesMut::new(), BytesMut::new());
            numeric(value, scale, &mut direct);
            numeric_of_text(shown.as_bytes(), &mut by_text);
            assert_eq!(direct, by_text, "{shown}");
        }
        assert_eq!(text(|out| decimal(-12, -3, out)) + &text(|out| decimal(0, -3, out)), "-120000");
    }

    #[test]
    fn decimals_pack_into_four_digits() {
        let packed = |value: i128, scale: i8| {
            let mut out = BytesMut::new();
            numeric(value, scale, &mut out);
            out.chunks(2).map(|two| i16::from_be_bytes([two[0], two[1]])).collect::<Vec<_>>()
        };
        assert_eq!(packed(12_345_678, 3), [3, 1, 0, 3, 1, 2345, 6780]);
        assert_eq!(packed(-5, 4), [1, -1, 0x4000, 4, 5]);
        assert_eq!(packed(-5, 9), [1, -3, 0x4000, 9, 5000]);
        assert_eq!(packed(0, 2), [0, 0, 0, 2]);
        assert_eq!(packed(10_000, 0), [1, 1, 0, 0, 1]);
        assert_eq!(packed(12, -3), [2, 1, 0, 0, 1, 2000]);
    }

    #[test]
    fn dates_and_times_are_written_as_arrow_shows_them() {
        let mut random = Random::new(3);
        for _ in 0..20_000 {
            let days = random.below(2_900_000) as i32;
            assert_eq!(text(|out| date(days.into(), out)), as_date::<Date32Type>(days.into()).unwrap().to_string());
            let part = [1, 1000, 1_000_000][random.below(3)];
            let moment =
                (i64::from(days - 700_000) * 86_400_000_000 + random.below(86_400_000_000) as i64) / part * part;
            let shown = as_datetime::<TimestampMicrosecondType>(moment).unwrap();
            let fraction = shown.format("%.6f").to_string();
            let shown =
                shown.format("%Y-%m-%d %H:%M:%S").to_string() + fraction.trim_end_matches('0').trim_end_matches('.');
            assert_eq!(text(|out| timestamp(moment, None, out)), shown);
        }
    }

    #[test]
    fn dates_times_and_intervals_are_written_as_postgres_does() {
        assert_eq!(
            [0, -1, 11_016, -719_529, 2_932_897].map(|days| text(|out| date(days, out))),
            ["1970-01-01", "1969-12-31", "2000-02-29", "0002-12-31 BC", "10000-01-01"]
        );
        assert_eq!(
            [1_500_000, -1, 10].map(|moment| text(|out| timestamp(moment, Some(&Zone::UTC), out))),
            ["1970-01-01 00:00:01.5+00", "1969-12-31 23:59:59.999999+00", "1970-01-01 00:00:00.00001+00"]
        );
        let in_zone = |zone: &str, moment: i64| {
            let zone = Zone::of_setting(zone).unwrap();
            text(|out| timestamp(moment, Some(&zone), out))
        };
        let summer = 1_720_000_000_000_000;
        assert_eq!(in_zone("Europe/Berlin", 0), "1970-01-01 01:00:00+01");
        assert_eq!(in_zone("Europe/Berlin", summer), "2024-07-03 11:46:40+02");
        assert_eq!(in_zone("Asia/Kolkata", summer), "2024-07-03 15:16:40+05:30");
        assert_eq!(in_zone("America/New_York", 0), "1969-12-31 19:00:00-05");
        assert_eq!(["UTC", "Asia/Tokyo"].map(|zone| in_zone(zone, i64::MAX)), ["infinity", "infinity"]);
        let intervals = [(14, -3, 3_600_000_000), (0, 0, 0), (0, 1, -1_500_000), (-1, 0, 360_000_000_000)];
        assert_eq!(
            intervals.map(|(months, days, microseconds)| text(|out| interval(months, days, microseconds, out))),
            ["1 year 2 mons -3 days +01:00:00", "00:00:00", "1 day -00:00:01.5", "-1 mons +100:00:00"]
        );
    }

    #[test]
    fn bytes_are_pairs_of_letters() {
        assert_eq!(text(|out| bytea(&[0, 255, 16], out)), "\\x00ff10");
    }
}
