//! A query with a name.
//!
//! A view keeps its statement, not its plan: every use plans it again, over its tables as they are. It keeps the
//! columns that it had when it was made, and what it names is not dropped without it.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use diligence_base::{Error, Result};
use sqlparser::ast::{Query, SelectItem, SetExpr, Statement};

use crate::Trigger;

/// A query with a name.
#[derive(Debug)]
pub struct View {
    /// The `CREATE VIEW` statement.
    pub source: Arc<Statement>,
    /// How deep that statement nests in levels of the parser.
    pub depth: usize,
    /// Its columns when it was made.
    pub schema: SchemaRef,
    /// What runs when statements change its rows, in the order of their names.
    pub triggers: Vec<Trigger>,
}

/// Between a view's statement and each of its triggers, in what is kept of it.
const BETWEEN: &str = "\u{1}trigger ";

impl View {
    /// What it selects. Fails with kind `Bug` if its statement makes no view.
    pub fn query(&self) -> Result<Arc<Query>> {
        match self.source.as_ref() {
            Statement::CreateView(create) => Ok(Arc::new(create.query.as_ref().clone())),
            _ => Err(Error::bug("a view's statement makes no view")),
        }
    }

    /// The text of its query, whose columns have the names that those of the view have.
    pub fn shown_query(&self) -> String {
        let Statement::CreateView(create) = self.source.as_ref() else { return self.definition() };
        let mut query = create.query.as_ref().clone();
        if create.columns.is_empty() {
            return query.to_string();
        }
        let is_plain =
            |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. });
        match query.body.as_mut() {
            SetExpr::Select(select)
                if select.projection.len() == create.columns.len() && select.projection.iter().all(is_plain) =>
            {
                for (item, column) in select.projection.iter_mut().zip(&create.columns) {
                    let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = &*item else {
                        continue;
                    };
                    *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: column.name.clone() };
                }
                query.to_string()
            }
            _ => {
                let columns = create.columns.iter().map(|column| column.name.to_string()).collect::<Vec<_>>();
                format!("SELECT * FROM ({query}) AS unnamed ({})", columns.join(", "))
            }
        }
    }

    /// The names of its columns; none if they are those of its query.
    pub fn column_names(&self) -> Vec<String> {
        match self.source.as_ref() {
            Statement::CreateView(create) => {
                let name = |name: &sqlparser::ast::Ident| match name.quote_style {
                    Some(_) => name.value.clone(),
                    None => name.value.to_lowercase(),
                };
                create.columns.iter().map(|column| name(&column.name)).collect()
            }
            _ => vec![],
        }
    }

    /// The same with other triggers.
    pub fn with_triggers(&self, triggers: Vec<Trigger>) -> Self {
        Self { source: self.source.clone(), depth: self.depth, schema: self.schema.clone(), triggers }
    }

    /// What a log keeps: its statement and its triggers.
    pub fn kept(&self) -> String {
        let triggers = self.triggers.iter().map(Trigger::encoded);
        std::iter::once(self.definition()).chain(triggers).collect::<Vec<_>>().join(BETWEEN)
    }

    /// The statement, and the triggers, of what a log has kept. Fails with kind `File` if a trigger is none.
    pub fn parts_of(kept: &str) -> Result<(&str, Vec<Trigger>)> {
        let mut parts = kept.split(BETWEEN);
        let definition = parts.next().unwrap_or_default();
        Ok((definition, parts.map(Trigger::decoded).collect::<Result<_>>()?))
    }

    /// The text of the statement that made it.
    pub fn definition(&self) -> String {
        self.source.to_string()
    }
}
