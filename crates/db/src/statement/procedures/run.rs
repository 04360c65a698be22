//! The steps of a block.

use std::cell::Cell;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use arrow::array::{Array, ArrayRef, AsArray, new_null_array};
use arrow::compute::cast;
use arrow::datatypes::Int64Type;
use diligence_base::{Error, ErrorKind, Result};
use diligence_engine::stages::Caller;
use diligence_sql::procedural::{
    Block, CURRENT_OF, Computed, CursorStep, CursorWay, Declaration, DeclaredType, Gives, Handler, Into, Loop, Over,
    Place, Procedure, Raise, Rows, Sql, Step, Target, placed,
};
use diligence_storage::foreign_error::from_arrow;
use diligence_types::SqlType;

use super::raised;
use super::variables::{Scope, Scopes, Typed, Variable};
use crate::plans::{BlockTrees, ComputedRow, ParsedStatement, PlannedStatement, Tree, Way};
use crate::session::Session;
use crate::sqlstate::sqlstate;
use crate::statement::result::{QueryResult, ResultKind};
use crate::statement::start::Short;

mod current;
mod cursors;
mod gathered;
mod loops;
mod raising;
mod ran;
mod statements;
mod transactions;
mod types;

use gathered::Gathered;
use ran::{Ran, type_of};

/// How often it is looked whether whoever called still wants the answer.
pub(super) const LOOK: Duration = Duration::from_millis(50);

/// How a block goes on.
enum Flow {
    /// With the next step.
    Next,
    /// Behind a loop or block.
    Exit(Option<String>),
    /// With a loop's next round.
    Continue(Option<String>),
    /// Not at all.
    Return,
}

/// A procedure that runs.
pub(super) struct Run<'r> {
    session: &'r Session,
    procedure: &'r Procedure,
    caller: &'r dyn Caller,
    scopes: Scopes,
    zone: String,
    trees: Arc<BlockTrees>,
    /// Rows of the last statement.
    count: Cell<u64>,
    /// What it gives.
    value: Option<Typed>,
    rows: Gathered,
    /// The errors that handlers are at work on.
    handled: Vec<Error>,
    level: usize,
    /// Those of the blocks around: names, what their queries take, and the queries.
    declared_cursors: Vec<(String, Vec<(String, String)>, Sql)>,
    /// Whether it may end the transaction, and how many blocks with handlers are being run.
    may_end: bool,
    guarded: usize,
    /// Whether the statement that is about to run changes a row that the transaction has made.
    stands_on_own: Cell<bool>,
}

impl<'r> Run<'r> {
    pub(super) fn new(session: &'r Session, procedure: &'r Procedure, caller: &'r dyn Caller) -> Self {
        Self {
            session,
            procedure,
            caller,
            scopes: Scopes::default(),
            zone: session.planner().zone_setting(),
            trees: session.parts().blocks().trees(&procedure.block),
            count: Cell::new(0),
            value: None,
            rows: Gathered::new(session.kept_memory()),
            handled: Vec::new(),
            level: 0,
            declared_cursors: Vec::new(),
            may_end: false,
            guarded: 0,
            stands_on_own: Cell::new(false),
        }
    }

    /// What it gives for these arguments, as columns. Fails as its statements do, and with 2F005 if it ends without
    /// RETURN though it gives a value.
    pub(super) fn called(mut self, arguments: Vec<ArrayRef>) -> Result<Vec<ArrayRef>> {
        let mut scope = Scope { label: Some(self.procedure.name.clone()), ..Scope::default() };
        if !self.procedure.block.is_sql {
            scope.variables.push(Variable::new("found", Typed::boolean(false)));
        }
        for (place, ((name, sql_type), value)) in self.procedure.parameters.iter().zip(arguments).enumerate() {
            let value = Typed { sql_type: sql_type.clone(), value: cast(&value, &sql_type.arrow()).unwrap_or(value) };
            let number = format!("${}", place + 1);
            if name.is_empty() {
                scope.variables.push(Variable::new(number, value));
            } else {
                scope.variables.push(Variable::new(name, value));
                scope.aliases.push((number, name.clone()));
            }
        }
        let mut columns = match &self.procedure.gives {
            Gives::Row(columns) | Gives::Rows(columns)
                if self.procedure.has_outputs && !self.procedure.block.is_sql =>
            {
                columns.clone()
            }
            _ => vec![],
        };
        if let (Gives::Value(sql_type), Some(output)) = (&self.procedure.gives, &self.procedure.output) {
            columns.push((output.clone(), sql_type.clone()));
        }
        for (name, sql_type) in columns {
            if !scope.variables.iter().any(|variable| variable.name == name) {
                scope.variables.push(Variable::new(name, Typed::null(sql_type)));
            }
        }
        self.scopes.push(scope);
        let block = self.procedure.block.clone();
        let flow = match self.block(&block)? {
            Flow::Exit(Some(label)) | Flow::Continue(Some(label)) => {
                let message =
                    format!("there is no label \"{label}\" attached to any block or loop enclosing this statement");
                return Err(Error::input(message).with_code("42601"));
            }
            Flow::Exit(None) | Flow::Continue(None) => {
                return Err(Error::input("EXIT cannot be used outside a loop").with_code("42601"));
            }
            flow => flow,
        };
        self.given(matches!(flow, Flow::Return))
    }

