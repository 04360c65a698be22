//! Rows that are stored: what INSERT gives to a table's columns, and rows as files hold them.

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion_common::ScalarValue;
use diligence_base::{Error, Result};
use diligence_types::SqlType;
use diligence_types::sql_type::RecordField;
use sqlparser::ast::{self, Expr};

use super::scope::{Clause, Level, Namespace, Source, Withs};
use super::{Binder, Bound, Context, Rows, normalized, place, placed};
use crate::algebra::{Column, Constant, Numbers, Scalar};
use crate::errors;
use crate::walking::each_expression;

/// The name of the table that changes, in the query that finds its rows. No statement can write it.
pub(crate) const CHANGED: &str = "\u{1}changed";

/// A column that takes values.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub sql_type: SqlType,
    /// What it gets where a statement gives nothing; NULL if absent.
    pub default: Option<Arc<Expr>>,
    /// What it is computed from, if it is: then it takes no values.
    pub generated: Option<Arc<Expr>>,
    /// Whether it counts, and takes no values.
    pub is_always: bool,
    /// Whether it counts: an identity column.
    pub counts: bool,
    /// Whether the values that it is given are left out.
    pub is_ignored: bool,
}

impl Target {
    /// A column that takes values, without a default.
    pub(crate) fn new(name: impl Into<String>, sql_type: SqlType) -> Self {
        Self {
            name: name.into(),
            sql_type,
            default: None,
            generated: None,
            is_always: false,
            counts: false,
            is_ignored: false,
        }
    }

    /// The type of its values.
    pub(super) fn held(&self) -> SqlType {
        self.sql_type.base().clone()
    }

    /// Whether statements may give it values.
    pub(super) fn takes_values(&self) -> bool {
        self.generated.is_none() && !self.is_always
    }
}

/// Which columns an INSERT names.
pub(crate) enum Given {
    /// All, in the table's order.
    All,
    /// Those in these places.
    Places(Vec<usize>),
    /// Those that the source's columns are named like.
    ByName,
}

/// The error for a value of a column that takes none.
pub(super) fn bad_generated(target: &Target) -> Error {
    let message = format!("cannot insert a non-DEFAULT value into column \"{}\"", target.name);
    let error = Error::input(message).with_code("428C9");
    if target.is_always {
        let detail = format!("Column \"{}\" is an identity column defined as GENERATED ALWAYS.", target.name);
        return error.with_detail(detail).with_hint("Use OVERRIDING SYSTEM VALUE to override.");
    }
    error.with_detail(format!("Column \"{}\" is a generated column.", target.name))
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
    let given = given.map_or(Given::All, |places| Given::Places(places.to_vec()));
    let (mut relation, columns) = binder.given_values(source, table, &given, &Withs::default())?;
    let parameters = binder.settled_parameters(&mut relation);
    let is_transient = binder.is_transient.get();
    Ok(Bound::new(relation, columns, parameters, is_transient))
}

/// Binds an expression without columns, in the type that its place has. Fails like [`bind_insert`].
pub(crate) fn bind_value(expression: &Expr, sql_type: &SqlType, context: &dyn Context) -> Result<Scalar> {
    let (binder, withs) = (Binder::new(context), Withs::default());
    let level = Level::new(None, &withs, Namespace::default(), Clause::Default);
    let scalar = binder.scalar(expression, &level)?;
    let target = Target::new("value", sql_type.clone());
    binder.assign(scalar, &target).map_err(|error| placed(error, || place(expression)))
}

/// Fails with code 0A000 if a query is in an expression; `what` says what that is.
pub(crate) fn refuse_queries(expression: &Expr, what: &str) -> Result<()> {
    let mut found = None;
    let _ = each_expression(expression, |part| {
        let is_query = match part {
            Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => true,
            Expr::Function(call) => matches!(call.args, ast::FunctionArguments::Subquery(_)),
            _ => false,
        };
        if !is_query {
            return ControlFlow::Continue(());
        }
        found = Some(place(part));
        ControlFlow::Break(())
    });
    match found {
        None => Ok(()),
        Some(place) => {
            let error = Error::unsupported(format!("cannot use subquery in {what}")).with_code("0A000");
            Err(placed(error, || place))
        }
    }
}

/// Binds what a column gets where a statement gives nothing. Fails like [`bind_value`], and with code 0A000 if there is
/// a query or a column in it.
pub(crate) fn bind_default(expression: &Expr, column: &str, sql_type: &SqlType, context: &dyn Context) -> Result<()> {
    const WHAT: &str = "DEFAULT expression";
    refuse_queries(expression, WHAT)?;
    let (binder, withs) = (Binder::new(context), Withs::default());
    let level = Level::new(None, &withs, Namespace::default(), Clause::Default);
    let scalar = binder.scalar(expression, &level).map_err(|error| match error.code() {
        Some("42703" | "42P01") if error.message().starts_with("no ") => {
            let span = error.span();
            errors::at(Error::unsupported(format!("cannot use column reference in {WHAT}")).with_code("0A000"), span)
        }
        _ => error,
    })?;
    let assigned = binder.assign(scalar, &Target::new(column, sql_type.clone())).map_err(|error| {
        let is_of_type = error.code() == Some("42804");
        let message = error.message().replacen("but expression is", "but default expression is", 1);
        let error = match error.hint().filter(|_| is_of_type) {
            Some(hint) => Error::input(message).with_code("42804").with_hint(hint),
            None => error,
        };
        placed(error, || place(expression))
    });
    assigned.map(|_| ())
}

