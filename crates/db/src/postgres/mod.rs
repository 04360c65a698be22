//! `pg_catalog`: the catalog as PostgreSQL's clients look at it, and the types that they know.
//!
//! What PostgreSQL has and we do not (indexes, triggers, roles with grants, …) are tables without rows, so that a
//! client's joins over them find nothing. `pg_type_names`, `pg_class_names` and `pg_namespace_names` are ours: what
//! functions and casts about numbers look into, with columns whose names nobody else's are. A relation keeps its number
//! as long as the database is open; numbers from [`SHOWN_FROM`] on are those of what the engine shows of itself, so
//! that `pg_table_is_visible` can tell by the number.

mod empty;
mod rows;
mod types;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use diligence_sql::catalog::{
    CATALOG_NAME, Catalog, ComputedTable, DEFAULT_SCHEMA, INFORMATION_SCHEMA, POSTGRES_SCHEMA, Relation, SYSTEM_SCHEMA,
};
use parking_lot::Mutex;

use rows::{CatalogTable, Cell};
pub use types::*;

/// The version that clients are told: they choose their questions by it.
pub const SERVER_VERSION: &str = "16.6";
/// Settings that nobody changes, as `pg_settings` has them; SHOW knows those of the session.
pub const FIXED_SETTINGS: [(&str, &str); 8] = [
    ("block_size", "8192"),
    ("default_table_access_method", "heap"),
    ("integer_datetimes", "on"),
    ("max_identifier_length", "63"),
    ("max_index_keys", "32"),
    ("server_encoding", "UTF8"),
    ("server_version", SERVER_VERSION),
    ("server_version_num", "160006"),
];
/// Relations of the user have numbers from here on.
const RELATIONS_FROM: u32 = 16_384;
/// What the engine shows of itself has numbers from here on.
pub const SHOWN_FROM: u32 = 1_000_000_000;
/// The only owner of everything.
const OWNER: u32 = 10;

/// Numbers given to names; never taken back.
#[derive(Default)]
struct Numbers(Mutex<BTreeMap<(String, String), u32>>);

impl Numbers {
    fn schema(&self, name: &str) -> u32 {
        match name {
            POSTGRES_SCHEMA => 11,
            DEFAULT_SCHEMA => 2200,
            INFORMATION_SCHEMA => 13_000,
            SYSTEM_SCHEMA => 13_001,
            _ => self.of(name, "", RELATIONS_FROM),
        }
    }

    fn relation(&self, schema: &str, name: &str) -> u32 {
        let shown = schema == SYSTEM_SCHEMA || schema == POSTGRES_SCHEMA;
        self.of(schema, name, if shown { SHOWN_FROM } else { RELATIONS_FROM })
    }

    fn of(&self, schema: &str, name: &str, from: u32) -> u32 {
        let mut numbers = self.0.lock();
        let next = from + numbers.len() as u32;
        *numbers.entry((schema.to_owned(), name.to_owned())).or_insert(next)
    }
}

/// What the tables are computed from.
struct Source {
    catalog: Arc<Catalog>,
    system: BTreeMap<String, SchemaRef>,
    numbers: Numbers,
}

/// A relation as the tables list it.
struct Listed {
    schema: String,
    name: String,
    oid: u32,
    relation: Option<Relation>,
    columns: Option<SchemaRef>,
}

impl Listed {
    fn kind(&self) -> &'static str {
        match &self.relation {
            Some(Relation::Files(_) | Relation::Table(_) | Relation::Memory(_)) => "r",
            Some(Relation::View(_) | Relation::Computed(_)) | None => "v",
        }
    }

    fn definition(&self) -> Option<String> {
        match &self.relation {
            Some(Relation::View(view)) => {
                let text = view.definition();
                // Clients put CREATE VIEW … AS in front again.
                let query = text.find(" AS ").map(|at| text[at + 4..].to_owned());
                Some(query.unwrap_or(text))
            }
            _ => None,
        }
    }
}

