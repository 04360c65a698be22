//! What the binder asks about the session and the names around a statement, and the answers.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, AsArray};
use datafusion_common::ScalarValue;
use datafusion_expr::{AggregateUDF, ScalarUDF};
use diligence_base::{Error, Result};
use diligence_catalog::authority::{Language, Privilege, Subject};
use diligence_catalog::locks::RowLock;
use diligence_catalog::system_catalogs::SYSTEM_CATALOGS;
use diligence_catalog::{
    CATALOG_NAME, DEFAULT_SCHEMA, DomainDefinition, INFORMATION_SCHEMA, LockWay, Object, POSTGRES_SCHEMA, Relation,
    RelationName, Resolved, looks_like_path,
};
use diligence_pool::Runtime;
use diligence_storage::Table;
use diligence_storage::external::{LakeMoment, OpenOptions};
use diligence_storage::memory::ROW_NUMBERS;
use diligence_types::SqlType;
use diligence_types::collation::Collation;
use diligence_types::domain_type::DomainType;
use diligence_types::functions::has_function;
use diligence_types::sql_type::OidKind;
use sqlparser::ast;

use super::around::{Around, primary_key};
use super::{file_functions, triggers, whole_files};
use crate::algebra::{Constant, Numbers, Scalar};
use crate::binder::{CHANGED, Context, LISTENING, Lockable, Named, bind_query};
use crate::default_order::DefaultOrder;
use crate::external::OptionValue;
use crate::kept_order::KeptOrder;
use crate::lowering::{self, LoweringOptions};
use crate::procedural::Procedure;
use crate::programs::{CombinedCall, ProgramCall};
use crate::quoting::unquoted;
use crate::routines::Definition;
use crate::statement::Query;
use crate::written::WrittenRows;
use crate::{
    catalog_functions, facts, privileges, procedures, row_locks, sequences, session_functions, sleeping, type_names,
};

/// The tables of what was left out of files: the records, and how the files were read.
const REJECTS: [&str; 2] = ["reject_errors", "reject_scans"];

