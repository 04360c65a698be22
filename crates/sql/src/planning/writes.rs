//! Statements that write rows: INSERT and COPY … TO.

use std::sync::Arc;

use diligence_base::{Error, Result};
use diligence_catalog::authority::Privilege;
use diligence_catalog::rules::TableRules;
use diligence_catalog::{FileRelation, NativeTable, Object, Relation, RelationName, Resolved};
use diligence_storage::Table;
use sqlparser::ast::{self, Ident, ObjectName, OnConflictAction, TableObject, With};

use super::around::Around;
use super::bound::BoundStatement;
use super::changes::{ChangedTable, Meant};
use super::column_names::refuse_twice;
use super::conflicts::InsertedRows;
use super::fields::inserted_whole;
use super::file_functions::copied;
use super::tables::{name_in, targets};
use super::writable::{refuse_materialized, unwritable};
use crate::binder::{self, Given, Overriding, Target};
use crate::errors;
use crate::external::column_names;
use crate::parse::{BY_NAME, CopyTo, OVERRIDING, OVERRIDING_USER};
use crate::write::native::{ChangeWay, Layout, NativeTarget, NativeWriter};
use crate::write::plan::{copy_plan, insert_plan};
use crate::write::triggers::{Operation, Triggers};
use crate::write::{CopyTarget, option_pairs};

/// What an INSERT says that the parser's tree has no place for: see `parse/tokens`.
struct InsertClauses {
    /// OVERRIDING.
    overriding: Overriding,
    /// BY NAME.
    is_by_name: bool,
}

impl InsertClauses {
    fn of(insert: &ast::Insert) -> Result<Self> {
        let alias = insert.table_alias.as_ref().map(|alias| alias.alias.value.as_str());
        let overriding = |word: &str| match word {
            OVERRIDING => Some(Overriding::System),
            OVERRIDING_USER => Some(Overriding::User),
            _ => None,
        };
        let before = alias.and_then(overriding).unwrap_or_default();
        let mut clauses = Self { overriding: before, is_by_name: alias == Some(BY_NAME) };
        for marker in insert.partitioned.iter().flatten() {
            match marker {
                ast::Expr::Identifier(name) if let Some(said) = overriding(&name.value) => clauses.overriding = said,
                ast::Expr::Identifier(name) if name.value == BY_NAME => clauses.is_by_name = true,
                _ => return Err(Error::unsupported("PARTITION is not supported").with_code("0A000")),
            }
        }
        Ok(clauses)
    }
}

/// The columns that an INSERT gives values for.
fn given_columns(insert: &ast::Insert, is_by_name: bool, changed: &ChangedTable) -> Result<Given> {
    match insert.columns.as_slice() {
        _ if is_by_name => Ok(Given::ByName),
        [] => Ok(match beside_generated(insert.source.as_deref(), &changed.targets) {
            Some(places) => Given::Places(places),
            None => Given::All,
        }),
        columns => Ok(Given::Places(places(columns, &changed.targets, &changed.object.name)?)),
    }
}

