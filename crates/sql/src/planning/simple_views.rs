//! Views through which rows of a table are changed: those that select columns of one relation, as in PostgreSQL.
//!
//! A statement that changes rows of such a view becomes one that changes those of the relation behind it. Names of the
//! view's columns become what they stand for, and the view's condition joins that of the statement. WITH CHECK OPTION
//! is one more condition that new rows fulfill. What the statement may do with the view is asked of the session; what
//! it then does with the relation behind, of the view's owner, where the view was granted.

use std::ops::ControlFlow;
use std::sync::Arc;

use diligence_base::{Error, Result};
use diligence_catalog::authority::{Privilege, Subject};
use diligence_catalog::{Object, Relation, RelationName, Resolved, Rights};
use sqlparser::ast::{self, Expr, Ident, ObjectName, SelectItem, TableFactor, VisitorMut};

use super::around::Around;
use super::changes::names_columns;
use super::definitions::lower;
use crate::parse::{CONFLICT_VALUE, CONFLICT_WHERE};
use crate::view_shape::{self, OF_VIEW, SimpleView};
use crate::walking::walk_mut;

/// A view on the way to what is behind it.
struct Way {
    /// The relation behind.
    behind: RelationName,
    /// The view's columns, and what they stand for.
    columns: Vec<(String, Expr)>,
    /// The columns of the relation.
    known: Vec<String>,
    condition: Option<Expr>,
    view: String,
    /// What the statement calls it.
    alias: Ident,
}

/// Changes the names of columns in an expression. Told is the name, and whether it stands in no subquery.
struct EachName<F> {
    change: F,
    depth: usize,
}

impl<F: FnMut(&mut Expr, bool)> VisitorMut for EachName<F> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut ast::Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut ast::Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, value: &mut Expr) -> ControlFlow<()> {
        if matches!(value, Expr::Identifier(_) | Expr::CompoundIdentifier(_)) {
            (self.change)(value, self.depth == 0);
        }
        ControlFlow::Continue(())
    }
}

fn change_names(value: &mut Expr, change: impl FnMut(&mut Expr, bool)) {
    let _ = walk_mut(value, &mut EachName { change, depth: 0 });
}

/// Names the columns of a relation, which the expression calls so, by an alias; by their names alone if it is `None`.
fn qualify(value: &mut Expr, called: &str, alias: Option<&Ident>) {
    change_names(value, |value, is_outside| {
        let name = match &*value {
            Expr::Identifier(name) if is_outside => name,
            Expr::CompoundIdentifier(names) => match names.as_slice() {
                [.., of, name] if lower(of) == called => name,
                _ => return,
            },
            _ => return,
        };
        let name = Ident::with_quote('"', lower(name));
        *value = match alias {
            Some(alias) => Expr::CompoundIdentifier(vec![alias.clone(), name]),
            None => Expr::Identifier(name),
        };
    });
}

