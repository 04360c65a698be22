//! Bodies of functions and procedures that are statements, not one query: PL/pgSQL, and several statements of SQL.
//!
//! [`read`](read()) makes a [`Block`] of a body's text. Expressions and statements in it stay texts, which whoever runs
//! the block plans with the values of its variables. Whether they are SQL is looked at when a function is made
//! ([`check()`]), what they mean when they are reached, as in PostgreSQL.
//!
//! Invariant: nothing here runs anything.

mod check;
mod current;
mod places;
mod read;
mod words;

use std::sync::Arc;

use diligence_types::SqlType;
use diligence_types::record_type::RecordType;
use diligence_types::sql_type::RecordField;

pub(crate) use check::check;
pub use current::{CURRENT_OF, Numbered, at_number, changed_at_cursor, numbered};
pub use places::{Place, placed};
pub(crate) use places::{VariableName, number_of};
pub use read::{read, statements};

/// A function or procedure whose body is a block.
#[derive(Clone, Debug)]
pub struct Procedure {
    /// Its name.
    pub name: String,
    /// What it takes: names, which may be empty, with types.
    pub parameters: Vec<(String, SqlType)>,
    /// What it does.
    pub block: Arc<Block>,
    /// What it gives.
    pub gives: Gives,
    /// Whether the columns that it gives are variables of its block, as declared.
    pub has_outputs: bool,
    /// The variable whose value it gives, if RETURN says none.
    pub output: Option<String>,
    /// As whom it runs, if that is not whoever calls it: the owner of a SECURITY DEFINER one.
    pub acts_as: Option<String>,
    /// What settings are while it runs, by name.
    pub settings: Vec<(String, String)>,
}

/// The type of a row with these columns.
pub(crate) fn record_of(columns: &[(String, SqlType)]) -> SqlType {
    let field = |(name, sql_type): &(String, SqlType)| RecordField { name: name.clone(), sql_type: sql_type.clone() };
    SqlType::Record(RecordType::row(columns.iter().map(field).collect()))
}

/// What a procedure gives.
#[derive(Clone, Debug)]
pub enum Gives {
    /// Nothing.
    Nothing,
    /// One value.
    Value(SqlType),
    /// Columns, which are variables of its block: of one row.
    Row(Vec<(String, SqlType)>),
    /// Any number of values of a type.
    Values(SqlType),
    /// Any number of rows with these columns, which are variables of its block.
    Rows(Vec<(String, SqlType)>),
    /// A row of a table, or none: what a trigger's function gives. Only if `is_row` somebody looks at it.
    Trigger {
        /// The table's columns.
        columns: Vec<(String, SqlType)>,
        /// Whether it is asked for.
        is_row: bool,
    },
}

/// `[DECLARE …] BEGIN … [EXCEPTION …] END`.
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// Its label.
    pub label: Option<String>,
    /// Its variables, in order.
    pub declarations: Vec<Declaration>,
    /// What it does.
    pub steps: Vec<Step>,
    /// What it does about errors.
    pub handlers: Vec<Handler>,
    /// Whether it is a body in SQL, whose rows may go nowhere.
    pub is_sql: bool,
    /// What a name means that a variable has and a column.
    pub conflict: NameConflict,
    /// Whether a statement in it, or in a text in it, may change the row of a cursor.
    pub has_current: bool,
}

/// What a name means that a variable has and a column: `#variable_conflict`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NameConflict {
    /// Nothing: it is an error.
    #[default]
    Refused,
    /// The variable.
    Variable,
    /// The column.
    Column,
}

/// A part of a body that is SQL, as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sql {
    /// Tells it from others of its body.
    pub number: usize,
    /// Its text.
    pub text: String,
}

/// A variable.
#[derive(Clone, Debug)]
pub struct Declaration {
    /// Its name.
    pub name: String,
    /// Its type.
    pub of: DeclaredType,
    /// Whether nothing may be assigned to it.
    pub is_constant: bool,
    /// Whether it is never NULL.
    pub is_required: bool,
    /// Its first value.
    pub default: Option<Sql>,
}

/// What the type of a variable is said to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeclaredType {
    /// A type, or a table, of whose rows it is.
    Named(String),
    /// That of a column or of another variable: `t.c%TYPE`.
    TypeOf(String),
    /// A row of a table: `t%ROWTYPE`.
    RowOf(String),
    /// Whatever row is assigned: RECORD.
    Record,
    /// It is another variable: ALIAS FOR.
    Alias(String),
    /// A cursor of a query.
    Cursor {
        /// What the query takes: names with types.
        parameters: Vec<(String, String)>,
        /// The query.
        query: Sql,
    },
}

/// Something that a value goes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The variable.
    pub name: String,
    /// Fields within fields of it.
    pub fields: Vec<String>,
    /// Places within an array, as they are written.
    pub elements: Vec<String>,
}

/// Where the columns of a row go.
#[derive(Clone, Debug)]
pub struct Into {
    /// Variables; a single record takes all columns.
    pub targets: Vec<Target>,
    /// Whether exactly one row must come.
    pub is_strict: bool,
}

/// Rows of a query.
#[derive(Clone, Debug)]
pub enum Rows {
    /// That is written down.
    Of(Sql),
    /// Whose text is computed: EXECUTE.
    Computed(Computed),
    /// That of a cursor.
    Cursor {
        /// The cursor.
        name: String,
        /// What its query gets.
        arguments: Vec<(Option<String>, Sql)>,
    },
}

