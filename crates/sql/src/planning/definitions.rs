//! Statements that make and drop relations and schemas.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::{Arc, Weak};

use arrow::datatypes::{Schema, SchemaRef};
use diligence_base::seams::OpenMode;
use diligence_base::{Error, Result};
use diligence_catalog::authority::{Language, Privilege};
use diligence_catalog::locks::TableLock;
use diligence_catalog::rights::DENIED;
use diligence_catalog::types::is_computed;
use diligence_catalog::{
    FileRelation, LockWay, Relation, RelationName, Resolved, Routine, View, is_macro_unless_there, no_schema,
};
use diligence_types::SqlType;
use sqlparser::ast::{self, ColumnDef, ColumnOption, ObjectType, Value};

use super::around::Around;
use super::bound::{BoundStatement, declared_schema};
use super::column_names::{refuse_twice, rename};
use super::fragments;
use super::materialized::without_data;
use super::settings::setting_name;
use super::tables::Declaration;
use super::writable::{refuse_materialized, unwritable};
use crate::algebra::Constant;
use crate::binder::{self, Bound, Context};
use crate::external::{self, OptionValue};
pub(super) use crate::parse::lower;
use crate::parse::{self, CreateExternalTable, NamedOption, Parsed, VARIABLE};
use crate::quoting::literal;
use crate::routines::{self, Definition};
use crate::statement::{Command, DroppedKind, Statement, nullable};
use crate::view_shape;
use crate::write::native::{NativeTarget, NewTable};
use crate::write::triggers::TableTriggers;

/// Bytes of a module of WebAssembly in a file at most: its statement is kept with the tables.
const MODULE_BYTES_MAX: u64 = 16 << 20;

/// Columns as a statement declares them.
struct Declared {
    schema: SchemaRef,
    defaults: HashMap<String, Arc<ast::Expr>>,
}

/// Fails with 42P16 unless a view that takes another's place has its columns, and perhaps more behind them.
fn goes_on_from(before: &SchemaRef, after: &SchemaRef) -> Result<()> {
    let fails = |message: String| Err(Error::input(message).with_code("42P16"));
    for (index, old) in before.fields().iter().enumerate() {
        let Some(new) = after.fields().get(index) else {
            return fails("cannot drop columns from view".to_owned());
        };
        if old.name() != new.name() {
            let message = format!("cannot change name of view column \"{}\" to \"{}\"", old.name(), new.name());
            return fails(message);
        }
        let type_of = |field: &arrow::datatypes::Field| SqlType::of_field(field);
        if let (Some(from), Some(to)) = (type_of(old), type_of(new))
            && from != to
            // Views of older versions do not say the modifiers of times.
            && from != to.clone().untimed()
            // Digits that are no modifiers make no other type, and views of older versions do not say which are.
            && !(is_computed(new) && from.is_same(&to))
        {
            let column = old.name();
            return fails(format!("cannot change data type of view column \"{column}\" from {from} to {to}"));
        }
    }
    Ok(())
}

