//! Recovery: records become names and rows again.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use diligence_base::ids::ObjectId;
use diligence_base::{Error, ErrorKind, Result};
use diligence_catalog::rules::{Check, ComputedKey, Key, RowFunction, TableRules};
use diligence_catalog::sequence::Sequence;
use diligence_catalog::{
    Catalog, ColumnIds, CompositeDefinition, DomainDefinition, EnumDefinition, FileRelation, KeyStore, NativeTable,
    NewRows, ObjectRef, Relation, RelationName, RestoredKeys, RestoredPiece, Routine, RowChange, StoredCluster,
    TableAlteration, View, order_of_kept,
};
use diligence_memory::Reservation;
use diligence_storage::memory::RowNumbers;
use sqlparser::ast::Expr;

use crate::files::RecordFile;
use crate::record::{Record, RulesRecord, TableRecord, decode, moment_in};
use crate::segments::Segments;

/// What recovery asks of the database that is opened.
pub trait Surroundings {
    /// The expression in a text.
    fn expression(&self, text: &str) -> Result<Expr>;
    /// What computes an index over expressions of a table with these columns; `None` among the expressions is a column
    /// of the key, as `key` has it.
    fn row_function(
        &self,
        table: &RelationName,
        columns: &SchemaRef,
        key: &Key,
        expressions: &[Option<Arc<Expr>>],
        condition: Option<&Expr>,
    ) -> Result<Arc<dyn RowFunction>>;
    /// The view that a statement makes, with these columns.
    fn view(&self, definition: &str, columns: SchemaRef) -> Result<View>;
    /// The function that a statement makes.
    fn routine(&self, definition: &str) -> Result<Routine>;
    /// The files that a statement names; none is opened.
    fn files(&self, definition: &str) -> Result<FileRelation>;
    /// Rows in memory of their own.
    fn compacted(&self, rows: RecordBatch) -> Result<RecordBatch>;
    /// What rows in tables are counted in.
    fn memory(&self) -> Reservation;
}

/// The state of a recovery.
pub struct Replay<'a> {
    catalog: &'a Catalog,
    surroundings: &'a dyn Surroundings,
    segments: &'a Segments,
    /// Rows whose entry has not come yet, by statement.
    rows: HashMap<u64, Vec<NewRows>>,
    /// The files of the indexes of a table that has not come yet, by statement and key.
    keys: HashMap<u64, HashMap<usize, RestoredKeys>>,
    /// Where keys go that come in great number; they stay in memory, if `None`.
    key_store: Option<Arc<dyn KeyStore>>,
    /// Clusters that cannot be read, where that is no error.
    lost: Option<Vec<LostCluster>>,
    /// What happened later is left out.
    until: Option<i64>,
    /// The last moment of what was done, and the first one of what was left out.
    moment: Option<i64>,
    next_moment: Option<i64>,
    /// Indexes that nothing could compute when their table came, by its id.
    unbound: HashMap<u64, Vec<UnboundKey>>,
}

/// An index whose expressions mean nothing where its table is read: what they call comes later, or has gone.
struct UnboundKey {
    /// Among the keys of the table.
    place: usize,
    key: Key,
    expressions: Vec<Option<Arc<Expr>>>,
    condition: Option<Arc<Expr>>,
}

/// An index that is left out, as nothing computes it.
#[derive(Clone, Debug)]
pub struct LostIndex {
    /// Its table.
    pub table: RelationName,
    /// Its name.
    pub name: String,
    /// Why.
    pub error: Error,
}

/// A cluster whose segment cannot be read.
#[derive(Debug)]
pub struct LostCluster {
    /// The statement that brought it, in the file that is read.
    statement: Option<u64>,
    /// Among the rows of the statement, lost ones included.
    place: usize,
    /// Why.
    pub error: Error,
    /// The table that had its rows, and how many they were, as far as that is known.
    pub table: Option<(RelationName, Option<usize>)>,
}

/// How far a file was read.
pub struct Replayed {
    /// Whether an image says that this was all of it.
    pub is_complete: bool,
    /// Bytes up to the last record.
    pub bytes: u64,
    /// The file, at the end of its records.
    pub file: RecordFile,
}

