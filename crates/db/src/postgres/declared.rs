//! What tables are declared with: indexes, constraints, defaults, comments and sequences, as PostgreSQL lists them.
//!
//! Keys, conditions and references have no numbers of their own. Each gets one from the table's number and its place
//! among the table's, so that joins find it as long as the table stays as it is.

use std::collections::BTreeMap;
use std::sync::Arc;

use diligence_base::ids::ObjectId;
use diligence_catalog::authority::{Subject, Topic};
use diligence_catalog::operator_classes::{default_class, method_oid, named_class};
use diligence_catalog::rules::{Deferral, Identity, Key, KeyKind, ReferenceAction, TableRules};
use diligence_catalog::{
    NativeTable, Object, Piece, PieceRows, Relation, SessionSnapshot, declared_oid, shown_default,
};
use diligence_types::SqlType;

use super::collation_oid;
use super::definitions::{
    collated_column, deferred, index_definition, key_condition, key_definition, key_expressions, key_parts, key_types,
    quoted, reference_definition, short_index_definition,
};
use super::roles;
use super::rows::Cell;
use super::triggers::{self, TriggerConstraint};

/// Numbers of defaults begin here, and so many of them are a table's.
const DEFAULTS_FROM: i64 = 100_000_000;
const OF_TABLE: i64 = 1024;
/// The numbers of the tables of `pg_catalog` that have what comments are of.
const PG_CLASS: u32 = 1259;
const PG_TYPE: u32 = 1247;
const PG_PROC: u32 = 1255;
const PG_CONSTRAINT: u32 = 2606;
const PG_NAMESPACE: u32 = 2615;
const PG_TRIGGER: u32 = 2620;
const PG_COLLATION: u32 = 3456;

/// The kinds, in the order of their numbers.
#[derive(Clone, Copy)]
enum Kind {
    Index,
    Key,
    Check,
    Reference,
}

/// A table with what it is declared with.
struct Declared {
    object: Arc<Object>,
    table: Arc<NativeTable>,
    schema_oid: u32,
}

impl Declared {
    fn number(&self, kind: Kind, place: usize) -> Cell {
        Cell::Number(declared_oid(self.object.oid(), kind as i64, place))
    }

