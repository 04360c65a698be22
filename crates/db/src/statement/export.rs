//! EXPORT DATABASE and IMPORT DATABASE: a database as statements and files that any version reads.
//!
//! ```text
//!   folder/  schema.sql     what makes roles, schemas, sequences, types and tables, and functions that these call
//!            load.sql       COPY of each table's file, then indexes, references, views, other functions, where
//!                           sequences are, triggers and grants
//!            shop.orders.parquet
//! ```
//! Everything is of one snapshot, and comes back in one transaction.

use std::collections::HashSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use diligence_base::ids::ObjectId;
use diligence_base::seams::{Disk, LocalDisk, OpenMode};
use diligence_base::{Error, Result};
use diligence_catalog::rules::{Identity, KeyKind};
use diligence_catalog::sequence::{Sequence, SequenceOptions};
use diligence_catalog::{
    DEFAULT_SCHEMA, DomainDefinition, Isolation, NativeTable, Object, Relation, RelationName, TriggerState, View,
};
use diligence_sql::ExportFormat;
use diligence_types::SqlType;
use diligence_types::collation::TextOrder;
use sqlparser::ast::{Ident, ObjectName, Statement};

use super::cancelling::CancelToken;
use super::export_roles;
use super::quoting::{literal, qualified, quoted};
use super::result::QueryResult;
use super::transaction::in_transaction;
use crate::postgres::definitions::{index_definition, key_definition, reference_definition};
use crate::session::Session;

/// The statements that come before rows.
const SCHEMA: &str = "schema.sql";
/// Those that bring rows, and those that come behind them.
const LOAD: &str = "load.sql";

/// Writes a database into a folder that is made. Fails with code 58P02 if there is something at the path, and with kind
/// `File` if it cannot be written; then what was written is removed.
pub(super) fn export(session: &Session, to: &Path, format: ExportFormat, token: &CancelToken) -> Result<()> {
    let disk = LocalDisk;
    disk.create_folder(to).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            let error = Error::file(format!("{}: there is something already", to.display())).with_code("58P02");
            error.with_hint("EXPORT DATABASE makes its folder: name one that is not there")
        }
        _ => failed(to, &error),
    })?;
    let written = in_transaction(session, Isolation::RepeatableRead, false, || {
        Exported::new(session, to, format, token).write(&disk)
    });
    written.inspect_err(|_| {
        let _ = disk.remove_tree(to);
    })
}

/// Runs the statements of a folder that EXPORT has written, in one transaction. Fails with kind `File` if there is
/// none, and as the statements fail; then nothing of it is there.
pub(super) fn import(session: &Session, from: &Path, token: &CancelToken) -> Result<()> {
    let read = |name: &str| {
        let path = from.join(name);
        LocalDisk.read_text(&path).map_err(|error| {
            failed(&path, &error).with_hint("IMPORT DATABASE takes a folder that EXPORT DATABASE has written")
        })
    };
    let (schema, load) = (read(SCHEMA)?, read(LOAD)?);
    in_transaction(session, Isolation::ReadCommitted, true, || {
        for statement in Session::split(&schema)?.into_iter().chain(Session::split(&load)?) {
            token.check()?;
            let placed = in_folder(&statement, from);
            let ran = session.execute(&placed).and_then(QueryResult::collect);
            let short = || statement.chars().take(60).collect::<String>();
            ran.map_err(|error| error.context(format!("{}: {}", from.display(), short())))?;
        }
        Ok(())
    })
}

/// A COPY whose file is named in a folder.
fn in_folder(statement: &str, folder: &Path) -> String {
    let trimmed = statement.trim_start();
    match trimmed.strip_prefix("COPY ").and_then(|rest| rest.split_once(" FROM '")) {
        Some((table, rest)) => {
            let folder = folder.display().to_string().replace('\'', "''");
            format!("COPY {table} FROM '{folder}/{rest}")
        }
        None => statement.to_owned(),
    }
}

