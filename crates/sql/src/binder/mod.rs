//! Names and types: from a query's syntax tree to a [`Relation`], as PostgreSQL reads it.
//!
//! The life of a SELECT:
//! 1. `with` binds its common table expressions, `from` its FROM clause to a relation and a [`namespace::Namespace`].
//! 2. `bound_select` binds WHERE, the SELECT list (`select_list`) and what is behind it; `expressions`, `predicates`,
//!    `operators` and `literals` each expression to a typed [`Scalar`]. What stands for rows of their own is collected
//!    on the way, in the [`scope::Level`] of the SELECT it belongs to: aggregates (`grouping`), window functions
//!    (`windows`) and functions that give rows.
//! 3. `grouping` puts groups below the list, `windows` windows above them, `bound_select` DISTINCT and ORDER BY on top,
//!    `order` LIMIT.
//! 4. `sets` brings the inputs of UNION, INTERSECT and EXCEPT to common types.
//!
//! Clauses that the parser's tree has no place for are spelled as functions whose names have a blank, which nobody can
//! write by accident; the parser's room makes them:
//! * `x BETWEEN SYMMETRIC a AND b`: `"between symmetric"(x, a, b)`;
//! * `ROWS FROM (f(…), g(…))`: the table function `"rows from"(f(…), g(…))`;
//! * `EXCLUDE TIES` and its kin in a window's frame: a first part of PARTITION BY, `"exclude ties"()`;
//! * `WHERE CURRENT OF c`: `"current of"('c')`, where nobody has put the number of the cursor's row in its place;
//! * `f(a, VARIADIC b)`: `f(a, "variadic array"(b))`;
//! * `GROUP BY DISTINCT a, b`: a first part of GROUP BY, `"group by distinct"()`;
//! * what DuckDB has beside PostgreSQL, such as `"lambda"(x, x + 1)`: see `parse/tokens/duckdb.rs`;
//! * `SEARCH DEPTH FIRST BY a, b SET s`: `SETTINGS "search depth" = (a, b, s)` in the common table expression's query;
//!   `CYCLE a SET m TO v DEFAULT w USING p`: `SETTINGS "cycle" = ((a), m, v, w, p)`.
//!
//! Invariants:
//! * A quoted literal, NULL and a parameter have no type ([`SqlType::Unknown`]) until their context gives one; no
//!   column and nothing in a bound relation has that type.
//! * Binding takes time linear in the statement's size: names are found by hash, subtrees are moved and not cloned.

mod aggregates;
mod bound_select;
mod catalog_queries;
mod changes;
mod clauses;
mod collations;
mod common_types;
mod comparisons;
mod composed;
mod constructors;
mod domains;
mod duckdb;
mod duckdb_types;
mod expressions;
mod fields;
mod file_arguments;
mod folds;
mod framed;
mod from;
mod function_rows;
mod functions;
mod grouping;
mod join_kinds;
mod joins;
mod json_queries;
mod json_rows;
mod json_table;
mod json_types;
mod keywords;
mod lateral;
mod lists;
mod literals;
mod locking;
mod made;
mod markers;
mod modifiers;
mod named_arguments;
mod named_tables;
mod names;
mod namespace;
mod objects;
mod operators;
mod order;
mod origins;
mod patterns;
mod predicates;
mod program_calls;
mod recursion;
mod returning_names;
mod routines;
mod row_functions;
mod samples;
mod scope;
mod select;
mod select_list;
mod sets;
mod shown;
mod shown_types;
mod sides;
mod sizes;
mod special_calls;
mod starred;
mod structs;
mod subqueries;
mod subscripts;
mod syntax;
mod table_numbers;
mod targets;
mod times;
mod tried;
mod turned;
mod unpacked;
mod variadic;
mod vectors;
mod window_calls;
mod windows;
mod with;
mod withs;
mod worded_calls;

#[cfg(test)]
mod golden;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

