//! Subqueries in expressions, and comparisons with any or all rows of one, or elements of an array.

use datafusion_common::ScalarValue;
use diligence_base::{Error, Result};
use diligence_types::SqlType;
use diligence_types::values::value_at;
use sqlparser::ast::{BinaryOperator, Expr, Query};

use super::common_types::is_sized;
use super::operators::{Way, row};
use super::scope::Level;
use super::syntax::{sign_comparison, sign_of, unnested};
use super::{Binder, Output, Rows, place, placed};
use crate::algebra::{
    Column, Comparison, Constant, FunctionItem, Quantifier, Relation, Scalar, Subquery, SubqueryKind, TableFunction,
};

impl Binder<'_> {
    /// A subquery's rows.
    pub(super) fn subquery(&self, query: &Query, level: &Level<'_>) -> Result<Rows> {
        let rows = self.query(query, Some(level), level.withs)?;
        self.settled(rows)
    }

    /// The rows of a subquery that must have one column. Fails with 42601 if it has more, and with 42P19 if it reads
    /// the recursive query whose recursive term it stands in.
    pub(super) fn one_column(&self, query: &Query, level: &Level<'_>) -> Result<Rows> {
        let before = level.withs.recursions();
        let rows = self.subquery(query, level)?;
        if !before.is_empty() {
            let after = level.withs.recursions();
            if let Some((name, _)) = after.iter().find(|recursion| !before.contains(recursion)) {
                let message = format!("recursive reference to query \"{name}\" must not appear within a subquery");
                return Err(placed(Error::input(message).with_code("42P19"), || place(query)));
            }
        }
        if rows.outputs.len() != 1 {
            let error = match rows.outputs.len() {
                0 => Error::input("a subquery whose value is used needs a column")
                    .with_hint("say what it selects: (SELECT column FROM …)"),
                _ => Error::input("subquery must return only one column"),
            };
            return Err(placed(error.with_code("42601"), || place(query)));
        }
        Ok(rows)
    }

    pub(super) fn any_or_all(
        &self,
        left: &Expr,
        op: &BinaryOperator,
        right: &Expr,
        quantifier: Quantifier,
        level: &Level<'_>,
    ) -> Result<Scalar> {
        let left = self.scalar(left, level)?;
        let sign = sign_of(op);
        match unnested(right) {
            Expr::Subquery(query) => {
                let rows = self.subquery(query, level)?;
                self.quantified(left, &sign, quantifier, rows)
            }
            other => {
                let array = self.scalar(other, level)?;
                // No subquery may stand in the rules of a table.
                if level.clause.get().is_rule()
                    && !matches!(array, Scalar::Array { .. } | Scalar::Constant(_))
                    && matches!(array.sql_type(), SqlType::Array(_))
                    && sign_comparison(&sign).is_some()
                {
                    let word = if quantifier == Quantifier::All { "all" } else { "any" };
                    return self.call(&format!("{sign} {word}"), vec![left, array]);
                }
                self.over_array(left, &sign, quantifier, array)
            }
        }
    }

    /// `left sign ANY/ALL (array)`. Fails with 42809 if it is no array.
    pub(super) fn over_array(&self, left: Scalar, sign: &str, quantifier: Quantifier, array: Scalar) -> Result<Scalar> {
        let array = self.vector_elements(array)?;
        let array = match array.sql_type() {
            SqlType::Unknown => {
                let element = match left.sql_type() {
                    SqlType::Unknown => SqlType::Text,
                    other => other,
                };
                match &array {
                    Scalar::Constant(constant) if is_sized(&element) && !constant.is_null() => {
                        self.array_of_literals(array)?
                    }
                    // What is compared with a varchar is a text, of any length.
                    Scalar::Parameter { .. } => {
                        let element = match element.without_modifier() {
                            SqlType::Varchar(_) => SqlType::Text,
                            other => other,
                        };
                        self.cast(array, &SqlType::array_of(element), Way::Implicit)?
                    }
                    _ => self.cast(array, &SqlType::array_of(element), Way::Implicit)?,
                }
            }
            SqlType::Array(_) => array,
            _ => {
                let error = Error::input("op ANY/ALL (array) requires array on right side").with_code("42809");
                return Err(error.with_hint("write ARRAY[…], or IN (…) for a list"));
            }
        };
        // Whatever dimensions it has, its values are compared, and whether there are any or not.
        let innermost = array.sql_type().innermost().clone();
        self.operator(sign, vec![left.clone(), Scalar::Constant(Constant::null(innermost.clone()))])?;
        let array = self.flattened(array)?;
        if SqlType::array_of(innermost) != array.sql_type() {
            return self.over_elements(left, sign, quantifier, array);
        }
        let elements = match array {
            Scalar::Array { elements, .. } => elements,
            Scalar::Constant(constant) if constant.is_null() => {
                return Ok(Scalar::Constant(Constant::null(SqlType::Boolean)));
            }
            Scalar::Constant(constant) => constant_elements(&constant)?,
            array => return self.over_elements(left, sign, quantifier, array),
        };
        match (sign, quantifier) {
            ("=", Quantifier::Any) if !elements.is_empty() => return self.in_list(left, elements, false),
            ("<>", Quantifier::All) if !elements.is_empty() => return self.in_list(left, elements, true),
            _ => {}
        }
        let terms = elements.into_iter().map(|element| self.operator(sign, vec![left.clone(), element]));
        let terms = terms.collect::<Result<Vec<_>>>()?;
        Ok(match quantifier {
            Quantifier::Any => Scalar::any(terms),
            Quantifier::All => Scalar::all(terms),
        })
    }

    /// The elements of an array's literal as literals, each of which may be longer than what it is compared with.
    fn array_of_literals(&self, array: Scalar) -> Result<Scalar> {
        let texts = self.cast(array, &SqlType::array_of(SqlType::Text), Way::Implicit)?;
        let Scalar::Constant(texts) = texts else { return Err(Error::bug("a literal that is no constant")) };
        let elements = constant_elements(&texts)?.into_iter().map(|element| match element {
            Scalar::Constant(element) => Scalar::Constant(Constant { sql_type: SqlType::Unknown, ..element }),
            other => other,
        });
        Ok(Scalar::Array { elements: elements.collect(), sql_type: SqlType::array_of(SqlType::Unknown) })
    }

    /// The same of an array that is known with each row: of the rows that it unnests to.
    fn over_elements(&self, left: Scalar, sign: &str, quantifier: Quantifier, array: Scalar) -> Result<Scalar> {
        let element = array.sql_type().innermost().clone();
        let column = self.numbers.named("element", element, true);
        let is_null = array.nullable().then(|| Scalar::IsNull(Box::new(array.clone())));
        let item = FunctionItem { array, columns: vec![column.clone()] };
        let relation = Relation::TableFunction(TableFunction {
            input: Box::new(Relation::one_row()),
            items: vec![item],
            ordinality: None,
            keeps_all: false,
        });
        let output = Output { name: column.name.clone(), scalar: column.scalar() };
        let any = self.quantified(left, sign, quantifier, Rows { relation, outputs: vec![output] })?;
        Ok(match is_null {
            None => any,
            Some(is_null) => Scalar::Case {
                arms: vec![(is_null, Scalar::Constant(Constant::null(SqlType::Boolean)))],
                otherwise: Some(Box::new(any)),
                sql_type: SqlType::Boolean,
            },
        })
    }

    /// `(a, b) sign (subquery)`: the values of the one row that the subquery gives are compared with those; NULL if it
    /// gives none. Fails with 42601 if the sides have another number of columns.
    pub(super) fn row_and_subquery(
        &self,
        values: &Expr,
        sign: &str,
        query: &Query,
        level: &Level<'_>,
    ) -> Result<Scalar> {
        let values = self.scalar(values, level)?;
        let rows = self.subquery(query, level)?;
        let columns = rows.columns();
        let fields = match &values {
            Scalar::Record { fields, .. } => fields.len(),
            _ => 1,
        };
        if columns.len() != fields {
            let few = if columns.len() < fields { "few" } else { "many" };
            let error = Error::input(format!("subquery has too {few} columns")).with_code("42601");
            return Err(placed(error, || place(query)));
        }
        let found = row(columns.iter().map(Column::scalar).collect());
        let test = self.operator(sign, vec![values, found])?;
        let column = self.column_for("test", &test);
        let relation = rows.relation.mapped(vec![(column.clone(), test)]);
        Ok(Scalar::Subquery(Box::new(Subquery { kind: SubqueryKind::Value, relation, columns: vec![column] })))
    }

    /// `left sign ANY/ALL (subquery)`, `left IN (subquery)`. Fails with 42601 if the sides have another number of
    /// columns, 42883 if there is no such operator.
    pub(super) fn quantified(&self, left: Scalar, sign: &str, quantifier: Quantifier, rows: Rows) -> Result<Scalar> {
        let columns = rows.columns();
        let is_record = |sql_type: &SqlType| matches!(sql_type, SqlType::Record(_));
        let is_whole = matches!(columns.as_slice(), [one] if is_record(&one.sql_type))
            && !matches!(&left, Scalar::Record { fields, .. }
                if matches!(fields.as_slice(), [one] if is_record(&one.sql_type())));
        let left = match left {
            Scalar::Record { fields, .. } if !is_whole && columns.len() == fields.len() => fields,
            Scalar::Record { fields, .. } if !is_whole => {
                let few = columns.len() < fields.len();
                let message = if few { "subquery has too few columns" } else { "subquery has too many columns" };
                return Err(Error::input(message).with_code("42601"));
            }
            one if columns.len() == 1 => vec![one],
            _ => {
                let message =
                    if columns.is_empty() { "subquery has too few columns" } else { "subquery has too many columns" };
                return Err(Error::input(message).with_code("42601"));
            }
        };
        let comparison = sign_comparison(sign);
        let is_plain = left.len() == 1 || matches!(comparison, Some(Comparison::Equal | Comparison::NotEqual));
        // The comparison that each pair of columns makes, and their types.
        let mut sides = Vec::with_capacity(left.len());
        if let Some(comparison) = comparison.filter(|_| is_plain) {
            for (left, column) in left.iter().zip(&columns) {
                match self.compare(comparison, left.clone(), column.scalar())? {
                    Scalar::Compare { left, right, .. } => sides.push((*left, *right)),
                    _ => break,
                }
            }
            if sides.len() == left.len() {
                let (mut keys, mut computed, mut compared) = (Vec::new(), Vec::new(), Vec::new());
                for ((left, right), column) in sides.into_iter().zip(&columns) {
                    keys.push(left);
                    let right_column = match right.as_column() {
                        Some(id) if id == column.id => column.clone(),
                        _ => {
                            let column = self.column_for(&column.name, &right);
                            computed.push((column.clone(), right));
                            column
                        }
                    };
                    compared.push(right_column);
                }
                let kind = SubqueryKind::Quantified { left: keys, comparison, quantifier };
                let relation = rows.relation.mapped(computed);
                return Ok(Scalar::Subquery(Box::new(Subquery { kind, relation, columns: compared })));
            }
        }
        // What no comparison of columns says is computed with each row of the subquery: is it TRUE for one, for all?
        let test = match (left.len(), columns.first()) {
            (1, Some(column)) => {
                let left = left.into_iter().next().ok_or_else(|| Error::bug("a side without a value"))?;
                self.operator(sign, vec![left, column.scalar()])?
            }
            _ => {
                let right = row(columns.iter().map(Column::scalar).collect());
                self.operator(sign, vec![row(left), right])?
            }
        };
        let column = self.column_for("test", &test);
        let kind =
            SubqueryKind::Quantified { left: vec![Scalar::boolean(true)], comparison: Comparison::Equal, quantifier };
        let relation = rows.relation.mapped(vec![(column.clone(), test)]);
        Ok(Scalar::Subquery(Box::new(Subquery { kind, relation, columns: vec![column] })))
    }
}

/// A subquery as an expression.
pub(super) fn subquery_scalar(kind: SubqueryKind, rows: Rows) -> Scalar {
    let columns = rows.columns();
    Scalar::Subquery(Box::new(Subquery { kind, relation: rows.relation, columns }))
}

/// The elements of an array that is known.
pub(super) fn constant_elements(constant: &Constant) -> Result<Vec<Scalar>> {
    let element = constant.sql_type.innermost().clone();
    let ScalarValue::List(list) = &constant.value else { return Err(Error::bug("an array's value is no list")) };
    let values = list.values();
    let values = (0..values.len()).map(|index| {
        let value = value_at(values, index)
            .map_err(|error| Error::bug(format!("an array's element cannot be read: {error}")))?;
        Ok(Scalar::Constant(Constant { value, sql_type: element.clone() }))
    });
    values.collect()
}
