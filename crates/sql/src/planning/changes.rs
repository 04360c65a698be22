//! Statements that change rows: UPDATE and DELETE.
//!
//! Each becomes a query that gives the numbers of the rows, and for UPDATE all new values; its writer keeps what comes
//! and applies it at the end. So a statement never meets what it has written itself (Gamma's deferred update file:
//! DeWitt et al., "The Gamma Database Machine Project", 1990, section 5.3).
//!
//! ```text
//!   UPDATE t AS a SET x = e FROM f WHERE c   ──▶  SELECT a.<number>, e, a.y, … FROM <t> AS a, f WHERE c
//!   DELETE FROM t AS a USING f WHERE c       ──▶  SELECT a.<number> FROM <t> AS a, f WHERE c
//! ```
//! `<t>` is the table with the numbers of its rows. Only this place in the statement sees them.

use std::sync::Arc;

use diligence_base::{Error, Result};
use diligence_catalog::{ObjectRef, Relation, Resolved};
use diligence_storage::Table;
use diligence_storage::memory::ROW_NUMBERS;
use diligence_types::SqlType;
use sqlparser::ast::{
    self, AssignmentTarget, Expr, Ident, ObjectName, SelectItem, SetExpr, TableAlias, TableFactor, TableWithJoins,
    UpdateTableFromKind, With,
};

use super::around::Around;
use super::definitions::unwritable;
use super::statements::BoundStatement;
use super::writes::{name_in, with_before};
use crate::binder::{self, Named, Target};
use crate::errors;
use crate::write::memory::MemoryTarget;

/// The name of the table that changes, in the query that finds its rows. No statement can write it.
pub(super) const CHANGED: &str = "\u{1}changed";

/// The table that a statement changes.
struct Changed {
    object: ObjectRef,
    targets: Vec<Target>,
    /// What the statement calls it.
    alias: TableAlias,
}

impl Around<'_> {
    /// DELETE; `with` is before the whole statement.
    pub(super) fn delete(&self, delete: &ast::Delete, with: Option<&With>) -> Result<BoundStatement> {
        refuse(&[
            (delete.returning.is_some(), "DELETE … RETURNING"),
            (!delete.tables.is_empty(), "DELETE of several tables"),
            (delete.output.is_some(), "OUTPUT"),
            (!delete.order_by.is_empty() || delete.limit.is_some(), "DELETE with ORDER BY or LIMIT"),
        ])?;
        let (ast::FromTable::WithFromKeyword(from) | ast::FromTable::WithoutKeyword(from)) = &delete.from;
        let [target] = from.as_slice() else {
            return Err(Error::unsupported("DELETE from several tables is not supported").with_code("0A000"));
        };
        let changed = self.changed(target, "DELETE")?;
        let others = delete.using.clone().unwrap_or_default();
        let numbers = vec![changed.column(ROW_NUMBERS)];
        let query = changed.query(numbers, others, delete.selection.clone(), with)?;
        let rows = binder::bind_query(&query, self)?;
        let target = MemoryTarget::Change { table: changed.object };
        Ok(BoundStatement::Write { tag: "DELETE", rows, writer: self.memory_writer(target) })
    }

    /// UPDATE; `with` is before the whole statement.
    pub(super) fn update(&self, update: &ast::Update, with: Option<&With>) -> Result<BoundStatement> {
        refuse(&[
            (update.returning.is_some(), "UPDATE … RETURNING"),
            (update.or.is_some(), "UPDATE OR"),
            (update.output.is_some(), "OUTPUT"),
            (!update.order_by.is_empty() || update.limit.is_some(), "UPDATE with ORDER BY or LIMIT"),
        ])?;
        let changed = self.changed(&update.table, "UPDATE")?;
        let others = match &update.from {
            None => vec![],
            Some(UpdateTableFromKind::BeforeSet(from) | UpdateTableFromKind::AfterSet(from)) => from.clone(),
        };
        let mut values = vec![None; changed.targets.len()];
        for (column, value) in assignments(&update.assignments)? {
            let place = changed.place(column)?;
            let target = &changed.targets[place];
            if values[place].is_some() {
                let error = Error::input(format!("multiple assignments to same column \"{}\"", target.name));
                return Err(error.with_code("42601"));
            }
            values[place] = Some(if binder::is_default(value) {
                let null = || Expr::Value(ast::Value::Null.into());
                target.default.as_deref().cloned().unwrap_or_else(null)
            } else {
                value.clone()
            });
        }
        let mut outputs = vec![changed.column(ROW_NUMBERS)];
        for (target, value) in changed.targets.iter().zip(values) {
            outputs.push(value.unwrap_or_else(|| changed.column(&target.name)));
        }
        let query = changed.query(outputs, others, update.selection.clone(), with)?;
        let number = Target { name: ROW_NUMBERS.to_owned(), sql_type: SqlType::BigInt, default: None };
        let targets = std::iter::once(number).chain(changed.targets.iter().cloned()).collect::<Vec<_>>();
        let rows = binder::bind_insert(Some(&query), &targets, None, self)?;
        let target = MemoryTarget::Change { table: changed.object };
        Ok(BoundStatement::Write { tag: "UPDATE", rows, writer: self.memory_writer(target) })
    }

    /// The table that a statement changes. From now on [`CHANGED`] means it.
    fn changed(&self, target: &TableWithJoins, what: &str) -> Result<Changed> {
        let TableFactor::Table { name, alias, .. } = &target.relation else {
            return Err(Error::unsupported(format!("{what} is of a table only")).with_code("0A000"));
        };
        if !target.joins.is_empty() {
            let error = Error::unsupported(format!("{what} of joined tables is not supported")).with_code("0A000");
            return Err(error.with_hint("name the other tables in FROM (UPDATE) or USING (DELETE)"));
        }
        let name = self.changeable(name)?;
        let found = self.at.snapshot.readable(&name)?.ok_or_else(|| self.unknown(&name))?;
        let Resolved::Object(object) = &found else { return Err(unwritable(&name, &found)) };
        let Relation::Memory(memory) = &object.relation else { return Err(unwritable(&name, &found)) };
        let targets = memory.schema().fields().iter().map(|field| {
            let sql_type = SqlType::of_field(field)
                .ok_or_else(|| Error::unsupported(format!("the column '{}' cannot be written to", field.name())))?;
            Ok(Target {
                name: field.name().clone(),
                sql_type,
                default: memory.column_defaults().get(field.name()).cloned(),
            })
        });
        let targets = targets.collect::<Result<Vec<_>>>()?;
        self.set_changed(memory.numbered());
        let own = || TableAlias { explicit: true, name: Ident::with_quote('"', &name.name), columns: vec![], at: None };
        let alias = alias.clone().unwrap_or_else(own);
        Ok(Changed { object: object.reference(), targets, alias })
    }

    /// What [`CHANGED`] means.
    pub(super) fn changed_table(&self, name: &ObjectName) -> Option<Named> {
        let [part] = name.0.as_slice() else { return None };
        let table: Arc<dyn Table> =
            self.changed_rows().filter(|_| part.as_ident().is_some_and(|id| id.value == CHANGED))?;
        Some(Named::Table { table, name: CHANGED.to_owned() })
    }
}