use datafusion_expr::{AggregateUDF, ScalarUDF};
use diligence_base::{Error, Result, Span};
use diligence_catalog::locks::RowLock;
use diligence_catalog::{DomainDefinition, LockWay};
use diligence_storage::Table;
use diligence_types::SqlType;
use diligence_types::collation::Collation;
use diligence_types::domain_type::DomainType;
use diligence_types::sql_type::OidKind;
use sqlparser::ast::{self, Ident, Spanned};

use crate::algebra::{Column, ColumnId, Constant, Numbers, Relation, Scalar};
use crate::default_order::DefaultOrder;
use crate::errors;
use crate::external::OptionValue;
use crate::kept_order::KeptOrder;
use crate::procedural::Procedure;
use crate::programs::{CombinedCall, ProgramCall};
use crate::routines::Definition;
use crate::written::WrittenRows;
pub(crate) use changes::{
    BoundChange, BoundJudgement, BoundLater, Changed, Conflict, Demanded, KeyTerm, MERGE_ACTION, MERGE_ACTION_OF,
    Meeting, MergeStep, NewValue, Overriding, bind_delete, bind_merge, bind_new_rows, bind_proposed_rows, bind_update,
};
pub(crate) use collations::not_collatable;
pub(crate) use domains::bind_domain_check;
pub(crate) use fields::{SET_FIELD, no_composite, no_field};
pub(crate) use folds::is_fold;
pub(crate) use literals::instant;
pub(crate) use locking::Lockable;
use locking::Locking;
pub(crate) use modifiers::{add_modifiers, made_wide, without_modifiers};
pub(crate) use operators::{dimensions, is_assignable};
pub(crate) use origins::Origin;
pub(crate) use routines::{called, check_routine};
pub(crate) use row_functions::LISTENING;
use scope::{Level, Withs};
pub(crate) use shown_types::shown_types;
pub(crate) use targets::{
    BoundIndex, CHANGED, Given, Held, Settling, Target, bind_any, bind_checks, bind_default, bind_index, bind_insert,
    bind_rule, bind_settled, bind_value, held, is_default, refuse_queries, type_of_rule,
};
pub(crate) use with::{bind_volatile, is_writing};

/// Stack that is left before more is taken.
const STACK_RED_ZONE: usize = 128 * 1024;
/// Stack that is taken then.
const STACK_GROWTH: usize = 2 * 1024 * 1024;
/// Views within views at most: a view that reads itself is found by it.
const VIEW_DEPTH_MAX: usize = 64;

/// What a name in FROM stands for.
pub(crate) enum Named {
    /// A table.
    Table {
        /// What is read.
        table: Arc<dyn Table>,
        /// Its name without schema: the alias that it has without one.
        name: String,
        /// The columns of its primary key; none without one.
        key: Vec<String>,
    },
    /// A view.
    View {
        /// What it selects.
        query: Arc<ast::Query>,
        /// Its columns' names; those of the query, if empty.
        columns: Vec<String>,
        /// The names of the columns that it had when it was made.
        made: Vec<String>,
        /// Its name without schema.
        name: String,
        /// Its schema, where the names in its query are looked up first.
        schema: String,
    },
}

