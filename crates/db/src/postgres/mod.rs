//! `pg_catalog`: the catalog as PostgreSQL's clients look at it, and the types that they know.
//!
//! What PostgreSQL has and we do not (policies, rules, …) are tables without rows, so that a client's joins over them
//! find nothing. `pg_type_names`, `pg_class_names`, `pg_namespace_names`, `pg_serials`, `pg_lock_waits`,
//! `pg_role_names`, `pg_relation_sizes`, `pg_trigger_texts`, `pg_single_grants` and those that end in `_texts` are
//! ours: what functions and casts about numbers look into, with columns whose names nobody else's are. Numbers are the
//! catalog's; those from [`SHOWN_FROM`](diligence_catalog::SHOWN_FROM) on are of what the engine shows of itself. All
//! tables of one statement are computed from the same snapshot.

mod activity;
mod collations;
mod column_statistics;
mod comments;
mod constraints;
mod declared;
pub(crate) mod definitions;
mod empty;
mod extended;
mod known;
mod layouts;
mod listed_types;
mod operators;
mod roles;
mod routines;
mod rows;
mod settings;
mod text_search;
mod triggers;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

use arrow::datatypes::{Field, Schema, SchemaRef};
use diligence_catalog::authority::Subject;
use diligence_catalog::locks::Locks;
use diligence_catalog::operator_classes::{ACCESS_METHODS, OPERATOR_CLASSES, OPERATOR_FAMILIES, OperatorClass};
use diligence_catalog::privileges::{DATABASE_OID, OWNER_OID};
use diligence_catalog::system_catalogs::SYSTEM_CATALOGS;
pub use diligence_catalog::types::*;
use diligence_catalog::{
    CATALOG_NAME, ComputedTable, INFORMATION_SCHEMA, Object, POSTGRES_SCHEMA, Relation, SYSTEM_SCHEMA, SessionSnapshot,
    View,
};
use diligence_types::SqlType;
use diligence_types::quoted_name;
use diligence_types::text::zones;

use collations::{collation_oid, own_collation};
use declared::IndexClass;
use layouts::{Layout, reading_function};
use listed_types::{ListedType, listed_types};
use rows::{CatalogTable, Cell};

use crate::activity::Activities;
pub use crate::known_settings::{SERVER_VERSION, known_settings};

/// A relation as the tables list it.
struct Listed {
    schema: String,
    name: String,
    oid: u32,
    /// The view of a user that it is.
    view: Option<Arc<View>>,
    /// `r` for a table, `v` for what is computed, `m` for a materialized view.
    kind: &'static str,
    columns: Option<SchemaRef>,
    object: Option<Object>,
}

impl Listed {
    fn of_object(object: &Object, columns: bool) -> Self {
        let (view, kind) = match &object.relation {
            Relation::Native(_) if object.relation.materialized().is_some() => (None, "m"),
            Relation::Files(_) | Relation::Table(_) | Relation::Native(_) => (None, "r"),
            Relation::View(view) => (Some(view.clone()), "v"),
            Relation::Sequence(_) | Relation::Routine(_) => (None, "S"),
            Relation::Enum(_) | Relation::Composite(_) | Relation::Domain(_) | Relation::Collation(_) => (None, "S"),
        };
        Self {
            schema: object.name.schema.clone(),
            name: object.name.name.clone(),
            oid: object.oid(),
            view,
            kind,
            columns: if columns { object.relation.schema().ok() } else { None },
            object: Some(object.clone()),
        }
    }

    /// How many rows a table has; -1 of what does not say it.
    fn rows(&self) -> Cell {
        match self.object.as_ref().map(|object| &object.relation) {
            Some(Relation::Native(table)) => Cell::Number(table.rows() as i64),
            _ => Cell::Number(-1),
        }
    }

    /// Whether it ends with its session: `t` or `p`.
    fn persistence(&self) -> &'static str {
        let is_temporary = self.object.as_ref().is_some_and(|object| object.name.is_temporary());
        if is_temporary { "t" } else { "p" }
    }

    /// Whether it has rows to show.
    fn is_populated(&self) -> bool {
        let view = self.object.as_ref().and_then(|object| object.relation.materialized());
        view.is_none_or(|view| view.is_populated)
    }

    fn definition(&self) -> Option<String> {
        // Clients put CREATE VIEW … AS in front again.
        Some(self.view.as_ref()?.shown_query())
    }
}

