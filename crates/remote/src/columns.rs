//! Which type a column of a server has here, and how its values come.

use diligence_types::SqlType;
use diligence_types::network_type::NetworkKind;
use diligence_types::search_type::SearchKind;
use diligence_types::sql_type::OidKind;

/// How the values of a column come in the binary form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// One byte.
    Boolean,
    /// Integers of so many bytes, in network order.
    Int2,
    Int4,
    Int8,
    /// An unsigned one of four bytes.
    Oid,
    Float4,
    Float8,
    /// Digits to the base of 10,000.
    Numeric,
    /// Bytes of a text.
    Text,
    /// The same with blanks behind it, which count for nothing.
    Padded,
    /// A text behind the number of its version.
    Jsonb,
    Bytea,
    /// Days since 2000.
    Date,
    /// Microseconds since midnight.
    Time,
    /// Microseconds since 2000.
    Timestamp,
    /// Microseconds, days and months.
    Interval,
    /// Sixteen bytes.
    Uuid,
    /// An array of one dimension.
    Array(Box<Form>),
}

/// A column of a table or a query at a server.
#[derive(Clone, Debug)]
pub(crate) struct RemoteColumn {
    /// Its name.
    pub name: String,
    /// Its name in SQL there.
    pub quoted: String,
    /// Its type here.
    pub sql_type: SqlType,
    /// How its values come.
    pub form: Form,
    /// The type that it is cast to there, so that its values come in that form.
    pub cast: Option<&'static str>,
}

impl RemoteColumn {
    /// A column of a type by PostgreSQL's name of it (`format_type`). Only names of PostgreSQL's own types mean what
    /// they mean here; of all others the texts are taken, of which an array has some.
    pub fn new(name: &str, quoted: String, type_name: &str, is_own: bool, is_array: bool) -> Self {
        let known = if is_own { type_of(type_name) } else { None };
        let is_known = known.is_some();
        let sql_type = known.unwrap_or(if is_array { SqlType::array_of(SqlType::Text) } else { SqlType::Text });
        let form = form_of(&sql_type, if is_known { type_name } else { "" });
        let cast = match (&form, is_array) {
            (Some(_), _) => None,
            (None, true) => Some("text[]"),
            (None, false) => Some("text"),
        };
        let form = form.unwrap_or(if is_array { Form::Array(Box::new(Form::Text)) } else { Form::Text });
        Self { name: name.to_owned(), quoted, sql_type, form, cast }
    }

    /// What gives its values, in SQL of the server.
    pub fn selected(&self) -> String {
        const INET: SqlType = SqlType::Network(NetworkKind::Inet);
        let quoted = &self.quoted;
        match (self.cast, &self.sql_type) {
            // A cast of an address writes the length of its mask in any case, its output does not.
            (Some(_), told) if *told == INET => format!("pg_catalog.textin(pg_catalog.inet_out({quoted}))"),
            (Some(cast), SqlType::Array(element)) if **element == INET => {
                format!("pg_catalog.textin(pg_catalog.array_out({quoted}))::pg_catalog.{cast}")
            }
            (Some(cast), _) => format!("{quoted}::pg_catalog.{cast}"),
            (None, _) => quoted.clone(),
        }
    }
}

/// The type here of one of PostgreSQL's own types.
fn type_of(name: &str) -> Option<SqlType> {
    if let Some(element) = name.strip_suffix("[]") {
        return type_of(element).map(SqlType::array_of);
    }
    match SqlType::parse(name) {
        // Scales that decimals do not have here.
        Some(SqlType::Numeric(Some((precision, scale)))) if scale < 0 || scale as u8 > precision => {
            Some(SqlType::NUMERIC)
        }
        None if name.starts_with("numeric(") => Some(SqlType::NUMERIC),
        // `interval day to second`.
        None if name.starts_with("interval") => Some(SqlType::Interval),
        Some(SqlType::Oid(kind)) if kind != OidKind::Oid => None,
        Some(
            SqlType::Search(SearchKind::Configuration | SearchKind::Dictionary) | SqlType::Unknown | SqlType::Void,
        ) => None,
        known => known,
    }
}

/// How values of a type come as they are; `None` if they have to be texts.
fn form_of(sql_type: &SqlType, type_name: &str) -> Option<Form> {
    Some(match sql_type {
        SqlType::Boolean => Form::Boolean,
        SqlType::SmallInt => Form::Int2,
        SqlType::Integer => Form::Int4,
        SqlType::BigInt => Form::Int8,
        SqlType::Oid(OidKind::Oid) => Form::Oid,
        SqlType::Real => Form::Float4,
        SqlType::Double => Form::Float8,
        SqlType::Numeric(_) => Form::Numeric,
        // What is a text here may be anything there.
        SqlType::Text if !type_name.starts_with("text") => return None,
        SqlType::Text | SqlType::Varchar(_) | SqlType::Name | SqlType::Json => Form::Text,
        SqlType::Char(_) => Form::Padded,
        SqlType::Jsonb => Form::Jsonb,
        SqlType::Bytea => Form::Bytea,
        SqlType::Date => Form::Date,
        SqlType::Time => Form::Time,
        SqlType::Timestamp | SqlType::TimestampTz => Form::Timestamp,
        SqlType::Interval => Form::Interval,
        SqlType::Uuid => Form::Uuid,
        SqlType::Array(element) => match form_of(element, type_name)? {
            Form::Array(_) => return None,
            form => Form::Array(Box::new(form)),
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_what_they_are_there() {
        for (name, is_array, sql_type, form, cast) in [
            ("integer", false, "integer", Form::Int4, None),
            ("numeric(10,2)", false, "numeric(10,2)", Form::Numeric, None),
            ("numeric(100,2)", false, "numeric", Form::Numeric, None),
            ("numeric(2,-3)", false, "numeric", Form::Numeric, None),
            ("character varying(5)[]", true, "character varying[]", Form::Array(Box::new(Form::Text)), None),
            ("timestamp with time zone", false, "timestamp with time zone", Form::Timestamp, None),
            ("bit(3)", false, "bit(3)", Form::Text, Some("text")),
            ("int4range", false, "int4range", Form::Text, Some("text")),
            ("inet[]", true, "inet[]", Form::Array(Box::new(Form::Text)), Some("text[]")),
            ("money", false, "text", Form::Text, Some("text")),
            ("xml[]", true, "text[]", Form::Array(Box::new(Form::Text)), Some("text[]")),
            ("text", false, "text", Form::Text, None),
            ("regclass", false, "text", Form::Text, Some("text")),
            ("character(5)", false, "character", Form::Padded, None),
            ("\"char\"", false, "text", Form::Text, Some("text")),
        ] {
            let column = RemoteColumn::new("a", "\"a\"".to_owned(), name, true, is_array);
            let told = column.sql_type.to_string().replace("(5)", "");
            assert_eq!((told.as_str(), column.form, column.cast), (sql_type, form, cast), "{name}");
        }
        let column = RemoteColumn::new("a", "\"a\"".to_owned(), "inet", true, false);
        assert_eq!(column.selected(), "pg_catalog.textin(pg_catalog.inet_out(\"a\"))");
        // A type of the user's own that has a name of ours.
        let column = RemoteColumn::new("a", "\"a\"".to_owned(), "integer", false, false);
        assert_eq!((column.sql_type.clone(), column.selected().as_str()), (SqlType::Text, "\"a\"::pg_catalog.text"));
    }
}
