//! Functions in FROM that read files: `read_csv` and its kin, and those that tell about files.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema};
use diligence_base::{Error, Result};
use diligence_catalog::{CATALOG_NAME, DEFAULT_SCHEMA, FileRelation, Relation, RelationName, Resolved};
use diligence_storage::Table;
use diligence_storage::external::{
    Format, LakeMoment, OpenOptions, ParquetAbout, ROW_NUMBER_COLUMN, about_parquet, matching_files, sniffed,
};
use diligence_storage::foreign_error::from_arrow;
use diligence_types::SqlType;
use sqlparser::ast;

use super::around::Around;
use super::{attach, whole_files};
use crate::binder::{self, Named};
use crate::external::{FILE_NAMES, FILE_NAMES_BEHIND_NUMBERS, OptionValue, READERS, moment_of, set_all, truth};
use crate::parse::{COPY_FROM, TABLE_AT};
use crate::quoting::quoted;

/// Functions that tell about files.
const ABOUT: [(&str, ParquetAbout); 5] = [
    ("parquet_metadata", ParquetAbout::Chunks),
    ("parquet_schema", ParquetAbout::Schema),
    ("parquet_file_metadata", ParquetAbout::Files),
    ("parquet_kv_metadata", ParquetAbout::Pairs),
    ("parquet_key_value_metadata", ParquetAbout::Pairs),
];

/// Whether a function reads files.
pub(super) fn is_one(name: &str) -> bool {
    name == COPY_FROM
        || attach::is_remote(name)
        || name == TABLE_AT
        || name == "glob"
        || whole_files::is_one(name)
        || name == whole_files::SHEET
        || READERS.iter().any(|(known, _)| *known == name)
        || ABOUT.iter().any(|(known, _)| *known == name)
}

/// A call of a function that reads files.
struct FileCall<'n> {
    name: &'n str,
    /// The file, or the first of several.
    first: String,
    /// The others.
    more: Vec<String>,
    /// Its options.
    pairs: Vec<(String, OptionValue)>,
}

impl<'n> FileCall<'n> {
    /// A call from its arguments. Fails with 42601 unless they are files, and options by their names.
    fn of(name: &'n str, arguments: &[(Option<String>, OptionValue)]) -> Result<Self> {
        let wrong = |what: String| Error::input(what).with_code("42601");
        let mut given = arguments.iter().filter(|(option, _)| option.is_none()).map(|(_, value)| value);
        let (location, table) = (given.next(), given.next().filter(|_| name == "sqlite_scan"));
        let count = arguments.iter().filter(|(option, _)| option.is_none()).count();
        let (Some(location), true) = (location, count == 1 + usize::from(table.is_some())) else {
            return Err(wrong(format!("{name}() takes a file's name, or a list of names, and options by their names")));
        };
        let locations = location.texts()?;
        let Some((first, more)) = locations.split_first() else {
            return Err(wrong(format!("{name}() takes at least one file")));
        };
        let named = arguments.iter().filter_map(|(option, value)| Some((option.clone()?, value.clone())));
        let mut pairs = named.collect::<Vec<_>>();
        pairs.extend(table.map(|table| ("table".to_owned(), table.clone())));
        Ok(Self { name, first: first.clone(), more: more.to_vec(), pairs })
    }

    fn locations(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.first).chain(&self.more)
    }

    /// The format that the function reads, an option says, or the file's name does.
    fn take_format(&mut self) -> Result<Option<Format>> {
        if let Some((_, format)) = READERS.iter().find(|(known, _)| *known == self.name) {
            return Ok(Some(*format));
        }
        let Some(place) = self.pairs.iter().position(|(option, _)| option == "format") else {
            return Ok(Format::of_name(&self.first).map(|(format, _)| format));
        };
        match &self.pairs.remove(place).1 {
            OptionValue::One(name) if name.eq_ignore_ascii_case("text") => {
                let error = Error::unsupported("COPY from a file reads csv, json, parquet and arrow");
                Err(error.with_code("0A000").with_hint("FORMAT csv, DELIMITER E'\\t' reads tabs"))
            }
            value => Format::from_name(&value.texts()?.concat()).map(Some),
        }
    }

    /// What the function's name says of JSON.
    fn set_form_of_json(&self, options: &mut OpenOptions) {
        if matches!(self.name, "read_json_objects" | "read_json_objects_auto" | "read_ndjson_objects") {
            (options.json.whole, options.json.untyped) = (true, true);
        }
        if self.name.starts_with("read_ndjson") {
            options.json.array = Some(false);
        }
    }

    /// Whether a COPY says HEADER MATCH; it has a header then.
    fn take_header_match(&mut self) -> bool {
        let header = self.pairs.iter_mut().find(|(option, value)| {
            let is_match = matches!(value, OptionValue::One(value) if value.eq_ignore_ascii_case("match"));
            self.name == COPY_FROM && option == "header" && is_match
        });
        let Some((_, value)) = header else { return false };
        *value = OptionValue::One("true".to_owned());
        true
    }
}