fn failed(path: &Path, error: &std::io::Error) -> Error {
    let said = Error::file(format!("{}: {error}", path.display()));
    match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => said.with_code("53100"),
        _ => said.with_code("58030"),
    }
}

/// The statements and files of a database.
struct Exported<'a> {
    session: &'a Session,
    folder: PathBuf,
    format: ExportFormat,
    token: &'a CancelToken,
    schema: String,
    /// What brings rows.
    load: String,
    /// What comes behind them.
    after: String,
    /// Views, and functions that may be of tables.
    last: String,
    /// Functions that are written.
    made: HashSet<ObjectId>,
}

impl<'a> Exported<'a> {
    fn new(session: &'a Session, folder: &Path, format: ExportFormat, token: &'a CancelToken) -> Self {
        let [schema, load, after, last] = [const { String::new() }; 4];
        let (folder, made) = (folder.to_owned(), HashSet::new());
        Self { session, folder, format, token, schema, load, after, last, made }
    }

    fn write(mut self, disk: &dyn Disk) -> Result<()> {
        let snapshot = self.session.snapshot();
        if snapshot.rights.are_all() {
            self.schema.push_str(&export_roles::roles(&snapshot));
        }
        for (schema, _) in snapshot.catalog.kept_schemas().filter(|(schema, _)| *schema != DEFAULT_SCHEMA) {
            let _ = writeln!(self.schema, "CREATE SCHEMA {};", quoted(schema));
        }
        let mut objects = snapshot.catalog.all_objects().cloned().collect::<Vec<_>>();
        objects.retain(|object| !object.name.is_temporary() && snapshot.rights.may_read(&object.name));
        // As they were made: what is needed for another comes before it.
        objects.sort_by_key(|object| object.id);
        self.types_and_sequences(&objects)?;
        // Tables first: they write the functions that they call.
        for object in &objects {
            self.token.check()?;
            if let Relation::Native(table) = &object.relation {
                self.table(object, table, &objects)?;
            }
        }
        for object in &objects {
            match &object.relation {
                Relation::View(view) => self.last.push_str(&defined(&object.name, &view_statement(&object.name, view))),
                Relation::Routine(routine) if self.made.insert(object.id) => {
                    self.last.push_str(&defined(&object.name, &routine.statement()));
                }
                Relation::Native(_) | Relation::Routine(_) => {}
                Relation::Files(files) => {
                    if let Some(definition) = &files.definition {
                        self.last.push_str(&defined(&object.name, definition));
                    }
                }
                Relation::Sequence(_) | Relation::Table(_) => {}
                Relation::Enum(_) | Relation::Composite(_) | Relation::Domain(_) | Relation::Collation(_) => {}
            }
        }
        for object in &objects {
            if let Relation::Native(table) = &object.relation {
                self.references(object, table, &objects);
            }
        }
        self.statistics_and_triggers(&objects);
        if snapshot.rights.are_all() {
            self.last.push_str(&export_roles::grants(&snapshot));
            self.last.push_str(&export_roles::comments(&snapshot));
        }
        let load = format!("{}{}{}", self.load, self.after, self.last);
        for (name, text) in [(SCHEMA, &self.schema), (LOAD, &load)] {
            let path = self.folder.join(name);
            let written = disk.open(&path, OpenMode::CREATE_NEW).and_then(|file| {
                file.write_all_at(text.as_bytes(), 0)?;
                file.sync()
            });
            written.map_err(|error| failed(&path, &error))?;
        }
        disk.sync_folder(&self.folder).map_err(|error| failed(&self.folder, &error))
    }

