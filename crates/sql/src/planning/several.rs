//! Statements whose WITH writes: `WITH x AS (DELETE … RETURNING …) INSERT …`.
//!
//! Each statement of the WITH that writes is planned by itself, over the names and rows that all of them see, and so is
//! the statement behind. They run one after the other, each to its end. What one gives is a table for those behind it,
//! which has its rows when they run ([`WrittenRows`]). An expression of the WITH that only reads is put into each
//! statement that reads it; if it would be another one each time, it runs once as well.

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion_common::ScalarValue;
use diligence_base::{Error, Result};
use sqlparser::ast::{self, Cte, With};

use super::around::Around;
use super::bound::{BoundPart, BoundSeveral, BoundStatement, schema_of};
use crate::binder::{self, is_writing, normalized};
use crate::statement::{AnyWrite, Part, Several};
use crate::written::WrittenRows;

/// Whether a statement of a query's WITH writes.
pub(super) fn writes_before(query: &ast::Query) -> bool {
    query.with.iter().flat_map(|with| &with.cte_tables).any(|cte| is_writing(&cte.query))
}

impl Around<'_> {
    /// A statement whose WITH writes.
    pub(super) fn several(&self, query: &ast::Query) -> Result<BoundStatement> {
        let with = query.with.as_ref().ok_or_else(|| Error::bug("a statement without a WITH writes in it"))?;
        let mut before = Vec::new();
        for (index, cte) in with.cte_tables.iter().enumerate() {
            let name = normalized(&cte.alias.name);
            let seen = With { cte_tables: with.cte_tables[..index].to_vec(), ..with.clone() };
            let statement = match is_writing(&cte.query) {
                true => {
                    if matches!(cte.query.body.as_ref(), ast::SetExpr::Merge(_)) {
                        return Err(Error::unsupported("MERGE not supported in WITH query").with_code("0A000"));
                    }
                    self.bind_body(&cte.query, Some(&both(seen, cte.query.with.as_ref())))?
                }
                false => {
                    let with = With { cte_tables: with.cte_tables[..=index].to_vec(), ..with.clone() };
                    match binder::bind_volatile(with, &cte.alias.name, self)? {
                        None => continue,
                        Some(bound) => BoundStatement::Query(bound),
                    }
                }
            };
            let schema = match &statement {
                BoundStatement::Query(bound) => schema_of(bound),
                BoundStatement::Write { returning, .. } => {
                    let schema = returning.as_ref().map(|(schema, _)| schema.clone());
                    schema.unwrap_or_else(|| Arc::new(Schema::empty()))
                }
                _ => return Err(Error::bug("a statement of a WITH neither reads nor writes")),
            };
            let version = self.planner.catalogs().catalog().next_table_version();
            let gives = WrittenRows::new(&name, schema, version);
            self.written.borrow_mut().add(cte, gives.clone());
            before.push(BoundPart { name, statement, gives });
        }
        let last = Box::new(self.bind_body(query, query.with.as_ref())?);
        before.retain(|part| matches!(part.statement, BoundStatement::Write { .. }) || part.gives.is_read());
        Ok(BoundStatement::Several(BoundSeveral { before, last, parameters: self.decided_parameters() }))
    }

    pub(super) fn planned_several(&self, bound: BoundSeveral, values: &[ScalarValue]) -> Result<Several> {
        let BoundSeveral { before, last, .. } = bound;
        self.plan_later(values)?;
        let part = |name: String, statement, gives| {
            let (rows, write) = match statement {
                BoundStatement::Query(rows) => (rows, None),
                BoundStatement::Write { tag, rows, again: Some(writer), returning, .. } => {
                    (rows, Some(AnyWrite::new(tag, writer, returning.map(|(schema, _)| schema))))
                }
                _ => {
                    let error = Error::unsupported("files cannot be written by a statement whose WITH writes");
                    return Err(error.with_code("0A000").with_hint("write the files by a statement of their own"));
                }
            };
            Ok(Part { name, rows: self.query(self.front(rows, values, false)?), write, gives })
        };
        let before = before.into_iter().map(|BoundPart { name, statement, gives }| part(name, statement, Some(gives)));
        Ok(Several { before: before.collect::<Result<_>>()?, last: part("the statement".to_owned(), *last, None)? })
    }
}

/// A WITH, and one inside of it, whose names come first.
fn both(mut outer: With, inner: Option<&With>) -> With {
    if let Some(inner) = inner {
        let hides =
            |cte: &Cte| inner.cte_tables.iter().any(|own| normalized(&own.alias.name) == normalized(&cte.alias.name));
        outer.cte_tables.retain(|cte| !hides(cte));
        outer.cte_tables.extend(inner.cte_tables.iter().cloned());
        outer.recursive |= inner.recursive;
    }
    outer
}