impl Source {
    /// Every relation. With `columns` files that nobody has used yet are opened; one that cannot be has none.
    fn relations(&self, columns: bool) -> Vec<Listed> {
        let own = self.catalog.relations().into_iter().map(|(name, relation)| Listed {
            oid: self.numbers.relation(&name.schema, &name.name),
            columns: if columns { relation.schema().ok() } else { None },
            schema: name.schema,
            name: name.name,
            relation: Some(relation),
        });
        let system = self.system.iter().map(|(name, schema)| Listed {
            oid: self.numbers.relation(SYSTEM_SCHEMA, name),
            schema: SYSTEM_SCHEMA.to_owned(),
            name: name.clone(),
            relation: None,
            columns: Some(schema.clone()),
        });
        own.chain(system).collect()
    }

    fn schemas(&self) -> Vec<String> {
        let shown = [POSTGRES_SCHEMA, INFORMATION_SCHEMA, SYSTEM_SCHEMA].map(str::to_owned);
        shown.into_iter().chain(self.catalog.schema_names()).collect()
    }

    fn classes(&self) -> Vec<Vec<Cell>> {
        let listed = self.relations(true);
        let row = |listed: &Listed| {
            let columns = listed.columns.as_ref().map_or(0, |columns| columns.fields().len() as i32);
            let is_view = listed.kind() == "v";
            vec![
                listed.oid.into(),
                listed.name.as_str().into(),
                self.numbers.schema(&listed.schema).into(),
                0.into(),
                0.into(),
                OWNER.into(),
                if is_view { 0 } else { 2 }.into(),
                0.into(),
                0.into(),
                0.into(),
                Cell::Number(-1),
                0.into(),
                0.into(),
                false.into(),
                false.into(),
                "p".into(),
                listed.kind().into(),
                columns.into(),
                0.into(),
                is_view.into(),
                false.into(),
                false.into(),
                false.into(),
                false.into(),
                true.into(),
                "d".into(),
                false.into(),
            ]
        };
        listed.iter().map(row).collect()
    }

    fn attributes(&self) -> Vec<Vec<Cell>> {
        let mut rows = Vec::new();
        for listed in self.relations(true) {
            for (index, field) in listed.columns.iter().flat_map(|columns| columns.fields().iter()).enumerate() {
                let column = column_type(field.data_type());
                rows.push(vec![
                    listed.oid.into(),
                    field.name().as_str().into(),
                    column.oid.into(),
                    column.bytes().into(),
                    Cell::Number(index as i64 + 1),
                    column.modifier.into(),
                    i32::from(column.is_array).into(),
                    (column.bytes() > 0 && column.bytes() <= 8).into(),
                    "i".into(),
                    if column.bytes() < 0 { "x" } else { "p" }.into(),
                    "".into(),
                    (!field.is_nullable()).into(),
                    false.into(),
                    false.into(),
                    "".into(),
                    "".into(),
                    false.into(),
                    true.into(),
                    0.into(),
                    0.into(),
                    Cell::Number(-1),
                ]);
            }
        }
        rows
    }

    fn views(&self) -> Vec<Vec<Cell>> {
        let listed = self.relations(false).into_iter().filter(|listed| listed.kind() == "v");
        listed
            .map(|listed| {
                let definition = listed.definition().map_or(Cell::Null, Cell::Text);
                vec![listed.schema.into(), listed.name.into(), "diligence".into(), definition, listed.oid.into()]
            })
            .collect()
    }

    fn tables(&self) -> Vec<Vec<Cell>> {
        let listed = self.relations(false).into_iter().filter(|listed| listed.kind() == "r");
        listed
            .map(|listed| {
                let flag = || Cell::Flag(false);
                vec![
                    listed.schema.into(),
                    listed.name.into(),
                    "diligence".into(),
                    Cell::Null,
                    flag(),
                    flag(),
                    flag(),
                    flag(),
                ]
            })
            .collect()
    }
}

