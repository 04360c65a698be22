//! Which column a name means, and to which SELECT an expression belongs.
//!
//! A [`Namespace`] is what one FROM clause gives; a [`Level`] is a SELECT that is being bound, with the SELECTs around
//! it. A name that a level does not know is looked for in the levels around it: its column is *free* in the relation of
//! the inner ones.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, HashSet};

use diligence_base::{Error, Result, Span};
use diligence_types::SqlType;
use diligence_types::record_type::RecordType;
use diligence_types::sql_type::RecordField;
use sqlparser::ast::{Expr, Ident, NamedWindowDefinition, SelectItem, Value};

pub(super) use super::clauses::Clause;
use super::fields::has_fields;
use super::namespace::Found;
pub(super) use super::namespace::{Namespace, Source, Withheld};
pub(super) use super::withs::{WithEntry, Withs};
use super::{Binder, name_place, normalized, place};
use crate::algebra::{
    AggregateItem, Column, ColumnId, Constant, FunctionItem, Relation, Scalar, SortKey, Window, WindowItem,
};
use crate::errors;
use crate::procedural::VariableName;

/// What tells in RETURNING of ON CONFLICT which rows were there: `(xmax = 0) AS inserted`.
const XMAX: &str = "xmax";

/// What the numbers of rows are called: in PostgreSQL, and in DuckDB.
const NUMBER_NAMES: [&str; 2] = ["ctid", "rowid"];

/// PostgreSQL's words that are functions without parentheses, and which the parser takes for names.
const WORDS: [&str; 2] = ["current_role", "current_schema"];

fn is_number_name(name: &Ident) -> bool {
    NUMBER_NAMES.contains(&normalized(name).as_str())
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

/// A call of GROUPING: the column that stands for it until the groups are known.
pub(super) struct GroupingCall {
    pub column: Column,
    pub arguments: Vec<Scalar>,
}

/// The functions over one partitioning and order of a SELECT.
pub(super) struct WindowUse {
    pub partition: Vec<Scalar>,
    pub order: Vec<SortKey>,
    pub items: Vec<(Column, WindowItem)>,
}

impl WindowUse {
    /// Its expressions, to be changed.
    pub(super) fn scalars_mut(&mut self) -> impl Iterator<Item = &mut Scalar> {
        let order = self.order.iter_mut().map(|key| &mut key.scalar);
        let items = self.items.iter_mut().flat_map(|(_, item)| item.scalars_mut());
        self.partition.iter_mut().chain(order).chain(items)
    }

    /// The window on top of its input.
    pub(super) fn over(self, input: Relation) -> Relation {
        let Self { partition, order, items } = self;
        Relation::Window(Window { input: Box::new(input), partition, order, items })
    }
}

/// An expression of the SELECT list.
pub(super) struct Item<'e> {
    pub name: String,
    pub scalar: Scalar,
    /// Where it comes from; not of a column that `*` stands for.
    pub expression: Option<&'e Expr>,
}

impl Item<'_> {
    pub(super) fn place(&self) -> Option<Span> {
        self.expression.and_then(place)
    }
}

/// What was met while an aggregate's arguments are bound.
pub(super) struct Tracker {
    /// The level at which the aggregate stands: columns of deeper ones are of subqueries in its arguments.
    pub depth: usize,
    /// The innermost level of the columns that were met.
    pub innermost: Option<usize>,
    /// The innermost level of the columns in front of WITHIN GROUP.
    pub direct: Option<usize>,
    /// The levels to which the aggregates belong that were met, also in subqueries.
    pub aggregates: Vec<usize>,
}

impl Tracker {
    pub(super) fn new(depth: usize) -> Self {
        Self { depth, innermost: None, direct: None, aggregates: Vec::new() }
    }
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