    /// What tables name.
    fn types_and_sequences(&mut self, objects: &[Arc<Object>]) -> Result<()> {
        for object in objects {
            match &object.relation {
                Relation::Sequence(sequence) => self.sequence(object, sequence, objects)?,
                Relation::Enum(definition) => {
                    let labels = definition.labels.iter().map(|label| literal(label)).collect::<Vec<_>>().join(", ");
                    let _ = writeln!(self.schema, "CREATE TYPE {} AS ENUM ({labels});", qualified(&object.name));
                }
                Relation::Domain(definition) => {
                    let checks = definition.checks.iter().map(|check| check.condition.to_string());
                    let default = definition.default.iter().map(ToString::to_string);
                    self.functions_of(&checks.chain(default).collect::<Vec<_>>(), objects);
                    self.schema.push_str(&defined(&object.name, &domain_statement(&object.name, definition)));
                }
                Relation::Collation(order) => {
                    let name = object.name.collation().unwrap_or_default();
                    let name = format!("{}.{}", quoted(&object.name.schema), quoted(name));
                    let _ = match order.as_ref() {
                        TextOrder::Icu { locale, is_deterministic } => writeln!(
                            self.schema,
                            "CREATE COLLATION {name} (provider = icu, locale = {}, deterministic = {is_deterministic});",
                            literal(locale)
                        ),
                        _ => writeln!(self.schema, "CREATE COLLATION {name} FROM \"C\";"),
                    };
                }
                Relation::Composite(definition) => {
                    let columns = definition.columns.fields().iter().map(|field| {
                        let sql_type = SqlType::of_field(field).unwrap_or(SqlType::Text);
                        format!("{} {}", quoted(field.name()), declared(&sql_type))
                    });
                    let columns = columns.collect::<Vec<_>>().join(", ");
                    let _ = writeln!(self.schema, "CREATE TYPE {} AS ({columns});", qualified(&object.name));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// What belongs to tables and views, and is made once their rows are there.
    fn statistics_and_triggers(&mut self, objects: &[Arc<Object>]) {
        for object in objects {
            let name = qualified(&object.name);
            if let Relation::Native(table) = &object.relation {
                for own in &table.rules().statistics {
                    let schema = own.schema.as_deref().unwrap_or(&object.name.schema);
                    let _ = writeln!(self.last, "{};", own.definition(schema, &name));
                    if let Some(target) = own.target {
                        let own = format!("{}.{}", quoted(schema), quoted(&own.name));
                        let _ = writeln!(self.last, "ALTER STATISTICS {own} SET STATISTICS {target};");
                    }
                }
            }
            for trigger in object.relation.triggers() {
                let _ = writeln!(self.last, "{};", trigger.definition(&name));
                if trigger.state != TriggerState::Origin {
                    let (words, trigger) = (trigger.state.words(), quoted(&trigger.name));
                    let _ = writeln!(self.last, "ALTER TABLE {name} {words} TRIGGER {trigger};");
                }
            }
        }
    }

    /// Functions that texts call, and those that they call: they come before what has the texts.
    fn functions_of(&mut self, texts: &[String], objects: &[Arc<Object>]) {
        for object in objects {
            let Relation::Routine(routine) = &object.relation else { continue };
            let shown = object.name.routine().unwrap_or_default();
            let name = shown.split('(').next().unwrap_or_default();
            if !self.made.contains(&object.id) && texts.iter().any(|text| calls(text, name)) {
                self.made.insert(object.id);
                let statement = routine.statement();
                self.functions_of(std::slice::from_ref(&statement), objects);
                self.schema.push_str(&defined(&object.name, &statement));
            }
        }
    }

    fn sequence(&mut self, object: &Object, sequence: &Sequence, objects: &[Arc<Object>]) -> Result<()> {
        let name = qualified(&object.name);
        let options = &sequence.options;
        let is_identity = options.owner.as_ref().is_some_and(|owner| is_identity(owner, objects));
        if !is_identity {
            let bits = match options.bits {
                16 => "smallint",
                32 => "integer",
                _ => "bigint",
            };
            let _ = writeln!(self.schema, "CREATE SEQUENCE {name} AS {bits} {};", counted(options));
        }
        let state = sequence.state();
        let _ = writeln!(self.after, "SELECT setval({}, {}, {});", literal(&name), state.last, state.is_called);
        Ok(())
    }

    fn table(&mut self, object: &Object, table: &NativeTable, objects: &[Arc<Object>]) -> Result<()> {
        let (name, rules) = (qualified(&object.name), table.rules());
        if let Some(view) = &rules.materialized {
            let without = if view.is_populated { "" } else { " WITH NO DATA" };
            let query = &view.query;
            let statement = format!("CREATE MATERIALIZED VIEW {name} AS {query}{without}");
            self.last.push_str(&defined(&object.name, &statement));
            for key in &rules.keys {
                let _ = writeln!(self.last, "{};", index_definition(table, &object.name, key));
            }
            return Ok(());
        }
        let owned = objects.iter().filter_map(|own| match &own.relation {
            Relation::Sequence(sequence) => {
                let (owner, column) = sequence.options.owner.as_ref()?;
                (*owner == object.id).then_some((column, &own.name, &sequence.options))
            }
            _ => None,
        });
        let owned = owned.collect::<Vec<_>>();
        let mut parts = Vec::new();
        for field in table.schema().fields() {
            let counts = owned.iter().find(|(column, ..)| *column == field.name()).map(|(.., options)| *options);
            parts.push(column_definition(field, table, counts)?);
        }
        for key in rules.keys.iter().filter(|key| key.kind.is_constraint()) {
            parts.push(format!("CONSTRAINT {} {}", quoted(&key.name), key_definition(key)));
        }
        for check in &rules.checks {
            let constraint = format!("CONSTRAINT {} CHECK ({})", quoted(&check.name), check.condition);
            if rules.unproven.contains(&check.name) {
                // Older rows may break it.
                let added = format!("ALTER TABLE {name} ADD {constraint} NOT VALID");
                self.after.push_str(&defined(&object.name, &added));
                continue;
            }
            parts.push(constraint);
        }
        let divided = rules.distribution.to_string();
        let divided = if divided.is_empty() { divided } else { format!(" {divided}") };
        let texts = expressions(table);
        self.functions_of(&texts, objects);
        let made = format!("CREATE TABLE {name} (\n  {}\n){divided}", parts.join(",\n  "));
        match texts.is_empty() {
            true => {
                let _ = writeln!(self.schema, "{made};");
            }
            false => self.schema.push_str(&defined(&object.name, &made)),
        }
        for (column, sequence, _) in owned {
            let own = qualified(sequence);
            if !rules.identities.contains_key(column) {
                let _ = writeln!(self.schema, "ALTER SEQUENCE {own} OWNED BY {name}.{};", quoted(column));
                continue;
            }
            // That of an identity column is made with the table, and called after it.
            let called = RelationName::new(&object.name.schema, format!("{}_{column}_seq", object.name.name));
            if *sequence != called {
                let to = quoted(&sequence.name);
                let _ = writeln!(self.schema, "ALTER SEQUENCE {} RENAME TO {to};", qualified(&called));
            }
        }
        for (column, comment) in &rules.comments {
            let on = match column.is_empty() {
                true => format!("TABLE {name}"),
                false => format!("COLUMN {name}.{}", quoted(column)),
            };
            let _ = writeln!(self.schema, "COMMENT ON {on} IS {};", literal(comment));
        }
        self.rows(object, table)?;
        for key in rules.keys.iter().filter(|key| matches!(key.kind, KeyKind::UniqueIndex | KeyKind::Index)) {
            let made = index_definition(table, &object.name, key);
            match key.computed {
                None => {
                    let _ = writeln!(self.after, "{made};");
                }
                Some(_) => self.after.push_str(&defined(&object.name, &made)),
            }
        }
        Ok(())
    }

    /// Writes a table's file.
    fn rows(&mut self, object: &Object, table: &NativeTable) -> Result<()> {
        if table.rows() == 0 {
            return Ok(());
        }
        let fields = table.schema().fields();
        // What is computed is computed again.
        let fields = fields.iter().filter(|field| !table.rules().generated.contains_key(field.name()));
        let fields = fields.collect::<Vec<_>>();
        let needs_text = fields.iter().any(|field| !is_in_parquet(field.data_type()));
        let is_csv = needs_text || self.format == ExportFormat::Csv;
        let columns = fields.iter().map(|field| quoted(field.name())).collect::<Vec<_>>().join(", ");
        let values = fields.iter().map(|field| match is_csv && is_bytes(field.data_type()) {
            true => format!("{0}::text AS {0}", quoted(field.name())),
            false => quoted(field.name()),
        });
        let values = values.collect::<Vec<_>>().join(", ");
        let (ending, format) = if is_csv { ("csv", "FORMAT csv, HEADER true") } else { ("parquet", "FORMAT parquet") };
        let file = file_name(&object.name, ending);
        let path = self.folder.join(&file).display().to_string();
        let name = qualified(&object.name);
        let copy = format!("COPY (SELECT {values} FROM {name}) TO {} ({format})", literal(&path));
        self.session.execute(&copy).and_then(QueryResult::collect)?;
        let _ = writeln!(self.load, "COPY {name} ({columns}) FROM {} ({format});", literal(&file));
        Ok(())
    }

    fn references(&mut self, object: &Object, table: &NativeTable, objects: &[Arc<Object>]) {
        let table_rules = table.rules();
        for reference in &table_rules.references {
            let Some(referred) = objects.iter().find(|other| other.id == reference.table) else { continue };
            let definition = reference_definition(reference, &qualified(&referred.name));
            let (table, name) = (qualified(&object.name), quoted(&reference.name));
            let unproven = table_rules.unproven.contains(&reference.name);
            let unproven = if unproven { " NOT VALID" } else { "" };
            let _ = writeln!(self.after, "ALTER TABLE {table} ADD CONSTRAINT {name} {definition}{unproven};");
        }
    }
}

/// Whether a sequence counts for an identity column, which makes it.
fn is_identity((table, column): &(ObjectId, String), objects: &[Arc<Object>]) -> bool {
    let owner = objects.iter().find(|object| object.id == *table).map(|object| &object.relation);
    matches!(owner, Some(Relation::Native(table)) if table.rules().identities.contains_key(column))
}

/// A statement as it was given, where its names mean what they meant.
fn defined(name: &RelationName, definition: &str) -> String {
    let path = match name.schema.as_str() {
        DEFAULT_SCHEMA => quoted(DEFAULT_SCHEMA),
        schema => format!("{}, {}", quoted(schema), quoted(DEFAULT_SCHEMA)),
    };
    format!("SET search_path = {path};\n{definition};\nRESET search_path;\n")
}

/// What makes a view, under the name that it has by now.
fn view_statement(name: &RelationName, view: &View) -> String {
    let mut source = Statement::clone(&view.source);
    if let Statement::CreateView(create) = &mut source {
        let part = |name: &String| Ident::with_quote('"', name);
        create.name = ObjectName::from(vec![part(&name.schema), part(&name.name)]);
    }
    source.to_string()
}

/// What makes a domain.
fn domain_statement(name: &RelationName, definition: &DomainDefinition) -> String {
    let mut made = format!("CREATE DOMAIN {} AS {}", qualified(name), declared(&definition.base));
    made.push_str(&collation_clause(&definition.base));
    if let Some(default) = &definition.default {
        let _ = write!(made, " DEFAULT {default}");
    }
    if definition.is_not_null {
        made.push_str(" NOT NULL");
    }
    for check in &definition.checks {
        let _ = write!(made, " CONSTRAINT {} CHECK ({})", quoted(&check.name), check.condition);
    }
    made
}

/// A type as a declaration has it: arrays with all of their dimensions.
fn declared(sql_type: &SqlType) -> String {
    let mut text = sql_type.to_string();
    let mut element = sql_type;
    while let SqlType::Array(inner) = element {
        // The first dimension is shown.
        if matches!(**inner, SqlType::Array(_)) {
            text.push_str("[]");
        }
        element = inner;
    }
    text
}

/// How a sequence counts, as statements say it.
fn counted(options: &SequenceOptions) -> String {
    let SequenceOptions { start, increment, min, max, cycles, .. } = options;
    let cycle = if *cycles { " CYCLE" } else { "" };
    format!("INCREMENT BY {increment} MINVALUE {min} MAXVALUE {max} START WITH {start}{cycle}")
}

/// What the statements compute that make a table and its indexes.
fn expressions(table: &NativeTable) -> Vec<String> {
    let rules = table.rules();
    let values = rules.defaults.values().chain(rules.generated.values());
    let checks = rules.checks.iter().map(|check| &check.condition);
    let computed = rules.keys.iter().filter_map(|key| key.computed.as_ref());
    let indexed = computed.flat_map(|computed| computed.expressions.iter().flatten().chain(&computed.condition));
    values.chain(checks).chain(indexed).map(ToString::to_string).collect()
}

/// Whether a text may call a function of this name.
fn calls(text: &str, name: &str) -> bool {
    let is_of_name = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '$');
    let (text, name) = (text.to_lowercase(), name.to_lowercase());
    !name.is_empty()
        && text.match_indices(&name).any(|(at, _)| {
            let behind = text[at + name.len()..].trim_start_matches('"').trim_start();
            behind.starts_with('(') && !text[..at].ends_with(is_of_name)
        })
}

fn column_definition(field: &FieldRef, table: &NativeTable, counts: Option<&SequenceOptions>) -> Result<String> {
    let (name, rules) = (field.name(), table.rules());
    let sql_type = SqlType::of_field(field).ok_or_else(|| {
        let message = format!("the column '{name}' of {} has no type that a statement can say", table.name());
        Error::unsupported(message).with_code("0A000")
    })?;
    let value = match (rules.generated.get(name), rules.identities.get(name), rules.defaults.get(name)) {
        (Some(generated), ..) => format!(" GENERATED ALWAYS AS ({generated}) STORED"),
        (_, Some(identity), _) => {
            let when = if *identity == Identity::Always { "ALWAYS" } else { "BY DEFAULT" };
            let options = counts.map_or_else(String::new, |options| format!(" ({})", counted(options)));
            format!(" GENERATED {when} AS IDENTITY{options}")
        }
        (.., Some(default)) => format!(" DEFAULT {default}"),
        _ => String::new(),
    };
    let required = if field.is_nullable() { "" } else { " NOT NULL" };
    let declared = declared(&sql_type);
    Ok(format!("{} {declared}{}{value}{required}", quoted(name), collation_clause(&sql_type)))
}

/// COLLATE, where a type has a collation that is not the database's.
fn collation_clause(sql_type: &SqlType) -> String {
    sql_type.collation().map_or_else(String::new, |collation| format!(" COLLATE {collation}"))
}

/// Whether values are bytes, of which CSV has the text that SQL has.
fn is_bytes(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_))
}

/// Whether COPY takes from Parquet what it was given. Of nested values it takes the texts that CSV has.
fn is_in_parquet(data_type: &DataType) -> bool {
    !data_type.is_nested()
        && !matches!(data_type, DataType::Interval(_) | DataType::Duration(_) | DataType::Null | DataType::Union(..))
}

/// A file's name, of letters that every file system has.
fn file_name(name: &RelationName, ending: &str) -> String {
    let mut file = String::new();
    for c in format!("{}.{}", name.schema, name.name).chars() {
        match c.is_alphanumeric() || matches!(c, '.' | '_' | '-') {
            true => file.push(c),
            false => {
                let _ = write!(file, "~{:x}", u32::from(c));
            }
        }
    }
    format!("{file}.{ending}")
}
