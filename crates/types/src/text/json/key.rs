//! Bytes that sort as `jsonb` values do: null, strings, numbers, booleans, arrays by their length, objects by theirs.

use diligence_base::Result;

use super::{Json, parse};

/// The bytes of a value. Fails with 22P02 if the text is no JSON.
pub(crate) fn order_key(text: &str) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() + 8);
    match parse(text)? {
        // As in PostgreSQL, by itself an empty array is less than anything else.
        Json::Array(items) if items.is_empty() => out.push(0),
        json => write_key(&mut out, &json),
    }
    Ok(out)
}

/// Appends the bytes of a value.
pub(crate) fn write_key(out: &mut Vec<u8>, json: &Json) {
    match json {
        Json::Null => out.push(1),
        Json::Text(text) => {
            out.push(2);
            write_text(out, text);
        }
        Json::Number(number) => {
            out.push(3);
            write_number(out, number);
        }
        Json::Boolean(value) => out.push(4 + u8::from(*value)),
        Json::Array(items) => {
            out.push(6);
            out.extend((items.len() as u32).to_be_bytes());
            items.iter().for_each(|item| write_key(out, item));
        }
        Json::Object(members) => {
            out.push(7);
            out.extend((members.len() as u32).to_be_bytes());
            for (key, value) in members {
                write_text(out, key);
                write_key(out, value);
            }
        }
    }
}

/// A text has no zero byte.
fn write_text(out: &mut Vec<u8>, text: &str) {
    out.extend(text.as_bytes());
    out.push(0);
}

/// The sign, how many digits stand in front of the point, and the digits; of a negative number all bits turned.
fn write_number(out: &mut Vec<u8>, number: &str) {
    let (is_negative, digits) = match number.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, number),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = whole.bytes().chain(fraction.bytes()).collect::<Vec<_>>();
    let Some(first) = all.iter().position(|digit| *digit != b'0') else { return out.push(1) };
    let last = all.iter().rposition(|digit| *digit != b'0').unwrap_or(first);
    let before = whole.len() as i64 - first as i64;
    let mut bytes = ((before + i64::from(u32::MAX / 2)) as u32).to_be_bytes().to_vec();
    bytes.extend(&all[first..=last]);
    bytes.push(0);
    out.push(if is_negative { 0 } else { 2 });
    out.extend(bytes.into_iter().map(|byte| if is_negative { !byte } else { byte }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_as_values_do() {
        let sorted = [
            "[]",
            "null",
            "\"\"",
            "\"a\"",
            "\"ab\"",
            "\"b\"",
            "-10.5",
            "-10",
            "-2",
            "-0.5",
            "0",
            "0.02",
            "0.1",
            "1",
            "1.5",
            "2",
            "10",
            "false",
            "true",
            "[null]",
            "[1]",
            "[2]",
            "[1, 1]",
            "{}",
            "{\"a\": 1}",
            "{\"a\": 2}",
            "{\"b\": 0}",
            "{\"a\": 0, \"b\": 0}",
        ];
        for pair in sorted.windows(2) {
            assert!(order_key(pair[0]).unwrap() < order_key(pair[1]).unwrap(), "{pair:?}");
        }
        for (a, b) in [("1", "1.00"), ("-0", "0.0"), ("{\"a\":1,\"b\":2}", "{\"b\":2.0,\"a\":1}")] {
            assert_eq!(order_key(a).unwrap(), order_key(b).unwrap());
        }
    }
}
