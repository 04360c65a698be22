//! What tables are declared with: indexes, defaults and sequences, as PostgreSQL lists them; constraints and comments
//! have modules of their own.
//!
//! Keys, conditions and references have no numbers of their own. Each gets one from the table's number and its place
//! among the table's, so that joins find it as long as the table stays as it is.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use arrow::datatypes::Field;
use diligence_base::ids::ObjectId;
use diligence_catalog::operator_classes::{default_class, method_oid, named_class};
use diligence_catalog::rules::{Identity, Key, KeyKind};
use diligence_catalog::{
    NativeTable, Object, Piece, PieceRows, Relation, SessionSnapshot, declared_oid, shown_default,
};
use diligence_types::SqlType;
use diligence_types::quoted_name;
use sqlparser::ast::Expr;

use super::collations::collation_oid;
use super::definitions::{
    collated_column, index_definition, key_condition, key_expressions, key_parts, key_types, short_index_definition,
};
use super::roles;
use super::rows::Cell;

/// Numbers of defaults begin here, and so many of them are a table's.
const DEFAULTS_FROM: i64 = 100_000_000;
const OF_TABLE: i64 = 1024;
/// The number of `pg_class`.
pub(super) const PG_CLASS: u32 = 1259;

/// The kinds, in the order of their numbers.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Index,
    Key,
    Check,
    Reference,
}

/// A table with what it is declared with.
pub(super) struct Declared {
    pub(super) object: Arc<Object>,
    pub(super) table: Arc<NativeTable>,
    pub(super) schema_oid: u32,
}

impl Declared {
    /// The number of what is declared at a place among those of its kind.
    pub(super) fn number(&self, kind: Kind, place: usize) -> Cell {
        Cell::Number(declared_oid(self.object.oid(), kind as i64, place))
    }

    /// The numbers of columns, counted from 1.
    pub(super) fn columns(&self, names: &[String]) -> Cell {
        let place = |name: &String| self.table.schema().index_of(name).map_or(0, |place| place as i64 + 1);
        Cell::Numbers(names.iter().map(place).collect())
    }

    /// The numbers of the collations of a key's values.
    fn collations(&self, key: &Key) -> Cell {
        let types = key_types(&self.table, key);
        let number = |sql_type: &Option<SqlType>| sql_type.as_ref().map_or(0, collation_oid);
        Cell::Numbers(types.iter().map(|sql_type| i64::from(number(sql_type))).collect())
    }

    /// The numbers of the columns of a key, with those of INCLUDE; 0 for an expression.
    fn key_columns(&self, key: &Key) -> Cell {
        let expressions = key.computed.as_ref().map_or(&[][..], |computed| &computed.expressions);
        let name = |(place, name): (usize, &String)| match expressions.get(place) {
            Some(Some(expression)) => collated_column(expression).unwrap_or_default(),
            _ => name.clone(),
        };
        let names = key.columns.iter().enumerate().map(name).chain(key.included().iter().cloned());
        self.columns(&names.collect::<Vec<_>>())
    }

    /// The numbers of the operator classes of a key's values.
    fn operator_classes(&self, key: &Key) -> Cell {
        let class = |(place, sql_type): (usize, &Option<SqlType>)| {
            let named = key.part(place).operator_class.and_then(|name| named_class(key.method(), &name));
            let class = named.or_else(|| default_class(key.method(), sql_type.as_ref()?));
            class.map_or(0, |class| i64::from(class.oid))
        };
        Cell::Numbers(key_types(&self.table, key).iter().enumerate().map(class).collect())
    }

    /// Its keys and indexes, each with its place.
    pub(super) fn keys(&self) -> impl Iterator<Item = (usize, &Key)> {
        self.table.rules().keys.iter().enumerate()
    }
}

