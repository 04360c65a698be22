//! What a database on disk needs of the rest: definitions become relations again when it is opened, and somebody makes
//! checkpoints while it is open.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use datafusion_sql::parser::Statement as ParsedStatement;
use diligence_base::seams::{Disk, Spawn, Thread, ThreadSpawn};
use diligence_base::{Error, Result};
use diligence_catalog::{Catalog, FileRelation, View};
use diligence_engine::batch::compacted;
use diligence_memory::{QueryMemory, Reservation};
use diligence_native::{FolderLock, Store, StoreOptions, Surroundings};
use diligence_sql::{Command, Planned, Planner, Statement, parse};
use diligence_storage::foreign_error::from_arrow;
use parking_lot::Mutex;
use sqlparser::ast::Expr;

/// Who holds the memory of rows in tables.
const HOLDER: &str = "a table in memory";

/// The folder of a database that is open.
pub(crate) struct KeptFolder {
    store: Arc<Store>,
    catalog: Arc<Catalog>,
    checkpoints: Mutex<Option<Box<dyn Thread>>>,
    _lock: FolderLock,
}

impl KeptFolder {
    /// Opens a folder into a catalog. `planner` is one that may name files. Fails with kind `File` if the folder cannot
    /// be used, is damaged or is open in another process, `Resource` if its rows do not fit into `memory`.
    pub(crate) fn open(
        folder: &Path,
        disk: Arc<dyn Disk>,
        catalog: &Arc<Catalog>,
        planner: &Planner,
        memory: &QueryMemory,
    ) -> Result<Self> {
        let made = disk.create_folders(folder);
        made.map_err(|error| Error::file(format!("{}: {error}", folder.display())).with_code("58030"))?;
        let lock = FolderLock::take(folder)?;
        let definitions = Definitions { planner, memory };
        let opened = Store::open(StoreOptions::new(folder, disk), catalog.clone(), &definitions);
        let opened = opened.map_err(|error| match error.kind() {
            diligence_base::ErrorKind::Resource => error.with_hint("raise --memory: all rows of the tables must fit"),
            _ => error,
        });
        let store = Arc::new(opened?);
        let checkpoints = {
            let store = store.clone();
            ThreadSpawn.spawn("checkpoints".into(), Box::new(move || store.make_checkpoints()))
        };
        let checkpoints = checkpoints.map_err(|error| Error::resource(format!("a thread cannot start: {error}")))?;
        Ok(Self { store, catalog: catalog.clone(), checkpoints: Mutex::new(Some(checkpoints)), _lock: lock })
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }
}

impl Drop for KeptFolder {
    fn drop(&mut self) {
        // Without it, numbers are left out when the folder is opened again, and nothing else is lost.
        let _ = self.catalog.rest_sequences();
        self.store.stop();
        if let Some(thread) = self.checkpoints.get_mut().take() {
            thread.join();
        }
    }
}

/// Reads definitions back, as statements are read.
struct Definitions<'a> {
    planner: &'a Planner,
    memory: &'a QueryMemory,
}