/// What the binder asks about what is around a statement.
pub(crate) trait Context {
    /// What a name in FROM stands for; `None` if it stands for nothing. Fails if it stands for something that cannot be
    /// read.
    fn table(&self, name: &ast::ObjectName) -> Result<Option<Named>>;
    /// The columns of the table or view of a name, whose rows are a type; `None` if there is none. Whoever names a type
    /// reads no rows, so that no right is asked for.
    fn row_columns(&self, _name: &ast::ObjectName) -> Result<Option<Vec<(String, SqlType)>>> {
        Ok(None)
    }
    /// The number by which clients know the table or view of a name; `None` if there is none.
    fn oid(&self, _name: &ast::ObjectName) -> Option<u32> {
        None
    }
    /// What a name in FROM stands for, as messages have it, and the columns of it that may not be read.
    fn withheld(&self, _name: &ast::ObjectName) -> (String, Vec<String>) {
        (String::new(), vec![])
    }
    /// The statement reads a column of that which it may not read.
    fn denies(&self, _relation: &str) {}
    /// What a name in FROM stood for at a moment, in microseconds since 1970. Fails as [`table`](Self::table) does, and
    /// with 0A000 if it has no past.
    fn table_at(&self, name: &ast::ObjectName, _moment: i64) -> Result<Option<Named>> {
        Err(unsupported(format!("the past of {name}")))
    }
    /// The time that an expression of this type is now, in microseconds since 1970; `None` if it is NULL. Fails with
    /// 0A000 if it is not one for all rows.
    fn value_now(&self, _time: &Scalar) -> Result<Option<i64>> {
        Err(unsupported("a time of the past"))
    }
    /// A statement has asked for the numbers of rows, which its tables do not give. Whether they would if it were bound
    /// again.
    fn misses_row_numbers(&self) -> bool {
        false
    }
    /// Names are looked up as in this view of this schema from now on, until [`leave_view`](Self::leave_view).
    fn enter_view(&self, _schema: &str, _name: &str) {}
    /// Names are looked up as before.
    fn leave_view(&self) {}
    /// The session's time zone.
    fn zone(&self) -> &str;
    /// The session's configuration of text search.
    fn search_configuration(&self) -> &'static str {
        "english"
    }
    /// Whether scans may find rows by an index.
    fn uses_index(&self) -> bool {
        true
    }
    /// What ORDER BY means where a statement does not say it.
    fn default_order(&self) -> DefaultOrder {
        DefaultOrder::default()
    }
    /// When rows come in the order of what they are read from.
    fn kept_order(&self) -> KeptOrder {
        KeptOrder::default()
    }
    /// The time of the transaction's begin, in microseconds since 1970.
    fn now(&self) -> i64;
    /// The time of the statement's begin, likewise.
    fn statement_time(&self) -> i64 {
        self.now()
    }
    /// The parameter, counted from 0, that has the time of the transaction's begin as its value, if a plan is made for
    /// all values.
    fn now_parameter(&self) -> Option<usize> {
        None
    }
    /// What the session answers to a function without arguments: `current_user`, `version`.
    fn fact(&self, name: &str) -> Option<Constant>;
    /// Numbers for columns.
    fn numbers(&self) -> &Numbers;

    /// A function in FROM that is a table (`read_csv('…')`), by its name and its arguments, those without a name first.
    /// `None` if there is none. Fails if the arguments are wrong.
    fn table_function(&self, _name: &str, _arguments: &[(Option<String>, Constant)]) -> Result<Option<Named>> {
        Ok(None)
    }
    /// A function in FROM that reads files (`read_csv('…')`), by its name and its arguments, those without a name
    /// first. `None` if there is none. Fails if the arguments are wrong, or a file is.
    fn file_function(&self, _name: &str, _arguments: &[(Option<String>, OptionValue)]) -> Result<Option<Named>> {
        Ok(None)
    }
    /// Whether a function's name is one of those.
    fn is_file_function(&self, _name: &str) -> bool {
        false
    }
    /// A function that is an expression of its arguments `$1`, `$2`, …: `pg_get_viewdef` and its kin.
    fn template(&self, _name: &str, _arguments: usize) -> Option<Arc<ast::Expr>> {
        None
    }
    /// Whether a name without its schema finds the type that has this one.
    fn finds_type(&self, _schema: &str, _name: &str) -> bool {
        false
    }
    /// A function about the session: `has_table_privilege`, `nextval` and their kin.
    fn question(&self, _name: &str) -> Option<Arc<ScalarUDF>> {
        None
    }
    /// The value of `current_setting(name)`; `None` if there is no such setting.
    fn setting(&self, _name: &str) -> Option<String> {
        None
    }
    /// The value of a variable; `None` if it has none.
    fn variable(&self, _name: &str) -> Option<Constant> {
        None
    }
    /// All variables with their values.
    fn variables(&self) -> Vec<(String, Constant)> {
        vec![]
    }
    /// All settings with their values.
    fn settings(&self) -> Vec<(String, String)> {
        vec![]
    }
    /// The number of a table, a type, a function or a schema, for literals such as `'t'::regclass`.
    fn object(&self, _kind: OidKind, _name: &str) -> Option<i64> {
        None
    }
    /// The number of the routine that a text names, with the types of its arguments for `regprocedure`. Fails with
    /// 42725 if several have the name.
    fn routine_number(&self, _name: &str, _kind: OidKind) -> Result<Option<i64>> {
        Ok(None)
    }
    /// The functions of a name that statements made. Fails if one cannot be read.
    fn routines(&self, _name: &ast::ObjectName) -> Result<Vec<Definition>> {
        Ok(vec![])
    }
    /// The type of a name that a statement made. Fails if it may not be used.
    fn made_type(&self, _name: &ast::ObjectName) -> Result<Option<SqlType>> {
        Ok(None)
    }
    /// The collation of a name. Fails with 42704 if there is none.
    fn collation(&self, name: &ast::ObjectName) -> Result<Collation> {
        let last = name.0.last().and_then(|part| part.as_ident()).map(normalized).unwrap_or_default();
        Collation::predefined(&last).ok_or_else(|| no_collation(&last))
    }
    /// What a domain demands of its values. Fails with 42704 if it has been dropped.
    fn domain(&self, domain: &DomainType) -> Result<Arc<DomainDefinition>> {
        Err(Error::input(format!("type {domain} does not exist")).with_code("42704"))
    }
    /// The function that calls a process. Fails with 0A000 where there are none.
    fn program(&self, call: &ProgramCall<'_>) -> Result<Arc<ScalarUDF>> {
        Err(unsupported(format!("the function {}, which a process computes,", call.name)))
    }
    /// The aggregate whose states processes make. Fails with 0A000 where there are none.
    fn combined_program(&self, call: &CombinedCall<'_>) -> Result<Arc<AggregateUDF>> {
        Err(unsupported(format!("the aggregate {}, which a process computes,", call.name)))
    }
    /// The function that runs a procedure. Fails with 0A000 where there is no session to run it in.
    fn procedure(&self, procedure: Procedure, _is_strict: bool) -> Result<Arc<ScalarUDF>> {
        Err(unsupported(format!("the function {}, which is a block,", procedure.name)))
    }
    /// Looks whether a function that a process computes may be made, and whether a process takes it. Fails with 42501
    /// if it may not.
    fn check_program(&self, call: &ProgramCall<'_>) -> Result<()> {
        self.program(call).map(drop)
    }
    /// The table of a name in FROM, to be locked row by row. Fails with 42501 if the session may not, 0A000 if its rows
    /// cannot be locked.
    fn lockable(&self, name: &ast::ObjectName, _mode: RowLock, _way: LockWay) -> Result<Lockable> {
        Err(unsupported(format!("locking rows of {name}")))
    }
    /// Names of tables near an unknown one.
    fn relations(&self) -> Vec<String> {
        Vec::new()
    }
    /// The message and the hint for an unknown table's name that is a file's or a folder's.
    fn instead_of(&self, _name: &str) -> Option<(String, String)> {
        None
    }
    /// The type that a parameter has for the client, or for a statement of the WITH before; counted from 0.
    fn parameter(&self, _index: usize) -> Option<SqlType> {
        None
    }
    /// The rows of a query of texts, which is run for that. Fails as it does.
    fn texts_of(&self, query: &ast::Query) -> Result<Vec<Vec<Option<String>>>> {
        Err(unsupported(format!("running {query} while another query is planned")))
    }
    /// A statement has these parameters, as far as it decides their types.
    fn decides(&self, _parameters: &[Option<SqlType>]) {}
    /// The rows of an expression of the statement's WITH that runs by itself.
    fn written(&self, _cte: &ast::Cte) -> Option<Arc<WrittenRows>> {
        None
    }
}