/// The tables that the session sees and may read.
pub(super) fn declared(snapshot: &SessionSnapshot) -> Vec<Declared> {
    let readable = snapshot.catalog.objects().filter(|object| snapshot.rights.may_read(&object.name));
    let table = |object: &Arc<Object>| match &object.relation {
        Relation::Native(table) if snapshot.sees(&object.name) => Some(Declared {
            object: object.clone(),
            table: table.clone(),
            schema_oid: snapshot.schema_oid(&object.name.schema).unwrap_or_default(),
        }),
        _ => None,
    };
    readable.filter_map(table).collect()
}

/// An index in `pg_class`.
pub(super) struct IndexClass {
    pub(super) oid: Cell,
    pub(super) name: String,
    pub(super) schema: u32,
    pub(super) columns: i32,
    /// The number of its access method.
    pub(super) method: u32,
    pub(super) options: Cell,
    /// The rows of its table.
    pub(super) rows: i64,
    /// Whether it ends with its session: `t` or `p`.
    pub(super) persistence: &'static str,
}

/// Rows of `pg_class` for indexes.
pub(super) fn index_classes(snapshot: &SessionSnapshot) -> Vec<IndexClass> {
    let mut rows = Vec::new();
    for of in declared(snapshot) {
        rows.extend(of.keys().map(|(place, key)| {
            let options = key.form.as_ref().map(|form| &form.options).filter(|options| !options.is_empty());
            let texts = |options: &Vec<(String, String)>| {
                options.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>()
            };
            IndexClass {
                oid: of.number(Kind::Index, place),
                name: key.name.clone(),
                schema: of.schema_oid,
                columns: (key.columns.len() + key.included().len()) as i32,
                method: method_oid(key.method()).unwrap_or_default(),
                options: options.map_or(Cell::Null, |options| Cell::Texts(texts(options))),
                rows: of.table.rows() as i64,
                persistence: if of.object.name.is_temporary() { "t" } else { "p" },
            }
        }));
    }
    rows
}

/// The columns of indexes as `pg_attribute` lists them, and the numbers of the indexes.
pub(super) fn index_columns(snapshot: &SessionSnapshot) -> Vec<(Cell, Vec<Field>)> {
    let mut indexes = Vec::new();
    for of in declared(snapshot) {
        indexes.extend(of.keys().map(|(place, key)| {
            let types = key_types(&of.table, key).into_iter();
            let own = key_names(key).into_iter().zip(types);
            let own = own.map(|(name, sql_type)| sql_type.unwrap_or(SqlType::Text).field(&name, true));
            let included =
                key.included().iter().filter_map(|name| of.table.schema().field_with_name(name).ok().cloned());
            let included = included.map(|field| field.with_nullable(true));
            (of.number(Kind::Index, place), own.chain(included).collect())
        }));
    }
    indexes
}

/// The names of the columns of a key's index: that of an expression is its function's, with a number behind it where
/// another has the name.
fn key_names(key: &Key) -> Vec<String> {
    let expressions = key.computed.as_ref().map_or(&[][..], |computed| &computed.expressions);
    let mut names: Vec<String> = Vec::new();
    for (place, column) in key.columns.iter().enumerate() {
        let name = match expressions.get(place) {
            Some(Some(expression)) => {
                collated_column(expression).unwrap_or_else(|| expression_name(expression).to_lowercase())
            }
            _ => column.clone(),
        };
        let numbered = (1..).map(|number| format!("{name}{number}"));
        let free = std::iter::once(name.clone()).chain(numbered).find(|name| !names.contains(name));
        names.push(free.unwrap_or(name));
    }
    names
}

/// What PostgreSQL calls the column of an index whose values an expression is.
fn expression_name(expression: &Expr) -> &str {
    match expression {
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => expression_name(inner),
        Expr::Cast { expr: inner, .. } => expression_name(inner),
        Expr::Identifier(name) => &name.value,
        Expr::Function(call) => {
            call.name.0.last().and_then(|part| part.as_ident()).map_or("expr", |name| name.value.as_str())
        }
        _ => "expr",
    }
}

/// Whether a table has indexes.
pub(super) fn has_indexes(object: &Object) -> bool {
    matches!(&object.relation, Relation::Native(table) if !table.rules().keys.is_empty())
}

