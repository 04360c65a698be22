//! `format_type`: the names of types by their numbers, as a function of one statement, which answers by the snapshot
//! that it sees. Types that are found without their schema are shown without it.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, AsArray, Int64Array, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion_common::error::Result;
use datafusion_common::{ScalarValue, plan_err};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use diligence_catalog::types::TYPES;
use diligence_catalog::{DEFAULT_SCHEMA, Object, RelationName, SessionSnapshot};
use diligence_engine::plan::bytes::FunctionName;
use diligence_types::timed_type::TimedType;
use diligence_types::{SqlType, quoted_name};

/// The function's name.
pub(crate) const NAME: &str = "format_type";

/// Types without columns, by their numbers.
const PSEUDO_TYPES: [(i64, &str); 13] = [
    (0, "-"),
    (2249, "record"),
    (2277, "anyarray"),
    (2278, "void"),
    (2279, "trigger"),
    (2283, "anyelement"),
    (2287, "record[]"),
    (2776, "anynonarray"),
    (3500, "anyenum"),
    (3831, "anyrange"),
    (5077, "anycompatible"),
    (5078, "anycompatiblearray"),
    (5079, "anycompatiblenonarray"),
];

/// The schema and the name of a type that a statement made; of an array, of its elements.
pub(crate) fn made(sql_type: &SqlType) -> Option<(&str, &str)> {
    let (schema, name) = match sql_type {
        SqlType::Enum(one) if !one.name.is_empty() => (&one.schema, &one.name),
        SqlType::Domain(one) => (&one.schema, &one.name),
        SqlType::Record(one) => one.composite_name().map(|own| (&own.schema, &own.name))?,
        other => return other.element().and_then(made),
    };
    Some((schema.as_deref().unwrap_or(DEFAULT_SCHEMA), name))
}

/// Whether a name without a schema finds what has this one, if names are looked for in these schemas.
pub(crate) fn is_found(snapshot: &SessionSnapshot, path: &[String], (schema, name): (&str, &str)) -> bool {
    let has_it = |schema: &String| snapshot.catalog.get(&RelationName::new(schema, name)).is_some();
    path.iter().find(|schema| has_it(schema)).is_some_and(|first| first == schema)
}

/// The function of this name, if it is this one, for a statement that sees this snapshot and looks for names in these
/// schemas.
pub(crate) fn function(name: &str, snapshot: &SessionSnapshot, path: &[String]) -> Option<Arc<ScalarUDF>> {
    if name != NAME {
        return None;
    }
    let whole = |object: &Object| match is_found(snapshot, path, (&object.name.schema, &object.name.name)) {
        true => quoted_name(&object.name.name).into_owned(),
        false => format!("{}.{}", quoted_name(&object.name.schema), quoted_name(&object.name.name)),
    };
    let mut names = HashMap::new();
    let mut add = |oid: u32, array_oid: u32, shown: &str| {
        names.insert(i64::from(oid), Named { element: i64::from(oid), name: shown.to_owned(), is_array: false });
        if array_oid != 0 {
            let array = Named { element: i64::from(oid), name: shown.to_owned(), is_array: true };
            names.insert(i64::from(array_oid), array);
        }
    };
    for known in TYPES {
        add(known.oid, known.array_oid, known.sql_name);
    }
    for (object, one) in snapshot.catalog.enums() {
        if snapshot.sees(&object.name) {
            add(one.oid, one.array_oid, &whole(object));
        }
    }
    for (object, one) in snapshot.catalog.composites() {
        if let Some(own) = one.composite_name().filter(|_| snapshot.sees(&object.name)) {
            add(own.oid, own.array_oid, &whole(object));
        }
    }
    for (object, one, _) in snapshot.catalog.domains() {
        if snapshot.sees(&object.name) {
            add(one.oid, one.array_oid, &whole(object));
        }
    }
    for (oid, shown) in PSEUDO_TYPES {
        names.insert(oid, Named { element: oid, name: shown.to_owned(), is_array: false });
    }
    let signature = Signature::any(2, Volatility::Stable);
    Some(Arc::new(ScalarUDF::from(FormatType { names: Arc::new(names), path: path.to_vec(), signature })))
}

/// What a plan's bytes call the function, if it is this one.
pub(crate) fn name_of(function: &ScalarUDF) -> Option<FunctionName> {
    let own = function.inner().downcast_ref::<FormatType>()?;
    Some(FunctionName { name: NAME.to_owned(), texts: own.path.clone(), ..FunctionName::default() })
}

/// A type's name.
#[derive(Debug, PartialEq, Eq)]
struct Named {
    /// The number of the type of an array's elements; its own, of another.
    element: i64,
    /// The name of that type.
    name: String,
    is_array: bool,
}