/// A bound query.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    /// Its rows in order. It may have more columns than the query.
    pub relation: Relation,
    /// The query's columns. Names may repeat, and so may numbers.
    pub columns: Vec<Column>,
    /// The types of its parameters.
    pub parameters: Vec<SqlType>,
    /// Whether what the session or the clock said is in it, so that it is good for this transaction only.
    pub is_transient: bool,
    /// The places of columns whose digits and characters are no modifiers to clients ([`without_modifiers`]).
    pub computed: Vec<usize>,
    /// The places of columns with names of objects, and of which types their numbers are.
    pub objects: Vec<(usize, &'static str)>,
    /// The columns of tables and views that the query's columns are; none where clients are not told.
    pub origins: Vec<Option<Origin>>,
}

impl Bound {
    /// Rows of which clients are told nothing but the types.
    pub fn new(relation: Relation, columns: Vec<Column>, parameters: Vec<SqlType>, is_transient: bool) -> Self {
        Self { relation, columns, parameters, is_transient, computed: vec![], objects: vec![], origins: vec![] }
    }
}

/// Binds a query. Fails with kind `Input` and PostgreSQL's SQLSTATE if it means nothing, `Unsupported` if it means
/// something that there is no operator for.
pub(crate) fn bind_query(query: &ast::Query, context: &dyn Context) -> Result<Bound> {
    let binder = Binder::new(context);
    let mut rows = binder.settled(binder.query(query, None, &Withs::default())?)?;
    let parameters = binder.settled_parameters(&mut rows.relation);
    let columns = rows.columns();
    let is_transient = binder.is_transient.get();
    Ok(Bound::new(rows.relation, columns, parameters, is_transient))
}

