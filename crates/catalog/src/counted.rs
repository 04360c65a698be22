//! Columns whose defaults take numbers from a sequence, whoever owns it: they name it as a whole, in a literal.

use std::ops::ControlFlow;
use std::sync::Arc;

use diligence_base::{Error, Result};
use sqlparser::ast::{self, Expr};

use crate::snapshot::Root;
use crate::{Object, Relation, RelationName};

/// What defaults call a sequence: `"public"."s"`.
pub fn whole_name(name: &RelationName) -> String {
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    format!("{}.{}", quoted(&name.schema), quoted(&name.name))
}

/// The tables whose columns count by a sequence, with these columns, in order; not those of these names.
pub(crate) fn counted_by(
    root: &Root,
    sequence: &RelationName,
    but: &[RelationName],
) -> Vec<(Arc<Object>, Vec<String>)> {
    let name = whole_name(sequence);
    let objects = root.schemas.values().flat_map(|schema| schema.objects.values());
    let counting = objects.filter(|table| !but.contains(&table.name)).filter_map(|table| {
        let Relation::Native(rows) = &table.relation else { return None };
        let defaults = rows.rules().defaults.iter().filter(|(_, default)| has_literal(default, &name));
        let mut columns = defaults.map(|(column, _)| column.clone()).collect::<Vec<_>>();
        columns.sort_unstable();
        (!columns.is_empty()).then(|| (table.clone(), columns))
    });
    counting.collect()
}

/// The tables that lose defaults when something goes, with the columns of these: those that count by it, or by a
/// sequence that it owns. Fails with code 2BP01 if there are any and not `cascade`, or one is an identity column's.
pub(crate) fn losing_defaults(
    root: &Root,
    going: &Object,
    all_going: &[RelationName],
    cascade: bool,
) -> Result<Vec<(Arc<Object>, Vec<String>)>> {
    let sequences = match &going.relation {
        Relation::Sequence(_) => vec![going.name.clone()],
        _ => root.owned_by(going.id).iter().map(|sequence| sequence.name.clone()).collect(),
    };
    let mut losing = Vec::new();
    for sequence in sequences {
        for (table, columns) in counted_by(root, &sequence, all_going) {
            let own = &table.name.name;
            let (kind, name) = (going.relation.kind(), &going.name);
            if let Relation::Native(rows) = &table.relation
                && let Some(column) = columns.iter().find(|column| rows.rules().identities.contains_key(*column))
            {
                let message = format!("cannot drop {kind} {name} because column {column} of table {own} requires it");
                let hint = format!("You can drop column {column} of table {own} instead.");
                return Err(Error::input(message).with_code("2BP01").with_hint(hint));
            }
            if !cascade {
                let message = format!("cannot drop {kind} {name} because other objects depend on it");
                let depends = |column: &String| {
                    format!("default value for column {column} of table {own} depends on sequence {sequence}")
                };
                let detail = columns.iter().map(depends).collect::<Vec<_>>().join("\n");
                let error = Error::input(message).with_code("2BP01").with_detail(detail);
                return Err(error.with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
            }
            losing.push((table, columns));
        }
    }
    Ok(losing)
}

/// Whether an expression has a literal.
fn has_literal(expression: &Expr, text: &str) -> bool {
    let visit = |part: &Expr| match part {
        Expr::Value(value) if matches!(&value.value, ast::Value::SingleQuotedString(own) if own == text) => {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    };
    ast::visit_expressions(expression, visit).is_break()
}
