//! Relations whose rows statements do not change, and the errors that say so.

use diligence_base::{Error, Result};
use diligence_catalog::{Object, RelationName, Resolved};

/// The error for a relation whose rows cannot be changed.
pub(super) fn unwritable(name: &RelationName, relation: &Resolved) -> Error {
    let error = Error::unsupported(format!("'{name}' is {} and cannot be written to", relation.a_kind()));
    let hint = "COPY … TO writes files; CREATE TABLE … AS makes a table that can be changed";
    error.with_code("42809").with_hint(hint)
}

/// Fails with 42809 if an object is a materialized view.
pub(super) fn refuse_materialized(object: &Object) -> Result<()> {
    match object.relation.materialized() {
        None => Ok(()),
        Some(_) => {
            let error = Error::input(format!("cannot change materialized view \"{}\"", object.name.name));
            Err(error.with_code("42809").with_hint("REFRESH MATERIALIZED VIEW computes its rows anew"))
        }
    }
}