impl Around<'_> {
    /// The type that a text names. Fails with 42704 if there is none.
    pub(super) fn type_named(&self, text: &str) -> Result<SqlType> {
        match crate::parse::expression(&format!("CAST(NULL AS {text})"))? {
            ast::Expr::Cast { data_type, .. } => binder::named_type(&data_type, self),
            _ => Err(Error::input(format!("'{text}' is no type")).with_code("42601")),
        }
    }

    /// The table of a function that reads files. Fails with 42601 for arguments that make no sense, 42501 if the
    /// session may not read files, and as opening the files does.
    pub(super) fn files_of(&self, name: &str, arguments: &[(Option<String>, OptionValue)]) -> Result<Named> {
        if name == TABLE_AT {
            return self.table_at(arguments);
        }
        if attach::is_remote(name) {
            return self.asked_there(name, arguments);
        }
        if !self.planner.names_files() {
            self.planner.may_use_files(name)?;
        }
        let mut call = FileCall::of(name, arguments)?;
        let disk = &self.at.options.files;
        if let Some(told) = self.told(&call)? {
            return self.computed(&RelationName::new(DEFAULT_SCHEMA, name), told);
        }
        let mut options = OpenOptions { also: call.more.clone(), ..OpenOptions::default() };
        options.format = call.take_format()?;
        self.take_moment(&mut call, &mut options)?;
        self.take_rejects(&mut call, &mut options)?;
        call.set_form_of_json(&mut options);
        let matches_header = call.take_header_match();
        // Names of columns come before their types, which may be listed.
        call.pairs.sort_by_key(|(option, _)| !matches!(option.as_str(), "names" | "column_names"));
        set_all(&mut options, &call.pairs, &|text| self.type_named(text))?;
        if name == COPY_FROM {
            self.set_copied_columns(&call.first, &mut options, matches_header)?;
        }
        if name == "sniff_csv" {
            let told = sniffed(&call.first, &options, disk.clone())?;
            return self.computed(&RelationName::new(DEFAULT_SCHEMA, name), told);
        }
        let named = if name == COPY_FROM { None } else { self.with_file_names(&call.first, options.clone()) };
        let table: Arc<dyn Table> = match named {
            Some(table) => table,
            None => FileRelation::new(&call.first, options, disk.clone()).table()?,
        };
        self.names.not_reusable();
        Ok(Named::Table { table, name: name.to_owned(), key: vec![] })
    }

    /// What a function tells about files, or has of them as values; `None` for one that reads their rows.
    fn told(&self, call: &FileCall<'_>) -> Result<Option<RecordBatch>> {
        let disk = &self.at.options.files;
        if call.name == "glob" {
            let mut files = Vec::new();
            for location in call.locations() {
                files.extend(matching_files(location, disk)?);
            }
            let column: ArrayRef = Arc::new(StringViewArray::from_iter_values(files));
            let schema = Arc::new(Schema::new(vec![Field::new("file", DataType::Utf8View, true)]));
            return RecordBatch::try_new(schema, vec![column]).map_err(from_arrow).map(Some);
        }
        let locations = || call.locations().cloned().collect::<Vec<_>>();
        if whole_files::is_one(call.name) {
            return self.whole_files(call.name == "read_text", &locations()).map(Some);
        }
        if call.name == whole_files::SHEET {
            if !call.more.is_empty() {
                return Err(Error::input(format!("{}() takes one file", call.name)).with_code("42601"));
            }
            return self.sheet(&call.first, &call.pairs).map(Some);
        }
        let Some((_, about)) = ABOUT.iter().find(|(known, _)| *known == call.name) else { return Ok(None) };
        let mut options = OpenOptions { format: Some(Format::Arrow), ..OpenOptions::default() };
        set_all(&mut options, &call.pairs, &|text| self.type_named(text))?;
        about_parquet(&locations(), *about, disk).map(Some)
    }

    /// The moment of a lake's table, which is a time in the session's zone.
    fn take_moment(&self, call: &mut FileCall<'_>, options: &mut OpenOptions) -> Result<()> {
        if !matches!(options.format, Some(Format::Delta | Format::Iceberg)) {
            return Ok(());
        }
        let is_time = |option: &str| matches!(option, "timestamp" | "snapshot_from_timestamp");
        for (option, value) in &call.pairs {
            if let (true, OptionValue::One(text)) = (is_time(option), value) {
                options.moment = Some(moment_of(text, &self.zone)?);
            }
        }
        if options.moment.is_some() {
            call.pairs.retain(|(option, _)| !is_time(option));
        }
        Ok(())
    }

    /// Whether records that are left out are kept.
    fn take_rejects(&self, call: &mut FileCall<'_>, options: &mut OpenOptions) -> Result<()> {
        if matches!(options.format, Some(Format::Csv | Format::Json))
            && let Some(place) = call.pairs.iter().position(|(option, _)| option == "store_rejects")
            && truth(&call.pairs[place].1.texts()?.concat())?
        {
            call.pairs.remove(place);
            (options.ignore_errors, options.rejects) = (true, Some(self.planner.rejects.clone()));
        }
        Ok(())
    }

    /// The columns of a file that is copied into a table: those of the table, as far as files have their types.
    fn set_copied_columns(&self, file: &str, options: &mut OpenOptions, matches_header: bool) -> Result<()> {
        (options.csv.in_order, options.csv.quotes_inside) = (true, true);
        let found = |options: &OpenOptions| {
            let table = FileRelation::new(file, options.clone(), self.at.options.files.clone()).table()?;
            Ok::<_, Error>(table.schema())
        };
        let Some(columns) = self.copied.borrow().clone() else {
            options.schema = None;
            return Ok(());
        };
        if matches_header {
            check_header(found(options)?.as_ref(), &columns)?;
        }
        options.schema = Some(match options.format {
            None | Some(Format::Csv) => Arc::new(of_text_files(&columns)),
            Some(Format::Json) => columns,
            // These say what their values are, which are assigned as those of an INSERT.
            Some(_) => Arc::new(as_in_files(&columns, found(options)?.as_ref())),
        });
        Ok(())
    }

    /// A table of files with their names, and of Parquet files with the numbers of rows, where the statement has missed
    /// these; `None` if it has not, and of what has no such column.
    pub(super) fn with_file_names(&self, path: &str, options: OpenOptions) -> Option<Arc<dyn Table>> {
        if !self.gives_numbers.get() || options.filename.is_some() {
            return None;
        }
        let open = |name: &str, row_numbers: bool| -> Option<Arc<dyn Table>> {
            let options = OpenOptions { filename: Some(name.to_owned()), row_numbers, ..options.clone() };
            let opened = FileRelation::new(path, options, self.at.options.files.clone()).table().ok()?;
            Some(opened)
        };
        let named = open(FILE_NAMES, options.row_numbers)?;
        if options.row_numbers {
            return Some(named);
        }
        // Folders that are columns stand behind the numbers, which `*` would stand for then.
        let is_numbered = |table: &Arc<dyn Table>| {
            let (all, schema) = (named.schema().fields().len(), table.schema());
            let in_front = all.checked_sub(1).and_then(|place| schema.fields().get(place));
            schema.fields().len() == all + 1 && in_front.is_some_and(|field| field.name() == ROW_NUMBER_COLUMN)
        };
        Some(open(FILE_NAMES_BEHIND_NUMBERS, true).filter(is_numbered).unwrap_or(named))
    }
}

