//! The modifiers of a query's columns of times.
//!
//! No expression has a type with a modifier, such as `timestamp(3)`. But a column of that type that is selected as it
//! is has it to clients, in a view and in a table that is made of the query, and so has a cast to the type. What
//! computes anything else of the values has none, as in PostgreSQL.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion_common::ScalarValue;
use diligence_types::SqlType;
use diligence_types::timed_type::TimedType;

use crate::algebra::{Column, ColumnId, Constant, Relation, Scalar, SubqueryKind, WithId};

/// How many operators and expressions are looked at for one column: of deep queries the modifiers are left out.
const STEPS_MAX: usize = 10_000;

/// Gives columns of a relation the types with modifiers that they come from.
pub(crate) fn add_modifiers(relation: &Relation, columns: &mut [Column]) {
    for column in columns {
        let mut origins = Origins { definitions: HashMap::new(), steps: 0 };
        if is_of_times(&column.sql_type)
            && let Some(timed) = origins.of_column(relation, column.id)
            && timed.base == column.sql_type
        {
            column.sql_type = SqlType::Timed(Arc::new(timed));
        }
    }
}

fn is_of_times(sql_type: &SqlType) -> bool {
    matches!(
        sql_type.innermost(),
        SqlType::Time | SqlType::TimeTz | SqlType::Timestamp | SqlType::TimestampTz | SqlType::Interval
    )
}

/// Where columns come from.
struct Origins<'r> {
    /// The common table expressions met so far.
    definitions: HashMap<WithId, (&'r Relation, &'r [Column])>,
    steps: usize,
}

impl<'r> Origins<'r> {
    /// The type with a modifier that a column of a relation has; `None` if it has none.
    fn of_column(&mut self, relation: &'r Relation, id: ColumnId) -> Option<TimedType> {
        self.steps += 1;
        if self.steps > STEPS_MAX {
            return None;
        }
        stacker::maybe_grow(128 * 1024, 2 * 1024 * 1024, || self.of_operator(relation, id))
    }

    fn of_operator(&mut self, relation: &'r Relation, id: ColumnId) -> Option<TimedType> {
        let place = |columns: &[Column]| columns.iter().position(|column| column.id == id);
        match relation {
            Relation::Scan(scan) => {
                let (position, _) = scan.columns.iter().find(|(_, column)| column.id == id)?;
                match SqlType::of_field(scan.table.schema().field(*position))?.below_domains() {
                    SqlType::Timed(timed) => Some(timed.as_ref().clone()),
                    _ => None,
                }
            }
            Relation::Values { columns, rows } => {
                let place = place(columns)?;
                let values = rows.iter().map(|row| row.get(place)).collect::<Option<Vec<_>>>()?;
                self.of_all(values, relation)
            }
            Relation::Map { input, columns } => match columns.iter().find(|(column, _)| column.id == id) {
                Some((_, scalar)) => self.of_scalar(scalar, input),
                None => self.of_column(input, id),
            },
            Relation::Aggregate(aggregate) => {
                let (_, scalar) = aggregate.groups.iter().find(|(column, _)| column.id == id)?;
                self.of_scalar(scalar, &aggregate.input)
            }
            Relation::Set(set) => {
                let place = place(&set.columns)?;
                let mut all = set.inputs.iter().map(|(input, columns)| (input, columns.get(place).copied()));
                let (input, column) = all.next()?;
                let first = self.of_column(input, column?)?;
                let is_one = all.all(|(input, column)| {
                    column.and_then(|column| self.of_column(input, column)).as_ref() == Some(&first)
                });
                is_one.then_some(first)
            }
            Relation::With(table) => {
                let (definition, columns) = *self.definitions.get(&table.id)?;
                self.of_column(definition, columns.get(place(&table.columns)?)?.id)
            }
            // What the first term says.
            Relation::Recursive(recursive) => {
                let (base, columns) = &recursive.base;
                self.of_column(base, *columns.get(place(&recursive.columns)?)?)
            }
            Relation::Definitions { definitions, input } => {
                let named = definitions.iter().map(|(id, relation, columns)| (*id, (relation, columns.as_slice())));
                self.definitions.extend(named);
                self.of_column(input, id)
            }
            // All others have no columns of times but those of their inputs.
            other => {
                if other.produced().contains(&id) {
                    return None;
                }
                let inputs = other.inputs();
                let [input] = inputs.as_slice() else {
                    return inputs
                        .into_iter()
                        .find(|input| input.column_ids().contains(&id))
                        .and_then(|input| self.of_column(input, id));
                };
                self.of_column(input, id)
            }
        }
    }

    /// The type with a modifier that all expressions have.
    fn of_all(&mut self, scalars: Vec<&'r Scalar>, input: &'r Relation) -> Option<TimedType> {
        let mut scalars = scalars.into_iter();
        let first = self.of_scalar(scalars.next()?, input)?;
        scalars.all(|scalar| self.of_scalar(scalar, input).as_ref() == Some(&first)).then_some(first)
    }

    /// The type with a modifier that an expression over a relation has.
    fn of_scalar(&mut self, scalar: &'r Scalar, input: &'r Relation) -> Option<TimedType> {
        self.steps += 1;
        if self.steps > STEPS_MAX || !is_of_times(&scalar.sql_type()) {
            return None;
        }
        match scalar {
            Scalar::Column { id, .. } => self.of_column(input, *id),
            Scalar::Call { call, arguments } => match (call.overload.name, arguments.as_slice()) {
                ("seconds_digits", [value, Scalar::Constant(Constant { value: ScalarValue::Int32(digits), .. })]) => {
                    let digits = u64::try_from((*digits)?).ok();
                    TimedType::new(call.returns.clone(), digits, fields_of(value))
                }
                ("interval_up_to", _) => TimedType::new(call.returns.clone(), None, fields_of(scalar)),
                _ => None,
            },
            Scalar::Coalesce(parts) => self.of_all(parts.iter().collect(), input),
            Scalar::Case { arms, otherwise: Some(otherwise), .. } => {
                let values = arms.iter().map(|(_, value)| value).chain([otherwise.as_ref()]);
                self.of_all(values.collect(), input)
            }
            Scalar::Subquery(subquery) if subquery.kind == SubqueryKind::Value => {
                self.of_column(&subquery.relation, subquery.columns.first()?.id)
            }
            _ => None,
        }
    }
}

/// The fields that a cast to `interval hour to minute` and the like leaves.
fn fields_of(scalar: &Scalar) -> Option<&str> {
    match scalar {
        Scalar::Call { call, arguments } if call.overload.name == "interval_up_to" => {
            arguments.get(1)?.as_constant()?.value.try_as_str().flatten()
        }
        _ => None,
    }
}
