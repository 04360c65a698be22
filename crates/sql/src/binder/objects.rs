//! Numbers of tables, types and schemas, and the names that are shown for them.

use diligence_base::Result;
use diligence_types::SqlType;
use diligence_types::sql_type::OidKind;
use sqlparser::ast::{Expr, Query, SelectItem, SetExpr};

use super::operators::Way;
use super::scope::{Clause, Level, Namespace};
use super::syntax::bare_name;
use super::{Binder, Output, Rows, Withs};
use crate::algebra::{Column, Constant, Limit, Relation, Scalar};

/// The places of a query's columns that have names in the place of the numbers of objects when clients get them, with
/// the names of the types that these have: drivers know such columns by their types.
pub(super) fn places_of(rows: &Rows, query: &Query) -> Vec<(usize, &'static str)> {
    let typeofs = typeof_places(query, rows.outputs.len());
    let place = |(place, output): (usize, &Output)| match output.scalar.sql_type() {
        sql_type @ SqlType::Oid(kind) if kind != OidKind::Oid => Some((place, sql_type.internal_name())),
        SqlType::Text if typeofs.contains(&place) => Some((place, SqlType::Oid(OidKind::Type).internal_name())),
        _ => None,
    };
    rows.outputs.iter().enumerate().filter_map(place).collect()
}

/// Functions and aggregates that make texts of values of any type.
const MAKES_TEXTS: [&str; 17] = [
    "concat",
    "concat_ws",
    "format",
    "json_agg",
    "json_build_array",
    "json_build_object",
    "json_object_agg",
    "json_object_agg_unique",
    "jsonb_agg",
    "jsonb_build_array",
    "jsonb_build_object",
    "jsonb_object_agg",
    "jsonb_object_agg_unique",
    "quote_literal",
    "quote_nullable",
    "to_json",
    "to_jsonb",
];

/// The places of `pg_typeof(x)` in a SELECT list of so many columns, which is known as a text when it is bound.
fn typeof_places(query: &Query, columns: usize) -> Vec<usize> {
    let SetExpr::Select(select) = query.body.as_ref() else { return vec![] };
    if select.projection.len() != columns {
        return vec![];
    }
    let expression = |item| match item {
        &(SelectItem::UnnamedExpr(ref expression) | SelectItem::ExprWithAlias { expr: ref expression, .. }) => {
            Some(expression)
        }
        _ => None,
    };
    let expressions = select.projection.iter().map(expression).enumerate();
    let is_typeof =
        |found: &Option<&Expr>| matches!(found, Some(Expr::Function(call)) if bare_name(call) == "pg_typeof");
    expressions.filter(|(_, found)| is_typeof(found)).map(|(place, _)| place).collect()
}

