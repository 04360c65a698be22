//! Rows that are stored: what INSERT gives to a table's columns, and rows as files hold them.

use std::sync::Arc;

use datafusion_common::ScalarValue;
use diligence_base::{Error, Result};
use diligence_types::SqlType;
use sqlparser::ast::{self, Expr};

use super::scope::{Clause, Level, Namespace, Withs};
use super::{Binder, Bound, Context, Rows, normalized, place, placed};
use crate::algebra::{Column, Constant, Numbers, Relation, Scalar};

/// A column that takes values.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub sql_type: SqlType,
    /// What it gets where a statement gives nothing; NULL if absent.
    pub default: Option<Arc<Expr>>,
}

/// Binds what INSERT gives to a table: rows with all of its columns, in their types and their order. `given` are the
/// places of the columns that the statement names; `source` is absent in DEFAULT VALUES. Literals become the columns'
/// types, other values are cast as an assignment does. Fails like [`bind_query`](super::bind_query), with 42804 where a
/// value does not become a column's type, and with 42601 if there are more or fewer values than columns named.
pub(crate) fn bind_insert(
    source: Option<&ast::Query>,
    table: &[Target],
    given: Option<&[usize]>,
    context: &dyn Context,
) -> Result<Bound> {
    let binder = Binder::new(context);
    let withs = Withs::default();
    let places = given.map_or_else(|| (0..table.len()).collect(), <[usize]>::to_vec);
    let targets = places.iter().filter_map(|place| table.get(*place)).collect::<Vec<_>>();
    let rows = match source {
        None => Rows { relation: Relation::one_row(), outputs: vec![] },
        Some(source) => match Binder::plain_values(source) {
            Some(values) => binder.values(values, None, &withs, Some(&targets))?,
            None => binder.stored(binder.query_part(source, None, &withs)?, &targets)?,
        },
    };
    if source.is_some() && given.is_some_and(|given| given.len() > rows.outputs.len()) {
        return Err(Error::input("INSERT has more target columns than expressions").with_code("42601"));
    }
    let mut values: Vec<Option<Scalar>> = vec![None; table.len()];
    for (place, output) in places.iter().zip(rows.outputs) {
        values[*place] = Some(output.scalar);
    }
    let mut columns = Vec::with_capacity(table.len());
    let mut computed = Vec::new();
    for (target, value) in table.iter().zip(values) {
        let scalar = match value {
            Some(scalar) => scalar,
            None => binder.default(target, &withs)?,
        };
        columns.push(named(&target.name, scalar, context.numbers(), &mut computed));
    }
    let mut relation = rows.relation.mapped(computed);
    let parameters = binder.settled_parameters(&mut relation);
    Ok(Bound { relation, columns, parameters, is_transient: binder.is_transient.get() })
}

/// Binds an expression without columns, in the type that its place has. Fails like [`bind_insert`].
pub(crate) fn bind_value(expression: &Expr, sql_type: &SqlType, context: &dyn Context) -> Result<Scalar> {
    let (binder, withs) = (Binder::new(context), Withs::default());
    let level = Level::new(None, &withs, Namespace::default(), Clause::Default);
    let scalar = binder.scalar(expression, &level)?;
    let target = Target { name: "value".to_owned(), sql_type: sql_type.clone(), default: None };
    binder.assign(scalar, &target).map_err(|error| placed(error, || place(expression)))
}

/// Which columns of some rows are held in other types where they go.
pub(crate) struct Held<'a> {
    /// Those whose values become the names of folders: NULLs have this name.
    pub folders: (&'a [String], &'a str),
    /// Whether lists, records and maps are texts, and a `numeric` without digits, which then shows what it has.
    pub nested_as_text: bool,
    /// The digits of a `numeric` that has none, and those behind the point.
    pub numeric: Option<(u8, i8)>,
}

