//! Values of JSON as structs, lists and maps. They become expressions of other functions.
//!
//! In DuckDB's `from_json(j, '{"a": "INTEGER", "b": ["VARCHAR"]}')`, what is missing or of another type is NULL; in
//! `json_transform_strict`, and in casts of JSON to these types, it is an error.

use diligence_base::{Error, Result};
use diligence_types::{SqlType, coercion};
use sqlparser::ast::Expr;

use super::Binder;
use super::operators::Way;
use super::scope::Level;
use crate::algebra::Scalar;
use crate::quoting::{literal, quoted};

/// What a value is to become.
#[derive(Debug, PartialEq)]
enum Structure {
    /// A value of a type.
    Scalar(String),
    /// JSON, as it is.
    Json,
    /// A list.
    List(Box<Structure>),
    /// A struct, with its fields in order.
    Struct(Vec<(String, Structure)>),
    /// A map, with the type of its keys.
    Map(String, Box<Structure>),
}

impl Structure {
    fn of(sql_type: &SqlType) -> Self {
        match sql_type {
            SqlType::Json => Self::Json,
            SqlType::Array(element) => Self::List(Box::new(Self::of(element))),
            SqlType::Record(fields) => {
                Self::Struct(fields.iter().map(|field| (field.name.clone(), Self::of(&field.sql_type))).collect())
            }
            SqlType::Map(pair) => Self::Map(pair.0.to_string(), Box::new(Self::of(&pair.1))),
            other => Self::Scalar(other.to_string()),
        }
    }
}

/// Structures may nest so deep.
const DEPTH_MAX: usize = 32;

impl Binder<'_> {
    /// JSON that is cast to a list, a struct or a map, as in DuckDB; `None` for another cast. Keys that a struct does
    /// not have are left out. The value fails with 22P02 where it is of another structure; it is NULL if `is_try`.
    pub(super) fn json_as_type(
        &self,
        json: &Expr,
        from: &SqlType,
        to: &SqlType,
        is_try: bool,
        level: &Level<'_>,
    ) -> Result<Option<Scalar>> {
        let is_made = matches!(from, SqlType::Json | SqlType::Jsonb)
            && matches!(to, SqlType::Array(_) | SqlType::Record(_) | SqlType::Map(_));
        if !is_made || coercion::cast_context(from, to).is_some() {
            return Ok(None);
        }
        let text = made(&format!("(CAST(({json}) AS json))"), &Structure::of(to), 0, !is_try);
        let value = self.scalar(&crate::parse::expression(&text)?, level)?;
        self.cast(value, to, if is_try { Way::Try } else { Way::Explicit }).map(Some)
    }
}

/// The text of an expression that makes of a JSON value what a structure says. Fails with 22023 if that is none.
pub(super) fn transformed(json: &str, structure: &str, is_strict: bool) -> Result<String> {
    let mut reader = Reader { rest: structure, depth: 0 };
    let found = reader.structure()?;
    match reader.rest.trim_start().is_empty() {
        true => Ok(made(&format!("(CAST(({json}) AS json))"), &found, 0, is_strict)),
        false => Err(reader.wrong()),
    }
}

fn made(json: &str, structure: &Structure, depth: usize, is_strict: bool) -> String {
    let wanted = |kind: &str, keys: &[String], value: String| match is_strict {
        false => format!("CASE json_typeof({json}) WHEN '{kind}' THEN {value} END"),
        true => {
            let mut condition = format!("json_typeof({json}) = '{kind}'");
            keys.iter().for_each(|key| condition.push_str(&format!(" AND ({json} -> {key}) IS NOT NULL")));
            let keys = if keys.is_empty() { String::new() } else { format!(" with the keys {}", keys.join(", ")) };
            let message = literal(&format!("a JSON {kind}{keys} is wanted, not "));
            // No text like this is a truth value, so the cast fails, and says what is wrong.
            format!(
                "CASE WHEN {condition} THEN {value} WHEN CASE json_typeof({json}) WHEN 'null' THEN false \
                 ELSE CAST(({message} || CAST({json} AS text)) AS boolean) END THEN NULL END"
            )
        }
    };
    match structure {
        Structure::Json => json.to_owned(),
        Structure::Scalar(name) => {
            let cast = if is_strict { "CAST" } else { "TRY_CAST" };
            format!("{cast}(({json} #>> '{{}}') AS {name})")
        }
        Structure::List(item) => {
            let name = quoted(&format!("item {depth}"));
            let value = made(&name, item, depth + 1, is_strict);
            wanted("array", &[], format!("list_transform(json_extract({json}, '$[*]'), {name} -> {value})"))
        }
        Structure::Struct(fields) => {
            let keys = fields.iter().map(|(name, _)| literal(name)).collect::<Vec<_>>();
            let fields = fields.iter().zip(&keys).map(|((_, structure), key)| {
                let value = made(&format!("({json} -> {key})"), structure, depth + 1, is_strict);
                format!("{key}: {value}")
            });
            let fields = fields.collect::<Vec<_>>().join(", ");
            wanted("object", &keys, format!("{{{fields}}}"))
        }
        Structure::Map(key_type, item) => {
            let name = quoted(&format!("key {depth}"));
            let value = made(&format!("({json} -> {name})"), item, depth + 1, is_strict);
            let entry = format!("ROW(CAST({name} AS {key_type}), {value})");
            let entries = format!("list_transform(json_keys({json}), {name} -> {entry})");
            wanted("object", &[], format!("map_from_entries({entries})"))
        }
    }
}

