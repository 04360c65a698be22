//! What a request gives: values of its query string, its path and its body, for the parameters that an endpoint
//! declares.

use std::collections::BTreeMap;
use std::fmt;

use arrow::array::{ArrayRef, new_null_array};
use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use diligence_base::{Error, Result};
use diligence_db::SqlType;
use futures::StreamExt;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

use super::super::Refused;
use super::file::{Endpoint, Kind, Parameter, is_null};
use crate::encoding::parameters::{from_text, list_of};

/// A value as a request has it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Given {
    /// Text: of a query string, a path, a form, or a string of JSON.
    Text(String),
    /// A number of JSON.
    Number(String),
    /// `true` or `false` of JSON.
    Flag(bool),
    /// `null` of JSON.
    Null,
    /// Several values: an array of JSON, or a name of a form that comes several times.
    List(Vec<Given>),
}

/// The values of a request by name. No name has two.
#[derive(Debug, Default)]
pub(super) struct GivenValues(BTreeMap<String, Given>);

impl GivenValues {
    /// Adds the values of a query string or of a form. A list may come in several parts.
    fn add_form(&mut self, endpoint: &Endpoint, text: &[u8]) -> Result<()> {
        let mut lists = BTreeMap::<String, Vec<Given>>::new();
        for (name, value) in form_urlencoded::parse(text) {
            let value = Given::Text(value.into());
            match endpoint.parameters.iter().any(|parameter| parameter.is_list && parameter.name == *name) {
                true => lists.entry(name.into_owned()).or_default().push(value),
                false => self.add(name.into_owned(), value)?,
            }
        }
        for (name, mut values) in lists {
            let value = if values.len() == 1 { values.remove(0) } else { Given::List(values) };
            self.add(name, value)?;
        }
        Ok(())
    }

    /// Adds a value. Fails with code 22023 if there is one of the name.
    pub(super) fn add(&mut self, name: String, value: Given) -> Result<()> {
        if self.0.contains_key(&name) {
            return Err(wrong(format!("the parameter '{name}' is given twice")));
        }
        self.0.insert(name, value);
        Ok(())
    }

    /// Adds the values of a body.
    async fn add_body(
        &mut self,
        endpoint: &Endpoint,
        headers: &HeaderMap,
        body: Body,
        bytes_max: usize,
    ) -> Result<(), Refused> {
        let bytes = read(body, bytes_max).await?;
        if bytes.is_empty() {
            return Ok(());
        }
        super::super::refuse_encoded(headers)?;
        let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        match kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase().as_str() {
            "application/json" => {
                let Members(members) = serde_json::from_slice(&bytes)
                    .map_err(|error| wrong(format!("the body is no object of JSON: {error}")))?;
                for (name, value) in members {
                    let value = given(&name, value)?;
                    self.add(name, value)?;
                }
                Ok(())
            }
            "application/x-www-form-urlencoded" => Ok(self.add_form(endpoint, &bytes)?),
            other => {
                let error = Error::input(format!("a body of type '{other}' is not taken"))
                    .with_hint("send Content-Type: application/json or application/x-www-form-urlencoded");
                Err(Refused::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, error))
            }
        }
    }

    /// The format that is asked for by name.
    pub(super) fn format(&self) -> Option<&str> {
        match self.0.get("format")? {
            Given::Text(name) => Some(name),
            _ => None,
        }
    }

    /// A value as text; `None` if there is none, or it is NULL.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.0.get(name)?.text()
    }

    /// What a template sees.
    pub(super) fn shown(&self) -> BTreeMap<&str, Option<String>> {
        self.0.iter().map(|(name, given)| (name.as_str(), given.text())).collect()
    }

    /// The values by name, as text.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, Option<String>)> {
        self.0.iter().map(|(name, given)| (name.as_str(), given.text()))
    }
}

