//! Functions, procedures and macros that statements made, with what they take.

use std::sync::Arc;

use diligence_catalog::{
    ArgumentMode, CATALOG_NAME, DEFAULT_SCHEMA, Object, POSTGRES_SCHEMA, Relation, RelationName, Routine,
    SessionSnapshot,
};
use diligence_types::SqlType;

use super::{Cell, Row, named};

/// The routines that the session may use, with their names.
fn made(snapshot: &SessionSnapshot) -> impl Iterator<Item = (&Arc<Object>, &Arc<Routine>, &str)> {
    let objects = snapshot.catalog.all_objects().filter(move |object| snapshot.rights.may_use(&object.name));
    objects.filter_map(|object| {
        let Relation::Routine(routine) = &object.relation else { return None };
        let shown = object.name.routine()?;
        Some((object, routine, shown.split('(').next().unwrap_or(shown)))
    })
}

/// What tells a routine from others of its name.
fn specific(object: &Object, name: &str) -> Row {
    row! {
        "specific_catalog": CATALOG_NAME,
        "specific_schema": object.name.schema.as_str(),
        "specific_name": format!("{name}_{}", object.oid()),
    }
}

/// How a type is called: what kind it is of, the schema that it is in, and its name there.
fn names_of(snapshot: &SessionSnapshot, type_name: &str) -> [String; 3] {
    let of_postgres = |kind: String, name: String| [kind, POSTGRES_SCHEMA.to_owned(), name];
    match SqlType::parse(type_name) {
        Some(known) => {
            let (kind, name) = named(&known);
            of_postgres(kind, name)
        }
        None if type_name.starts_with("any") || matches!(type_name, "record" | "trigger") => {
            of_postgres(type_name.to_owned(), type_name.to_owned())
        }
        None => {
            let (element, is_array) = type_name.strip_suffix("[]").map_or((type_name, false), |own| (own, true));
            let parsed = RelationName::parse(element).unwrap_or_else(|| RelationName::new(DEFAULT_SCHEMA, element));
            let schema = match element.contains('.') {
                true => parsed.schema.clone(),
                false => {
                    let mut schemas = snapshot.catalog.all_objects().filter(|object| object.name.name == parsed.name);
                    schemas.next().map_or_else(|| DEFAULT_SCHEMA.to_owned(), |object| object.name.schema.clone())
                }
            };
            match is_array {
                true => ["ARRAY".to_owned(), schema, format!("_{}", parsed.name)],
                false => ["USER-DEFINED".to_owned(), schema, parsed.name],
            }
        }
    }
}

/// `routines`.
pub(super) fn routines(snapshot: &SessionSnapshot) -> Vec<Row> {
    let row = |(object, routine, name): (&Arc<Object>, &Arc<Routine>, &str)| {
        let (signature, language) = (routine.signature(), routine.language());
        let yes_or_no = |is_so: bool| if is_so { "YES" } else { "NO" };
        let mut row = specific(object, name);
        row.extend(row! {
            "routine_catalog": CATALOG_NAME,
            "routine_schema": object.name.schema.as_str(),
            "routine_name": name,
            "routine_type": if signature.is_procedure { "PROCEDURE" } else { "FUNCTION" },
            "routine_body": if language == "sql" { "SQL" } else { "EXTERNAL" },
            "external_language": language.to_uppercase(),
            "parameter_style": "GENERAL",
            "is_deterministic": yes_or_no(routine.volatility() == "i"),
            "sql_data_access": "MODIFIES",
            "schema_level_routine": "YES",
            "max_dynamic_result_sets": 0,
            "security_type": if routine.acts_as_owner() { "DEFINER" } else { "INVOKER" },
            "as_locator": "NO",
            "is_udt_dependent": "NO",
        });
        if !signature.is_procedure {
            row.insert("is_null_call", yes_or_no(routine.is_strict()).into());
        }
        if snapshot.rights.owns(&object.name) {
            row.insert("routine_definition", routine.body().into());
        }
        if let Some(result) = &signature.result {
            let [kind, schema, own] = names_of(snapshot, result);
            row.extend(row! {
                "data_type": kind,
                "type_udt_catalog": CATALOG_NAME,
                "type_udt_schema": schema,
                "type_udt_name": own,
                "dtd_identifier": 0,
            });
        }
        row
    };
    made(snapshot).map(row).collect()
}

/// `parameters`: columns of rows that a function gives are some that it gives, too.
pub(super) fn parameters(snapshot: &SessionSnapshot) -> Vec<Row> {
    let mut rows = Vec::new();
    for (object, routine, name) in made(snapshot) {
        for (place, argument) in (1_i32..).zip(routine.signature().arguments) {
            let mut row = specific(object, name);
            row.extend(row! {
                "ordinal_position": place,
                "parameter_mode": match argument.mode {
                    ArgumentMode::In | ArgumentMode::Variadic => "IN",
                    ArgumentMode::Out | ArgumentMode::Table => "OUT",
                    ArgumentMode::InOut => "INOUT",
                },
                "is_result": "NO",
                "as_locator": "NO",
                "dtd_identifier": place,
            });
            if !argument.name.is_empty() {
                row.insert("parameter_name", argument.name.into());
            }
            if let Some(default) = argument.default {
                row.insert("parameter_default", default.into());
            }
            if let Some(type_name) = &argument.type_name {
                let [kind, schema, own] = names_of(snapshot, type_name);
                row.extend(row! {
                    "data_type": kind,
                    "udt_catalog": CATALOG_NAME,
                    "udt_schema": schema,
                    "udt_name": own,
                });
            }
            rows.push(row);
        }
    }
    rows
}