/// Binds an expression without columns, in the type that it has. Fails with kind `Input` if it means nothing.
pub(crate) fn bind_any(expression: &Expr, context: &dyn Context) -> Result<Scalar> {
    let (binder, withs) = (Binder::new(context), Withs::default());
    let level = Level::new(None, &withs, Namespace::default(), Clause::Default);
    let scalar = binder.scalar(expression, &level)?;
    binder.typed(scalar)
}

/// Binds an expression over a table's columns, in the type of a column or as a condition. Fails with kind `Input` if it
/// means nothing, with code 0A000 if it has a query in it, 42P17 if a generated column would be another one each time.
pub(crate) fn bind_rule(
    expression: &Expr,
    table: &str,
    columns: &[Target],
    to: Option<&Target>,
    context: &dyn Context,
) -> Result<()> {
    let (binder, withs) = (Binder::new(context), Withs::default());
    let columns = columns.iter().map(|target| context.numbers().named(&target.name, target.held(), true));
    let names = Namespace::of(Source::new(Some(table.to_owned()), columns.collect()));
    let (clause, what) = match to {
        None => (Clause::Check, "check constraint"),
        Some(_) => (Clause::Generation, "column generation expression"),
    };
    refuse_queries(expression, what)?;
    let level = Level::new(None, &withs, names, clause);
    let scalar = match to {
        None => binder.condition(expression, &level, "CHECK")?,
        Some(target) => {
            let scalar = binder.assign(binder.scalar(expression, &level)?, target);
            let scalar = scalar.map_err(|error| placed(error, || place(expression)))?;
            if scalar.is_volatile() || binder.is_transient.get() {
                return Err(Error::input("generation expression is not immutable").with_code("42P17"));
            }
            scalar
        }
    };
    if scalar.has_subquery() {
        return Err(Error::unsupported(format!("cannot use subquery in {what}")).with_code("0A000"));
    }
    Ok(())
}

/// The type of an expression over a table's columns. Fails with kind `Input` if it means nothing, with code 0A000 if it
/// has a query in it.
pub(crate) fn type_of_rule(
    expression: &Expr,
    table: &str,
    columns: &[Target],
    context: &dyn Context,
) -> Result<SqlType> {
    let (binder, withs) = (Binder::new(context), Withs::default());
    let columns = columns.iter().map(|target| context.numbers().named(&target.name, target.held(), true));
    let names = Namespace::of(Source::new(Some(table.to_owned()), columns.collect()));
    refuse_queries(expression, "column generation expression")?;
    let level = Level::new(None, &withs, names, Clause::Generation);
    Ok(binder.typed_scalar(expression, &level)?.sql_type())
}

/// Which values of rows that follow others are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settling {
    /// Those of the columns that have changed, as their columns hold them.
    Changed {
        /// Whether they get their defaults.
        to_defaults: bool,
    },
    /// Those of generated columns.
    Generated,
}

/// Binds the values of rows that follow others, over the columns of their table: by place. Fails with kind `Input` if
/// they mean nothing, 0A000 if they would be others each time.
pub(crate) fn bind_settled(
    settling: Settling,
    targets: &[Target],
    is_changed: &dyn Fn(&String) -> bool,
    columns: &[Column],
    table: &str,
    context: &dyn Context,
) -> Result<Vec<(usize, Scalar)>> {
    let (binder, withs) = (Binder::new(context), Withs::default());
    let names = Namespace::of(Source::new(Some(table.to_owned()), columns.to_vec()));
    let level = Level::new(None, &withs, names, Clause::Default);
    let mut bound = Vec::new();
    for (place, target) in targets.iter().enumerate() {
        let scalar = match (settling, &target.generated) {
            (Settling::Changed { to_defaults: true }, _) if is_changed(&target.name) => {
                binder.default(target, &withs)?
            }
            (Settling::Changed { .. }, _) if is_changed(&target.name) => {
                binder.assign(columns[place].scalar(), target)?
            }
            (Settling::Generated, Some(generated)) => binder.assign(binder.scalar(generated, &level)?, target)?,
            _ => continue,
        };
        if scalar.is_volatile() {
            let message = format!("a default that is another one each time, of the column \"{}\"", target.name);
            let error = Error::unsupported(format!("SET DEFAULT to {message}, is not supported"));
            return Err(error.with_code("0A000").with_hint("give the column a default that is one value"));
        }
        bound.push((place, scalar));
    }
    Ok(bound)
}

