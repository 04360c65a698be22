//! Collations: the rows of `pg_collation`, and the numbers that types and columns have of them.

use diligence_catalog::SessionSnapshot;
use diligence_catalog::privileges::OWNER_OID;
use diligence_catalog::types::PostgresType;
use diligence_types::SqlType;
use diligence_types::collation::{C_OID, Collation, DEFAULT_OID, TextOrder};

use super::CATALOG_OID;
use super::rows::Cell;

/// `pg_collation`: PostgreSQL's collations, and those that statements made.
pub(super) fn collations(snapshot: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let row = |collation: &Collation, schema: u32| {
        let provider = match &collation.order {
            TextOrder::Icu { .. } => "i",
            _ if collation.is_default() => "d",
            _ => "c",
        };
        let locale = match (&collation.order, collation.name.as_str()) {
            (TextOrder::Icu { .. }, _) | (_, "default") => Cell::Null,
            (_, "POSIX") => "POSIX".into(),
            _ => "C".into(),
        };
        let of_icu = match &collation.order {
            TextOrder::Icu { locale, .. } => locale.as_str().into(),
            _ => Cell::Null,
        };
        let encoding = if collation.name == "ucs_basic" { 6 } else { -1 };
        vec![
            collation.oid.into(),
            collation.name.as_str().into(),
            schema.into(),
            OWNER_OID.into(),
            provider.into(),
            collation.is_deterministic().into(),
            encoding.into(),
            locale.clone(),
            locale,
            of_icu,
            Cell::Null,
        ]
    };
    let mut rows = Collation::all_predefined().map(|collation| row(&collation, CATALOG_OID)).collect::<Vec<_>>();
    for (object, collation) in snapshot.catalog.collations() {
        if snapshot.sees(&object.name) {
            rows.push(row(&collation, snapshot.schema_oid(&object.name.schema).unwrap_or_default()));
        }
    }
    rows
}

/// The number of the collation of a column or a type; 0 of one that has none.
pub(super) fn collation_oid(sql_type: &SqlType) -> u32 {
    let sql_type = sql_type.base();
    match (sql_type.collation(), sql_type.innermost()) {
        (Some(collation), _) => collation.oid,
        (None, SqlType::Name) => C_OID,
        (None, other) if other.is_collatable() => DEFAULT_OID,
        (None, _) => 0,
    }
}

/// The same of a type of PostgreSQL's, or of its arrays.
pub(super) fn own_collation(known: &PostgresType) -> u32 {
    SqlType::parse(known.sql_name).map_or(0, |sql_type| collation_oid(&sql_type))
}
