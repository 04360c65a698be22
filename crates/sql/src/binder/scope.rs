//! Which column a name means, and to which SELECT an expression belongs.
//!
//! A [`Namespace`] is what one FROM clause gives; a [`Level`] is a SELECT that is being bound, with the SELECTs around
//! it. A name that a level does not know is looked for in the levels around it: its column is *free* in the relation of
//! the inner ones.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

use diligence_base::{Error, Result, Span};
use diligence_types::SqlType;
use diligence_types::record_type::RecordType;
use diligence_types::sql_type::RecordField;
use sqlparser::ast::{Ident, NamedWindowDefinition, SelectItem, Value};

pub(super) use super::clauses::Clause;
use super::fields::has_fields;
use super::grouping::GroupingCall;
use super::windows::WindowUse;
pub(super) use super::withs::{WithEntry, Withs};
use super::{Binder, name_place, normalized};
use crate::algebra::{AggregateItem, Column, ColumnId, Constant, FunctionItem, Scalar};
use crate::errors;
use crate::procedural::VariableName;

/// Something in FROM that has a name: a table, a subquery, a function.
#[derive(Debug)]
pub(super) struct Source {
    /// Its alias; a subquery may have none.
    pub name: Option<String>,
    /// Names that may stand in front of it, the nearest first: schema, catalog.
    pub qualifiers: Vec<String>,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Positions of columns that USING has merged with others.
    hidden: HashSet<usize>,
    by_name: OnceCell<HashMap<String, Vec<u32>>>,
    /// A column that is TRUE in rows of this source, and NULL in rows that an outer join made up; where one may.
    marker: Option<Column>,
    is_marker_used: Cell<bool>,
    /// Whether names do not find it: in a clause of MERGE for rows that it has no part in.
    is_out_of_reach: Cell<bool>,
    /// Whether it is a function with one column, whose whole row is that column.
    pub is_scalar: bool,
    /// The name that DuckDB has for its only column.
    pub own_name: Option<String>,
    /// How many of its last columns `*` does not stand for: those that SEARCH and CYCLE add, in the recursive term.
    pub added: usize,
    /// The columns of a table's primary key; none without one.
    pub key: Vec<ColumnId>,
    /// The numbers of a table's rows, which only their names find; where the statement has asked for them.
    pub number: Option<Column>,
    /// What `xmax` is of a row that has been written: 0, unless it has taken the place of another.
    pub xmax: Option<Scalar>,
    /// Whether it is a table.
    pub is_table: bool,
    /// What a table is called, as `regclass` reads it.
    pub relation: Option<String>,
    /// What of it may not be read.
    pub withheld: Withheld,
}

/// What of a table or view may not be read.
#[derive(Debug, Default)]
pub(super) struct Withheld {
    /// As messages have it.
    relation: String,
    /// The places of columns.
    places: Vec<usize>,
}

impl Withheld {
    /// Of a relation, columns of these names.
    pub(super) fn of((relation, names): (String, Vec<String>), columns: &[Column]) -> Self {
        let place = |name: &String| columns.iter().position(|column| column.name == *name);
        Self { relation, places: names.iter().filter_map(place).collect() }
    }
}

/// What tells in RETURNING of ON CONFLICT which rows were there: `(xmax = 0) AS inserted`.
const XMAX: &str = "xmax";

/// What the numbers of rows are called: in PostgreSQL, and in DuckDB.
const NUMBER_NAMES: [&str; 2] = ["ctid", "rowid"];

/// PostgreSQL's words that are functions without parentheses, and which the parser takes for names.
const WORDS: [&str; 2] = ["current_role", "current_schema"];

fn is_number_name(name: &Ident) -> bool {
    NUMBER_NAMES.contains(&normalized(name).as_str())
}

impl Source {
    pub(super) fn new(name: Option<String>, columns: Vec<Column>) -> Self {
        Self {
            name,
            qualifiers: Vec::new(),
            columns,
            hidden: HashSet::new(),
            by_name: OnceCell::new(),
            marker: None,
            is_marker_used: Cell::new(false),
            is_out_of_reach: Cell::new(false),
            is_scalar: false,
            own_name: None,
            added: 0,
            key: Vec::new(),
            number: None,
            xmax: None,
            is_table: false,
            relation: None,
            withheld: Withheld::default(),
        }
    }

    /// A value of its rows, which is NULL in those that an outer join made up.
    pub(super) fn where_it_is(&self, value: Scalar) -> Scalar {
        let Some(marker) = &self.marker else { return value };
        self.is_marker_used.set(true);
        let is_there = Scalar::IsNull(Box::new(marker.scalar())).negate();
        let sql_type = value.sql_type();
        Scalar::Case { arms: vec![(is_there, value)], otherwise: None, sql_type }
    }

