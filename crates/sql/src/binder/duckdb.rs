//! DuckDB's functions that are expressions of others: of structs and maps, of parts of times, other names of operators.

use diligence_base::{Error, Result};
use diligence_types::SqlType;
use diligence_types::functions::has_function;
use diligence_types::sql_type::RecordField;
use sqlparser::ast::{Expr, Function, FunctionArg, FunctionArgExpr, Ident};

use super::duckdb_types::duckdb_name;
use super::json_types::transformed;
use super::operators::{Way, record, row};
use super::scope::Level;
use super::subqueries::constant_elements;
use super::subscripts::is_text;
use super::syntax::written;
use super::{Binder, normalized};
use crate::algebra::{Comparison, Constant, Scalar};
use crate::external::OptionValue;

/// Other names of functions.
const NAMES: [(&str, &str); 9] = [
    ("datepart", "date_part"),
    ("editdist3", "levenshtein"),
    ("grade_up", "list_grade_up"),
    ("greatest_common_divisor", "gcd"),
    ("least_common_multiple", "lcm"),
    ("normalized_interval", "justify_interval"),
    ("roundbankers", "round_even"),
    ("struct_extract_at", "struct_extract"),
    ("trim", "btrim"),
];

/// Functions that are operators.
const OPERATORS: [(&str, &str); 4] = [("add", "+"), ("subtract", "-"), ("multiply", "*"), ("divide", "//")];

/// LIKE and its kin with an escape as functions.
const PATTERNS: [(&str, &str); 4] =
    [("like_escape", "~~"), ("not_like_escape", "!~~"), ("ilike_escape", "~~*"), ("not_ilike_escape", "!~~*")];

/// Functions of parts of a time, and what `date_part` calls them.
const PARTS: [(&str, &str); 25] = [
    ("year", "year"),
    ("month", "month"),
    ("day", "day"),
    ("dayofmonth", "day"),
    ("quarter", "quarter"),
    ("week", "week"),
    ("weekofyear", "week"),
    ("isoyear", "isoyear"),
    ("yearweek", ""),
    ("dayofweek", "dow"),
    ("weekday", "dow"),
    ("isodow", "isodow"),
    ("dayofyear", "doy"),
    ("decade", "decade"),
    ("century", "century"),
    ("millennium", "millennium"),
    ("era", ""),
    ("hour", "hour"),
    ("minute", "minute"),
    ("second", "second"),
    ("millisecond", "milliseconds"),
    ("microsecond", "microseconds"),
    ("dayname", ""),
    ("monthname", ""),
    ("nanosecond", ""),
];

/// DuckDB's words for parts of a time that `date_part` has by other names.
const PART_WORDS: [(&str, &str); 5] =
    [("dayofweek", "dow"), ("weekday", "dow"), ("dayofyear", "doy"), ("dayofmonth", "day"), ("weekofyear", "week")];

/// DuckDB's words for units of time that are no units to the functions that count them.
const UNIT_WORDS: [(&str, &str); 12] = [
    ("dayofweek", "day"),
    ("weekday", "day"),
    ("isodow", "day"),
    ("dow", "day"),
    ("dayofyear", "day"),
    ("doy", "day"),
    ("dayofmonth", "day"),
    ("julian", "day"),
    ("weekofyear", "week"),
    ("yearweek", "week"),
    ("us", "microsecond"),
    ("ms", "millisecond"),
];

/// Short names of units, which PostgreSQL's functions know.
const SHORT_UNITS: [(&str, &str); 7] =
    [("y", "year"), ("mon", "month"), ("w", "week"), ("d", "day"), ("h", "hour"), ("m", "minute"), ("s", "second")];

/// Functions of the time since 1970, and how many of their units a second has.
const EPOCHS: [(&str, f64); 4] = [("epoch", 1.0), ("epoch_ms", 1e3), ("epoch_us", 1e6), ("epoch_ns", 1e9)];