    fn given(mut self, has_returned: bool) -> Result<Vec<ArrayRef>> {
        match &self.procedure.gives {
            Gives::Nothing => Ok(vec![]),
            Gives::Trigger { .. } if !has_returned => {
                let error = Error::input("control reached end of trigger procedure without RETURN");
                Err(error.with_code("2F005"))
            }
            Gives::Trigger { columns, is_row } => match self.value.take() {
                Some(row) if *is_row && !row.is_null() => {
                    let given = row.fields();
                    if given.len() != columns.len() {
                        let error =
                            Error::input("returned row structure does not match the structure of the triggering table");
                        return Err(error.with_code("42804"));
                    }
                    let values = given.into_iter().zip(columns);
                    values.map(|((_, value), (_, to))| Ok(value.into_type(to, &self.zone)?.value)).collect()
                }
                _ => Ok(vec![]),
            },
            Gives::Value(sql_type) => {
                let value = match (self.value.take(), &self.procedure.output) {
                    (Some(value), _) => value,
                    (None, Some(output)) => self.variable(output)?.clone(),
                    // Of several rows the first counts.
                    (None, None) => match self.rows.first().and_then(|columns| columns.first()) {
                        Some(column) if !column.is_empty() => {
                            Typed { sql_type: sql_type.clone(), value: column.slice(0, 1) }
                        }
                        Some(_) => Typed::null(sql_type.clone()),
                        None if has_returned => Typed::null(sql_type.clone()),
                        None => {
                            let error = Error::input("control reached end of function without RETURN");
                            return Err(error.with_code("2F005"));
                        }
                    },
                };
                Ok(vec![value.into_type(sql_type, &self.zone)?.value])
            }
            Gives::Row(columns) => match (self.value.take(), self.rows.first()) {
                (Some(row), _) => {
                    let values = row.fields().into_iter().zip(columns);
                    let values = values.map(|((_, value), (_, to))| Ok(value.into_type(to, &self.zone)?.value));
                    values.collect()
                }
                (None, Some(first)) => {
                    let null = |place: usize| new_null_array(&columns[place].1.arrow(), 1);
                    let first = first.iter().enumerate();
                    Ok(first
                        .map(|(at, column)| if column.is_empty() { null(at) } else { column.slice(0, 1) })
                        .collect())
                }
                (None, None) => columns.iter().map(|(name, _)| Ok(self.variable(name)?.value.clone())).collect(),
            },
            Gives::Values(_) | Gives::Rows(_) => {
                let types = self.row_types();
                let none = || types.iter().map(|sql_type| new_null_array(&sql_type.arrow(), 0)).collect();
                Ok(self.rows.columns()?.unwrap_or_else(none))
            }
        }
    }

    /// The types of its rows' columns.
    fn row_types(&self) -> Vec<SqlType> {
        match &self.procedure.gives {
            Gives::Nothing | Gives::Trigger { .. } => vec![],
            Gives::Value(one) | Gives::Values(one) => vec![one.clone()],
            Gives::Row(columns) | Gives::Rows(columns) => columns.iter().map(|(_, given)| given.clone()).collect(),
        }
    }

    fn variable(&self, name: &str) -> Result<&Typed> {
        match self.scopes.find(name) {
            Some(variable) => variable.value(),
            None => Err(Error::input(format!("\"{name}\" is not a known variable")).with_code("42601")),
        }
    }

