//! Values of JSON as structs and lists, DuckDB's `from_json(j, '{"a": "INTEGER", "b": ["VARCHAR"]}')`: what is missing
//! or of another type is NULL. It becomes an expression of other functions.

use diligence_base::{Error, Result};

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
}

/// Structures may nest so deep.
const DEPTH_MAX: usize = 32;

/// The text of an expression that makes of a JSON value what a structure says. Fails with 22023 if that is none.
pub(super) fn transformed(json: &str, structure: &str) -> Result<String> {
    let mut reader = Reader { rest: structure, depth: 0 };
    let found = reader.structure()?;
    match reader.rest.trim_start().is_empty() {
        true => Ok(made(&format!("(CAST(({json}) AS json))"), &found, 0)),
        false => Err(reader.wrong()),
    }
}

fn made(json: &str, structure: &Structure, depth: usize) -> String {
    match structure {
        Structure::Json => json.to_owned(),
        Structure::Scalar(name) => format!("TRY_CAST(({json} #>> '{{}}') AS {name})"),
        Structure::List(item) => {
            let name = quoted(&format!("item {depth}"));
            let value = made(&name, item, depth + 1);
            let items = format!("list_transform(json_extract({json}, '$[*]'), {name} -> {value})");
            format!("CASE json_typeof({json}) WHEN 'array' THEN {items} END")
        }
        Structure::Struct(fields) => {
            let fields = fields.iter().map(|(name, structure)| {
                let value = made(&format!("({json} -> {})", literal(name)), structure, depth + 1);
                format!("{}: {value}", literal(name))
            });
            let fields = fields.collect::<Vec<_>>().join(", ");
            format!("CASE json_typeof({json}) WHEN 'object' THEN {{{fields}}} END")
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
        assert_eq!(transformed("j", "\"INTEGER\"").unwrap(), "TRY_CAST(((CAST((j) AS json)) #>> '{}') AS INTEGER)");
        let list = transformed("j", " [ \"JSON\" ] ").unwrap();
        let json = "(CAST((j) AS json))";
        let items = format!("list_transform(json_extract({json}, '$[*]'), \"item 0\" -> \"item 0\")");
        assert_eq!(list, format!("CASE json_typeof({json}) WHEN 'array' THEN {items} END"));
        assert!(crate::parse::expression(&list).is_ok());
        let nested = transformed("j", "{\"a\": \"DECIMAL(10,2)\", \"it's\": {\"b\": [\"DATE\"]}}").unwrap();
        assert!(crate::parse::expression(&nested).is_ok(), "{nested}");
        for wrong in ["", "{}", "[\"A\", \"B\"]", "{\"a\" \"INTEGER\"}", "\"INTEGER", "\"a); DROP\"", "\"A\" 1"] {
            assert_eq!(transformed("j", wrong).unwrap_err().code(), Some("22023"), "{wrong}");
        }
        assert!(transformed("j", &format!("{}\"A\"{}", "[".repeat(100), "]".repeat(100))).is_err());
    }
}