    /// The columns that `*` stands for.
    pub(super) fn starred(&self) -> &[Column] {
        &self.columns[..self.columns.len().saturating_sub(self.added)]
    }

    fn positions(&self, name: &str) -> &[u32] {
        let by_name = self.by_name.get_or_init(|| {
            let mut map = HashMap::<String, Vec<u32>>::with_capacity(self.columns.len());
            for (position, column) in self.columns.iter().enumerate() {
                map.entry(column.name.clone()).or_default().push(position as u32);
            }
            map
        });
        by_name.get(name).map_or(&[], Vec::as_slice)
    }

    /// The column of a name; of an unquoted one whatever its case, if only one fits.
    fn find(&self, name: &Ident) -> Found {
        let mut found = Found::Nothing;
        for position in self.positions(&normalized(name)) {
            found.add(&self.columns[*position as usize]);
        }
        if found.is_nothing() && name.quote_style.is_none() {
            let folded = self.columns.iter().filter(|column| column.name.eq_ignore_ascii_case(&name.value));
            folded.for_each(|column| found.add(column));
        }
        found
    }
}

/// What a name was found to be.
enum Found {
    Nothing,
    One(Scalar),
    Several,
}

impl Found {
    fn add(&mut self, column: &Column) {
        *self = match self {
            Self::Nothing => Self::One(column.scalar()),
            _ => Self::Several,
        };
    }

    fn is_nothing(&self) -> bool {
        matches!(self, Self::Nothing)
    }
}

/// A column that USING made of one of each side.
#[derive(Debug)]
pub(super) struct Merged {
    column: Column,
    /// Whether USING has merged it again.
    is_hidden: bool,
}

/// What `*` shows, in order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Shown {
    /// A source's column.
    Of(usize, usize),
    /// A merged one.
    Merged(usize),
}

/// The names that a FROM clause gives.
#[derive(Debug, Default)]
pub(super) struct Namespace {
    pub(super) sources: Vec<Source>,
    merged: Vec<Merged>,
    shown: Vec<Shown>,
}

/// The name of a file without its folder and its endings: `orders` of `in/orders.csv.gz`. `None` of names without an
/// ending.
fn stem_of_file(name: &str) -> Option<&str> {
    let file = name.rsplit(['/', '\\']).next()?;
    file.split_once('.').map(|(stem, _)| stem).filter(|stem| !stem.is_empty())
}

impl Namespace {
    /// The names of one source.
    pub(super) fn of(source: Source) -> Self {
        let shown = (0..source.columns.len()).map(|position| Shown::Of(0, position)).collect();
        Self { sources: vec![source], merged: Vec::new(), shown }
    }

    /// The names of a source whose columns have its name in front of them.
    pub(super) fn of_qualified(mut source: Source) -> Self {
        source.hidden = (0..source.columns.len()).collect();
        Self::of(source)
    }

    /// The name that USING gives to the columns that it merges: they are found by it, and shown as they were.
    pub(super) fn of_merged(name: String, columns: Vec<Column>) -> Self {
        let hidden = (0..columns.len()).collect();
        Self { sources: vec![Source { hidden, ..Source::new(Some(name), columns) }], ..Self::default() }
    }

    /// Its first source is a table with a primary key of these columns.
    pub(super) fn has_key(&mut self, key: Vec<ColumnId>) {
        self.sources[0].key = key;
    }

    /// `*` does not stand for the last columns of its first source.
    pub(super) fn adds(&mut self, count: usize) {
        let source = &mut self.sources[0];
        source.added = count;
        let starred = source.starred().len();
        self.shown.retain(|shown| !matches!(shown, Shown::Of(0, position) if *position >= starred));
    }

    /// Both; the right one's behind the left one's. Fails with 42712 if a name is given twice, but for relations of
    /// different schemas that have no alias.
    pub(super) fn joined(mut self, right: Namespace) -> Result<Self> {
        let (sources, merged) = (self.sources.len(), self.merged.len());
        for source in &right.sources {
            let is_apart = |other: &Source| {
                let have_schemas = !other.qualifiers.is_empty() && !source.qualifiers.is_empty();
                have_schemas && other.qualifiers != source.qualifiers
            };
            let same = |other: &&Source| other.name == source.name && !is_apart(other);
            if let Some(name) = &source.name
                && self.sources.iter().any(|other| same(&other))
            {
                let error = Error::input(format!("table name \"{name}\" specified more than once"));
                return Err(error.with_code("42712").with_hint("give one of them an alias with AS"));
            }
        }
        self.sources.extend(right.sources);
        self.merged.extend(right.merged);
        self.shown.extend(right.shown.into_iter().map(|shown| match shown {
            Shown::Of(source, position) => Shown::Of(source + sources, position),
            Shown::Merged(index) => Shown::Merged(index + merged),
        }));
        Ok(self)
    }