/// Fails with 22P04 unless the names in a file's header are those of the columns into which it is copied.
fn check_header(found: &Schema, columns: &Schema) -> Result<()> {
    let wrong = |message: String| Err(Error::value(message).with_code("22P04"));
    let (got, expected) = (found.fields().len(), columns.fields().len());
    if got != expected {
        return wrong(format!("wrong number of fields in header line: got {got}, expected {expected}"));
    }
    for (place, (found, column)) in found.fields().iter().zip(columns.fields()).enumerate() {
        if found.name() != column.name() {
            let (field, got, expected) = (place + 1, found.name(), column.name());
            return wrong(format!(
                "column name mismatch in header line field {field}: got \"{got}\", expected \"{expected}\""
            ));
        }
    }
    Ok(())
}

impl Around<'_> {
    /// A table in a past state: `"table at"(name, version => …)`. Fails with 0A000 if it has none.
    fn table_at(&self, arguments: &[(Option<String>, OptionValue)]) -> Result<Named> {
        let [(None, table), (Some(kind), OptionValue::One(value))] = arguments else {
            return Err(Error::input("AT takes a version or a timestamp as a literal").with_code("42601"));
        };
        let moment = match kind.as_str() {
            "version" => {
                let wrong = || Error::input(format!("'{value}' is no number of a version")).with_code("22P02");
                LakeMoment::Version(value.parse().map_err(|_| wrong())?)
            }
            _ => moment_of(value, &self.zone)?,
        };
        match table {
            OptionValue::List(_) => {
                let parts = table.texts()?;
                let relation = match parts.as_slice() {
                    [name] => self.in_path(name),
                    [schema, name] => RelationName::new(schema, name),
                    [catalog, schema, name] if catalog == CATALOG_NAME => RelationName::new(schema, name),
                    _ => return Err(Error::input("a table's name has at most three parts").with_code("42601")),
                };
                let object = match self.at.snapshot.readable(&relation)? {
                    Some(Resolved::Object(object)) => object,
                    Some(_) => return Err(has_no_past(&relation.name)),
                    None => {
                        let error = Error::input(format!("relation \"{}\" does not exist", parts.join(".")));
                        return Err(error.with_code("42P01"));
                    }
                };
                match &object.relation {
                    Relation::Files(files) => self.files_at(files, moment, relation.name),
                    _ => Err(has_no_past(&relation.name)),
                }
            }
            other => {
                if !self.planner.names_files() {
                    self.planner.may_use_files("AT")?;
                }
                let path = other.texts()?.concat();
                let files = FileRelation::new(&path, OpenOptions::default(), self.at.options.files.clone());
                self.files_at(&files, moment, path)
            }
        }
    }

    /// A table over files in a past state. Fails with 0A000 if it has none.
    pub(super) fn files_at(&self, files: &FileRelation, moment: LakeMoment, name: String) -> Result<Named> {
        let options = OpenOptions { moment: Some(moment), ..files.options.clone() };
        let files = FileRelation::new(&files.location, options, self.at.options.files.clone());
        let table: Arc<dyn Table> = files.table()?;
        self.names.not_reusable();
        Ok(Named::Table { table, name, key: vec![] })
    }
}

