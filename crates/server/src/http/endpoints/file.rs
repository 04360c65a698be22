//! An endpoint as its file declares it.

use std::borrow::Cow;

use arrow::datatypes::DataType;
use axum::http::{Method, StatusCode};
use diligence_base::{Error, Result};
use diligence_db::{Isolation, Session, SqlType, bytes};

use super::super::placeholders::numbered;
use super::redirect::Redirect;
use crate::encoding::parameters::from_text;

/// Bytes of a request's body, if the file does not say. Parameters are values of a form, not uploads.
const BODY_BYTES_MAX: usize = 1 << 20;

/// An endpoint.
pub(in crate::http) struct Endpoint {
    pub(in crate::http) method: Method,
    /// Its path, beginning with a slash; a segment `{name}` is the parameter of that name.
    pub(in crate::http) path: String,
    pub(in crate::http) description: String,
    pub(in crate::http) parameters: Vec<Parameter>,
    pub(super) template: Option<String>,
    /// Where a browser goes on when something was changed.
    pub(super) redirect: Option<Redirect>,
    /// The status of an answer, if it is another one than usual.
    pub(in crate::http) status: Option<StatusCode>,
    pub(super) isolation: Isolation,
    /// Bytes that a request's body has at most.
    pub(super) body_bytes_max: usize,
    pub(super) statements: Vec<EndpointStatement>,
}

/// A statement of an endpoint.
pub(super) struct EndpointStatement {
    /// With `$1`, `$2`, … for its parameters.
    pub(super) sql: String,
    /// Which of the endpoint's parameters these are.
    pub(super) parameters: Vec<usize>,
}

/// A parameter of an endpoint.
#[derive(Debug, PartialEq)]
pub(in crate::http) struct Parameter {
    pub(in crate::http) name: String,
    pub(in crate::http) kind: Kind,
    /// Whether it is a list of such values.
    pub(in crate::http) is_list: bool,
    /// Its value if the request has none; `None` if it must have one.
    pub(in crate::http) default: Option<String>,
}

/// Types of parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum Kind {
    Text,
    Integer,
    Number,
    Boolean,
    Date,
    Timestamp,
}

impl Kind {
    const ALL: [Self; 6] = [Self::Text, Self::Integer, Self::Number, Self::Boolean, Self::Date, Self::Timestamp];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Date => "date",
            Self::Timestamp => "timestamp",
        }
    }

    /// The one of a name, its own or SQL's.
    fn named(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "text" | "string" | "varchar" => Self::Text,
            "integer" | "int" | "int2" | "int4" | "int8" | "smallint" | "bigint" => Self::Integer,
            "number" | "real" | "float" | "float4" | "float8" | "double" | "double precision" => Self::Number,
            "boolean" | "bool" => Self::Boolean,
            "date" => Self::Date,
            "timestamp" => Self::Timestamp,
            _ => return None,
        })
    }

    pub(super) fn sql_type(self) -> SqlType {
        match self {
            Self::Text => SqlType::Text,
            Self::Integer => SqlType::BigInt,
            Self::Number => SqlType::Double,
            Self::Boolean => SqlType::Boolean,
            Self::Date => SqlType::Date,
            Self::Timestamp => SqlType::Timestamp,
        }
    }
}