impl<'a> Replay<'a> {
    pub fn new(catalog: &'a Catalog, surroundings: &'a dyn Surroundings, segments: &'a Segments) -> Self {
        let (rows, keys) = (HashMap::new(), HashMap::new());
        let (until, moment, next_moment, unbound) = (None, None, None, HashMap::new());
        let (key_store, lost) = (None, None);
        Self { catalog, surroundings, segments, rows, keys, key_store, lost, until, moment, next_moment, unbound }
    }

    /// The same, where keys that come in great number go into files.
    pub fn storing_keys(self, store: Arc<dyn KeyStore>) -> Self {
        Self { key_store: Some(store), ..self }
    }

    /// The same, where tables of an image do without clusters that cannot be read.
    pub fn saving(self) -> Self {
        Self { lost: Some(Vec::new()), ..self }
    }

    /// The same, where what happened after a moment, in microseconds since 1970, is left out.
    pub fn until(self, moment: i64) -> Self {
        Self { until: Some(moment), ..self }
    }

    /// When the last thing happened of which that is said.
    pub fn moment(&self) -> Option<i64> {
        self.moment
    }

    /// When the first thing happened that was left out; `None` if nothing was. Nothing behind it is to be done.
    pub fn next_moment(&self) -> Option<i64> {
        self.next_moment
    }

    /// The clusters that could not be read.
    pub fn into_lost(self) -> Vec<LostCluster> {
        self.lost.unwrap_or_default()
    }

    /// All files have been read: gives tables the indexes that nothing could compute before all names were there, and
    /// says which nothing computes still. A database opens without them. Fails with kind `Resource` if the keys do not
    /// fit into memory.
    pub fn settle_indexes(&mut self) -> Result<Vec<LostIndex>> {
        let mut lost = Vec::new();
        for (table, keys) in std::mem::take(&mut self.unbound) {
            let snapshot = self.catalog.snapshot();
            let object = snapshot.all_objects().find(|object| object.id.0 == table);
            let Some((object, Relation::Native(rows))) = object.map(|object| (object, &object.relation)) else {
                continue;
            };
            let (mut rules, columns) = (rows.rules().clone(), rows.schema().clone());
            for UnboundKey { place, key, expressions, condition } in keys {
                let name = key.name.clone();
                let given = condition.as_deref();
                let function = self.surroundings.row_function(&object.name, &columns, &key, &expressions, given);
                let restored = function.and_then(|function| {
                    let mut rules = rules.clone();
                    let computed = Some(ComputedKey { expressions, condition, function });
                    rules.keys.insert(place.min(rules.keys.len()), Key { computed, ..key });
                    let places = (0..columns.fields().len()).map(Some).collect();
                    let (name, columns) = (object.name.clone(), columns.clone());
                    let alteration = TableAlteration { name, columns, places, rules: rules.clone() };
                    let memory = self.surroundings.memory();
                    self.catalog.restore_alteration(&object.reference(), alteration, &memory).map(|()| rules)
                });
                match restored {
                    Ok(with_it) => rules = with_it,
                    Err(error) if error.kind() == ErrorKind::Resource => return Err(error),
                    Err(error) => lost.push(LostIndex { table: object.name.clone(), name, error }),
                }
            }
        }
        lost.sort_by(|one, other| (&one.table, &one.name).cmp(&(&other.table, &other.name)));
        Ok(lost)
    }

    /// A file has ended: rows without an entry were nobody's, and the numbers of statements are others' from now on.
    pub fn end_file(&mut self) {
        self.rows.clear();
        self.keys.clear();
        self.lost.iter_mut().flatten().for_each(|lost| lost.statement = None);
    }

    /// Does what a record says; whether an image ends with it. Fails as [`file`](Self::file) does.
    pub fn record(&mut self, bytes: &[u8]) -> Result<bool> {
        let record = decode(bytes)?;
        let is_end = matches!(record, Record::End { .. });
        self.apply(record)?;
        Ok(is_end)
    }

    /// Does what all records of a file say, up to a moment if there is one. Fails with kind `File` if one cannot be
    /// understood, `Resource` if the rows do not fit into memory.
    pub fn file(&mut self, mut file: RecordFile) -> Result<Replayed> {
        let mut is_complete = false;
        while let Some(bytes) = file.read()? {
            self.next_moment = moment_in(&bytes).filter(|moment| self.until.is_some_and(|until| *moment > until));
            if self.next_moment.is_some() {
                break;
            }
            let done = decode(&bytes).and_then(|record| {
                is_complete = matches!(record, Record::End { .. });
                self.apply(record)
            });
            done.map_err(|error| error.context(format!("{}, record {}", file.name(), file.next - 1)))?;
        }
        // Rows without an entry were nobody's.
        self.rows.clear();
        self.keys.clear();
        Ok(Replayed { is_complete, bytes: file.offset(), file })
    }

