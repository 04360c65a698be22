//! OTLP's messages as Protocol Buffers, from the same messages as JSON: what each field is called there, its number,
//! and how its values are written.
//!
//! The numbers are those of opentelemetry-proto 1. Fields that are not in these tables are not written.

use serde_json::Value;

/// How the values of a field are written.
pub(crate) enum FieldKind {
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
pub(crate) type Field = (&'static str, u32, FieldKind);

/// A message about statements.
pub(crate) static TRACES: [Field; 1] = [("resourceSpans", 1, FieldKind::Message(&RESOURCE_SPANS))];
/// A message about what is measured.
pub(crate) static METRICS: [Field; 1] = [("resourceMetrics", 1, FieldKind::Message(&RESOURCE_METRICS))];

static RESOURCE_SPANS: [Field; 2] =
    [("resource", 1, FieldKind::Message(&RESOURCE)), ("scopeSpans", 2, FieldKind::Message(&SCOPE_SPANS))];
static SCOPE_SPANS: [Field; 2] = [("scope", 1, FieldKind::Message(&SCOPE)), ("spans", 2, FieldKind::Message(&SPAN))];
static RESOURCE_METRICS: [Field; 2] =
    [("resource", 1, FieldKind::Message(&RESOURCE)), ("scopeMetrics", 2, FieldKind::Message(&SCOPE_METRICS))];
static SCOPE_METRICS: [Field; 2] =
    [("scope", 1, FieldKind::Message(&SCOPE)), ("metrics", 2, FieldKind::Message(&METRIC))];
static RESOURCE: [Field; 1] = [("attributes", 1, FieldKind::Message(&ATTRIBUTE))];
static SCOPE: [Field; 2] = [("name", 1, FieldKind::Text), ("version", 2, FieldKind::Text)];
static ATTRIBUTE: [Field; 2] = [("key", 1, FieldKind::Text), ("value", 2, FieldKind::Message(&ANY_VALUE))];
static ANY_VALUE: [Field; 1] = [("stringValue", 1, FieldKind::Text)];
static SPAN: [Field; 9] = [
    ("traceId", 1, FieldKind::Bytes),
    ("spanId", 2, FieldKind::Bytes),
    ("parentSpanId", 4, FieldKind::Bytes),
    ("name", 5, FieldKind::Text),
    ("kind", 6, FieldKind::Varint),
    ("startTimeUnixNano", 7, FieldKind::Fixed),
    ("endTimeUnixNano", 8, FieldKind::Fixed),
    ("attributes", 9, FieldKind::Message(&ATTRIBUTE)),
    ("status", 15, FieldKind::Message(&STATUS)),
];
static STATUS: [Field; 2] = [("message", 2, FieldKind::Text), ("code", 3, FieldKind::Varint)];
static METRIC: [Field; 6] = [
    ("name", 1, FieldKind::Text),
    ("description", 2, FieldKind::Text),
    ("unit", 3, FieldKind::Text),
    ("gauge", 5, FieldKind::Message(&GAUGE)),
    ("sum", 7, FieldKind::Message(&SUM)),
    ("histogram", 9, FieldKind::Message(&HISTOGRAM)),
];
static GAUGE: [Field; 1] = [("dataPoints", 1, FieldKind::Message(&NUMBER))];
static SUM: [Field; 3] = [
    ("dataPoints", 1, FieldKind::Message(&NUMBER)),
    ("aggregationTemporality", 2, FieldKind::Varint),
    ("isMonotonic", 3, FieldKind::Varint),
];
static HISTOGRAM: [Field; 2] =
    [("dataPoints", 1, FieldKind::Message(&BUCKETS)), ("aggregationTemporality", 2, FieldKind::Varint)];
static NUMBER: [Field; 4] = [
    ("startTimeUnixNano", 2, FieldKind::Fixed),
    ("timeUnixNano", 3, FieldKind::Fixed),
    ("asInt", 6, FieldKind::Fixed),
    ("attributes", 7, FieldKind::Message(&ATTRIBUTE)),
];
static BUCKETS: [Field; 7] = [
    ("startTimeUnixNano", 2, FieldKind::Fixed),
    ("timeUnixNano", 3, FieldKind::Fixed),
    ("count", 4, FieldKind::Fixed),
    ("sum", 5, FieldKind::Double),
    ("bucketCounts", 6, FieldKind::PackedFixed),
    ("explicitBounds", 7, FieldKind::PackedDouble),
    ("attributes", 9, FieldKind::Message(&ATTRIBUTE)),
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
            (Some(Value::Array(values)), FieldKind::PackedFixed) => {
                put_bytes(
                    &mut out,
                    *number,
                    &values.iter().flat_map(|value| fixed(value).to_le_bytes()).collect::<Vec<_>>(),
                );
            }
            (Some(Value::Array(values)), FieldKind::PackedDouble) => {
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

fn put(out: &mut Vec<u8>, number: u32, kind: &FieldKind, value: &Value) {
    match kind {
        FieldKind::Text => put_bytes(out, number, value.as_str().unwrap_or_default().as_bytes()),
        FieldKind::Bytes => put_bytes(out, number, &bytes_of(value.as_str().unwrap_or_default())),
        FieldKind::Message(fields) => put_bytes(out, number, &encoded(value, fields)),
        FieldKind::Varint => {
            put_varint(out, u64::from(number << 3 | VARINT));
            put_varint(out, value.as_u64().unwrap_or_else(|| u64::from(value.as_bool().unwrap_or_default())));
        }
        FieldKind::Fixed | FieldKind::PackedFixed => {
            put_varint(out, u64::from(number << 3 | EIGHT_BYTES));
            out.extend_from_slice(&fixed(value).to_le_bytes());
        }
        FieldKind::Double | FieldKind::PackedDouble => {
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