    fn columns(&self, names: &[String]) -> Cell {
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

    fn keys(&self) -> impl Iterator<Item = (usize, &Key)> {
        self.table.rules().keys.iter().enumerate()
    }
}

fn declared(snapshot: &SessionSnapshot) -> Vec<Declared> {
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

/// Whether a table has indexes, how many conditions, and whether it has triggers, refers to others or others to
/// it.
pub(super) fn summary(snapshot: &SessionSnapshot, object: &Object) -> (bool, i32, bool) {
    let Relation::Native(table) = &object.relation else {
        return (false, 0, !object.relation.triggers().is_empty());
    };
    let rules = table.rules();
    let is_referred = || {
        snapshot.catalog.objects().any(|other| match &other.relation {
            Relation::Native(other) => other.rules().references.iter().any(|reference| reference.table == object.id),
            _ => false,
        })
    };
    (
        !rules.keys.is_empty(),
        rules.checks.len() as i32,
        !rules.triggers.is_empty() || !rules.references.is_empty() || is_referred(),
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
            let columns = columns.map(|(place, text)| collated(place).map_or(text, |name| quoted(&name)));
            let parts = columns.chain(key.included().iter().map(|name| quoted(name)));
            let texts = std::iter::once((whole, short)).chain(parts.map(|text| (text.clone(), text)));
            rows.extend(texts.enumerate().map(|(part, (text, short))| {
                vec![of.number(Kind::Index, place), Cell::Number(part as i64), text.into(), short.into()]
            }));
        }
    }
    rows
}

/// The text of a constraint.
struct ConstraintText {
    whole: String,
    /// Of one that refers to another table, how it is shown where that needs no schema, the schema and the table.
    short: Option<(String, u32, u32)>,
}

impl From<String> for ConstraintText {
    fn from(whole: String) -> Self {
        Self { whole, short: None }
    }
}

/// A constraint: its row in `pg_constraint`, and its text.
fn all_constraints(snapshot: &SessionSnapshot) -> Vec<(Vec<Cell>, ConstraintText)> {
    let mut rows = Vec::new();
    let tables = declared(snapshot);
    for of in &tables {
        let rules = of.table.rules();
        let row = |number: Cell, name: &str, kind: &str, index: Cell, referred: u32, actions: [&str; 3]| {
            let [update, delete, matching] = actions;
            vec![
                number,
                name.into(),
                of.schema_oid.into(),
                kind.into(),
                false.into(),
                false.into(),
                (!rules.unproven.contains(name)).into(),
                of.object.oid().into(),
                0.into(),
                index,
                0.into(),
                referred.into(),
                update.into(),
                delete.into(),
                matching.into(),
                true.into(),
                0.into(),
                (kind != "c").into(),
            ]
        };
        /// Where a row says whether it is deferrable, and behind that, whether it is deferred.
        const DEFERRABLE: usize = 4;
        const NONE: [&str; 3] = [" ", " ", " "];
        for (place, key) in of.keys().filter(|(_, key)| key.kind.is_constraint()) {
            let kind = match key.kind {
                KeyKind::Primary => "p",
                KeyKind::Exclusion => "x",
                _ => "u",
            };
            let number = of.number(Kind::Key, place);
            let mut cells = row(number, &key.name, kind, of.number(Kind::Index, place), 0, NONE);
            cells[DEFERRABLE] = key.is_deferrable().into();
            cells[DEFERRABLE + 1] = (key.deferral == Deferral::Deferred).into();
            cells.push(of.columns(&key.columns));
            rows.push((cells, key_definition(key).into()));
        }
        for (place, check) in rules.checks.iter().enumerate() {
            let number = of.number(Kind::Check, place);
            let text = check.condition.to_string();
            let mut cells = row(number, &check.name, "c", 0.into(), 0, NONE);
            let columns = of.table.schema().fields().iter().map(|field| field.name().clone());
            let named = columns.filter(|column| mentions(&text, column)).collect::<Vec<_>>();
            cells.push(of.columns(&named));
            rows.push((cells, format!("CHECK ({text}){}", unproven(rules, &check.name)).into()));
        }
        for (place, reference) in rules.references.iter().enumerate() {
            let referred = tables.iter().find(|other| other.object.id == reference.table);
            let Some(referred) = referred else { continue };
            let action = |action: ReferenceAction| match action {
                ReferenceAction::Refuse => "a",
                ReferenceAction::Restrict => "r",
                ReferenceAction::Cascade => "c",
                ReferenceAction::SetNull => "n",
                ReferenceAction::SetDefault => "d",
            };
            let is_it = |(_, key): &(usize, &Key)| key.refers_to(&reference.referred);
            let index = referred.keys().find(is_it).map_or(0.into(), |(place, _)| referred.number(Kind::Index, place));
            let number = of.number(Kind::Reference, place);
            let matches = if reference.is_full { "f" } else { "s" };
            let actions = [action(reference.on_update), action(reference.on_delete), matches];
            let mut cells = row(number, &reference.name, "f", index, referred.object.oid(), actions);
            cells[DEFERRABLE] = reference.is_deferrable().into();
            cells[DEFERRABLE + 1] = (reference.deferral == Deferral::Deferred).into();
            cells.push(of.columns(&reference.columns));
            cells.push(referred.columns(&reference.referred));
            let set = &reference.set_columns;
            cells.extend([Cell::Null, Cell::Null, Cell::Null]);
            cells.push(if set.is_empty() { Cell::Null } else { of.columns(set) });
            let text = |name: &str| {
                let unproven = unproven(rules, &reference.name);
                format!("{}{unproven}", reference_definition(reference, name))
            };
            let name = &referred.object.name;
            let whole = text(&format!("{}.{}", quoted(&name.schema), quoted(&name.name)));
            let short = Some((text(&quoted(&name.name)), referred.schema_oid, referred.object.oid()));
            rows.push((cells, ConstraintText { whole, short }));
        }
    }
    for (object, domain, definition) in snapshot.catalog.domains().filter(|(object, ..)| snapshot.sees(&object.name)) {
        let schema = snapshot.schema_oid(&object.name.schema).unwrap_or_default();
        for (place, check) in definition.checks.iter().enumerate() {
            let zero = || Cell::Number(0);
            let head: [Cell; 9] = [
                Cell::Number(declared_oid(domain.oid, Kind::Check as i64, place)),
                check.name.as_str().into(),
                schema.into(),
                "c".into(),
                false.into(),
                false.into(),
                true.into(),
                zero(),
                domain.oid.into(),
            ];
            let rest: [Cell; 9] =
                [zero(), zero(), zero(), " ".into(), " ".into(), " ".into(), true.into(), 0.into(), false.into()];
            rows.push((head.into_iter().chain(rest).collect(), format!("CHECK ({})", check.condition).into()));
        }
    }
    for TriggerConstraint { number, object, trigger } in triggers::constraints(snapshot) {
        let schema = snapshot.schema_oid(&object.name.schema).unwrap_or_default();
        let head: [Cell; 7] = [
            Cell::Number(number),
            trigger.name.as_str().into(),
            schema.into(),
            "t".into(),
            trigger.is_deferrable().into(),
            (trigger.constraint == Some(Deferral::Deferred)).into(),
            true.into(),
        ];
        let zero = || Cell::Number(0);
        let rest: [Cell; 11] = [
            object.oid().into(),
            zero(),
            zero(),
            zero(),
            zero(),
            " ".into(),
            " ".into(),
            " ".into(),
            true.into(),
            zero(),
            true.into(),
        ];
        rows.push((
            head.into_iter().chain(rest).collect(),
            format!("TRIGGER{}", deferred(trigger.constraint.unwrap_or_default())).into(),
        ));
    }
    rows
}

/// What stands behind a constraint that older rows may break.
fn unproven(rules: &TableRules, name: &str) -> &'static str {
    if rules.unproven.contains(name) { " NOT VALID" } else { "" }
}