/// Every relation. With `columns` files that nobody has used yet are opened; one that cannot be has none.
fn relations(snapshot: &SessionSnapshot, columns: bool) -> Vec<Listed> {
    let own = snapshot
        .catalog
        .objects()
        .filter(|object| snapshot.sees(&object.name))
        .map(|object| Listed::of_object(object, columns));
    let system = snapshot.system_tables().map(|(name, oid, table)| Listed {
        schema: SYSTEM_SCHEMA.to_owned(),
        name: name.to_owned(),
        oid,
        view: None,
        kind: "v",
        columns: Some(table.schema()),
        object: None,
    });
    own.chain(system).collect()
}

/// The composite types as relations: their columns are found where those of tables are.
fn composite_relations(snapshot: &SessionSnapshot) -> impl Iterator<Item = Listed> {
    let composites = snapshot.catalog.composites().filter(move |(object, _)| snapshot.sees(&object.name));
    composites.map(|(object, one)| Listed {
        schema: object.name.schema.clone(),
        name: object.name.name.clone(),
        oid: object.oid(),
        view: None,
        kind: "c",
        columns: Some(Arc::new(Schema::new(
            one.iter().map(|field| field.sql_type.field(&field.name, true)).collect::<Vec<_>>(),
        ))),
        object: None,
    })
}

/// The schemas with their numbers.
fn schemas(snapshot: &SessionSnapshot) -> Vec<(String, u32)> {
    let shown = [POSTGRES_SCHEMA, INFORMATION_SCHEMA, SYSTEM_SCHEMA];
    let all = shown.into_iter().chain(snapshot.catalog.schema_names());
    all.map(|name| (name.to_owned(), snapshot.schema_oid(name).unwrap_or_default())).collect()
}

fn classes(snapshot: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let listed = relations(snapshot, true).into_iter().chain(composite_relations(snapshot)).collect::<Vec<_>>();
    let referred = declared::referred(snapshot);
    let row = |listed: &Listed| {
        let columns = listed.columns.as_ref().map_or(0, |columns| columns.fields().len() as i32);
        let (is_view, is_composite) = (listed.kind == "v", listed.kind == "c");
        let of_object = |object: &Object| declared::summary(&referred, object);
        let (checks, has_references) = listed.object.as_ref().map_or((0, false), of_object);
        vec![
            listed.oid.into(),
            listed.name.as_str().into(),
            snapshot.schema_oid(&listed.schema).unwrap_or_default().into(),
            // A composite type has one number, as a type and as a relation.
            if is_composite { listed.oid } else { 0 }.into(),
            0.into(),
            listed
                .object
                .as_ref()
                .map_or(OWNER_OID.into(), |object| roles::owner_oid(snapshot, Subject::Object(object.id))),
            if is_view || is_composite { 0 } else { 2 }.into(),
            0.into(),
            0.into(),
            0.into(),
            listed.rows(),
            0.into(),
            0.into(),
            listed.object.as_ref().is_some_and(declared::has_indexes).into(),
            false.into(),
            listed.persistence().into(),
            listed.kind.into(),
            columns.into(),
            checks.into(),
            is_view.into(),
            has_references.into(),
            false.into(),
            false.into(),
            false.into(),
            listed.is_populated().into(),
            "d".into(),
            false.into(),
            0.into(),
            0.into(),
            0.into(),
            listed.object.as_ref().map_or(Cell::Null, |object| roles::grants(snapshot, Subject::Object(object.id))),
        ]
    };
    let mut rows = listed.iter().map(row).collect::<Vec<_>>();
    for index in declared::index_classes(snapshot) {
        let IndexClass { oid, name, schema, columns, method, options, rows: count, persistence } = index;
        let zero = || Cell::Number(0);
        let mut row = vec![oid, name.into(), schema.into(), zero(), zero(), OWNER_OID.into(), method.into()];
        row.extend([zero(), zero(), zero(), Cell::Number(count), zero(), zero(), false.into(), false.into()]);
        row.extend([persistence.into(), "i".into(), columns.into(), zero()]);
        row.extend([false, false, false, false, false, true].map(Cell::Flag));
        row.extend(["n".into(), false.into(), zero(), zero(), zero(), Cell::Null, options]);
        rows.push(row);
    }
    rows
}

