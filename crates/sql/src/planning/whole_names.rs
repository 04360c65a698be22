//! Names that definitions keep: they mean later what they meant when the definition was made, wherever a session looks
//! for names by then.
//!
//! What a view names is looked up in the view's schema and in the default one, and what a default, a generated column,
//! a condition or an index calls along the path of whoever writes rows. A name that is found elsewhere when the
//! definition is made gets its schema in front of it. The others stay as they are written.

use std::ops::ControlFlow;
use std::sync::Arc;

use diligence_catalog::{DEFAULT_SCHEMA, Relation, RelationName, whole_name};
use diligence_types::functions::has_function;
use sqlparser::ast::{
    self, ArrayElemTypeDef, DataType, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName,
    ObjectNamePart, TableFactor, VisitorMut,
};

use super::around::Around;
use super::definitions::lower;
use super::sequences::{is_counting, sequence_text};
use crate::walking::{each_expression_mut, walk_mut};

impl Around<'_> {
    /// An expression that a table or a domain keeps: what is in another schema than the default one is named with it,
    /// and so are all sequences, whatever they are called later.
    pub(super) fn with_whole_names(&self, kept: &Expr) -> Arc<Expr> {
        let mut copy = kept.clone();
        let mut names = WholeNames { around: self, view: None, hidden: vec![], is_call: false };
        let _ = walk_mut(&mut copy, &mut names);
        Arc::new(copy)
    }

    /// The same for a rule of a table, whose columns have no table in front: it may be called otherwise later.
    pub(super) fn kept_rule(&self, rule: &Expr, table: &RelationName) -> Arc<Expr> {
        let mut kept = Expr::clone(&self.with_whole_names(rule));
        let _ = each_expression_mut(&mut kept, |part| {
            let column = match part {
                Expr::CompoundIdentifier(names) => match names.as_slice() {
                    [of, column] if lower(of) == table.name => Some(column.clone()),
                    [schema, of, column] if lower(schema) == table.schema && lower(of) == table.name => {
                        Some(column.clone())
                    }
                    _ => None,
                },
                _ => None,
            };
            if let Some(column) = column {
                *part = Expr::Identifier(column);
            }
            ControlFlow::Continue(())
        });
        Arc::new(kept)
    }

    /// The query of a view in a schema: what would not be found from there is named with its own.
    pub(super) fn hold_names(&self, query: &mut ast::Query, schema: &str) {
        let mut names = WholeNames { around: self, view: Some(schema.to_owned()), hidden: vec![], is_call: false };
        let _ = walk_mut(query, &mut names);
    }

    /// What is found where the names of a view in a schema are looked up.
    fn seen_from_view<T>(&self, schema: &str, find: impl FnOnce() -> T) -> T {
        self.around_views.borrow_mut().push(schema.to_owned());
        let found = find();
        self.around_views.borrow_mut().pop();
        found
    }

    fn sequence_named(&self, text: &str) -> Option<RelationName> {
        let name = RelationName::parse(text)?;
        let name = if text.contains('.') { name } else { self.in_path(&name.name) };
        let object = self.at.snapshot.catalog.get(&name)?;
        matches!(object.relation, Relation::Sequence(_)).then_some(name)
    }
}

/// Puts schemas in front of names.
struct WholeNames<'a, 'b> {
    around: &'a Around<'b>,
    /// The schema of the view that keeps them, if one does.
    view: Option<String>,
    /// The names of common table expressions around the place, by query.
    hidden: Vec<Vec<String>>,
    /// Whether the name that comes next is a function's in FROM.
    is_call: bool,
}

impl WholeNames<'_, '_> {
    /// Has a name without a schema get the one in which `find` finds it, unless it is found from the definition.
    fn complete(&self, name: &mut ObjectName, find: impl Fn(&Around<'_>, &str) -> Option<String>) {
        let [ObjectNamePart::Identifier(own)] = name.0.as_slice() else { return };
        let bare = lower(own);
        let Some(schema) = find(self.around, &bare) else { return };
        if RelationName::new(&schema, bare.as_str()).is_temporary() {
            return;
        }
        let is_found = match &self.view {
            None => schema == DEFAULT_SCHEMA,
            Some(view) => self.around.seen_from_view(view, || find(self.around, &bare)) == Some(schema.clone()),
        };
        if !is_found {
            let own = own.clone();
            *name = ObjectName::from(vec![written(&schema), own]);
        }
    }

    fn relation(&self, name: &mut ObjectName) {
        let is_hidden = |bare: &str| self.hidden.iter().flatten().any(|hidden| hidden == bare);
        if name.0.first().and_then(|part| part.as_ident()).is_some_and(|bare| is_hidden(&lower(bare))) {
            return;
        }
        self.complete(name, |around, bare| {
            let found = around.in_path(bare);
            around.at.snapshot.catalog.get(&found).map(|_| found.schema)
        });
    }

    fn call(&self, name: &mut ObjectName) {
        self.complete(name, |around, bare| {
            let catalog = &around.at.snapshot.catalog;
            let is_there = |schema: &String| !catalog.routines(schema, bare).is_empty();
            // A function of the engine is found before it, or beside it by its arguments.
            if has_function(bare) { None } else { around.schemas().into_iter().find(is_there) }
        });
    }

    fn data_type(&self, data_type: &mut DataType) {
        match data_type {
            DataType::Custom(name, _) => self.complete(name, |around, bare| {
                let name = ObjectName::from(vec![Ident::with_quote('"', bare)]);
                around.type_object(&name).ok().flatten().map(|object| object.name.schema.clone())
            }),
            DataType::Array(
                ArrayElemTypeDef::SquareBracket(element, _)
                | ArrayElemTypeDef::AngleBracket(element)
                | ArrayElemTypeDef::Parenthesis(element),
            ) => self.data_type(element),
            _ => {}
        }
    }

    /// The sequence of `nextval('s')`.
    fn sequence(&self, call: &mut ast::Function) {
        if is_counting(&call.name)
            && let FunctionArguments::List(list) = &mut call.args
            && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(first))) = list.args.first_mut()
            && let Some(name) = sequence_text(first).and_then(|text| self.around.sequence_named(text))
        {
            *first = Expr::Value(ast::Value::SingleQuotedString(whole_name(&name)).into());
        }
    }
}

/// A schema as it is written.
fn written(schema: &str) -> Ident {
    let is_plain = schema.starts_with(|first: char| first.is_ascii_lowercase() || first == '_')
        && schema.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if is_plain { Ident::new(schema) } else { Ident::with_quote('"', schema) }
}

impl VisitorMut for WholeNames<'_, '_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut ast::Query) -> ControlFlow<()> {
        let own = query.with.iter().flat_map(|with| &with.cte_tables);
        self.hidden.push(own.map(|own| lower(&own.alias.name)).collect());
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut ast::Query) -> ControlFlow<()> {
        self.hidden.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        self.is_call = match factor {
            TableFactor::Table { name, args: Some(_), .. } | TableFactor::Function { name, .. } => {
                self.call(name);
                true
            }
            _ => false,
        };
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, name: &mut ObjectName) -> ControlFlow<()> {
        if !std::mem::take(&mut self.is_call) {
            self.relation(name);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, value: &mut Expr) -> ControlFlow<()> {
        match value {
            Expr::Function(call) => {
                self.call(&mut call.name);
                self.sequence(call);
            }
            Expr::Cast { data_type, .. } => self.data_type(data_type),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}