impl Given {
    fn text(&self) -> Option<String> {
        match self {
            Self::Text(text) | Self::Number(text) => Some(text.clone()),
            Self::Flag(flag) => Some(flag.to_string()),
            Self::Null => None,
            Self::List(values) => {
                let texts = values.iter().map(|value| value.text().unwrap_or_else(|| "null".to_owned()));
                Some(texts.collect::<Vec<_>>().join(","))
            }
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "a text",
            Self::Number(_) => "a number",
            Self::Flag(_) => "true or false",
            Self::Null => "null",
            Self::List(_) => "a list",
        }
    }
}

impl Endpoint {
    /// What a request gives: `in_path` are the values in its path, in order.
    pub(super) async fn given(
        &self,
        query: Option<&str>,
        in_path: Vec<String>,
        headers: &HeaderMap,
        body: Body,
        bytes_max: usize,
    ) -> Result<GivenValues, Refused> {
        let mut given = GivenValues::default();
        given.add_form(self, query.unwrap_or_default().as_bytes())?;
        for (name, value) in self.path_parameters().zip(in_path) {
            given.add(name.to_owned(), Given::Text(value))?;
        }
        if !self.is_reading() {
            given.add_body(self, headers, body, bytes_max.min(self.body_bytes_max)).await?;
        }
        Ok(given)
    }

    /// The values of its parameters, in order. Fails with code 22023 if one is missing, or not declared, and with kind
    /// `Value` if it is none of its type.
    pub(super) fn values(&self, given: &GivenValues) -> Result<Vec<ArrayRef>> {
        for name in given.0.keys() {
            if name != "format" && !self.parameters.iter().any(|parameter| parameter.name == *name) {
                let known = self.parameters.iter().map(|parameter| parameter.name.as_str()).collect::<Vec<_>>();
                let error = wrong(format!("there is no parameter '{name}'"));
                return Err(error.with_hint(format!("the parameters are: {}", known.join(", "))));
            }
        }
        self.parameters.iter().map(|parameter| parameter.value(given.0.get(&parameter.name))).collect()
    }
}

impl Parameter {
    fn value(&self, given: Option<&Given>) -> Result<ArrayRef> {
        // Forms of pages send what was left empty, too.
        let is_left_out = |given: &&Given| {
            self.default.is_some()
                && self.kind != Kind::Text
                && !self.is_list
                && matches!(given, Given::Text(text) if text.trim().is_empty())
        };
        match (given.filter(|given| !is_left_out(given)), &self.default) {
            (None, None) => Err(wrong(format!("the parameter '{}' is missing", self.name))),
            (None, Some(text)) | (Some(Given::Text(text)), _) => self.of_text(text, &self.sql_type()),
            (Some(Given::Null), _) => Ok(new_null_array(&self.data_type(), 1)),
            (Some(Given::List(values)), _) if self.is_list => {
                let parts = values.iter().map(|value| self.element(value)).collect::<Result<Vec<_>>>()?;
                list_of(parts, &self.kind.sql_type().arrow())
            }
            (Some(other), _) if self.is_list => Err(self.is_not(&self.type_name(), other)),
            (Some(other), _) => self.element(other),
        }
    }

    /// A single value.
    fn element(&self, given: &Given) -> Result<ArrayRef> {
        let sql_type = self.kind.sql_type();
        match given {
            Given::Null => Ok(new_null_array(&sql_type.arrow(), 1)),
            Given::Text(text) => self.of_text(text, &sql_type),
            // To JSON, 1.0 and 1e2 are whole numbers as well.
            Given::Number(text) if self.kind == Kind::Integer => {
                self.of_text(text.strip_suffix(".0").unwrap_or(text), &sql_type)
            }
            Given::Number(text) if self.kind == Kind::Number => self.of_text(text, &sql_type),
            Given::Flag(flag) if self.kind == Kind::Boolean => self.of_text(&flag.to_string(), &sql_type),
            other => Err(self.is_not(self.kind.name(), other)),
        }
    }