fn attributes(snapshot: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    for listed in relations(snapshot, true).into_iter().chain(composite_relations(snapshot)) {
        for (index, field) in listed.columns.iter().flat_map(|columns| columns.fields().iter()).enumerate() {
            let marks = |object: &Object| declared::column_marks(object, field.name());
            let marks = listed.object.as_ref().map_or((false, "", ""), marks);
            let grants = |object: &Object| roles::grants_of_column(snapshot, object, field.name());
            let grants = listed.object.as_ref().map_or(Cell::Null, grants);
            rows.push(attribute(listed.oid.into(), field, index, marks, grants));
        }
    }
    for (index, fields) in declared::index_columns(snapshot) {
        let attributes = fields.iter().enumerate();
        rows.extend(
            attributes.map(|(place, field)| attribute(index.clone(), field, place, (false, "", ""), Cell::Null)),
        );
    }
    rows
}

/// A row of `pg_attribute`: the column of a relation at a place, with what [`declared::column_marks`] says of it.
fn attribute(relation: Cell, field: &Field, place: usize, marks: (bool, &str, &str), grants: Cell) -> Vec<Cell> {
    let column = field_type(field);
    let layout = Layout { known: &column.element, is_array: column.is_array };
    let (has_default, identity, generated) = marks;
    vec![
        relation,
        field.name().as_str().into(),
        column.oid.into(),
        column.bytes().into(),
        Cell::Number(place as i64 + 1),
        column.modifier.into(),
        i32::from(column.is_array).into(),
        layout.is_by_value().into(),
        layout.alignment().into(),
        layout.storage().into(),
        "".into(),
        (!field.is_nullable()).into(),
        has_default.into(),
        false.into(),
        identity.into(),
        generated.into(),
        false.into(),
        true.into(),
        0.into(),
        SqlType::of_field(field).map_or(0, |sql_type| collation_oid(&sql_type)).into(),
        Cell::Number(-1),
        grants,
    ]
}

fn views(snapshot: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let listed = relations(snapshot, false).into_iter().filter(|listed| listed.kind == "v");
    listed
        .map(|listed| {
            let definition = listed.definition().map_or(Cell::Null, Cell::Text);
            let owner = roles::owner_name(snapshot, listed.object.as_ref());
            vec![listed.schema.into(), listed.name.into(), owner, definition, listed.oid.into()]
        })
        .collect()
}

fn materialized_views(snapshot: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let listed = relations(snapshot, false).into_iter().filter(|listed| listed.kind == "m");
    let row = |listed: Listed| {
        let object = listed.object.as_ref()?;
        let definition = object.relation.materialized()?.query.clone();
        Some(vec![
            listed.schema.as_str().into(),
            listed.name.as_str().into(),
            roles::owner_name(snapshot, listed.object.as_ref()),
            Cell::Null,
            declared::has_indexes(object).into(),
            listed.is_populated().into(),
            definition.into(),
            listed.oid.into(),
        ])
    };
    listed.filter_map(row).collect()
}

fn listed_tables(snapshot: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let listed = relations(snapshot, false).into_iter().filter(|listed| listed.kind == "r");
    listed
        .map(|listed| {
            let flag = || Cell::Flag(false);
            let has_indexes = Cell::Flag(listed.object.as_ref().is_some_and(declared::has_indexes));
            let owner = roles::owner_name(snapshot, listed.object.as_ref());
            vec![listed.schema.into(), listed.name.into(), owner, Cell::Null, has_indexes, flag(), flag(), flag()]
        })
        .collect()
}

/// The number of the schema `pg_catalog`.
const CATALOG_OID: u32 = 11;
/// What CREATE EXTENSION accepts: it is there already.
const EXTENSIONS: [(&str, &str, &str); 4] = [
    ("fuzzystrmatch", "1.1", "determine similarities and distance between strings"),
    ("pgcrypto", "1.3", "cryptographic functions"),
    ("plpgsql", "1.0", "PL/pgSQL procedural language"),
    ("uuid-ossp", "1.1", "generate universally unique identifiers (UUIDs)"),
];

