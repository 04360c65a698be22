//! ALTER VIEW … RENAME COLUMN, SET SCHEMA and SET of options. All give the view another statement; views that stand on
//! it follow.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::datatypes::{Field, Schema};
use diligence_base::{Error, Result};
use diligence_catalog::{Object, RelationName, Resolved, View};
use sqlparser::ast::{self, Expr, Ident, ObjectName, VisitorMut};

use super::around::Around;
use super::bound::BoundStatement;
use super::definitions::lower;
use super::depends::{Becomes, FOLLOWED_DEPTH};
use crate::statement::{Command, Statement};
use crate::view_shape;
use crate::walking::walk_mut;

impl Around<'_> {
    /// ALTER VIEW … RENAME COLUMN. Fails with 42703 if there is no such column, 42701 if there is one of the new name.
    pub(super) fn rename_view_column(
        &self,
        object: &Object,
        view: &View,
        (from, to): (&Ident, &Ident),
        tag: &'static str,
    ) -> Result<BoundStatement> {
        let (from, to) = (lower(from), lower(to));
        let mut names = view.schema.fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>();
        if names.contains(&to) {
            let message = format!("column \"{to}\" of relation \"{}\" already exists", object.name.name);
            return Err(Error::input(message).with_code("42701"));
        }
        let missing = || Error::input(format!("column \"{from}\" does not exist")).with_code("42703");
        let place = names.iter().position(|name| *name == from).ok_or_else(missing)?;
        names[place].clone_from(&to);
        let fields = view.schema.fields().iter().zip(&names);
        let fields = fields.map(|(field, name)| Field::clone(field).with_name(name)).collect::<Vec<_>>();
        let columns = Arc::new(Schema::new(fields));
        let mut source = ast::Statement::clone(&view.source);
        let ast::Statement::CreateView(create) = &mut source else {
            return Err(Error::bug("a view's statement makes no view"));
        };
        let column =
            |name: &String| ast::ViewColumnDef { name: Ident::with_quote('"', name), data_type: None, options: None };
        create.columns = names.iter().map(column).collect();
        let becomes = Becomes { name: object.name.clone(), columns: columns.clone(), renamed: vec![(from, to)] };
        let followed = self.followed_views(object, &becomes)?;
        let next =
            View { source: Arc::new(source), depth: view.depth, schema: columns, triggers: view.triggers.clone() };
        let own = Command::CreateView {
            name: object.name.clone(),
            view: Arc::new(next),
            or_replace: true,
            stands_on: vec![],
        };
        let commands = std::iter::once(own).chain(followed).collect();
        Ok(BoundStatement::Other(Statement::Command(Command::All { commands, tag })))
    }

    /// ALTER VIEW … SET (…), and RESET (…), which gives options NULL. Fails with 22023 if views have no such option or
    /// value.
    pub(super) fn set_view_options(
        &self,
        object: &Object,
        view: &View,
        options: &[ast::SqlOption],
        tag: &'static str,
    ) -> Result<BoundStatement> {
        let mut source = ast::Statement::clone(&view.source);
        let ast::Statement::CreateView(create) = &mut source else {
            return Err(Error::bug("a view's statement makes no view"));
        };
        let mut kept = match &create.options {
            ast::CreateTableOptions::With(options) => options.clone(),
            _ => vec![],
        };
        for option in options {
            let ast::SqlOption::KeyValue { key, value } = option else {
                return Err(Error::input(format!("{option} is no option of a view")).with_code("42601"));
            };
            let is_it = |known: &ast::SqlOption| match known {
                ast::SqlOption::KeyValue { key: known, .. } => lower(known) == lower(key),
                _ => false,
            };
            kept.retain(|known| !is_it(known));
            let is_reset = matches!(value, Expr::Value(value) if value.value == ast::Value::Null);
            kept.extend((!is_reset).then(|| option.clone()));
        }
        view_shape::check_options(&kept)?;
        create.options = match kept.is_empty() {
            true => ast::CreateTableOptions::None,
            false => ast::CreateTableOptions::With(kept),
        };
        let (schema, triggers) = (view.schema.clone(), view.triggers.clone());
        let next = View { source: Arc::new(source), depth: view.depth, schema, triggers };
        let own = Command::CreateView {
            name: object.name.clone(),
            view: Arc::new(next),
            or_replace: true,
            stands_on: vec![],
        };
        Ok(BoundStatement::Other(Statement::Command(Command::All { commands: vec![own], tag })))
    }

    /// ALTER VIEW … SET SCHEMA: its query goes on to mean what it meant, by names with their schemas.
    pub(super) fn move_view(
        &self,
        object: &Object,
        view: &View,
        to: RelationName,
        tag: &'static str,
    ) -> Result<BoundStatement> {
        let mut source = ast::Statement::clone(&view.source);
        let ast::Statement::CreateView(create) = &mut source else {
            return Err(Error::bug("a view's statement makes no view"));
        };
        self.around_views.borrow_mut().push(object.name.schema.clone());
        let mut whole = WholeNames { around: self, given: HashSet::new() };
        let _ = walk_mut(&mut create.query, &mut whole);
        self.around_views.borrow_mut().pop();
        let becomes = Becomes { name: to.clone(), columns: view.schema.clone(), renamed: vec![] };
        let followed = self.followed_views(object, &becomes)?;
        let depth = view.depth + FOLLOWED_DEPTH;
        let (schema, triggers) = (view.schema.clone(), view.triggers.clone());
        let next = View { source: Arc::new(source), depth, schema, triggers };
        let rename = Command::Rename { object: object.reference(), to: to.clone(), tag };
        let own = Command::CreateView { name: to, view: Arc::new(next), or_replace: true, stands_on: vec![] };
        let commands = [rename, own].into_iter().chain(followed).collect();
        Ok(BoundStatement::Other(Statement::Command(Command::All { commands, tag })))
    }
}