/// What is done with a cursor, which a variable names.
#[derive(Clone, Debug)]
pub enum CursorStep {
    /// OPEN.
    Open {
        /// The variable.
        name: String,
        /// What its query gets.
        arguments: Vec<(Option<String>, Sql)>,
        /// Its rows, if it is a refcursor.
        rows: Option<Rows>,
    },
    /// FETCH.
    Fetch {
        /// The variable.
        name: String,
        /// Where it goes.
        way: CursorWay,
        /// Where the row goes.
        into: Into,
    },
    /// MOVE.
    Move {
        /// The variable.
        name: String,
        /// Where it goes.
        way: CursorWay,
    },
    /// CLOSE.
    Close {
        /// The variable.
        name: String,
    },
}

/// Where a cursor goes.
#[derive(Clone, Debug)]
pub enum CursorWay {
    /// So many rows on, one without a number; back, if the sign is negative.
    By(Option<Sql>, i64),
    /// To a row, counted from 1; from the end, if it is negative.
    To(Sql),
    /// To the first row.
    First,
    /// To the last row.
    Last,
    /// Behind the last row.
    All,
    /// Before the first row.
    AllBackward,
}

/// A statement whose text is computed.
#[derive(Clone, Debug)]
pub struct Computed {
    /// The text.
    pub text: Sql,
    /// The values of `$1`, `$2`, ….
    pub using: Vec<Sql>,
}

/// What is done about errors.
#[derive(Clone, Debug)]
pub struct Handler {
    /// Of these conditions.
    pub conditions: Vec<Condition>,
    /// This.
    pub steps: Vec<Step>,
}

/// Which errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// All but that somebody cancels, and that an assertion fails.
    Others,
    /// Those of a name, as `division_by_zero`.
    Named(String),
    /// Those of a code.
    Code(String),
}

/// One step of a block.
#[derive(Clone, Debug)]
pub enum Step {
    /// NULL.
    Nothing,
    /// `a := e`.
    Assign {
        /// `a`.
        target: Target,
        /// `e`.
        value: Sql,
    },
    /// IF, and CASE. The first arm whose condition is true.
    If {
        /// Conditions with what is done.
        arms: Vec<(Sql, Vec<Step>)>,
        /// If none is true; an error, if there is nothing (a CASE without ELSE).
        otherwise: Option<Vec<Step>>,
    },
    /// LOOP.
    Loop(Loop),
    /// EXIT and CONTINUE.
    Leave {
        /// Of which loop; of the innermost without one.
        label: Option<String>,
        /// Whether it ends.
        is_exit: bool,
        /// Only if this is true.
        when: Option<Sql>,
    },
    /// RETURN.
    Return(Option<Sql>),
    /// RETURN NEXT.
    ReturnNext(Option<Sql>),
    /// RETURN QUERY.
    ReturnRows(Rows),
    /// RAISE.
    Raise(Raise),
    /// ASSERT, with its message.
    Assert(Sql, Option<Sql>),
    /// PERFORM: a query whose rows nobody wants.
    Perform(Sql),
    /// EXECUTE.
    Execute(Computed, Option<Into>),
    /// A statement of SQL.
    Statement(Sql, Option<Into>),
    /// GET DIAGNOSTICS.
    Diagnostics(Vec<(Target, String)>),
    /// OPEN, FETCH, MOVE and CLOSE.
    Cursor(CursorStep),
    /// COMMIT and ROLLBACK.
    EndTransaction {
        /// Whether its changes stay.
        commits: bool,
        /// Whether the next transaction is like it: AND CHAIN.
        chains: bool,
    },
    /// A block within.
    Block(Block),
}

/// A loop.
#[derive(Clone, Debug)]
pub struct Loop {
    /// Its label.
    pub label: Option<String>,
    /// How often.
    pub over: Over,
    /// What is done each time.
    pub steps: Vec<Step>,
}

/// How often a loop runs.
#[derive(Clone, Debug)]
pub enum Over {
    /// Until something leaves it.
    Forever,
    /// As long as this is true.
    While(Sql),
    /// Once for each number.
    Range {
        /// The variable, which is of the loop alone.
        name: String,
        /// The first number.
        from: Sql,
        /// The last.
        to: Sql,
        /// The distance.
        by: Option<Sql>,
        /// Whether it counts down.
        is_reverse: bool,
    },
    /// Once for each row.
    Rows {
        /// Where its columns go.
        targets: Vec<Target>,
        /// The rows.
        rows: Rows,
    },
    /// Once for each element of an array.
    Elements {
        /// Where it goes.
        target: Target,
        /// How many dimensions it has itself (SLICE).
        slice: usize,
        /// The array.
        array: Sql,
    },
}

/// RAISE.
#[derive(Clone, Debug)]
pub struct Raise {
    /// In lower case.
    pub level: String,
    /// The name or the code of a condition.
    pub condition: Option<Condition>,
    /// The message, with `%` for each value.
    pub format: Option<String>,
    /// The values.
    pub values: Vec<Sql>,
    /// Names in lower case, with values.
    pub options: Vec<(String, Sql)>,
}
