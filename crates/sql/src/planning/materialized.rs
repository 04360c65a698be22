//! Materialized views: tables whose rows are the answer of a query, until they are refreshed.
//!
//! Such a view is a table in memory or on disk like any other, with indexes, whose rules have its query; no statement
//! changes its rows but REFRESH, which puts the query's new answer in their place.

use diligence_base::{Error, Result};
use diligence_catalog::rules::Materialized;
use diligence_catalog::{Relation, Resolved};
use sqlparser::ast::{self, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName, SetExpr, TableFactor};

use super::around::Around;
use super::bound::{BoundStatement, declared_schema};
use super::column_names::rename;
use super::tables::Declaration;
use super::writable::unwritable;
use crate::binder::{self, Bound, Context};
use crate::parse::{NO_DATA, REFRESH};
use crate::statement::{Command, Statement, nullable};
use crate::write::native::{Layout, NativeTarget, NewTable};

/// Whether CALL is REFRESH MATERIALIZED VIEW.
pub(super) fn is_refresh(call: &ast::Function) -> bool {
    matches!(call.name.0.as_slice(), [part] if part.as_ident().is_some_and(|name| name.value == REFRESH))
}

impl Around<'_> {
    /// CREATE MATERIALIZED VIEW.
    pub(super) fn create_materialized(&self, create: &ast::CreateView) -> Result<BoundStatement> {
        const TAG: &str = "CREATE MATERIALIZED VIEW";
        if create.or_replace || create.temporary {
            let error = Error::unsupported("materialized views are neither replaced nor temporary");
            return Err(error.with_code("42601").with_hint("DROP MATERIALIZED VIEW IF EXISTS takes the old one away"));
        }
        let name = self.creatable(&create.name, false)?;
        if self.is_index_name(&name, create.if_not_exists)? {
            return Ok(BoundStatement::Other(Statement::Command(Command::Nothing(TAG))));
        }
        if let Some(existing) = self.at.snapshot.catalog.get(&name) {
            if create.if_not_exists {
                self.tell_existing_relation(&name.name);
                return Ok(BoundStatement::Other(Statement::Command(Command::Nothing(TAG))));
            }
            let error = Error::input(format!("{} named '{name}' exists already", existing.relation.a_kind()));
            return Err(error.with_code("42P07"));
        }
        let without_data = without_data(&create.query);
        let query = without_data.unwrap_or(&create.query);
        // Its rows: none, or those of the query.
        let mut rows = binder::made_wide(binder::bind_query(&create.query, self)?, &self.numbers);
        if !rows.parameters.is_empty() {
            return Err(Error::input("materialized views may not be defined using bound parameters").with_code("0A000"));
        }
        let names = create.columns.iter().map(|column| &column.name).collect::<Vec<_>>();
        rename(&mut rows, &names, TAG)?;
        let mut declaration = Declaration::new(name.clone());
        declaration.fields = nullable(&declared_schema(&rows)).fields().to_vec();
        let mut kept = query.clone();
        self.hold_names(&mut kept, &name.schema);
        declaration.rules.materialized =
            Some(Materialized { query: kept.to_string(), is_populated: without_data.is_none() });
        let target = NativeTarget::Create(NewTable {
            name,
            or_replace: false,
            if_not_exists: create.if_not_exists,
            schema: declaration.schema(),
            rules: declaration.rules,
            sequences: vec![],
        });
        let writer = self.memory_writer(target);
        let tag = if without_data.is_some() { "CREATE MATERIALIZED VIEW WITH NO DATA" } else { TAG };
        Ok(BoundStatement::Write { tag, rows, writer, returning: None, again: None })
    }

    /// REFRESH MATERIALIZED VIEW. Fails with 42809 if it is none, 55000 if it has no unique index and is to be
    /// refreshed while others read it.
    pub(super) fn refresh(&self, call: &ast::Function) -> Result<BoundStatement> {
        let (view, options) = arguments(call)?;
        let (is_concurrent, has_no_data) = (options.contains(&"concurrently"), options.contains(&NO_DATA));
        let name = self.changeable(&view)?;
        let found = self.at.snapshot.get(&name).ok_or_else(|| self.unknown(&name))?;
        let Resolved::Object(object) = &found else { return Err(unwritable(&name, &found)) };
        let (Relation::Native(table), Some(shown)) = (&object.relation, object.relation.materialized()) else {
            return Err(Error::unsupported(format!("\"{}\" is not a materialized view", name.name)).with_code("0A000"));
        };
        if is_concurrent {
            if has_no_data {
                let message = "REFRESH options CONCURRENTLY and WITH NO DATA cannot be used together";
                return Err(Error::input(message).with_code("42601"));
            }
            if !shown.is_populated {
                let message = "CONCURRENTLY cannot be used when the materialized view is not populated";
                return Err(Error::unsupported(message).with_code("0A000"));
            }
            if !table.rules().keys.iter().any(|key| key.kind.is_unique()) {
                let message = format!("cannot refresh materialized view \"{name}\" concurrently");
                let hint =
                    "Create a unique index with no WHERE clause on one or more columns of the materialized view.";
                return Err(Error::input(message).with_code("55000").with_hint(hint));
            }
        }
        self.names.uses_object(&name, object);
        let query = crate::parse::query(&shown.query)?;
        let query = if has_no_data { none_of(query)? } else { query };
        let declaration = Declaration::of(name.clone(), table);
        let targets = declaration.targets()?;
        // Names mean what they mean in its schema.
        self.enter_view(&name.schema, &name.name);
        let bound = binder::bind_insert(Some(&query), &targets, None, self);
        self.leave_view();
        let rows: Bound = bound.map_err(|error| error.context(format!("the materialized view '{name}'")))?;
        let mut rules = table.rules().clone();
        rules.materialized = Some(Materialized { is_populated: !has_no_data, ..shown.clone() });
        let layout = Layout { values: targets.len(), ..Layout::default() };
        let new = NewTable {
            name: object.name.clone(),
            or_replace: false,
            if_not_exists: false,
            schema: table.schema().clone(),
            rules,
            sequences: vec![],
        };
        let (table, built_on) = (object.reference(), object.version);
        let writer = self.memory_writer(NativeTarget::Rewrite { table, built_on, new, layout, changed: vec![] });
        Ok(BoundStatement::Write { tag: "REFRESH MATERIALIZED VIEW", rows, writer, returning: None, again: None })
    }
}

