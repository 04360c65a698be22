//! PostgreSQL's hash functions (`hashtext`, `hashint4`, …): numbers for values, which programs keep and lock by, so
//! they are PostgreSQL's to the bit. They are Bob Jenkins' of 2006 ("lookup3"), over bytes of a little-endian machine.

use super::calendar::is_infinite;
use super::catalog::Catalog;
use super::columns::{Timestamp, kernel};

/// Microseconds from 1970 to 2000, from which PostgreSQL counts.
const MICROSECONDS_TO_2000: i64 = 946_684_800_000_000;

/// Declares the functions.
pub(super) fn declare(catalog: &mut Catalog) {
    catalog.add_all(
        &["hashtext(text) -> integer", "hashname(name) -> integer"],
        kernel!(|text: &str| short(of_bytes(text.as_bytes(), 0))),
    );
    catalog.add_all(
        &["hashtextextended(text, bigint) -> bigint", "hashnameextended(name, bigint) -> bigint"],
        kernel!(|text: &str, seed: i64| long(of_bytes(text.as_bytes(), seed))),
    );
    catalog.add("hashbpchar(bpchar) -> integer", kernel!(|text: &str| short(of_bytes(without_blanks(text), 0))));
    catalog.add(
        "hashbpcharextended(bpchar, bigint) -> bigint",
        kernel!(|text: &str, seed: i64| long(of_bytes(without_blanks(text), seed))),
    );
    catalog.add("hashint2(smallint) -> integer", kernel!(|value: i16| short(of_word(i32::from(value), 0))));
    catalog.add("hashint4(integer) -> integer", kernel!(|value: i32| short(of_word(value, 0))));
    catalog.add("hashint8(bigint) -> integer", kernel!(|value: i64| short(of_word(folded(value), 0))));
    catalog.add(
        "hashint2extended(smallint, bigint) -> bigint",
        kernel!(|value: i16, seed: i64| long(of_word(i32::from(value), seed))),
    );
    catalog.add(
        "hashint4extended(integer, bigint) -> bigint",
        kernel!(|value: i32, seed: i64| long(of_word(value, seed))),
    );
    catalog.add(
        "hashint8extended(bigint, bigint) -> bigint",
        kernel!(|value: i64, seed: i64| long(of_word(folded(value), seed))),
    );
    catalog.add("hashfloat4(real) -> integer", kernel!(|value: f32| of_float(f64::from(value), None) as i32));
    catalog.add("hashfloat8(double precision) -> integer", kernel!(|value: f64| of_float(value, None) as i32));
    catalog.add(
        "hashfloat8extended(double precision, bigint) -> bigint",
        kernel!(|value: f64, seed: i64| of_float(value, Some(seed))),
    );
    catalog.add("uuid_hash(uuid) -> integer", kernel!(|text: &str| short(of_bytes(&bytes_of_uuid(text), 0))));
    catalog.add(
        "timestamp_hash(timestamp) -> integer",
        kernel!(|moment: Timestamp| {
            let since = if is_infinite(moment.0) { moment.0 } else { moment.0.saturating_sub(MICROSECONDS_TO_2000) };
            short(of_word(folded(since), 0))
        }),
    );
}

/// The three words that are stirred.
#[derive(Clone, Copy)]
struct Words {
    a: u32,
    b: u32,
    c: u32,
}

impl Words {
    /// For so many bytes.
    fn new(length: usize, seed: i64) -> Self {
        let first = 0x9e37_79b9_u32.wrapping_add(length as u32).wrapping_add(3_923_095);
        let words = Self { a: first, b: first, c: first };
        if seed == 0 {
            return words;
        }
        let seed = seed.cast_unsigned();
        Self { a: first.wrapping_add((seed >> 32) as u32), b: first.wrapping_add(seed as u32), c: first }.mixed()
    }

    fn mixed(self) -> Self {
        let Self { mut a, mut b, mut c } = self;
        for [first, second, third] in [[4, 6, 8], [16, 19, 4]] {
            a = a.wrapping_sub(c) ^ c.rotate_left(first);
            c = c.wrapping_add(b);
            b = b.wrapping_sub(a) ^ a.rotate_left(second);
            a = a.wrapping_add(c);
            c = c.wrapping_sub(b) ^ b.rotate_left(third);
            b = b.wrapping_add(a);
        }
        Self { a, b, c }
    }

