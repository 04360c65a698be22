//! The names that a FROM clause gives: its sources, their columns, and what USING has merged.

use std::cell::{Cell, OnceCell};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

use diligence_base::{Error, Result};
use diligence_types::SqlType;
use sqlparser::ast::Ident;

use super::{Binder, name_place, normalized};
use crate::algebra::{Column, ColumnId, Scalar};
use crate::errors;

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
    pub is_out_of_reach: Cell<bool>,
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
    pub relation: String,
    /// The places of columns.
    pub places: Vec<usize>,
}

impl Withheld {
    /// Of a relation, columns of these names.
    pub(super) fn of((relation, names): (String, Vec<String>), columns: &[Column]) -> Self {
        let place = |name: &String| columns.iter().position(|column| column.name == *name);
        Self { relation, places: names.iter().filter_map(place).collect() }
    }
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
    pub(super) fn find(&self, name: &Ident) -> Found {
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
pub(super) enum Found {
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

    pub(super) fn is_nothing(&self) -> bool {
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

    /// A source whose columns are found with its name in front of them, and which `*` does not show.
    pub(super) fn add_unshown(&mut self, mut source: Source) {
        source.hidden = (0..source.columns.len()).collect();
        self.sources.push(source);
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

    /// The column of a name, of all sources that names find.
    pub(super) fn find(&self, name: &str, is_exact: bool) -> Found {
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