impl Around<'_> {
    /// A statement that changes rows of a view, as one that changes those behind it; `None` if it is of no view. Fails
    /// with 55000 for a view that is not simple, and 42501.
    pub(super) fn through_view(&self, statement: &ast::Statement) -> Result<Option<ast::Statement>> {
        Ok(match statement {
            ast::Statement::Insert(insert) => {
                let ast::TableObject::TableName(name) = &insert.table else { return Ok(None) };
                let needed = [Privilege::Insert];
                let alias = insert.table_alias.as_ref().map(|alias| alias.alias.clone());
                let Some(way) = self.way(name, alias, &needed, insert.returning.is_some(), "insert into")? else {
                    return Ok(None);
                };
                Some(ast::Statement::Insert(inserted(insert, &way)?))
            }
            ast::Statement::Update(update) => {
                let TableFactor::Table { name, alias, .. } = &update.table.relation else { return Ok(None) };
                let alias = alias.as_ref().map(|alias| alias.name.clone());
                let reads = update.from.is_some() || update.selection.is_some() || update.returning.is_some();
                let reads = reads || update.assignments.iter().any(|assignment| names_columns(&assignment.value));
                let Some(way) = self.way(name, alias, &[Privilege::Update], reads, "update")? else {
                    return Ok(None);
                };
                let mut update = update.clone();
                update.table.relation = way.factor();
                let is_alone = update.from.is_none();
                for assignment in &mut update.assignments {
                    way.assign(&mut assignment.target)?;
                    way.replace(&mut assignment.value, is_alone)?;
                }
                update.selection = way.joined(update.selection, is_alone)?;
                update.returning = update.returning.map(|items| way.returning(items, is_alone)).transpose()?;
                Some(ast::Statement::Update(update))
            }
            ast::Statement::Delete(delete) => {
                let (ast::FromTable::WithFromKeyword(from) | ast::FromTable::WithoutKeyword(from)) = &delete.from;
                let [target] = from.as_slice() else { return Ok(None) };
                let TableFactor::Table { name, alias, .. } = &target.relation else { return Ok(None) };
                let alias = alias.as_ref().map(|alias| alias.name.clone());
                let reads = delete.using.is_some() || delete.selection.is_some() || delete.returning.is_some();
                let Some(way) = self.way(name, alias, &[Privilege::Delete], reads, "delete from")? else {
                    return Ok(None);
                };
                let mut delete = delete.clone();
                let mut target = target.clone();
                target.relation = way.factor();
                delete.from = ast::FromTable::WithFromKeyword(vec![target]);
                let is_alone = delete.using.is_none();
                delete.selection = way.joined(delete.selection, is_alone)?;
                delete.returning = delete.returning.map(|items| way.returning(items, is_alone)).transpose()?;
                Some(ast::Statement::Delete(delete))
            }
            _ => None,
        })
    }

    /// The way through a view; `None` if the name is that of something else.
    fn way(
        &self,
        name: &ObjectName,
        alias: Option<Ident>,
        needed: &[Privilege],
        reads: bool,
        what: &str,
    ) -> Result<Option<Way>> {
        let relation = self.relation_name(name)?;
        let Some(Resolved::Object(object)) = self.at.snapshot.get(&relation) else { return Ok(None) };
        let Relation::View(view) = &object.relation else { return Ok(None) };
        for privilege in needed {
            self.check_granted(&object.name, *privilege)?;
        }
        if reads {
            self.check_granted(&object.name, Privilege::Select)?;
        }
        let simple = SimpleView::of(view).map_err(|why| {
            let error = Error::unsupported(format!("cannot {what} view \"{}\"", relation.name)).with_code("55000");
            let detail = match why {
                "no single table" => {
                    "Views that do not select from a single table or view are not automatically updatable.".to_owned()
                }
                why => format!("Views containing {why} are not automatically updatable."),
            };
            error.with_detail(detail).with_hint("change the rows of the tables behind it")
        })?;
        // Names mean what they mean where the view is.
        self.around_views.borrow_mut().push(object.name.schema.clone());
        let behind = self.relation_name(&simple.of);
        self.around_views.borrow_mut().pop();
        let behind = behind?;
        let found = self.at.snapshot.get(&behind).ok_or_else(|| self.unknown(&behind))?;
        let known = found.schema()?.fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>();
        let alias = alias.unwrap_or_else(|| Ident::with_quote('"', &object.name.name));
        let qualified = |value: &Expr, alias: Option<&Ident>| {
            let mut value = value.clone();
            qualify(&mut value, &simple.called, alias);
            value
        };
        let mut columns = Vec::new();
        for (place, (field, item)) in view.schema.fields().iter().zip(&simple.items).enumerate() {
            let before = simple.items[..place].iter().filter(|item| item.is_none()).count();
            let column = |name: &str| Expr::CompoundIdentifier(vec![alias.clone(), Ident::with_quote('"', name)]);
            let stands_for = match item {
                None => column(known.get(before).ok_or_else(|| self.unknown(&behind))?),
                Some(value) => match simple.column_of(value) {
                    Some(name) if known.contains(&name) => column(&name),
                    _ => Expr::Nested(Box::new(qualified(value, Some(&alias)))),
                },
            };
            columns.push((field.name().clone(), stands_for));
        }
        let condition = simple.condition.as_ref().map(|condition| qualified(condition, Some(&alias)));
        let view_name = object.name.name.clone();
        let way = Way { behind: behind.clone(), columns, known, condition, view: view_name, alias };
        self.check_through(&way, &simple, qualified(&simple.condition.clone().unwrap_or_else(of_all), None));
        let is_invoker = view_shape::is_invoker(view);
        let owner = match self.through.borrow().as_ref() {
            // Also behind a view of somebody else.
            _ if is_invoker => None,
            Some((_, Some(_))) => {
                Some(self.at.snapshot.catalog.authority().owner_of(Subject::Object(object.id)).to_owned())
            }
            _ => self.at.snapshot.owner_behind(&object),
        };
        self.names.uses_object(&relation, &object);
        *self.through.borrow_mut() = Some((behind.clone(), owner));
        if is_invoker && (reads || way.condition.is_some()) {
            self.check_granted(&behind, Privilege::Select)?;
        }
        Ok(Some(way))
    }

    /// What new rows have to fulfill from now on, in terms of the relation behind.
    fn check_through(&self, way: &Way, simple: &SimpleView, condition: Expr) {
        let mut checks = self.view_checks.borrow_mut();
        for (_, check) in checks.iter_mut() {
            way.replaced(check, true);
            qualify(check, &lower(&way.alias), None);
        }
        let is_own = simple.check_option.is_some();
        if (is_own || self.cascades.get()) && simple.condition.is_some() {
            checks.push((format!("{OF_VIEW}{}", way.view), condition));
        }
        if simple.check_option.as_deref() == Some("cascaded") {
            self.cascades.set(true);
        }
    }

    /// Fails with 42501 unless something may be done with a relation: by the session or, behind a view, by its owner.
    pub(super) fn check_granted(&self, name: &RelationName, privilege: Privilege) -> Result<()> {
        self.check_schema_of(name)?;
        self.rights_for(name).check(name, privilege)
    }

    /// Fails with 42501 unless something may be done with a relation, or with one of its columns.
    pub(super) fn check_granted_in_part(&self, name: &RelationName, privilege: Privilege) -> Result<()> {
        self.check_schema_of(name)?;
        let rights = self.rights_for(name);
        if rights.may_any_column(name, privilege) { Ok(()) } else { rights.check(name, privilege) }
    }

    /// Fails with 42501 unless something may be done with these columns of a relation.
    pub(super) fn check_columns<'c>(
        &self,
        name: &RelationName,
        columns: impl Iterator<Item = &'c str>,
        privilege: Privilege,
    ) -> Result<()> {
        self.rights_for(name).check_columns(name, columns, privilege)
    }

    fn check_schema_of(&self, name: &RelationName) -> Result<()> {
        let is_own = !matches!(self.through.borrow().as_ref(), Some((behind, Some(_))) if behind == name);
        match is_own && self.at.snapshot.get(name).is_some() {
            true => self.at.snapshot.rights.check_use_schema(&name.schema),
            false => Ok(()),
        }
    }

    /// Under whose rights names behind a view are looked up: `None` for the session's.
    pub(super) fn owner_behind(&self, view: &Object) -> Option<String> {
        match (&view.relation, self.behind()) {
            // Also behind a view of somebody else.
            (Relation::View(view), _) if view_shape::is_invoker(view) => None,
            (_, None) => self.at.snapshot.owner_behind(view),
            (_, Some(_)) => Some(self.at.snapshot.catalog.authority().owner_of(Subject::Object(view.id)).to_owned()),
        }
    }

    /// Under whose rights a statement does something with a relation: the session's or, behind a view, its owner's.
    pub(super) fn rights_for(&self, name: &RelationName) -> Arc<Rights> {
        let through = self.through.borrow();
        let owner = through.as_ref().filter(|(behind, _)| behind == name).and_then(|(_, owner)| owner.as_deref());
        let rights = owner.and_then(|owner| self.at.snapshot.rights_of(owner));
        rights.unwrap_or_else(|| self.at.snapshot.rights.clone())
    }

    /// Whether a relation is reached through a view, and may be read for it.
    pub(super) fn is_through(&self, name: &RelationName) -> bool {
        self.through.borrow().as_ref().is_some_and(|(behind, _)| behind == name)
    }
}