/// The number of the type that a domain is declared with: another domain's, maybe.
fn declared_oid(sql_type: &SqlType) -> u32 {
    match sql_type {
        SqlType::Domain(domain) => domain.oid,
        other => other.oid(),
    }
}

fn types(snapshot: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let row = |listed: &ListedType, is_array: bool| {
        let known = &listed.known;
        let layout = Layout { known, is_array };
        let [reads_modifier, shows_modifier] = layout.modifiers();
        let function = |what: &str| match is_array {
            true => format!("array_{what}"),
            false => reading_function(known.name, what),
        };
        let domain = listed.domain.as_ref().filter(|_| !is_array);
        let default = domain.and_then(|domain| domain.default.as_ref());
        let default = default.map_or(Cell::Null, |default| default.to_string().into());
        let (oid, name) = match is_array {
            true => (known.array_oid, format!("_{}", listed.name)),
            false => (known.oid, listed.name.clone()),
        };
        vec![
            oid.into(),
            name.into(),
            listed.schema.into(),
            OWNER_OID.into(),
            if is_array { -1 } else { known.bytes }.into(),
            layout.is_by_value().into(),
            if is_array { "b" } else { listed.kind }.into(),
            if is_array { "A" } else { known.category }.into(),
            layout.is_preferred().into(),
            true.into(),
            ",".into(),
            if listed.kind == "c" && !is_array { known.oid } else { 0 }.into(),
            layout.element().into(),
            if is_array { 0 } else { known.array_oid }.into(),
            function("in").into(),
            function("out").into(),
            routines::receiver(known.name, is_array, known.oid).into(),
            layout.sender().into(),
            reads_modifier.into(),
            shows_modifier.into(),
            layout.analyzer().into(),
            layout.alignment().into(),
            layout.storage().into(),
            domain.is_some_and(|domain| domain.is_not_null).into(),
            domain.map_or(0, |domain| declared_oid(&domain.base)).into(),
            Cell::Number(domain.map_or(-1, |domain| i64::from(field_type(&domain.base.field("value", true)).modifier))),
            0.into(),
            domain.map_or_else(|| own_collation(known), |domain| collation_oid(&domain.base)).into(),
            default,
            layout.subscripting().into(),
        ]
    };
    let mut rows = Vec::new();
    for listed in listed_types(snapshot) {
        rows.push(row(&listed, false));
        if listed.known.array_oid != 0 {
            rows.push(row(&listed, true));
        }
    }
    rows
}

/// The labels of enums.
fn enum_labels(snapshot: &SessionSnapshot) -> Vec<Vec<Cell>> {
    /// Labels have no numbers of their own; these are nobody else's.
    const LABELS_FROM: i64 = 3 << 30;
    let mut rows = Vec::new();
    for (_, one) in snapshot.catalog.enums().filter(|(object, _)| snapshot.sees(&object.name)) {
        for (place, label) in one.labels.iter().enumerate() {
            let number = Cell::Number(LABELS_FROM + rows.len() as i64);
            rows.push(vec![number, one.oid.into(), Cell::Number(place as i64 + 1), label.as_str().into()]);
        }
    }
    rows
}

/// Adds a table by its name, its columns and what gives its rows.
type Add<'a> = &'a mut dyn FnMut(&str, &str, rows::Source);

/// The tables of `pg_catalog`.
pub(crate) fn tables(locks: &Arc<Locks>, activities: &Arc<Activities>) -> BTreeMap<String, Arc<dyn ComputedTable>> {
    let mut tables = empty::tables();
    tables.extend(activity::tables(locks, activities));
    let mut add = |name: &str, line: &str, rows: rows::Source| {
        tables.insert(name.to_owned(), CatalogTable::table(line, rows));
    };
    add_relations(&mut add);
    add_types(&mut add);
    add_roles(&mut add);
    add_declared(&mut add);
    add_texts(&mut add);
    add_system(&mut add);
    tables
}

