//! Functions and procedures that statements made, as PostgreSQL lists them: `pg_proc` and what functions about them
//! look into.

use std::collections::HashMap;
use std::sync::Arc;

use diligence_catalog::authority::{Language, Subject};
use diligence_catalog::privileges::OWNER_OID;
use diligence_catalog::{Argument, ArgumentMode, Object, POSTGRES_SCHEMA, Relation, Routine, SessionSnapshot};
use diligence_types::functions;
use diligence_types::quoted_name;

use super::listed_types::listed_types;
use super::roles;
use super::rows::Cell;

/// `pg_language`: what functions are written in. PostgreSQL has no numbers for the others: they are some that it gives
/// to nothing.
const LANGUAGES: [(&str, u32); 8] = [
    ("sql", 14),
    ("plpgsql", 13_800),
    ("python", 13_801),
    ("plpython3u", 13_802),
    ("python_arrow", 13_803),
    ("python_aggregate", 13_804),
    ("wasm", 13_805),
    ("wasm_arrow", 13_806),
];

/// The number of `pg_language`.
const PG_LANGUAGE: u32 = 2612;

fn language_oid(name: &str) -> u32 {
    LANGUAGES.iter().find(|(known, _)| *known == name).map_or(0, |(_, oid)| *oid)
}

pub(super) fn languages(snapshot: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let row = |(name, oid): &(&str, u32)| {
        let is_sql = *name == "sql";
        let language = Language::named(name);
        let grants = language.map_or(Cell::Null, |language| roles::grants(snapshot, Subject::Language(language)));
        // In those that are not granted nobody can do more than in SQL.
        let is_trusted = language.is_none();
        // What runs functions is nothing that could be called. That there is something tells `\dL` what to list.
        let handler = if is_sql { 0 } else { *oid };
        let head = [(*oid).into(), (*name).into(), OWNER_OID.into(), (!is_sql).into(), is_trusted.into(), grants];
        head.into_iter().chain([handler, 0, 0, PG_LANGUAGE].map(Cell::from)).collect()
    };
    LANGUAGES.iter().map(row).collect()
}

/// Functions of PostgreSQL's that read values of many types, by which drivers tell what kind of type one is.
const RECEIVERS: [(&str, u32); 3] = [("array_recv", 2400), ("record_recv", 2402), ("enum_recv", 3532)];
/// Numbers of those of a single type begin here; nobody asks for their names.
const RECEIVERS_FROM: u32 = 2_000_000;

/// The number of the function that reads values of a type.
pub(super) fn receiver(name: &str, is_array: bool, oid: u32) -> u32 {
    let name = if is_array { "array_recv".to_owned() } else { format!("{name}_recv") };
    RECEIVERS.iter().find(|(known, _)| *known == name).map_or(RECEIVERS_FROM + oid, |(_, oid)| *oid)
}

/// Types that only routines have, by their numbers.
const PSEUDO_TYPES: [(&str, u32); 13] = [
    ("record", 2249),
    ("record[]", 2287),
    ("anyarray", 2277),
    ("void", 2278),
    ("trigger", 2279),
    ("anyelement", 2283),
    ("anynonarray", 2776),
    ("anyenum", 3500),
    ("anyrange", 3831),
    ("anycompatible", 5077),
    ("anycompatiblearray", 5078),
    ("anycompatiblenonarray", 5079),
    ("anycompatiblerange", 5080),
];

/// The numbers of types by their names.
struct Types(HashMap<String, u32>);

impl Types {
    fn of(snapshot: &SessionSnapshot) -> Self {
        let mut numbers = HashMap::new();
        for listed in listed_types(snapshot) {
            let known = listed.known;
            for name in [listed.name, listed.sql_name] {
                numbers.entry(format!("{name}[]")).or_insert(known.array_oid);
                numbers.entry(name).or_insert(known.oid);
            }
        }
        numbers.extend(PSEUDO_TYPES.map(|(name, oid)| (name.to_owned(), oid)));
        Self(numbers)
    }

    /// 0, if there is none of the name.
    fn number(&self, name: Option<&str>) -> i64 {
        let found = name.and_then(|name| {
            let bare = || name.rsplit('.').next().unwrap_or(name).replace('"', "");
            self.0.get(name).or_else(|| self.0.get(&bare()))
        });
        found.map_or(0, |oid| i64::from(*oid))
    }
}

/// The routines that the session may use, with their names.
fn made(snapshot: &SessionSnapshot) -> impl Iterator<Item = (&Arc<Object>, &Arc<Routine>, &str)> {
    let objects = snapshot.catalog.all_objects().filter(move |object| snapshot.rights.may_use(&object.name));
    objects.filter_map(|object| {
        let Relation::Routine(routine) = &object.relation else { return None };
        let shown = object.name.routine()?;
        Some((object, routine, shown.split('(').next().unwrap_or(shown)))
    })
}