impl Endpoint {
    /// Reads a file's text. Fails with kind `Input` if it is no endpoint.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut endpoint = Self {
            method: Method::GET,
            path: String::new(),
            description: String::new(),
            parameters: Vec::new(),
            template: None,
            redirect: None,
            status: None,
            isolation: Isolation::ReadCommitted,
            body_bytes_max: BODY_BYTES_MAX,
            statements: Vec::new(),
        };
        for line in text.lines() {
            let Some(comment) = line.trim().strip_prefix("--") else { continue };
            let Some((key, value)) = comment.trim().split_once(':') else { continue };
            let value = value.trim();
            match key.trim() {
                "endpoint" => (endpoint.method, endpoint.path) = method_and_path(value)?,
                "description" => value.clone_into(&mut endpoint.description),
                "template" => endpoint.template = Some(value.to_owned()),
                "param" => endpoint.parameters.push(Parameter::parse(value)?),
                "redirect" => endpoint.redirect = Some(Redirect::parse(value)?),
                "status" => endpoint.status = Some(status(value)?),
                "isolation" => endpoint.isolation = isolation(value)?,
                "body" => {
                    endpoint.body_bytes_max = bytes(value).map_err(|error| error.context("-- body"))?;
                }
                _ => {}
            }
        }
        if endpoint.path.is_empty() {
            let error = Error::input("the file does not say which endpoint it is");
            return Err(error.with_hint("begin it with: -- endpoint: GET /api/name"));
        }
        endpoint.check_parameters()?;
        for statement in Session::split(text)? {
            let (sql, names) = numbered(&statement);
            let parameters = names.into_iter().map(|name| endpoint.place_of(name)).collect::<Result<_>>()?;
            endpoint.statements.push(EndpointStatement { sql, parameters });
        }
        endpoint.check_statements()?;
        Ok(endpoint)
    }

    /// Whether it answers what GET and HEAD ask, and changes nothing.
    pub(in crate::http) fn is_reading(&self) -> bool {
        self.method == Method::GET
    }

    /// The names of its path's parameters, in order.
    pub(in crate::http) fn path_parameters(&self) -> impl Iterator<Item = &str> {
        path_parameters(&self.path)
    }

    /// The text that listings show.
    pub(super) fn text(&self) -> String {
        self.statements.iter().map(|statement| statement.sql.as_str()).collect::<Vec<_>>().join(";\n")
    }

    fn place_of(&self, name: &str) -> Result<usize> {
        let place = self.parameters.iter().position(|parameter| parameter.name == name);
        place.ok_or_else(|| {
            Error::input(format!("${name} is not declared")).with_hint(format!("declare it: -- param: {name} text"))
        })
    }

    fn check_parameters(&self) -> Result<()> {
        for (index, parameter) in self.parameters.iter().enumerate() {
            if self.parameters[..index].iter().any(|other| other.name == parameter.name) {
                return Err(Error::input(format!("the parameter '{}' is declared twice", parameter.name)));
            }
        }
        let in_path = self.path_parameters().collect::<Vec<_>>();
        for (index, name) in in_path.iter().enumerate() {
            self.place_of(name)?;
            if in_path[..index].contains(name) {
                return Err(Error::input(format!("the path has {{{name}}} twice")));
            }
        }
        Ok(())
    }

    fn check_statements(&self) -> Result<()> {
        if self.redirect.is_some() && (self.is_reading() || self.template.is_some()) {
            let error =
                Error::input("a redirect is what a browser gets in place of a page, when something was changed");
            return Err(error.with_hint("leave out the redirect, or the template, or have POST in place of GET"));
        }
        match self.statements.len() {
            0 => Err(Error::input("the file has no statement")),
            1 => Ok(()),
            _ if self.is_reading() => {
                let error = Error::input("an endpoint for GET is one query");
                Err(error.with_hint("several statements are for POST, PUT, PATCH and DELETE"))
            }
            _ => Ok(()),
        }
    }
}

impl Parameter {
    /// `limit integer = 10`.
    fn parse(text: &str) -> Result<Self> {
        let wrong = || {
            let names = Kind::ALL.map(Kind::name).join(", ");
            Error::input(format!("'{text}' is no parameter")).with_hint(format!(
                "write it like: -- param: limit integer = 10; types are {names}, and lists: integer[]"
            ))
        };
        let (declared, default) = match text.split_once('=') {
            Some((declared, default)) => (declared, Some(default.trim().to_owned())),
            None => (text, None),
        };
        let mut words = declared.split_whitespace();
        let name = words.next().filter(|name| is_name(name)).ok_or_else(wrong)?;
        let declared = words.collect::<Vec<_>>().join(" ");
        let (element, is_list) = declared.strip_suffix("[]").map_or((&*declared, false), |element| (element, true));
        let kind = Kind::named(element.trim()).ok_or_else(wrong)?;
        let parameter = Self { name: name.to_owned(), kind, is_list, default };
        if let Some(default) = parameter.default.as_ref().filter(|default| !is_null(default, kind)) {
            let read = from_text(&parameter.literal(default), &parameter.sql_type());
            read.map_err(|error| error.context(format!("the default of '{name}'")))?;
        }
        Ok(parameter)
    }