/// Schemas and what is in them by name.
fn add_relations(add: Add<'_>) {
    add(
        "pg_class",
        "oid:p relname:n relnamespace:p reltype:p reloftype:p relowner:p relam:p relfilenode:p reltablespace:p relpages:i \
         reltuples:r relallvisible:i reltoastrelid:p relhasindex:b relisshared:b relpersistence:c relkind:c relnatts:s \
         relchecks:s relhasrules:b relhastriggers:b relhassubclass:b relrowsecurity:b relforcerowsecurity:b \
         relispopulated:b relreplident:c relispartition:b relrewrite:p relfrozenxid:x relminmxid:x relacl:T reloptions:T \
         relpartbound",
        classes,
    );
    add(
        "pg_attribute",
        "attrelid:p attname:n atttypid:p attlen:s attnum:s atttypmod:i attndims:s attbyval:b attalign:c attstorage:c \
         attcompression:c attnotnull:b atthasdef:b atthasmissing:b attidentity:c attgenerated:c attisdropped:b attislocal:b \
         attinhcount:s attcollation:p attstattarget:s attacl:T attoptions:T attfdwoptions:T attmissingval",
        attributes,
    );
    add("pg_namespace", "oid:p nspname:n nspowner:p nspacl:T xmin:x", namespaces);
    add("pg_views", "schemaname:n viewname:n viewowner:n definition viewoid:o", views);
    add(
        "pg_matviews",
        "schemaname:n matviewname:n matviewowner:n tablespace:n hasindexes:b ispopulated:b definition matviewoid:o",
        materialized_views,
    );
    add(
        "pg_tables",
        "schemaname:n tablename:n tableowner:n tablespace:n hasindexes:b hasrules:b hastriggers:b rowsecurity:b",
        listed_tables,
    );
    add("pg_class_names", "class_oid:o class_schema:o class_shown class_whole", class_names);
    add("pg_namespace_names", "schema_oid:o schema_name", namespace_names);
    add(
        "pg_database",
        "oid:p datname:n datdba:p encoding:i datlocprovider:c datistemplate:b datallowconn:b datconnlimit:i datfrozenxid:x \
         datminmxid:x dattablespace:p datcollate datctype daticulocale daticurules datcollversion datacl:T",
        databases,
    );
}

/// Types, collations and what text search has.
fn add_types(add: Add<'_>) {
    add(
        "pg_type",
        "oid:p typname:n typnamespace:p typowner:p typlen:s typbyval:b typtype:c typcategory:c typispreferred:b typisdefined:b \
         typdelim:c typrelid:p typelem:p typarray:p typinput typoutput typreceive:p typsend typmodin typmodout typanalyze \
         typalign:c typstorage:c typnotnull:b typbasetype:p typtypmod:i typndims:i typcollation:p typdefault typsubscript \
         typdefaultbin typacl:T",
        types,
    );
    add(
        "pg_type_names",
        "type_oid:o type_name type_sql_name type_schema:o type_whole type_short type_element:o",
        type_names,
    );
    add("pg_enum", "oid:p enumtypid:p enumsortorder:r enumlabel:n", enum_labels);
    add(
        "pg_collation",
        "oid:p collname:n collnamespace:p collowner:p collprovider:c collisdeterministic:b collencoding:i collcollate collctype \
         colliculocale collversion",
        collations::collations,
    );
    for (name, line, rows) in text_search::TABLES {
        add(name, line, rows);
    }
}

/// Roles, and what is granted to them.
fn add_roles(add: Add<'_>) {
    let roles = "oid:p rolname:n rolsuper:b rolinherit:b rolcreaterole:b rolcreatedb:b rolcanlogin:b rolreplication:b \
                 rolbypassrls:b rolconnlimit:i rolpassword rolvaliduntil:z rolconfig:T";
    for name in ["pg_roles", "pg_authid"] {
        add(name, roles, roles::roles);
    }
    for name in ["pg_user", "pg_shadow"] {
        let users =
            "usename:n usesysid:p usecreatedb:b usesuper:b userepl:b usebypassrls:b passwd valuntil:z useconfig:T";
        add(name, users, roles::users);
    }
    add(
        "pg_auth_members",
        "oid:p roleid:p member:p grantor:p admin_option:b inherit_option:b set_option:b",
        roles::members,
    );
    add("pg_group", "groname:n grosysid:p grolist:P", roles::groups);
    add("pg_db_role_setting", "setdatabase:p setrole:p setconfig:T", roles::role_settings);
    add("pg_default_acl", "oid:p defaclrole:p defaclnamespace:p defaclobjtype:c defaclacl:T", roles::defaults);
    add("pg_role_names", "role_oid:o role_name", roles::names);
    add("pg_single_grants", "of:o kind grantor grantee privilege grantable:b", roles::single_grants);
}