fn of_all() -> Expr {
    Expr::Value(ast::Value::Boolean(true).into())
}

impl Way {
    fn name(&self) -> ObjectName {
        let quoted = |name: &str| Ident::with_quote('"', name);
        ObjectName::from(vec![quoted(&self.behind.schema), quoted(&self.behind.name)])
    }

    /// The relation behind, as the statement names the view.
    fn factor(&self) -> TableFactor {
        let alias = ast::TableAlias { explicit: true, name: self.alias.clone(), columns: vec![], at: None };
        TableFactor::Table {
            name: self.name(),
            alias: Some(alias),
            args: None,
            with_hints: vec![],
            version: None,
            with_ordinality: false,
            partitions: vec![],
            json_path: None,
            sample: None,
            index_hints: vec![],
        }
    }

    /// The column behind one that is written. Fails with 42703 and 0A000.
    fn target(&self, name: &ObjectName, what: &str) -> Result<ObjectName> {
        let wanted = name.0.last().and_then(|part| part.as_ident()).map(lower).unwrap_or_default();
        let found = self.columns.iter().find(|(known, _)| *known == wanted);
        let (_, stands_for) = found.ok_or_else(|| {
            let message = format!("column \"{wanted}\" of relation \"{}\" does not exist", self.view);
            Error::input(message).with_code("42703")
        })?;
        match stands_for {
            Expr::CompoundIdentifier(names) => {
                Ok(ObjectName::from(names.last().cloned().into_iter().collect::<Vec<_>>()))
            }
            _ => {
                let message = format!("cannot {what} column \"{wanted}\" of view \"{}\"", self.view);
                let detail = "View columns that are not columns of their base relation are not updatable.";
                Err(Error::unsupported(message).with_code("0A000").with_detail(detail))
            }
        }
    }

