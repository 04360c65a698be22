//! What the functions of plans are called where a plan is written down ([`bytes`](diligence_engine::plan::bytes)), and
//! the functions of these names.
//!
//! | family | functions | told by |
//! |---|---|---|
//! | `catalog` | functions, operators and aggregates of SQL | overload, types |
//! | `value` | casts, rows, fields, arrays | types |
//! | `parameter` | parameters without a value | number, type |
//! | `extreme`, `rows` | `min`, `max` by order keys; aggregates of all rows of a group | what they are made of |
//! | `live` | `nextval`, `set_config`, functions in Python, … | name; belong to a session or a statement |
//!
//! A function of the last family is looked for among what lives where the plan is to run. Whatever is not found again
//! by its name is refused when it is written, not when it is read.

use std::sync::Arc;

use arrow::compute::SortOptions;
use arrow::datatypes::{Field, FieldRef};
use datafusion_expr::{AggregateUDF, ScalarUDF};
use diligence_base::{Error, Result};
use diligence_engine::expressions::outside_identity;
use diligence_engine::plan::bytes::{FunctionName, Functions};
use diligence_storage::foreign_error::from_datafusion;
use diligence_types::SqlType;
use diligence_types::functions::{AggregateOrigin, ScalarCall, scalars};

use super::{composites, parameters};
use crate::{privileges, row_locks, sequences, session_functions, type_names};

const CATALOG: &str = "catalog";
const PARAMETER: &str = "parameter";
const EXTREME: &str = "extreme";
const ROWS: &str = "rows";
const LIVE: &str = "live";

/// The functions that SQL knows, by the names that plans call them by.
#[derive(Debug, Default)]
pub struct SqlFunctions;

impl Functions for SqlFunctions {
    fn name_of(&self, function: &ScalarUDF) -> Result<FunctionName> {
        let refused = || Error::unsupported(format!("the function {} cannot be written down", function.name()));
        if let Some(call) = ScalarCall::of_udf(function) {
            let place = call.place().ok_or_else(refused)? as i64;
            let types = fields(call.arguments.iter().chain([&call.returns])).ok_or_else(refused)?;
            let (family, name) = (CATALOG.to_owned(), call.overload.name.to_owned());
            return Ok(FunctionName { family, name, types, numbers: vec![place], texts: vec![] });
        }
        if let Some((name, types)) = composites::name_of(function) {
            return Ok(FunctionName { types: fields(&types).ok_or_else(refused)?, ..name });
        }
        if let Some((number, data_type)) = parameters::parameter_of(function) {
            return Ok(FunctionName {
                family: PARAMETER.to_owned(),
                types: vec![Arc::new(Field::new("", data_type.clone(), true))],
                numbers: vec![number as i64],
                ..FunctionName::default()
            });
        }
        let outside = || {
            let numbers = vec![outside_identity(function)? as i64];
            Some(FunctionName { name: function.name().to_owned(), numbers, ..FunctionName::default() })
        };
        let name = sequences::name_of(function)
            .or_else(|| row_locks::name_of(function))
            .or_else(|| privileges::name_of(function))
            .or_else(|| type_names::name_of(function))
            .or_else(|| session_functions::name_of(function))
            .or_else(outside);
        Ok(FunctionName { family: LIVE.to_owned(), ..name.ok_or_else(refused)? })
    }

    fn is_live(&self, name: &FunctionName) -> bool {
        name.family == LIVE
    }

    fn named(&self, name: &FunctionName) -> Result<Arc<ScalarUDF>> {
        if name.family == LIVE {
            let message = format!("the function {} belongs to a session that the plan does not run in", name.name);
            return Err(Error::unsupported(message));
        }
        let missing = || Error::unsupported(format!("there is no function {} as the plan calls it", name.name));
        if name.family == PARAMETER {
            let ([field], [number]) = (name.types.as_slice(), name.numbers.as_slice()) else { return Err(missing()) };
            let number = usize::try_from(*number).map_err(|_| missing())?;
            return Ok(parameters::udf(number, field.data_type().clone()));
        }
        let types = sql_types(&name.types).ok_or_else(missing)?;
        if name.family == composites::FAMILY {
            return composites::named(name, &types).map(Arc::new).ok_or_else(missing);
        }
        let (Some((returns, arguments)), [place]) = (types.split_last(), name.numbers.as_slice()) else {
            return Err(missing());
        };
        let place = usize::try_from(*place).map_err(|_| missing())?;
        let overload = scalars(&name.name).get(place).filter(|_| name.family == CATALOG).ok_or_else(missing)?;
        let call = ScalarCall { overload, arguments: arguments.to_vec(), returns: returns.clone() };
        call.udf().ok_or_else(missing)
    }