/// Binds conditions over a table's columns. Fails with kind `Input` if they mean nothing.
pub(crate) fn bind_checks<'a>(
    checks: impl Iterator<Item = &'a Arc<Expr>>,
    columns: &[Column],
    table: &str,
    context: &dyn Context,
) -> Result<Vec<Scalar>> {
    let (binder, withs) = (Binder::new(context), Withs::default());
    let names = Namespace::of(Source::new(Some(table.to_owned()), columns.to_vec()));
    let level = Level::new(None, &withs, names, Clause::Default);
    checks
        .map(|check| match binder.condition(check, &level, "CHECK")? {
            // A column that is a condition by itself.
            column @ Scalar::Column { .. } => Ok(column.cast(SqlType::Boolean, true)),
            volatile if volatile.is_volatile() => {
                let error = Error::unsupported("a CHECK that is another one each time cannot be held against");
                Err(error.context("a row that follows another").with_code("0A000"))
            }
            other => Ok(other),
        })
        .collect()
}

/// What an index computes, over a table's columns.
pub(crate) struct BoundIndex {
    /// The columns, in the table's order.
    pub columns: Vec<Column>,
    /// The values.
    pub values: Vec<Scalar>,
    /// Which rows it has.
    pub condition: Option<Scalar>,
}

/// Binds the values and the condition of an index over a table's columns. Fails with kind `Input` if they mean nothing,
/// with code 0A000 for a query in them, 42P17 for what would be another one each time.
pub(crate) fn bind_index(
    values: &[Expr],
    condition: Option<&Expr>,
    table: &str,
    columns: &[Target],
    context: &dyn Context,
) -> Result<BoundIndex> {
    let (binder, withs) = (Binder::new(context), Withs::default());
    let columns = columns.iter().map(|target| context.numbers().named(&target.name, target.held(), true));
    let columns = columns.collect::<Vec<_>>();
    let names = Namespace::of(Source::new(Some(table.to_owned()), columns.clone()));
    let level = Level::new(None, &withs, names, Clause::Index);
    let lasting = |scalar: Scalar, what: &str| {
        if scalar.is_volatile() || binder.is_transient.get() {
            let message = format!("functions in index {what} must be marked IMMUTABLE");
            return Err(Error::input(message).with_code("42P17"));
        }
        if scalar.has_subquery() {
            return Err(Error::unsupported(format!("cannot use subquery in index {what}")).with_code("0A000"));
        }
        Ok(scalar)
    };
    let values = values.iter().map(|value| {
        let scalar = binder.typed(binder.scalar(value, &level)?)?;
        lasting(scalar, "expression")
    });
    let values = values.collect::<Result<Vec<_>>>()?;
    let condition = condition.map(|condition| lasting(binder.condition(condition, &level, "WHERE")?, "predicate"));
    let condition = condition.transpose()?;
    Ok(BoundIndex { columns, values, condition })
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
            other => self.numeric.map_or_else(|| other.clone(), |digits| with_digits(other, digits)),
        }
    }
}

/// The type in which a `numeric` without digits has these, also within arrays, records and maps.
fn with_digits(sql_type: &SqlType, digits: (u8, i8)) -> SqlType {
    match sql_type {
        SqlType::Numeric(None) => SqlType::decimal(digits.0, digits.1),
        SqlType::Array(element) => SqlType::array_of(with_digits(element, digits)),
        SqlType::Map(pair) => SqlType::Map(Arc::new((with_digits(&pair.0, digits), with_digits(&pair.1, digits)))),
        SqlType::Record(record) => {
            let field = |field: &RecordField| RecordField {
                name: field.name.clone(),
                sql_type: with_digits(&field.sql_type, digits),
            };
            SqlType::Record(record.with(record.iter().map(field).collect()))
        }
        other => other.clone(),
    }
}

/// The rows with their columns as they are held where they go.
pub(crate) fn held(bound: Bound, held: &Held<'_>, numbers: &Numbers) -> Bound {
    let mut computed = Vec::new();
    let columns = bound.columns.iter().map(|column| {
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
    Bound { relation: bound.relation.mapped(computed), columns, ..bound }
}

/// The column that a value is, under a name: one that is there, or one that is computed.
pub(super) fn named(name: &str, scalar: Scalar, numbers: &Numbers, computed: &mut Vec<(Column, Scalar)>) -> Column {
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
            return self.domain_default(target, withs);
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
        if !target.takes_values() {
            return Err(placed(bad_generated(target), || place(value)));
        }
        let scalar = self.scalar(value, level)?;
        self.assign(scalar, target).map_err(|error| placed(error, || place(value)))
    }

    /// The rows of a query as they are stored into these columns.
    pub(super) fn stored(&self, mut rows: Rows, targets: &[&Target]) -> Result<Rows> {
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
