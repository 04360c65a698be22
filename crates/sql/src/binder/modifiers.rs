//! The modifiers of a query's columns.
//!
//! No expression has a type with a modifier of times, such as `timestamp(3)`. But a column of that type that is
//! selected as it is has it to clients, in a view and in a table that is made of the query, and so has a cast to the
//! type. What computes anything else of the values has none, as in PostgreSQL.
//!
//! The types of numerics and texts say how many digits and characters there are, whatever computes them. To clients,
//! and in a table or a view that is made of the query, these are modifiers only where they come from a column or a
//! cast, too: to a table that is made of `SELECT 1.5 AS a`, 100 can be added.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion_common::ScalarValue;
use diligence_types::SqlType;
use diligence_types::sql_type::{NUMERIC_PRECISION, NUMERIC_SCALE};
use diligence_types::timed_type::TimedType;

use super::Bound;
use crate::algebra::{Column, ColumnId, Constant, Numbers, Relation, Scalar, SubqueryKind, WithId};

/// How many operators and expressions are looked at for one column: of deep queries the modifiers are left out.
const STEPS_MAX: usize = 10_000;

/// Gives columns of times the types with modifiers that they come from.
pub(crate) fn add_modifiers(relation: &Relation, columns: &mut [Column]) {
    for column in columns {
        if is_of_times(&column.sql_type)
            && let Some(timed) = Origins::default().of_column(relation, column.id)
            && timed.base() == &column.sql_type
        {
            column.sql_type = timed;
        }
    }
}

/// The places of the columns whose digits and characters are no modifiers, as something computes the values.
pub(crate) fn without_modifiers(relation: &Relation, columns: &[Column]) -> Vec<usize> {
    let is_computed = |column: &Column| {
        is_sized(&column.sql_type)
            && Origins::default().of_column(relation, column.id).as_ref() != Some(&column.sql_type)
    };
    (0..columns.len()).filter(|place| is_computed(&columns[*place])).collect()
}

/// Whether digits and characters of an expression's type are no modifier. Those of columns are.
pub(crate) fn is_without_modifier(scalar: &Scalar) -> bool {
    let nothing = Relation::Values { columns: vec![], rows: vec![] };
    let sql_type = scalar.sql_type();
    let origin = || Origins { has_columns: true, ..Origins::default() }.of_scalar(scalar, &nothing);
    is_sized(&sql_type) && origin().as_ref() != Some(&sql_type)
}

/// The rows for a table that is made of them: columns without modifiers hold whatever is added later.
pub(crate) fn made_wide(bound: Bound, numbers: &Numbers) -> Bound {
    let mut computed = vec![];
    let mut columns = bound.columns;
    for place in without_modifiers(&bound.relation, &columns) {
        let column = &mut columns[place];
        let wide = column.sql_type.without_modifier();
        if fits(&column.sql_type) {
            let scalar = column.scalar().cast(wide.clone(), false);
            *column = numbers.named(&column.name, wide, column.nullable);
            computed.push((column.clone(), scalar));
        }
    }
    Bound { relation: bound.relation.mapped(computed), columns, ..bound }
}

/// Whether all values of a type are some of the type without its modifier.
fn fits(sql_type: &SqlType) -> bool {
    match sql_type.innermost() {
        SqlType::Numeric(Some((precision, scale))) => {
            let before = i16::from(*precision) - i16::from(*scale);
            before <= i16::from(NUMERIC_PRECISION) - i16::from(NUMERIC_SCALE) && *scale <= NUMERIC_SCALE
        }
        _ => true,
    }
}

fn is_of_times(sql_type: &SqlType) -> bool {
    matches!(
        sql_type.innermost(),
        SqlType::Time | SqlType::TimeTz | SqlType::Timestamp | SqlType::TimestampTz | SqlType::Interval
    )
}

/// Whether a type says how many digits or characters its values have.
fn is_sized(sql_type: &SqlType) -> bool {
    matches!(sql_type.innermost(), SqlType::Numeric(Some(_)) | SqlType::Varchar(Some(_)))
}

