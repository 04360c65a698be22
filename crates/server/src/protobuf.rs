//! OTLP's messages as Protocol Buffers, from the same messages as JSON: what each field is called there, its number,
//! and how its values are written.
//!
//! The numbers are those of opentelemetry-proto 1. Fields that are not in these tables are not written.

use serde_json::Value;

/// How the values of a field are written.
pub(crate) enum Kind {
    Text,
    /// Hexadecimal digits in JSON.
    Bytes,
    /// A small number, or a truth value.
    Varint,
    /// A whole number of 64 bits, which is a text in JSON.
    Fixed,
    Double,
    /// Several of these, one behind the other.
    PackedFixed,
    PackedDouble,
    Message(&'static [Field]),
}

/// A name in JSON, the number, and the kind.
pub(crate) type Field = (&'static str, u32, Kind);

/// A message about statements.
pub(crate) static TRACES: [Field; 1] = [("resourceSpans", 1, Kind::Message(&RESOURCE_SPANS))];
/// A message about what is measured.
pub(crate) static METRICS: [Field; 1] = [("resourceMetrics", 1, Kind::Message(&RESOURCE_METRICS))];

static RESOURCE_SPANS: [Field; 2] =
    [("resource", 1, Kind::Message(&RESOURCE)), ("scopeSpans", 2, Kind::Message(&SCOPE_SPANS))];
static SCOPE_SPANS: [Field; 2] = [("scope", 1, Kind::Message(&SCOPE)), ("spans", 2, Kind::Message(&SPAN))];
static RESOURCE_METRICS: [Field; 2] =
    [("resource", 1, Kind::Message(&RESOURCE)), ("scopeMetrics", 2, Kind::Message(&SCOPE_METRICS))];
static SCOPE_METRICS: [Field; 2] = [("scope", 1, Kind::Message(&SCOPE)), ("metrics", 2, Kind::Message(&METRIC))];
static RESOURCE: [Field; 1] = [("attributes", 1, Kind::Message(&ATTRIBUTE))];
static SCOPE: [Field; 2] = [("name", 1, Kind::Text), ("version", 2, Kind::Text)];
static ATTRIBUTE: [Field; 2] = [("key", 1, Kind::Text), ("value", 2, Kind::Message(&ANY_VALUE))];
static ANY_VALUE: [Field; 1] = [("stringValue", 1, Kind::Text)];
static SPAN: [Field; 9] = [
    ("traceId", 1, Kind::Bytes),
    ("spanId", 2, Kind::Bytes),
    ("parentSpanId", 4, Kind::Bytes),
    ("name", 5, Kind::Text),
    ("kind", 6, Kind::Varint),
    ("startTimeUnixNano", 7, Kind::Fixed),
    ("endTimeUnixNano", 8, Kind::Fixed),
    ("attributes", 9, Kind::Message(&ATTRIBUTE)),
    ("status", 15, Kind::Message(&STATUS)),
];
static STATUS: [Field; 2] = [("message", 2, Kind::Text), ("code", 3, Kind::Varint)];
static METRIC: [Field; 6] = [
    ("name", 1, Kind::Text),
    ("description", 2, Kind::Text),
    ("unit", 3, Kind::Text),
    ("gauge", 5, Kind::Message(&GAUGE)),
    ("sum", 7, Kind::Message(&SUM)),
    ("histogram", 9, Kind::Message(&HISTOGRAM)),
];
static GAUGE: [Field; 1] = [("dataPoints", 1, Kind::Message(&NUMBER))];
static SUM: [Field; 3] = [
    ("dataPoints", 1, Kind::Message(&NUMBER)),
    ("aggregationTemporality", 2, Kind::Varint),
    ("isMonotonic", 3, Kind::Varint),
];
static HISTOGRAM: [Field; 2] =
    [("dataPoints", 1, Kind::Message(&BUCKETS)), ("aggregationTemporality", 2, Kind::Varint)];
static NUMBER: [Field; 4] = [
    ("startTimeUnixNano", 2, Kind::Fixed),
    ("timeUnixNano", 3, Kind::Fixed),
    ("asInt", 6, Kind::Fixed),
    ("attributes", 7, Kind::Message(&ATTRIBUTE)),
];
static BUCKETS: [Field; 7] = [
    ("startTimeUnixNano", 2, Kind::Fixed),
    ("timeUnixNano", 3, Kind::Fixed),
    ("count", 4, Kind::Fixed),
    ("sum", 5, Kind::Double),
    ("bucketCounts", 6, Kind::PackedFixed),
    ("explicitBounds", 7, Kind::PackedDouble),
    ("attributes", 9, Kind::Message(&ATTRIBUTE)),
];

/// How a value begins: a varint, 8 bytes, or a length and so many bytes.
const VARINT: u32 = 0;
const EIGHT_BYTES: u32 = 1;
const LENGTH: u32 = 2;

/// The bytes of a message with these fields.
pub(crate) fn encoded(message: &Value, fields: &[Field]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, number, kind) in fields {
        match (message.get(name), kind) {
            (None | Some(Value::Null), _) => {}
            (Some(Value::Array(values)), Kind::PackedFixed) => {
                put_bytes(
                    &mut out,
                    *number,
                    &values.iter().flat_map(|value| fixed(value).to_le_bytes()).collect::<Vec<_>>(),
                );
            }
            (Some(Value::Array(values)), Kind::PackedDouble) => {
                put_bytes(
                    &mut out,
                    *number,
                    &values.iter().flat_map(|value| double(value).to_le_bytes()).collect::<Vec<_>>(),
                );
            }
            (Some(Value::Array(values)), kind) => values.iter().for_each(|value| put(&mut out, *number, kind, value)),
            (Some(value), kind) => put(&mut out, *number, kind, value),
        }
    }
    out
}

fn put(out: &mut Vec<u8>, number: u32, kind: &Kind, value: &Value) {
    match kind {
        Kind::Text => put_bytes(out, number, value.as_str().unwrap_or_default().as_bytes()),
        Kind::Bytes => put_bytes(out, number, &bytes_of(value.as_str().unwrap_or_default())),
        Kind::Message(fields) => put_bytes(out, number, &encoded(value, fields)),
        Kind::Varint => {
            put_varint(out, u64::from(number << 3 | VARINT));
            put_varint(out, value.as_u64().unwrap_or_else(|| u64::from(value.as_bool().unwrap_or_default())));
        }
        Kind::Fixed | Kind::PackedFixed => {
            put_varint(out, u64::from(number << 3 | EIGHT_BYTES));
            out.extend_from_slice(&fixed(value).to_le_bytes());
        }
        Kind::Double | Kind::PackedDouble => {
            put_varint(out, u64::from(number << 3 | EIGHT_BYTES));
            out.extend_from_slice(&double(value).to_le_bytes());
        }
    }
}

fn put_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    put_varint(out, u64::from(number << 3 | LENGTH));
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn fixed(value: &Value) -> u64 {
    let text = || value.as_str().and_then(|text| text.parse().ok());
    value.as_u64().or_else(text).unwrap_or_default()
}

fn double(value: &Value) -> f64 {
    value.as_f64().unwrap_or_default()
}

/// The bytes of hexadecimal digits.
fn bytes_of(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks_exact(2).filter_map(|pair| std::str::from_utf8(pair).ok());
    pairs.filter_map(|pair| u8::from_str_radix(pair, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn messages_are_as_protocol_buffers_have_them() {
        let attribute = json!({ "key": "a", "value": { "stringValue": "bc" } });
        let text = encoded(&attribute, &ATTRIBUTE);
        assert_eq!(text, [0x0a, 1, b'a', 0x12, 4, 0x0a, 2, b'b', b'c']);
        let span = json!({
            "traceId": "00ff", "parentSpanId": "", "name": "S", "kind": 2, "endTimeUnixNano": "258",
            "attributes": [attribute, attribute], "status": { "code": 2 }, "other": 1,
        });
        let mut expected = vec![0x0a, 2, 0, 0xff, 0x22, 0, 0x2a, 1, b'S', 0x30, 2, 0x41, 2, 1, 0, 0, 0, 0, 0, 0];
        for _ in 0..2 {
            expected.extend([0x4a, 9]);
            expected.extend(&text);
        }
        expected.extend([0x7a, 2, 0x18, 2]);
        assert_eq!(encoded(&span, &SPAN), expected);
        let traces = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": [span] }] }] });
        let inner = expected.len() as u8;
        assert!(inner < 0x78);
        let begin = [0x0a, inner + 4, 0x12, inner + 2, 0x12, inner];
        assert_eq!(encoded(&traces, &TRACES), [&begin[..], &expected].concat());
    }

    #[test]
    fn numbers_have_eight_bytes() {
        let point = json!({ "asInt": "1", "timeUnixNano": "2" });
        let bytes = [0x19, 2, 0, 0, 0, 0, 0, 0, 0, 0x31, 1, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(encoded(&point, &NUMBER), bytes);
        let sum = json!({ "aggregationTemporality": 2, "isMonotonic": true, "dataPoints": [point] });
        assert_eq!(encoded(&sum, &SUM), [&[0x0a, 18][..], &bytes, &[0x10, 2, 0x18, 1]].concat());
        let buckets = json!({ "sum": 1.0, "bucketCounts": ["1", "0"], "explicitBounds": [1.0] });
        let one = 1f64.to_le_bytes();
        let expected =
            [&[0x29][..], &one, &[0x32, 16, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], &[0x3a, 8], &one];
        assert_eq!(encoded(&buckets, &BUCKETS), expected.concat());
        let long = json!({ "name": "x".repeat(300) });
        assert_eq!(encoded(&long, &SCOPE)[..3], [0x0a, 0xac, 0x02]);
    }
}