/// `pg_proc`: the functions that statements made, and some of PostgreSQL's own.
pub(super) fn routines(snapshot: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let types = Types::of(snapshot);
    let row = |(object, routine, name): (&Arc<Object>, &Arc<Routine>, &str)| {
        let signature = routine.signature();
        let number = |argument: &Argument| types.number(argument.type_name.as_deref());
        let all = &signature.arguments;
        let inputs = signature.inputs().collect::<Vec<_>>();
        let has_modes = all.iter().any(|argument| argument.mode != ArgumentMode::In);
        let has_names = all.iter().any(|argument| !argument.name.is_empty());
        let variadic = all.iter().find(|argument| argument.mode == ArgumentMode::Variadic);
        let element = variadic.and_then(|argument| argument.type_name.as_deref()?.strip_suffix("[]"));
        let defaults = inputs.iter().filter_map(|argument| argument.default.clone()).collect::<Vec<_>>();
        let gives_out = all.iter().any(|argument| matches!(argument.mode, ArgumentMode::Out | ArgumentMode::InOut));
        let result = match signature.is_procedure {
            true => types.number(Some(if gives_out { "record" } else { "void" })),
            false => types.number(signature.result.as_deref()),
        };
        vec![
            object.oid().into(),
            name.into(),
            snapshot.schema_oid(&object.name.schema).unwrap_or_default().into(),
            roles::owner_oid(snapshot, Subject::Object(object.id)),
            language_oid(&routine.language()).into(),
            100.into(),
            if signature.gives_rows { 1000 } else { 0 }.into(),
            Cell::Number(types.number(element)),
            "-".into(),
            match () {
                () if signature.is_procedure => "p",
                () if routine.is_aggregate() => "a",
                () => "f",
            }
            .into(),
            routine.acts_as_owner().into(),
            false.into(),
            routine.is_strict().into(),
            signature.gives_rows.into(),
            routine.volatility().into(),
            routine.parallel().into(),
            Cell::Number(inputs.len() as i64),
            Cell::Number(defaults.len() as i64),
            Cell::Number(result),
            Cell::Numbers(inputs.iter().map(|argument| number(argument)).collect()),
            if has_modes { Cell::Numbers(all.iter().map(number).collect()) } else { Cell::Null },
            match has_modes {
                true => Cell::Texts(all.iter().map(|argument| argument.mode.letter().to_owned()).collect()),
                false => Cell::Null,
            },
            match has_names {
                true => Cell::Texts(all.iter().map(|argument| argument.name.clone()).collect()),
                false => Cell::Null,
            },
            if defaults.is_empty() { Cell::Null } else { defaults.join(", ").into() },
            Cell::Null,
            routine.body().into(),
            Cell::Null,
            match routine.settings() {
                none if none.is_empty() => Cell::Null,
                settings => Cell::Texts(settings.iter().map(|(name, value)| format!("{name}={value}")).collect()),
            },
            roles::grants(snapshot, Subject::Object(object.id)),
        ]
    };
    let receiver = |(name, oid): (&str, u32)| {
        vec![oid.into(), name.into(), snapshot.schema_oid(POSTGRES_SCHEMA).unwrap_or(11).into(), OWNER_OID.into()]
    };
    made(snapshot).map(row).chain(RECEIVERS.map(receiver)).collect()
}

/// What functions about functions look into: the columns of `pg_routine_texts`.
pub(super) const TEXTS: &str = "routine_oid:o routine_name routine_schema:o routine_whole routine_types \
     routine_arguments routine_identity routine_result routine_text routine_body";

pub(super) fn texts(snapshot: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let row = |(object, routine, name): (&Arc<Object>, &Arc<Routine>, &str)| {
        let signature = routine.signature();
        vec![
            object.oid().into(),
            quoted_name(name).into_owned().into(),
            snapshot.schema_oid(&object.name.schema).unwrap_or_default().into(),
            format!("{}.{}", quoted_name(&object.name.schema), quoted_name(name)).into(),
            signature.types().into(),
            signature.declared(true).into(),
            signature.declared(false).into(),
            signature.returned().map_or(Cell::Null, Cell::Text),
            routine.shown_definition(&object.name).into(),
            routine.returned_expression().map_or(Cell::Null, Cell::Text),
        ]
    };
    made(snapshot).map(row).collect()
}

/// The functions and aggregates that are built in, a row for each overload: the columns of `pg_built_in_functions`.
pub(super) const BUILT_IN: &str = "function_name function_type return_type parameter_types:T varargs stability";

pub(super) fn built_in(_snapshot: &SessionSnapshot) -> Vec<Vec<Cell>> {
    // What the binder makes of other functions has no name that a statement could say, or one that says of what.
    const PARTS: [&str; 4] = ["_of_values", "_of_sums", "_of_pairs", "_in_bins"];
    let is_said = |name: &&'static str| {
        name.starts_with(|first: char| first.is_ascii_alphabetic())
            && !name.contains(' ')
            && !PARTS.iter().any(|part| name.ends_with(part))
    };
    let texts = |arguments: &[functions::Argument]| Cell::Texts(arguments.iter().map(ToString::to_string).collect());
    let text = |text: Option<String>| text.map_or(Cell::Null, Cell::Text);
    let scalar = |overload: &functions::Overload| {
        let stability = match overload.stability {
            functions::Stability::Immutable => "CONSISTENT",
            functions::Stability::Stable => "CONSISTENT_WITHIN_QUERY",
            functions::Stability::Volatile => "VOLATILE",
        };
        vec![
            overload.name.into(),
            "scalar".into(),
            text(overload.returns.type_name()),
            texts(&overload.arguments),
            text(overload.variadic.as_ref().map(ToString::to_string)),
            stability.into(),
        ]
    };
    let aggregate = |overload: &functions::AggregateOverload| {
        vec![
            overload.name.into(),
            "aggregate".into(),
            text(overload.returns.type_name()),
            texts(&overload.arguments),
            text(overload.variadic.as_ref().map(ToString::to_string)),
            "CONSISTENT".into(),
        ]
    };
    let mut names = functions::names().filter(is_said).collect::<Vec<_>>();
    names.sort_unstable();
    names.dedup();
    let rows = |name: &'static str| {
        let scalars = functions::scalars(name).iter().map(scalar);
        scalars.chain(functions::aggregates(name).iter().map(aggregate)).collect::<Vec<_>>()
    };
    names.into_iter().flat_map(rows).collect()
}
