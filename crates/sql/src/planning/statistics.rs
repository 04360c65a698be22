//! CREATE, ALTER and DROP STATISTICS. What they say is among the rules of the table.

use std::sync::Arc;

use diligence_base::{Error, Result};
use diligence_catalog::{ExtendedStatistics, Object, Relation, RelationName, STATISTICS_KINDS, no_schema};
use diligence_types::quoted_name;
use sqlparser::ast;

use super::around::Around;
use super::authority::Words;
use super::bound::BoundStatement;
use super::indexes::IndexParts;
use crate::parse::{SyntaxTree, parse_one};
use crate::statement::{Command, Statement};

/// As many columns and expressions as PostgreSQL takes.
const PARTS_MAX: usize = 8;

impl Around<'_> {
    /// CREATE STATISTICS; the words behind that. Fails with PostgreSQL's codes.
    pub(super) fn create_statistics(&self, words: &mut Words) -> Result<BoundStatement> {
        const TAG: &str = "CREATE STATISTICS";
        let if_not_exists = words.take(&["if", "not", "exists"]);
        let wanted = words.object()?;
        let kinds = kinds(words)?;
        words.expect(&["on"])?;
        let parts = listed(words)?;
        words.expect(&["from"])?;
        let table = words.object()?;
        words.end()?;
        let name = self.creatable(&wanted, false)?;
        if !self.at.snapshot.catalog.has_schema(&name.schema) && !name.is_temporary() {
            return Err(no_schema(&name.schema));
        }
        let table = self.changeable(&table)?;
        let object = self.studied(&table)?;
        if self.statistics_named(&name).is_some() {
            let what = format!("statistics object \"{}\"", name.name);
            if if_not_exists {
                self.tell_existing(&what, "42710");
                return Ok(nothing(TAG));
            }
            return Err(Error::input(format!("{what} already exists")).with_code("42710"));
        }
        let (columns, expressions) = self.statistics_parts(&object, &parts)?;
        let is_one = columns.len() + expressions.len() == 1;
        if is_one && !columns.is_empty() {
            return Err(Error::input("extended statistics require at least 2 columns").with_code("42P17"));
        }
        if is_one && !kinds.is_empty() {
            let message = "when building statistics on a single expression, statistics kinds may not be specified";
            return Err(Error::input(message).with_code("22023"));
        }
        let mut kinds = match (kinds.is_empty(), is_one) {
            (_, true) => String::new(),
            (true, false) => STATISTICS_KINDS.iter().map(|(letter, _)| *letter).collect(),
            (false, false) => kinds,
        };
        if !expressions.is_empty() {
            kinds.push('e');
        }
        let schema = (name.schema != table.schema).then(|| name.schema.clone());
        let statistics =
            ExtendedStatistics { name: name.name.clone(), schema, kinds, columns, expressions, target: None };
        self.with_statistics(&object, TAG, |all| all.push(statistics))
    }

    /// DROP STATISTICS; the words behind that. Fails with 42704 if they are not there.
    pub(super) fn drop_statistics(&self, words: &mut Words) -> Result<BoundStatement> {
        const TAG: &str = "DROP STATISTICS";
        let if_exists = words.take(&["if", "exists"]);
        let names = words.list(Words::object)?;
        let _ = words.take(&["cascade"]) || words.take(&["restrict"]);
        words.end()?;
        let mut of_tables = Vec::<(Arc<Object>, Vec<RelationName>)>::new();
        for wanted in &names {
            let name = self.relation_name(wanted)?;
            let Some((object, _)) = self.statistics_named(&name) else {
                if !if_exists {
                    return Err(missing(&name));
                }
                self.tell_missing(&format!("statistics object \"{}\"", name.name));
                continue;
            };
            self.at.snapshot.rights.check_owner(&object.name)?;
            match of_tables.iter_mut().find(|(known, _)| known.id == object.id) {
                Some((_, gone)) => gone.push(name),
                None => of_tables.push((object, vec![name])),
            }
        }
        let mut commands = Vec::new();
        for (object, gone) in &of_tables {
            let schema = &object.name.schema;
            let without = |all: &mut Vec<ExtendedStatistics>| all.retain(|own| !gone.contains(&name_of(own, schema)));
            let BoundStatement::Other(Statement::Command(command)) = self.with_statistics(object, TAG, without)? else {
                return Err(Error::bug("a change of rules is a command"));
            };
            commands.push(command);
        }
        Ok(BoundStatement::Other(Statement::Command(Command::All { commands, tag: TAG })))
    }

    /// ALTER STATISTICS; the words behind that. Fails with 42704 if they are not there, 0A000 for another owner.
    pub(super) fn alter_statistics(&self, words: &mut Words) -> Result<BoundStatement> {
        const TAG: &str = "ALTER STATISTICS";
        let if_exists = words.take(&["if", "exists"]);
        let name = self.relation_name(&words.object()?)?;
        let found = self.statistics_named(&name);
        let Some((object, _)) = found else {
            if if_exists {
                self.tell_missing(&format!("statistics object \"{}\"", name.name));
                return Ok(nothing(TAG));
            }
            return Err(missing(&name));
        };
        self.at.snapshot.rights.check_owner(&object.name)?;
        let (mut renamed, mut target) = (name.clone(), None);
        if words.take(&["rename", "to"]) {
            renamed.name = words.name()?.0;
        } else if words.take(&["set", "schema"]) {
            renamed.schema = words.name()?.0;
        } else if words.take(&["set", "statistics"]) {
            let wanted = if words.take(&["-"]) { -words.number()? } else { words.number()? };
            target = Some(i32::try_from(wanted.min(10_000)).ok().filter(|target| *target >= 0));
        } else if words.take(&["owner", "to"]) {
            let error = Error::unsupported("statistics with another owner than their table are not supported");
            return Err(error.with_code("0A000").with_hint("they belong to the owner of the table"));
        } else {
            return Err(words.wrong());
        }
        words.end()?;
        if renamed != name {
            self.at.snapshot.rights.check_create(&renamed)?;
            if !self.at.snapshot.catalog.has_schema(&renamed.schema) {
                return Err(no_schema(&renamed.schema));
            }
            if self.statistics_named(&renamed).is_some() {
                let (own, schema) = (&renamed.name, &renamed.schema);
                let message = format!("statistics object \"{own}\" already exists in schema \"{schema}\"");
                return Err(Error::input(message).with_code("42710"));
            }
        }
        let of_table = object.name.schema.clone();
        self.with_statistics(&object, TAG, |all| {
            for own in all.iter_mut().filter(|own| name_of(own, &of_table) == name) {
                own.name.clone_from(&renamed.name);
                own.schema = (renamed.schema != of_table).then(|| renamed.schema.clone());
                own.target = target.unwrap_or(own.target);
            }
        })
    }

    /// Statistics of a name, and their table.
    fn statistics_named(&self, name: &RelationName) -> Option<(Arc<Object>, ExtendedStatistics)> {
        self.at.snapshot.catalog.all_objects().find_map(|object| {
            let Relation::Native(table) = &object.relation else { return None };
            let found = table.rules().statistics.iter().find(|own| name_of(own, &object.name.schema) == *name)?;
            Some((object.clone(), found.clone()))
        })
    }

    /// A table whose rows may be looked at. Fails with 42P01 if there is none, 42809 for something else.
    fn studied(&self, name: &RelationName) -> Result<Arc<Object>> {
        match self.at.snapshot.catalog.get(name) {
            Some(object) if matches!(object.relation, Relation::Native(_)) => Ok(object.clone()),
            Some(_) => {
                let message = format!("cannot define statistics for relation \"{}\"", name.name);
                Err(Error::input(message)
                    .with_code("42809")
                    .with_hint("statistics are of tables and materialized views"))
            }
            None => Err(self.unknown(name)),
        }
    }

    /// The columns, in the table's order, and the texts of the expressions of a list. Fails with 42703 for a column
    /// that is not there, 42701 for what is there twice, 54011 for too many.
    fn statistics_parts(&self, object: &Object, parts: &[String]) -> Result<(Vec<String>, Vec<String>)> {
        let Relation::Native(table) = &object.relation else { return Err(Error::bug("statistics of no table")) };
        let written = parse_one(&format!("CREATE INDEX ON t ({})", parts.join(", "))).map_err(unplaced)?.statement;
        let no_columns = || Error::bug("what is listed are no columns");
        let SyntaxTree::Statement(written) = written else { return Err(no_columns()) };
        let ast::Statement::CreateIndex(index) = *written else { return Err(no_columns()) };
        let parts = self.index_parts(&index.columns, &object.name);
        if parts.columns.len() > PARTS_MAX {
            return Err(Error::input("cannot have more than 8 columns in statistics").with_code("54011"));
        }
        let (mut columns, mut expressions) = (Vec::new(), Vec::new());
        for (text, expression) in parts.columns.iter().zip(&parts.expressions) {
            let (into, what) = match expression {
                None => (&mut columns, "column name"),
                Some(_) => (&mut expressions, "expression"),
            };
            if expression.is_none() && table.schema().index_of(text).is_err() {
                return Err(Error::input(format!("column \"{text}\" does not exist")).with_code("42703"));
            }
            if into.contains(text) {
                let message = format!("duplicate {what} in statistics definition");
                return Err(Error::input(message).with_code("42701"));
            }
            into.push(text.clone());
        }
        // Expressions that mean nothing are mistakes of this statement.
        let IndexParts { columns: names, expressions: written, .. } = &parts;
        self.index_function(&object.name.name, table.schema(), names, written, None, &[]).map_err(unplaced)?;
        columns.sort_by_key(|column| table.schema().index_of(column).ok());
        Ok((columns, expressions))
    }

    fn with_statistics(
        &self,
        object: &Object,
        tag: &'static str,
        change: impl FnOnce(&mut Vec<ExtendedStatistics>),
    ) -> Result<BoundStatement> {
        let Relation::Native(table) = &object.relation else { return Err(Error::bug("statistics of no table")) };
        self.with_rules(object, table, tag, |rules| change(&mut rules.statistics))
    }
}