impl Around<'_> {
    /// CREATE TABLE, with or without AS.
    pub(super) fn create_table(&self, create: &ast::CreateTable) -> Result<BoundStatement> {
        let name = self.creatable(&create.name, create.temporary)?;
        for (given, what) in [
            (create.external, "CREATE EXTERNAL TABLE without STORED AS"),
            (create.clone.is_some(), "CREATE TABLE … CLONE"),
            (create.inherits.is_some(), "INHERITS"),
            (create.partition_by.is_some() || create.partition_of.is_some(), "PARTITION BY"),
            (create.on_commit.is_some() && !create.temporary, "ON COMMIT of a table that is not temporary"),
        ] {
            if given {
                let hint = match what {
                    "INHERITS" => {
                        "a view with UNION ALL shows several tables as one; LIKE copies the columns of another"
                    }
                    "PARTITION BY" => {
                        "a table has its fragments in itself: write DISTRIBUTED BY RANGE (column) VALUES (10, 20), HASH \
                         (column) or ROUND ROBIN, with FRAGMENTS and their number; conditions on the column skip fragments"
                    }
                    _ => "leave it out",
                };
                let error = Error::unsupported(format!("{what} is not supported")).with_code("0A000");
                return Err(error.with_hint(hint));
            }
        }
        match create.on_commit {
            None | Some(ast::OnCommit::PreserveRows) if create.if_not_exists => {}
            None | Some(ast::OnCommit::PreserveRows) => self.planner.catalogs().keep_at_commit(&name),
            Some(ast::OnCommit::Drop) if self.planner.catalogs().isolation().is_none() => {
                let error = Error::unsupported("ON COMMIT DROP outside of a transaction is not supported");
                return Err(error.with_code("0A000").with_hint("BEGIN a transaction, at the end of which it goes"));
            }
            Some(ast::OnCommit::Drop) => self.planner.catalogs().at_commit(name.clone(), true),
            Some(ast::OnCommit::DeleteRows) => self.planner.catalogs().at_commit(name.clone(), false),
        }
        if create.or_replace {
            self.check_replaced(&name)?;
        }
        let tag = match &create.query {
            None => "CREATE TABLE",
            Some(query) if without_data(query).is_some() => "CREATE TABLE AS WITH NO DATA",
            Some(_) => "CREATE TABLE AS",
        };
        if self.is_index_name(&name, create.if_not_exists)? {
            return Ok(BoundStatement::Other(Statement::Command(Command::Nothing(tag))));
        }
        if let Some(existing) = self.at.snapshot.catalog.get(&name)
            && !create.or_replace
        {
            if create.if_not_exists {
                self.tell_existing_relation(&name.name);
                return Ok(BoundStatement::Other(Statement::Command(Command::Nothing(tag))));
            }
            let error = Error::input(format!("{} named '{name}' exists already", existing.relation.a_kind()));
            let hint = "drop it first, or write CREATE OR REPLACE TABLE or IF NOT EXISTS";
            return Err(error.with_code("42P07").with_hint(hint));
        }
        let has_types = create.columns.iter().any(|column| column.data_type != ast::DataType::Unspecified);
        let (rows, declaration) = match &create.query {
            Some(query) if has_types => {
                let declaration = self.declaration(&name, create)?;
                (binder::bind_insert(Some(query), &declaration.targets()?, None, self)?, declaration)
            }
            Some(query) => self.selected(query, &create.columns, &name)?,
            None => (binder::bind_query(&no_rows()?, self)?, self.declaration(&name, create)?),
        };
        let (rows, declaration) = self.distributed(create, rows, declaration)?;
        let target = NativeTarget::Create(NewTable {
            name,
            or_replace: create.or_replace,
            if_not_exists: create.if_not_exists,
            schema: declaration.schema(),
            rules: declaration.rules,
            sequences: declaration.sequences,
        });
        let (writer, returning) = (self.memory_writer(target), None);
        Ok(BoundStatement::Write { tag, rows, writer, returning, again: None })
    }

    /// A table as it is to be divided, and its rows in the order of its clustering key.
    fn distributed(
        &self,
        create: &ast::CreateTable,
        rows: Bound,
        mut declaration: Declaration,
    ) -> Result<(Bound, Declaration)> {
        let ast::CreateTableOptions::With(options) = &create.table_options else { return Ok((rows, declaration)) };
        let Some(distribution) = self.distribution(options, &declaration)? else { return Ok((rows, declaration)) };
        let place = |column: &String| declaration.fields.iter().position(|field| field.name() == column);
        let places = distribution.clustered.iter().map_while(place).map(|place| place + 1).collect::<Vec<_>>();
        declaration.rules.distribution = distribution;
        let rows = match &create.query {
            Some(query) if !places.is_empty() && declaration.rules.generated.is_empty() => {
                let query = fragments::ordered(query, &places)?;
                match create.columns.iter().any(|column| column.data_type != ast::DataType::Unspecified) {
                    true => binder::bind_insert(Some(&query), &declaration.targets()?, None, self)?,
                    false => self.selected(&query, &create.columns, &declaration.name)?.0,
                }
            }
            _ => rows,
        };
        Ok((rows, declaration))
    }

    /// The rows of CREATE TABLE AS, and its columns, which may be listed.
    fn selected(&self, query: &ast::Query, listed: &[ColumnDef], name: &RelationName) -> Result<(Bound, Declaration)> {
        let mut rows = binder::made_wide(binder::bind_query(query, self)?, &self.numbers);
        let names = listed.iter().map(|column| &column.name).collect::<Vec<_>>();
        rename(&mut rows, &names, "CREATE TABLE AS")?;
        super::collations::settle(&mut rows.columns, |column| {
            format!("no collation was derived for column \"{}\" with collatable type {}", column.name, column.sql_type)
        })?;
        let mut declaration = Declaration::new(name.clone());
        declaration.fields = nullable(&declared_schema(&rows)).fields().to_vec();
        Ok((rows, declaration))
    }

    /// Columns with types, NOT NULL and defaults. Fails on what nothing would enforce.
    fn declared(&self, columns: &[ColumnDef]) -> Result<Declared> {
        let (mut fields, mut defaults) = (Vec::with_capacity(columns.len()), HashMap::new());
        for column in columns {
            let name = lower(&column.name);
            let sql_type = binder::named_type(&column.data_type, self)?.base().clone();
            let mut is_nullable = true;
            for option in &column.options {
                match &option.option {
                    ColumnOption::Null | ColumnOption::Comment(_) => {}
                    ColumnOption::NotNull => is_nullable = false,
                    ColumnOption::Default(default) => {
                        // Bound now to find mistakes now; bound again by each INSERT.
                        binder::bind_default(default, &name, &sql_type, self)?;
                        defaults.insert(name.clone(), Arc::new(default.clone()));
                    }
                    other => return Err(unenforced(other)),
                }
            }
            fields.push(sql_type.field(&name, is_nullable));
        }
        let names = fields.iter().map(|field| field.name().as_str());
        refuse_twice(names)?;
        Ok(Declared { schema: Arc::new(Schema::new(fields)), defaults })
    }

    /// CREATE EXTERNAL TABLE. Nothing is opened yet.
    pub(super) fn create_external_table(&self, create: &CreateExternalTable) -> Result<Statement> {
        self.planner.may_use_files("CREATE EXTERNAL TABLE")?;
        let name = self.creatable(&create.name, false)?;
        if let Some(constraint) = create.constraints.first() {
            return Err(unenforced(constraint));
        }
        if self.is_index_name(&name, create.if_not_exists)? {
            return Ok(Statement::Command(Command::Nothing("CREATE EXTERNAL TABLE")));
        }
        let pair = |(key, value): &NamedOption| (key.to_lowercase(), option_value(&option_text(value)));
        let pairs = create.options.iter().map(pair).collect::<Vec<_>>();
        let Declared { schema, defaults } = self.declared(&create.columns)?;
        let schema = (!schema.fields().is_empty()).then_some(schema);
        let mut options = external::open_options(&create.format, &pairs, schema, &|text| self.type_named(text))?;
        external::partitioned_by(&mut options, &create.partitioned_by)?;
        let mut relation = FileRelation::new(&create.location, options, self.planner.options.files.clone());
        relation.definition = Some(create.to_string());
        relation.column_defaults = defaults;
        Ok(Statement::Command(Command::CreateExternalTable {
            name,
            relation: Arc::new(relation),
            or_replace: create.or_replace,
            if_not_exists: create.if_not_exists,
        }))
    }

    /// CREATE VIEW.
    pub(super) fn create_view(
        &self,
        create: &ast::CreateView,
        statement: &ast::Statement,
        parsed: &Parsed,
    ) -> Result<Statement> {
        let name = self.creatable(&create.name, create.temporary)?;
        if create.to.is_some() {
            return Err(Error::unsupported("CREATE VIEW … TO is not supported").with_code("0A000"));
        }
        if let ast::CreateTableOptions::With(options) = &create.options {
            view_shape::check_options(options)?;
        }
        if self.is_index_name(&name, create.if_not_exists)? {
            return Ok(Statement::Command(Command::Nothing("CREATE VIEW")));
        }
        if create.if_not_exists && self.at.snapshot.catalog.get(&name).is_some() {
            self.tell_existing_relation(&name.name);
            return Ok(Statement::Command(Command::Nothing("CREATE VIEW")));
        }
        let mut rows = binder::bind_query(&create.query, self)?;
        if !rows.parameters.is_empty() {
            return Err(Error::input("a view cannot have parameters").with_code("42P02"));
        }
        if self.has_met(&name) {
            let error = Error::input(format!("the view '{name}' would select from itself")).with_code("42P17");
            return Err(error.with_hint("give the view another name, or select from the tables behind it"));
        }
        let names = create.columns.iter().map(|column| &column.name).collect::<Vec<_>>();
        rename(&mut rows, &names, "CREATE VIEW")?;
        let mut source = statement.clone();
        if let ast::Statement::CreateView(create) = &mut source {
            self.hold_names(&mut create.query, &name.schema);
        }
        let source = Arc::new(source);
        super::collations::settle(&mut rows.columns, |column| {
            format!("could not determine which collation to use for view column \"{}\"", column.name)
        })?;
        let schema = declared_schema(&rows);
        if create.or_replace {
            self.check_replaced(&name)?;
        }
        let mut triggers = vec![];
        if create.or_replace
            && let Some(Relation::View(before)) = self.at.snapshot.catalog.get(&name).map(|object| &object.relation)
        {
            goes_on_from(&before.schema, &schema)?;
            triggers.clone_from(&before.triggers);
        }
        let view = Arc::new(View { source, depth: parsed.depth, schema, triggers });
        let (or_replace, stands_on) = (create.or_replace, self.met());
        Ok(Statement::Command(Command::CreateView { name, view, or_replace, stands_on }))
    }

    /// DROP TABLE, DROP VIEW, DROP SCHEMA.
    pub(super) fn drop_objects(&self, statement: &ast::Statement) -> Result<Statement> {
        let ast::Statement::Drop { object_type, if_exists, names, cascade, purge, .. } = statement else {
            return Err(Error::bug("not a DROP"));
        };
        if *purge && *object_type == ObjectType::Index {
            self.outside_of_blocks("DROP INDEX CONCURRENTLY")?;
        }
        let is_relation = matches!(object_type, ObjectType::Table | ObjectType::View | ObjectType::MaterializedView);
        let also = match is_relation {
            true => {
                let mut names = names.iter().map(|name| self.changeable(name)).collect::<Result<Vec<_>>>()?;
                // What is something else is not dropped by this statement.
                names.retain(|name| {
                    let relation = self.at.snapshot.catalog.get(name).map(|object| &object.relation);
                    relation.is_some_and(|relation| match object_type {
                        ObjectType::View => matches!(relation, Relation::View(_)),
                        ObjectType::MaterializedView => relation.materialized().is_some(),
                        _ => !matches!(relation, Relation::View(_)) && relation.materialized().is_none(),
                    })
                });
                let also = self.dependent_views(&names, *cascade)?;
                if *cascade {
                    self.tell_dropped_with(&names, &also);
                }
                also
            }
            false => vec![],
        };
        let command = match object_type {
            ObjectType::Table | ObjectType::View | ObjectType::MaterializedView | ObjectType::Sequence => {
                let kind = match object_type {
                    ObjectType::Table => DroppedKind::Table,
                    ObjectType::View => DroppedKind::View,
                    ObjectType::MaterializedView => DroppedKind::MaterializedView,
                    _ => DroppedKind::Sequence,
                };
                let names = names.iter().map(|name| self.changeable(name)).collect::<Result<Vec<_>>>()?;
                names.iter().try_for_each(|name| self.refuse_index(name, kind.word()))?;
                for name in names.iter().filter(|name| *if_exists && self.at.snapshot.get(name).is_none()) {
                    self.tell_missing_object(kind.word(), name);
                }
                Command::Drop { names, kind, also, if_exists: *if_exists, cascade: *cascade }
            }
            ObjectType::Collation => return self.drop_collations(names, *if_exists, *cascade),
            ObjectType::Type => return self.drop_types(names, *if_exists, *cascade),
            ObjectType::Index => return self.drop_indexes(names, *if_exists),
            ObjectType::Schema => return self.drop_schemas(names, *if_exists, *cascade),
            other => return Err(Error::unsupported(format!("DROP {other} is not supported")).with_code("0A000")),
        };
        Ok(Statement::Command(command))
    }

    /// DROP SCHEMA. Fails as the rights say, and with 3F000 if one of several is not there.
    fn drop_schemas(&self, names: &[ast::ObjectName], if_exists: bool, cascade: bool) -> Result<Statement> {
        let mut commands = Vec::with_capacity(names.len());
        for name in names {
            let name = schema_name(name)?;
            let catalog = &self.at.snapshot.catalog;
            self.at.snapshot.rights.check_schema_owner(&name)?;
            let mut also = vec![];
            if cascade {
                let objects = catalog.all_objects().map(|object| object.name.clone());
                let within = objects.filter(|object| object.schema == name).collect::<Vec<_>>();
                also = self.dependent_views(&within, true)?;
                also.retain(|view| view.schema != name);
                let is_routine = |name: &&RelationName| {
                    let object = catalog.get(name);
                    object.is_some_and(|object| matches!(object.relation, Relation::Routine(_)))
                };
                let functions = within.iter().filter(is_routine).cloned().collect::<Vec<_>>();
                for function in &functions {
                    also.extend(self.callers_of(function, true)?);
                }
                also.retain(|view| view.schema != name);
                let mut met = HashSet::new();
                also.retain(|view| met.insert(view.clone()));
                self.tell_dropped_in(&name, &also);
                commands.extend(self.without_users_of(&functions, true, Some(&name))?);
            }
            match (catalog.has_schema(&name), if_exists) {
                (false, true) => self.tell_missing(&format!("schema \"{name}\"")),
                (false, false) if names.len() > 1 => return Err(no_schema(&name)),
                _ => {}
            }
            commands.push(Command::DropSchema { name, if_exists, cascade, also });
        }
        Ok(Statement::Command(match commands.len() {
            1 => commands.remove(0),
            _ => Command::All { commands, tag: "DROP SCHEMA" },
        }))
    }

    /// CREATE SCHEMA.
    pub(super) fn create_schema(&self, statement: &ast::Statement) -> Result<Statement> {
        let ast::Statement::CreateSchema { schema_name: name, if_not_exists, .. } = statement else {
            return Err(Error::bug("not a CREATE SCHEMA"));
        };
        let ast::SchemaName::Simple(name) = name else {
            return Err(Error::unsupported("AUTHORIZATION is not supported").with_code("0A000"));
        };
        let name = schema_name(name)?;
        Self::refuse_reserved_schema(&name)?;
        self.at.snapshot.rights.check_create_schema(&name)?;
        if *if_not_exists && self.at.snapshot.catalog.has_schema(&name) {
            self.tell_existing(&format!("schema \"{name}\""), "42P06");
        }
        Ok(Statement::Command(Command::CreateSchema { name, if_not_exists: *if_not_exists }))
    }

    /// TRUNCATE.
    pub(super) fn truncate(&self, truncate: &ast::Truncate) -> Result<Statement> {
        let mut tables = Vec::with_capacity(truncate.table_names.len());
        for target in &truncate.table_names {
            let name = self.granted(&target.name, Privilege::Truncate)?;
            match self.at.snapshot.get(&name) {
                Some(Resolved::Object(object)) if matches!(object.relation, Relation::Native(_)) => {
                    refuse_materialized(&object)?;
                    tables.push(object.reference());
                }
                Some(other) => return Err(unwritable(&name, &other)),
                None if truncate.if_exists => {}
                None => return Err(self.unknown(&name)),
            }
        }
        let restarts = matches!(truncate.identity, Some(ast::TruncateIdentityOption::Restart));
        let cascade = matches!(truncate.cascade, Some(ast::CascadeOption::Cascade));
        let triggers = self.truncate_triggers(&tables, cascade)?;
        if cascade {
            self.tell_emptied_with(&tables)?;
        }
        Ok(Statement::Command(Command::Truncate { tables, restarts, cascade, triggers: TableTriggers(triggers) }))
    }

    /// CREATE FUNCTION and CREATE MACRO.
    pub(super) fn create_routine(&self, statement: &ast::Statement, parsed: &Parsed) -> Result<Statement> {
        let (name, or_replace, is_temporary, tag) = match statement {
            ast::Statement::CreateFunction(create) => {
                (&create.name, create.or_replace, create.temporary, "CREATE FUNCTION")
            }
            ast::Statement::CreateMacro { name, or_replace, temporary, .. } => {
                (name, *or_replace, *temporary, "CREATE MACRO")
            }
            _ => return Err(Error::bug("not a function")),
        };
        if is_temporary && !matches!(statement, ast::Statement::CreateMacro { .. }) {
            let error = Error::unsupported("temporary functions are not supported").with_code("0A000");
            return Err(error.with_hint("leave TEMP out, or make a macro: CREATE TEMP MACRO f(a) AS a + 1"));
        }
        let name = self.creatable(name, is_temporary)?;
        if is_macro_unless_there(statement) && !self.at.snapshot.catalog.routines(&name.schema, &name.name).is_empty() {
            self.tell_existing(&format!("function \"{}\"", name.name), "42723");
            return Ok(Statement::Command(Command::Nothing(tag)));
        }
        let with_module = routines::with_module(statement, |path| self.module(path))?;
        let statement = with_module.as_ref().unwrap_or(statement);
        let with_settings = self.with_settings(statement)?;
        let statement = with_settings.as_ref().unwrap_or(statement);
        let mut definitions = Definition::all_of(statement)?;
        routines::refuse_equal_bodies(&definitions)?;
        let definition = definitions.pop().ok_or_else(|| Error::bug("a macro without a body"))?;
        let tag = match () {
            () if definition.is_procedure => "CREATE PROCEDURE",
            () if binder::is_fold(&definition) => "CREATE AGGREGATE",
            () => tag,
        };
        if !definition.is_macro {
            let of_types = definition.parameters.iter().filter(|parameter| parameter.data_type.is_some());
            for default in of_types.filter_map(|parameter| parameter.default.as_ref()) {
                binder::refuse_queries(default, "DEFAULT expression")?;
            }
            binder::check_routine(&definition, self)?;
        }
        let routine = Arc::new(Routine { source: Arc::new(statement.clone()), depth: parsed.depth });
        let tag = if definition.is_macro && routine.is_aggregate() { "CREATE AGGREGATE" } else { tag };
        let arguments = definition.arguments();
        // A macro takes the place of all of its name.
        let others = match or_replace && definition.is_macro {
            true => self.at.snapshot.catalog.routines(&name.schema, &name.name),
            false => vec![],
        };
        let others = others.into_iter().map(|object| object.name.clone()).collect();
        let called = name.name.clone();
        let name = RelationName::of_routine(&name.schema, &name.name, arguments.as_deref());
        if or_replace {
            self.check_replaced(&name)?;
            if let Some(is_procedure) = self.is_procedure(&name).filter(|before| *before != definition.is_procedure) {
                let kind = if is_procedure { "procedure" } else { "function" };
                let error = Error::input("cannot change routine kind").with_code("42809");
                return Err(error.with_detail(format!("\"{called}\" is a {kind}.")));
            }
            self.refuse_other_shape(&name, &definition)?;
        }
        Ok(Statement::Command(Command::CreateRoutine { name, routine, or_replace, others, tag }))
    }

    /// A statement that makes a function with settings of its own, whose values are those that are meant now by FROM
    /// CURRENT; `None` for any other. Fails with 42704 if there is no such setting.
    pub(super) fn with_settings(&self, statement: &ast::Statement) -> Result<Option<ast::Statement>> {
        let ast::Statement::CreateFunction(create) = statement else { return Ok(None) };
        if create.set_params.is_empty() {
            return Ok(None);
        }
        let mut made = create.clone();
        for set in &mut made.set_params {
            let name = setting_name(&set.name);
            let sink = self.planner.settings_sink.get().and_then(Weak::upgrade);
            let now = sink.map_or_else(|| self.at.facts.settings.get(&name).cloned(), |sink| sink.setting(&name));
            let Some(now) = now else {
                let message = format!("unrecognized configuration parameter \"{name}\"");
                return Err(Error::input(message).with_code("42704"));
            };
            if matches!(set.value, ast::FunctionSetValue::FromCurrent) {
                let now = ast::Expr::Value(ast::Value::SingleQuotedString(now).into());
                set.value = ast::FunctionSetValue::Values(vec![now]);
            }
        }
        Ok(Some(ast::Statement::CreateFunction(made)))
    }

    /// Fails with 42501 unless the user may make functions in this language.
    pub(super) fn may_program_in(&self, language: Language) -> Result<()> {
        if self.at.snapshot.rights.has_language(language) {
            return Ok(());
        }
        self.may_program().map_err(|error| {
            let name = language.name();
            let hint = error.hint().unwrap_or_default().to_owned();
            error.with_hint(format!("{hint}; GRANT USAGE ON LANGUAGE {name} TO a role allows it as well"))
        })
    }

    /// Fails with 42501 unless the user may make functions in other languages.
    pub(super) fn may_program(&self) -> Result<()> {
        if self.planner.options.may_program && !self.planner.catalogs().acts_as_role() {
            return Ok(());
        }
        let error = Error::input("functions in other languages may not be made by this user").with_code(DENIED);
        let hint = "such a function may do whatever the server's process may: a server without users allows it with \
                    --files, and the file of users of one that has some to a role with both admin = true and files = true";
        Err(error.with_hint(hint))
    }

    /// The bytes of a module's file. Fails with 42501 if the user may not read it, and as the file does.
    fn module(&self, path: &str) -> Result<Vec<u8>> {
        self.may_program()?;
        let failed = |error: std::io::Error| {
            let error = Error::input(format!("could not read the module '{path}': {error}")).with_code("58P01");
            error.with_hint(
                "a module is written as text, (module …), as hexadecimal digits, as base64, or is a file's path",
            )
        };
        let file = self.planner.options.files.open(Path::new(path), OpenMode::READ).map_err(failed)?;
        let bytes = file.bytes().map_err(failed)?;
        if bytes > MODULE_BYTES_MAX {
            return Err(Error::resource(format!("the module '{path}' has {bytes} bytes, which are too many")));
        }
        let mut module = vec![0; bytes as usize];
        file.read_exact_at(&mut module, 0).map_err(failed)?;
        Ok(module)
    }

    /// Whether a name is that of a procedure; `None` if it is of no function either.
    fn is_procedure(&self, name: &RelationName) -> Option<bool> {
        match &self.at.snapshot.catalog.get(name)?.relation {
            Relation::Routine(routine) => Some(routine.is_procedure()),
            _ => None,
        }
    }

    /// Whether a name is that of an aggregate that CREATE AGGREGATE made.
    fn is_made_aggregate(&self, name: &RelationName) -> bool {
        let object = self.at.snapshot.catalog.get(name);
        let is_it = |relation: &Relation| match relation {
            Relation::Routine(routine) => {
                matches!(routine.source.as_ref(), ast::Statement::CreateMacro { .. }) && routine.is_aggregate()
            }
            _ => false,
        };
        object.is_some_and(|object| is_it(&object.relation))
    }

    /// DROP FUNCTION and DROP MACRO.
    pub(super) fn drop_routines(&self, drop: &ast::DropFunction, tag: &'static str) -> Result<Statement> {
        let (mut names, mut views) = (Vec::new(), Vec::new());
        let cascade = matches!(drop.drop_behavior, Some(ast::DropBehavior::Cascade));
        for wanted in &drop.func_desc {
            let found = self.routine_named(wanted, drop.if_exists)?;
            if let Some(name) = &found {
                self.at.snapshot.rights.check_owner(name)?;
                let wanted = match (tag, self.is_procedure(name)) {
                    ("DROP FUNCTION", Some(true)) => Some("function"),
                    ("DROP PROCEDURE", Some(false)) => Some("procedure"),
                    _ => None,
                };
                if let Some(kind) = wanted {
                    return Err(Error::input(format!("{} is not a {kind}", name.name)).with_code("42809"));
                }
                views.extend(self.callers_of(name, cascade)?);
            }
            names.extend(found);
        }
        // They are macros, which DROP FUNCTION drops.
        let are_aggregates = !names.is_empty() && names.iter().all(|name| self.is_made_aggregate(name));
        let tag = if tag == "DROP FUNCTION" && are_aggregates { "DROP AGGREGATE" } else { tag };
        let mut commands = self.without_users_of(&names, cascade, None)?;
        if !views.is_empty() {
            self.tell_dropped_with(&[], &views);
            commands.push(Command::drop_views(views));
        }
        if commands.is_empty() {
            return Ok(Statement::Command(Command::DropRoutines { names, tag }));
        }
        commands.push(Command::DropRoutines { names, tag });
        Ok(Statement::Command(Command::All { commands, tag }))
    }

    /// The function that a name, perhaps with arguments, means; none, if there is none `if_exists`. Fails with 42883 if
    /// there is none, and 42725 if there are several.
    pub(super) fn routine_named(&self, wanted: &ast::FunctionDesc, if_exists: bool) -> Result<Option<RelationName>> {
        let routines = |name: &RelationName| self.at.snapshot.catalog.routines(&name.schema, &name.name);
        let mut name = self.relation_name(&wanted.name)?;
        if let [_] = wanted.name.0.as_slice() {
            let of_path = self.schemas().into_iter().map(|schema| RelationName::new(schema, name.name.clone()));
            let first = of_path.into_iter().find(|name| !routines(name).is_empty());
            name = first.unwrap_or(name);
        }
        let all = routines(&name);
        let types = wanted.args.as_ref().map(|arguments| {
            let types = arguments.iter().map(|argument| routines::type_name(&argument.data_type));
            types.collect::<Vec<_>>().join(", ")
        });
        let exact = types.map(|types| RelationName::of_routine(&name.schema, &name.name, Some(&types)));
        let is_it = |known: &&RelationName| exact.as_ref().is_none_or(|exact| *exact == **known);
        let mut found = all.iter().map(|object| &object.name).filter(is_it);
        match (found.next(), found.next()) {
            (None, _) if if_exists => {
                let types = exact.as_ref().and_then(RelationName::routine).and_then(|shown| shown.split_once('('));
                let types = types.map_or("", |(_, types)| types.trim_end_matches(')'));
                self.tell_missing(&format!("function {}({})", name.name, types.replace(", ", ",")));
                Ok(None)
            }
            (None, _) => {
                let shown = exact.as_ref().and_then(RelationName::routine).unwrap_or(&name.name);
                let message = match exact {
                    Some(_) => format!("function {shown} does not exist"),
                    None => format!("could not find a function named \"{shown}\""),
                };
                Err(Error::input(message).with_code("42883"))
            }
            (Some(only), None) => Ok(Some(only.clone())),
            (Some(_), Some(_)) => {
                let error = Error::input(format!("function name \"{}\" is not unique", name.name));
                let hint = "Specify the argument list to select the function unambiguously.";
                Err(error.with_code("42725").with_hint(hint))
            }
        }
    }

    /// SET VARIABLE, which is done when it is planned. Fails as its value cannot be computed.
    pub(super) fn set_variable(&self, name: &ast::ObjectName, values: &[ast::Expr]) -> Result<Statement> {
        let name = name.0.last().and_then(|part| part.as_ident()).map(|name| name.value.clone()).unwrap_or_default();
        let name = name.trim_start_matches(VARIABLE).to_owned();
        let [value] = values else {
            return Err(Error::input(format!("a variable has one value, found {}", values.len())).with_code("42601"));
        };
        let scalar = binder::bind_any(value, self)?;
        let constant = match self.constant(value, &scalar) {
            Err(error) if error.code() == Some("42601") => self.queried(value, &scalar.sql_type())?,
            known => known?,
        };
        self.planner.variables.lock().insert(name, constant);
        Ok(Statement::Command(Command::Nothing("SET")))
    }

    /// The value of an expression that reads rows, which are read now. Fails as the query does.
    fn queried(&self, value: &ast::Expr, sql_type: &SqlType) -> Result<Constant> {
        let query = parse::query(&format!("SELECT CAST(({value}) AS text)"))?;
        let rows = Context::texts_of(self, &query)?;
        let text = rows.into_iter().next().and_then(|row| row.into_iter().next().flatten());
        let text = text.map_or_else(|| "NULL".to_owned(), |text| literal(&text));
        let value = parse::expression(&format!("CAST({text} AS {sql_type})"))?;
        let scalar = binder::bind_any(&value, self)?;
        self.constant(&value, &scalar)
    }

    /// LOCK TABLE.
    pub(super) fn lock_tables(&self, lock: &ast::Lock) -> Result<Statement> {
        let mut tables = Vec::with_capacity(lock.tables.len());
        for target in &lock.tables {
            let name = self.relation_name(&target.name)?;
            let any: &[Privilege] = match lock.lock_mode {
                Some(ast::LockTableMode::AccessShare) => &[Privilege::Select, Privilege::Update, Privilege::Delete],
                Some(ast::LockTableMode::RowExclusive) => &[Privilege::Insert, Privilege::Update, Privilege::Delete],
                _ => &[Privilege::Update, Privilege::Delete, Privilege::Truncate],
            };
            let rights = &self.at.snapshot.rights;
            if !any.iter().any(|privilege| rights.may(&name, *privilege)) {
                rights.check(&name, any[0])?;
            }
            match self.at.snapshot.get(&name) {
                Some(Resolved::Object(object)) if matches!(object.relation, Relation::Native(_)) => {
                    tables.push(object.reference());
                }
                Some(Resolved::Object(view)) if matches!(view.relation, Relation::View(_)) => {
                    tables.extend(self.tables_of_view(&view)?);
                }
                Some(other) => return Err(unwritable(&name, &other)),
                None => return Err(self.unknown(&name)),
            }
        }
        let mode = match &lock.lock_mode {
            None | Some(ast::LockTableMode::AccessExclusive) => TableLock::AccessExclusive,
            Some(ast::LockTableMode::AccessShare) => TableLock::AccessShare,
            Some(ast::LockTableMode::RowShare) => TableLock::RowShare,
            Some(ast::LockTableMode::RowExclusive) => TableLock::RowExclusive,
            Some(ast::LockTableMode::ShareUpdateExclusive) => TableLock::ShareUpdateExclusive,
            Some(ast::LockTableMode::Share) => TableLock::Share,
            Some(ast::LockTableMode::ShareRowExclusive) => TableLock::ShareRowExclusive,
            Some(ast::LockTableMode::Exclusive) => TableLock::Exclusive,
        };
        let way = if lock.nowait { LockWay::Fail } else { LockWay::Wait };
        Ok(Statement::Command(Command::Lock { tables, mode, way }))
    }

    /// The name of a relation that a statement alters or drops. Fails with 42501 if the session does not own it.
    pub(super) fn changeable(&self, name: &ast::ObjectName) -> Result<RelationName> {
        let name = self.relation_name(name)?;
        self.at.snapshot.rights.check_owner(&name)?;
        Ok(name)
    }

    /// The name of a relation with which a statement does something. Fails with 42501 if the session may not.
    pub(super) fn granted(&self, name: &ast::ObjectName, privilege: Privilege) -> Result<RelationName> {
        let name = self.relation_name(name)?;
        self.check_granted(&name, privilege)?;
        Ok(name)
    }

    /// The same, if the session may do it with one of the relation's columns at least.
    pub(super) fn granted_in_part(&self, name: &ast::ObjectName, privilege: Privilege) -> Result<RelationName> {
        let name = self.relation_name(name)?;
        self.check_granted_in_part(&name, privilege)?;
        Ok(name)
    }

    /// Fails with 42501 if there is something of the name already that the session may not replace.
    pub(super) fn check_replaced(&self, name: &RelationName) -> Result<()> {
        match self.at.snapshot.catalog.get(name) {
            Some(before) => self.at.snapshot.rights.check_owner(&before.name),
            None => Ok(()),
        }
    }
}

