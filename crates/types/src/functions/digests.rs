//! Digests and what is made of them, and how words sound: `digest`, `hmac` (PostgreSQL's pgcrypto), UUIDs of names
//! (uuid-ossp), `soundex` and `levenshtein` with costs (fuzzystrmatch).

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray, StringViewArray};
use arrow::datatypes::{DataType, Field};
use datafusion_common::ScalarValue;
use datafusion_common::config::ConfigOptions;
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs};
use datafusion_functions::crypto;
use diligence_base::{Error, Result};

use super::bytes::sha1;
use super::catalog::Catalog;
use super::columns::{Columns, kernel};
use super::errors::invalid_argument;
use super::{Body, Call};

/// Bytes of each row; `None` for NULL.
type ByteRows = Vec<Option<Vec<u8>>>;

/// The algorithms, with the bytes of a block.
const ALGORITHMS: [(&str, usize); 9] = [
    ("md5", 64),
    ("sha1", 64),
    ("sha224", 64),
    ("sha256", 64),
    ("sha384", 128),
    ("sha512", 128),
    ("blake2b", 128),
    ("blake2s", 64),
    ("blake3", 64),
];

/// Declares the functions.
pub(super) fn declare(catalog: &mut Catalog) {
    catalog.add_all(&["digest(text, text) -> bytea", "digest(bytea, text) -> bytea"], Body::Kernel(digest));
    catalog.add_all(&["hmac(text, text, text) -> bytea", "hmac(bytea, bytea, text) -> bytea"], Body::Kernel(hmac));
    catalog.add(
        "uuid_generate_v5(uuid, text) -> uuid",
        kernel!(|space: &str, name: &str| uuid_of(&sha1(&named(space, name)), 5)),
    );
    catalog.add(
        "uuid_generate_v3(uuid, text) -> uuid",
        kernel!(try |space: &str, name: &str| {
            let digest = hashed("md5", &[Some(named(space, name))])?.pop().flatten();
            Ok(digest.map(|digest| uuid_of(&digest, 3)))
        }),
    );
    catalog.add("soundex(text) -> text", kernel!(|text: &str| soundex(text)));
    catalog.add(
        "difference(text, text) -> integer",
        kernel!(|one: &str, other: &str| {
            let (one, other) = (soundex(one), soundex(other));
            one.bytes().zip(other.bytes()).filter(|(one, other)| one == other).count() as i32
        }),
    );
    catalog.add(
        "levenshtein(text, text, integer, integer, integer) -> integer",
        kernel!(|from: &str, to: &str, insert: i32, delete: i32, substitute: i32| {
            distance(from, to, [insert, delete, substitute])
        }),
    );
    catalog.add(
        "levenshtein_less_equal(text, text, integer) -> integer",
        kernel!(|from: &str, to: &str, most: i32| at_most(distance(from, to, [1; 3]), most)),
    );
    catalog.add(
        "levenshtein_less_equal(text, text, integer, integer, integer, integer) -> integer",
        kernel!(|from: &str, to: &str, insert: i32, delete: i32, substitute: i32, most: i32| {
            at_most(distance(from, to, [insert, delete, substitute]), most)
        }),
    );
}

fn digest(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let columns = Columns::new(arguments, call);
    let [data, algorithms] = columns.arrays() else { return Err(Error::bug("a digest of two arguments")) };
    let (data, algorithms) = (bytes_of(data, columns.rows())?, texts_of(algorithms, columns.rows())?);
    let digests = by_algorithm(&algorithms, &[data], |algorithm, _, [data]| hashed(algorithm, data))?;
    columns.result(Arc::new(digests.into_iter().collect::<BinaryViewArray>()))
}

