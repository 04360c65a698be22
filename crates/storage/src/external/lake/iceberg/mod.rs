//! Iceberg tables.

use diligence_base::Result;

use super::LakeMoment;
use super::place::Place;
use super::table::LakeTable;
use super::unsupported;

/// Opens a table in its last state, or in the one that is meant.
pub(super) fn open(place: Place, _: Option<LakeMoment>) -> Result<LakeTable> {
    Err(unsupported(&place.name, "an Iceberg table"))
}