    /// Fails with kind `Cancelled` if nobody wants the answer any more.
    fn look(&self) -> Result<()> {
        if self.caller.is_stopped() { Err(Error::cancelled()) } else { Ok(()) }
    }

    fn block(&mut self, block: &Block) -> Result<Flow> {
        let mark = match block.handlers.is_empty() {
            true => None,
            false => self.session.transaction_mark(),
        };
        self.level += 1;
        let depth = self.level;
        self.scopes.push(Scope { label: block.label.clone(), ..Scope::default() });
        let mut scopes = 1;
        let is_guarded = usize::from(!block.handlers.is_empty());
        self.guarded += is_guarded;
        let done = self.declared(&block.declarations).and_then(|()| self.steps(&block.steps));
        self.guarded -= is_guarded;
        let done = match done {
            Err(error) if !block.handlers.is_empty() => {
                if let Some(mark) = mark {
                    self.session.back_to(&mark);
                }
                scopes += 1;
                self.handle(&block.handlers, error)
            }
            done => done,
        };
        debug_assert_eq!(depth, self.level);
        self.level -= 1;
        (0..scopes).for_each(|_| self.scopes.pop());
        match done? {
            Flow::Exit(Some(label)) if block.label.as_deref() == Some(label.as_str()) => Ok(Flow::Next),
            flow => Ok(flow),
        }
    }

    /// What the first handler for an error does; fails with the error if there is none.
    fn handle(&mut self, handlers: &[Handler], error: Error) -> Result<Flow> {
        let mut scope = Scope::default();
        scope.variables.push(Variable::new("sqlstate", Typed::text(sqlstate(&error))));
        scope.variables.push(Variable::new("sqlerrm", Typed::text(error.message())));
        self.scopes.push(scope);
        if error.kind() == ErrorKind::Cancelled && self.caller.is_stopped() {
            return Err(error);
        }
        for handler in handlers {
            if raised::is_for(&handler.conditions, &error)? {
                self.handled.push(error);
                let done = self.steps(&handler.steps);
                self.handled.pop();
                return done;
            }
        }
        Err(error)
    }

    fn declared(&mut self, declarations: &[Declaration]) -> Result<()> {
        for declaration in declarations {
            let (name, is_required) = (declaration.name.clone(), declaration.is_required);
            let variable = match &declaration.of {
                DeclaredType::Alias(of) => {
                    self.scopes.innermost().aliases.push((name, of.clone()));
                    continue;
                }
                DeclaredType::Record => Variable::record(name),
                DeclaredType::Cursor { parameters, query } => {
                    self.declared_cursors.push((name.clone(), parameters.clone(), query.clone()));
                    Variable::new(name, Typed::null(SqlType::Text))
                }
                DeclaredType::RowOf(table) => Variable::new(name, self.row_of(table)?),
                DeclaredType::TypeOf(named) => Variable::new(name, self.like(named)?),
                DeclaredType::Named(named) => Variable::new(name, self.null_of(named)?),
            };
            let mut variable = Variable { is_required, ..variable };
            if let Some(default) = &declaration.default {
                variable.begin_with(self.value_of(default)?, &self.zone)?;
            } else if is_required {
                let message =
                    format!("variable \"{}\" must have a default value, since it's declared NOT NULL", variable.name);
                return Err(Error::input(message).with_code("42601"));
            }
            variable.is_constant = declaration.is_constant;
            self.scopes.innermost().variables.push(variable);
        }
        Ok(())
    }

    fn steps(&mut self, steps: &[Step]) -> Result<Flow> {
        for step in steps {
            self.look()?;
            match self.step(step)? {
                Flow::Next => {}
                other => return Ok(other),
            }
        }
        Ok(Flow::Next)
    }