fn hmac(arguments: &[ColumnarValue], call: &Call<'_>) -> Result<ColumnarValue> {
    let columns = Columns::new(arguments, call);
    let [data, keys, algorithms] = columns.arrays() else { return Err(Error::bug("an hmac of three arguments")) };
    let (data, keys) = (bytes_of(data, columns.rows())?, bytes_of(keys, columns.rows())?);
    let algorithms = texts_of(algorithms, columns.rows())?;
    let digests = by_algorithm(&algorithms, &[data, keys], authenticated)?;
    columns.result(Arc::new(digests.into_iter().collect::<BinaryViewArray>()))
}

/// The codes of RFC 2104 for data and keys.
fn authenticated(algorithm: &str, block: usize, [data, keys]: &[ByteRows; 2]) -> Result<ByteRows> {
    let short = hashed(algorithm, keys)?;
    let padded = keys.iter().zip(&short).map(|(key, short)| {
        let (key, short) = (key.as_ref()?, short.as_ref()?);
        let mut key = if key.len() > block { short.clone() } else { key.clone() };
        key.resize(block, 0);
        Some(key)
    });
    let padded = padded.collect::<ByteRows>();
    let under = |pad: u8, texts: &ByteRows| {
        let rows = padded.iter().zip(texts).map(|(key, text)| {
            let key = key.as_ref()?.iter().map(|byte| byte ^ pad);
            Some(key.chain(text.as_ref()?.iter().copied()).collect())
        });
        hashed(algorithm, &rows.collect::<ByteRows>())
    };
    under(0x5c, &under(0x36, data)?)
}

/// What a function makes of the rows of each algorithm. Fails with 22023 if there is no algorithm of a name.
fn by_algorithm<const COLUMNS: usize>(
    algorithms: &[Option<String>],
    columns: &[ByteRows; COLUMNS],
    of: impl Fn(&str, usize, &[ByteRows; COLUMNS]) -> Result<ByteRows>,
) -> Result<ByteRows> {
    let mut made: ByteRows = vec![None; algorithms.len()];
    for name in algorithms.iter().flatten().collect::<BTreeSet<_>>() {
        let lower = name.to_lowercase();
        let Some((algorithm, block)) = ALGORITHMS.iter().find(|(known, _)| *known == lower) else {
            return Err(invalid_argument(format!("Cannot use \"{name}\": No such hash algorithm")));
        };
        let is_own = |row: usize| algorithms[row].as_ref() == Some(name);
        let own = columns.each_ref().map(|rows| {
            let rows = rows.iter().enumerate();
            rows.map(|(row, bytes)| bytes.clone().filter(|_| is_own(row))).collect::<ByteRows>()
        });
        for (row, digest) in of(algorithm, *block, &own)?.into_iter().enumerate().filter(|(row, _)| is_own(*row)) {
            made[row] = digest;
        }
    }
    Ok(made)
}

/// The digests of rows. Fails with kind `Bug` if there is no such algorithm.
fn hashed(algorithm: &str, rows: &[Option<Vec<u8>>]) -> Result<ByteRows> {
    if algorithm == "sha1" {
        return Ok(rows.iter().map(|bytes| bytes.as_ref().map(|bytes| sha1(bytes).to_vec())).collect());
    }
    let foreign = |error: datafusion_common::DataFusionError| Error::bug(error.to_string());
    let data: ArrayRef = Arc::new(rows.iter().map(Option::as_deref).collect::<BinaryViewArray>());
    let name = ScalarValue::Utf8(Some(algorithm.to_owned()));
    let arguments = ScalarFunctionArgs {
        arg_fields: vec![
            Arc::new(Field::new("data", data.data_type().clone(), true)),
            Arc::new(Field::new("algorithm", name.data_type(), true)),
        ],
        args: vec![ColumnarValue::Array(data), ColumnarValue::Scalar(name)],
        number_rows: rows.len(),
        return_field: Arc::new(Field::new("digest", DataType::Binary, true)),
        config_options: Arc::new(ConfigOptions::default()),
    };
    let digests = crypto::digest().invoke_with_args(arguments).map_err(foreign)?;
    let digests = digests.into_array(rows.len()).map_err(foreign)?;
    let digests = digests.as_binary_opt::<i32>().ok_or_else(|| Error::bug("digests are bytes"))?;
    Ok(digests.iter().map(|digest| digest.map(<[u8]>::to_vec)).collect())
}