impl Held<'_> {
    fn sql_type(&self, column: &Column) -> SqlType {
        match &column.sql_type {
            _ if self.folders.0.contains(&column.name) => SqlType::Text,
            SqlType::Array(_) | SqlType::Record(_) | SqlType::Map(_) if self.nested_as_text => SqlType::Text,
            SqlType::Numeric(None) if self.nested_as_text => SqlType::Text,
            SqlType::Numeric(None) => match self.numeric {
                Some((precision, scale)) => SqlType::decimal(precision, scale),
                None => SqlType::NUMERIC,
            },
            other => other.clone(),
        }
    }
}

/// The rows with their columns as they are held where they go.
pub(crate) fn held(bound: Bound, held: &Held<'_>, numbers: &Numbers) -> Bound {
    let Bound { relation, columns, parameters, is_transient } = bound;
    let mut computed = Vec::new();
    let columns = columns.iter().map(|column| {
        let wanted = held.sql_type(column);
        let mut scalar = column.scalar();
        if wanted != column.sql_type {
            scalar = scalar.cast(wanted, true);
        }
        if held.folders.0.contains(&column.name) {
            let null = ScalarValue::Utf8View(Some(held.folders.1.to_owned()));
            let null = Scalar::Constant(Constant { value: null, sql_type: SqlType::Text });
            scalar = Scalar::Coalesce(vec![scalar, null]);
        }
        named(&column.name, scalar, numbers, &mut computed)
    });
    let columns = columns.collect();
    Bound { relation: relation.mapped(computed), columns, parameters, is_transient }
}

/// The column that a value is, under a name: one that is there, or one that is computed.
fn named(name: &str, scalar: Scalar, numbers: &Numbers, computed: &mut Vec<(Column, Scalar)>) -> Column {
    match scalar {
        Scalar::Column { id, sql_type, nullable } => Column { id, name: name.to_owned(), sql_type, nullable },
        scalar => {
            let column = numbers.named(name, scalar.sql_type(), scalar.nullable());
            computed.push((column.clone(), scalar));
            column
        }
    }
}

impl Binder<'_> {
    /// What a column gets where a statement gives nothing.
    pub(super) fn default(&self, target: &Target, withs: &Withs<'_>) -> Result<Scalar> {
        let Some(default) = &target.default else {
            return Ok(Scalar::Constant(Constant::null(target.sql_type.clone())));
        };
        let level = Level::new(None, withs, Namespace::default(), Clause::Default);
        let scalar = self.scalar(default, &level)?;
        self.assign(scalar, target)
            .map_err(|error| error.context(format!("the default of the column '{}'", target.name)))
    }

    /// A value in VALUES as it is stored into a column.
    pub(super) fn stored_value(&self, value: &Expr, target: &Target, level: &Level<'_>) -> Result<Scalar> {
        if is_default(value) {
            return self.default(target, level.withs);
        }
        let scalar = self.scalar(value, level)?;
        self.assign(scalar, target).map_err(|error| placed(error, || place(value)))
    }

    /// The rows of a query as they are stored into these columns.
    fn stored(&self, mut rows: Rows, targets: &[&Target]) -> Result<Rows> {
        if rows.outputs.len() > targets.len() {
            return Err(too_many());
        }
        let mut computed = Vec::new();
        for (output, target) in rows.outputs.iter_mut().zip(targets) {
            let taken = std::mem::replace(&mut output.scalar, Scalar::boolean(false));
            let scalar = self.assign(taken, target)?;
            output.scalar = named(&output.name, scalar, self.numbers, &mut computed).scalar();
        }
        rows.relation = rows.relation.mapped(computed);
        Ok(rows)
    }
}

/// The error for an INSERT of more values than columns.
pub(super) fn too_many() -> Error {
    Error::input("INSERT has more expressions than target columns").with_code("42601")
}

/// Whether a value in VALUES is the word DEFAULT.
pub(crate) fn is_default(value: &Expr) -> bool {
    matches!(value, Expr::Identifier(name) if name.quote_style.is_none() && normalized(name) == "default")
}
