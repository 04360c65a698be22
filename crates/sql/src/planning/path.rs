//! The search path: in which schemas names without one are looked up, in order.
//!
//! Temporary objects come first, and what describes the catalog last. What a statement makes goes into the first schema
//! of the path that there is.

use std::collections::HashSet;
use std::sync::Arc;

use diligence_base::{Error, Result};
use diligence_catalog::{
    CATALOG_NAME, DEFAULT_SCHEMA, Object, POSTGRES_SCHEMA, Relation as CatalogRelation, RelationName,
};
use diligence_types::SqlType;
use sqlparser::ast;

use super::around::{Around, parts_of};
use crate::catalog_functions::Visible;
use crate::quoting::literal;

/// What the setting is called.
pub(super) const SEARCH_PATH: &str = "search_path";
/// Its value in the beginning.
pub(super) const DEFAULT_PATH: &str = "\"$user\", public";

/// The schema in which DuckDB has what says no other.
const DUCKDB_SCHEMA: &str = "main";

/// A search path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SearchPath {
    /// As the setting is shown.
    pub(super) text: String,
    schemas: Vec<String>,
    /// Whether temporary objects are looked for.
    has_temporary: bool,
}

impl Default for SearchPath {
    fn default() -> Self {
        Self { text: DEFAULT_PATH.to_owned(), schemas: vec![DEFAULT_SCHEMA.to_owned()], has_temporary: false }
    }
}

impl SearchPath {
    /// The path that a setting says: names with commas between them, those with capitals in quotes. `$user` is nobody's
    /// schema here. Fails with code 22023 for what is no list of names.
    pub(super) fn of(text: &str) -> Result<Self> {
        let wrong = || Error::input(format!("'{text}' is no list of schemas")).with_code("22023");
        let mut schemas = Vec::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let name = match part.strip_prefix('"') {
                Some(rest) => rest.strip_suffix('"').ok_or_else(wrong)?.replace("\"\"", "\""),
                None => part.trim_matches('\'').to_lowercase(),
            };
            if name != "$user" && name != "pg_catalog" {
                schemas.push(name);
            }
        }
        Ok(Self { text: text.trim().to_owned(), schemas, has_temporary: false })
    }

    /// The same, with temporary objects.
    pub(super) fn with_temporary(&self, has_temporary: bool) -> Self {
        Self { has_temporary, ..self.clone() }
    }

    pub(super) fn has_temporary(&self) -> bool {
        self.has_temporary
    }
}

/// Names of types with commas between them, of which those in parentheses are parts of a type.
fn split_types(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut from) = (Vec::new(), 0, 0);
    for (place, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[from..place]);
                from = place + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[from..]);
    parts.into_iter().map(str::trim).filter(|part| !part.is_empty()).collect()
}