/// The tables that others refer to.
pub(super) fn referred(snapshot: &SessionSnapshot) -> HashSet<ObjectId> {
    let tables = snapshot.catalog.objects().filter_map(|object| match &object.relation {
        Relation::Native(table) => Some(table),
        _ => None,
    });
    tables
        .flat_map(|table| table.rules().references.iter().map(|reference| reference.table).collect::<Vec<_>>())
        .collect()
}

/// How many conditions a table has, and whether it has triggers, refers to others or is one of those that are
/// `referred` to.
pub(super) fn summary(referred: &HashSet<ObjectId>, object: &Object) -> (i32, bool) {
    let Relation::Native(table) = &object.relation else {
        return (0, !object.relation.triggers().is_empty());
    };
    let rules = table.rules();
    (
        rules.checks.len() as i32,
        !rules.triggers.is_empty() || !rules.references.is_empty() || referred.contains(&object.id),
    )
}

/// What a column is beside its type: whether it has a default, `a` or `d` for one that counts, `s` for one that is
/// computed.
pub(super) fn column_marks(object: &Object, column: &str) -> (bool, &'static str, &'static str) {
    let Relation::Native(table) = &object.relation else { return (false, "", "") };
    let rules = table.rules();
    let identity = match rules.identities.get(column) {
        Some(Identity::Always) => "a",
        Some(Identity::ByDefault) => "d",
        None => "",
    };
    let is_generated = rules.generated.contains_key(column);
    let has_default = is_generated || rules.defaults.contains_key(column) && identity.is_empty();
    (has_default, identity, if is_generated { "s" } else { "" })
}

pub(super) fn defaults(snapshot: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    for of in declared(snapshot) {
        for (place, field) in of.table.schema().fields().iter().enumerate() {
            let rules = of.table.rules();
            let expression = match rules.generated.get(field.name()) {
                Some(expression) => Some(expression),
                None if rules.identities.contains_key(field.name()) => None,
                None => rules.defaults.get(field.name()),
            };
            if let Some(expression) = expression {
                let number = i64::from(of.object.oid()) * OF_TABLE + place as i64;
                let sql_type = SqlType::of_field(field).unwrap_or(SqlType::Text);
                let text = shown_default(&expression.to_string(), &sql_type);
                rows.push(vec![
                    Cell::Number(DEFAULTS_FROM + number % 800_000_000),
                    of.object.oid().into(),
                    Cell::Number(place as i64 + 1),
                    text.into(),
                ]);
            }
        }
    }
    rows
}

pub(super) fn indexes(snapshot: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    for of in declared(snapshot) {
        for (place, key) in of.keys() {
            let count = key.columns.len() as i32;
            let all = count + key.included().len() as i32;
            let orders = (0..key.columns.len()).map(|place| key.part(place).bits()).collect();
            rows.push(vec![
                of.number(Kind::Index, place),
                of.object.oid().into(),
                all.into(),
                count.into(),
                key.kind.is_unique().into(),
                (key.nulls_are_equal && key.kind.is_unique()).into(),
                (key.kind == KeyKind::Primary).into(),
                (key.kind == KeyKind::Exclusion).into(),
                (!key.is_deferrable()).into(),
                false.into(),
                true.into(),
                false.into(),
                true.into(),
                true.into(),
                false.into(),
                of.key_columns(key),
                of.collations(key),
                of.operator_classes(key),
                Cell::Numbers(orders),
                key_expressions(key).map_or(Cell::Null, Cell::Text),
                key_condition(key).map_or(Cell::Null, |condition| format!("({condition})").into()),
            ]);
        }
    }
    rows
}

/// `pg_indexes`.
pub(super) fn listed_indexes(snapshot: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    for of in declared(snapshot) {
        rows.extend(of.keys().map(|(_, key)| {
            let name = &of.object.name;
            let definition = index_definition(&of.table, &of.object.name, key);
            vec![
                name.schema.as_str().into(),
                name.name.as_str().into(),
                key.name.as_str().into(),
                Cell::Null,
                definition.into(),
            ]
        }));
    }
    rows
}