/// What tables were declared with, and routines and sequences.
fn add_declared(add: Add<'_>) {
    add(
        "pg_trigger",
        "oid:p tgrelid:p tgparentid:p tgname:n tgfoid:p tgtype:s tgenabled:c tgisinternal:b tgconstrrelid:p tgconstrindid:p tgconstraint:p tgdeferrable:b tginitdeferred:b tgnargs:s tgattr:V tgargs tgqual tgoldtable:n tgnewtable:n",
        triggers::triggers,
    );
    add(
        "pg_trigger_texts",
        "trigger_oid:o trigger_text trigger_of_table trigger_of_function trigger_short table_schema:o table_oid:o \
         function_schema:o function_oid:o",
        triggers::texts,
    );
    add(
        "pg_statistic_ext",
        "oid:p stxrelid:p stxname:n stxnamespace:p stxowner:p stxstattarget:i stxkeys:V stxkind:T stxexprs",
        extended::statistics,
    );
    add(
        "pg_statistic_ext_texts",
        "statistics_oid:o statistics_text statistics_short statistics_list statistics_expressions:T table_schema:o \
         table_oid:o",
        extended::texts,
    );
    add(
        "pg_language",
        "oid:p lanname:n lanowner:p lanispl:b lanpltrusted:b lanacl:T lanplcallfoid:p laninline:p \
         lanvalidator:p tableoid:o",
        routines::languages,
    );
    add("pg_attrdef", "oid:p adrelid:p adnum:s adbin", declared::defaults);
    add(
        "pg_constraint",
        "oid:p conname:n connamespace:p contype:c condeferrable:b condeferred:b convalidated:b conrelid:p contypid:p \
         conindid:p conparentid:p confrelid:p confupdtype:c confdeltype:c confmatchtype:c conislocal:b coninhcount:i connoinherit:b conkey:S \
         confkey:S conpfeqop:P conppeqop:P conffeqop:P confdelsetcols:S conexclop:P conbin",
        constraints::constraints,
    );
    add("pg_description", "objoid:p classoid:p objsubid:i description", comments::comments);
    add("pg_shdescription", "objoid:p classoid:p description", roles::comments);
    add(
        "pg_index",
        "indexrelid:p indrelid:p indnatts:s indnkeyatts:s indisunique:b indnullsnotdistinct:b indisprimary:b \
         indisexclusion:b indimmediate:b indisclustered:b indisvalid:b indcheckxmin:b indisready:b indislive:b indisreplident:b indkey:V \
         indcollation:O indclass:O indoption:V indexprs indpred",
        declared::indexes,
    );
    add("pg_timezone_names", "name abbrev utc_offset:v is_dst:b", |_| {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let zones = zones::listed(i64::try_from(since.as_micros()).unwrap_or(i64::MAX));
        let row = |zone: zones::ListedZone| {
            vec![zone.name.into(), zone.abbreviation.into(), zone.offset.into(), zone.is_summer.into()]
        };
        zones.into_iter().map(row).collect()
    });
    add("pg_indexes", "schemaname:n tablename:n indexname:n tablespace:n indexdef", declared::listed_indexes);
    add(
        "pg_proc",
        "oid:p proname:n pronamespace:p proowner:p prolang:p procost:r prorows:r provariadic:p prosupport prokind:c prosecdef:b \
         proleakproof:b proisstrict:b proretset:b provolatile:c proparallel:c pronargs:s pronargdefaults:s prorettype:p proargtypes:O \
         proallargtypes:P proargmodes:T proargnames:T proargdefaults protrftypes:P prosrc probin proconfig:T proacl:T",
        routines::routines,
    );
    add(
        "pg_sequence",
        "seqrelid:p seqtypid:p seqstart:o seqincrement:o seqmax:o seqmin:o seqcache:o seqcycle:b",
        declared::sequence_options,
    );
    add(
        "pg_sequences",
        "schemaname:n sequencename:n sequenceowner:n data_type start_value:o min_value:o max_value:o increment_by:o cycle:b cache_size:o last_value:o",
        declared::listed_sequences,
    );
}

