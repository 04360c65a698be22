//! Views of domains.

use diligence_catalog::{
    CATALOG_NAME, DEFAULT_SCHEMA, Object, POSTGRES_SCHEMA, RelationName, Resolved, SessionSnapshot,
};
use diligence_types::SqlType;
use diligence_types::domain_type::DomainType;

use super::{Cell, Row, describe};

/// A domain's name, by the columns that have it.
pub(super) fn named(domain: &DomainType) -> Row {
    let schema = domain.schema.as_deref().unwrap_or(DEFAULT_SCHEMA);
    row! { "domain_catalog": CATALOG_NAME, "domain_schema": schema, "domain_name": domain.name.as_str() }
}

fn seen(
    snapshot: &SessionSnapshot,
) -> impl Iterator<Item = (&Object, DomainType, &diligence_catalog::DomainDefinition)> {
    let all = snapshot.catalog.domains().filter(|(object, ..)| snapshot.sees(&object.name));
    all.map(|(object, domain, definition)| (object.as_ref(), domain, definition.as_ref()))
}

pub(super) fn domains(snapshot: &SessionSnapshot) -> Vec<Row> {
    let row = |(_, domain, definition): (&Object, DomainType, &diligence_catalog::DomainDefinition)| {
        let mut row = named(&domain);
        row.extend(row! { "udt_catalog": CATALOG_NAME, "udt_schema": POSTGRES_SCHEMA, "dtd_identifier": 1 });
        if let Some(default) = &definition.default {
            row.insert("domain_default", default.to_string().into());
        }
        describe(domain.base.below_domains(), &mut row);
        row
    };
    seen(snapshot).map(row).collect()
}

pub(super) fn constraints(snapshot: &SessionSnapshot) -> Vec<Row> {
    let mut rows = Vec::new();
    for (object, domain, definition) in seen(snapshot) {
        for check in &definition.checks {
            let mut row = named(&domain);
            row.extend(of_constraint(object, &check.name));
            row.extend(row! { "is_deferrable": "NO", "initially_deferred": "NO" });
            rows.push(row);
        }
    }
    rows
}

pub(super) fn checks(snapshot: &SessionSnapshot) -> Vec<Row> {
    let mut rows = Vec::new();
    for (object, _, definition) in seen(snapshot) {
        for check in &definition.checks {
            let mut row = of_constraint(object, &check.name);
            row.insert("check_clause", format!("({})", check.condition).into());
            rows.push(row);
        }
    }
    rows
}

fn of_constraint(object: &Object, name: &str) -> Row {
    row! {
        "constraint_catalog": CATALOG_NAME,
        "constraint_schema": object.name.schema.as_str(),
        "constraint_name": name,
    }
}

pub(super) fn base_types(snapshot: &SessionSnapshot) -> Vec<Row> {
    let row = |(_, domain, _): (&Object, DomainType, &diligence_catalog::DomainDefinition)| {
        let mut described = Row::new();
        describe(domain.base.below_domains(), &mut described);
        let mut row = named(&domain);
        row.extend(row! { "udt_catalog": CATALOG_NAME, "udt_schema": POSTGRES_SCHEMA });
        row.extend(described.remove("udt_name").map(|name: Cell| ("udt_name", name)));
        row
    };
    seen(snapshot).map(row).collect()
}

pub(super) fn columns(name: &RelationName, relation: &Resolved) -> Vec<Row> {
    let Ok(schema) = relation.schema() else { return vec![] };
    let row = |field: &arrow::datatypes::FieldRef| {
        let SqlType::Domain(domain) = SqlType::of_field(field)? else { return None };
        let mut row = named(&domain);
        row.extend(row! {
            "table_catalog": CATALOG_NAME,
            "table_schema": name.schema.as_str(),
            "table_name": name.name.as_str(),
            "column_name": field.name().as_str(),
        });
        Some(row)
    };
    schema.fields().iter().filter_map(row).collect()
}