/// What `pg_get_indexdef` looks into: a row for the whole index, and one for each column.
pub(super) fn index_definitions(snapshot: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    for of in declared(snapshot) {
        for (place, key) in of.keys() {
            let whole = index_definition(&of.table, &of.object.name, key);
            let short = short_index_definition(&of.table, &of.object.name, key);
            let expressions = key.computed.as_ref().map_or(&[][..], |computed| &computed.expressions);
            let collated = |place: usize| collated_column(expressions.get(place)?.as_ref()?);
            let columns = key_parts(key).into_iter().enumerate();
            let columns =
                columns.map(|(place, text)| collated(place).map_or(text, |name| quoted_name(&name).into_owned()));
            let parts = columns.chain(key.included().iter().map(|name| quoted_name(name).into_owned()));
            let texts = std::iter::once((whole, short)).chain(parts.map(|text| (text.clone(), text)));
            rows.extend(texts.enumerate().map(|(part, (text, short))| {
                vec![of.number(Kind::Index, place), Cell::Number(part as i64), text.into(), short.into()]
            }));
        }
    }
    rows
}

fn sequences(snapshot: &SessionSnapshot) -> Vec<(Arc<Object>, Arc<diligence_catalog::sequence::Sequence>)> {
    let readable = snapshot.catalog.objects().filter(|object| snapshot.rights.may_read(&object.name));
    let sequence = |object: &Arc<Object>| match &object.relation {
        Relation::Sequence(sequence) if snapshot.sees(&object.name) => Some((object.clone(), sequence.clone())),
        _ => None,
    };
    readable.filter_map(sequence).collect()
}

pub(super) fn sequence_options(snapshot: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let row = |(object, sequence): &(Arc<Object>, Arc<diligence_catalog::sequence::Sequence>)| {
        let options = &sequence.options;
        let data_type: u32 = match options.bits {
            16 => 21,
            32 => 23,
            _ => 20,
        };
        let numbers = [options.start, options.increment, options.max, options.min, 1].map(Cell::Number);
        let head = [object.oid().into(), data_type.into()];
        head.into_iter().chain(numbers).chain([options.cycles.into()]).collect()
    };
    sequences(snapshot).iter().map(row).collect()
}

/// `pg_sequences`.
pub(super) fn listed_sequences(snapshot: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let row = |(object, sequence): &(Arc<Object>, Arc<diligence_catalog::sequence::Sequence>)| {
        let (options, state) = (&sequence.options, sequence.state());
        let data_type = match options.bits {
            16 => "smallint",
            32 => "integer",
            _ => "bigint",
        };
        let last = if state.is_called { Cell::Number(state.last) } else { Cell::Null };
        vec![
            object.name.schema.as_str().into(),
            object.name.name.as_str().into(),
            roles::owner_name(snapshot, Some(object)),
            data_type.into(),
            Cell::Number(options.start),
            Cell::Number(options.min),
            Cell::Number(options.max),
            Cell::Number(options.increment),
            options.cycles.into(),
            Cell::Number(1),
            last,
        ]
    };
    sequences(snapshot).iter().map(row).collect()
}

/// The columns of `pg_stat_user_tables`. What is not counted is 0, and what never happens NULL.
pub(super) const STATISTICS: &str = "relid:p schemaname:n relname:n n_live_tup:o n_dead_tup:o seq_scan:o seq_tup_read:o idx_scan:o idx_tup_fetch:o \
     n_tup_ins:o n_tup_upd:o n_tup_del:o n_tup_hot_upd:o n_mod_since_analyze:o n_ins_since_vacuum:o last_vacuum:z \
     last_autovacuum:z last_analyze:z last_autoanalyze:z vacuum_count:o autovacuum_count:o analyze_count:o \
     autoanalyze_count:o";

