//! Functions of whoever embeds the library: closures that SQL calls by a name.
//!
//! A closure is called with whole columns of Arrow's and gives one, on a thread of the engine; another thread has the
//! worker's place meanwhile. It is declared in the words of `CREATE FUNCTION`, and is found before functions of that
//! name that statements made. It is not kept with the tables.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{Array, ArrayRef};
use arrow::compute::{CastOptions, can_cast_types, cast_with_options};
use arrow::datatypes::DataType;
use datafusion_expr::Volatility;
use datafusion_sql::parser::Statement;
use diligence_base::{Error, Result};
use diligence_engine::expressions::Outside;
use diligence_engine::stages::Caller;
use diligence_storage::foreign_error::from_arrow;
use parking_lot::RwLock;

use crate::parse;
use crate::routines::{Body, Definition};

/// What a closure is: columns of its arguments and how many rows they have, and a column of as many values.
pub type Closure = dyn Fn(&[ArrayRef], usize) -> Result<ArrayRef> + Send + Sync;

/// A closure that is a function's body. Two are the same if they were registered at once.
#[derive(Clone)]
pub(crate) struct Registered {
    closure: Arc<Closure>,
    number: u64,
}

impl fmt::Debug for Registered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "closure {}", self.number)
    }
}

/// The closures that a database knows.
#[derive(Default)]
pub struct Closures(RwLock<Vec<Definition>>);

impl fmt::Debug for Closures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.read().iter().map(|known| known.name.clone()).collect::<Vec<_>>();
        f.debug_tuple("Closures").field(&names).finish()
    }
}

impl Closures {
    /// Registers a closure under what stands behind `CREATE FUNCTION`: `f(x bigint, s text) RETURNS bigint IMMUTABLE
    /// STRICT`. Fails with 42601 if that is no such text, and with 42723 if there is one with these parameters.
    pub fn register(&self, signature: &str, closure: Arc<Closure>) -> Result<()> {
        // Numbers of processes' functions begin at 1.
        static NUMBERS: AtomicU64 = AtomicU64::new(1 << 63);
        let parsed = parse::parse_one(&format!("CREATE FUNCTION {signature} LANGUAGE python_arrow AS ''"))?;
        let Statement::Statement(statement) = parsed.statement else { return Err(no_signature(signature)) };
        let mut definition = Definition::of(&statement)?;
        let Body::Program(program) = &mut definition.body else { return Err(no_signature(signature)) };
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        Arc::make_mut(program).closure = Some(Registered { closure, number });
        let mut known = self.0.write();
        if known.iter().any(|known| (&known.name, known.arguments()) == (&definition.name, definition.arguments())) {
            let shown = format!("{}({})", definition.name, definition.arguments().unwrap_or_default());
            return Err(Error::input(format!("function {shown} is registered already")).with_code("42723"));
        }
        known.push(definition);
        Ok(())
    }

    /// Those of a name.
    pub(crate) fn named(&self, name: &str) -> Vec<Definition> {
        self.0.read().iter().filter(|known| known.name == name).cloned().collect()
    }
}

fn no_signature(signature: &str) -> Error {
    let error = Error::input(format!("'{signature}' declares no function")).with_code("42601");
    error.with_hint("a closure is declared like this: f(x bigint, s text) RETURNS bigint IMMUTABLE STRICT")
}

/// A closure as the engine calls it.
#[derive(Debug)]
pub(crate) struct ClosureFunction {
    pub name: String,
    pub registered: Registered,
    pub returns: DataType,
    pub is_strict: bool,
    pub volatility: Volatility,
}

impl Outside for ClosureFunction {
    fn name(&self) -> &str {
        &self.name
    }

    fn identity(&self) -> u64 {
        self.registered.number
    }

    fn returns(&self) -> DataType {
        self.returns.clone()
    }

    fn volatility(&self) -> Volatility {
        self.volatility
    }

    fn is_strict(&self) -> bool {
        self.is_strict
    }

    fn call(&self, arguments: &[ArrayRef], rows: usize, _caller: &dyn Caller) -> Result<ArrayRef> {
        let name = &self.name;
        let called = catch_unwind(AssertUnwindSafe(|| (self.registered.closure)(arguments, rows)));
        let values = called.unwrap_or_else(|panic| {
            let said = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let said = said.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
            Err(Error::value(format!("the function {name} panicked: {said}")).with_code("38000"))
        })?;
        if values.len() != rows {
            let message = format!("the function {name} returned {} values for {rows} rows", values.len());
            return Err(Error::value(message).with_code("39000"));
        }
        let found = values.data_type();
        if *found == self.returns {
            return Ok(values);
        }
        if !can_cast_types(found, &self.returns) {
            let message = format!("the function {name} returned Arrow's {found}, not {}", self.returns);
            return Err(Error::value(message).with_code("42804"));
        }
        let options = CastOptions { safe: false, ..CastOptions::default() };
        cast_with_options(&values, &self.returns, &options).map_err(|error| from_arrow(error).with_code("22003"))
    }
}