    /// The columns behind those that are set.
    fn assign(&self, target: &mut ast::AssignmentTarget) -> Result<()> {
        let names = match target {
            ast::AssignmentTarget::ColumnName(name) => std::slice::from_mut(name),
            ast::AssignmentTarget::Tuple(names) => names.as_mut_slice(),
        };
        for name in names {
            *name = self.target(name, "update")?;
        }
        Ok(())
    }

    /// What ON CONFLICT says in terms of the relation behind. Fails with 0A000 for keys that are no columns.
    fn conflict(&self, on: &mut ast::OnConflict) -> Result<()> {
        if let Some(ast::ConflictTarget::Columns(columns)) = &mut on.conflict_target {
            for column in columns {
                if [CONFLICT_VALUE, CONFLICT_WHERE].iter().any(|sign| column.value.starts_with(sign)) {
                    let error = Error::unsupported("ON CONFLICT of expressions through a view with other columns");
                    return Err(error.with_code("0A000").with_hint("insert into the table behind it"));
                }
                let behind = self.target(&ObjectName::from(vec![column.clone()]), "insert into")?;
                *column = behind.0.last().and_then(|part| part.as_ident()).cloned().unwrap_or_else(|| column.clone());
            }
        }
        if let ast::OnConflictAction::DoUpdate(update) = &mut on.action {
            for assignment in &mut update.assignments {
                self.assign(&mut assignment.target)?;
                self.proposed(&mut assignment.value)?;
            }
            update.selection.as_mut().map(|selection| self.proposed(selection)).transpose()?;
        }
        Ok(())
    }

    /// The same in an expression of ON CONFLICT: `excluded` has the view's columns.
    fn proposed(&self, value: &mut Expr) -> Result<()> {
        const EXCLUDED: &str = "excluded";
        change_names(value, |value, _| {
            let Expr::CompoundIdentifier(names) = &*value else { return };
            let [of, name] = names.as_slice() else { return };
            if lower(of) != EXCLUDED {
                return;
            }
            let found = self.columns.iter().find(|(known, _)| *known == lower(name));
            if let Some((_, stands_for)) = found {
                let mut proposed = stands_for.clone();
                qualify(&mut proposed, &lower(&self.alias), Some(&Ident::new(EXCLUDED)));
                *value = proposed;
            }
        });
        self.replace(value, true)
    }

    /// Puts what the view's columns stand for in the place of their names; names without a relation are such if it `is
    /// alone`. Returns a name of what is behind that is not in the view.
    fn replaced(&self, value: &mut Expr, is_alone: bool) -> Option<String> {
        let mut hidden = None;
        change_names(value, |value, is_outside| {
            let column = match &*value {
                Expr::Identifier(name) if is_alone && is_outside => lower(name),
                Expr::CompoundIdentifier(names) => match names.as_slice() {
                    [of, name] if lower(of) == lower(&self.alias) => lower(name),
                    _ => return,
                },
                _ => return,
            };
            match self.columns.iter().find(|(known, _)| *known == column) {
                Some((_, stands_for)) => *value = stands_for.clone(),
                None if self.known.contains(&column) => hidden = Some(column),
                None => {}
            }
        });
        hidden
    }