    /// Gives a source other columns, under which no name was looked up yet; those that are too many are shown no more.
    pub(super) fn replace_columns(&mut self, source: usize, columns: Vec<Column>) {
        let count = columns.len();
        self.shown.retain(|shown| !matches!(shown, Shown::Of(of, position) if *of == source && *position >= count));
        let source = &mut self.sources[source];
        source.columns = columns;
        source.by_name = OnceCell::new();
    }

    /// The columns that `*` shows.
    pub(super) fn columns(&self) -> impl Iterator<Item = &Column> {
        self.shown.iter().map(|shown| self.column(*shown))
    }

    fn column(&self, shown: Shown) -> &Column {
        match shown {
            Shown::Of(source, position) => &self.sources[source].columns[position],
            Shown::Merged(index) => &self.merged[index].column,
        }
    }

    /// The columns of all sources but the first, and those that USING has made of them; each once.
    pub(super) fn beside_first(&self) -> Vec<Column> {
        let all = self.sources.iter().skip(1).flat_map(|source| &source.columns);
        let mut met = HashSet::new();
        let all = all.chain(self.merged.iter().map(|merged| &merged.column));
        all.filter(|column| met.insert(column.id)).cloned().collect()
    }

    /// How many columns USING has made.
    pub(super) fn merged_count(&self) -> usize {
        self.merged.len()
    }

    /// All columns of some sources may be NULL: an outer join makes up rows of them.
    pub(super) fn pad(&mut self, binder: &Binder<'_>, sources: Range<usize>, merged: Range<usize>) {
        for source in &mut self.sources[sources] {
            source.columns.iter_mut().chain(&mut source.number).for_each(|column| column.nullable = true);
            source.marker.get_or_insert_with(|| binder.numbers.named("present", SqlType::Boolean, true));
        }
        self.merged[merged].iter_mut().for_each(|merged| merged.column.nullable = true);
    }

    /// Forgets all sources but these: a semi join shows one side only.
    pub(super) fn keep(&mut self, sources: Range<usize>) {
        self.shown.retain(|shown| match shown {
            Shown::Of(source, _) => sources.contains(source),
            Shown::Merged(_) => false,
        });
        for shown in &mut self.shown {
            if let Shown::Of(source, _) = shown {
                *source -= sources.start;
            }
        }
        self.merged.clear();
        self.sources.truncate(sources.end);
        self.sources.drain(..sources.start);
    }

    /// What USING (or NATURAL) means by a name on one side. Fails with 42703 and 42702.
    pub(super) fn using(&self, name: &Ident, side: &str) -> Result<Shown> {
        let wanted = normalized(name);
        let fits = |exact: bool| {
            let same = move |column: &Column| {
                if exact { column.name == wanted } else { column.name.eq_ignore_ascii_case(&wanted) }
            };
            self.shown.iter().copied().filter(move |shown| same(self.column(*shown))).collect::<Vec<_>>()
        };
        let mut found = fits.clone()(true);
        if found.is_empty() && name.quote_style.is_none() {
            found = fits(false);
        }
        match found.as_slice() {
            [shown] => Ok(*shown),
            [] => {
                let message =
                    format!("column \"{}\" specified in USING clause does not exist in {side} table", name.value);
                let error = errors::at(Error::input(message).with_code("42703"), name_place(name));
                let known = self.columns().map(|column| column.name.clone()).collect::<Vec<_>>();
                Err(errors::suggest(error, &name.value, &known))
            }
            _ => {
                let message = format!("common column name \"{}\" appears more than once in {side} table", name.value);
                Err(errors::at(Error::input(message).with_code("42702"), name_place(name)))
            }
        }
    }

    /// A shown column as an expression.
    pub(super) fn shown(&self, shown: Shown) -> &Column {
        self.column(shown)
    }

    /// The names that NATURAL merges: those of columns on both sides, in the order of this one.
    pub(super) fn common(&self, right: &Namespace) -> Vec<Ident> {
        let theirs = right.columns().map(|column| column.name.as_str()).collect::<HashSet<_>>();
        let mut met = HashSet::new();
        let common = self.columns().filter(|column| theirs.contains(column.name.as_str()));
        let common = common.filter(|column| met.insert(column.name.clone()));
        common.map(|column| Ident::with_quote('"', column.name.clone())).collect()
    }