/// `pg_stat_user_tables`: the rows of tables.
pub(super) fn statistics(snapshot: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let row = |of: Declared| {
        let name = &of.object.name;
        let rows = Cell::Number(of.table.rows() as i64);
        let named = [of.object.oid().into(), name.schema.as_str().into(), name.name.as_str().into(), rows];
        let counts = (0..11).map(|_| Cell::Number(0));
        let times = (0..4).map(|_| Cell::Null);
        let more = (0..4).map(|_| Cell::Number(0));
        named.into_iter().chain(counts).chain(times).chain(more).collect()
    };
    declared(snapshot).into_iter().map(row).collect()
}

/// The columns of `pg_stat_user_indexes`.
pub(super) const INDEX_STATISTICS: &str = "relid:p indexrelid:p schemaname:n relname:n indexrelname:n idx_scan:o \
     last_idx_scan:z idx_tup_read:o idx_tup_fetch:o";

/// `pg_stat_user_indexes`: how indexes were used since the database was opened.
pub(super) fn index_statistics(snapshot: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let number = |count: u64| Cell::Number(i64::try_from(count).unwrap_or(i64::MAX));
    let mut rows = Vec::new();
    for of in declared(snapshot) {
        let name = &of.object.name;
        for (place, index) in of.table.indexes().into_iter().enumerate() {
            let found = || number(index.rows_found);
            rows.push(vec![
                of.object.oid().into(),
                of.number(Kind::Index, place),
                name.schema.as_str().into(),
                name.name.as_str().into(),
                index.key.name.as_str().into(),
                number(index.scans),
                Cell::Null,
                found(),
                found(),
            ]);
        }
    }
    rows
}

/// What `pg_relation_size` and its kin look into: a table's or an index' number, that of the table, and its bytes in
/// memory and in files.
pub(super) fn sizes(snapshot: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    for of in declared(snapshot) {
        let table = of.object.oid();
        let segments = of.table.pieces().iter().filter_map(|piece| match piece.rows() {
            PieceRows::Stored(stored) => Some((stored.view.segment().number(), stored.view.segment().bytes())),
            PieceRows::Memory(_) => None,
        });
        let segments = segments.collect::<BTreeMap<_, _>>();
        let in_memory = of.table.pieces().iter().map(Piece::bytes_in_memory).sum::<usize>();
        let bytes = |bytes: u64| Cell::Number(i64::try_from(bytes).unwrap_or(i64::MAX));
        rows.push(vec![table.into(), table.into(), bytes(segments.values().sum::<u64>() + in_memory as u64)]);
        for (place, index) in of.table.indexes().into_iter().enumerate() {
            let size = index.bytes as u64 + index.file_bytes;
            rows.push(vec![of.number(Kind::Index, place), table.into(), bytes(size)]);
        }
    }
    rows
}

/// `pg_depend`: sequences that columns own.
pub(super) fn dependencies(snapshot: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let tables = declared(snapshot);
    let row = |(object, sequence): &(Arc<Object>, Arc<diligence_catalog::sequence::Sequence>)| {
        let (table, column) = sequence.options.owner.as_ref()?;
        let table = tables.iter().find(|of| of.object.id == *table)?;
        let place = table.table.schema().index_of(column).ok()? as i64 + 1;
        let kind = if table.table.rules().identities.contains_key(column) { "i" } else { "a" };
        let (own, of) = (object.oid().into(), table.object.oid().into());
        Some(vec![PG_CLASS.into(), own, 0.into(), PG_CLASS.into(), of, Cell::Number(place), kind.into()])
    };
    sequences(snapshot).iter().filter_map(row).collect()
}

/// What `pg_get_serial_sequence` looks into: a table's number, a column's, and the sequence that the column owns.
pub(super) fn serials(snapshot: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let tables = declared(snapshot);
    let row = |(object, sequence): &(Arc<Object>, Arc<diligence_catalog::sequence::Sequence>)| {
        let (table, column) = sequence.options.owner.as_ref()?;
        let table = tables.iter().find(|of| of.object.id == *table)?;
        let own = format!("{}.{}", quoted_name(&object.name.schema), quoted_name(&object.name.name));
        Some(vec![table.object.oid().into(), column.as_str().into(), own.into()])
    };
    sequences(snapshot).iter().filter_map(row).collect()
}
