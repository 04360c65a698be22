//! Parts of a JSON text, found by their borders: nothing is read but what is asked for.
//!
//! The text is JSON already (it was checked when it became a `json`). A text that is none gives fewer parts, and never
//! a panic.

use std::borrow::Cow;

use diligence_base::Result;

use super::Reader;

/// What kind of value a JSON text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JsonKind {
    Null,
    Boolean,
    Number,
    Text,
    Array,
    Object,
}

/// The text of one value, without spaces around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JsonPart<'a>(&'a str);

impl<'a> JsonPart<'a> {
    /// The value that a text is.
    pub(crate) fn new(text: &'a str) -> Self {
        Self(text.trim_matches([' ', '\t', '\n', '\r']))
    }

    /// As it is written.
    pub(crate) fn text(self) -> &'a str {
        self.0
    }

    pub(crate) fn kind(self) -> JsonKind {
        match self.0.as_bytes().first() {
            Some(b'{') => JsonKind::Object,
            Some(b'[') => JsonKind::Array,
            Some(b'"') => JsonKind::Text,
            Some(b't' | b'f') => JsonKind::Boolean,
            Some(b'n') | None => JsonKind::Null,
            Some(_) => JsonKind::Number,
        }
    }

    /// The elements of an array; nothing of what is none.
    pub(crate) fn elements(self) -> impl Iterator<Item = JsonPart<'a>> {
        Parts::new(self, JsonKind::Array).map(|(_, value)| value)
    }

    /// The members of an object, their keys with quotes and escapes; nothing of what is none.
    pub(crate) fn members(self) -> impl Iterator<Item = (JsonPart<'a>, JsonPart<'a>)> {
        Parts::new(self, JsonKind::Object).filter_map(|(key, value)| Some((key?, value)))
    }

    /// The member of a key, the last one if there are several.
    pub(crate) fn member(self, key: &str) -> Option<JsonPart<'a>> {
        self.members().filter(|(name, _)| name.is_key(key)).last().map(|(_, value)| value)
    }

    /// The element of a place: from 0, or from -1 at the end.
    pub(crate) fn element(self, place: i64) -> Option<JsonPart<'a>> {
        let place = match place {
            0.. => usize::try_from(place).ok()?,
            _ => self.elements().count().checked_sub(usize::try_from(place.unsigned_abs()).ok()?)?,
        };
        self.elements().nth(place)
    }

    /// The part that a step of a path means: a key of an object, a place of an array.
    pub(crate) fn step(self, step: &str) -> Option<JsonPart<'a>> {
        match self.kind() {
            JsonKind::Object => self.member(step),
            JsonKind::Array => self.element(step.trim().parse::<i32>().ok()?.into()),
            _ => None,
        }
    }

    fn is_key(self, key: &str) -> bool {
        let quoted = self.0.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
        match quoted {
            Some(plain) if !plain.contains('\\') => plain == key,
            _ => self.unquoted().is_ok_and(|text| text == key),
        }
    }

    /// The text that a string is. Fails with 22P05 if it has a character that no text has.
    pub(crate) fn unquoted(self) -> Result<Cow<'a, str>> {
        match self.0.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
            Some(plain) if !plain.contains('\\') => Ok(Cow::Borrowed(plain)),
            _ if !self.0.starts_with('"') => Ok(Cow::Borrowed(self.0)),
            _ => {
                let mut reader = Reader { text: self.0, at: 0, depth: 0, keeps: true };
                Ok(Cow::Owned(reader.string()?))
            }
        }
    }

    /// What `->>` gives: a string without its quotes, NULL for null, anything else as it is written.
    pub(crate) fn shown(self) -> Result<Option<Cow<'a, str>>> {
        match self.kind() {
            JsonKind::Null => Ok(None),
            JsonKind::Text => self.unquoted().map(Some),
            _ => Ok(Some(Cow::Borrowed(self.0))),
        }
    }
}

/// The parts of an array or an object, one after the other.
struct Parts<'a> {
    text: &'a str,
    at: usize,
    is_object: bool,
}

impl<'a> Parts<'a> {
    fn new(of: JsonPart<'a>, wanted: JsonKind) -> Self {
        let text = if of.kind() == wanted { of.0 } else { "" };
        Self { text, at: 1, is_object: wanted == JsonKind::Object }
    }

    /// The next value, and what is behind it is next.
    fn value(&mut self) -> Option<JsonPart<'a>> {
        let end = end_of(self.text.as_bytes(), self.at);
        let part = JsonPart::new(self.text.get(self.at..end)?);
        self.at = end;
        (!part.0.is_empty()).then_some(part)
    }
}

impl<'a> Iterator for Parts<'a> {
    type Item = (Option<JsonPart<'a>>, JsonPart<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let key = match self.is_object {
            true => {
                let key = self.value()?;
                self.at += 1;
                Some(key)
            }
            false => None,
        };
        let value = self.value()?;
        self.at += 1;
        Some((key, value))
    }
}

/// Where the value that begins at a place ends: at the comma, the colon or the bracket behind it.
fn end_of(bytes: &[u8], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0_usize);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                at += 1;
                while let Some(byte) = bytes.get(at) {
                    match byte {
                        b'\\' => at += 1,
                        b'"' => break,
                        _ => {}
                    }
                    at += 1;
                }
            }
            b'[' | b'{' => depth += 1,
            b']' | b'}' | b',' | b':' if depth == 0 => return at,
            b']' | b'}' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    bytes.len().max(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found_by_their_borders() {
        let object = JsonPart::new(r#" {"a" : [1, {"b":"],\""} , []], "c,":null, "\u0064": "x\ny", "a":2 } "#);
        assert_eq!(object.kind(), JsonKind::Object);
        assert_eq!(object.members().count(), 4);
        assert_eq!(object.member("a").map(JsonPart::text), Some("2"), "the last one counts");
        assert_eq!(object.member("d").unwrap().shown().unwrap().unwrap(), "x\ny");
        assert_eq!(object.member("c,").unwrap().shown().unwrap(), None);
        let array = object.members().next().unwrap().1;
        assert_eq!(array.elements().map(JsonPart::text).collect::<Vec<_>>(), ["1", r#"{"b":"],\""}"#, "[]"]);
        assert_eq!(array.element(-1).map(JsonPart::text), Some("[]"));
        assert_eq!((array.element(-4), array.element(3)), (None, None));
        assert_eq!(JsonPart::new("[ ]").elements().count() + JsonPart::new("{ }").members().count(), 0);
    }

    #[test]
    fn what_is_no_json_gives_no_panic() {
        for text in ["", "[", "{\"", "{\"a", "[1,", "{\"a\":", "[\"\\", "{1}", "]", "{\"ä\":\"ö"] {
            let part = JsonPart::new(text);
            let _ = (part.elements().count(), part.members().count(), part.member("a"), part.element(-1));
            let _ = part.shown();
        }
    }
}