/// The query of AS query WITH NO DATA, which the parser's room has made a part of another.
pub(super) fn without_data(query: &ast::Query) -> Option<&ast::Query> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let [from] = select.from.as_slice() else { return None };
    match &from.relation {
        TableFactor::Derived { subquery, alias: Some(alias), .. } if alias.name.value == NO_DATA => Some(subquery),
        _ => None,
    }
}

/// None of the rows of a query.
fn none_of(query: ast::Query) -> Result<ast::Query> {
    let mut none = crate::parse::query("SELECT * FROM (SELECT 1) s LIMIT 0")?;
    if let SetExpr::Select(select) = none.body.as_mut()
        && let Some(TableFactor::Derived { subquery, .. }) = select.from.first_mut().map(|from| &mut from.relation)
    {
        **subquery = query;
    }
    Ok(none)
}

/// The view that REFRESH names, and its options.
fn arguments(call: &ast::Function) -> Result<(ObjectName, Vec<&str>)> {
    let FunctionArguments::List(list) = &call.args else { return Err(Error::bug("REFRESH without a view")) };
    let mut values = list.args.iter().filter_map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value),
        _ => None,
    });
    let view = match values.next() {
        Some(Expr::Identifier(name)) => ObjectName::from(vec![name.clone()]),
        Some(Expr::CompoundIdentifier(names)) => ObjectName::from(names.clone()),
        _ => return Err(Error::input("REFRESH MATERIALIZED VIEW names a view").with_code("42601")),
    };
    let mut options = Vec::new();
    for value in values {
        if let Expr::Value(value) = value
            && let ast::Value::SingleQuotedString(text) = &value.value
        {
            options.push(text.as_str());
        }
    }
    Ok((view, options))
}