fn unenforced(constraint: &impl std::fmt::Display) -> Error {
    let error = Error::unsupported(format!("{constraint} is not supported: nothing would enforce it"));
    error.with_code("0A000").with_hint("leave it out; NOT NULL is enforced")
}

fn schema_name(name: &ast::ObjectName) -> Result<String> {
    match name.0.as_slice() {
        [part] => part.as_ident().map(lower),
        _ => None,
    }
    .ok_or_else(|| Error::input(format!("improper schema name: {name}")).with_code("42601"))
}

/// A query without rows and columns.
fn no_rows() -> Result<ast::Query> {
    crate::parse::query("SELECT WHERE false")
}

/// The value of an option that is a text: what looks like a list or pairs is one.
pub(super) fn option_value(text: &str) -> OptionValue {
    let is_composite = text.starts_with('[') && text.ends_with(']') || text.starts_with('{') && text.ends_with('}');
    let parsed = is_composite.then(|| crate::parse::expression(text).ok()).flatten();
    parsed.as_ref().and_then(OptionValue::of).unwrap_or_else(|| OptionValue::One(text.to_owned()))
}

/// An option's value as text.
fn option_text(value: &Value) -> String {
    match value {
        Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) => text.clone(),
        Value::EscapedStringLiteral(text) => text.clone(),
        Value::DollarQuotedString(text) => text.value.clone(),
        other => other.to_string(),
    }
}