impl Changed {
    /// A column of the table, as the query names it.
    fn column(&self, name: &str) -> Expr {
        Expr::CompoundIdentifier(vec![self.alias.name.clone(), Ident::with_quote('"', name)])
    }

    /// The place of a column that an assignment names.
    fn place(&self, column: &ObjectName) -> Result<usize> {
        let name = match column.0.as_slice() {
            [part] => part.as_ident(),
            // `SET t.x = …` is not PostgreSQL's, but what it means is clear.
            [table, part] if table.as_ident().is_some_and(|table| table.value == self.alias.name.value) => {
                part.as_ident()
            }
            _ => None,
        };
        let Some(name) = name else {
            let error = Error::unsupported(format!("{column}: fields of columns cannot be set"));
            return Err(error.with_code("0A000"));
        };
        let name = name_in(name, &self.targets);
        self.targets.iter().position(|target| target.name == name).ok_or_else(|| {
            let message = format!("column \"{name}\" of relation \"{}\" does not exist", self.object.name.name);
            let known = self.targets.iter().map(|target| target.name.clone()).collect::<Vec<_>>();
            errors::suggest(Error::input(message).with_code("42703"), &name, &known)
        })
    }

    /// The query that finds the rows.
    fn query(
        &self,
        outputs: Vec<Expr>,
        others: Vec<TableWithJoins>,
        selection: Option<Expr>,
        with: Option<&With>,
    ) -> Result<ast::Query> {
        let mut query = crate::parse::query("SELECT 1 FROM t")?;
        if let SetExpr::Select(select) = query.body.as_mut() {
            select.projection = outputs.into_iter().map(SelectItem::UnnamedExpr).collect();
            select.selection = selection;
            for from in &mut select.from {
                if let TableFactor::Table { name, alias, .. } = &mut from.relation {
                    *name = ObjectName::from(vec![Ident::with_quote('"', CHANGED)]);
                    *alias = Some(self.alias.clone());
                }
            }
            select.from.extend(others);
        }
        Ok(with_before(&query, with))
    }
}

/// Each column that is set, with its value.
fn assignments(assignments: &[ast::Assignment]) -> Result<Vec<(&ObjectName, &Expr)>> {
    let mut pairs = Vec::with_capacity(assignments.len());
    for assignment in assignments {
        match (&assignment.target, &assignment.value) {
            (AssignmentTarget::ColumnName(column), value) => pairs.push((column, value)),
            (AssignmentTarget::Tuple(columns), Expr::Tuple(values)) if columns.len() == values.len() => {
                pairs.extend(columns.iter().zip(values));
            }
            (AssignmentTarget::Tuple(_), Expr::Tuple(_)) => {
                return Err(Error::input("number of columns does not match number of values").with_code("42601"));
            }
            // Parentheses around one column and its value.
            (AssignmentTarget::Tuple(columns), value) if columns.len() == 1 => pairs.push((&columns[0], value)),
            (AssignmentTarget::Tuple(_), _) => {
                let error = Error::unsupported("several columns cannot be set from one value").with_code("0A000");
                return Err(error.with_hint("set each column by itself, or join the values with FROM"));
            }
        }
    }
    Ok(pairs)
}

fn refuse(clauses: &[(bool, &str)]) -> Result<()> {
    match clauses.iter().find(|(given, _)| *given) {
        None => Ok(()),
        Some((_, what)) => Err(Error::unsupported(format!("{what} is not supported")).with_code("0A000")),
    }
}