    fn step(&mut self, step: &Step) -> Result<Flow> {
        match step {
            Step::Nothing => {}
            Step::Assign { target, value } => {
                let value = self.value_of(value)?;
                self.assign(target, value)?;
            }
            Step::If { arms, otherwise } => {
                for (condition, steps) in arms {
                    if self.is_true(condition)? {
                        return self.steps(steps);
                    }
                }
                let Some(otherwise) = otherwise else {
                    let error = Error::input("case not found").with_code("20000");
                    return Err(error.with_hint("CASE statement is missing ELSE part."));
                };
                return self.steps(otherwise);
            }
            Step::Loop(repeated) => return self.repeat(repeated),
            Step::Leave { label, is_exit, when } => {
                let leaves = match when {
                    Some(condition) => self.is_true(condition)?,
                    None => true,
                };
                if leaves {
                    return Ok(if *is_exit { Flow::Exit(label.clone()) } else { Flow::Continue(label.clone()) });
                }
            }
            Step::Return(value) => {
                if let Some(value) = value {
                    self.return_value(value)?;
                }
                return Ok(Flow::Return);
            }
            Step::ReturnNext(value) => self.return_next(value.as_ref())?,
            Step::ReturnRows(rows) => {
                let ran = self.rows_of(rows)?;
                self.note(ran.row_count())?;
                self.give(&ran)?;
            }
            Step::Raise(raise) => self.raise(raise)?,
            Step::Assert(condition, message) => {
                if !self.is_true(condition)? {
                    let text = match message {
                        Some(message) => self.value_of(message)?.shown(&self.zone)?,
                        None => None,
                    };
                    let text = text.unwrap_or_else(|| "assertion failed".to_owned());
                    return Err(Error::value(text).with_code("P0004"));
                }
            }
            Step::Perform(sql) => {
                let ran = self.run(sql)?;
                self.note(ran.row_count())?;
            }
            Step::Execute(computed, into) => {
                let ran = self.computed(computed)?;
                self.count.set(ran.count());
                if let Some(into) = into {
                    self.store(&ran, into)?;
                }
            }
            Step::Statement(sql, into) => self.statement(sql, into.as_ref())?,
            Step::Diagnostics(items) => {
                for (target, item) in items {
                    let value = self.diagnosed(item)?;
                    self.assign(target, value)?;
                }
            }
            Step::Cursor(step) => self.cursor_step(step)?,
            Step::EndTransaction { commits, chains } => self.end_transaction(*commits, *chains)?,
            Step::Block(block) => return self.block(block),
        }
        Ok(Flow::Next)
    }

    /// RETURN with a value. Fails with code 42804 if it is not of the kind that the function gives.
    fn return_value(&mut self, value: &Sql) -> Result<()> {
        let gives_row = matches!(self.procedure.gives, Gives::Row(_));
        let is_nothing = matches!(self.procedure.gives, Gives::Nothing);
        if is_nothing {
            let message = "RETURN cannot have a parameter in function returning void";
            return Err(Error::input(message).with_code("42804"));
        }
        let value = self.value_of(value)?;
        if gives_row && !matches!(value.sql_type, SqlType::Record(_)) {
            let message = "cannot return non-composite value from function returning composite type";
            return Err(Error::input(message).with_code("42804"));
        }
        self.value = Some(value);
        Ok(())
    }

    /// A statement of SQL. Fails with its error, with code 42601 if its rows have nowhere to go, and as storing them
    /// does.
    fn statement(&mut self, sql: &Sql, into: Option<&Into>) -> Result<()> {
        let lent = self.lending(sql);
        let ran = self.run(sql);
        drop(lent);
        let ran = ran?;
        if into.is_none() && !ran.schema().fields().is_empty() && is_query(&sql.text) && !self.procedure.block.is_sql {
            let error = Error::input("query has no destination for result data").with_code("42601");
            return Err(error.with_hint("If you want to discard the results of a SELECT, use PERFORM instead."));
        }
        self.note(ran.count())?;
        if let Some(into) = into {
            // Of a query, the first of several rows is taken.
            if ran.writes() && ran.row_count() > 1 {
                return Err(several_rows());
            }
            self.store(&ran, into)?;
        }
        Ok(())
    }

    /// FOUND and ROW_COUNT after a statement.
    fn note(&mut self, count: u64) -> Result<()> {
        self.count.set(count);
        self.found(count > 0)
    }

    fn found(&mut self, found: bool) -> Result<()> {
        match self.scopes.find_mut("found") {
            Some(variable) => variable.assign(Typed::boolean(found), &self.zone),
            None => Ok(()),
        }
    }

