//! A statement in steps, for servers, whose stages take them at different times: parse, describe, plan, start.
//!
//! A planned query can be started again as long as [`PlannedStatement::is_current`]: that is what plan caches live from.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, new_null_array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use diligence_base::{Error, Result};
use diligence_sql::catalog::{DEFAULT_SCHEMA, MemoryRelation, Relation, RelationName};
use diligence_sql::errors::suggest;
use diligence_sql::parse::Parsed;
use diligence_sql::prepared::{Planned, value_of};
use diligence_sql::{Query, Statement};
use diligence_storage::foreign_error::from_arrow;

use crate::result::QueryResult;
use crate::session::Session;

pub use diligence_sql::prepared::Description;

/// The syntax tree of a statement with its text. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ParsedStatement(Arc<(String, Parsed)>);

impl ParsedStatement {
    /// The statement as it was written.
    pub fn text(&self) -> &str {
        &self.0.0
    }
}

/// A statement that is ready to start.
#[derive(Debug)]
pub struct PlannedStatement {
    text: String,
    planned: Planned,
}

impl PlannedStatement {
    /// The columns that come out; none for a command.
    pub fn schema(&self) -> Option<SchemaRef> {
        match &self.planned {
            Planned::Query(query, _) => Some(query.schema().clone()),
            Planned::Other(statement) => match statement.as_ref() {
                Statement::Explain { .. } => Some(Statement::plan_schema()),
                _ => None,
            },
        }
    }

    /// Whether it only reads.
    pub fn is_read_only(&self) -> bool {
        match &self.planned {
            Planned::Query(..) => true,
            Planned::Other(statement) => {
                !matches!(statement.as_ref(), Statement::Write(_) | Statement::WriteFiles(_) | Statement::Command(_))
            }
        }
    }

    /// The same statement to start another time; `None` if it can start only once.
    pub fn again(&self) -> Option<Self> {
        match &self.planned {
            Planned::Query(query, Some(uses)) => {
                let planned = Planned::Query(query.clone(), Some(uses.clone()));
                Some(Self { text: self.text.clone(), planned })
            }
            _ => None,
        }
    }

    /// Whether planning the text again would give the same. May look at files.
    pub fn is_current(&self, session: &Session) -> bool {
        matches!(&self.planned, Planned::Query(_, Some(uses)) if uses.are_current(session.planner()))
    }

    /// A text that is another one whenever the tables behind the query are in another state; `None` if that is not known.
    pub fn fingerprint(&self) -> Option<String> {
        match &self.planned {
            Planned::Query(_, uses) => uses.as_ref().map(|uses| uses.fingerprint()),
            Planned::Other(_) => None,
        }
    }

    pub(crate) fn into_parts(self) -> (String, Begun) {
        let begun = match self.planned {
            Planned::Query(query, _) => Begun::Query(query),
            Planned::Other(statement) => Begun::Statement(statement),
        };
        (self.text, begun)
    }
}

/// What is started.
pub(crate) enum Begun {
    Query(Arc<Query>),
    Statement(Box<Statement>),
}

impl Session {
    /// The syntax tree of exactly one statement.
    pub fn parse(&self, sql: &str) -> Result<ParsedStatement> {
        Ok(ParsedStatement(Arc::new((sql.trim().to_owned(), self.planner().parse(sql)?))))
    }

    /// What a statement takes and gives; `given` are parameters' types as its sender declares them. Opens files.
    pub fn describe(&self, parsed: &ParsedStatement, given: &[Option<DataType>]) -> Result<Description> {
        self.in_runtime(|| self.planner().describe(&parsed.0.1, given))
    }

    /// Plans a statement. `values` are arrays of one row, one for each of `$1`, `$2`, …. Opens files.
    pub fn plan(&self, parsed: &ParsedStatement, values: &[ArrayRef]) -> Result<PlannedStatement> {
        let values = values.iter().map(value_of).collect::<Result<Vec<_>>>()?;
        let planned = self.in_runtime(|| self.planner().plan_with(&parsed.0.1, &values))?;
        Ok(PlannedStatement { text: parsed.text().to_owned(), planned })
    }

    /// Starts a planned statement. Its work is done while the result is read.
    pub fn start_planned(&self, planned: PlannedStatement) -> Result<QueryResult> {
        let (text, begun) = planned.into_parts();
        self.in_runtime(|| match begun {
            Begun::Query(query) => self.start_query(&query, &text),
            Begun::Statement(statement) => self.start_statement(*statement, &text),
        })
    }

    /// The columns of a table that [`append`](Self::append) can add to.
    pub fn appendable(&self, schema: Option<&str>, table: &str) -> Result<SchemaRef> {
        Ok(self.memory_relation(schema, table)?.schema().clone())
    }

    /// Adds rows to a table in memory: all of them or none. `columns` names the batches' columns, which are converted to the
    /// table's types; columns that are not named are NULL. Gives the number of rows.
    pub fn append(
        &self,
        schema: Option<&str>,
        table: &str,
        columns: &[String],
        batches: &[RecordBatch],
    ) -> Result<u64> {
        let relation = self.memory_relation(schema, table)?;
        let places = relation.schema().fields().iter().map(|field| {
            let place = columns.iter().position(|column| column == field.name());
            if place.is_none() && relation.column_defaults.contains_key(field.name()) {
                let error = Error::unsupported(format!("the column '{}' has a default and is left out", field.name()));
                return Err(error.with_hint("name the column, or use INSERT"));
            }
            Ok(place)
        });
        let places = places.collect::<Result<Vec<_>>>()?;
        for column in columns {
            if relation.schema().column_with_name(column).is_none() {
                let names = relation.schema().fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>();
                let error = Error::input(format!("the table '{table}' has no column '{column}'")).with_code("42703");
                return Err(suggest(error, column, &names));
            }
        }
        let mut memory = self.database().engine().table_memory().reservation("a table in memory");
        let mut rows = 0;
        let mut full = Vec::with_capacity(batches.len());
        for batch in batches {
            rows += batch.num_rows() as u64;
            let arrays = places.iter().zip(relation.schema().fields()).map(|(place, field)| match place {
                Some(place) => batch.column(*place).clone(),
                None => new_null_array(field.data_type(), batch.num_rows()),
            });
            let arrays = arrays.collect::<Vec<_>>();
            memory.grow(arrays.iter().map(|array| array.get_array_memory_size()).sum())?;
            let fields = relation
                .schema()
                .fields()
                .iter()
                .zip(&arrays)
                .map(|(field, array)| Field::new(field.name(), array.data_type().clone(), true));
            let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
            full.push(RecordBatch::try_new(schema, arrays).map_err(from_arrow)?);
        }
        relation.insert(&full, memory, false, self.database().catalog())?;
        Ok(rows)
    }

    fn memory_relation(&self, schema: Option<&str>, table: &str) -> Result<Arc<MemoryRelation>> {
        let name = RelationName::new(schema.unwrap_or(DEFAULT_SCHEMA), table);
        match self.planner().catalogs().get(&name) {
            Some(Relation::Memory(memory)) => Ok(memory),
            Some(other) => {
                let error =
                    Error::unsupported(format!("'{name}' is {}; rows are added to tables in memory", other.a_kind()));
                Err(error.with_code("42809").with_hint("CREATE TABLE makes a table in memory"))
            }
            None => {
                let names = self.relation_names();
                let error = Error::input(format!("no table is named '{name}'")).with_code("42P01");
                Err(suggest(error, &name.to_string(), &names))
            }
        }
    }
}
