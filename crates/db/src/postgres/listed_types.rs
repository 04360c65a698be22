//! The types that the tables list: PostgreSQL's, and those that statements made.

use std::sync::Arc;

use diligence_catalog::types::{PostgresType, TYPES, field_type};
use diligence_catalog::{DomainDefinition, SessionSnapshot};

use super::CATALOG_OID;

/// A type as the tables list it.
pub(super) struct ListedType {
    pub(super) name: String,
    /// Its name in SQL.
    pub(super) sql_name: String,
    pub(super) schema: u32,
    /// `b`, `r` for a range, `m` for a multirange, `e` for an enum, `c` for a composite type, `d` for a domain, `p` for
    /// one that no column has.
    pub(super) kind: &'static str,
    pub(super) known: PostgresType,
    /// What a domain demands.
    pub(super) domain: Option<Arc<DomainDefinition>>,
}

/// Every type, without those of arrays.
pub(super) fn listed_types(snapshot: &SessionSnapshot) -> Vec<ListedType> {
    let known = TYPES.iter().map(|known| ListedType {
        name: known.name.to_owned(),
        sql_name: known.sql_name.to_owned(),
        schema: CATALOG_OID,
        kind: match known.category {
            "R" if known.name.ends_with("multirange") => "m",
            "R" => "r",
            "P" | "X" => "p",
            _ => "b",
        },
        known: *known,
        domain: None,
    });
    let made = snapshot.catalog.enums().filter(|(object, _)| snapshot.sees(&object.name)).map(|(object, one)| {
        let known = PostgresType {
            oid: one.oid,
            name: "enum",
            sql_name: "enum",
            bytes: 4,
            array_oid: one.array_oid,
            category: "E",
        };
        let schema = snapshot.schema_oid(&object.name.schema).unwrap_or_default();
        ListedType { sql_name: one.to_string(), name: one.name, schema, kind: "e", known, domain: None }
    });
    let rows = snapshot.catalog.composites().filter(|(object, _)| snapshot.sees(&object.name));
    let rows = rows.filter_map(|(object, one)| {
        let own = one.composite_name()?;
        let known = PostgresType {
            oid: own.oid,
            name: "record",
            sql_name: "record",
            bytes: -1,
            array_oid: own.array_oid,
            category: "C",
        };
        let schema = snapshot.schema_oid(&object.name.schema).unwrap_or_default();
        let (sql_name, name) = (one.to_string(), own.name.clone());
        Some(ListedType { sql_name, name, schema, kind: "c", known, domain: None })
    });
    let domains = snapshot.catalog.domains().filter(|(object, ..)| snapshot.sees(&object.name));
    let domains = domains.map(|(object, one, definition)| {
        let base = field_type(&one.base.base().field("value", true)).element;
        let known = PostgresType { oid: one.oid, name: "domain", sql_name: "domain", array_oid: one.array_oid, ..base };
        let schema = snapshot.schema_oid(&object.name.schema).unwrap_or_default();
        let domain = Some(definition.clone());
        ListedType { sql_name: one.to_string(), name: one.name, schema, kind: "d", known, domain }
    });
    known.chain(made).chain(rows).chain(domains).collect()
}
