//! ATTACH and DETACH: a schema of external tables over the tables of a SQLite database, or a PostgreSQL server whose
//! tables are asked for when a statement names them.

use std::sync::Arc;

use diligence_base::{Error, Result};
use diligence_catalog::{CATALOG_NAME, FileRelation, Relation, RelationName};
use diligence_remote::{Moment, Server};
use diligence_storage::Table;
use diligence_storage::external::{Format, OpenOptions, sqlite_tables};
use sqlparser::ast;

use super::around::{Around, parts_of};
use crate::binder::{Named, normalized};
use crate::external::OptionValue;
use crate::parse::{ATTACHED, DETACH};
use crate::quoting::{literal, quoted};
use crate::statement::{Command, Statement};

/// Functions in FROM that ask a server.
const REMOTE: [&str; 3] = ["postgres_query", "postgres_scan", "postgres_scan_pushdown"];

/// Whether a function asks a server.
pub(super) fn is_remote(name: &str) -> bool {
    REMOTE.contains(&name)
}

/// What ATTACH says.
#[derive(Default)]
struct Asked {
    path: String,
    kind: String,
    schema: Option<String>,
    replaces: bool,
    if_not_exists: bool,
    is_named: bool,
}

impl Asked {
    fn of(database: &ast::Expr) -> Result<Self> {
        let wrong = || Error::input("ATTACH takes the path of a database as a text").with_code("42601");
        let texts = match database {
            ast::Expr::Function(call) if call.name.to_string().trim_matches('"') == ATTACHED => texts_of(call),
            other => OptionValue::of(other).and_then(|text| text.texts().ok()).unwrap_or_default(),
        };
        let mut texts = texts.into_iter();
        let path = texts.next().ok_or_else(wrong)?;
        let kind = texts.next().unwrap_or_default();
        let schema = texts.next().filter(|schema| !schema.is_empty());
        let said = texts.next().unwrap_or_else(|| "named".to_owned());
        let says = |word: &str| said.split(' ').any(|said| said == word);
        let (replaces, if_not_exists, is_named) = (says("replace"), says("if_not_exists"), says("named"));
        Ok(Self { path, kind, schema, replaces, if_not_exists, is_named })
    }

    /// Whether it is a server, by its type or by its address.
    fn is_server(&self) -> bool {
        let path = &self.path;
        match self.kind.as_str() {
            "postgres" | "postgresql" | "postgres_scanner" => true,
            "" => {
                ["postgres:", "postgresql:"].iter().any(|prefix| path.starts_with(prefix))
                    || ["host=", "dbname="].iter().any(|word| path.contains(word))
            }
            _ => false,
        }
    }

    /// The address of a server: DuckDB writes `postgres:` before one that is no URL.
    fn address(&self) -> &str {
        match self.path.strip_prefix("postgres:") {
            Some(words) if !words.starts_with("//") => words,
            _ => &self.path,
        }
    }
}

/// The texts among the arguments of a call.
fn texts_of(call: &ast::Function) -> Vec<String> {
    let ast::FunctionArguments::List(list) = &call.args else { return vec![] };
    let texts = list.args.iter().filter_map(|argument| match argument {
        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(text)) => {
            Some(OptionValue::of(text)?.texts().ok()?.concat())
        }
        _ => None,
    });
    texts.collect()
}

/// Whether CALL is DETACH.
pub(super) fn is_detach(call: &ast::Function) -> bool {
    matches!(call.name.0.as_slice(), [part] if part.as_ident().is_some_and(|name| name.value == DETACH))
}