    fn apply(&mut self, record: Record) -> Result<()> {
        let Self { catalog, surroundings, segments, .. } = *self;
        match record {
            Record::Rows { statement, rows } => {
                let rows = surroundings.compacted(rows)?;
                self.rows.entry(statement).or_default().push(NewRows::Memory(rows));
            }
            Record::Stored { statement, segment, seal, cluster, deleted, fragment } => {
                let deleted = deleted.into_iter().map(|at| at as usize);
                let there = segments.get(segment, seal);
                let there = there.and_then(|there| StoredCluster::without(there, cluster as usize, deleted));
                self.stored(statement, there.map(|rows| rows.in_fragment(fragment)))?;
            }
            Record::Keys { statement, key, covered, files } => {
                let files = files.into_iter().map(|(number, seal)| segments.keys(number, seal)).collect::<Result<_>>();
                match files {
                    // What is saved has new ones: there may be more wrong with these than is seen now.
                    Ok(files) if self.lost.is_none() => {
                        let keys = RestoredKeys { files, covered };
                        self.keys.entry(statement).or_default().insert(key, keys);
                    }
                    // An index can be made of its rows.
                    _ => {}
                }
            }
            Record::CreateSchema { id, name } => catalog.restore_schema(ObjectId(id), &name)?,
            Record::Authority { text } => catalog.restore_authority(&text)?,
            Record::DropSchema { name } => drop(catalog.drop_schema(&name, true)?),
            Record::CreateTable(table) => self.create_table(table)?,
            Record::CreateView { id, name, definition, columns } => {
                let view = surroundings.view(&definition, columns)?;
                catalog.restore(ObjectId(id), &name, Relation::View(Arc::new(view)))?;
            }
            Record::CreateRoutine { id, name, definition } => {
                let routine = surroundings.routine(&definition)?;
                catalog.restore(ObjectId(id), &name, Relation::Routine(Arc::new(routine)))?;
            }
            Record::CreateEnum { id, name, array, labels } => {
                let definition = EnumDefinition { labels, array: ObjectId(array) };
                catalog.restore(ObjectId(id), &name, Relation::Enum(Arc::new(definition)))?;
            }
            Record::CreateComposite { id, name, array, columns } => {
                let definition = CompositeDefinition { columns, array: ObjectId(array) };
                catalog.restore(ObjectId(id), &name, Relation::Composite(Arc::new(definition)))?;
            }
            Record::CreateDomain { id, name, array, base, default, checks } => {
                let definition = self.domain(&name, ObjectId(array), &base, default, checks)?;
                catalog.restore(ObjectId(id), &name, Relation::Domain(Arc::new(definition)))?;
            }
            Record::CreateCollation { id, name, order } => {
                catalog.restore(ObjectId(id), &name, Relation::Collation(Arc::new(order_of_kept(&order))))?;
            }
            Record::CreateFiles { id, name, definition } => {
                let files = surroundings.files(&definition)?;
                catalog.restore(ObjectId(id), &name, Relation::Files(Arc::new(files)))?;
            }
            Record::Drop { name } => drop(catalog.drop(&name, |_| Ok(()))?),
            Record::CreateSequence { id, name, options, state } => {
                let sequence = Sequence::at(options, state);
                catalog.restore(ObjectId(id), &name, Relation::Sequence(Arc::new(sequence)))?;
            }
            Record::Alter { table, name, renamed, columns, places, rules } => {
                let table = ObjectRef { id: ObjectId(table), name };
                let (rules, _) = self.rules(table.id.0, rules, &renamed, &columns)?;
                let alteration = TableAlteration { name: renamed, columns, places, rules };
                catalog.restore_alteration(&table, alteration, &surroundings.memory())?;
            }
            Record::Count { sequence, name, state } => {
                catalog.restore_count(&ObjectRef { id: ObjectId(sequence), name }, state)?;
            }
            Record::Change { table, name, deleted, replace, statement } => {
                if let Some(lost) = self.lost.iter().flatten().find(|lost| lost.statement == Some(statement)) {
                    // The rows behind would get the numbers of those that are lost.
                    return Err(Error::file(lost.error.to_string()).with_code("XX001"));
                }
                let (inserted, memory) = self.counted(statement)?;
                let table = ObjectRef { id: ObjectId(table), name };
                catalog.restore_rows(&table, RowChange { deleted, inserted, memory, pairs: 0 }, replace)?;
            }
            Record::Group(records) => records.into_iter().try_for_each(|record| self.apply(record))?,
            Record::Moment { micros } => self.moment = self.moment.max(Some(micros)),
            Record::End { next_object } => catalog.reserve_ids(next_object),
        }
        Ok(())
    }

