//! Literals and the names of types.

use arrow::datatypes::{IntervalMonthDayNano, i256};
use datafusion_common::ScalarValue;
use diligence_base::{Error, Result};
use diligence_types::enum_type::EnumType;
use diligence_types::functions::has_function;
use diligence_types::search::SearchKind;
use diligence_types::sql_type::{OidKind, RecordField};
use diligence_types::{SqlType, text};
use sqlparser::ast::{
    ArrayElemTypeDef, CharacterLength, DataType, DateTimeField, EnumMember, ExactNumberInfo, Expr, Interval,
    TimezoneInfo, Value,
};

use super::{Binder, normalized, place, placed, unsupported};
use crate::algebra::{Constant, Scalar};
use crate::procedural;

/// Digits of a number's literal at most.
const NUMBER_DIGITS_MAX: usize = 76;

impl Binder<'_> {
    /// A literal. Quoted ones have no type yet. Fails with 22003 for a number that is too long, `Unsupported` for kinds
    /// of literals that there are not.
    pub(super) fn literal(&self, value: &Value) -> Result<Scalar> {
        Ok(Scalar::Constant(match value {
            Value::Number(text, _) => number(text, false)?,
            Value::Boolean(value) => Constant::boolean(*value),
            Value::Null => Constant { value: ScalarValue::Utf8View(None), sql_type: SqlType::Unknown },
            Value::Placeholder(name) => return self.placeholder(name),
            Value::SingleQuotedString(text)
            | Value::EscapedStringLiteral(text)
            | Value::UnicodeStringLiteral(text)
            | Value::NationalStringLiteral(text)
            | Value::TripleSingleQuotedString(text)
            | Value::DoubleQuotedString(text)
            | Value::SingleQuotedRawStringLiteral(text) => unknown(text),
            Value::DollarQuotedString(text) => unknown(&text.value),
            other => match bits(other)? {
                Some(bits) => Constant { value: ScalarValue::Utf8View(Some(bits)), sql_type: SqlType::Bit(None) },
                None => return Err(unsupported(format!("the literal {other}"))),
            },
        }))
    }

    /// `$1`: a parameter, or an argument of the function that is being put in.
    fn placeholder(&self, name: &str) -> Result<Scalar> {
        if name == super::lists::LIST
            && let Some(list) = self.lists.borrow().last()
        {
            return Ok(list.clone());
        }
        let number = procedural::number_of(name).filter(|number| *number > 0);
        let Some(index) = number.map(|number| number - 1) else {
            return Err(Error::input(format!("there is no parameter {name}")).with_code("42P02"));
        };
        if let Some(arguments) = self.templates.borrow().last() {
            return Ok(arguments
                .get(index)
                .cloned()
                .unwrap_or_else(|| Scalar::Constant(Constant::null(SqlType::Text))));
        }
        let mut parameters = self.parameters.borrow_mut();
        if parameters.len() <= index {
            parameters.resize(index + 1, None);
        }
        if parameters[index].is_none() {
            parameters[index] = self.context.parameter(index).filter(|sql_type| *sql_type != SqlType::Unknown);
        }
        let sql_type = parameters[index].clone().unwrap_or(SqlType::Unknown);
        Ok(Scalar::Parameter { index, sql_type })
    }

    /// The value of a type that a text stands for. Fails with 22P02, 22007, 22008 or 22003 if it stands for none.
    pub(super) fn read_literal(&self, text: &str, to: &SqlType, is_explicit: bool) -> Result<Scalar> {
        let zone = self.context.zone();
        let constant = |value| Scalar::Constant(Constant { value, sql_type: to.clone() });
        match to {
            SqlType::Text | SqlType::Unknown | SqlType::Varchar(None) | SqlType::Char(None) => {
                Ok(constant(ScalarValue::Utf8View(Some(text.to_owned()))))
            }
            // What is cut or refused, and padded or not, is the cast's.
            SqlType::Varchar(_) | SqlType::Char(_) | SqlType::Name => {
                Ok(Scalar::Constant(Constant::text(text)).cast(to.clone(), is_explicit))
            }
            SqlType::Bit(Some(_)) | SqlType::VarBit(Some(_)) => {
                let any = to.without_modifier();
                let value = text::parse(text, &any, zone)?;
                Ok(Scalar::Constant(Constant { value, sql_type: any }).cast(to.clone(), is_explicit))
            }
            SqlType::Array(element)
                if matches!(
                    **element,
                    SqlType::Varchar(Some(_))
                        | SqlType::Char(Some(_))
                        | SqlType::Bit(Some(_))
                        | SqlType::VarBit(Some(_))
                ) =>
            {
                let any = SqlType::array_of(element.without_modifier());
                let value = text::parse(text, &any, zone)?;
                Ok(Scalar::Constant(Constant { value, sql_type: any }).cast(to.clone(), is_explicit))
            }
            SqlType::Numeric(None) => match number(text.trim(), false) {
                // With the digits behind the point that it is written with.
                Ok(number) if matches!(number.sql_type, SqlType::Numeric(Some(_))) => Ok(Scalar::Constant(number)),
                Ok(number) => Ok(Scalar::Constant(number).cast(SqlType::NUMERIC, is_explicit)),
                Err(_) => Ok(constant(text::parse(text, to, zone)?)),
            },
            SqlType::Oid(kind) if *kind != OidKind::Oid => self.object(text, *kind),
            SqlType::Date | SqlType::Time | SqlType::Timestamp | SqlType::TimestampTz => {
                match self.relative(text, to) {
                    Some(scalar) => Ok(scalar),
                    None => self.at_time(text, to).map(constant),
                }
            }
            _ => Ok(constant(text::parse(text, to, zone)?)),
        }
    }

    /// `now`, `today`, `tomorrow`, `yesterday`: texts whose value is the transaction's.
    fn relative(&self, text: &str, to: &SqlType) -> Option<Scalar> {
        let days = match text.trim().to_ascii_lowercase().as_str() {
            "now" => None,
            "today" => Some(0),
            "tomorrow" => Some(1),
            "yesterday" => Some(-1),
            _ => return None,
        };
        let now = self.now();
        let Some(days) = days else { return Some(now.cast(to.clone(), true)) };
        let today = now.cast(SqlType::Date, true);
        let day = match days {
            0 => today,
            days => self.operator("+", vec![today, Scalar::Constant(Constant::integer(days))]).ok()?,
        };
        Some(day.cast(to.clone(), true))
    }

    /// The time that a text says, which may have `today` or `now` among other words: `tomorrow 16:00`.
    fn at_time(&self, text: &str, to: &SqlType) -> Result<ScalarValue> {
        let zone = self.context.zone();
        match text::parse(text, to, zone) {
            // It depends on the time.
            Err(error) if error.code() == Some("0A000") => {
                self.is_transient.set(true);
                let zone = text::Zone::of_setting(zone)?;
                let options = text::ReadOptions { zone, now: Some(self.context.now()), ..Default::default() };
                text::parse_with(text, to, &options)
            }
            other => other,
        }
    }

    /// The time of the transaction's begin.
    pub(super) fn now(&self) -> Scalar {
        if let Some(index) = self.context.now_parameter() {
            let mut parameters = self.parameters.borrow_mut();
            let count = parameters.len().max(index + 1);
            parameters.resize(count, None);
            parameters[index] = Some(SqlType::TimestampTz);
            return Scalar::Parameter { index, sql_type: SqlType::TimestampTz };
        }
        self.is_transient.set(true);
        Scalar::Constant(Constant { value: instant(self.context.now()), sql_type: SqlType::TimestampTz })
    }

    /// The time of the statement's begin.
    pub(super) fn statement_time(&self) -> Scalar {
        self.is_transient.set(true);
        Scalar::Constant(Constant { value: instant(self.context.statement_time()), sql_type: SqlType::TimestampTz })
    }

    /// `'t'::regclass`: the number of what has a name.
    pub(super) fn object(&self, name: &str, kind: OidKind) -> Result<Scalar> {
        let sql_type = SqlType::Oid(kind);
        let oid = match name.trim().parse::<i64>() {
            Ok(oid) => Some(oid),
            Err(_) if name == "-" => Some(0),
            Err(_) if matches!(kind, OidKind::Procedure | OidKind::Signature) => {
                self.is_transient.set(true);
                let found = self.context.routine_number(name, kind)?;
                // Columns of the catalog have PostgreSQL's own functions by their names.
                let bare = name.rsplit('.').next().unwrap_or(name);
                if found.is_none() && kind == OidKind::Procedure && is_of_postgres(bare) {
                    return Ok(Scalar::Constant(Constant::text(bare)));
                }
                found
            }
            Err(_) => {
                // What has the name may be something else the next time.
                self.is_transient.set(true);
                self.context.object(kind, name)
            }
        };
        let (what, code) = match kind {
            OidKind::Class => ("relation", "42P01"),
            OidKind::Type => ("type", "42704"),
            OidKind::Procedure | OidKind::Signature => ("function", "42883"),
            OidKind::Oid | OidKind::Namespace => ("schema", "3F000"),
            OidKind::Role => ("role", "42704"),
        };
        match oid {
            Some(oid) => Ok(Scalar::Constant(Constant { value: ScalarValue::Int64(Some(oid)), sql_type })),
            None => Err(Error::input(format!("{what} \"{name}\" does not exist")).with_code(code)),
        }
    }

    /// The number of what has a name, NULL if nothing has it. Fails with 0A000 for a name that is no literal.
    pub(super) fn object_or_null(&self, name: &Scalar, kind: OidKind) -> Result<Scalar> {
        let null = || Scalar::Constant(Constant::null(SqlType::Oid(kind)));
        let text = match name {
            Scalar::Constant(constant) if constant.is_null() => return Ok(null()),
            Scalar::Constant(constant) => constant.value.try_as_str().flatten(),
            _ => None,
        };
        let Some(text) = text else {
            let error = Error::unsupported("a name that is not known when the statement is planned").with_code("0A000");
            return Err(error.with_hint("write the name as a literal"));
        };
        match self.object(text, kind) {
            Err(error) if matches!(error.code(), Some("42704" | "42883" | "42725" | "3F000")) => Ok(null()),
            found => found,
        }
    }

    /// INTERVAL '…' with fields behind it. Fails with 22007 if the text is no interval.
    pub(super) fn interval(&self, interval: &Interval, level: &super::Level<'_>) -> Result<Scalar> {
        let value = match interval.value.as_ref() {
            Expr::Value(value) => match &value.value {
                Value::Number(number, _) => unknown(number),
                other => match self.literal(other)? {
                    Scalar::Constant(constant) => constant,
                    _ => return self.computed_interval(interval, level),
                },
            },
            _ => return self.computed_interval(interval, level),
        };
        let text = value.value.try_as_str().flatten().unwrap_or_default().to_owned();
        let at = || place(interval.value.as_ref());
        // The last field names the unit of a number alone: INTERVAL '3' HOUR.
        let unit = interval.last_field.as_ref().or(interval.leading_field.as_ref());
        let is_number = text.trim().parse::<f64>().is_ok();
        let text = match unit {
            Some(unit) if is_number => {
                let (name, times) = unit_name(unit)?;
                let number = text.trim().parse::<f64>().unwrap_or_default() * f64::from(times);
                if times == 1 { format!("{} {name}", text.trim()) } else { format!("{number} {name}") }
            }
            Some(unit) => with_fields(&text, interval.leading_field.as_ref(), unit),
            None => text,
        };
        let value = text::parse(&text, &SqlType::Interval, self.context.zone()).map_err(|error| placed(error, at))?;
        let is_text =
            matches!(interval.value.as_ref(), Expr::Value(value) if !matches!(value.value, Value::Number(..)));
        let value = match unit {
            Some(last) if is_text => up_to(value, last),
            _ => value,
        };
        let value = Scalar::Constant(Constant { value, sql_type: SqlType::Interval });
        let digits = interval.fractional_seconds_precision.or(interval.leading_precision).filter(|digits| *digits < 6);
        self.with_seconds_digits(value, digits.and_then(|digits| i32::try_from(digits).ok()))
    }

    /// `INTERVAL x DAY`, as DuckDB has it: so many times one of the unit.
    fn computed_interval(&self, interval: &Interval, level: &super::Level<'_>) -> Result<Scalar> {
        let value = self.scalar(&interval.value, level)?;
        let Some(unit) = &interval.leading_field else { return self.explicit(value, &SqlType::Interval, false) };
        let (name, times) = unit_name(unit)?;
        let one = text::parse(&format!("{times} {name}"), &SqlType::Interval, self.context.zone())?;
        let one = Scalar::Constant(Constant { value: one, sql_type: SqlType::Interval });
        let count = self.explicit(value, &SqlType::Double, false)?;
        self.operator("*", vec![count, one])
    }

    /// The type of what an array, a struct or a map has in it. Fails like [`sql_type`](Self::sql_type), and with 0A000
    /// for a domain, whose demands nothing would look at there.
    fn part_type(&self, data_type: &DataType) -> Result<SqlType> {
        match self.sql_type(data_type)? {
            SqlType::Domain(domain) => {
                let message = format!("the domain {domain} inside of another type is not supported");
                Err(Error::unsupported(message).with_code("0A000").with_hint("use its base type there"))
            }
            other => Ok(other),
        }
    }

    /// The type of a name. Fails with 42704 if there is none, 22023 for numbers in its parentheses that it cannot have.
    pub(super) fn sql_type(&self, data_type: &DataType) -> Result<SqlType> {
        let found = match data_type {
            DataType::Array(
                ArrayElemTypeDef::SquareBracket(element, _)
                | ArrayElemTypeDef::AngleBracket(element)
                | ArrayElemTypeDef::Parenthesis(element),
            ) => return Ok(SqlType::array_of(self.part_type(element)?)),
            DataType::Map(key, value) => {
                return Ok(SqlType::Map(std::sync::Arc::new((self.part_type(key)?, self.part_type(value)?))));
            }
            DataType::Struct(fields, _) | DataType::Tuple(fields) => {
                let field = |(index, field): (usize, &sqlparser::ast::StructField)| {
                    let name = field.field_name.as_ref().map_or_else(|| format!("f{}", index + 1), normalized);
                    Ok(RecordField { name, sql_type: self.part_type(&field.field_type)? })
                };
                return Ok(SqlType::Record(fields.iter().enumerate().map(field).collect::<Result<_>>()?));
            }
            DataType::Nullable(inner) | DataType::LowCardinality(inner) => return self.sql_type(inner),
            DataType::Enum(members, None) => {
                let labels = members.iter().filter_map(|member| match member {
                    EnumMember::Name(label) => Some(label.clone()),
                    EnumMember::NamedValue(..) => None,
                });
                return EnumType::inline(labels.collect()).map(|one| SqlType::Enum(std::sync::Arc::new(one)));
            }
            DataType::Custom(name, modifiers) => {
                let last = name.0.last().and_then(|part| part.as_ident()).map(normalized).unwrap_or_default();
                let numbers = modifiers.iter().map(|modifier| modifier.trim().parse::<i32>().ok());
                let known = match numbers.collect::<Option<Vec<_>>>() {
                    Some(numbers) => match last.as_str() {
                        "hugeint" | "int128" => Some(SqlType::decimal(38, 0)),
                        "uhugeint" | "uint128" => Some(SqlType::decimal(39, 0)),
                        "ubigint" | "uint64" => Some(SqlType::decimal(20, 0)),
                        "uinteger" | "uint32" => Some(SqlType::BigInt),
                        "usmallint" | "uint16" => Some(SqlType::Integer),
                        "utinyint" | "uint8" => Some(SqlType::SmallInt),
                        "bitstring" => Some(SqlType::VarBit(None)),
                        last => match last.strip_prefix('_').and_then(|element| SqlType::named(element, &[])) {
                            Some(element) => Some(SqlType::array_of(element)),
                            None => SqlType::named(last, &numbers),
                        },
                    },
                    None => None,
                };
                match known {
                    None if modifiers.is_empty() => self.context.made_type(name)?,
                    known => known,
                }
            }
            other => plain_type(other),
        };
        found.as_ref().map_or(Ok(()), check_length)?;
        found.ok_or_else(|| {
            let name = data_type.to_string().to_lowercase();
            if name.starts_with("numeric(") || name.starts_with("decimal(") {
                return Error::input(format!("{name} is no type: at most 76 digits are held")).with_code("22023");
            }
            Error::input(format!("type \"{name}\" does not exist")).with_code("42704")
        })
    }
}