    fn name_of_aggregate(&self, function: &AggregateUDF) -> Result<FunctionName> {
        let name = AggregateOrigin::of(function).and_then(|origin| aggregate_name(&origin));
        name.ok_or_else(|| Error::unsupported(format!("the aggregate {} cannot be written down", function.name())))
    }

    fn aggregate_named(&self, name: &FunctionName) -> Result<Arc<AggregateUDF>> {
        let missing = || Error::unsupported(format!("there is no aggregate {} as the plan calls it", name.name));
        let origin = aggregate_origin(name).ok_or_else(missing)?;
        origin.aggregate().map_err(from_datafusion)?.ok_or_else(missing)
    }
}

/// Types as fields, which are written with all that tells them; `None` if a field does not tell one.
fn fields<'t>(types: impl IntoIterator<Item = &'t SqlType>) -> Option<Vec<FieldRef>> {
    let written = |sql_type: &SqlType| {
        let field = sql_type.field("", true);
        (SqlType::of_field(&field).as_ref() == Some(sql_type)).then(|| Arc::new(field))
    };
    // Within a record collations have no effect, and no field notes them.
    let within = |sql_type: &SqlType| match sql_type.innermost() {
        SqlType::Record(_) => written(&sql_type.uncollated()),
        _ => None,
    };
    types.into_iter().map(|sql_type| written(sql_type).or_else(|| within(sql_type))).collect()
}

fn sql_types(fields: &[FieldRef]) -> Option<Vec<SqlType>> {
    fields.iter().map(|field| SqlType::of_field(field)).collect()
}

/// What an aggregate of this origin is called; `None` if a type cannot be written.
fn aggregate_name(origin: &AggregateOrigin) -> Option<FunctionName> {
    let named = |family: &str, name: &str| FunctionName {
        family: family.to_owned(),
        name: name.to_owned(),
        ..FunctionName::default()
    };
    Some(match origin {
        AggregateOrigin::Overload { name, place } => {
            FunctionName { numbers: vec![*place as i64], ..named(CATALOG, name) }
        }
        AggregateOrigin::Extreme { is_greatest } => {
            FunctionName { numbers: vec![i64::from(*is_greatest)], ..named(EXTREME, "") }
        }
        AggregateOrigin::Rows { computed, arguments, keys, is_distinct, returns } => {
            let (name, number) = match computed {
                Ok(number) => (String::new(), *number),
                Err(inner) => match &**inner {
                    AggregateOrigin::Overload { name, place } => (name.clone(), *place),
                    _ => return None,
                },
            };
            let key = |options: &SortOptions| i64::from(options.descending) | i64::from(options.nulls_first) << 1;
            let numbers = [number as i64, i64::from(*is_distinct)];
            let numbers = numbers.into_iter().chain(keys.iter().map(|(_, options)| key(options)));
            let held = arguments.iter().chain(keys.iter().map(|(data_type, _)| data_type));
            let held = held.map(|data_type| Arc::new(Field::new("", data_type.clone(), true)));
            let types = held.chain(fields([returns])?).collect();
            FunctionName { numbers: numbers.collect(), types, ..named(ROWS, &name) }
        }
    })
}

/// The origin of the aggregate of a name; `None` if it is no such name.
fn aggregate_origin(name: &FunctionName) -> Option<AggregateOrigin> {
    let size = |number: &i64| usize::try_from(*number).ok();
    Some(match (name.family.as_str(), name.numbers.as_slice()) {
        (CATALOG, [place]) => AggregateOrigin::Overload { name: name.name.clone(), place: size(place)? },
        (EXTREME, [is_greatest]) => AggregateOrigin::Extreme { is_greatest: *is_greatest != 0 },
        (ROWS, [number, is_distinct, options @ ..]) => {
            let computed = match name.name.as_str() {
                "" => Ok(size(number)?),
                inner => Err(Box::new(AggregateOrigin::Overload { name: inner.to_owned(), place: size(number)? })),
            };
            let (returns, held) = name.types.split_last()?;
            let (arguments, keys) = held.split_at_checked(held.len().checked_sub(options.len())?)?;
            let held = |field: &FieldRef| field.data_type().clone();
            let key = |(field, options): (&FieldRef, &i64)| {
                let options = SortOptions { descending: options & 1 != 0, nulls_first: options & 2 != 0 };
                (held(field), options)
            };
            AggregateOrigin::Rows {
                computed,
                arguments: arguments.iter().map(held).collect(),
                keys: keys.iter().zip(options).map(key).collect(),
                is_distinct: *is_distinct != 0,
                returns: SqlType::of_field(returns)?,
            }
        }
        _ => return None,
    })
}