    /// Puts merged columns in front, and hides what they were made of: columns of the left side, which has `left` shown
    /// ones, and of the right.
    pub(super) fn merge(&mut self, merged: Vec<(Column, Shown, Shown)>) {
        let hidden = merged.iter().flat_map(|(_, left, right)| [*left, *right]).collect::<Vec<_>>();
        for shown in &hidden {
            match *shown {
                Shown::Of(source, position) => {
                    self.sources[source].hidden.insert(position);
                }
                Shown::Merged(index) => self.merged[index].is_hidden = true,
            }
        }
        let first = self.merged.len();
        self.merged.extend(merged.into_iter().map(|(column, ..)| Merged { column, is_hidden: false }));
        let new = (first..self.merged.len()).map(Shown::Merged);
        let rest = self.shown.iter().copied().filter(|shown| !hidden.contains(shown));
        self.shown = new.chain(rest).collect();
    }

    /// Shifts positions of a right side behind those of this one.
    pub(super) fn shifted(&self, shown: Shown) -> Shown {
        match shown {
            Shown::Of(source, position) => Shown::Of(source + self.sources.len(), position),
            Shown::Merged(index) => Shown::Merged(index + self.merged.len()),
        }
    }

    fn find(&self, name: &str, is_exact: bool) -> Found {
        let mut found = Found::Nothing;
        let same = |column: &Column| {
            if is_exact { column.name == name } else { column.name.eq_ignore_ascii_case(name) }
        };
        for merged in self.merged.iter().filter(|merged| !merged.is_hidden && same(&merged.column)) {
            found.add(&merged.column);
        }
        for source in self.reached() {
            if is_exact {
                for position in source.positions(name) {
                    if !source.hidden.contains(&(*position as usize)) {
                        found.add(&source.columns[*position as usize]);
                    }
                }
            } else {
                let columns = source.columns.iter().enumerate();
                let columns = columns.filter(|(position, column)| same(column) && !source.hidden.contains(position));
                columns.for_each(|(_, column)| found.add(column));
            }
        }
        found
    }

    /// The source of a name with what may stand in front of it.
    pub(super) fn source(&self, names: &[Ident]) -> Option<&Source> {
        let (last, front) = names.split_last()?;
        let same = |name: &Ident, other: &str| {
            normalized(name) == other || name.quote_style.is_none() && name.value.eq_ignore_ascii_case(other)
        };
        let fits = |source: &&Source, is_exact: bool| {
            let Some(alias) = &source.name else { return false };
            let is_same = if is_exact { normalized(last) == *alias } else { same(last, alias) };
            is_same
                && front.len() <= source.qualifiers.len()
                && front.iter().rev().zip(&source.qualifiers).all(|(name, other)| same(name, other))
        };
        let exact = self.reached().find(|source| fits(source, true));
        let found = exact.or_else(|| self.reached().find(|source| fits(source, false)));
        found.or_else(|| {
            // A file is found by its name without its folder and its endings, as in DuckDB.
            let is_stem = |source: &&Source| {
                let stem = source.name.as_deref().and_then(stem_of_file);
                front.is_empty() && stem.is_some_and(|stem| same(last, stem))
            };
            let mut files = self.reached().filter(is_stem);
            let file = files.next().filter(|_| files.next().is_none())?;
            // A column of the name goes first: it may be a struct.
            let is_column = self.columns().any(|column| same(last, &column.name));
            (!is_column).then_some(file)
        })
    }

    /// Has names find only those sources from now on whose places are wanted.
    pub(super) fn reach(&self, is_wanted: impl Fn(usize) -> bool) {
        let sources = self.sources.iter().enumerate();
        sources.for_each(|(place, source)| source.is_out_of_reach.set(!is_wanted(place)));
    }

    /// The sources that names find.
    pub(super) fn reached(&self) -> impl Iterator<Item = &Source> {
        self.sources.iter().filter(|source| !source.is_out_of_reach.get())
    }

    /// The numbers of all columns.
    pub(super) fn ids(&self) -> HashMap<ColumnId, &Column> {
        let sources = self.sources.iter();
        let sources = sources.flat_map(|source| source.columns.iter().chain(&source.marker).chain(&source.number));
        let merged = self.merged.iter().map(|merged| &merged.column);
        sources.chain(merged).map(|column| (column.id, column)).collect()
    }

    /// A column that is NULL in rows which a source has no part in; `None` if it has one in all.
    pub(super) fn presence(&self, source: usize) -> Option<Column> {
        let source = &self.sources[source];
        source.is_marker_used.set(source.marker.is_some());
        source.marker.clone()
    }