    /// The type of its values.
    pub(super) fn sql_type(&self) -> SqlType {
        let element = self.kind.sql_type();
        if self.is_list { SqlType::array_of(element) } else { element }
    }

    /// The type of the arrays that hold its values.
    pub(super) fn data_type(&self) -> DataType {
        self.sql_type().arrow()
    }

    /// Its type as it is declared.
    pub(super) fn type_name(&self) -> String {
        format!("{}{}", self.kind.name(), if self.is_list { "[]" } else { "" })
    }

    /// A text as SQL reads it: of a list also `1,2,3` stands for `{1,2,3}`.
    pub(super) fn literal<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if !self.is_list || text.trim_start().starts_with('{') {
            return Cow::Borrowed(text);
        }
        if text.trim().is_empty() {
            return Cow::Borrowed("{}");
        }
        let elements = text.split(',').map(|element| match self.kind {
            Kind::Text => format!("\"{}\"", element.replace('\\', "\\\\").replace('"', "\\\"")),
            _ => element.to_owned(),
        });
        Cow::Owned(format!("{{{}}}", elements.collect::<Vec<_>>().join(",")))
    }
}

/// Whether a text stands for NULL. Of a text parameter it is a text.
pub(super) fn is_null(text: &str, kind: Kind) -> bool {
    kind != Kind::Text && text.eq_ignore_ascii_case("null")
}

fn is_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.chars().all(|character| character.is_ascii_alphanumeric() || character == '_')
        && name != "format"
}

fn method_and_path(text: &str) -> Result<(Method, String)> {
    let methods = [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
    let (word, path) = text.split_once(' ').unwrap_or((text, ""));
    let method = methods.into_iter().find(|method| method.as_str() == word);
    match (method, path.trim()) {
        (Some(method), path) if is_path(path) => Ok((method, path.to_owned())),
        _ => Err(Error::input(format!("'{text}' is no endpoint")).with_hint(
            "write it like: -- endpoint: GET /api/name, or POST, PUT, PATCH, DELETE; a parameter as /api/name/{id}",
        )),
    }
}

/// Segments of letters, digits and a few signs, or parameters; none of the server's own paths.
fn is_path(path: &str) -> bool {
    let plain = |character: char| character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '.');
    let own = ["/v1/", "/console/", "/metrics", "/healthz", "/readyz", "/openapi.json"];
    let Some(segments) = path.strip_prefix('/').filter(|rest| !rest.is_empty()) else { return false };
    let first = segments.split('/').next().unwrap_or_default();
    let is_segment = |segment: &str| segment.chars().all(plain) || parameter_of(segment).is_some_and(is_name);
    // What begins with a parameter could stand for a path of the server's own.
    parameter_of(first).is_none() && segments.split('/').all(is_segment) && !own.iter().any(|own| path.starts_with(own))
}

fn parameter_of(segment: &str) -> Option<&str> {
    segment.strip_prefix('{')?.strip_suffix('}')
}

fn path_parameters(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(parameter_of)
}

fn status(text: &str) -> Result<StatusCode> {
    let status = text.parse::<u16>().ok().and_then(|number| StatusCode::from_u16(number).ok());
    status.filter(StatusCode::is_success).ok_or_else(|| {
        Error::input(format!("'{text}' is no status of an answer")).with_hint("write it like: -- status: 201")
    })
}

