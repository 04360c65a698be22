//! What statements say beside their rows: notices, warnings and what functions print. JSON has a member for it, other
//! formats a header, which goes before the rows.

use axum::http::HeaderValue;
use axum::response::Response;
use diligence_db::Printed;
use serde_json::{Value, json};

use crate::sqlstate;

/// The header, as answers have it that are not JSON.
const HEADER: &str = "diligence-notices";
/// Bytes that it has at most: what lies between client and server may take no more than 8 KiB of headers.
const HEADER_BYTES_MAX: usize = 4 << 10;
/// Characters of a message in the header. Each may take six bytes.
const HEADER_MESSAGE_CHARS_MAX: usize = 500;

/// What was said since this was asked last, as JSON.
pub(super) fn taken(printed: &Printed) -> Vec<Value> {
    let messages = printed.take();
    let notices = messages.iter().map(|message| {
        let said = &message.said;
        json!({
            "severity": message.level.to_string(),
            "code": sqlstate::of(said),
            "message": said.message().trim_end(),
            "detail": said.detail(),
            "hint": said.hint(),
        })
    });
    notices.collect()
}

/// The warning for a statement that changes what ends with its session: here that is the request.
pub(super) fn of_short_session(tag: &str) -> Option<Value> {
    const OF_SESSION: [&str; 4] = ["SET", "RESET", "LISTEN", "PREPARE"];
    OF_SESSION.contains(&tag).then(|| {
        json!({
            "severity": "WARNING",
            "code": "01000",
            "message": format!("what {tag} does to a session ends with this request"),
            "detail": "Each request over HTTP is a session of its own. Settings of the database stay.",
            "hint": "ALTER ROLE ALL SET … is for all sessions; a connection over PostgreSQL's protocol is one session",
        })
    })
}

/// Adds what was said to an answer that has no member for it: the first messages, as many as have room.
pub(super) fn add_header(response: &mut Response, notices: &[Value]) {
    if let Some(value) = header(notices) {
        response.headers_mut().insert(HEADER, value);
    }
}

/// A list of JSON in ASCII; `None` if nothing was said.
fn header(notices: &[Value]) -> Option<HeaderValue> {
    let mut list = String::new();
    for notice in notices {
        let message = notice["message"].as_str().unwrap_or_default();
        let mut shortened = message.chars().take(HEADER_MESSAGE_CHARS_MAX).collect::<String>();
        if shortened.len() < message.len() {
            shortened.push('…');
        }
        let one = json!({ "severity": notice["severity"], "code": notice["code"], "message": shortened });
        let one = ascii(&one.to_string());
        if list.len() + one.len() + 2 > HEADER_BYTES_MAX {
            break;
        }
        list.push(if list.is_empty() { '[' } else { ',' });
        list.push_str(&one);
    }
    if list.is_empty() {
        return None;
    }
    list.push(']');
    HeaderValue::try_from(list).ok()
}

/// The same JSON without characters that a header must not have.
fn ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    let mut units = [0; 2];
    for letter in json.chars() {
        match letter {
            ' '..='~' => text.push(letter),
            _ => {
                letter.encode_utf16(&mut units).iter().for_each(|unit| text.push_str(&format!("\\u{unit:04x}")));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(message: &str) -> Value {
        json!({ "severity": "NOTICE", "code": "00000", "message": message, "detail": null, "hint": null })
    }

    #[test]
    fn a_header_is_json_of_ascii_and_no_longer_than_it_may_be() {
        assert!(header(&[]).is_none());
        let read = |notices: &[Value]| {
            let value = header(notices).unwrap();
            assert!(value.len() <= HEADER_BYTES_MAX, "{} bytes", value.len());
            serde_json::from_str::<Vec<Value>>(value.to_str().unwrap()).unwrap()
        };
        let read_one = read(&[notice("ä \"q\"\n𝄞\u{7f}")]);
        assert_eq!(read_one, [json!({ "severity": "NOTICE", "code": "00000", "message": "ä \"q\"\n𝄞\u{7f}" })]);
        let long = read(&[notice(&"ä".repeat(100_000)), notice("b")]);
        assert_eq!(long[0]["message"].as_str().unwrap().chars().count(), HEADER_MESSAGE_CHARS_MAX + 1);
        assert_eq!(long[1]["message"], "b");
        let many = read(&(0..1000).map(|place| notice(&place.to_string())).collect::<Vec<_>>());
        assert!(many.len() > 10 && many[10]["message"] == "10", "{many:?}");
    }
}