/// Definitions as texts, and what depends on what.
fn add_texts(add: Add<'_>) {
    add("pg_index_texts", "index_oid:o index_part:o index_text index_short", declared::index_definitions);
    add(
        "pg_constraint_texts",
        "constraint_oid:o constraint_text constraint_short referred_schema:o referred_oid:o",
        constraints::constraint_definitions,
    );
    for name in ["pg_stat_user_tables", "pg_stat_all_tables"] {
        add(name, declared::STATISTICS, declared::statistics);
    }
    for name in ["pg_stat_user_indexes", "pg_stat_all_indexes"] {
        add(name, declared::INDEX_STATISTICS, declared::index_statistics);
    }
    add("pg_stats", column_statistics::COLUMNS, column_statistics::rows);
    add("pg_relation_sizes", "size_of:o size_table:o size_bytes:o", sizes);
    let columns = "classid:p objid:p objsubid:i refclassid:p refobjid:p refobjsubid:i deptype:c";
    add("pg_depend", columns, declared::dependencies);
    add("pg_serials", "serial_table:o serial_column serial_sequence", declared::serials);
    add("pg_routine_texts", routines::TEXTS, routines::texts);
    add("pg_built_in_functions", routines::BUILT_IN, routines::built_in);
}

/// Cursors, settings, and what is the same in every database.
fn add_system(add: Add<'_>) {
    add("pg_operator", operators::OPERATORS, operators::operators);
    add("pg_cursors", "name statement is_holdable:b is_binary:b is_scrollable:b creation_time:z", settings::cursors);
    add(
        "pg_prepared_statements",
        "name statement prepare_time:z parameter_types:T from_sql:b generic_plans:o custom_plans:o",
        settings::prepared_statements,
    );
    add(
        "pg_settings",
        "name setting unit category short_desc extra_desc context vartype source min_val max_val enumvals:T boot_val reset_val \
         sourcefile sourceline:i pending_restart:b",
        settings::settings,
    );
    add("pg_am", "oid:p amname:n amhandler amtype:c", |_| {
        let heap: Vec<Cell> = vec![2.into(), "heap".into(), "heap_tableam_handler".into(), "t".into()];
        let handler = |name: &str| match name {
            "btree" => "bthandler".to_owned(),
            "spgist" => "spghandler".to_owned(),
            other => format!("{other}handler"),
        };
        let method =
            |(oid, name): &(u32, &str)| vec![Cell::from(*oid), (*name).into(), handler(name).into(), "i".into()];
        std::iter::once(heap).chain(ACCESS_METHODS.iter().map(method)).collect()
    });
    add(
        "pg_opclass",
        "oid:p opcmethod:p opcname:n opcnamespace:p opcowner:p opcfamily:p opcintype:p opcdefault:b opckeytype:p",
        |_| {
            let row = |class: &OperatorClass| {
                let OperatorClass { method, oid, name, family, of_type, is_default, kept_type } = *class;
                let head: [Cell; 5] = [oid.into(), method.into(), name.into(), CATALOG_OID.into(), OWNER_OID.into()];
                let rest: [Cell; 4] = [family.into(), of_type.into(), is_default.into(), kept_type.into()];
                head.into_iter().chain(rest).collect()
            };
            OPERATOR_CLASSES.iter().map(row).collect()
        },
    );
    add("pg_opfamily", "oid:p opfmethod:p opfname:n opfnamespace:p opfowner:p", |_| {
        let row = |(oid, method, name): &(u32, u32, &str)| {
            vec![Cell::from(*oid), (*method).into(), (*name).into(), CATALOG_OID.into(), OWNER_OID.into()]
        };
        OPERATOR_FAMILIES.iter().map(row).collect()
    });
    add("pg_cast", known::CAST, known::casts);
    add("pg_range", known::RANGE, known::ranges);
    add("pg_timezone_abbrevs", known::ABBREVIATION, known::abbreviations);
    add("pg_tablespace", "oid:p spcname:n spcowner:p spcacl:T spcoptions:T xmin:x", |_| {
        vec![vec![1663.into(), "pg_default".into(), OWNER_OID.into()]]
    });
    add("pg_extension", "oid:p extname:n extowner:p extnamespace:p extrelocatable:b extversion", |_| {
        vec![vec![13_799.into(), "plpgsql".into(), OWNER_OID.into(), CATALOG_OID.into(), false.into(), "1.0".into()]]
    });
    add("pg_available_extensions", "name:n default_version installed_version comment", |_| {
        let row = |(name, version, comment): (&str, &str, &str)| {
            vec![name.into(), version.into(), version.into(), comment.into()]
        };
        EXTENSIONS.map(row).to_vec()
    });
}

