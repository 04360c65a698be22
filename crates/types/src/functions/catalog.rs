//! How the families declare their functions.
//!
//! A family of functions is a file with a `declare` that adds its overloads in the order of the manual. An overload's
//! types are written as PostgreSQL's manual writes them:
//!
//! ```text
//! catalog.add("lpad(text, integer, text) -> text", kernel!(|text: &str, length: i32, fill: &str| ..));
//! catalog.add("concat_ws(text, variadic any) -> text", Body::Kernel(concat_ws)).lenient();
//! ```

use std::collections::HashMap;

use super::{AggregateBody, AggregateOverload, Argument, Body, Overload, Returns, Stability};
use crate::SqlType;

/// Before the names of overloads that DuckDB has beside PostgreSQL's: they are chosen where none of PostgreSQL's fits.
pub(super) const DUCKDB: &str = "duckdb ";

/// The catalog while it is declared.
#[derive(Default)]
pub(super) struct Catalog {
    /// Functions and operators by name, in lower case.
    pub(super) scalars: HashMap<&'static str, Vec<Overload>>,
    /// Aggregates by name.
    pub(super) aggregates: HashMap<&'static str, Vec<AggregateOverload>>,
}

impl Catalog {
    /// One more overload: strict and immutable unless what is called on it says otherwise.
    pub(super) fn add(&mut self, signature: &'static str, body: Body) -> &mut Overload {
        let signature = Signature::parse(signature);
        let overload = Overload {
            name: signature.name,
            arguments: signature.arguments,
            optional: signature.optional,
            variadic: signature.variadic,
            returns: signature.returns,
            is_strict: true,
            takes_zone: false,
            takes_configuration: false,
            stability: Stability::Immutable,
            body,
        };
        let overloads = self.scalars.entry(overload.name).or_default();
        overloads.push(overload);
        let last = overloads.len() - 1;
        &mut overloads[last]
    }

    /// Several names or signatures of one body.
    pub(super) fn add_all(&mut self, signatures: &[&'static str], body: Body) {
        for signature in signatures {
            self.add(signature, body.clone());
        }
    }

    /// Another name of a function, whose first overload it is.
    pub(super) fn alias(&mut self, signature: &'static str, like: &str) {
        let first = self.scalars.get(like).and_then(|overloads| overloads.first());
        let first = first.unwrap_or_else(|| panic!("no function {like} for {signature}"));
        let (body, is_strict) = (first.body.clone(), first.is_strict);
        self.add(signature, body).is_strict = is_strict;
    }

    /// Whether a scalar function of the name is there already.
    pub(super) fn has_scalar(&self, name: &str) -> bool {
        self.scalars.contains_key(name)
    }

    /// One more aggregate. `within group` behind the signature makes it one of an ordered set.
    pub(super) fn aggregate(&mut self, signature: &'static str, body: AggregateBody) -> &mut AggregateOverload {
        let (signature, is_ordered_set) = match signature.strip_suffix(" within group") {
            Some(signature) => (signature, true),
            None => (signature, false),
        };
        let signature = Signature::parse(signature);
        let overloads = self.aggregates.entry(signature.name).or_default();
        overloads.push(AggregateOverload {
            name: signature.name,
            arguments: signature.arguments,
            variadic: signature.variadic,
            is_ordered_set,
            returns: signature.returns,
            body,
        });
        let last = overloads.len() - 1;
        &mut overloads[last]
    }
}

impl Overload {
    /// It is called for NULLs too.
    pub(super) fn lenient(&mut self) -> &mut Self {
        self.is_strict = false;
        self
    }

    /// It takes the session's time zone as its last argument, which its signature does not name.
    pub(super) fn zoned(&mut self) -> &mut Self {
        self.takes_zone = true;
        self.stability = Stability::Stable;
        self
    }

    /// It takes the session's configuration of text search as its last argument, which its signature does not name.
    pub(super) fn configured(&mut self) -> &mut Self {
        self.takes_configuration = true;
        self.stability = Stability::Stable;
        self
    }

    /// Its value changes from statement to statement.
    pub(super) fn stable(&mut self) -> &mut Self {
        self.stability = Stability::Stable;
        self
    }

    /// Its value changes from call to call.
    pub(super) fn volatile(&mut self) -> &mut Self {
        self.stability = Stability::Volatile;
        self
    }

    /// What comes out depends on what goes in.
    pub(super) fn gives(
        &mut self,
        returns: fn(&[SqlType], &[Option<String>]) -> diligence_base::Result<SqlType>,
    ) -> &mut Self {
        self.returns = Returns::Of(returns);
        self
    }
}

impl AggregateOverload {
    /// What comes out depends on what goes in.
    pub(super) fn gives(&mut self, returns: fn(&[SqlType], &[Option<String>]) -> diligence_base::Result<SqlType>) {
        self.returns = Returns::Of(returns);
    }
}

/// A signature as it is written: `name(type, type?, variadic type) -> type`.
struct Signature {
    name: &'static str,
    arguments: Vec<Argument>,
    optional: usize,
    variadic: Option<Argument>,
    returns: Returns,
}

impl Signature {
    fn parse(text: &'static str) -> Self {
        let parts = text.rsplit_once(" -> ").and_then(|(call, returns)| {
            let (name, arguments) = call.strip_suffix(')')?.split_once('(')?;
            Some((name, arguments, returns))
        });
        let (name, arguments, returns) = parts.unwrap_or_else(|| panic!("no signature: {text}"));
        let mut signature =
            Self { name, arguments: vec![], optional: 0, variadic: None, returns: returned(returns, text) };
        for written in arguments.split(", ").filter(|written| !written.is_empty()) {
            if let Some(variadic) = written.strip_prefix("variadic ") {
                signature.variadic = Some(argument(variadic, text));
                continue;
            }
            let required = written.trim_end_matches('?');
            signature.optional += usize::from(required != written);
            signature.arguments.push(argument(required, text));
        }
        signature
    }
}

fn argument(written: &str, signature: &str) -> Argument {
    match written {
        "anyelement" => Argument::AnyElement,
        "anyarray" => Argument::AnyArray,
        "anycompatible" => Argument::AnyCompatible,
        "anycompatiblearray" => Argument::AnyCompatibleArray,
        "any" => Argument::Any,
        "anynonarray" => Argument::AnyNonArray,
        "anyrecord" => Argument::AnyRecord,
        "anymap" => Argument::AnyMap,
        "anyenum" => Argument::AnyEnum,
        name => Argument::Exact(named(name, signature)),
    }
}

fn returned(written: &str, signature: &str) -> Returns {
    match written {
        "anyelement" | "anycompatible" | "anyenum" => Returns::Element,
        "anyarray" | "anycompatiblearray" => Returns::Array,
        name => Returns::Type(named(name, signature)),
    }
}

fn named(name: &str, signature: &str) -> SqlType {
    // A signature that cannot be read is a mistake in this crate; the test of all overloads finds it.
    SqlType::parse(name).unwrap_or_else(|| panic!("no type {name} in {signature}")).without_modifier()
}
