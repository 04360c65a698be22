//! `typeof(x)`: a type as DuckDB writes it, which differs from PostgreSQL's `pg_typeof`.

use diligence_types::SqlType;
use diligence_types::network_type::NetworkKind;
use diligence_types::sql_type::RecordField;

use crate::quoting::{literal, quoted};

/// A type by DuckDB's name. Types that DuckDB does not have keep PostgreSQL's names, in capitals.
pub(super) fn duckdb_name(sql_type: &SqlType) -> String {
    let name = match sql_type {
        SqlType::Unknown => "\"NULL\"",
        SqlType::Real => "FLOAT",
        SqlType::Double => "DOUBLE",
        SqlType::Text | SqlType::Varchar(_) | SqlType::Char(_) | SqlType::Name => "VARCHAR",
        SqlType::Bytea => "BLOB",
        SqlType::Bit(_) | SqlType::VarBit(_) => "BIT",
        SqlType::Time => "TIME",
        SqlType::Timestamp => "TIMESTAMP",
        SqlType::Json | SqlType::Jsonb => "JSON",
        SqlType::Network(NetworkKind::Inet) => "INET",
        SqlType::Numeric(None) => "DECIMAL",
        SqlType::Numeric(Some((precision, scale))) => return format!("DECIMAL({precision},{scale})"),
        SqlType::Array(element) => return format!("{}[]", duckdb_name(element)),
        SqlType::Map(pair) => return format!("MAP({}, {})", duckdb_name(&pair.0), duckdb_name(&pair.1)),
        SqlType::Record(fields) => {
            // The fields of `row(…)` have no names there.
            let is_row = fields.is_row() && fields.composite_name().is_none();
            let field = |own: &RecordField| match is_row {
                true => duckdb_name(&own.sql_type),
                false => format!("{} {}", field_name(&own.name), duckdb_name(&own.sql_type)),
            };
            let fields = fields.iter().map(field).collect::<Vec<_>>();
            return format!("STRUCT({})", fields.join(", "));
        }
        SqlType::Enum(one) => {
            let labels = one.labels.iter().map(|label| literal(label)).collect::<Vec<_>>();
            return format!("ENUM({})", labels.join(", "));
        }
        SqlType::Domain(one) => return duckdb_name(&one.base),
        SqlType::Timed(one) => return duckdb_name(&one.base),
        SqlType::Collated(one) => return duckdb_name(&one.base),
        other => return other.to_string().to_uppercase(),
    };
    name.to_owned()
}

/// A field's name, in quotes where it is not a plain name.
fn field_name(name: &str) -> String {
    let is_plain = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    if is_plain { name.to_owned() } else { quoted(name) }
}