impl Surroundings for Definitions<'_> {
    fn expression(&self, text: &str) -> Result<Expr> {
        parse::expression(text)
    }

    fn view(&self, definition: &str, columns: SchemaRef) -> Result<View> {
        let parsed = self.planner.parse(definition)?;
        match parsed.statement {
            ParsedStatement::Statement(source) => {
                Ok(View { source: source.into(), depth: parsed.depth, schema: columns })
            }
            _ => Err(Error::file(format!("no view is made by: {definition}"))),
        }
    }

    fn files(&self, definition: &str) -> Result<FileRelation> {
        let parsed = self.planner.parse(definition)?;
        let planned = self.planner.plan(&self.planner.catalogs().snapshot(), &parsed, &[])?;
        if let Planned::Other(statement) = planned
            && let Statement::Command(Command::CreateExternalTable { relation, .. }) = *statement
            && let Some(files) = Arc::into_inner(relation)
        {
            return Ok(files);
        }
        Err(Error::file(format!("no files are named by: {definition}")))
    }

    fn compacted(&self, rows: RecordBatch) -> Result<RecordBatch> {
        let columns = rows.columns().iter().map(compacted).collect::<Result<Vec<ArrayRef>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        RecordBatch::try_new_with_options(rows.schema(), columns, &options).map_err(from_arrow)
    }

    fn memory(&self) -> Reservation {
        self.memory.reservation(HOLDER)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::{Database, DatabaseOptions};

    fn open(folder: &Path) -> Database {
        let options = DatabaseOptions { folder: Some(folder.into()), workers: Some(1), ..DatabaseOptions::default() };
        Database::open(options).unwrap()
    }

    fn lines(database: &Database, sql: &str) -> String {
        let rows = database.session().execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}")).collect().unwrap();
        arrow::util::pretty::pretty_format_batches(&rows).unwrap().to_string()
    }

    #[test]
    fn rules_and_sequences_are_there_when_the_database_is_opened_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        let code = |database: &Database, sql: &str| {
            database.session().execute(sql).map(|_| ()).unwrap_err().code().unwrap_or("none").to_owned()
        };
        {
            let database = open(&path);
            let session = database.session();
            for statement in [
                "CREATE TABLE p (id SERIAL PRIMARY KEY, k TEXT UNIQUE, n INT CHECK (n > 0), g INT GENERATED ALWAYS AS (n + 1) STORED)",
                "CREATE TABLE c (x INT REFERENCES p ON DELETE CASCADE, i INT GENERATED ALWAYS AS IDENTITY)",
                "INSERT INTO p (k, n) SELECT 'k' || g, g FROM generate_series(1, 100) g",
                "INSERT INTO c (x) VALUES (1), (2), (NULL)",
                "UPDATE p SET id = id + 1000 WHERE id > 50",
                "DELETE FROM p WHERE id = 1",
                "ALTER TABLE p ADD COLUMN later TEXT",
                "ALTER TABLE p ALTER COLUMN n TYPE BIGINT",
                "ALTER TABLE c RENAME COLUMN x TO y",
                "ALTER TABLE c RENAME TO d",
                "CREATE SEQUENCE s START 10",
                "BEGIN",
                "CREATE TABLE t (a SERIAL PRIMARY KEY)",
                "INSERT INTO t DEFAULT VALUES",
                "COMMIT",
            ] {
                session.execute(statement).map(|_| ()).unwrap_or_else(|error| panic!("{statement}: {error}"));
            }
            assert!(lines(&database, "SELECT nextval('s')").contains("10"));
        }
        for checkpoint in [false, true, false] {
            let database = open(&path);
            assert_eq!(code(&database, "INSERT INTO p (id) VALUES (7)"), "23505");
            assert_eq!(code(&database, "INSERT INTO p (k) VALUES ('k7')"), "23505");
            assert_eq!(code(&database, "INSERT INTO p (n) VALUES (0)"), "23514");
            assert_eq!(code(&database, "INSERT INTO p (g) VALUES (0)"), "428C9");
            assert_eq!(code(&database, "INSERT INTO d (y) VALUES (51)"), "23503");
            assert_eq!(code(&database, "DROP TABLE p"), "2BP01");
            let found = lines(&database, "SELECT count(*), count(DISTINCT id), max(id), sum(g), count(later) FROM p");
            assert!(found.contains("| 99    | 99    | 1100 | 5148 | 0     |"), "{found}");
            let found = lines(&database, "SELECT count(*) AS c, max(i) AS i FROM d");
            assert!(found.contains("| 2 | 3 |"), "{found}");
            if checkpoint {
                database.checkpoint().unwrap();
            }
        }
        // Numbers go on where they were, and what refers goes with what it refers to.
        let database = open(&path);
        assert!(lines(&database, "SELECT nextval('s')").contains("11"));
        assert!(lines(&database, "INSERT INTO t DEFAULT VALUES RETURNING a").contains("2"));
        database.session().execute("DELETE FROM p WHERE id = 2").unwrap();
        assert!(lines(&database, "SELECT count(*) AS c FROM d").contains("| 1 |"));
    }

    #[test]
    fn what_statements_make_is_there_when_the_database_is_opened_again() {
        let folder = tempfile::tempdir().unwrap();
        let csv = folder.path().join("some file.csv");
        std::fs::write(&csv, "x;y\n1;one\n").unwrap();
        let path = folder.path().join("db");
        let statements = [
            "CREATE SCHEMA lab".to_owned(),
            "CREATE TABLE lab.\"A b\" (i INTEGER NOT NULL, t VARCHAR DEFAULT 'it''s ' || 1, n NUMERIC(7, 2), l INT[], \
             ts TIMESTAMPTZ, r DATE)"
                .to_owned(),
            "INSERT INTO lab.\"A b\" (i, n, l) VALUES (1, 1.25, ARRAY[1, NULL]), (2, NULL, NULL)".to_owned(),
            "CREATE TABLE made AS SELECT g AS g, 'text ' || g AS t, {'a': g} AS s FROM generate_series(1, 30000) u(g)"
                .to_owned(),
            "CREATE VIEW v AS WITH w AS (SELECT g FROM made WHERE g % 7 = 3) SELECT count(*) AS c, max(g) FROM w"
                .to_owned(),
            format!(
                "CREATE EXTERNAL TABLE e (x INT, y VARCHAR) STORED AS CSV LOCATION '{}' OPTIONS ('format.delimiter' ';', \
                 'format.has_header' 'true')",
                csv.display()
            ),
            "CREATE TABLE gone AS SELECT 1 AS a".to_owned(),
            "DROP TABLE gone".to_owned(),
        ];
        let questions = [
            "SELECT * FROM lab.\"A b\" ORDER BY i",
            "SELECT count(*), sum(g), min(t), max(s.a) FROM made",
            "SELECT * FROM v",
            "SELECT * FROM e",
            "SELECT table_schema, table_name, table_type FROM information_schema.tables ORDER BY 1, 2",
            "SELECT oid, relname FROM pg_class WHERE relname IN ('made', 'v', 'e', 'A b') ORDER BY 2",
            "SELECT column_name, data_type, is_nullable, column_default FROM information_schema.columns \
             WHERE table_name = 'A b' ORDER BY ordinal_position",
        ];
        let answers = {
            let database = open(&path);
            for statement in &statements {
                database.session().execute(statement).unwrap();
            }
            assert!(Database::open(DatabaseOptions { folder: Some(path.clone()), ..Default::default() }).is_err());
            questions.map(|question| lines(&database, question))
        };
        for checkpoint in [false, true, false] {
            let database = open(&path);
            assert_eq!(questions.map(|question| lines(&database, question)), answers);
            if checkpoint {
                database.checkpoint().unwrap();
            }
        }
        // Defaults are there, ids are not given again, and statements go on.
        let database = open(&path);
        database.session().execute("INSERT INTO lab.\"A b\" (i) VALUES (3)").unwrap();
        let found = lines(&database, "SELECT t FROM lab.\"A b\" WHERE i = 3");
        assert!(found.contains("it's 1"), "{found}");
        let error = database.session().execute("INSERT INTO lab.\"A b\" (n) VALUES (3)").map(|_| ()).unwrap_err();
        assert_eq!(error.code(), Some("23502"), "{error}");
        database.session().execute("CREATE TABLE later AS SELECT 1 AS a").unwrap();
        let oids = lines(&database, "SELECT count(DISTINCT oid) = count(*) AS distinct FROM pg_class");
        assert!(oids.contains("true"), "{oids}");
    }
}