    /// The markers that something asked for, each with the columns of its source.
    pub(super) fn used_markers(&self) -> Vec<(Column, Vec<ColumnId>)> {
        let used = self.sources.iter().filter(|source| source.is_marker_used.get());
        let with_columns = |source: &Source| {
            let columns = source.columns.iter().map(|column| column.id).collect();
            source.marker.clone().map(|marker| (marker, columns))
        };
        used.filter_map(with_columns).collect()
    }
}

/// A SELECT that is being bound.
pub(super) struct Level<'s> {
    /// The one around it.
    pub outer: Option<&'s Level<'s>>,
    /// How many are around it.
    pub depth: usize,
    /// What its FROM gives.
    pub names: Namespace,
    /// The common table expressions that it sees.
    pub withs: &'s Withs<'s>,
    /// What is being bound.
    pub clause: Cell<Clause>,
    /// WINDOW.
    pub windows: &'s [NamedWindowDefinition],
    /// Its list, whose names WHERE and the list itself may use where nothing else has them, as in DuckDB.
    pub list: &'s [SelectItem],
    /// The names of the list that are being bound.
    pub named: RefCell<HashSet<String>>,
    /// Whether the arguments of an aggregate of this level are being bound.
    pub in_aggregate: Cell<bool>,
    /// Whether those of a window function are.
    pub in_window: Cell<bool>,
    /// Whether a name was found here by a level inside of it.
    pub is_read: Cell<bool>,
    /// The columns that levels inside of it read.
    pub read: RefCell<HashSet<ColumnId>>,
    /// What its list calls its expressions, for clauses that see these names where nothing else has them.
    pub aliases: RefCell<HashMap<String, Scalar>>,
    /// Aggregates that belong to it.
    pub aggregates: RefCell<Vec<(Column, AggregateItem)>>,
    /// Calls of GROUPING.
    pub groupings: RefCell<Vec<GroupingCall>>,
    /// Arguments in front of WITHIN GROUP, which are of the group and not of its rows.
    pub directs: RefCell<Vec<Scalar>>,
    /// Window functions that belong to it.
    pub window_uses: RefCell<Vec<WindowUse>>,
    /// Functions that give rows in its list, in layers: those of a layer may be arguments in the next.
    pub row_functions: RefCell<Vec<Vec<FunctionItem>>>,
    /// What is computed once per row because its value may change.
    pub hoisted: RefCell<Vec<(Column, Scalar)>>,
    /// Where columns stand that were met outside of aggregates, for errors.
    pub references: RefCell<BTreeMap<ColumnId, (Option<Span>, String)>>,
}

impl<'s> Level<'s> {
    pub(super) fn new(outer: Option<&'s Level<'s>>, withs: &'s Withs<'s>, names: Namespace, clause: Clause) -> Self {
        Self {
            outer,
            depth: outer.map_or(0, |outer| outer.depth + 1),
            names,
            withs,
            clause: Cell::new(clause),
            windows: &[],
            list: &[],
            named: RefCell::default(),
            in_aggregate: Cell::new(false),
            in_window: Cell::new(false),
            is_read: Cell::new(false),
            read: RefCell::default(),
            aliases: RefCell::default(),
            aggregates: RefCell::default(),
            groupings: RefCell::default(),
            directs: RefCell::default(),
            window_uses: RefCell::default(),
            row_functions: RefCell::default(),
            hoisted: RefCell::default(),
            references: RefCell::default(),
        }
    }

    /// This level and those around it, from the inside out.
    pub(super) fn chain(&self) -> impl Iterator<Item = &Level<'s>> {
        std::iter::successors(Some(self), |level| level.outer)
    }

    /// Whether a column comes from a level around this one.
    pub(super) fn is_outer(&self, id: ColumnId) -> bool {
        self.chain().skip(1).any(|at| at.read.borrow().contains(&id))
    }

    /// The level of this depth, this one or one around it.
    pub(super) fn at(&self, depth: usize) -> &Level<'s> {
        self.chain().find(|level| level.depth == depth).unwrap_or(self)
    }
}

/// What was met while an aggregate's arguments are bound.
pub(super) struct Tracker {
    /// The level at which the aggregate stands: columns of deeper ones are of subqueries in its arguments.
    pub depth: usize,
    /// The innermost level of the columns that were met.
    pub innermost: Option<usize>,
    /// The levels to which the aggregates belong that were met, also in subqueries.
    pub aggregates: Vec<usize>,
}