    /// The rows of a cluster are a statement's, if they could be read; of an image that does without, they are lost.
    fn stored(&mut self, statement: u64, rows: Result<StoredCluster>) -> Result<()> {
        let rows = match (rows, &mut self.lost) {
            (Err(error), Some(lost)) => {
                let before = lost.iter().filter(|lost| lost.statement == Some(statement)).count();
                let place = self.rows.get(&statement).map_or(0, Vec::len) + before;
                lost.push(LostCluster { statement: Some(statement), place, error, table: None });
                return Ok(());
            }
            (rows, _) => rows?,
        };
        self.rows.entry(statement).or_default().push(NewRows::Stored(rows));
        Ok(())
    }

    /// A domain as it is written down: its type is that of the one column of `base`.
    fn domain(
        &self,
        name: &RelationName,
        array: ObjectId,
        base: &SchemaRef,
        default: Option<String>,
        checks: Vec<(String, String)>,
    ) -> Result<DomainDefinition> {
        let check = |(name, condition): (String, String)| {
            Ok(Check { name, condition: Arc::new(self.surroundings.expression(&condition)?) })
        };
        let default = default.map(|default| self.surroundings.expression(&default)).transpose()?;
        let checks = checks.into_iter().map(check).collect::<Result<_>>()?;
        let column = base.fields().first();
        let definition =
            column.and_then(|column| DomainDefinition::of_column(column, default.map(Arc::new), checks, array));
        definition.ok_or_else(|| Error::bug(format!("the domain {name} is of no type")))
    }

    fn create_table(&mut self, table: TableRecord) -> Result<()> {
        let TableRecord { id, name, columns, rules, ids, numbers, fragments, next_number, statement } = table;
        let (rows, memory) = self.counted(statement)?;
        let version = self.catalog.next_table_version();
        let fragments = fragments.unwrap_or_else(|| vec![0; numbers.len()]);
        let mut gaps = Vec::new();
        let own = self.lost.iter_mut().flatten().filter(|lost| lost.statement == Some(statement));
        for lost in own {
            let rows = numbers.get(lost.place).and_then(|numbers| match numbers {
                RowNumbers::Listed(numbers) | RowNumbers::Moved { numbers, .. } => Some(numbers.len()),
                RowNumbers::From(_) => None,
            });
            lost.table = Some((name.clone(), rows));
            gaps.push(lost.place);
        }
        let is_there = |place: &usize| !gaps.contains(place);
        let kept = (0..numbers.len()).filter(is_there).collect::<Vec<_>>();
        let numbers = kept.iter().map(|place| numbers[*place].clone()).collect::<Vec<_>>();
        let fragments = kept.iter().filter_map(|place| fragments.get(*place).copied()).collect::<Vec<_>>();
        if rows.len() != numbers.len() || fragments.len() != numbers.len() {
            return Err(Error::file("a table's rows and their numbers do not fit"));
        }
        let pieces = rows.into_iter().zip(numbers).zip(fragments);
        let pieces = pieces.map(|((rows, numbers), fragment)| RestoredPiece { rows, numbers, fragment }).collect();
        let ids = ids.unwrap_or_else(|| ColumnIds::of_new(columns.fields().len()));
        let made = NativeTable::restored(&name, &columns, ids, pieces, next_number, memory, version)?;
        if let Some(store) = &self.key_store {
            made.keep_keys_in(store);
        }
        let (rules, places) = self.rules(id, rules, &name, &columns)?;
        let mut keys = self.keys.remove(&statement).unwrap_or_default();
        let keys = places.iter().map(|place| keys.remove(place)).collect();
        let (mut without, memory) = (rules.clone(), self.surroundings.memory());
        let made = match made.with_restored_rules(rules, keys, &memory, version) {
            // What its expressions call gives errors for its rows by now.
            Err(error) if is_of_statement(&error) && self.set_aside(id, &mut without, &places) => {
                made.with_restored_rules(without, vec![], &memory, version)?
            }
            made => made?,
        };
        self.catalog.restore(ObjectId(id), &name, Relation::Native(Arc::new(made)))
    }