/// Characters or bits that a column holds at most, as in PostgreSQL.
const LENGTH_MAX: u32 = 10_485_760;

/// Fails with 22023 for a type of values that would have no length, or a greater one than any may have.
fn check_length(sql_type: &SqlType) -> Result<()> {
    let (name, length, most) = match sql_type {
        SqlType::Varchar(Some(length)) => ("varchar", *length, LENGTH_MAX),
        SqlType::Char(Some(length)) => ("char", *length, LENGTH_MAX),
        SqlType::Bit(Some(length)) => ("bit", *length, 8 * LENGTH_MAX),
        SqlType::VarBit(Some(length)) => ("varbit", *length, 8 * LENGTH_MAX),
        _ => return Ok(()),
    };
    let message = match length {
        0 => format!("length for type {name} must be at least 1"),
        length if length > most => format!("length for type {name} cannot exceed {most}"),
        _ => return Ok(()),
    };
    Err(Error::input(message).with_code("22023"))
}

/// Whether a name is like that of a function of PostgreSQL's that columns of the catalog name.
fn is_of_postgres(name: &str) -> bool {
    let ends = ["in", "out", "recv", "send", "handler", "typanalyze"];
    ends.iter().any(|end| name.ends_with(end)) || has_function(name)
}

/// The bits of `b'101'` and `x'1F'`. Fails with 22P02 for other digits.
fn bits(value: &Value) -> Result<Option<String>> {
    let invalid =
        |digit: char, kind: &str| Error::input(format!("\"{digit}\" is not a valid {kind} digit")).with_code("22P02");
    match value {
        Value::SingleQuotedByteStringLiteral(text) => match text.chars().find(|digit| !matches!(digit, '0' | '1')) {
            Some(digit) => Err(invalid(digit, "binary")),
            None => Ok(Some(text.clone())),
        },
        Value::HexStringLiteral(text) => {
            let digits = text.chars().map(|digit| match digit.to_digit(16) {
                Some(value) => Ok(format!("{value:04b}")),
                None => Err(invalid(digit, "hexadecimal")),
            });
            digits.collect::<Result<String>>().map(Some)
        }
        _ => Ok(None),
    }
}