impl Binder<'_> {
    /// The name of what a number of a table, a type and so on stands for, where a function makes a text of it.
    pub(super) fn with_name(&self, scalar: Scalar) -> Result<Scalar> {
        let Some(function) = name_function(&scalar.sql_type()) else { return Ok(scalar) };
        let withs = Withs::default();
        let level = Level::new(None, &withs, Namespace::default(), Clause::Select);
        self.named_call(function, vec![scalar], &level)
    }

    /// The arguments of a function, with names instead of such numbers if it makes texts of what it is given.
    pub(super) fn with_names(&self, name: &str, arguments: Vec<Scalar>) -> Result<Vec<Scalar>> {
        match MAKES_TEXTS.contains(&name) {
            true => arguments.into_iter().map(|argument| self.with_name(argument)).collect(),
            false => Ok(arguments),
        }
    }

    /// The rows of a query with names where they have numbers of tables and types, as PostgreSQL shows them.
    pub(super) fn with_names_of_objects(&self, mut rows: Rows) -> Result<Rows> {
        let withs = Withs::default();
        let mut computed = Vec::new();
        for output in &mut rows.outputs {
            let level = Level::new(None, &withs, Namespace::default(), Clause::Select);
            let Some(function) = name_function(&output.scalar.sql_type()) else { continue };
            let name = self.named_call(function, vec![output.scalar.clone()], &level)?;
            let column = self.column_for(&output.name, &name);
            output.scalar = column.scalar();
            computed.push((column, name));
        }
        rows.relation = mapped_in_order(rows.relation, computed);
        Ok(rows)
    }

    /// A value that is compared with one of this type: the name of a type becomes its number beside one, as in
    /// `pg_typeof(x) = 'integer'::regtype`. Fails with 42704 if there is no such type.
    pub(super) fn beside_type(&self, scalar: Scalar, other: &SqlType) -> Result<Scalar> {
        match (text_of(&scalar), other) {
            (Some(name), SqlType::Oid(OidKind::Type)) => self.object(name, OidKind::Type),
            _ => Ok(scalar),
        }
    }

    /// A text that names a table or a type is looked up where it is cast to its number; a literal when it is bound.
    pub(super) fn looked_up(&self, scalar: Scalar, to: &SqlType, level: &Level<'_>) -> Result<Scalar> {
        if matches!(to.uncollated(), SqlType::Text | SqlType::Varchar(_) | SqlType::Name)
            && let Some(function) = name_function(&scalar.sql_type())
        {
            return self.named_call(function, vec![scalar], level);
        }
        // A literal that a function takes as a text is one all the same.
        if let (SqlType::Oid(kind), Scalar::Constant(constant)) = (to, &scalar)
            && *kind != OidKind::Oid
            && matches!(constant.sql_type.uncollated(), SqlType::Text | SqlType::Varchar(_) | SqlType::Name)
            && let Some(Some(name)) = constant.value.try_as_str()
        {
            return self.object(name, *kind);
        }
        // `pg_typeof(x)::oid`: the name of a type is one of a number, too.
        if let (SqlType::Oid(OidKind::Oid), Some(name)) = (to, text_of(&scalar))
            && name.trim().parse::<i64>().is_err()
            && let Ok(found) = self.object(name, OidKind::Type)
        {
            return Ok(found);
        }
        let (function, what) = match to {
            SqlType::Oid(OidKind::Class) => ("to_regclass", "relation"),
            SqlType::Oid(OidKind::Type) => ("to_regtype", "type"),
            SqlType::Oid(OidKind::Namespace) => ("regnamespace of name", "schema"),
            SqlType::Oid(OidKind::Role) => ("regrole of name", "role"),
            SqlType::Oid(OidKind::Procedure) => ("to_regproc", "function"),
            _ => return Ok(scalar),
        };
        let is_name = match &scalar {
            Scalar::Constant(_) => false,
            Scalar::Parameter { sql_type: SqlType::Unknown, .. } => true,
            other => matches!(other.sql_type().uncollated(), SqlType::Text | SqlType::Varchar(_) | SqlType::Name),
        };
        if !is_name {
            return Ok(scalar);
        }
        let name = self.cast(scalar, &SqlType::Text, Way::Explicit)?;
        let found = self.named_call(function, vec![name.clone()], level)?;
        let number = self.cast(found, &SqlType::BigInt, Way::Explicit)?;
        let what = Scalar::Constant(Constant::text(what));
        let number = self.call("number of object", vec![name, number, what])?;
        self.cast(number, to, Way::Explicit)
    }
}

/// The text that a constant is.
fn text_of(scalar: &Scalar) -> Option<&str> {
    match scalar {
        Scalar::Constant(constant) if constant.sql_type == SqlType::Text => constant.value.try_as_str().flatten(),
        _ => None,
    }
}

/// The function that gives the names of what numbers of a type stand for.
fn name_function(sql_type: &SqlType) -> Option<&'static str> {
    match sql_type {
        SqlType::Oid(OidKind::Class) => Some("name of regclass"),
        SqlType::Oid(OidKind::Type) => Some("name of regtype"),
        SqlType::Oid(OidKind::Namespace) => Some("name of regnamespace"),
        SqlType::Oid(OidKind::Role) => Some("name of regrole"),
        SqlType::Oid(OidKind::Procedure) => Some("name of regproc"),
        SqlType::Oid(OidKind::Signature) => Some("name of regprocedure"),
        _ => None,
    }
}

/// Columns computed of a relation's, below its sort and its limit: what has subqueries becomes joins, which keep no
/// order.
fn mapped_in_order(relation: Relation, columns: Vec<(Column, Scalar)>) -> Relation {
    match relation {
        Relation::Sort { input, keys } => Relation::Sort { input: Box::new(input.mapped(columns)), keys },
        Relation::Limit(limit) => {
            let input = Box::new(mapped_in_order(*limit.input, columns));
            Relation::Limit(Limit { input, ..limit })
        }
        Relation::Definitions { definitions, input } => {
            Relation::Definitions { definitions, input: Box::new(mapped_in_order(*input, columns)) }
        }
        other => other.mapped(columns),
    }
}