/// Schemas with their owners and grants.
fn namespaces(snapshot: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let ids = snapshot.catalog.schemas().map(|(name, id)| (name.to_owned(), Subject::Schema(id)));
    let ids = ids.collect::<BTreeMap<_, _>>();
    let row = |(name, oid): (String, u32)| {
        let subject = ids.get(&name).copied();
        let owner = subject.map_or(OWNER_OID.into(), |subject| roles::owner_oid(snapshot, subject));
        let grants = subject.map_or(Cell::Null, |subject| roles::grants(snapshot, subject));
        vec![oid.into(), name.into(), owner, grants]
    };
    schemas(snapshot).into_iter().map(row).collect()
}

/// Types as names of types show them.
fn type_names(snapshot: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let schemas = schemas(snapshot).into_iter().map(|(name, oid)| (oid, name)).collect::<BTreeMap<_, _>>();
    let named = listed_types(snapshot).into_iter().flat_map(|ListedType { name, sql_name, schema, known, .. }| {
        let of = schemas.get(&schema).map_or("", String::as_str);
        let short = match schema {
            CATALOG_OID => sql_name.clone(),
            _ => quoted_name(&name).into_owned(),
        };
        let row = |oid: u32, name: String, sql_name: String, short: String| {
            let whole = format!("{of}.{name}");
            let element = known.oid.into();
            vec![oid.into(), name.into(), sql_name.into(), schema.into(), whole.into(), short.into(), element]
        };
        let array = row(known.array_oid, format!("_{name}"), format!("{sql_name}[]"), format!("{short}[]"));
        [array, row(known.oid, name, sql_name, short)]
    });
    named.filter(|row| row[0] != Cell::Number(0)).collect()
}

/// Relations as names of relations show them.
fn class_names(snapshot: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let all = schemas(snapshot);
    let numbers = all.iter().map(|(name, oid)| (name.as_str(), *oid)).collect::<BTreeMap<_, _>>();
    let names = all.iter().map(|(name, oid)| (*oid, name.as_str())).collect::<BTreeMap<_, _>>();
    let row = |oid: Cell, schema: u32, name: &str| {
        let of = names.get(&schema).copied().unwrap_or_default();
        let (shown, of) = (quoted_name(name), quoted_name(of));
        let whole = format!("{of}.{shown}");
        vec![oid, schema.into(), shown.into_owned().into(), whole.into()]
    };
    let own = relations(snapshot, false).into_iter().map(|listed| {
        let schema = numbers.get(listed.schema.as_str()).copied().unwrap_or_default();
        row(listed.oid.into(), schema, &listed.name)
    });
    let indexes = declared::index_classes(snapshot);
    let indexes = indexes.into_iter().map(|index| row(index.oid, index.schema, &index.name));
    let known = SYSTEM_CATALOGS.map(|(name, oid)| row(oid.into(), CATALOG_OID, name));
    own.chain(indexes).chain(known).collect()
}

/// Tables and indexes with their bytes, and all other relations, which have none.
fn sizes(snapshot: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let mut rows = declared::sizes(snapshot);
    let number = |row: &Vec<Cell>| match row.first() {
        Some(Cell::Number(oid)) => Some(*oid),
        _ => None,
    };
    let known = rows.iter().filter_map(number).collect::<BTreeSet<_>>();
    let others = class_names(snapshot).iter().filter_map(number).filter(|oid| !known.contains(oid)).collect::<Vec<_>>();
    rows.extend(others.into_iter().map(|oid| vec![Cell::Number(oid), Cell::Number(oid), Cell::Number(0)]));
    rows
}

/// Schemas by number.
fn namespace_names(snapshot: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let row = |(name, oid): (String, u32)| vec![oid.into(), name.into()];
    schemas(snapshot).into_iter().map(row).collect()
}

/// The database.
fn databases(_: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let flag = Cell::Flag;
    vec![vec![
        DATABASE_OID.into(),
        CATALOG_NAME.into(),
        OWNER_OID.into(),
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
}