impl Binder<'_> {
    /// One of these functions; `None` if the name is of none, or the arguments are those of another function of the
    /// name.
    pub(super) fn of_duckdb(&self, name: &str, function: &Function, level: &Level<'_>) -> Result<Option<Scalar>> {
        if let Some(changed) = self.struct_function(name, function, level)? {
            return Ok(Some(changed));
        }
        let find = |known: &[(&'static str, &'static str)]| {
            known.iter().find(|(known, _)| *known == name).map(|(_, meant)| *meant)
        };
        let count = written(function).len();
        if let ("try", [FunctionArg::Unnamed(FunctionArgExpr::Expr(tried))]) = (name, written(function)) {
            return self.tried(tried, level).map(Some);
        }
        // Of several paths, a list.
        if let (
            "json_extract" | "json_extract_string",
            [
                FunctionArg::Unnamed(FunctionArgExpr::Expr(json)),
                FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Array(paths))),
            ],
        ) = (name, written(function))
            && !paths.elem.is_empty()
        {
            let each = paths.elem.iter().map(|path| format!("{name}({json}, {path})")).collect::<Vec<_>>();
            let made = format!("ARRAY[{}]", each.join(", "));
            return self.scalar(&crate::parse::expression(&made)?, level).map(Some);
        }
        if let (
            "from_json" | "json_transform" | "from_json_strict" | "json_transform_strict",
            [FunctionArg::Unnamed(FunctionArgExpr::Expr(json)), FunctionArg::Unnamed(FunctionArgExpr::Expr(structure))],
        ) = (name, written(function))
            && let Some(OptionValue::One(structure)) = OptionValue::of(structure)
        {
            let made = transformed(&json.to_string(), &structure, name.ends_with("_strict"))?;
            return self.scalar(&crate::parse::expression(&made)?, level).map(Some);
        }
        let bound = || self.arguments(name, written(function), level);
        if let Some(other) = find(&NAMES).filter(|_| !has_function(name)) {
            return match other {
                "date_part" => self.date_part(bound()?, level),
                "struct_extract" => self.field_at(bound()?).map(Some),
                other => self.call(other, bound()?).map(Some),
            };
        }
        if let Some(sign) = find(&OPERATORS).filter(|_| !has_function(name) && count == 2) {
            return self.operator(sign, bound()?).map(Some);
        }
        if let (Some(sign), 3) = (find(&PATTERNS), count) {
            let mut arguments = bound()?;
            let pattern = self.call("like_escape", arguments.split_off(1))?;
            arguments.push(pattern);
            return self.operator(sign, arguments).map(Some);
        }
        self.of_duckdb_by_count(name, function, level)
    }

    /// One of these functions that its name and the number of its arguments tell.
    fn of_duckdb_by_count(&self, name: &str, function: &Function, level: &Level<'_>) -> Result<Option<Scalar>> {
        let bound = || self.arguments(name, written(function), level);
        match (name, written(function).len()) {
            ("date_part" | "date_trunc" | "date_diff" | "datediff" | "date_sub" | "datesub" | "time_bucket", 2 | 3) => {
                self.of_times(name, bound()?, level)
            }
            ("json_merge_patch", 3..) => {
                let mut parts = bound()?.into_iter();
                let first = parts.next().ok_or_else(|| Error::bug("three arguments are three"))?;
                parts.try_fold(first, |all, part| self.call("json_merge_patch", vec![all, part])).map(Some)
            }
            ("regexp_extract", 3 | 4) => self.extracted_groups(bound()?),
            ("array_push_front", 2) => {
                let mut arguments = bound()?;
                arguments.swap(0, 1);
                self.call("list_prepend", arguments).map(Some)
            }
            ("json_object" | "jsonb_object", 1) => self.object_of_pairs(name, bound()?),
            ("array_extract" | "list_extract", 2) => {
                let [value, key] = pair(bound()?)?;
                match value.sql_type() {
                    SqlType::Record(_) | SqlType::Map(_) => self.subscript(value, key).map(Some),
                    _ => Ok(None),
                }
            }
            ("map_concat", 2..) => {
                let given = bound()?;
                let are_maps = given.iter().all(|map| matches!(map.sql_type(), SqlType::Map(_)));
                let maps = if are_maps { self.in_common(given, "map_concat")?.0 } else { given };
                let mut maps = maps.into_iter();
                let first = maps.next().ok_or_else(|| Error::bug("two maps are two"))?;
                maps.try_fold(first, |all, map| self.call("map_concat", vec![all, map])).map(Some)
            }
            ("isinf", 1) => self.is_infinite(bound()?).map(Some),
            ("strftime", 2) => {
                // What the clock says in the session's zone.
                let plain = bound()?.into_iter().map(|argument| match argument.sql_type() {
                    SqlType::TimestampTz => self.explicit(argument, &SqlType::Timestamp, false),
                    _ => Ok(argument),
                });
                self.call("strftime", plain.collect::<Result<_>>()?).map(Some)
            }
            ("contains", 2) => self.contains(bound()?).map(Some),
            ("list_has_any" | "array_has_any" | "list_intersect" | "array_intersect", 2) => {
                let given = bound()?;
                let [list, other] = pair(self.in_common(given.clone(), name).map_or(given, |(lists, _)| lists))?;
                self.call(name, vec![self.without_nulls(list)?, other]).map(Some)
            }
            ("list_has_all" | "array_has_all", 2) => {
                let [list, wanted] = pair(bound()?)?;
                // `[]` is of what the other list has.
                let wanted = match (list.sql_type().element(), wanted.sql_type().element()) {
                    (Some(known), Some(SqlType::Unknown)) if *known != SqlType::Unknown => {
                        self.cast(wanted, &list.sql_type(), Way::Implicit)?
                    }
                    _ => wanted,
                };
                self.call(name, vec![list, self.without_nulls(wanted)?]).map(Some)
            }
            ("list_distinct" | "array_distinct", 1) => {
                let list = bound()?.into_iter().map(|list| self.without_nulls(list)).collect::<Result<_>>()?;
                self.call(name, list).map(Some)
            }
            ("trunc" | "mod" | "log" | "repeat" | "json_object", 2) | ("last_day" | "sha256", 1) => {
                self.of_other_types(name, bound()?, level).map(Some)
            }
            ("typeof", 1) => {
                let [value] = <[Scalar; 1]>::try_from(bound()?).map_err(|_| Error::bug("one argument is one"))?;
                let is_null = value.as_constant().is_some_and(Constant::is_null);
                let value = if is_null { value } else { self.typed_array(self.typed(value)?)? };
                Ok(Some(Scalar::Constant(Constant::text(duckdb_name(&value.sql_type())))))
            }
            ("list_zip" | "array_zip", 2..) => self.zipped(name, function, bound()?, level),
            ("array_value" | "list_pack", _) => self.array(bound()?).map(Some),
            ("map", 0) => self.call("map", vec![self.array(vec![])?, self.array(vec![])?]).map(Some),
            ("map", 2) => {
                let arguments = bound()?;
                let is_null = |part: &Scalar| part.as_constant().is_some_and(Constant::is_null);
                match arguments.iter().any(is_null) {
                    true => Ok(Some(Scalar::Constant(Constant::null(SqlType::Unknown)))),
                    false => self.call("map", arguments).map(Some),
                }
            }
            ("map_contains_value", 2) => {
                let [map, value] = pair(bound()?)?;
                let values = self.call("map_values", vec![map])?;
                self.call("list_contains", vec![values, value]).map(Some)
            }
            ("map_contains_entry", 3) => {
                let mut arguments = bound()?;
                let wanted = arguments.pop().ok_or_else(|| Error::bug("three arguments are three"))?;
                let value = self.call("map_extract_value", arguments)?;
                let is_it = self.compare(Comparison::Equal, value, wanted)?;
                Ok(Some(Scalar::Coalesce(vec![is_it, Scalar::Constant(Constant::boolean(false))])))
            }
            (_, 1) => {
                let part = PARTS.iter().find(|(known, _)| *known == name).map(|(_, part)| TimePart::Named(part));
                let Some(part) = part.or_else(|| {
                    let per_second = EPOCHS.iter().find(|(known, _)| *known == name)?.1;
                    Some(TimePart::Epoch(per_second))
                }) else {
                    return Ok(None);
                };
                let [time] = <[Scalar; 1]>::try_from(bound()?).map_err(|_| Error::bug("one argument is one"))?;
                self.time_part(name, part, time, level).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// A function of a time and a part of it, a unit or a width, by name.
    fn of_times(&self, name: &str, arguments: Vec<Scalar>, level: &Level<'_>) -> Result<Option<Scalar>> {
        match (name, arguments.len()) {
            ("date_part", 2) => self.date_part(arguments, level),
            ("time_bucket", 3) => self.time_bucket(arguments),
            ("time_bucket", 2) => {
                let [width, time] = pair(arguments)?;
                let is_zoned = time.sql_type() == SqlType::TimestampTz;
                let bucket = self.call("time_bucket", vec![width, self.on_a_day(time)?])?;
                match is_zoned {
                    true => self.explicit(bucket, &SqlType::TimestampTz, false).map(Some),
                    false => Ok(Some(bucket)),
                }
            }
            _ => self.by_unit(name, arguments, level).map(Some),
        }
    }

    /// A list without its NULLs, which are equal to nothing. Lists of lists stay as they are.
    fn without_nulls(&self, list: Scalar) -> Result<Scalar> {
        match list.sql_type().element() {
            Some(element) if element.element().is_none() => {
                let null = Scalar::Constant(Constant::null(SqlType::Unknown));
                self.call("array_remove", vec![self.typed(list)?, null])
            }
            _ => Ok(list),
        }
    }

    /// Functions of PostgreSQL's that take other types in DuckDB.
    fn of_other_types(&self, name: &str, arguments: Vec<Scalar>, level: &Level<'_>) -> Result<Scalar> {
        let is_float = |scalar: &Scalar| matches!(scalar.sql_type(), SqlType::Double | SqlType::Real);
        let types = arguments.iter().map(|scalar| scalar.sql_type().uncollated()).collect::<Vec<_>>();
        match (name, arguments.as_slice(), types.as_slice()) {
            ("trunc", [value, digits], _) if is_float(value) => {
                self.call("trunc of floats", vec![value.clone(), digits.clone()])
            }
            ("mod", [value, divisor], _) if is_float(value) || is_float(divisor) => {
                self.call("mod of floats", vec![value.clone(), divisor.clone()])
            }
            ("log", [base, value], _) if is_float(base) || is_float(value) => {
                let double = |scalar: &Scalar| self.cast(scalar.clone(), &SqlType::Double, Way::Implicit);
                let [base, value] = [double(base)?, double(value)?];
                self.operator("/", vec![self.call("log10", vec![value])?, self.call("log10", vec![base])?])
            }
            ("repeat", [text, count], [_, SqlType::BigInt]) => {
                let count = self.explicit(count.clone(), &SqlType::Integer, false)?;
                self.of_other_types(name, vec![text.clone(), count], level)
            }
            ("repeat", [bytes, count], [SqlType::Bytea, _]) => {
                let hex = || Scalar::Constant(Constant::text("hex"));
                let digits = self.call("encode", vec![bytes.clone(), hex()])?;
                self.call("decode", vec![self.call("repeat", vec![digits, count.clone()])?, hex()])
            }
            // A text that is no array is a key.
            ("json_object", [key, _], [SqlType::Unknown, SqlType::Unknown])
                if Self::candidate(key).literal.is_some_and(|key| !key.trim_start().starts_with('{')) =>
            {
                self.call("duckdb json_object", arguments)
            }
            ("last_day", [time], [SqlType::Timestamp | SqlType::TimestampTz]) => {
                self.call("last_day", vec![self.explicit(time.clone(), &SqlType::Date, false)?])
            }
            ("sha256", [text], [SqlType::Text | SqlType::Varchar(_)]) => {
                let constant = |text: &str| Scalar::Constant(Constant::text(text));
                let bytes = self.call("convert_to", vec![text.clone(), constant("UTF8")])?;
                self.call("encode", vec![self.call("sha256", vec![bytes])?, constant("hex")])
            }
            _ => self.named_call(name, arguments, level),
        }
    }

    /// `isinf` of a time or a number.
    fn is_infinite(&self, arguments: Vec<Scalar>) -> Result<Scalar> {
        match arguments.first().map(Scalar::sql_type) {
            Some(SqlType::Date | SqlType::Timestamp | SqlType::TimestampTz) => {
                Ok(self.call("isfinite", arguments)?.negate())
            }
            _ => self.call("isinf", arguments),
        }
    }

    /// `contains` of a list, a map or a text.
    fn contains(&self, arguments: Vec<Scalar>) -> Result<Scalar> {
        let name = match arguments.first().map(Scalar::sql_type) {
            Some(SqlType::Array(_)) => "list_contains",
            Some(SqlType::Map(_)) => "map_contains",
            _ => "contains",
        };
        self.call(name, arguments)
    }

    /// `list_zip(a, b, true)`: rows of the elements of lists, as many as the shortest of them has.
    fn zipped(
        &self,
        name: &str,
        function: &Function,
        arguments: Vec<Scalar>,
        level: &Level<'_>,
    ) -> Result<Option<Scalar>> {
        let Some((cuts, lists)) = written(function).split_last() else { return Ok(None) };
        if arguments.last().is_none_or(|last| last.sql_type() != SqlType::Boolean) || lists.is_empty() {
            return self.named_call(name, arguments, level).map(Some);
        }
        let zipped = lists.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let lengths = lists.iter().map(|list| format!("len({list})")).collect::<Vec<_>>().join(", ");
        let length = format!("CASE WHEN {cuts} THEN least({lengths}) ELSE greatest({lengths}) END");
        let text = format!("list_slice(list_zip({zipped}), 1, CAST({length} AS integer))");
        self.scalar(&crate::parse::expression(&text)?, level).map(Some)
    }

    /// A part of what the function of its name does not take: of an interval, a time of day, a time with a zone.
    fn time_part(&self, name: &str, part: TimePart, time: Scalar, level: &Level<'_>) -> Result<Scalar> {
        let text = |text: &str| Scalar::Constant(Constant::text(text));
        let number = |value: f64| self.cast(text(&value.to_string()), &SqlType::Double, Way::Explicit);
        match (time.sql_type(), part) {
            (SqlType::Timestamp | SqlType::TimestampTz, _) if matches!(name, "dayname" | "monthname") => {
                let day = self.explicit(time, &SqlType::Date, false)?;
                self.call(name, vec![day])
            }
            // Since 1970 is since then in UTC.
            (SqlType::TimestampTz, TimePart::Epoch(_)) => {
                let plain = self.call("timezone", vec![text("UTC"), time])?;
                self.call(name, vec![plain])
            }
            (SqlType::TimestampTz, TimePart::Named(_)) => {
                let plain = self.explicit(time, &SqlType::Timestamp, false)?;
                self.call(name, vec![plain])
            }
            (SqlType::Interval | SqlType::Time, TimePart::Epoch(per_second)) => {
                let seconds = self.call("date_part", vec![text("epoch"), time])?;
                if per_second == 1.0 {
                    return Ok(seconds);
                }
                let units = self.operator("*", vec![seconds, number(per_second)?])?;
                self.explicit(self.call("round", vec![units])?, &SqlType::BigInt, false)
            }
            (SqlType::Interval | SqlType::Time | SqlType::TimeTz, TimePart::Named(part)) if !part.is_empty() => {
                self.whole_part(part, time, level)
            }
            _ => self.named_call(name, vec![time], level),
        }
    }

    /// A part of a time as a whole number.
    fn whole_part(&self, part: &str, time: Scalar, level: &Level<'_>) -> Result<Scalar> {
        let part = self.part_of("date_part", part, time, level)?;
        self.explicit(self.call("floor", vec![part])?, &SqlType::BigInt, false)
    }

    /// What `date_part` or `extract` gives of a part by its name, also by DuckDB's.
    pub(super) fn part_of(&self, function: &str, part: &str, time: Scalar, level: &Level<'_>) -> Result<Scalar> {
        let known = part.to_lowercase();
        match known.as_str() {
            "era" | "yearweek" => self.time_part(&known, TimePart::Named(""), self.typed(time)?, level),
            _ => {
                let part = PART_WORDS.iter().find(|(word, _)| *word == known).map_or(part, |(_, meant)| *meant);
                self.call(function, vec![Scalar::Constant(Constant::text(part)), time])
            }
        }
    }

    /// A function that cuts times to a unit, or counts units between them.
    fn by_unit(&self, name: &str, mut arguments: Vec<Scalar>, level: &Level<'_>) -> Result<Scalar> {
        if let Some(unit) = arguments.first_mut()
            && is_text(unit)
            && let Some(word) = Self::candidate(unit).literal
        {
            let word = word.to_lowercase();
            let short = SHORT_UNITS.iter().filter(|_| name != "date_trunc");
            if let Some((_, meant)) = UNIT_WORDS.iter().chain(short).find(|(known, _)| *known == word) {
                *unit = Scalar::Constant(Constant::text(*meant));
            }
        }
        if name != "date_trunc" {
            arguments = arguments.into_iter().map(|argument| self.on_a_day(argument)).collect::<Result<_>>()?;
        }
        self.named_call(name, arguments, level)
    }

    /// A time of day on the first day of 1970, and a time with a zone as the clock says it; other values as they are.
    fn on_a_day(&self, time: Scalar) -> Result<Scalar> {
        match time.sql_type() {
            SqlType::TimestampTz => self.explicit(time, &SqlType::Timestamp, false),
            SqlType::Time => {
                let day = self.explicit(Scalar::Constant(Constant::text("1970-01-01")), &SqlType::Date, false)?;
                self.operator("+", vec![day, time])
            }
            _ => Ok(time),
        }
    }

    /// `date_part(['year', 'month'], x)`: a struct of the parts.
    fn date_part(&self, arguments: Vec<Scalar>, level: &Level<'_>) -> Result<Option<Scalar>> {
        let [parts, time] = pair(arguments)?;
        if is_text(&parts)
            && let Some(part) = Self::candidate(&parts).literal
            && is_own_part(&part)
        {
            return self.part_of("date_part", &part, time, level).map(Some);
        }
        let Some(names) = self.literals(&parts)? else {
            return self.call("date_part", vec![parts, time]).map(Some);
        };
        let time = self.typed(time)?;
        let values = names.iter().map(|name| self.whole_part(name, time.clone(), level));
        Ok(Some(record(values.collect::<Result<_>>()?, names.clone().into_iter())))
    }

    /// The texts of a list of literals; `None` for anything else.
    fn literals(&self, list: &Scalar) -> Result<Option<Vec<String>>> {
        let elements = match list {
            Scalar::Array { elements, .. } => elements.clone(),
            Scalar::Constant(constant) if constant.sql_type.element().is_some() && !constant.is_null() => {
                constant_elements(constant)?
            }
            _ => return Ok(None),
        };
        Ok(elements.iter().map(|element| Self::candidate(element).literal).collect())
    }

    /// `time_bucket(width, time, offset)` with an interval as the offset, or with dates.
    fn time_bucket(&self, arguments: Vec<Scalar>) -> Result<Option<Scalar>> {
        let [width, time, third] =
            <[Scalar; 3]>::try_from(arguments).map_err(|_| Error::bug("three arguments are three"))?;
        let is_date = time.sql_type() == SqlType::Date;
        let bucket = match third.sql_type() {
            SqlType::Interval => {
                let moved = self.operator("-", vec![time, third.clone()])?;
                let bucket = self.call("time_bucket", vec![width, moved])?;
                self.operator("+", vec![bucket, third])?
            }
            _ => self.call("time_bucket", vec![width, time, third])?,
        };
        match is_date {
            true => self.explicit(bucket, &SqlType::Date, false).map(Some),
            false => Ok(Some(bucket)),
        }
    }

    /// `regexp_extract(text, pattern, ['year', 'month'])`: a struct of the pattern's groups.
    fn extracted_groups(&self, arguments: Vec<Scalar>) -> Result<Option<Scalar>> {
        let names = match arguments.get(2) {
            Some(names) => self.literals(names)?,
            None => None,
        };
        let Some(names) = names else { return self.call("regexp_extract", arguments).map(Some) };
        let groups = (1..=names.len()).map(|group| {
            let mut arguments = arguments.clone();
            let group = i32::try_from(group).map_err(|_| Error::input("too many groups").with_code("22023"))?;
            arguments[2] = Scalar::Constant(Constant::integer(group));
            self.call("regexp_extract", arguments)
        });
        Ok(Some(record(groups.collect::<Result<_>>()?, names.into_iter())))
    }

    /// `json_object` of an array of pairs; `None` if its argument has one dimension. Fails with 2202E for what is no
    /// pair.
    fn object_of_pairs(&self, name: &str, arguments: Vec<Scalar>) -> Result<Option<Scalar>> {
        let [pairs] = <[Scalar; 1]>::try_from(arguments).map_err(|_| Error::bug("one argument is one"))?;
        if pairs.sql_type().element().is_none_or(|row| row.element().is_none()) {
            return Ok(None);
        }
        let is_pair = |row: &Scalar| !matches!(row, Scalar::Array { elements, .. } if elements.len() != 2);
        if let Scalar::Array { elements, .. } = &pairs
            && !elements.iter().all(is_pair)
        {
            return Err(Error::input("array must have two columns").with_code("2202E"));
        }
        let pairs = self.flattened(pairs)?;
        self.call(name, vec![pairs]).map(Some)
    }

    /// `struct_extract_at(s, 2)`: the field of a number.
    fn field_at(&self, arguments: Vec<Scalar>) -> Result<Scalar> {
        let [value, place] = pair(arguments)?;
        self.numbered_field(value, &place)
    }

    /// The field of a struct with a number, counted from 1. Fails with 42804 if there is none.
    pub(super) fn numbered_field(&self, value: Scalar, place: &Scalar) -> Result<Scalar> {
        let SqlType::Record(fields) = value.sql_type() else {
            return Err(Error::input("fields with numbers are those of a struct").with_code("42804"));
        };
        let number = match place {
            Scalar::Constant(constant) => constant.value.to_string().parse::<usize>().ok(),
            _ => None,
        };
        let field = number.and_then(|number| fields.get(number.checked_sub(1)?));
        let field = field.ok_or_else(|| {
            let message = format!("a field of a struct is named by a text, or by a number from 1 to {}", fields.len());
            Error::input(message).with_code("42804")
        })?;
        self.field(value, &Ident::with_quote('"', field.name.clone()))
    }

    /// Functions of structs that make structs or look at all fields; `None` for others.
    fn struct_function(&self, name: &str, function: &Function, level: &Level<'_>) -> Result<Option<Scalar>> {
        let wrong = |wanted: &str| Error::input(format!("{name} takes {wanted}")).with_code("42883");
        let is_one = matches!(
            name,
            "struct_update"
                | "struct_concat"
                | "struct_values"
                | "struct_contains"
                | "struct_has"
                | "struct_position"
                | "struct_indexof"
        );
        if !is_one {
            return Ok(None);
        }
        let (mut values, mut more) = (Vec::new(), Vec::new());
        for argument in written(function) {
            match argument {
                FunctionArg::Unnamed(argument) => {
                    let value = self.argument(argument, level)?;
                    values.push(self.typed(value)?);
                }
                FunctionArg::Named { name, arg, .. } => {
                    let value = self.argument(arg, level)?;
                    more.push((normalized(name), self.typed(value)?));
                }
                FunctionArg::ExprNamed { .. } => return Err(wrong("fields with names")),
            }
        }
        let mut values = values.into_iter();
        let first = values.next().ok_or_else(|| wrong("a struct"))?;
        let mut fields = self.fields_with_names(&first).ok_or_else(|| wrong("a struct"))?;
        Ok(Some(match name {
            "struct_update" => {
                for (name, value) in more {
                    match fields.iter_mut().find(|(known, _)| *known == name) {
                        Some((_, old)) => *old = value,
                        None => fields.push((name, value)),
                    }
                }
                named(fields)
            }
            "struct_concat" => {
                for other in values {
                    fields.extend(self.fields_with_names(&other).ok_or_else(|| wrong("structs"))?);
                }
                named(fields)
            }
            "struct_values" => row(fields.into_iter().map(|(_, value)| value).collect()),
            _ => {
                let wanted = values.next().ok_or_else(|| wrong("a struct and a value"))?;
                let is_position = matches!(name, "struct_position" | "struct_indexof");
                let test = |value: Scalar| self.compare(Comparison::Equal, value, wanted.clone());
                let tests = fields.into_iter().map(|(_, value)| test(value)).collect::<Result<Vec<_>>>()?;
                if is_position {
                    let place = |place: usize| Scalar::Constant(Constant::integer(place as i32 + 1));
                    let arms = tests.into_iter().enumerate().map(|(at, test)| (test, place(at))).collect();
                    Scalar::Case { arms, otherwise: None, sql_type: SqlType::Integer }
                } else {
                    Scalar::Coalesce(vec![Scalar::any(tests), Scalar::Constant(Constant::boolean(false))])
                }
            }
        }))
    }

    /// The fields of a struct; `None` if it is none.
    fn fields_with_names(&self, value: &Scalar) -> Option<Vec<(String, Scalar)>> {
        let SqlType::Record(fields) = value.sql_type() else { return None };
        let field = |field: &RecordField| {
            let value = self.field(value.clone(), &Ident::with_quote('"', field.name.clone())).ok()?;
            Some((field.name.clone(), value))
        };
        fields.iter().map(field).collect()
    }
}

/// Whether a part of a time has a name that is DuckDB's alone.
fn is_own_part(part: &str) -> bool {
    let part = part.to_lowercase();
    matches!(part.as_str(), "era" | "yearweek") || PART_WORDS.iter().any(|(word, _)| *word == part)
}

/// What a function of a time gives.
#[derive(Clone, Copy)]
enum TimePart {
    /// A part, by `date_part`'s name; empty if it has none.
    Named(&'static str),
    /// The time since 1970 in units of which a second has so many.
    Epoch(f64),
}

fn pair(arguments: Vec<Scalar>) -> Result<[Scalar; 2]> {
    arguments.try_into().map_err(|_| Error::input("the function takes two arguments").with_code("42883"))
}

fn named(fields: Vec<(String, Scalar)>) -> Scalar {
    let (names, values): (Vec<_>, Vec<_>) = fields.into_iter().unzip();
    record(values, names.into_iter())
}