/// The bytes of a column of bytes or texts.
fn bytes_of(array: &ArrayRef, rows: usize) -> Result<ByteRows> {
    let step = usize::from(array.len() != 1);
    if let Some(bytes) = array.as_binary_view_opt() {
        let value = |row: usize| bytes.is_valid(row * step).then(|| bytes.value(row * step).to_vec());
        return Ok((0..rows).map(value).collect());
    }
    let texts = texts_of(array, rows)?;
    Ok(texts.into_iter().map(|text| text.map(String::into_bytes)).collect())
}

fn texts_of(array: &ArrayRef, rows: usize) -> Result<Vec<Option<String>>> {
    let step = usize::from(array.len() != 1);
    let texts: &StringViewArray = array.as_string_view_opt().ok_or_else(|| Error::bug("neither bytes nor texts"))?;
    Ok((0..rows).map(|row| texts.is_valid(row * step).then(|| texts.value(row * step).to_owned())).collect())
}

/// The bytes of a name within a namespace.
fn named(space: &str, name: &str) -> Vec<u8> {
    let digits = space.chars().filter_map(|letter| letter.to_digit(16)).collect::<Vec<_>>();
    let space = digits.chunks_exact(2).map(|pair| (pair[0] * 16 + pair[1]) as u8);
    space.chain(name.bytes()).collect()
}

/// The UUID of a version that the first bytes of a digest are.
fn uuid_of(digest: &[u8], version: u8) -> String {
    let mut bytes = digest[..16].to_vec();
    bytes[6] = bytes[6] & 0x0f | version << 4;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

/// The digit of a letter of ASCII; of another sign itself.
fn soundex_code(sign: u8) -> u8 {
    const CODES: &[u8; 26] = b"01230120022455012623010202";
    let upper = sign.to_ascii_uppercase();
    if upper.is_ascii_uppercase() { CODES[usize::from(upper - b'A')] } else { sign }
}

/// How an English word sounds: a letter and three digits; nothing without a letter.
fn soundex(text: &str) -> String {
    let bytes = text.as_bytes();
    let Some(first) = bytes.iter().position(u8::is_ascii_alphabetic) else { return String::new() };
    let mut code = vec![bytes[first].to_ascii_uppercase()];
    for pair in bytes[first..].windows(2) {
        let (before, own) = (soundex_code(pair[0]), soundex_code(pair[1]));
        if code.len() < 4 && pair[1].is_ascii_alphabetic() && own != before && own != b'0' {
            code.push(own);
        }
    }
    code.resize(4, b'0');
    code.into_iter().map(char::from).collect()
}

/// The least costs of insertions, deletions and substitutions that make one text of another.
fn distance(from: &str, to: &str, [insert, delete, substitute]: [i32; 3]) -> i32 {
    let to = to.chars().collect::<Vec<_>>();
    let mut before = (0..=to.len()).map(|count| insert.saturating_mul(count as i32)).collect::<Vec<_>>();
    for letter in from.chars() {
        let mut own = vec![before[0].saturating_add(delete)];
        for (place, other) in to.iter().enumerate() {
            let changed = if *other == letter { 0 } else { substitute };
            let ways = [
                before[place].saturating_add(changed),
                before[place + 1].saturating_add(delete),
                own[place].saturating_add(insert),
            ];
            own.push(ways.into_iter().min().unwrap_or(0));
        }
        before = own;
    }
    before[to.len()]
}

/// A distance, or the next one to the most that is asked for.
fn at_most(distance: i32, most: i32) -> i32 {
    if most >= 0 { distance.min(most.saturating_add(1)) } else { distance }
}