impl Binder<'_> {
    /// A column of some names is read.
    pub(super) fn reads(&self, names: &Namespace, id: ColumnId) {
        names.sources.iter().for_each(|source| self.reads_of(source, id));
    }

    /// A column of a source is read, if it is one.
    pub(super) fn reads_of(&self, source: &Source, id: ColumnId) {
        let Source { withheld, columns, .. } = source;
        if withheld.places.iter().any(|place| columns.get(*place).is_some_and(|column| column.id == id)) {
            self.context.denies(&withheld.relation);
        }
    }

    /// Notes that a column of this level was met.
    pub(super) fn met(&self, level: &Level<'_>, from: &Level<'_>, scalar: &Scalar, names: &[Ident]) {
        if let Scalar::Column { id, .. } = scalar {
            self.reads(&level.names, *id);
        }
        for tracker in self.trackers.borrow_mut().iter_mut().filter(|tracker| level.depth <= tracker.depth) {
            tracker.innermost = tracker.innermost.max(Some(level.depth));
        }
        if level.depth < from.depth {
            level.is_read.set(true);
            level.read.borrow_mut().extend(scalar.as_column());
        }
        if !level.in_aggregate.get()
            && let Scalar::Column { id, .. } = scalar
        {
            let place = names.first().and_then(name_place);
            let name = names.iter().map(|name| name.value.as_str()).collect::<Vec<_>>().join(".");
            level.references.borrow_mut().insert(*id, (place, name));
        }
    }

    /// The column that a name alone means; a whole row, if it is a source's. Fails with 42703, and 42702 if several
    /// columns have the name.
    pub(super) fn identifier(&self, name: &Ident, level: &Level<'_>) -> Result<Scalar> {
        match self.known_identifier(name, level)? {
            Some(scalar) => Ok(scalar),
            None => match self.of_list(name, level)? {
                Some(scalar) => Ok(scalar),
                None => match self.word(name).map(Scalar::Constant).or_else(|| self.by_other_name(&[], name, level)) {
                    Some(scalar) => Ok(scalar),
                    None => Err(unknown_column(name, level)),
                },
            },
        }
    }

    /// What one of [`WORDS`] says.
    fn word(&self, name: &Ident) -> Option<Constant> {
        if name.quote_style.is_some() {
            return None;
        }
        let word = WORDS.into_iter().find(|word| name.value.eq_ignore_ascii_case(word))?;
        self.is_transient.set(true);
        self.context.fact(word)
    }

    /// What the list calls by a name that nothing else has.
    fn of_list(&self, name: &Ident, level: &Level<'_>) -> Result<Option<Scalar>> {
        match level.clause.get() {
            Clause::Where | Clause::Select => self.listed(name, level),
            _ => Ok(None),
        }
    }

    /// What the list calls by a name; `None` for a name that stands for itself.
    pub(super) fn listed(&self, name: &Ident, level: &Level<'_>) -> Result<Option<Scalar>> {
        let wanted = normalized(name);
        let found = level.list.iter().find_map(|item| match item {
            SelectItem::ExprWithAlias { expr, alias } if normalized(alias) == wanted => Some(expr),
            _ => None,
        });
        let Some(expression) = found else { return Ok(None) };
        // A name that stands for itself stands for nothing.
        if !level.named.borrow_mut().insert(wanted.clone()) {
            return Ok(None);
        }
        let bound = self.scalar(expression, level).and_then(|scalar| self.evaluated_once(scalar, level));
        level.named.borrow_mut().remove(&wanted);
        bound.map(Some)
    }

    /// Like [`identifier`](Self::identifier); `None` if nothing has the name.
    pub(super) fn known_identifier(&self, name: &Ident, level: &Level<'_>) -> Result<Option<Scalar>> {
        let wanted = normalized(name);
        let passes: &[bool] = if name.quote_style.is_some() { &[true] } else { &[true, false] };
        for is_exact in passes {
            for at in level.chain() {
                match at.names.find(&wanted, *is_exact) {
                    Found::Nothing => {}
                    Found::One(scalar) => {
                        self.met(at, level, &scalar, std::slice::from_ref(name));
                        return Ok(Some(scalar));
                    }
                    Found::Several => return Err(ambiguous(name, at)),
                }
            }
        }
        let alias = level.chain().find_map(|at| at.aliases.borrow().get(&wanted).cloned());
        if let Some(found) = alias.or_else(|| self.whole_row(std::slice::from_ref(name), level)) {
            return Ok(Some(found));
        }
        if let Some(number) = self.table_number(name, level)? {
            return Ok(Some(number));
        }
        if name.value.eq_ignore_ascii_case(XMAX) {
            return Ok(level.names.sources.iter().find_map(|source| source.xmax.clone()));
        }
        if is_number_name(name) { self.row_number(name, level) } else { Ok(None) }
    }

    /// The number of a row of the one table that has such. Fails with 42702 if several have.
    fn row_number(&self, name: &Ident, level: &Level<'_>) -> Result<Option<Scalar>> {
        for at in level.chain() {
            let mut numbers = at.names.reached().filter_map(|source| source.number.as_ref());
            match (numbers.next(), numbers.next()) {
                // A table of this level goes before those around it, if it has numbers.
                (None, _) if at.names.sources.iter().any(|source| source.is_table) => {
                    if self.context.misses_row_numbers() {
                        return Ok(None);
                    }
                }
                (None, _) => {}
                (Some(column), None) => {
                    let scalar = column.scalar();
                    self.met(at, level, &scalar, std::slice::from_ref(name));
                    return Ok(Some(scalar));
                }
                (Some(_), Some(_)) => {
                    let message = format!("column reference \"{}\" is ambiguous", name.value);
                    return Err(errors::at(Error::input(message).with_code("42702"), name_place(name)));
                }
            }
        }
        self.context.misses_row_numbers();
        Ok(None)
    }

    /// The row of a source as a value, if the names are a source's.
    pub(super) fn whole_row(&self, names: &[Ident], level: &Level<'_>) -> Option<Scalar> {
        let (at, source) = level.chain().find_map(|at| Some((at, at.names.source(names)?)))?;
        for column in &source.columns {
            self.met(at, level, &column.scalar(), names);
        }
        if source.is_scalar
            && let [column] = source.columns.as_slice()
        {
            return Some(column.scalar());
        }
        let field = |column: &Column| RecordField { name: column.name.clone(), sql_type: column.sql_type.clone() };
        let sql_type = SqlType::Record(RecordType::row(source.columns.iter().map(field).collect()));
        let record =
            Scalar::Record { fields: source.columns.iter().map(Column::scalar).collect(), sql_type: sql_type.clone() };
        Some(source.where_it_is(record))
    }

    /// What names with dots between them mean: `table.column`, `schema.table.column`, `column.field`, and further
    /// fields. Fails with 42703 if a part is unknown, 42P01 if the first is.
    pub(super) fn compound(&self, names: &[Ident], level: &Level<'_>) -> Result<Scalar> {
        for length in (1..names.len()).rev() {
            let found = level.chain().find_map(|at| Some((at, at.names.source(&names[..length])?)));
            let Some((at, source)) = found else { continue };
            let (name, fields) = (&names[length], &names[length + 1..]);
            match source.find(name) {
                Found::One(scalar) => {
                    self.met(at, level, &scalar, &names[..length + 1]);
                    return self.fields(scalar, fields);
                }
                Found::Several => return Err(ambiguous(name, at)),
                Found::Nothing if fields.is_empty() && is_number_name(name) && source.number.is_some() => {
                    let number = source.number.as_ref().map(Column::scalar);
                    let number = number.ok_or_else(|| Error::bug("a number that is there is gone"))?;
                    self.met(at, level, &number, &names[..length + 1]);
                    return Ok(number);
                }
                Found::Nothing
                    if fields.is_empty() && name.value.eq_ignore_ascii_case(XMAX) && source.xmax.is_some() =>
                {
                    return source.xmax.clone().ok_or_else(|| Error::bug("xmax that is there is gone"));
                }
                Found::Nothing if names.len() > 2 => continue,
                Found::Nothing => {
                    if is_number_name(name) {
                        self.context.misses_row_numbers();
                    }
                    if let Some(number) = self.number_of_table(source, name) {
                        return Ok(number);
                    }
                    if let Some(value) = self.field_by_function(&names[..length], name, level)? {
                        return Ok(value);
                    }
                    let text = names.iter().map(|name| name.value.as_str()).collect::<Vec<_>>().join(".");
                    let error = Error::input(format!("no column is named '{text}'")).with_code("42703");
                    if let Some(hint) = errors::system_column_hint(&name.value) {
                        return Err(errors::at(error, name_place(name)).with_hint(hint));
                    }
                    let known = source.columns.iter().map(|column| column.name.clone()).collect::<Vec<_>>();
                    return Err(errors::suggest(errors::at(error, name_place(name)), &name.value, &known));
                }
            }
        }
        let (first, fields) = names.split_first().ok_or_else(|| Error::bug("a name without parts"))?;
        if let Some(scalar) = self.known_identifier(first, level)?
            && has_fields(&scalar.sql_type())
        {
            return self.fields(scalar, fields);
        }
        if let Some(scalar) = self.by_alias(names, level)? {
            return Ok(scalar);
        }
        let table = &names[names.len().saturating_sub(2)];
        let is_there = |source: &Source| source.name.as_deref() == Some(&normalized(table));
        if level.chain().flat_map(|at| &at.names.sources).any(|source| source.is_out_of_reach.get() && is_there(source))
        {
            let message = format!("invalid reference to FROM-clause entry for table \"{}\"", table.value);
            let detail = format!(
                "There is an entry for table \"{}\", but it cannot be referenced from this part of the query.",
                table.value
            );
            let error = Error::input(message).with_code("42P01").with_detail(detail);
            return Err(errors::at(error, name_place(first)));
        }
        let error = Error::input(format!("no table or alias is named '{}' here", table.value)).with_code("42P01");
        let mut known = level.chain().flat_map(|at| &at.names.sources).filter_map(|source| source.name.clone());
        let known = known.by_ref().collect::<Vec<_>>();
        Err(errors::suggest(errors::at(error, name_place(first)), &table.value, &known))
    }

    /// The column that a name means which a variable has as well, if that is to be the column. Fails with 42702 if it
    /// may be either.
    pub(super) fn column_instead(&self, value: &Value, level: &Level<'_>) -> Result<Option<Scalar>> {
        let Value::Placeholder(parameter) = value else { return Ok(None) };
        let Some(VariableName { names, is_column_first }) = VariableName::of(parameter) else { return Ok(None) };
        let Some(column) = self.column_of_names(&names, level)? else { return Ok(None) };
        if is_column_first {
            return Ok(Some(column));
        }
        let shown = names.iter().map(|name| name.value.as_str()).collect::<Vec<_>>().join(".");
        let error = Error::input(format!("column reference \"{shown}\" is ambiguous")).with_code("42702");
        Err(error.with_detail("It could refer to either a PL/pgSQL variable or a table column."))
    }

    /// The column or the row that exactly these names mean, if any.
    fn column_of_names(&self, names: &[Ident], level: &Level<'_>) -> Result<Option<Scalar>> {
        if let [name] = names {
            for at in level.chain() {
                match at.names.find(&name.value, true) {
                    Found::Nothing => {}
                    Found::One(scalar) => {
                        self.met(at, level, &scalar, names);
                        return Ok(Some(scalar));
                    }
                    Found::Several => return Err(ambiguous(name, at)),
                }
            }
            return Ok(self.whole_row(names, level));
        }
        let Some((name, front)) = names.split_last() else { return Ok(None) };
        let Some((at, source)) = level.chain().find_map(|at| Some((at, at.names.source(front)?))) else {
            return Ok(None);
        };
        match source.find(name) {
            Found::One(scalar) => {
                self.met(at, level, &scalar, names);
                Ok(Some(scalar))
            }
            _ => Ok(None),
        }
    }

    /// Whether names are a column's, or those of a field of one: `column`, `table.column`, `table.column.field`.
    pub(super) fn is_column(&self, names: &[Ident], level: &Level<'_>) -> bool {
        let Some((first, more)) = names.split_first() else { return false };
        let wanted = normalized(first);
        let mut found = level.chain().flat_map(|at| [true, false].map(|exact| at.names.find(&wanted, exact)));
        found.any(|found| !found.is_nothing())
            || !more.is_empty() && matches!(self.column_of_names(names, level), Ok(Some(_)))
            || more.len() > 1 && matches!(self.column_of_names(&names[..2], level), Ok(Some(_)))
    }
}

fn unknown_column(name: &Ident, level: &Level<'_>) -> Error {
    let error = Error::input(format!("no column is named '{}'", name.value)).with_code("42703");
    let error = errors::at(error, name_place(name));
    if let Some(hint) = errors::system_column_hint(&name.value) {
        return error.with_hint(hint);
    }
    let known = level.chain().flat_map(|at| at.names.columns()).map(|column| column.name.clone()).collect::<Vec<_>>();
    if let Some(other) = known.iter().find(|known| known.eq_ignore_ascii_case(&name.value)) {
        return error.with_hint(format!("did you mean \"{other}\"?"));
    }
    errors::suggest(error, &name.value, &known)
}

fn ambiguous(name: &Ident, level: &Level<'_>) -> Error {
    let message = if level.names.sources.len() > 1 {
        format!("the column '{}' is ambiguous: it is in more than one table", name.value)
    } else {
        format!("the column '{}' is ambiguous: the table has two of this name", name.value)
    };
    let error = errors::at(Error::input(message).with_code("42702"), name_place(name));
    error.with_hint(format!("write which one is meant: table.{}", name.value))
}