/// As [`bind_query`], for rows that a client gets: tables and types have their names.
pub(crate) fn bind_shown(query: &ast::Query, context: &dyn Context) -> Result<Bound> {
    let binder = Binder::new(context);
    let rows = binder.settled(binder.query(query, None, &Withs::default())?)?;
    let objects = objects::places_of(&rows, query);
    let mut rows = binder.with_names_of_objects(rows)?;
    let parameters = binder.settled_parameters(&mut rows.relation);
    let mut columns = rows.columns();
    // To a client, a collation makes no other type.
    for column in columns.iter_mut().filter(|column| column.sql_type.has_collation()) {
        column.sql_type = column.sql_type.uncollated();
    }
    let computed = without_modifiers(&rows.relation, &columns);
    let origins = origins::of_columns(&rows.relation, &columns, &binder.origins.borrow());
    add_modifiers(&rows.relation, &mut columns);
    let is_transient = binder.is_transient.get();
    Ok(Bound { computed, objects, origins, ..Bound::new(rows.relation, columns, parameters, is_transient) })
}

/// The type that a name means, of times with its modifier. Fails with 42704 if there is none, 22023 for numbers in its
/// parentheses that it cannot have.
pub(crate) fn named_type(name: &ast::DataType, context: &dyn Context) -> Result<SqlType> {
    Binder::new(context).timed_type(name)
}

/// Binds one statement.
struct Binder<'a> {
    context: &'a dyn Context,
    numbers: &'a Numbers,
    /// The types of the parameters, as far as contexts have decided.
    parameters: RefCell<Vec<Option<SqlType>>>,
    /// Per aggregate whose arguments are being bound, the innermost level of the columns met.
    trackers: RefCell<Vec<scope::Tracker>>,
    /// The arguments of the functions that are being put in ([`Context::template`]), the innermost last.
    templates: RefCell<Vec<Arc<Vec<Scalar>>>>,
    /// The lists whose elements are read by queries that are being bound, the innermost last.
    lists: RefCell<Vec<Scalar>>,
    view_depth: Cell<usize>,
    /// What the columns of the tables and views of the statement are in the catalog.
    origins: RefCell<HashMap<ColumnId, Origin>>,
    /// How many functions that statements made are around what is being bound.
    routine_depth: Cell<usize>,
    is_transient: Cell<bool>,
    /// Of the query whose FROM is being bound.
    locking: RefCell<Option<Locking>>,
    /// How many parts of the statement were bound a second time, in another way ([`Binder::may_try_again`]).
    second_tries: Cell<u32>,
}

/// Parts of a statement that are bound a second time at most: those within others are bound as often again.
const SECOND_TRIES_MAX: u32 = 64;

