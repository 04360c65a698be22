//! The closures that a database knows by names.
//!
//! One is declared in the words of `CREATE FUNCTION`, and is found before functions of that name that statements made.
//! It is not kept with the tables.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use diligence_base::{Error, Result};
use parking_lot::RwLock;

use crate::closures::{Closure, Registered};
use crate::parse::{self, SyntaxTree};
use crate::routines::{Body, Definition};

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
        let SyntaxTree::Statement(statement) = parsed.statement else { return Err(no_signature(signature)) };
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