    fn last(self) -> Self {
        let Self { mut a, mut b, mut c } = self;
        c = (c ^ b).wrapping_sub(b.rotate_left(14));
        a = (a ^ c).wrapping_sub(c.rotate_left(11));
        b = (b ^ a).wrapping_sub(a.rotate_left(25));
        c = (c ^ b).wrapping_sub(b.rotate_left(16));
        a = (a ^ c).wrapping_sub(c.rotate_left(4));
        b = (b ^ a).wrapping_sub(a.rotate_left(14));
        c = (c ^ b).wrapping_sub(b.rotate_left(24));
        Self { a, b, c }
    }

    /// With up to twelve bytes; of fewer, the lowest byte of the last word is left out.
    fn with(self, bytes: &[u8]) -> Self {
        let word = |from: usize| {
            let part = bytes.get(from..).unwrap_or_default().iter().take(4);
            part.enumerate().fold(0_u32, |word, (place, byte)| word | u32::from(*byte) << (8 * place))
        };
        let last = if bytes.len() < 12 { word(8) << 8 } else { word(8) };
        Self { a: self.a.wrapping_add(word(0)), b: self.b.wrapping_add(word(4)), c: self.c.wrapping_add(last) }
    }
}

/// The words of bytes.
fn of_bytes(bytes: &[u8], seed: i64) -> Words {
    let whole = bytes.chunks_exact(12);
    let rest = whole.remainder();
    whole.fold(Words::new(bytes.len(), seed), |words, part| words.with(part).mixed()).with(rest).last()
}

/// The words of a number of 32 bits.
fn of_word(value: i32, seed: i64) -> Words {
    let words = Words::new(4, seed);
    Words { a: words.a.wrapping_add(value.cast_unsigned()), ..words }.last()
}

/// A number of 64 bits as one of 32, which is the number itself if it fits.
fn folded(value: i64) -> i32 {
    let (low, high) = (value as i32, (value >> 32) as i32);
    low ^ if value >= 0 { high } else { !high }
}

/// The hash of a float: zeros are equal, and so are all NaNs.
fn of_float(value: f64, seed: Option<i64>) -> i64 {
    if value == 0.0 {
        return seed.unwrap_or(0);
    }
    let value = if value.is_nan() { f64::from_bits(0x7ff8_0000_0000_0000) } else { value };
    let words = of_bytes(&value.to_le_bytes(), seed.unwrap_or(0));
    if seed.is_some() { long(words) } else { i64::from(short(words)) }
}

fn short(words: Words) -> i32 {
    words.c.cast_signed()
}

fn long(words: Words) -> i64 {
    (u64::from(words.b) << 32 | u64::from(words.c)).cast_signed()
}

fn without_blanks(text: &str) -> &[u8] {
    text.trim_end_matches(' ').as_bytes()
}

/// The sixteen bytes of a UUID's text.
fn bytes_of_uuid(text: &str) -> Vec<u8> {
    let digits = text.chars().filter_map(|letter| letter.to_digit(16)).collect::<Vec<_>>();
    digits.chunks_exact(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_postgresqls() {
        let texts = [
            ("", -1_477_818_771, 6_158_832_220_375_811_857),
            ("hello world", 1_021_725_223, -3_513_769_554_600_704_881),
            ("abcdefghijkl", -1_586_087_212, 6_421_059_121_120_153_082),
            ("abcdefghijklmnopqrstuvwxyz0123", 89_653_194, -5_013_731_098_794_205_965),
        ];
        for (text, expected, seeded) in texts {
            assert_eq!(short(of_bytes(text.as_bytes(), 0)), expected, "{text}");
            assert_eq!(long(of_bytes(text.as_bytes(), 42)), seeded, "{text}");
        }
        assert_eq!([1, -1, 7].map(|value| short(of_word(value, 0))), [-1_905_060_026, 385_747_274, -978_793_473]);
        assert_eq!(short(of_word(folded(-5_000_000_000), 0)), 954_517_114);
        assert_eq!(long(of_word(folded(7), 9)), -997_973_577_676_408_138);
        assert_eq!([1.5, -0.0, f64::NAN].map(|value| of_float(value, None)), [630_860_146, 0, -1_275_764_840]);
        assert_eq!(of_float(1.5, Some(3)), -4_770_388_998_205_660_040);
    }
}