    /// Takes the computed keys out of the rules of the table with this id, to be looked at when all files have been
    /// read; false if there are none.
    fn set_aside(&mut self, id: u64, rules: &mut TableRules, places: &[usize]) -> bool {
        let keys = std::mem::take(&mut rules.keys);
        let aside = self.unbound.entry(id).or_default();
        let before = aside.len();
        for (mut key, place) in keys.into_iter().zip(places) {
            match key.computed.take() {
                Some(ComputedKey { expressions, condition, .. }) => {
                    aside.push(UnboundKey { place: *place, key, expressions, condition });
                }
                None => rules.keys.push(key),
            }
        }
        aside.sort_by_key(|key| key.place);
        aside.len() > before
    }

    /// The rules of the table with this id, and where its keys were among those that were written down: those that
    /// nothing computes yet are not among its rules.
    fn rules(
        &mut self,
        id: u64,
        record: RulesRecord,
        table: &RelationName,
        columns: &SchemaRef,
    ) -> Result<(TableRules, Vec<usize>)> {
        let (mut keys, mut places, mut unbound) = (Vec::new(), Vec::new(), Vec::new());
        for (place, (key, computed)) in record.keys.into_iter().enumerate() {
            match self.key(key, computed, table, columns)? {
                Ok(key) => {
                    keys.push(key);
                    places.push(place);
                }
                Err(key) => unbound.push(UnboundKey { place, ..key }),
            }
        }
        match unbound.is_empty() {
            true => self.unbound.remove(&id),
            false => self.unbound.insert(id, unbound),
        };
        let expression = |(name, text): (String, String)| Ok((name, Arc::new(self.surroundings.expression(&text)?)));
        let check = |pair| expression(pair).map(|(name, condition)| Check { name, condition });
        let rules = TableRules {
            defaults: record.defaults.into_iter().map(expression).collect::<Result<_>>()?,
            generated: record.generated.into_iter().map(expression).collect::<Result<_>>()?,
            identities: record.identities.into_iter().collect(),
            checks: record.checks.into_iter().map(check).collect::<Result<_>>()?,
            keys,
            references: record.references,
            comments: record.comments.into_iter().collect(),
            unproven: record.unproven.into_iter().collect(),
            references_off: record.references_off,
            materialized: record.materialized,
            distribution: record.distribution,
            triggers: record.triggers,
            statistics: record.statistics,
        };
        Ok((rules, places))
    }

    /// A key that was written down; the inner error is one that nothing computes, as far as names are there.
    fn key(
        &self,
        key: Key,
        computed: Option<(Vec<String>, String)>,
        table: &RelationName,
        columns: &SchemaRef,
    ) -> Result<Result<Key, UnboundKey>> {
        let given = |text: &String| match text.is_empty() {
            true => Ok(None),
            false => self.surroundings.expression(text).map(|expression| Some(Arc::new(expression))),
        };
        let Some((expressions, condition)) = computed else { return Ok(Ok(key)) };
        let expressions = expressions.iter().map(given).collect::<Result<Vec<_>>>()?;
        let condition = given(&condition)?;
        let function = self.surroundings.row_function(table, columns, &key, &expressions, condition.as_deref());
        match function {
            Ok(function) => Ok(Ok(Key { computed: Some(ComputedKey { expressions, condition, function }), ..key })),
            Err(error) if error.kind() == ErrorKind::Resource => Err(error),
            Err(_) => Ok(Err(UnboundKey { place: 0, key, expressions, condition })),
        }
    }

    /// The rows of a statement, and what they are counted in.
    fn counted(&mut self, statement: u64) -> Result<(Vec<NewRows>, Reservation)> {
        let rows = self.rows.remove(&statement).unwrap_or_default();
        let mut memory = self.surroundings.memory();
        memory.grow(rows.iter().map(NewRows::bytes_in_memory).sum())?;
        Ok((rows, memory))
    }
}

/// Whether a statement could have made the error: its values or its names.
fn is_of_statement(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Input | ErrorKind::Value)
}