impl Around<'_> {
    /// INSERT; `with` is before the whole statement.
    pub(super) fn insert(&self, insert: &ast::Insert, with: Option<&With>) -> Result<BoundStatement> {
        let TableObject::TableName(name) = &insert.table else {
            return Err(Error::unsupported("INSERT into a function is not supported").with_code("0A000"));
        };
        refuse_clauses(insert)?;
        let name = self.granted_in_part(name, Privilege::Insert)?;
        *self.changed_name.borrow_mut() = Some(name.clone());
        if insert.returning.is_some() || insert.on.is_some() {
            self.check_granted_in_part(&name, Privilege::Select)?;
        }
        if matches!(&insert.on, Some(ast::OnInsert::OnConflict(on)) if !matches!(on.action, ast::OnConflictAction::DoNothing))
        {
            self.check_granted_in_part(&name, Privilege::Update)?;
        }
        let found = self.at.snapshot.get(&name).ok_or_else(|| self.unknown(&name))?;
        let Resolved::Object(object) = &found else { return Err(unwritable(&name, &found)) };
        refuse_materialized(object)?;
        if copied(insert.source.as_deref()).is_some() {
            return self.copy_from(insert, &name, object);
        }
        match &object.relation {
            Relation::Native(table) => self.insert_rows(insert, with, object, table),
            Relation::Files(files) => self.insert_into_files(insert, with, &name, files),
            Relation::Table(_)
            | Relation::View(_)
            | Relation::Sequence(_)
            | Relation::Routine(_)
            | Relation::Enum(_)
            | Relation::Composite(_)
            | Relation::Domain(_)
            | Relation::Collation(_) => Err(unwritable(&name, &found)),
        }
    }

    /// COPY of files into a table: an INSERT of their rows.
    fn copy_from(&self, insert: &ast::Insert, name: &RelationName, object: &Arc<Object>) -> Result<BoundStatement> {
        self.planner.may_use_files("COPY … FROM a file")?;
        let (schema, rules) = match &object.relation {
            Relation::Native(table) => (table.schema().clone(), table.rules().clone()),
            Relation::Files(files) => (files.table()?.schema(), TableRules::default()),
            _ => return Err(unwritable(name, &Resolved::Object(object.clone()))),
        };
        let targets = targets(&schema, &rules)?;
        let places = match insert.columns.as_slice() {
            [] => (0..targets.len()).filter(|place| !rules.generated.contains_key(&targets[*place].name)).collect(),
            columns => places(columns, &targets, name)?,
        };
        let columns = places.iter().map(|place| (targets[*place].name.clone(), targets[*place].sql_type.clone()));
        let columns = columns.collect::<Vec<_>>();
        let mut insert = insert.clone();
        insert.columns = columns.iter().map(|(name, _)| ObjectName::from(vec![Ident::with_quote('"', name)])).collect();
        let source = insert.source.as_deref().ok_or_else(|| Error::bug("a COPY without a source"))?;
        insert.source = Some(Box::new(self.copied_rows(source, &columns, &name.name)?));
        // What a file has is taken for columns that count as well.
        if matches!(object.relation, Relation::Native(_)) {
            insert.partitioned = Some(vec![ast::Expr::Identifier(Ident::new(OVERRIDING))]);
        }
        let bound = match &object.relation {
            Relation::Native(table) => self.insert_rows(&insert, None, object, table)?,
            Relation::Files(files) => self.insert_into_files(&insert, None, name, files)?,
            _ => return Err(Error::bug("a COPY into what is no table")),
        };
        Ok(match bound {
            BoundStatement::Write { rows, writer, returning, again, .. } => {
                BoundStatement::Write { tag: "COPY", rows, writer, returning, again }
            }
            other => other,
        })
    }

    fn insert_into_files(
        &self,
        insert: &ast::Insert,
        with: Option<&With>,
        name: &RelationName,
        files: &Arc<FileRelation>,
    ) -> Result<BoundStatement> {
        if insert.on.is_some() || insert.returning.is_some() {
            let error = Error::unsupported("INSERT into files takes no ON CONFLICT and no RETURNING");
            return Err(error.with_code("0A000"));
        }
        self.planner.may_use_files("INSERT into files")?;
        let rules = TableRules { defaults: files.column_defaults.clone(), ..TableRules::default() };
        let targets = targets(&files.table()?.schema(), &rules)?;
        let given = match insert.columns.as_slice() {
            [] => None,
            columns => Some(places(columns, &targets, name)?),
        };
        let source = insert.source.as_deref().map(|source| with_before(source, with));
        let rows = binder::bind_insert(source.as_ref(), &targets, given.as_deref(), self)?;
        let disk = self.planner.options.files.clone();
        let settings = &self.at.session.options;
        let (rows, writer) = insert_plan(settings, rows, files, insert.overwrite, disk, &self.numbers)?;
        Ok(BoundStatement::Write { tag: "INSERT", rows, writer: Arc::new(writer), returning: None, again: None })
    }

    fn insert_rows(
        &self,
        insert: &ast::Insert,
        with: Option<&With>,
        object: &Object,
        table: &NativeTable,
    ) -> Result<BoundStatement> {
        let own = Ident::with_quote('"', &object.name.name);
        let clauses = InsertClauses::of(insert)?;
        let alias = insert.table_alias.as_ref().map(|alias| &alias.alias);
        let alias = alias.filter(|alias| ![BY_NAME, OVERRIDING, OVERRIDING_USER].contains(&alias.value.as_str()));
        let changed =
            ChangedTable::new(object, table, (alias.unwrap_or(&own), alias.is_some()), self.next_table_version())?;
        let changed = changed.checked(self.view_checks.take());
        self.names.uses_object(&object.name, object);
        let insert = &changed.with_conflict(insert)?;
        let insert = &inserted_whole(insert, &changed.targets)?;
        let given = given_columns(insert, clauses.is_by_name, &changed)?;
        let named = match &given {
            Given::Places(places) => places.iter().map(|place| changed.targets[*place].name.as_str()).collect(),
            Given::All | Given::ByName => changed.targets.iter().map(|target| target.name.as_str()).collect::<Vec<_>>(),
        };
        self.check_columns(&object.name, named.into_iter(), Privilege::Insert)?;
        let on = match &insert.on {
            None => None,
            Some(ast::OnInsert::OnConflict(on)) => Some(on),
            Some(_) => return Err(Error::unsupported("ON DUPLICATE KEY is not supported").with_code("0A000")),
        };
        let mut operations = vec![Operation::Insert];
        if on.is_some_and(|on| !matches!(on.action, OnConflictAction::DoNothing)) {
            operations.push(Operation::Update);
        }
        let described = changed.described(insert.returning.as_deref(), with, &operations);
        let overriding = clauses.overriding;
        let rows = InsertedRows { changed: &changed, table, source: insert.source.as_deref(), given, overriding };
        let (way, bound) = match on {
            None => (ChangeWay::Insert { replace: insert.overwrite }, rows.bound(None, &described, self)?),
            Some(on) => self.on_conflict(&rows, on, &described)?,
        };
        let has_steps = matches!(way, ChangeWay::Steps { .. });
        let layout = match way {
            // Conditions are those of what becomes of the rows.
            ChangeWay::Proposed(_) => Layout { checks: vec![], ..changed.layout() },
            _ => Layout { has_numbers: has_steps, has_steps, ..changed.layout() },
        };
        let assigned = match on.map(|on| &on.action) {
            Some(OnConflictAction::DoUpdate(update)) => {
                Some(changed.assigned(&changed.without_fields(&update.assignments)?)?)
            }
            _ => None,
        };
        let set = assigned.iter().flatten().map(String::as_str);
        self.check_columns(&object.name, set, Privilege::Update)?;
        let meant = Meant { operations, assigned };
        self.changing("INSERT", changed.object, way, layout, bound, &meant)
    }

    /// COPY of a query's rows into files.
    pub(super) fn copy(&self, copy: &mut CopyTo, query: &ast::Query) -> Result<BoundStatement> {
        self.planner.may_use_files("COPY … TO a file")?;
        let target = CopyTarget::of(copy)?;
        let rows = binder::bind_query(query, self)?;
        let options = option_pairs(copy)?;
        let disk = self.planner.options.files.clone();
        let settings = &self.at.session.options;
        let (rows, writer) =
            copy_plan(settings, rows, target, column_names(&copy.partitioned_by), &options, disk, &self.numbers)?;
        Ok(BoundStatement::Write { tag: "COPY", rows, writer: Arc::new(writer), returning: None, again: None })
    }

    pub(super) fn memory_writer(&self, target: NativeTarget) -> Arc<NativeWriter> {
        let planner = self.planner;
        let (tables, catalogs) = (planner.options.tables.clone(), planner.catalogs());
        let object = match &target {
            NativeTarget::Change { table, .. } => self.at.snapshot.catalog.get(&table.name),
            NativeTarget::Create(_) | NativeTarget::Rewrite { .. } => None,
        };
        let planned = object.and_then(|object| match &object.relation {
            Relation::Native(table) => Some(&**table),
            _ => None,
        });
        let writer = NativeWriter::new(target, tables, catalogs.catalog(), catalogs.owner()).planned_for(planned);
        Arc::new(writer.made_by(catalogs.maker()))
    }

    /// The same for a table that calls these.
    pub(super) fn calling_writer(&self, target: NativeTarget, triggers: Option<Arc<Triggers>>) -> Arc<NativeWriter> {
        let writer = self.memory_writer(target);
        match triggers {
            None => writer,
            Some(_) => Arc::new(NativeWriter::clone(&writer).calling(triggers)),
        }
    }

    /// The error for a table that is not there.
    pub(super) fn unknown(&self, name: &RelationName) -> Error {
        let error = Error::input(format!("no table is named '{name}'")).with_code("42P01");
        errors::suggest(error, &name.to_string(), &binder::Context::relations(self))
    }
}