/// Puts schemas in front of names that have none, and mean relations and functions of the catalog.
struct WholeNames<'w> {
    around: &'w Around<'w>,
    /// The names that the query itself gives.
    given: HashSet<String>,
}

impl WholeNames<'_> {
    fn put(name: &mut ObjectName, schema: &str) {
        name.0.insert(0, ast::ObjectNamePart::Identifier(Ident::with_quote('"', schema)));
    }
}

impl VisitorMut for WholeNames<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut ast::Query) -> ControlFlow<()> {
        let given = query.with.iter().flat_map(|with| &with.cte_tables).map(|cte| lower(&cte.alias.name));
        self.given.extend(given);
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, name: &mut ObjectName) -> ControlFlow<()> {
        let [part] = name.0.as_slice() else { return ControlFlow::Continue(()) };
        let Some(bare) = part.as_ident().map(lower).filter(|bare| !self.given.contains(bare)) else {
            return ControlFlow::Continue(());
        };
        let found = self.around.in_path(&bare);
        if matches!(self.around.at.snapshot.get(&found), Some(Resolved::Object(_))) {
            Self::put(name, &found.schema);
        } else if let Some(schema) = self.around.schema_of_routine(&bare) {
            Self::put(name, &schema);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, value: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(call) = value
            && let [part] = call.name.0.as_slice()
            && let Some(bare) = part.as_ident().map(lower)
            && let Some(schema) = self.around.schema_of_routine(&bare)
        {
            Self::put(&mut call.name, &schema);
        }
        ControlFlow::Continue(())
    }
}

impl Around<'_> {
    /// The first schema that has functions of a name, of those in which names are looked up.
    fn schema_of_routine(&self, name: &str) -> Option<String> {
        let has = |schema: &String| !self.at.snapshot.catalog.routines(schema, name).is_empty();
        self.schemas().into_iter().find(has)
    }
}
