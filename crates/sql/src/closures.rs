//! Functions of whoever embeds the library: closures that SQL calls by a name.
//!
//! A closure is called with whole columns of Arrow's and gives one, on a thread of the engine; another thread has the
//! worker's place meanwhile.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::compute::{CastOptions, can_cast_types, cast_with_options};
use arrow::datatypes::DataType;
use datafusion_expr::Volatility;
use diligence_base::{Error, Result};
use diligence_engine::expressions::Outside;
use diligence_engine::stages::Caller;
use diligence_storage::foreign_error::from_arrow;

/// What a closure is: columns of its arguments and how many rows they have, and a column of as many values.
pub type Closure = dyn Fn(&[ArrayRef], usize) -> Result<ArrayRef> + Send + Sync;

/// A closure that is a function's body. Two are the same if they were registered at once.
#[derive(Clone)]
pub(crate) struct Registered {
    pub closure: Arc<Closure>,
    /// What tells it from others.
    pub number: u64,
}

impl fmt::Debug for Registered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "closure {}", self.number)
    }
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