/// The places of the columns that a statement lists.
pub(super) fn places(columns: &[ObjectName], targets: &[Target], table: &RelationName) -> Result<Vec<usize>> {
    let names = columns.iter().map(|column| match column.0.as_slice() {
        [part] => part.as_ident().map(|name| name_in(name, targets)),
        _ => None,
    });
    let names = names.zip(columns).map(|(name, written)| {
        name.ok_or_else(|| Error::unsupported(format!("{written}: fields of columns cannot be set")).with_code("0A000"))
    });
    let names = names.collect::<Result<Vec<_>>>()?;
    refuse_twice(names.iter().map(String::as_str))?;
    let known = || targets.iter().map(|target| target.name.clone()).collect::<Vec<_>>();
    let place = |name: &String| {
        targets.iter().position(|target| target.name == *name).ok_or_else(|| {
            let message = format!("column \"{name}\" of relation \"{}\" does not exist", table.name);
            errors::suggest(Error::input(message).with_code("42703"), name, &known())
        })
    };
    names.iter().map(place).collect()
}

/// A source with the common table expressions that stand before the whole statement.
pub(super) fn with_before(source: &ast::Query, with: Option<&With>) -> ast::Query {
    let mut source = source.clone();
    if let Some(with) = with {
        let mut with = with.clone();
        if let Some(own) = source.with.take() {
            with.recursive |= own.recursive;
            with.cte_tables.extend(own.cte_tables);
        }
        source.with = Some(with);
    }
    source
}

/// Fails on clauses of INSERT that there is nothing for yet.
fn refuse_clauses(insert: &ast::Insert) -> Result<()> {
    for (given, what, hint) in
        [(!insert.assignments.is_empty(), "INSERT … SET", "write INSERT INTO t (a, b) VALUES (…)")]
    {
        if given {
            return Err(Error::unsupported(format!("{what} is not supported")).with_code("0A000").with_hint(hint));
        }
    }
    Ok(())
}

/// The places of columns that are not generated, where VALUES without names of columns are those of them, as in DuckDB:
/// where each row has as many, and PostgreSQL would refuse a value as that of a generated column.
fn beside_generated(source: Option<&ast::Query>, targets: &[Target]) -> Option<Vec<usize>> {
    let ast::SetExpr::Values(values) = source?.body.as_ref() else { return None };
    let plain = (0..targets.len()).filter(|place| targets[*place].generated.is_none()).collect::<Vec<_>>();
    let is_refused = |(value, target): (&ast::Expr, &Target)| target.generated.is_some() && !binder::is_default(value);
    let has_refused = values.rows.iter().any(|row| row.content.iter().zip(targets).any(is_refused));
    (has_refused && values.rows.iter().all(|row| row.content.len() == plain.len())).then_some(plain)
}