fn has_no_past(name: &str) -> Error {
    Error::unsupported(format!("past states of \"{name}\" are not kept"))
        .with_code("0A000")
        .with_hint("tables of Delta Lake and Iceberg have them")
}

/// Whether the values of a type are in text files as they are in SQL. All others are read as texts, and cast.
fn is_plain(told: &SqlType) -> bool {
    use SqlType as T;
    matches!(
        told,
        T::SmallInt | T::Integer | T::BigInt | T::Numeric(_) | T::Real | T::Double | T::Text | T::Date | T::Timestamp
    )
}

/// Whether a text becomes the type where it is stored.
fn is_of_texts(told: &SqlType) -> bool {
    matches!(told, SqlType::Varchar(_) | SqlType::Char(_) | SqlType::Name)
}

/// The columns as text files hold them.
fn of_text_files(columns: &Schema) -> Schema {
    let field = |field: &Arc<Field>| match SqlType::of_field(field) {
        Some(told) if !is_plain(&told) => Arc::new(SqlType::Text.field(field.name(), true)),
        _ => field.clone(),
    };
    Schema::new(columns.fields().iter().map(field).collect::<Vec<_>>())
}

/// The columns in the types that files have them in, which is not the table's; those that no file has in the table's.
fn as_in_files(columns: &Schema, files: &Schema) -> Schema {
    let field = |wanted: &Arc<Field>| {
        let alike = |name: &String| name.eq_ignore_ascii_case(wanted.name());
        let mut alike = files.fields().iter().filter(|field| alike(field.name()));
        let only = match (alike.next(), alike.next()) {
            (Some(only), None) => Some(only),
            _ => None,
        };
        let own = files.field_with_name(wanted.name()).ok().or(only.map(Arc::as_ref));
        let Some((own, found)) = own.and_then(|own| Some((own, SqlType::of_field(own)?))) else {
            return wanted.clone();
        };
        let told = SqlType::of_field(wanted).unwrap_or(SqlType::Text);
        match (found.innermost(), told.innermost()) {
            // A text becomes a number or a date as it is read: it was never one.
            (SqlType::Text, _) if found == SqlType::Text && is_plain(&told) => wanted.clone(),
            // Fields of records are found by their names.
            (_, SqlType::Record(_) | SqlType::Map(_)) => wanted.clone(),
            // Labels are those of the table's enum, whatever those of the file's were.
            (SqlType::Enum(_), _) => Arc::new(of_labels(&found).field(wanted.name(), true)),
            _ => Arc::new(own.clone().with_name(wanted.name())),
        }
    };
    Schema::new(columns.fields().iter().map(field).collect::<Vec<_>>())
}