impl Context for Around<'_> {
    fn misses_row_numbers(&self) -> bool {
        self.misses_numbers.set(true);
        !self.gives_numbers.get()
    }

    fn row_columns(&self, name: &ast::ObjectName) -> Result<Option<Vec<(String, SqlType)>>> {
        let Some((relation, _)) = self.relation_named(name) else { return Ok(None) };
        let found = self.at.snapshot.get(&relation).filter(|_| self.at.snapshot.sees(&relation));
        let Some(Resolved::Object(object)) = found else { return Ok(None) };
        if !matches!(object.relation, Relation::Native(_) | Relation::View(_) | Relation::Table(_)) {
            return Ok(None);
        }
        self.names.uses_object(&relation, &object);
        triggers::columns_of(&object).map(Some)
    }

    fn table(&self, name: &ast::ObjectName) -> Result<Option<Named>> {
        if let Some(changed) = self.changed_table(name) {
            return Ok(Some(changed));
        }
        if let Some(seen) = self.seen_table(name) {
            self.names.not_reusable();
            return Ok(Some(seen));
        }
        if let Some(attached) = self.attached_table(name)? {
            return Ok(Some(attached));
        }
        let Some((relation, bare)) = self.relation_named(name) else { return Ok(None) };
        let known = self.tables.borrow().get(&relation).cloned();
        if let Some(table) = known {
            // It may have been found behind a view, by the rights of its owner.
            if relation.schema != INFORMATION_SCHEMA {
                self.readable(&relation)?;
            }
            let object = self.at.snapshot.get(&relation);
            // The names of a path's files may be what was missed.
            let is_path = object.is_none() && bare && looks_like_path(&relation.name);
            let native = match object {
                Some(Resolved::Object(object)) if matches!(object.relation, Relation::Native(_)) => Some(object),
                _ => None,
            };
            let is_numbered = table.schema().fields().last().is_some_and(|field| field.name() == ROW_NUMBERS);
            if native.is_none() && !is_path || is_numbered || !self.gives_numbers.get() {
                let key = native.map_or_else(Vec::new, |object| primary_key(&object.relation));
                return Ok(Some(Named::Table { table, name: relation.name, key }));
            }
        }
        if relation.schema == INFORMATION_SCHEMA {
            return self.information(&relation);
        }
        // Tables of the catalog need no schema.
        let catalog = RelationName::new(POSTGRES_SCHEMA, &relation.name);
        let found = match self.readable(&relation)? {
            None if bare && relation.name.starts_with("pg_") => self.readable(&catalog)?,
            found => found,
        };
        match found {
            Some(Resolved::Object(object)) => self.object(&relation, &object).map(Some),
            Some(Resolved::Computed(computed)) => {
                let rows = computed.rows(self.at.snapshot)?;
                self.computed(&relation, rows).map(Some)
            }
            None if bare && REJECTS.contains(&relation.name.as_str()) && self.planner.rejects.is_used() => {
                let rejects = &self.planner.rejects;
                let rows = if relation.name == REJECTS[0] { rejects.errors()? } else { rejects.scans()? };
                self.computed(&relation, rows).map(Some)
            }
            None => {
                let text = name.0.last().and_then(|part| part.as_ident()).map(|ident| ident.value.clone());
                let path = text.filter(|text| bare && self.planner.names_files() && looks_like_path(text));
                let Some(path) = path else {
                    self.names.uses_nothing(&relation);
                    return Ok(None);
                };
                if let Some(table) = self.with_file_names(&path, OpenOptions::default()) {
                    self.names.not_reusable();
                    return Ok(Some(Named::Table { table, name: path, key: vec![] }));
                }
                let relation = RelationName::new(DEFAULT_SCHEMA, &path);
                if whole_files::is_sheet(&path) {
                    return self.computed(&relation, self.sheet(&path, &[])?).map(Some);
                }
                if let Some(table) = self.tables.borrow().get(&relation) {
                    return Ok(Some(Named::Table { table: table.clone(), name: path, key: vec![] }));
                }
                let files = self.planner.catalogs().catalog().path(&path, &self.at.options.files);
                let table: Arc<dyn Table> = files.table()?;
                self.names.uses_path(&relation, &table);
                self.tables.borrow_mut().insert(relation, table.clone());
                Ok(Some(Named::Table { table, name: path, key: vec![] }))
            }
        }
    }

    fn oid(&self, name: &ast::ObjectName) -> Option<u32> {
        let (relation, _) = self.relation_named(name)?;
        match self.at.snapshot.get(&relation)? {
            Resolved::Object(object) => Some(object.oid()),
            Resolved::Computed(_) => None,
        }
    }

    fn withheld(&self, name: &ast::ObjectName) -> (String, Vec<String>) {
        let nothing = (String::new(), vec![]);
        if self.at.snapshot.rights.are_all() && self.behind().is_none() {
            return nothing;
        }
        let is_changed = matches!(name.0.as_slice(), [part] if part.as_ident().is_some_and(|id| id.value == CHANGED));
        let changed = self.changed_name.borrow().clone().filter(|_| is_changed);
        let (relation, rights) = match (changed, self.relation_named(name)) {
            (Some(changed), _) => (changed.clone(), self.rights_for(&changed)),
            (None, Some((relation, _))) => (relation, self.at.snapshot.rights_behind(self.behind().as_deref())),
            (None, None) => return nothing,
        };
        let Some(Resolved::Object(object)) = self.at.snapshot.get(&relation) else { return nothing };
        if rights.may_read(&relation) || self.is_through(&relation) {
            return nothing;
        }
        let Ok(schema) = object.relation.schema() else { return nothing };
        let names = schema.fields().iter().map(|field| field.name().clone());
        let names = names.filter(|column| !rights.may_column(&relation, column, Privilege::Select));
        (format!("{} {}", object.relation.kind(), relation.name), names.collect())
    }

    fn denies(&self, relation: &str) {
        self.denied.borrow_mut().get_or_insert_with(|| relation.to_owned());
    }

    fn table_at(&self, name: &ast::ObjectName, moment: i64) -> Result<Option<Named>> {
        let Some((relation, _)) = self.relation_named(name) else { return Ok(None) };
        // What is asked for is another state each time.
        self.names.not_reusable();
        let now = match self.readable(&relation)? {
            Some(Resolved::Object(object)) => Some(object),
            Some(Resolved::Computed(_)) => return Err(no_past(&relation)),
            None => None,
        };
        if let Some(Relation::Files(files)) = now.as_ref().map(|now| &now.relation) {
            return self.files_at(files, LakeMoment::Time(moment), relation.name).map(Some);
        }
        let past = self.planner.catalogs().catalog().at_moment(moment)?;
        // One that was dropped since: what it was granted then is not known now.
        let dropped = |then: &&Arc<Object>| {
            let is_gone = !self.at.snapshot.catalog.all_objects().any(|now| now.id == then.id);
            let owner = past.authority().owner_of(Subject::Object(then.id));
            is_gone && (self.at.snapshot.rights.are_all() || owner == self.planner.current_user())
        };
        let then = match &now {
            Some(now) => {
                let same = past.all_objects().find(|then| then.id == now.id);
                same.or_else(|| past.get(&relation).filter(dropped))
            }
            None => past.get(&relation).filter(|_| self.at.snapshot.rights.may_read(&relation)),
        };
        match then.map(|then| &then.relation) {
            Some(then @ Relation::Native(rows)) => {
                Ok(Some(Named::Table { table: rows.table(), name: relation.name, key: primary_key(then) }))
            }
            Some(_) => Err(no_past(&relation)),
            None if now.is_some_and(|now| !matches!(now.relation, Relation::Native(_))) => Err(no_past(&relation)),
            None => {
                let error = Error::input(format!("there was no table \"{relation}\" at that time"));
                Err(error.with_code("42P01"))
            }
        }
    }

    fn value_now(&self, time: &Scalar) -> Result<Option<i64>> {
        let options = LoweringOptions {
            zone: self.zone.clone(),
            options: self.at.session.options.clone(),
            keeps_parameters: false,
        };
        let bad = || {
            let error = Error::unsupported("the time of a table of the past is one for all rows").with_code("0A000");
            error.with_hint("write a literal, or what is computed from now()")
        };
        let valued = match self.values.as_slice() {
            [] => None,
            values => Some(crate::front::scalar_with_values(time, values)?),
        };
        let value = match lowering::value_of(valued.as_ref().unwrap_or(time), &options) {
            // Its columns are those of now.
            Err(error) if self.is_without_rows && error.code() == Some("08P01") => {
                self.lacks_moment.set(true);
                return Ok(Some(self.statement_time));
            }
            Err(error) if error.kind() == diligence_base::ErrorKind::Bug => return Err(bad()),
            value => value?,
        };
        match value {
            Constant { value: ScalarValue::TimestampMicrosecond(moment, _), .. } => Ok(moment),
            _ => Err(bad()),
        }
    }

    fn enter_view(&self, schema: &str, name: &str) {
        self.around_views.borrow_mut().push(schema.to_owned());
        let view = self.at.snapshot.catalog.get(&RelationName::new(schema, name));
        let owner = view.and_then(|view| self.owner_behind(view));
        self.names.look_behind(owner.as_deref());
        self.behind.borrow_mut().push(owner);
    }

    fn leave_view(&self) {
        self.around_views.borrow_mut().pop();
        self.behind.borrow_mut().pop();
        self.names.look_behind(self.behind().as_deref());
    }

    fn is_file_function(&self, name: &str) -> bool {
        file_functions::is_one(name)
    }

    fn file_function(&self, name: &str, arguments: &[(Option<String>, OptionValue)]) -> Result<Option<Named>> {
        self.files_of(name, arguments).map(Some)
    }

    fn zone(&self) -> &str {
        &self.zone
    }

    fn uses_index(&self) -> bool {
        self.at.session.uses_index
    }

    fn default_order(&self) -> DefaultOrder {
        self.at.session.default_order
    }

    fn kept_order(&self) -> KeptOrder {
        self.at.session.kept_order
    }

    fn search_configuration(&self) -> &'static str {
        self.at.session.search_configuration.name()
    }

    fn now(&self) -> i64 {
        self.now
    }

    fn statement_time(&self) -> i64 {
        self.statement_time
    }

    fn now_parameter(&self) -> Option<usize> {
        self.now_parameter
    }

    fn fact(&self, name: &str) -> Option<Constant> {
        let facts = &self.at.facts;
        let name_of =
            |value: &str| Constant { value: ScalarValue::Utf8View(Some(value.to_owned())), sql_type: SqlType::Name };
        Some(match name {
            "session_user" => name_of(&self.planner.session_user()),
            "current_user" | "user" | "current_role" | "getpgusername" => name_of(&self.planner.current_user()),
            "current_catalog" | "current_database" => name_of(CATALOG_NAME),
            "current_schema" => match self.current_schema() {
                Some(schema) => name_of(&schema),
                None => Constant::null(SqlType::Name),
            },
            "version" => Constant::text(facts::version()),
            "pg_backend_pid" => Constant::integer(facts.process_id),
            "inet_client_addr" | "inet_server_addr" => Constant::null(SqlType::Text),
            _ => return None,
        })
    }

    fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    fn template(&self, name: &str, arguments: usize) -> Option<Arc<ast::Expr>> {
        if name == "current_schemas" {
            self.names.not_reusable();
            return self.current_schemas().ok().map(Arc::new);
        }
        if has_function(name) {
            return None;
        }
        catalog_functions::template(name, arguments, || self.visible()).map(Arc::new)
    }

    fn finds_type(&self, schema: &str, name: &str) -> bool {
        type_names::is_found(self.at.snapshot, &self.schemas(), (schema, name))
    }

    fn question(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        let counting = || sequences::function(name, self.planner.catalogs(), &self.schemas());
        if name == "set_config" {
            return self.planner.settings_sink.get().map(session_functions::set_config);
        }
        if matches!(name, session_functions::CANCEL | session_functions::TERMINATE) {
            let is_end = name == session_functions::TERMINATE;
            return self.planner.settings_sink.get().map(|sink| session_functions::stop_session(sink, is_end));
        }
        if name == session_functions::DEPTH {
            return self.planner.settings_sink.get().map(session_functions::trigger_depth);
        }
        if name == LISTENING {
            return self.planner.settings_sink.get().map(session_functions::listening_channels);
        }
        if name == "pg_notify" {
            return self.planner.settings_sink.get().map(session_functions::pg_notify);
        }
        let locking = || {
            let function = row_locks::advisory_function(name, self.planner.catalogs())?;
            self.is_locking.set(true);
            Some(function)
        };
        let waiting = || sleeping::function(name).inspect(|_| self.names.not_reusable());
        let asking = privileges::function(name, self.at.snapshot, &self.planner.current_user(), self.schemas());
        let naming = || type_names::function(name, self.at.snapshot, &self.schemas());
        asking.or_else(naming).or_else(counting).or_else(locking).or_else(waiting)
    }

    fn routines(&self, name: &ast::ObjectName) -> Result<Vec<Definition>> {
        self.found_routines(name)
    }

    fn program(&self, call: &ProgramCall<'_>) -> Result<Arc<ScalarUDF>> {
        Ok(call.function(&self.planner.options.pool))
    }

    fn combined_program(&self, call: &CombinedCall<'_>) -> Result<Arc<AggregateUDF>> {
        Ok(call.function(&self.planner.options.pool))
    }

    fn procedure(&self, procedure: Procedure, is_strict: bool) -> Result<Arc<ScalarUDF>> {
        self.is_calling.set(true);
        let runner = self.planner.query_runner.get().cloned();
        let runner = runner.ok_or_else(|| Error::unsupported("there is no session to run procedures in"))?;
        Ok(procedures::function(Arc::new(procedure), is_strict, runner))
    }

    fn check_program(&self, call: &ProgramCall<'_>) -> Result<()> {
        self.may_program_in(match call.program.form.runtime() {
            Runtime::Python => Language::Python,
            Runtime::Wasm => Language::Wasm,
        })?;
        call.check(&self.planner.options.pool)
    }

    fn lockable(&self, name: &ast::ObjectName, mode: RowLock, way: LockWay) -> Result<Lockable> {
        let name = self.granted(name, Privilege::Update)?;
        let found = self.at.snapshot.readable(&name)?.ok_or_else(|| self.unknown(&name))?;
        let refused = || {
            let error = Error::unsupported(format!("cannot lock rows in '{name}': it is {}", found.a_kind()));
            error.with_code("42809").with_hint("FOR UPDATE OF names the tables that are meant")
        };
        let Resolved::Object(object) = &found else { return Err(refused()) };
        let Relation::Native(memory) = &object.relation else { return Err(refused()) };
        if object.relation.materialized().is_some() {
            return Err(refused());
        }
        self.is_locking.set(true);
        let function = row_locks::row_function(object.reference(), mode, way, self.planner.catalogs());
        Ok(Lockable { table: memory.numbered(), function })
    }

    fn made_type(&self, name: &ast::ObjectName) -> Result<Option<SqlType>> {
        Around::made_type(self, name)
    }

    fn collation(&self, name: &ast::ObjectName) -> Result<Collation> {
        Around::collation(self, name)
    }

    fn domain(&self, domain: &DomainType) -> Result<Arc<DomainDefinition>> {
        let object = self.at.snapshot.catalog.domain_of(domain.oid);
        let found = object.and_then(|object| Some((object, object.domain()?.1.clone())));
        let missing = || Error::input(format!("type {domain} does not exist")).with_code("42704");
        let (object, definition) = found.ok_or_else(missing)?;
        self.names.uses_object(&object.name, object);
        Ok(definition)
    }

    fn variable(&self, name: &str) -> Option<Constant> {
        self.planner.variables.lock().get(name).cloned()
    }

    fn variables(&self) -> Vec<(String, Constant)> {
        self.planner.variables.lock().iter().map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    fn setting(&self, name: &str) -> Option<String> {
        // An application's own setting has a value only if somebody has given it one.
        let others = || self.planner.settings_sink.get().filter(|_| !name.contains('.'))?.upgrade()?.setting(name);
        self.at.facts.settings.get(name).cloned().or_else(others)
    }

    fn settings(&self) -> Vec<(String, String)> {
        self.at.facts.settings.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    fn object(&self, kind: OidKind, name: &str) -> Option<i64> {
        match kind {
            OidKind::Class => {
                let is_bare = !name.contains('.');
                let name = self.named(name)?;
                // What describes the catalog needs no schema, whatever the path is.
                let described = || self.at.snapshot.get(&RelationName::new(DEFAULT_SCHEMA, &name.name));
                let found = self.at.snapshot.get(&name).or_else(|| described().filter(|_| is_bare));
                let Some(found) = found else { return self.index_number(&name) };
                match found {
                    Resolved::Object(object) => Some(i64::from(object.oid())),
                    Resolved::Computed(_) => {
                        let known = SYSTEM_CATALOGS.iter().find(|(known, _)| *known == name.name);
                        let known = known.map(|(_, oid)| i64::from(*oid));
                        let mut system = self.at.snapshot.system_tables();
                        let shown = || system.find(|(table, ..)| *table == name.name).map(|(_, oid, _)| i64::from(oid));
                        known.or_else(shown)
                    }
                }
            }
            OidKind::Type => {
                let known = SqlType::parse(&unquoted(name.strip_prefix("pg_catalog.").unwrap_or(name)));
                let made = || {
                    let (element, is_array) = name.strip_suffix("[]").map_or((name, false), |element| (element, true));
                    let name = RelationName::parse(element)?;
                    let bare = |part: &str| ast::Ident::with_quote('"', part);
                    let parts = match element.contains('.') {
                        true => vec![bare(&name.schema), bare(&name.name)],
                        false => vec![bare(&name.name)],
                    };
                    let found = Around::made_type(self, &ast::ObjectName::from(parts)).ok().flatten()?;
                    Some(if is_array { SqlType::array_of(found) } else { found })
                };
                known.or_else(made).map(|sql_type| match &sql_type {
                    SqlType::Domain(domain) => i64::from(domain.oid),
                    other => i64::from(other.oid()),
                })
            }
            OidKind::Namespace => self.at.snapshot.schema_oid(&unquoted(name)).map(i64::from),
            OidKind::Role => {
                // Names without quotes are in lower case.
                let bare = name.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
                let name = bare.map_or_else(|| name.to_lowercase(), |bare| bare.replace("\"\"", "\""));
                self.at.snapshot.role_oid(&name).map(i64::from)
            }
            _ => None,
        }
    }

    fn routine_number(&self, name: &str, kind: OidKind) -> Result<Option<i64>> {
        self.number_of_routine(name, kind == OidKind::Signature)
    }

    fn instead_of(&self, name: &str) -> Option<(String, String)> {
        if let Some((_, why)) = self.at.snapshot.catalog.left_out().find(|(left_out, _)| *left_out == name) {
            let hint = format!("name files of one format by a pattern: '…/{name}/*.parquet'");
            return Some((format!("the folder '{name}' is no table: {why}"), hint));
        }
        if !self.planner.names_files() {
            return None;
        }
        if looks_like_path(name) {
            return Some((format!("no table is named '{name}'"), format!("a file's name stands in quotes: '{name}'")));
        }
        let path = Path::new(name);
        if self.at.options.files.is_folder(path) {
            let hint = format!("to read the files of a folder, write its name with a slash: '{name}/'");
            return Some((format!("no table is named '{name}'; there is a folder of this name"), hint));
        }
        self.at.options.files.meta(path).ok()?;
        let is_spreadsheet = [".xlsx", ".xls", ".ods"].iter().any(|end| name.to_ascii_lowercase().ends_with(end));
        let hint = match is_spreadsheet {
            true => "spreadsheets are not read: save it as CSV".to_owned(),
            false => format!(
                "if it holds a table, say how: read_csv('{name}'), read_json('{name}') or read_parquet('{name}')"
            ),
        };
        Some((format!("no table is named '{name}'; there is a file of this name, which does not show a format"), hint))
    }

    fn relations(&self) -> Vec<String> {
        self.at.snapshot.names().iter().map(RelationName::to_string).collect()
    }

    fn texts_of(&self, query: &ast::Query) -> Result<Vec<Vec<Option<String>>>> {
        let runner = self.planner.query_runner.get().and_then(std::sync::Weak::upgrade);
        let runner = runner.ok_or_else(|| Error::bug("nothing runs queries while others are planned"))?;
        self.names.not_reusable();
        let around = Around::new(self.planner, self.at, self.names, vec![]);
        let bound = bind_query(query, &around)?;
        let planned = around.front(bound, &[], false)?;
        let mut rows = Vec::new();
        for batch in runner.rows(&Query::new(planned.plan, planned.tables))? {
            let columns = batch.columns().iter().map(|column| column.as_string_view_opt());
            let columns = columns.collect::<Option<Vec<_>>>().ok_or_else(|| Error::bug("values are no texts"))?;
            for row in 0..batch.num_rows() {
                let text = |column: &&arrow::array::StringViewArray| {
                    column.is_valid(row).then(|| column.value(row).to_owned())
                };
                rows.push(columns.iter().map(text).collect());
            }
        }
        Ok(rows)
    }

    fn parameter(&self, index: usize) -> Option<SqlType> {
        let given = self.parameters.get(index).filter(|sql_type| **sql_type != SqlType::Unknown).cloned();
        given.or_else(|| self.decided.borrow().get(index).cloned().flatten())
    }

    fn decides(&self, parameters: &[Option<SqlType>]) {
        let mut decided = self.decided.borrow_mut();
        let count = decided.len().max(parameters.len());
        decided.resize(count, None);
        for (decided, sql_type) in decided.iter_mut().zip(parameters) {
            *decided = decided.take().or_else(|| sql_type.clone());
        }
    }

    fn written(&self, cte: &ast::Cte) -> Option<Arc<WrittenRows>> {
        self.written.borrow().of(cte)
    }
}

/// The error for what has no past.
fn no_past(name: &RelationName) -> Error {
    let error =
        Error::unsupported(format!("\"{name}\" has no past: only tables of the database have")).with_code("0A000");
    error.with_hint("ask for the tables behind it")
}