    fn diagnosed(&self, item: &str) -> Result<Typed> {
        let error = self.handled.last();
        let text = |text: Option<&str>| Ok(Typed::text(text.unwrap_or("")));
        let about = error.map(|error| error.about().clone()).unwrap_or_default();
        match item {
            "row_count" => Ok(Typed::bigint(self.count.get() as i64)),
            "returned_sqlstate" => text(error.map(sqlstate)),
            "message_text" => text(error.map(Error::message)),
            "pg_exception_detail" => text(error.and_then(Error::detail)),
            "pg_exception_hint" => text(error.and_then(Error::hint)),
            "constraint_name" => text(about.constraint.as_deref()),
            "table_name" => text(about.table.as_deref()),
            "column_name" => text(about.column.as_deref()),
            "schema_name" => text(about.schema.as_deref()),
            "pg_context" | "pg_exception_context" | "pg_datatype_name" => text(None),
            other => Err(Error::input(format!("unrecognized GET DIAGNOSTICS item \"{other}\"")).with_code("42601")),
        }
    }

    fn is_true(&mut self, sql: &Sql) -> Result<bool> {
        let value = self.value_of(sql)?.into_type(&SqlType::Boolean, &self.zone)?;
        Ok(!value.is_null() && value.value.as_boolean().value(0))
    }

    /// Puts a value into a variable, a field or an element.
    fn assign(&mut self, target: &Target, value: Typed) -> Result<()> {
        let unknown = || Error::input(format!("\"{}\" is not a known variable", target.name)).with_code("42601");
        let mut value = value;
        if !target.elements.is_empty() {
            value = self.with_element(target, value)?;
        }
        let zone = self.zone.clone();
        if target.fields.is_empty() {
            return self.scopes.find_mut(&target.name).ok_or_else(unknown)?.assign(value, &zone);
        }
        // A variable of a block with a label.
        if self.scopes.find(&target.name).is_none() {
            let variable = self.scopes.find_mut(&target.fields[0]).ok_or_else(unknown)?;
            return variable.assign(value, &zone);
        }
        let mut whole = self.scopes.find(&target.name).ok_or_else(unknown)?.value()?.clone();
        whole = with_field(&whole, &target.fields, value, &zone)?;
        self.scopes.find_mut(&target.name).ok_or_else(unknown)?.assign(whole, &zone)
    }

    /// An array with another element.
    fn with_element(&self, target: &Target, value: Typed) -> Result<Typed> {
        let mut names = vec![target.name.as_str()];
        names.extend(target.fields.iter().map(String::as_str));
        let places = target.elements.join(", ");
        let text = format!("SELECT \"set element\"({}, {places}, \"value that is set\")", names.join("."));
        let tree = self.tree_of(&text, |names| match names {
            [only] if only == "value that is set" => Ok(Some(value.clone())),
            names => self.scopes.named(names),
        })?;
        if let Some(error) = tree.failed {
            return Err(error);
        }
        let values = tree.names.iter().map(|(names, _)| match names.as_slice() {
            [only] if only == "value that is set" => Ok(value.value.clone()),
            names => self.given_for(names),
        });
        let values = values.collect::<Result<Vec<_>>>()?;
        let ran = self.started(&tree.statement, &values)?;
        ran.value()
    }

    fn store(&mut self, ran: &Ran, into: &Into) -> Result<()> {
        match ran.row_count() {
            0 if into.is_strict => {
                self.found(false)?;
                return Err(Error::value("query returned no rows").with_code("P0002"));
            }
            0 => {
                self.found(false)?;
                return self.store_row(ran.nulls(), into);
            }
            1 => {}
            _ if into.is_strict => return Err(several_rows()),
            _ => {}
        }
        self.found(true)?;
        self.store_row(ran.row(0)?.unwrap_or_default(), into)
    }

    fn store_row(&mut self, values: Vec<(String, Typed)>, into: &Into) -> Result<()> {
        if let [only] = into.targets.as_slice()
            && only.fields.is_empty()
            && only.elements.is_empty()
        {
            let variable = self.scopes.find(&only.name);
            let takes_row = variable.is_some_and(|variable| {
                variable.sql_type.as_ref().is_none_or(|sql_type| matches!(sql_type, SqlType::Record(_)))
            });
            if takes_row {
                return self.assign(only, Typed::row(values)?);
            }
        }
        let mut values = values.into_iter();
        for target in &into.targets {
            let value = values.next().map_or_else(|| Typed::null(SqlType::Text), |(_, value)| value);
            self.assign(target, value)?;
        }
        Ok(())
    }