/// A quoted literal, of no type yet.
pub(super) fn unknown(text: &str) -> Constant {
    Constant { value: ScalarValue::Utf8View(Some(text.to_owned())), sql_type: SqlType::Unknown }
}

/// A number as PostgreSQL types it: `integer`, `bigint`, or `numeric` with the digits that are written; one of more
/// digits than a `numeric` holds is a `double precision`. Fails with 22003 if it is none of these.
pub(super) fn number(text: &str, is_negative: bool) -> Result<Constant> {
    let digits = text.replace('_', "");
    let signed = if is_negative { format!("-{digits}") } else { digits };
    if let Ok(value) = signed.parse::<i64>() {
        return Ok(i32::try_from(value).map_or_else(|_| Constant::bigint(value), Constant::integer));
    }
    if let Some(constant) = decimal(&signed) {
        return Ok(constant);
    }
    match signed.parse::<f64>() {
        Ok(value) if value.is_finite() => {
            Ok(Constant { value: ScalarValue::Float64(Some(value)), sql_type: SqlType::Double })
        }
        _ => Err(Error::input(format!("the number {text} is out of range")).with_code("22003")),
    }
}

/// A number with a point or an exponent, or of many digits.
fn decimal(text: &str) -> Option<Constant> {
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (unsigned, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() || !(whole.chars().chain(fraction.chars())).all(|c| c.is_ascii_digit()) {
        return None;
    }
    let scale = i32::try_from(fraction.len()).ok()?.checked_sub(exponent)?;
    let mut digits = format!("{whole}{fraction}");
    if scale < 0 {
        if scale < -(NUMBER_DIGITS_MAX as i32) {
            return None;
        }
        digits.push_str(&"0".repeat(scale.unsigned_abs() as usize));
    }
    let scale = scale.max(0);
    let digits = digits.trim_start_matches('0');
    let precision = digits.len().max(usize::try_from(scale).ok()?).max(1);
    if precision > NUMBER_DIGITS_MAX || scale > NUMBER_DIGITS_MAX as i32 {
        return None;
    }
    let (precision, scale) = (u8::try_from(precision).ok()?, i8::try_from(scale).ok()?);
    let digits = if digits.is_empty() { "0" } else { digits };
    let signed = format!("{sign}{digits}");
    let value = if precision <= 38 {
        ScalarValue::Decimal128(Some(signed.parse().ok()?), precision, scale)
    } else {
        ScalarValue::Decimal256(Some(i256::from_string(&signed)?), precision, scale)
    };
    Some(Constant { value, sql_type: SqlType::decimal(precision, scale) })
}

/// A type without types in it, by the name that the parser has for it.
fn plain_type(data_type: &DataType) -> Option<SqlType> {
    let length = |length: &Option<CharacterLength>| match length {
        None | Some(CharacterLength::Max) => vec![],
        Some(CharacterLength::IntegerLength { length, .. }) => vec![i32::try_from(*length).unwrap_or(i32::MAX)],
    };
    let numbers = |info: &ExactNumberInfo| match info {
        ExactNumberInfo::None => vec![],
        ExactNumberInfo::Precision(precision) => vec![i32::try_from(*precision).unwrap_or(i32::MAX)],
        ExactNumberInfo::PrecisionAndScale(precision, scale) => {
            vec![i32::try_from(*precision).unwrap_or(i32::MAX), i32::try_from(*scale).unwrap_or(i32::MAX)]
        }
    };
    let bits_in = |length: u64| u32::try_from(length).unwrap_or(u32::MAX);
    match data_type {
        DataType::Character(size) | DataType::Char(size) => SqlType::named("character", &length(size)),
        DataType::CharacterVarying(size)
        | DataType::CharVarying(size)
        | DataType::Varchar(size)
        | DataType::Nvarchar(size) => SqlType::named("varchar", &length(size)),
        DataType::Numeric(info) | DataType::Decimal(info) | DataType::Dec(info) => {
            SqlType::named("numeric", &numbers(info))
        }
        DataType::Float(info) => SqlType::named("float", &numbers(info)),
        DataType::Double(_) | DataType::DoublePrecision | DataType::Float8 | DataType::Float64 => Some(SqlType::Double),
        DataType::Real | DataType::Float4 | DataType::Float32 => Some(SqlType::Real),
        DataType::TinyInt(_) | DataType::SmallInt(_) | DataType::Int2(_) | DataType::Int16 => Some(SqlType::SmallInt),
        DataType::UTinyInt | DataType::UInt8 | DataType::TinyIntUnsigned(_) => Some(SqlType::SmallInt),
        DataType::Int(_) | DataType::Integer(_) | DataType::Int4(_) | DataType::MediumInt(_) | DataType::Int32 => {
            Some(SqlType::Integer)
        }
        DataType::USmallInt | DataType::UInt16 | DataType::SmallIntUnsigned(_) | DataType::Int2Unsigned(_) => {
            Some(SqlType::Integer)
        }
        DataType::BigInt(_) | DataType::Int8(_) | DataType::Int64 => Some(SqlType::BigInt),
        DataType::UInt32 | DataType::IntUnsigned(_) | DataType::Int4Unsigned(_) | DataType::IntegerUnsigned(_) => {
            Some(SqlType::BigInt)
        }
        DataType::BigIntUnsigned(_) | DataType::UBigInt | DataType::Int8Unsigned(_) | DataType::UInt64 => {
            Some(SqlType::decimal(20, 0))
        }
        DataType::HugeInt | DataType::Int128 => Some(SqlType::decimal(38, 0)),
        DataType::UHugeInt | DataType::UInt128 => Some(SqlType::decimal(39, 0)),
        DataType::Bool | DataType::Boolean => Some(SqlType::Boolean),
        DataType::Date | DataType::Date32 => Some(SqlType::Date),
        DataType::Time(_, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz) => Some(SqlType::TimeTz),
        DataType::Time(_, _) => Some(SqlType::Time),
        DataType::Timestamp(_, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz) => Some(SqlType::TimestampTz),
        DataType::Timestamp(..) | DataType::Datetime(_) | DataType::TimestampNtz(_) => Some(SqlType::Timestamp),
        DataType::Interval { .. } => Some(SqlType::Interval),
        DataType::Text | DataType::String(_) | DataType::Clob(_) | DataType::CharacterLargeObject(_) => {
            Some(SqlType::Text)
        }
        DataType::Bytea | DataType::Blob(_) | DataType::Varbinary(_) | DataType::Binary(_) | DataType::Bytes(_) => {
            Some(SqlType::Bytea)
        }
        DataType::Bit(length) => Some(SqlType::Bit(Some(bits_in(length.unwrap_or(1))))),
        DataType::BitVarying(length) | DataType::VarBit(length) => Some(SqlType::VarBit(length.map(bits_in))),
        DataType::Uuid => Some(SqlType::Uuid),
        DataType::JSON => Some(SqlType::Json),
        DataType::JSONB => Some(SqlType::Jsonb),
        DataType::TsVector => Some(SqlType::Search(SearchKind::Vector)),
        DataType::TsQuery => Some(SqlType::Search(SearchKind::Query)),
        DataType::Regclass => Some(SqlType::Oid(OidKind::Class)),
        _ => None,
    }
}

/// The unit of a number in an interval, and how many of it the number counts.
fn unit_name(field: &DateTimeField) -> Result<(&'static str, u8)> {
    let name = match field {
        DateTimeField::Year | DateTimeField::Years => "years",
        DateTimeField::Month | DateTimeField::Months => "months",
        DateTimeField::Quarter => return Ok(("months", 3)),
        DateTimeField::Week(_) | DateTimeField::Weeks => "weeks",
        DateTimeField::Day | DateTimeField::Days => "days",
        DateTimeField::Hour | DateTimeField::Hours => "hours",
        DateTimeField::Minute | DateTimeField::Minutes => "minutes",
        DateTimeField::Second | DateTimeField::Seconds => "seconds",
        DateTimeField::Millisecond | DateTimeField::Milliseconds => "milliseconds",
        DateTimeField::Microsecond | DateTimeField::Microseconds => "microseconds",
        DateTimeField::Decade => "decades",
        DateTimeField::Century => "centuries",
        DateTimeField::Millenium | DateTimeField::Millennium => "millennia",
        other => return Err(Error::input(format!("an interval has no field {other}")).with_code("22007")),
    };
    Ok((name, 1))
}

/// A text of several fields, as the reader of intervals takes it: `'1:30' MINUTE TO SECOND` is no hours and minutes.
fn with_fields(text: &str, leading: Option<&DateTimeField>, last: &DateTimeField) -> String {
    match (leading, last) {
        (Some(DateTimeField::Minute), DateTimeField::Second) => minutes_and_seconds(text),
        // `'1 2' DAY TO HOUR`.
        (Some(DateTimeField::Day), DateTimeField::Hour) => {
            match text.split_whitespace().collect::<Vec<_>>().as_slice() {
                [days, hours] if !hours.contains(':') => format!("{days} {hours}:00"),
                _ => text.to_owned(),
            }
        }
        _ => text.to_owned(),
    }
}

/// A text of minutes and seconds, as the reader of intervals takes it.
pub(super) fn minutes_and_seconds(text: &str) -> String {
    match text.trim().split_once(':') {
        Some((_, rest)) if !rest.contains(':') => format!("00:{}", text.trim()),
        _ => text.to_owned(),
    }
}

/// An interval without what is smaller than its last field: `'1 day 3:04:05' HOUR` is a day and three hours.
fn up_to(value: ScalarValue, last: &DateTimeField) -> ScalarValue {
    const MINUTE: i64 = 60_000_000_000;
    let ScalarValue::IntervalMonthDayNano(Some(whole)) = value else { return value };
    let IntervalMonthDayNano { months, days, nanoseconds } = whole;
    let (months, days, nanoseconds) = match last {
        DateTimeField::Year => (months - months % 12, 0, 0),
        DateTimeField::Month => (months, 0, 0),
        DateTimeField::Day => (months, days, 0),
        DateTimeField::Hour => (months, days, nanoseconds - nanoseconds % (60 * MINUTE)),
        DateTimeField::Minute => (months, days, nanoseconds - nanoseconds % MINUTE),
        _ => (months, days, nanoseconds),
    };
    ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano { months, days, nanoseconds }))
}

/// A moment, from microseconds since 1970.
pub(crate) fn instant(micros: i64) -> ScalarValue {
    ScalarValue::TimestampMicrosecond(Some(micros), Some(diligence_types::sql_type::INSTANT_ZONE.into()))
}