    fn replace(&self, value: &mut Expr, is_alone: bool) -> Result<()> {
        match self.replaced(value, is_alone) {
            None => Ok(()),
            Some(name) => Err(Error::input(format!("column \"{name}\" does not exist")).with_code("42703")),
        }
    }

    /// The statement's condition and the view's.
    fn joined(&self, selection: Option<Expr>, is_alone: bool) -> Result<Option<Expr>> {
        let Some(mut selection) = selection else { return Ok(self.condition.clone()) };
        self.replace(&mut selection, is_alone)?;
        Ok(Some(match &self.condition {
            None => selection,
            Some(condition) => Expr::BinaryOp {
                left: Box::new(Expr::Nested(Box::new(selection))),
                op: ast::BinaryOperator::And,
                right: Box::new(Expr::Nested(Box::new(condition.clone()))),
            },
        }))
    }

    fn returning(&self, items: Vec<SelectItem>, is_alone: bool) -> Result<Vec<SelectItem>> {
        let mut made = Vec::new();
        for item in items {
            match item {
                SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..) => {
                    let all = self.columns.iter().map(|(name, value)| SelectItem::ExprWithAlias {
                        expr: value.clone(),
                        alias: Ident::with_quote('"', name),
                    });
                    made.extend(all);
                }
                SelectItem::UnnamedExpr(mut value) => {
                    let name = match &value {
                        Expr::Identifier(name) => Some(name.clone()),
                        Expr::CompoundIdentifier(names) => names.last().cloned(),
                        _ => None,
                    };
                    self.replace(&mut value, is_alone)?;
                    made.push(match name {
                        Some(alias) => SelectItem::ExprWithAlias { expr: value, alias },
                        None => SelectItem::UnnamedExpr(value),
                    });
                }
                SelectItem::ExprWithAlias { mut expr, alias } => {
                    self.replace(&mut expr, is_alone)?;
                    made.push(SelectItem::ExprWithAlias { expr, alias });
                }
                other => made.push(other),
            }
        }
        Ok(made)
    }
}

/// How many columns a query has, if its text shows it.
fn width(body: &ast::SetExpr) -> Option<usize> {
    match body {
        ast::SetExpr::Values(values) => values.rows.first().map(|row| row.content.len()),
        ast::SetExpr::Query(query) => width(&query.body),
        ast::SetExpr::SetOperation { left, .. } => width(left),
        ast::SetExpr::Select(select) => {
            let is_one =
                |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. });
            select.projection.iter().all(is_one).then_some(select.projection.len())
        }
        _ => None,
    }
}

fn inserted(insert: &ast::Insert, way: &Way) -> Result<ast::Insert> {
    let mut insert = insert.clone();
    if let Some(on) = &mut insert.on {
        let same = way.columns.iter().all(|(name, value)| match value {
            Expr::CompoundIdentifier(names) => names.last().is_some_and(|column| lower(column) == *name),
            _ => false,
        });
        if let (false, ast::OnInsert::OnConflict(on)) = (same, on) {
            way.conflict(on)?;
        }
    }
    insert.columns = match insert.columns.is_empty() {
        false => insert.columns.iter().map(|name| way.target(name, "insert into")).collect::<Result<_>>()?,
        true => {
            let quoted = |name: &String| ObjectName::from(vec![Ident::with_quote('"', name)]);
            let all = way.columns.iter().map(|(name, _)| way.target(&quoted(name), "insert into"));
            match insert.source.as_deref().and_then(|source| width(&source.body)) {
                Some(width) => all.take(width).collect::<Result<_>>()?,
                None => all.map_while(Result::ok).collect(),
            }
        }
    };
    insert.table = ast::TableObject::TableName(way.name());
    if insert.table_alias.is_none() {
        insert.table_alias = Some(ast::TableAliasWithoutColumns { explicit: true, alias: way.alias.clone() });
    }
    insert.returning = insert.returning.map(|items| way.returning(items, true)).transpose()?;
    Ok(insert)
}