fn types() -> Vec<Vec<Cell>> {
    let row = |oid: u32, name: String, known: &PostgresType, is_array: bool| {
        vec![
            oid.into(),
            name.into(),
            11u32.into(),
            OWNER.into(),
            if is_array { -1 } else { known.bytes }.into(),
            (!is_array && known.bytes > 0 && known.bytes <= 8).into(),
            "b".into(),
            if is_array { "A" } else { known.category }.into(),
            false.into(),
            true.into(),
            ",".into(),
            0.into(),
            if is_array { known.oid } else { 0 }.into(),
            if is_array { 0 } else { known.array_oid }.into(),
            if is_array { "array_in".to_owned() } else { format!("{}in", known.name) }.into(),
            if is_array { "array_out".to_owned() } else { format!("{}out", known.name) }.into(),
            if is_array { "array_recv".to_owned() } else { format!("{}recv", known.name) }.into(),
            "-".into(),
            "-".into(),
            "-".into(),
            "-".into(),
            "i".into(),
            "p".into(),
            false.into(),
            0.into(),
            Cell::Number(-1),
            0.into(),
            0.into(),
            Cell::Null,
        ]
    };
    let mut rows = Vec::new();
    for known in &TYPES {
        rows.push(row(known.oid, known.name.to_owned(), known, false));
        if known.array_oid != 0 {
            rows.push(row(known.array_oid, format!("_{}", known.name), known, true));
        }
    }
    rows
}