impl<'a> Binder<'a> {
    fn new(context: &'a dyn Context) -> Self {
        Self {
            context,
            numbers: context.numbers(),
            parameters: RefCell::default(),
            trackers: RefCell::default(),
            templates: RefCell::default(),
            lists: RefCell::default(),
            view_depth: Cell::new(0),
            origins: RefCell::default(),
            routine_depth: Cell::new(0),
            is_transient: Cell::new(false),
            locking: RefCell::default(),
            second_tries: Cell::new(0),
        }
    }

    /// Whether a part that could not be bound may be bound in another way.
    fn may_try_again(&self) -> bool {
        let tries = self.second_tries.get() + 1;
        self.second_tries.set(tries);
        tries <= SECOND_TRIES_MAX
    }

    /// The types of the parameters, which are put into the relation; those that nothing has decided are texts.
    fn settled_parameters(&self, relation: &mut Relation) -> Vec<SqlType> {
        let parameters = self.parameters.borrow();
        operators::settle_parameters(relation, &parameters);
        self.context.decides(&parameters);
        parameters.iter().map(|sql_type| sql_type.clone().unwrap_or(SqlType::Text)).collect()
    }

    /// A new column for a scalar.
    fn column_for(&self, name: &str, scalar: &Scalar) -> Column {
        self.numbers.named(name, scalar.sql_type(), scalar.nullable())
    }
}

/// The rows of a query and what its list says of each.
struct Rows {
    relation: Relation,
    outputs: Vec<Output>,
}

/// A column of a query: a column of its relation, or a literal without a type that is not in the relation yet.
struct Output {
    name: String,
    scalar: Scalar,
}

impl Rows {
    /// The columns, once each output is one ([`Binder::settled`]).
    fn columns(&self) -> Vec<Column> {
        let column = |output: &Output| match &output.scalar {
            Scalar::Column { id, sql_type, nullable } => {
                Some(Column { id: *id, name: output.name.clone(), sql_type: sql_type.clone(), nullable: *nullable })
            }
            _ => None,
        };
        self.outputs.iter().filter_map(column).collect()
    }
}

impl Binder<'_> {
    /// The rows with every output a column of a type: what has none is `text`. Fails never, but for a value that is no
    /// text.
    fn settled(&self, mut rows: Rows) -> Result<Rows> {
        let mut computed = Vec::new();
        for output in &mut rows.outputs {
            if matches!(output.scalar, Scalar::Column { .. }) {
                continue;
            }
            let taken = std::mem::replace(&mut output.scalar, Scalar::boolean(false));
            let scalar = self.typed(taken)?;
            let column = self.column_for(&output.name, &scalar);
            output.scalar = column.scalar();
            computed.push((column, scalar));
        }
        rows.relation = rows.relation.mapped(computed);
        Ok(rows)
    }
}

/// A name as it is looked up: in lower case, unless it is quoted.
pub(crate) fn normalized(name: &Ident) -> String {
    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() }
}

/// Where a name stands in the text.
pub(crate) fn name_place(name: &Ident) -> Option<Span> {
    let start = name.span.start;
    (start.line > 0).then_some(Span { line: start.line, column: start.column })
}

/// Where a part of the tree begins in the text. Takes time linear in its size, so it is for errors only.
fn place(part: &impl Spanned) -> Option<Span> {
    let start = part.span().start;
    (start.line > 0).then_some(Span { line: start.line, column: start.column })
}

/// The error with a place, unless it has one.
fn placed(error: Error, place: impl FnOnce() -> Option<Span>) -> Error {
    if error.span().is_some() { error } else { errors::at(error, place()) }
}

/// The error for a collation that is not there.
pub(crate) fn no_collation(name: &str) -> Error {
    Error::input(format!("collation \"{name}\" for encoding \"UTF8\" does not exist")).with_code("42704")
}

/// The error for what the engine has no operator for.
fn unsupported(what: impl std::fmt::Display) -> Error {
    Error::unsupported(format!("{what} is not supported")).with_code("0A000")
}