    fn of_text(&self, text: &str, sql_type: &SqlType) -> Result<ArrayRef> {
        if is_null(text, self.kind) {
            return Ok(new_null_array(&sql_type.arrow(), 1));
        }
        let is_list = matches!(sql_type, SqlType::Array(_));
        let text = if is_list { self.literal(text) } else { text.into() };
        from_text(&text, sql_type).map_err(|error| error.context(format!("the parameter '{}'", self.name)))
    }

    fn is_not(&self, wanted: &str, found: &Given) -> Error {
        wrong(format!("the parameter '{}' is {wanted}, and not {}", self.name, found.kind()))
    }
}

fn wrong(message: String) -> Error {
    Error::input(message).with_code("22023")
}

fn given(name: &str, value: Value) -> Result<Given> {
    Ok(match value {
        Value::Null => Given::Null,
        Value::Bool(flag) => Given::Flag(flag),
        Value::Number(number) => Given::Number(number.to_string()),
        Value::String(text) => Given::Text(text),
        Value::Array(values) => Given::List(values.into_iter().map(|value| given(name, value)).collect::<Result<_>>()?),
        Value::Object(_) => {
            return Err(wrong(format!("the parameter '{name}' is a text, a number, true, false, null or a list")));
        }
    })
}

/// All bytes of a body.
async fn read(body: Body, bytes_max: usize) -> Result<Vec<u8>, Refused> {
    let mut bytes = Vec::new();
    let mut pieces = body.into_data_stream();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| wrong(format!("the body broke off: {error}")))?;
        if bytes.len() + piece.len() > bytes_max {
            let error = Error::input(format!("the body has more than {bytes_max} bytes")).with_code("54000");
            let error = error.with_hint("the endpoint's file allows more with: -- body: 16MB");
            return Err(Refused::new(StatusCode::PAYLOAD_TOO_LARGE, error));
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

/// An object of JSON, with every member that it has.
struct Members(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Taking;

        impl<'de> Visitor<'de> for Taking {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with the parameters")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Taking)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, AsArray};
    use arrow::datatypes::Int64Type;
    use axum::http::HeaderValue;
    use futures::executor::block_on;

    use super::*;

    const FILE: &str = "-- endpoint: POST /api/{n}\n-- param: n integer\n-- param: t text = x\n-- param: b boolean = f\n\
                        -- body: 64\nSELECT $n, $t, $b";

    fn values(query: &str, kind: &'static str, body: &str) -> Result<Vec<ArrayRef>, Refused> {
        let endpoint = Endpoint::parse(FILE).unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        let body = Body::from(body.to_owned());
        let given = block_on(endpoint.given(Some(query), vec!["7".to_owned()], &headers, body, 1 << 20))?;
        Ok(endpoint.values(&given)?)
    }

    fn status(query: &str, kind: &'static str, body: &str) -> u16 {
        values(query, kind, body).map_or_else(|refused| refused.status.as_u16(), |_| 200)
    }

    #[test]
    fn values_come_from_path_query_and_body() {
        let form = "application/x-www-form-urlencoded";
        let json = "application/json; charset=utf-8";
        for (query, kind, body, text, flag) in [
            ("", form, "", Some("x"), Some(false)),
            ("t=a%20b", form, "b=on", Some("a b"), Some(true)),
            ("b=yes", json, r#"{"t": "null"}"#, Some("null"), Some(true)),
            ("t=&b=", form, "", Some(""), Some(false)),
            ("", json, r#"{"t": null, "b": null}"#, None, None),
            ("", json, r#"{"t": "é", "b": true}"#, Some("é"), Some(true)),
        ] {
            let values = values(query, kind, body).unwrap_or_else(|refused| panic!("{body}: {}", refused.error));
            assert_eq!(values[0].as_primitive::<Int64Type>().value(0), 7);
            let found = values[1].as_string_view();
            assert_eq!(found.is_valid(0).then(|| found.value(0)), text, "{body}");
            assert_eq!(values[2].is_valid(0).then(|| values[2].as_boolean().value(0)), flag, "{body}");
        }
    }

    #[test]
    fn lists_come_in_several_ways() {
        let file =
            "-- endpoint: POST /api/x\n-- param: ids int[] = 1,2\n-- param: names text[] = {}\nSELECT $ids, $names";
        let endpoint = Endpoint::parse(file).unwrap();
        let values = |query: &str, body: &str| -> Result<Vec<ArrayRef>, Refused> {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            let body = Body::from(body.to_owned());
            let given = block_on(endpoint.given(Some(query), vec![], &headers, body, 1 << 20))?;
            Ok(endpoint.values(&given)?)
        };
        for (query, body, ids, names) in [
            ("", "", Some(vec![Some(1), Some(2)]), vec![]),
            ("ids=3", "", Some(vec![Some(3)]), vec![]),
            ("ids=3,4&names=a", "", Some(vec![Some(3), Some(4)]), vec!["a"]),
            ("ids=3&ids=4&names=a,b&names=c", "", Some(vec![Some(3), Some(4)]), vec!["a,b", "c"]),
            ("ids={5,NULL}&names={\"x,y\"}", "", Some(vec![Some(5), None]), vec!["x,y"]),
            ("ids=", "", Some(vec![]), vec![]),
            ("ids=null", "", None, vec![]),
            ("", r#"{"ids": [7, null, "8"], "names": ["é", "{"]}"#, Some(vec![Some(7), None, Some(8)]), vec!["é", "{"]),
            ("", r#"{"ids": [], "names": "p,q"}"#, Some(vec![]), vec!["p", "q"]),
        ] {
            let values = values(query, body).unwrap_or_else(|refused| panic!("{query} {body}: {}", refused.error));
            let found = values[0].as_list::<i32>();
            let found =
                found.is_valid(0).then(|| found.value(0).as_primitive::<Int64Type>().iter().collect::<Vec<_>>());
            assert_eq!(found, ids, "{query} {body}");
            let found = values[1].as_list::<i32>().value(0);
            assert_eq!(found.as_string_view().iter().flatten().collect::<Vec<_>>(), names, "{query} {body}");
        }
        for (query, body) in [
            ("ids=x", ""),
            ("ids=1,,2", ""),
            ("ids={1", ""),
            ("", r#"{"ids": 1}"#),
            ("", r#"{"ids": ["x"]}"#),
            ("", r#"{"ids": [[1]]}"#),
            ("", r#"{"ids": {"a": 1}}"#),
            ("", r#"{"names": [1]}"#),
            ("ids=1", r#"{"ids": [1]}"#),
        ] {
            assert!(values(query, body).is_err(), "{query} {body}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_request_is_told() {
        let (form, json) = ("application/x-www-form-urlencoded", "application/json");
        for (query, kind, body, expected) in [
            ("typo=1", form, "", 400),
            ("t=1", form, "t=1", 400),
            ("t=1&t=2", form, "", 400),
            // The path has it.
            ("n=1", form, "", 400),
            ("", form, "b=perhaps", 400),
            ("", json, r#"{"t": 1}"#, 400),
            ("", json, r#"{"b": "maybe"}"#, 400),
            ("", json, r#"{"t": ["a"]}"#, 400),
            ("", json, r#"{"t": "a", "t": "b"}"#, 400),
            ("", json, r#"["a"]"#, 400),
            ("", json, r#"{"t": "#, 400),
            ("", "text/plain", "t=1", 415),
            ("", "multipart/form-data; boundary=x", "t=1", 415),
            ("", form, "t=0123456789012345678901234567890123456789012345678901234567890123456789", 413),
        ] {
            assert_eq!(status(query, kind, body), expected, "{query} {body}");
        }
    }
}