/// Texts in the place of an enum.
fn of_labels(found: &SqlType) -> SqlType {
    match found {
        SqlType::Array(element) => SqlType::array_of(of_labels(element)),
        _ => SqlType::Text,
    }
}

/// The type whose values a file has for a column: any length, which is looked at where they are stored.
fn of_any_length(told: &SqlType) -> SqlType {
    match told {
        SqlType::Varchar(_) => SqlType::Varchar(None),
        SqlType::Char(_) => SqlType::Text,
        SqlType::Bit(_) | SqlType::VarBit(_) => SqlType::VarBit(None),
        SqlType::Array(element) => SqlType::array_of(of_any_length(element)),
        other => other.clone(),
    }
}

/// The part of FROM that a COPY from files reads, if the source of an INSERT is that.
pub(super) fn copied(source: Option<&ast::Query>) -> Option<&ast::Select> {
    let ast::SetExpr::Select(select) = source?.body.as_ref() else { return None };
    let [part] = select.from.as_slice() else { return None };
    let ast::TableFactor::Table { name, args: Some(_), .. } = &part.relation else { return None };
    let name = name.0.last()?.as_ident()?;
    (name.value == COPY_FROM).then_some(select)
}

impl Around<'_> {
    /// The rows of a COPY from files: each column as the table wants it. Remembers the columns for the function that
    /// reads them.
    pub(super) fn copied_rows(
        &self,
        source: &ast::Query,
        columns: &[(String, SqlType)],
        table: &str,
    ) -> Result<ast::Query> {
        let Some(select) = copied(Some(source)) else { return Err(Error::bug("not a COPY from files")) };
        // What a domain demands is looked at where the values are stored.
        let columns = columns.iter().map(|(name, told)| (name, of_any_length(told.base()))).collect::<Vec<_>>();
        let fields = columns.iter().map(|(name, told)| told.field(name, true));
        *self.copied.borrow_mut() = Some(Arc::new(Schema::new(fields.collect::<Vec<_>>())));
        let casts = columns.iter().map(|(name, told)| match is_plain(told) || is_of_texts(told) {
            true => quoted(name),
            false => {
                let (name, dimensions) = (quoted(name), "[]".repeat(binder::dimensions(told)));
                format!("CAST({name} AS {}{dimensions}) AS {name}", told.innermost())
            }
        });
        let mut query = crate::parse::query(&format!("SELECT {} FROM t", casts.collect::<Vec<_>>().join(", ")))?;
        if let ast::SetExpr::Select(rows) = query.body.as_mut() {
            rows.from = select.from.clone();
        }
        let Some(condition) = &select.selection else { return Ok(query) };
        // It is about the values as the table gets them.
        let names = columns.iter().map(|(name, _)| quoted(name)).collect::<Vec<_>>().join(", ");
        let mut chosen =
            crate::parse::query(&format!("SELECT {names} FROM (SELECT 1) AS {} WHERE true", quoted(table)))?;
        if let ast::SetExpr::Select(rows) = chosen.body.as_mut() {
            rows.selection = Some(condition.clone());
            if let Some(ast::TableFactor::Derived { subquery, .. }) =
                rows.from.first_mut().map(|from| &mut from.relation)
            {
                **subquery = query;
            }
        }
        Ok(chosen)
    }
}