impl Around<'_> {
    /// ATTACH. Only the names of the tables are read. Fails with 0A000 for a database of another kind, 42501 if the
    /// session may not use files, 42P06 if there is a schema of that name, and as connecting to a server does.
    pub(super) fn attach(&self, database: &ast::Expr, schema: &ast::Ident) -> Result<Statement> {
        self.planner.may_use_files("ATTACH")?;
        let asked = Asked::of(database)?;
        if asked.is_server() {
            return self.attach_server(&asked, &normalized(schema));
        }
        let Asked { path, kind, .. } = &asked;
        if !kind.is_empty() && kind != "sqlite" || path.contains("://") {
            let kind = if kind.is_empty() { String::new() } else { format!(" of type '{kind}'") };
            return Err(Error::unsupported(format!("a database{kind} is not attached")).with_code("0A000").with_hint(
                "ATTACH 'file' AS name (TYPE sqlite) attaches a local database of SQLite, \
                 ATTACH 'host=… dbname=…' AS name (TYPE postgres) a PostgreSQL server",
            ));
        }
        let schema = normalized(schema);
        if let Some(nothing) = self.attached_already(&asked, &schema)? {
            return Ok(nothing);
        }
        let disk = &self.at.options.files;
        let tables = sqlite_tables(path, disk)?.into_iter().map(|table| {
            let format = Some(Format::Sqlite);
            let options = OpenOptions { format, table: Some(table.clone()), ..OpenOptions::default() };
            let mut relation = FileRelation::new(path.clone(), options, disk.clone());
            relation.definition = Some(format!(
                "CREATE EXTERNAL TABLE {}.{} STORED AS SQLITE LOCATION {} OPTIONS ('table' {})",
                quoted(&schema),
                quoted(&table),
                literal(path),
                literal(&table)
            ));
            (RelationName::new(&schema, &table), Arc::new(relation))
        });
        let tables = tables.collect();
        Ok(Statement::Command(Command::Attach { schema, tables }))
    }

    /// What is done if there is a schema or a server of the name: nothing, if the statement says so. `None` if there is
    /// none, or if a server gives way. Fails with 42P06.
    fn attached_already(&self, asked: &Asked, name: &str) -> Result<Option<Statement>> {
        let is_schema = self.at.snapshot.schema_oid(name).is_some();
        let is_server = self.at.options.servers.get(name).is_some();
        if !is_schema && (!is_server || asked.replaces) {
            return Ok(None);
        }
        if asked.if_not_exists {
            return Ok(Some(Statement::Command(Command::Nothing("ATTACH"))));
        }
        let what = if is_schema { "schema" } else { "database" };
        let error = Error::input(format!("{what} \"{name}\" already exists")).with_code("42P06");
        Err(error.with_hint("DETACH removes what is attached; AS gives another name"))
    }

    fn attach_server(&self, asked: &Asked, name: &str) -> Result<Statement> {
        let name = asked.is_named.then_some(name);
        if let Some(name) = name
            && let Some(nothing) = self.attached_already(asked, name)?
        {
            return Ok(nothing);
        }
        let server = Server::attach(name, asked.address(), asked.schema.clone())?;
        if let Some(nothing) = self.attached_already(asked, server.name())? {
            return Ok(nothing);
        }
        let servers = self.at.options.servers.clone();
        Ok(Statement::Command(Command::AttachServer { server: Arc::new(server), servers }))
    }

    /// DETACH. Fails with 3D000 if nothing of the name is attached.
    pub(super) fn detach(&self, call: &ast::Function) -> Result<Statement> {
        self.planner.may_use_files("DETACH")?;
        let texts = texts_of(call);
        let name = texts.first().ok_or_else(|| Error::bug("DETACH without a name"))?.clone();
        let servers = &self.at.options.servers;
        let is_of_sqlite = |relation: &Relation| match relation {
            Relation::Files(files) => files.options.format == Some(Format::Sqlite),
            _ => false,
        };
        let mut within = self.at.snapshot.catalog.all_objects().filter(|object| object.name.schema == name).peekable();
        let is_attached = within.peek().is_some() && within.all(|object| is_of_sqlite(&object.relation));
        if servers.get(&name).is_some() {
            return Ok(Statement::Command(Command::DetachServer { name, servers: servers.clone() }));
        }
        if is_attached {
            let (if_exists, cascade, also) = (true, true, vec![]);
            return Ok(Statement::Command(Command::DropSchema { name, if_exists, cascade, also }));
        }
        if texts.get(1).is_some_and(|flag| flag == "if_exists") {
            return Ok(Statement::Command(Command::Nothing("DETACH")));
        }
        let error = Error::input(format!("database \"{name}\" is not attached")).with_code("3D000");
        Err(error.with_hint("SELECT name FROM system.attached lists what is attached; DROP SCHEMA drops schemas"))
    }

    /// A server that a statement names, with the snapshot in which it is read. `None` if there is none, or if a schema
    /// has its name.
    pub(super) fn server(&self, name: &str) -> Option<(Arc<Server>, Arc<Moment>)> {
        let server = self.at.options.servers.get(name).filter(|_| self.at.snapshot.schema_oid(name).is_none())?;
        let moment = self.moments.borrow_mut().entry(name.to_owned()).or_insert_with(|| server.moment()).clone();
        Some((server, moment))
    }

    /// A table of a server that is attached: `server.table`, `server.schema.table`. `None` if the name is none of such.
    /// Fails with 42P01 if the server has no such table, 42501 if the session may not use it.
    pub(super) fn attached_table(&self, name: &ast::ObjectName) -> Result<Option<Named>> {
        let Some(parts) = parts_of(name) else { return Ok(None) };
        let (server, schema, table) = match parts.as_slice() {
            [server, table] => (server, None, table),
            [server, schema, table] if server != CATALOG_NAME => (server, Some(schema.as_str()), table),
            _ => return Ok(None),
        };
        let Some((server, moment)) = self.server(server) else { return Ok(None) };
        self.planner.may_use_files("reading an attached database")?;
        self.names.not_reusable();
        let schema = schema.unwrap_or(server.schema());
        let known = RelationName::new(format!("{}\0{schema}", server.name()), table);
        if let Some(found) = self.known_table(&known) {
            moment.reads(1);
            return Ok(Some(Named::Table { table: found, name: table.clone(), key: vec![] }));
        }
        let found = server.table(Some(schema), table, &moment)?;
        self.knows(&known, found.clone());
        Ok(Some(Named::Table { table: found, name: table.clone(), key: vec![] }))
    }

    /// A function that asks a server: `postgres_query(server, sql)`, `postgres_scan(address, schema, table)`. Fails
    /// with 42601 for other arguments, 3D000 if no server has the name.
    pub(super) fn asked_there(&self, name: &str, arguments: &[(Option<String>, OptionValue)]) -> Result<Named> {
        self.planner.may_use_files(name)?;
        self.names.not_reusable();
        let texts = arguments.iter().map(|(option, value)| match option {
            None => value.texts().map(|texts| texts.concat()),
            Some(option) => Err(Error::input(format!("{name}() has no option '{option}'"))),
        });
        let texts = texts.collect::<Result<Vec<_>>>().map_err(|error| error.with_code("42601"))?;
        let table: Arc<dyn Table> = match (name, texts.as_slice()) {
            ("postgres_query", [server, sql]) => {
                let Some((server, moment)) = self.server(server) else {
                    let error = Error::input(format!("database \"{server}\" is not attached")).with_code("3D000");
                    return Err(error.with_hint("ATTACH 'host=… dbname=…' AS name (TYPE postgres) attaches a server"));
                };
                server.query(sql, &moment)?
            }
            ("postgres_query", _) => {
                let error = Error::input("postgres_query() takes the name of a server and a query").with_code("42601");
                return Err(error);
            }
            (_, [address, schema, table]) => {
                let server = Server::attach(None, address, None)?;
                server.table(Some(schema), table, &server.moment())?
            }
            _ => {
                let error = Error::input(format!("{name}() takes the address of a server, a schema and a table"));
                return Err(error.with_code("42601"));
            }
        };
        Ok(Named::Table { table, name: name.to_owned(), key: vec![] })
    }
}