    fn return_next(&mut self, value: Option<&Sql>) -> Result<()> {
        let types = self.row_types();
        let values = match value {
            None => {
                let Gives::Rows(columns) = &self.procedure.gives else {
                    let message = "RETURN NEXT must have a parameter";
                    return Err(Error::input(message).with_code("42601"));
                };
                let output = |(name, _): &(String, SqlType)| {
                    self.scopes.output(name).map_or_else(|| self.variable(name), Variable::value).cloned()
                };
                columns.iter().map(output).collect::<Result<Vec<_>>>()?
            }
            Some(value) => {
                let value = self.value_of(value)?;
                match (&self.procedure.gives, &value.sql_type) {
                    (Gives::Values(_), _) => vec![value],
                    (Gives::Rows(_), SqlType::Record(_)) => {
                        value.fields().into_iter().map(|(_, value)| value).collect()
                    }
                    (Gives::Rows(_), _) => vec![value],
                    _ => {
                        let message = "cannot use RETURN NEXT in a non-SETOF function";
                        return Err(Error::input(message).with_code("42804"));
                    }
                }
            }
        };
        if values.len() != types.len() {
            return Err(Error::input("wrong record type supplied in RETURN NEXT").with_code("42804"));
        }
        let values = values.into_iter().zip(&types);
        let row = values.map(|(value, to)| Ok(value.into_type(to, &self.zone)?.value)).collect::<Result<_>>()?;
        self.rows.push(row)
    }

    /// Gives rows.
    fn give(&mut self, ran: &Ran) -> Result<()> {
        let types = self.row_types();
        let given = ran.schema().fields().len();
        if given != types.len() {
            let error = Error::input("structure of query does not match function result type").with_code("42804");
            let detail =
                format!("Number of returned columns ({given}) does not match expected column count ({}).", types.len());
            return Err(error.with_detail(detail));
        }
        if ran.row_count() == 0 {
            self.rows.push(types.iter().map(|sql_type| new_null_array(&sql_type.arrow(), 0)).collect())?;
        }
        let mut next = 0;
        while let Some(batch) = ran.rows_from(next)? {
            next += batch.num_rows() as u64;
            let columns = batch.columns().iter().zip(ran.types()).zip(&types);
            let columns = columns.map(|((column, from), to)| {
                let value = cast(column, &from.arrow()).map_err(from_arrow)?;
                Ok(Typed { sql_type: from.clone(), value }.into_type(to, &self.zone)?.value)
            });
            let columns = columns.collect::<Result<Vec<_>>>()?;
            self.rows.push(columns)?;
        }
        Ok(())
    }

    fn rows_of(&mut self, rows: &Rows) -> Result<Ran> {
        match rows {
            Rows::Of(sql) => self.run(sql),
            Rows::Computed(computed) => self.computed(computed),
            Rows::Cursor { .. } => Err(Error::bug("a loop over a cursor opens it")),
        }
    }
}

/// The error for INTO where one row is wanted.
fn several_rows() -> Error {
    let error = Error::value("query returned more than one row").with_code("P0003");
    error.with_hint("Make sure the query returns a single row, or use LIMIT 1.")
}

fn is_query(text: &str) -> bool {
    let first = text.split_whitespace().next().unwrap_or_default();
    ["select", "values", "table"].iter().any(|word| first.eq_ignore_ascii_case(word))
}

/// A row with another value of a field, or of a field within it. Fails with 42703 if it has none of the name.
fn with_field(whole: &Typed, names: &[String], value: Typed, zone: &str) -> Result<Typed> {
    let Some((name, rest)) = names.split_first() else { return Ok(value) };
    let mut columns = whole.fields();
    let none = || Error::input(format!("record has no field \"{name}\"")).with_code("42703");
    let column = columns.iter_mut().find(|(known, _)| known == name).ok_or_else(none)?;
    column.1 = with_field(&column.1, rest, value, zone)?.into_type(&column.1.sql_type, zone)?;
    Typed::row(columns)
}

/// An error whose place is in the text of a body is none of the statement that was sent.
fn without_place(error: Error) -> Error {
    let Some(_) = error.span() else { return error };
    let mut plain = Error::new(error.kind(), error.message()).with_about(error.about().clone());
    if let Some(code) = error.code() {
        plain = plain.with_code(code);
    }
    if let Some(detail) = error.detail() {
        plain = plain.with_detail(detail);
    }
    if let Some(hint) = error.hint() {
        plain = plain.with_hint(hint);
    }
    plain
}