/// The tables of `pg_catalog`. `system` are the tables of `system` with their columns.
pub(crate) fn tables(
    catalog: &Arc<Catalog>,
    system: BTreeMap<String, SchemaRef>,
) -> BTreeMap<String, Arc<dyn ComputedTable>> {
    let source = Arc::new(Source { catalog: catalog.clone(), system, numbers: Numbers::default() });
    let mut tables = empty::tables();
    let mut add = |name: &str, line: &str, rows: fn(&Source) -> Vec<Vec<Cell>>| {
        let source = source.clone();
        tables.insert(name.to_owned(), CatalogTable::table(line, Box::new(move || rows(&source))));
    };
    add(
        "pg_class",
        "oid:o relname relnamespace:o reltype:o reloftype:o relowner:o relam:o relfilenode:o reltablespace:o relpages:i \
         reltuples:f relallvisible:i reltoastrelid:o relhasindex:b relisshared:b relpersistence relkind relnatts:s \
         relchecks:s relhasrules:b relhastriggers:b relhassubclass:b relrowsecurity:b relforcerowsecurity:b \
         relispopulated:b relreplident relispartition:b relrewrite:o relfrozenxid:o relminmxid:o relacl:T reloptions:T \
         relpartbound",
        Source::classes,
    );
    add(
        "pg_attribute",
        "attrelid:o attname atttypid:o attlen:s attnum:s atttypmod:i attndims:s attbyval:b attalign attstorage \
         attcompression attnotnull:b atthasdef:b atthasmissing:b attidentity attgenerated attisdropped:b attislocal:b \
         attinhcount:s attcollation:o attstattarget:s attacl:T attoptions:T attfdwoptions:T attmissingval",
        Source::attributes,
    );
    add("pg_namespace", "oid:o nspname nspowner:o nspacl:T xmin:o", |source| {
        let row = |name: String| vec![source.numbers.schema(&name).into(), name.into(), OWNER.into()];
        source.schemas().into_iter().map(row).collect()
    });
    add("pg_views", "schemaname viewname viewowner definition viewoid:o", Source::views);
    add(
        "pg_tables",
        "schemaname tablename tableowner tablespace hasindexes:b hasrules:b hastriggers:b rowsecurity:b",
        Source::tables,
    );
    add(
        "pg_type",
        "oid:o typname typnamespace:o typowner:o typlen:s typbyval:b typtype typcategory typispreferred:b typisdefined:b \
         typdelim typrelid:o typelem:o typarray:o typinput typoutput typreceive typsend typmodin typmodout typanalyze \
         typalign typstorage typnotnull:b typbasetype:o typtypmod:i typndims:i typcollation:o typdefault typsubscript \
         typdefaultbin typacl:T",
        |_| types(),
    );
    add("pg_type_names", "type_oid:o type_name type_sql_name", |_| {
        let named = TYPES.iter().flat_map(|known| {
            let array =
                vec![known.array_oid.into(), format!("_{}", known.name).into(), format!("{}[]", known.sql_name).into()];
            [vec![known.oid.into(), known.name.into(), known.sql_name.into()], array]
        });
        named.filter(|row| row[0] != Cell::Number(0)).collect()
    });
    add("pg_class_names", "class_oid:o class_name", |source| {
        let row = |listed: Listed| vec![listed.oid.into(), listed.name.into()];
        source.relations(false).into_iter().map(row).collect()
    });
    add("pg_namespace_names", "schema_oid:o schema_name", |source| {
        let row = |name: String| vec![source.numbers.schema(&name).into(), name.into()];
        source.schemas().into_iter().map(row).collect()
    });
    add(
        "pg_database",
        "oid:o datname datdba:o encoding:i datlocprovider datistemplate:b datallowconn:b datconnlimit:i datfrozenxid:o \
         datminmxid:o dattablespace:o datcollate datctype daticulocale daticurules datcollversion datacl:T",
        |_| {
            let flag = Cell::Flag;
            vec![vec![
                5.into(),
                CATALOG_NAME.into(),
                OWNER.into(),
                6.into(),
                "c".into(),
                flag(false),
                flag(true),
                Cell::Number(-1),
                0.into(),
                0.into(),
                1663.into(),
                "C".into(),
                "C".into(),
            ]]
        },
    );
    let roles = "oid:o rolname rolsuper:b rolinherit:b rolcreaterole:b rolcreatedb:b rolcanlogin:b rolreplication:b \
                 rolbypassrls:b rolconnlimit:i rolpassword rolvaliduntil rolconfig:T";
    for name in ["pg_roles", "pg_authid"] {
        add(name, roles, |_| {
            let flags = [true, true, false, false, true, false, true].map(Cell::Flag);
            vec![[OWNER.into(), "diligence".into()].into_iter().chain(flags).chain([Cell::Number(-1)]).collect()]
        });
    }
    add(
        "pg_user",
        "usename usesysid:o usecreatedb:b usesuper:b userepl:b usebypassrls:b passwd valuntil useconfig:T",
        |_| {
            let flags = [false, true, false, true].map(Cell::Flag);
            vec![["diligence".into(), OWNER.into()].into_iter().chain(flags).collect()]
        },
    );
    add(
        "pg_settings",
        "name setting unit category short_desc extra_desc context vartype source min_val max_val enumvals:T boot_val reset_val \
         sourcefile sourceline:i pending_restart:b",
        |_| {
            let row = |(name, value): &(&str, &str)| {
                let texts = [*name, *value, "", "Preset Options", "", "", "internal", "string", "default"];
                texts.into_iter().map(Cell::from).collect()
            };
            FIXED_SETTINGS.iter().map(row).collect()
        },
    );
    add("pg_am", "oid:o amname amhandler amtype", |_| {
        vec![vec![2.into(), "heap".into(), "heap_tableam_handler".into(), "t".into()]]
    });
    add("pg_tablespace", "oid:o spcname spcowner:o spcacl:T spcoptions:T xmin:o", |_| {
        vec![vec![1663.into(), "pg_default".into(), OWNER.into()]]
    });
    add("pg_language", "oid:o lanname lanowner:o lanispl:b lanpltrusted:b", |_| {
        vec![vec![14.into(), "sql".into(), OWNER.into(), false.into(), true.into()]]
    });
    add("pg_extension", "oid:o extname extowner:o extnamespace:o extrelocatable:b extversion", |_| vec![]);
    tables
}