/// What statistics of a table in a schema are called.
fn name_of(statistics: &ExtendedStatistics, of_table: &str) -> RelationName {
    RelationName::new(statistics.schema.as_deref().unwrap_or(of_table), &statistics.name)
}

/// The error without its place, which is in a text that nobody wrote.
fn unplaced(error: Error) -> Error {
    let mut plain = Error::new(error.kind(), error.message());
    if let Some(code) = error.code() {
        plain = plain.with_code(code);
    }
    if let Some(hint) = error.hint() {
        plain = plain.with_hint(hint);
    }
    plain
}

fn missing(name: &RelationName) -> Error {
    Error::input(format!("statistics object \"{}\" does not exist", name.name)).with_code("42704")
}

fn nothing(tag: &'static str) -> BoundStatement {
    BoundStatement::Other(Statement::Command(Command::Nothing(tag)))
}

/// The letters of the kinds in parentheses, in the order of the catalog; none if none are named. Fails with 42601 for a
/// kind that is none.
fn kinds(words: &mut Words) -> Result<String> {
    if !words.take(&["("]) {
        return Ok(String::new());
    }
    let named = words.list(|words| Ok(words.name()?.0))?;
    words.expect(&[")"])?;
    if let Some(other) = named.iter().find(|name| STATISTICS_KINDS.iter().all(|(_, known)| known != name)) {
        let message = format!("unrecognized statistics kind \"{other}\"");
        return Err(Error::input(message).with_code("42601"));
    }
    let is_named = |known: &str| named.iter().any(|name| name == known);
    Ok(STATISTICS_KINDS.iter().filter(|(_, known)| is_named(known)).map(|(letter, _)| *letter).collect())
}

/// The texts of columns, of calls and of expressions in parentheses.
fn listed(words: &mut Words) -> Result<Vec<String>> {
    words.list(|words| {
        if let Some(expression) = words.parenthesized() {
            return Ok(format!("({expression})"));
        }
        let name = quoted_name(&words.name()?.0).to_string();
        Ok(match words.parenthesized() {
            Some(arguments) => format!("{name}({arguments})"),
            None => name,
        })
    })
}