impl Named {
    /// The name with what the modifier says; a negative one says that the type has none.
    fn shown(&self, modifier: Option<i64>) -> String {
        let of = |digits: i64, behind: &str| {
            let front = self.name.split(' ').next().unwrap_or(&self.name);
            format!("{front}({digits}){behind}")
        };
        let own = match (self.element, modifier) {
            // A column of any length has another name than the type.
            (1042, Some(modifier)) if modifier < 4 => "bpchar".to_owned(),
            (1042, Some(modifier)) => of(modifier - 4, ""),
            (1043, Some(modifier)) if modifier >= 4 => format!("{}({})", self.name, modifier - 4),
            (1560 | 1562, Some(modifier)) if modifier > 0 => format!("{}({modifier})", self.name),
            (1700, Some(modifier)) if modifier >= 4 => {
                let (precision, scale) = ((modifier - 4) >> 16 & 0xffff, (modifier - 4) & 0x7ff);
                // The scale has eleven bits, the first of which is its sign.
                format!("{}({precision},{})", self.name, (scale ^ 1024) - 1024)
            }
            (1083 | 1114, Some(modifier)) if modifier >= 0 => of(modifier, " without time zone"),
            (1184 | 1266, Some(modifier)) if modifier >= 0 => of(modifier, " with time zone"),
            (1186, Some(modifier)) if modifier >= 0 => {
                let modifier = i32::try_from(modifier).unwrap_or(-1);
                TimedType { base: SqlType::Interval, modifier }.to_string()
            }
            _ => self.name.clone(),
        };
        if self.is_array { format!("{own}[]") } else { own }
    }
}

#[derive(Debug)]
struct FormatType {
    names: Arc<HashMap<i64, Named>>,
    /// The schemas in which names are looked for.
    path: Vec<String>,
    signature: Signature,
}

impl PartialEq for FormatType {
    fn eq(&self, other: &Self) -> bool {
        self.names == other.names
    }
}

impl Eq for FormatType {}

impl Hash for FormatType {
    fn hash<H: Hasher>(&self, state: &mut H) {
        NAME.hash(state);
    }
}

impl FormatType {
    fn shown(&self, oid: i64, modifier: Option<i64>) -> String {
        self.names.get(&oid).map_or_else(|| "???".to_owned(), |named| named.shown(modifier))
    }
}

impl ScalarUDFImpl for FormatType {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        if arguments.len() != 2 {
            return plan_err!("format_type takes the number of a type and a modifier");
        }
        Ok(DataType::Utf8View)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = arguments.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { arguments.number_rows };
        let numbers = arguments.args.iter().map(|argument| {
            let numbers = cast(&argument.to_array(rows)?, &DataType::Int64)?;
            Ok(numbers.as_primitive::<Int64Type>().clone())
        });
        let numbers = numbers.collect::<Result<Vec<Int64Array>>>()?;
        let value = |column: &Int64Array, row: usize| column.is_valid(row).then(|| column.value(row));
        let row = |row| Some(self.shown(value(&numbers[0], row)?, value(&numbers[1], row)));
        let shown = (0..rows).map(row).collect::<StringViewArray>();
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&shown, 0)?),
            false => ColumnarValue::Array(Arc::new(shown)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modifiers_are_shown_as_postgresql_does() {
        let named = |element: i64, name: &str, is_array| Named { element, name: name.to_owned(), is_array };
        let shown = [
            (named(1700, "numeric", false), Some((10 << 16 | 2) + 4), "numeric(10,2)"),
            (named(1700, "numeric", true), Some((10 << 16 | 2) + 4), "numeric(10,2)[]"),
            (named(1700, "numeric", false), Some((3 << 16 | (-2 & 0x7ff)) + 4), "numeric(3,-2)"),
            (named(1043, "character varying", false), Some(14), "character varying(10)"),
            (named(1042, "character", false), None, "character"),
            (named(1042, "character", false), Some(-1), "bpchar"),
            (named(1114, "timestamp without time zone", false), Some(3), "timestamp(3) without time zone"),
            (named(1184, "timestamp with time zone", false), Some(0), "timestamp(0) with time zone"),
            (named(1186, "interval", false), Some(0x7fff_0003), "interval(3)"),
            (named(1186, "interval", true), Some(458_751), "interval year to month[]"),
            (named(1186, "interval", false), Some(65_535), "interval"),
            (named(23, "integer", false), Some(-1), "integer"),
        ];
        for (named, modifier, expected) in shown {
            assert_eq!(named.shown(modifier), expected);
        }
    }
}
