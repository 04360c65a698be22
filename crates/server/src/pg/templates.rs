//! What a session knows of statements that differ in constants only.

use std::sync::Arc;

use diligence_base::recent::Recent;
use diligence_db::plans::GenericKey;
use diligence_db::{PlanningIdentity, SqlType};

use super::constants::Place;
use super::portal::Prepared;

/// Templates that a session knows, at most.
const TEMPLATES_MAX: usize = 64;

/// A session's templates.
pub(super) type Templates = Recent<(String, PlanningIdentity), Template>;

/// No templates yet.
pub(super) fn templates() -> Templates {
    Recent::new(TEMPLATES_MAX)
}

/// What a session knows of statements that differ in constants only.
#[derive(Clone)]
pub(super) enum Template {
    /// There was one.
    Met,
    /// They are planned with their constants.
    Unsuited,
    /// They run as a prepared statement, whose plan for all values is remembered under this key.
    Ready(Arc<Prepared>, GenericKey),
}

/// Whether a constant means the same as a parameter of the type that the statement has decided.
pub(super) fn is_same(place: Place, wanted: &SqlType) -> bool {
    use SqlType::{
        BigInt, Boolean, Bytea, Date, Double, Integer, Json, Jsonb, Numeric, Real, SmallInt, Text, Time, Timestamp,
        TimestampTz, Uuid, Varchar,
    };
    match (place, wanted) {
        (_, Integer | BigInt | Numeric(_) | Double) => true,
        // An integer constant is no smallint, and compared with a real it is a double.
        (Place::GivenInteger, SmallInt | Real) => true,
        (Place::Text, Text | Varchar(_) | Boolean | Date | Time | Timestamp | TimestampTz) => true,
        (Place::Text, Uuid | Json | Jsonb | Bytea) => true,
        _ => false,
    }
}