/// Whether a text has a word.
fn mentions(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.split(|c: char| !is_part(c)).any(|part| part == word)
}

pub(super) fn constraints(snapshot: &SessionSnapshot) -> Vec<Vec<Cell>> {
    all_constraints(snapshot).into_iter().map(|(row, _)| row).collect()
}

/// What `pg_get_constraintdef` looks into.
pub(super) fn constraint_definitions(snapshot: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let rows = all_constraints(snapshot).into_iter();
    let row = |(mut row, text): (Vec<Cell>, ConstraintText)| {
        let (short, schema, table) = match text.short {
            Some((short, schema, table)) => (short.into(), schema.into(), table.into()),
            None => (Cell::Null, Cell::Null, Cell::Null),
        };
        vec![row.swap_remove(0), text.whole.into(), short, schema, table]
    };
    rows.map(row).collect()
}

pub(super) fn comments(snapshot: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    for of in declared(snapshot) {
        for (column, text) in &of.table.rules().comments {
            let place = match column.as_str() {
                "" => 0,
                column => of.table.schema().index_of(column).map_or(-1, |place| place as i64 + 1),
            };
            rows.push(vec![of.object.oid().into(), PG_CLASS.into(), Cell::Number(place), text.as_str().into()]);
        }
    }
    for (topic, text) in snapshot.catalog.authority().comments() {
        if let Some((number, class, column)) = topic_numbers(snapshot, topic) {
            rows.push(vec![number, class.into(), Cell::Number(column), text.as_str().into()]);
        }
    }
    rows
}

/// The number of what a comment is of, that of the table which has it, and the column; `None` for what the session does
/// not see, and for what is not of this database alone.
fn topic_numbers(snapshot: &SessionSnapshot, topic: &Topic) -> Option<(Cell, u32, i64)> {
    let object_of = |id: ObjectId| {
        let mut objects = snapshot.catalog.all_objects();
        objects.find(|object| object.id == id).filter(|object| snapshot.sees(&object.name))
    };
    match topic {
        Topic::Subject(Subject::Database | Subject::Language(_)) | Topic::Role(_) => None,
        Topic::Subject(Subject::Schema(id)) => {
            let (name, _) = snapshot.catalog.schemas().find(|(_, known)| known == id)?;
            Some((snapshot.schema_oid(name)?.into(), PG_NAMESPACE, 0))
        }
        Topic::Subject(Subject::Object(id)) => {
            let object = object_of(*id)?;
            let class = match &object.relation {
                Relation::Routine(_) => PG_PROC,
                Relation::Enum(_) | Relation::Composite(_) | Relation::Domain(_) => PG_TYPE,
                Relation::Collation(_) => PG_COLLATION,
                _ => PG_CLASS,
            };
            Some((object.oid().into(), class, 0))
        }
        Topic::Subject(Subject::Column(id, number)) => {
            let object = object_of(*id)?;
            let place = object.relation.schema().ok()?.index_of(&object.column_of(*number)?).ok()?;
            Some((object.oid().into(), PG_CLASS, place as i64 + 1))
        }
        Topic::Index(table, name) => {
            let of = declared(snapshot).into_iter().find(|of| of.object.id == *table)?;
            let (place, _) = of.keys().find(|(_, key)| key.name == *name)?;
            Some((of.number(Kind::Index, place), PG_CLASS, 0))
        }
        Topic::Constraint(of, name) => {
            let (of, name) = (Cell::from(object_of(*of)?.oid()), Cell::from(name.as_str()));
            // Number, name, …, the table, the domain.
            let is_it =
                |row: &Vec<Cell>| row.get(1) == Some(&name) && (row.get(7) == Some(&of) || row.get(8) == Some(&of));
            let number = constraints(snapshot).into_iter().find(is_it)?.into_iter().next()?;
            Some((number, PG_CONSTRAINT, 0))
        }
        Topic::Trigger(table, name) => Some((triggers::number_of(snapshot, *table, name)?, PG_TRIGGER, 0)),
    }
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
        let own = format!("{}.{}", quoted(&object.name.schema), quoted(&object.name.name));
        Some(vec![table.object.oid().into(), column.as_str().into(), own.into()])
    };
    sequences(snapshot).iter().filter_map(row).collect()
}