fn isolation(text: &str) -> Result<Isolation> {
    super::super::isolation(text).ok_or_else(|| {
        Error::input(format!("'{text}' is no isolation"))
            .with_hint("it is one of: read committed, repeatable read, serializable")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "-- endpoint: GET /api/top\n-- description: The best\n-- param: region text\n\
                        -- param: limit integer = 10\nSELECT '$no', \"$no\" FROM t WHERE r = $region LIMIT $limit -- $no";

    #[test]
    fn a_file_declares_its_endpoint() {
        let endpoint = Endpoint::parse(FILE).unwrap();
        assert_eq!((endpoint.path.as_str(), endpoint.description.as_str()), ("/api/top", "The best"));
        let [statement] = endpoint.statements.as_slice() else { panic!("one statement") };
        assert!(statement.sql.ends_with("SELECT '$no', \"$no\" FROM t WHERE r = $1 LIMIT $2 -- $no"));
        assert_eq!(statement.parameters, [0, 1]);
        assert!(endpoint.is_reading());
    }

    #[test]
    fn a_script_has_statements_with_their_own_parameters() {
        let endpoint = Endpoint::parse(
            "-- endpoint: PUT /api/items/{id}/price\n-- param: id integer\n-- param: price number = null\n\
             -- status: 202\n-- isolation: Repeatable  Read\n-- body: 8kB\n\
             UPDATE items SET price = $price WHERE id = $id AND name <> 'a;b';\n\
             -- What was done.\nINSERT INTO log VALUES ($id, $id);",
        )
        .unwrap();
        assert_eq!(endpoint.method, Method::PUT);
        assert_eq!(endpoint.path_parameters().collect::<Vec<_>>(), ["id"]);
        let places = endpoint.statements.iter().map(|statement| statement.parameters.clone()).collect::<Vec<_>>();
        assert_eq!(places, [vec![1, 0], vec![0]]);
        assert!(endpoint.statements[1].sql.ends_with("INSERT INTO log VALUES ($1, $1)"));
        assert_eq!((endpoint.status, endpoint.body_bytes_max), (Some(StatusCode::ACCEPTED), 8 << 10));
        assert_eq!(endpoint.isolation, Isolation::RepeatableRead);
    }

    #[test]
    fn types_have_sql_s_names_too_and_there_are_lists() {
        let parsed = |text: &str| Parameter::parse(text).map(|parameter| parameter.type_name());
        for (text, expected) in [
            ("a int", "integer"),
            ("a BIGINT = 3", "integer"),
            ("a double precision", "number"),
            ("a varchar[]", "text[]"),
            ("a int[] = 1,2", "integer[]"),
            ("a int[] = {1,NULL}", "integer[]"),
            ("a date[] =", "date[]"),
        ] {
            assert_eq!(parsed(text).unwrap(), expected, "{text}");
        }
        for wrong in ["a int default 3", "a int[][]", "a json", "a int[] = x", "a", "a []"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
        let texts = Parameter::parse("a text[]").unwrap();
        assert_eq!(texts.literal("x \"y\",b\\c"), "{\"x \\\"y\\\"\",\"b\\\\c\"}");
    }

    #[test]
    fn mistakes_in_files_are_told_at_the_start() {
        for wrong in [
            "SELECT 1",
            "-- endpoint: TRACE /api/x\nSELECT 1",
            "-- endpoint: POST\nSELECT 1",
            "-- endpoint: GET /v1/sql\nSELECT 1",
            "-- endpoint: POST /v1/x\nSELECT 1",
            "-- endpoint: GET /api/{x}\nSELECT 1",
            "-- endpoint: GET /{x}/api\n-- param: x text\nSELECT $x",
            "-- endpoint: GET /api/{x}/{x}\n-- param: x text\nSELECT $x",
            "-- endpoint: GET /api/a{x}\n-- param: x text\nSELECT $x",
            "-- endpoint: GET /api/x\nSELECT $undeclared",
            "-- endpoint: GET /api/x\nSELECT 1; SELECT 2",
            "-- endpoint: POST /api/x\n-- nothing",
            "-- endpoint: POST /api/x\nSELECT 'open",
            "-- endpoint: POST /api/x\n-- status: 404\nSELECT 1",
            "-- endpoint: POST /api/x\n-- isolation: chaos\nSELECT 1",
            "-- endpoint: POST /api/x\n-- body: much\nSELECT 1",
            "-- endpoint: POST /api/x\n-- redirect: https://elsewhere.example/\nSELECT 1",
            "-- endpoint: POST /api/x\n-- redirect: //elsewhere.example/\nSELECT 1",
            "-- endpoint: POST /api/x\n-- redirect: /a{b\nSELECT 1",
            "-- endpoint: GET /api/x\n-- redirect: /a\nSELECT 1",
            "-- endpoint: POST /api/x\n-- redirect: /a\n-- template: a.html\nSELECT 1",
            "-- endpoint: GET /api/x\n-- param: a json\nSELECT $a",
            "-- endpoint: GET /api/x\n-- param: a integer = ten\nSELECT $a",
            "-- endpoint: GET /api/x\n-- param: a text\n-- param: a text\nSELECT $a",
        ] {
            assert!(Endpoint::parse(wrong).is_err(), "{wrong}");
        }
    }
}