/// Whether a constant's digits are only those that were written: a literal, not a cast.
fn is_literal(constant: &Constant) -> bool {
    let digits = match &constant.value {
        ScalarValue::Decimal128(Some(value), ..) => value.unsigned_abs().to_string().len(),
        ScalarValue::Decimal256(Some(value), ..) => value.to_string().trim_start_matches('-').len(),
        _ => return false,
    };
    let SqlType::Numeric(Some((precision, scale))) = constant.sql_type else { return false };
    usize::from(precision) == digits.max(usize::try_from(scale).unwrap_or(0)).max(1)
}

/// Where columns come from.
#[derive(Default)]
struct Origins<'r> {
    /// The common table expressions met so far.
    definitions: HashMap<WithId, (&'r Relation, &'r [Column])>,
    steps: usize,
    /// Whether every column has the modifier that its type has.
    has_columns: bool,
}

impl<'r> Origins<'r> {
    /// The type with a modifier that a column of a relation has; `None` if it has none.
    fn of_column(&mut self, relation: &'r Relation, id: ColumnId) -> Option<SqlType> {
        self.steps += 1;
        if self.steps > STEPS_MAX {
            return None;
        }
        stacker::maybe_grow(128 * 1024, 2 * 1024 * 1024, || self.of_operator(relation, id))
    }

    fn of_operator(&mut self, relation: &'r Relation, id: ColumnId) -> Option<SqlType> {
        let place = |columns: &[Column]| columns.iter().position(|column| column.id == id);
        match relation {
            Relation::Scan(scan) => {
                let (position, _) = scan.columns.iter().find(|(_, column)| column.id == id)?;
                let known = SqlType::of_field(scan.table.schema().field(*position))?.below_domains().clone();
                (matches!(known, SqlType::Timed(_)) || is_sized(&known)).then_some(known)
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
            // All others have no columns with modifiers but those of their inputs.
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
    fn of_all(&mut self, scalars: Vec<&'r Scalar>, input: &'r Relation) -> Option<SqlType> {
        // A constant takes the type of the others, and not its modifier.
        if scalars.iter().any(|scalar| matches!(scalar, Scalar::Constant(_))) {
            return None;
        }
        let mut scalars = scalars.into_iter();
        let first = self.of_scalar(scalars.next()?, input)?;
        scalars.all(|scalar| self.of_scalar(scalar, input).as_ref() == Some(&first)).then_some(first)
    }

    /// The type with a modifier that an expression over a relation has.
    fn of_scalar(&mut self, scalar: &'r Scalar, input: &'r Relation) -> Option<SqlType> {
        self.steps += 1;
        let sql_type = scalar.sql_type();
        if self.steps > STEPS_MAX || !is_of_times(&sql_type) && !is_sized(&sql_type) {
            return None;
        }
        match scalar {
            Scalar::Column { .. } if self.has_columns => is_sized(&sql_type).then_some(sql_type),
            Scalar::Column { id, .. } => self.of_column(input, *id),
            Scalar::Constant(constant) => (is_sized(&sql_type) && !is_literal(constant)).then_some(sql_type),
            Scalar::Cast { is_explicit: true, .. } => is_sized(&sql_type).then_some(sql_type),
            Scalar::Call { call, arguments } => match (call.overload.name, arguments.as_slice()) {
                ("seconds_digits", [value, Scalar::Constant(Constant { value: ScalarValue::Int32(digits), .. })]) => {
                    let digits = u64::try_from((*digits)?).ok();
                    TimedType::new(call.returns.clone(), digits, fields_of(value)).map(timed)
                }
                ("interval_up_to", _) => TimedType::new(call.returns.clone(), None, fields_of(scalar)).map(timed),
                _ => None,
            },
            Scalar::Coalesce(parts) => self.of_all(parts.iter().collect(), input),
            Scalar::Array { elements, .. } => match self.of_all(elements.iter().collect(), input)? {
                SqlType::Timed(one) => {
                    Some(timed(TimedType { base: SqlType::array_of(one.base.clone()), modifier: one.modifier }))
                }
                element => Some(SqlType::array_of(element)),
            },
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

fn timed(timed: TimedType) -> SqlType {
    SqlType::Timed(Arc::new(timed))
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
