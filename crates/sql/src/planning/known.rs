//! The names that errors suggest instead of an unknown one.

use std::path::Path;

use datafusion::logical_expr::planner::ContextProvider;
use diligence_catalog::RelationName;

use super::Planning;
use super::names::Names;
use crate::errors::KnownNames;
use crate::parse::NamedRelation;

impl KnownNames for Planning<'_> {
    fn relations(&self) -> Vec<String> {
        self.snapshot.names().iter().map(RelationName::to_string).collect()
    }

    fn functions(&self) -> Vec<String> {
        self.session.function_names()
    }

    fn instead_of(&self, name: &str) -> Option<(String, String)> {
        if let Some((_, why)) = self.snapshot.catalog.left_out().find(|(left_out, _)| *left_out == name) {
            let hint = format!("name files of one format by a pattern: '…/{name}/*.parquet'");
            return Some((format!("the folder '{name}' is no table: {why}"), hint));
        }
        if !self.options.paths_are_tables {
            return None;
        }
        let path = Path::new(name);
        if self.options.files.is_folder(path) {
            let hint = format!("to read the files of a folder, write its name with a slash: '{name}/'");
            return Some((format!("no table is named '{name}'; there is a folder of this name"), hint));
        }
        self.options.files.meta(path).ok()?;
        let hint = format!("if it holds a table, say how: CREATE EXTERNAL TABLE … STORED AS CSV LOCATION '{name}'");
        Some((format!("no table is named '{name}'; there is a file of this name, which does not show a format"), hint))
    }
}

/// What a statement that is being planned knows besides: the aliases in it.
pub(super) struct InStatement<'a> {
    pub names: &'a Names<'a>,
    pub at: &'a Planning<'a>,
    pub relations: Vec<NamedRelation>,
}

impl KnownNames for InStatement<'_> {
    fn relations(&self) -> Vec<String> {
        self.at.relations()
    }

    fn functions(&self) -> Vec<String> {
        self.at.functions()
    }

    fn instead_of(&self, name: &str) -> Option<(String, String)> {
        self.at.instead_of(name)
    }

    fn columns(&self, alias: &str) -> Option<Vec<String>> {
        let mut columns = None;
        for relation in self.relations.iter().filter(|relation| relation.alias == alias) {
            let columns = columns.get_or_insert_with(Vec::new);
            if let Some(Ok(source)) = relation.table.clone().map(|table| self.names.get_table_source(table)) {
                columns.extend(source.schema().fields().iter().map(|field| field.name().clone()));
            }
        }
        columns
    }
}