impl Around<'_> {
    /// The schemas in which names are looked up, in order.
    pub(super) fn schemas(&self) -> Vec<String> {
        let path = &self.at.session.path;
        // A view's names mean what they meant where it was made, not what this session would mean by them.
        if let Some(view) = self.around_views.borrow().last() {
            let others = [DEFAULT_SCHEMA.to_owned()].into_iter().filter(|schema| schema != view);
            return std::iter::once(view.clone()).chain(others).collect();
        }
        let temporary = path.has_temporary.then(|| self.planner.catalogs().temporary_schema());
        temporary.into_iter().chain(path.schemas.iter().cloned()).collect()
    }

    /// What a name without a schema means: the first relation of the path, or one that is not there.
    pub(super) fn in_path(&self, name: &str) -> RelationName {
        let schemas = self.schemas();
        for schema in &schemas {
            let candidate = RelationName::new(schema, name);
            if self.at.snapshot.catalog.resolve(&candidate).is_some() {
                return candidate;
            }
            // One that is made there later comes before what is found now.
            if schemas.len() > 1 {
                self.names.uses_nothing(&candidate);
            }
        }
        match self.around_views.borrow().last() {
            Some(view) => RelationName::new(view, name),
            None => {
                RelationName::new(self.at.session.path.schemas.first().map_or(DEFAULT_SCHEMA, String::as_str), name)
            }
        }
    }

    /// The number of the routine that a text names, with the types of its arguments or without. Fails with 42725 if
    /// several have the name.
    pub(super) fn number_of_routine(&self, text: &str, with_types: bool) -> Result<Option<i64>> {
        let (name, types) = match text.split_once('(') {
            Some((name, types)) if with_types => {
                let types = types.trim_end();
                (name, Some(types.strip_suffix(')').unwrap_or(types)))
            }
            _ => (text, None),
        };
        let Some(parsed) = RelationName::parse(name.trim()) else { return Ok(None) };
        let types = types.map(|types| {
            let parts = split_types(types).into_iter().map(|part| match SqlType::parse(part) {
                Some(known) => known.without_modifier().to_string(),
                None => part.to_lowercase(),
            });
            parts.collect::<Vec<_>>().join(",")
        });
        let schemas = if name.contains('.') { vec![parsed.schema] } else { self.schemas() };
        let snapshot = self.at.snapshot;
        for schema in schemas {
            let is_it = |object: &&&Arc<Object>| match &object.relation {
                CatalogRelation::Routine(routine) => {
                    let types = types.as_ref().is_none_or(|types| routine.signature().types() == *types);
                    types && snapshot.rights.may_use(&object.name)
                }
                _ => false,
            };
            let found = snapshot.catalog.routines(&schema, &parsed.name);
            let mut found = found.iter().filter(is_it);
            match (found.next(), found.next()) {
                (None, _) => {}
                (Some(only), None) => return Ok(Some(i64::from(only.oid()))),
                (Some(_), Some(_)) => {
                    let message = format!("more than one function named \"{}\"", text.trim());
                    let hint = "name it with the types of its arguments: 'f(integer, text)'::regprocedure";
                    return Err(Error::input(message).with_code("42725").with_hint(hint));
                }
            }
        }
        Ok(None)
    }

    /// Which objects names without schemas find.
    pub(super) fn visible(&self) -> Visible {
        self.names.not_reusable();
        let snapshot = self.at.snapshot;
        let schemas = self.schemas().into_iter().filter(|schema| snapshot.catalog.has_schema(schema));
        let schemas = schemas.collect::<Vec<_>>();
        let (mut met, mut hidden) = (HashSet::new(), Vec::new());
        for schema in schemas.iter().filter(|_| schemas.len() > 1) {
            for object in snapshot.catalog.objects_in(schema) {
                if !met.insert(object.name.name.as_str()) {
                    hidden.push(object.oid());
                }
            }
        }
        let path = [POSTGRES_SCHEMA].into_iter().chain(schemas.iter().map(String::as_str));
        Visible { path: path.filter_map(|schema| snapshot.schema_oid(schema)).collect(), hidden }
    }

    /// The first schema of the path that there is: `current_schema`.
    pub(super) fn current_schema(&self) -> Option<String> {
        let snapshot = &self.at.snapshot.catalog;
        self.at.session.path.schemas.iter().find(|schema| snapshot.has_schema(schema)).cloned()
    }

    /// `current_schemas($1)`: the schemas of the path that there are; with `$1`, those that need not be named, too.
    pub(super) fn current_schemas(&self) -> Result<ast::Expr> {
        let snapshot = &self.at.snapshot.catalog;
        let there = self.schemas().into_iter().filter(|schema| snapshot.has_schema(schema));
        let quoted = |schema: &String| literal(schema.as_str());
        let there = there.collect::<Vec<_>>();
        let own = there.iter().filter(|schema| !schema.starts_with("pg_temp_")).map(quoted).collect::<Vec<_>>();
        let temporary = there.iter().filter(|schema| schema.starts_with("pg_temp_")).map(quoted);
        let all = temporary.chain(["'pg_catalog'".to_owned()]).chain(own.iter().cloned()).collect::<Vec<_>>();
        let (all, own) = (all.join(", "), own.join(", "));
        crate::parse::expression(&format!("CASE WHEN $1 THEN ARRAY[{all}]::name[] ELSE ARRAY[{own}]::name[] END"))
    }

    /// The name of a relation that a statement makes. Fails with 42501 if the session may not, 3F000 if no schema of
    /// the path is there.
    pub(super) fn creatable(&self, name: &ast::ObjectName, is_temporary: bool) -> Result<RelationName> {
        let parts = parts_of(name);
        let name = match parts.as_deref() {
            Some([bare]) if is_temporary => {
                let schema = self.planner.catalogs().make_temporary_schema()?;
                self.planner.use_temporary();
                return Ok(RelationName::new(schema, bare));
            }
            Some(_) if is_temporary => {
                let error = Error::input("cannot create temporary relation in non-temporary schema");
                return Err(error.with_code("42P16"));
            }
            Some([bare]) => {
                let schema = self.current_schema().ok_or_else(|| {
                    Error::input("no schema has been selected to create in")
                        .with_code("3F000")
                        .with_hint("SET search_path names schemas that are there")
                })?;
                RelationName::new(schema, bare)
            }
            _ => self.relation_name(name)?,
        };
        self.at.snapshot.rights.check_create(&name)?;
        Ok(name)
    }

    /// The relation of a schema: DuckDB's `main` is the schema of what says none, unless there is one of that name.
    pub(super) fn in_schema(&self, schema: &str, name: &str) -> RelationName {
        let relation = RelationName::new(schema, name);
        let is_there = || self.at.snapshot.schema_oid(schema).is_some() || self.server(schema).is_some();
        if schema != DUCKDB_SCHEMA || is_there() {
            return relation;
        }
        self.names.uses_nothing(&relation);
        RelationName::new(DEFAULT_SCHEMA, name)
    }

    /// The relation that a name means in a statement that changes or drops it. Fails with 0A000 for one of another
    /// database, 42601 for what is no name.
    pub(super) fn relation_name(&self, name: &ast::ObjectName) -> Result<RelationName> {
        match parts_of(name).as_deref() {
            Some([name]) => Ok(self.in_path(name)),
            Some([schema, name]) if schema == "pg_temp" => {
                Ok(RelationName::new(self.planner.catalogs().temporary_schema(), name))
            }
            Some([schema, name]) => Ok(self.in_schema(schema, name)),
            Some([catalog, schema, name]) if catalog == CATALOG_NAME => Ok(self.in_schema(schema, name)),
            Some([_, _, _]) => {
                let message = format!("cross-database references are not implemented: {name}");
                Err(Error::unsupported(message).with_code("0A000"))
            }
            _ => Err(Error::input(format!("improper relation name: {name}")).with_code("42601")),
        }
    }
}