/// Reads a structure, which is JSON of objects, lists and texts.
struct Reader<'a> {
    rest: &'a str,
    depth: usize,
}

impl Reader<'_> {
    fn structure(&mut self) -> Result<Structure> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Error::input("the structure is nested too deep").with_code("54000"));
        }
        let structure = match () {
            () if self.takes('{') => self.fields()?,
            () if self.takes('[') => {
                let item = self.structure()?;
                self.wants(']')?;
                Structure::List(Box::new(item))
            }
            () => match self.text()? {
                name if name.eq_ignore_ascii_case("json") => Structure::Json,
                // A type, and nothing that goes on behind it.
                name if name.chars().all(|letter| letter.is_alphanumeric() || " _(),".contains(letter)) => {
                    Structure::Scalar(name)
                }
                _ => return Err(self.wrong()),
            },
        };
        self.depth -= 1;
        Ok(structure)
    }

    fn fields(&mut self) -> Result<Structure> {
        let mut fields = Vec::new();
        loop {
            let name = self.text()?;
            self.wants(':')?;
            fields.push((name, self.structure()?));
            if !self.takes(',') {
                self.wants('}')?;
                return Ok(Structure::Struct(fields));
            }
        }
    }

    fn takes(&mut self, wanted: char) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(wanted) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn wants(&mut self, wanted: char) -> Result<()> {
        if self.takes(wanted) { Ok(()) } else { Err(self.wrong()) }
    }

    fn text(&mut self) -> Result<String> {
        self.wants('"')?;
        let (mut text, mut letters) = (String::new(), self.rest.char_indices());
        while let Some((at, letter)) = letters.next() {
            match letter {
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    return Ok(text);
                }
                '\\' => text.extend(letters.next().map(|(_, letter)| letter)),
                letter => text.push(letter),
            }
        }
        Err(self.wrong())
    }

    fn wrong(&self) -> Error {
        let error = Error::input("this is no structure of JSON values").with_code("22023");
        error.with_hint("write a type, a list or an object of them: '{\"a\": \"INTEGER\", \"b\": [\"VARCHAR\"]}'")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_become_expressions() {
        assert_eq!(
            transformed("j", "\"INTEGER\"", false).unwrap(),
            "TRY_CAST(((CAST((j) AS json)) #>> '{}') AS INTEGER)"
        );
        let list = transformed("j", " [ \"JSON\" ] ", false).unwrap();
        let json = "(CAST((j) AS json))";
        let items = format!("list_transform(json_extract({json}, '$[*]'), \"item 0\" -> \"item 0\")");
        assert_eq!(list, format!("CASE json_typeof({json}) WHEN 'array' THEN {items} END"));
        assert!(crate::parse::expression(&list).is_ok());
        let nested = transformed("j", "{\"a\": \"DECIMAL(10,2)\", \"it's\": {\"b\": [\"DATE\"]}}", false).unwrap();
        assert!(crate::parse::expression(&nested).is_ok(), "{nested}");
        for wrong in ["", "{}", "[\"A\", \"B\"]", "{\"a\" \"INTEGER\"}", "\"INTEGER", "\"a); DROP\"", "\"A\" 1"] {
            assert_eq!(transformed("j", wrong, false).unwrap_err().code(), Some("22023"), "{wrong}");
        }
        assert!(transformed("j", &format!("{}\"A\"{}", "[".repeat(100), "]".repeat(100)), true).is_err());
    }

    #[test]
    fn types_become_expressions() {
        let pair = |key, value| SqlType::Map(std::sync::Arc::new((key, value)));
        assert_eq!(
            made("j", &Structure::of(&SqlType::Integer), 0, true),
            "CAST((j #>> '{}') AS integer)",
            "a value of another type is an error"
        );
        let list = SqlType::array_of(pair(SqlType::Text, SqlType::array_of(SqlType::Json)));
        let text = made("j", &Structure::of(&list), 0, true);
        assert!(text.starts_with("CASE WHEN json_typeof(j) = 'array' THEN list_transform("), "{text}");
        assert!(text.contains("map_from_entries(list_transform(json_keys(\"item 0\"), \"key 1\" -> "), "{text}");
        assert!(crate::parse::expression(&text).is_ok(), "{text}");
    }
}
