//! The syntax tree of a statement: what `sqlparser` reads, and the statements that it does not have.

use std::fmt;

use diligence_base::Result;
use sqlparser::ast::{self, ColumnDef, Ident, ObjectName, TableConstraint, Value};

/// The syntax tree of one statement. Its text reads as the same tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SyntaxTree {
    /// A statement that `sqlparser` knows.
    Statement(Box<ast::Statement>),
    /// CREATE EXTERNAL TABLE.
    CreateExternalTable(CreateExternalTable),
    /// COPY … TO a file.
    CopyTo(CopyTo),
    /// EXPLAIN.
    Explain(Explain),
    /// RESET of a setting, or of `all`.
    Reset(ObjectName),
}

/// A name of an option, and its value.
pub type NamedOption = (String, Value);

/// `CREATE [OR REPLACE] EXTERNAL TABLE [IF NOT EXISTS] name [(column type …, …)] STORED AS format
/// [PARTITIONED BY (column, …)] [OPTIONS (name value, …)] LOCATION 'path'`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CreateExternalTable {
    /// What it is called.
    pub name: ObjectName,
    /// The columns that the statement declares; those of PARTITIONED BY that have types are the last ones.
    pub columns: Vec<ColumnDef>,
    /// What it declares besides.
    pub constraints: Vec<TableConstraint>,
    /// The format's name in capital letters.
    pub format: String,
    /// The columns whose values are in the names of folders.
    pub partitioned_by: Vec<Ident>,
    /// How the files are read.
    pub options: Vec<NamedOption>,
    /// A file, a folder, a pattern or a URL.
    pub location: String,
    /// Whether an existing table gives way.
    pub or_replace: bool,
    /// Whether an existing table is no error.
    pub if_not_exists: bool,
}

/// `COPY {name [(column, …)] | (query)} TO 'path' [STORED AS format] [PARTITIONED BY (column, …)]
/// [[WITH | OPTIONS] (name value, …)]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CopyTo {
    /// Whose rows are copied.
    pub source: CopySource,
    /// A file or a folder.
    pub target: String,
    /// The format's name, if the statement says it.
    pub format: Option<String>,
    /// The columns whose values become names of folders.
    pub partitioned_by: Vec<Ident>,
    /// How the files are written.
    pub options: Vec<NamedOption>,
}

/// Whose rows COPY takes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CopySource {
    /// Those of a table, all columns or some.
    Relation(ObjectName, Vec<Ident>),
    /// Those of a query.
    Query(Box<ast::Query>),
}

/// `EXPLAIN [ANALYZE] [VERBOSE] [FORMAT {TEXT | JSON}] statement`, and with these options in parentheses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Explain {
    /// Whether the statement is run.
    pub analyze: bool,
    /// Whether its forms before the plan are shown, too.
    pub verbose: bool,
    /// Whether the answer is one JSON text.
    pub json: bool,
    /// What is explained.
    pub statement: Box<SyntaxTree>,
}

/// A name as it is looked up: in small letters unless it is quoted.
pub(crate) fn lower(name: &Ident) -> String {
    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() }
}

/// The parts of a name as they are looked up; `None` if one is no plain name.
pub(crate) fn parts_of(name: &ObjectName) -> Option<Vec<String>> {
    name.0.iter().map(|part| part.as_ident().map(lower)).collect()
}

impl CopySource {
    /// The query whose rows are copied. Fails with kind `Bug` if a query of ours cannot be read.
    pub fn query(&self) -> Result<ast::Query> {
        match self {
            Self::Query(query) => Ok(query.as_ref().clone()),
            Self::Relation(name, columns) => {
                let mut query = super::query("SELECT * FROM t")?;
                if let ast::SetExpr::Select(select) = query.body.as_mut() {
                    if let Some(from) = select.from.first_mut()
                        && let ast::TableFactor::Table { name: table, .. } = &mut from.relation
                    {
                        *table = name.clone();
                    }
                    if !columns.is_empty() {
                        let item = |name: &Ident| ast::SelectItem::UnnamedExpr(ast::Expr::Identifier(name.clone()));
                        select.projection = columns.iter().map(item).collect();
                    }
                }
                Ok(query)
            }
        }
    }
}

impl fmt::Display for SyntaxTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Statement(statement) => write!(f, "{statement}"),
            Self::CreateExternalTable(create) => write!(f, "{create}"),
            Self::CopyTo(copy) => write!(f, "{copy}"),
            Self::Explain(explain) => write!(f, "{explain}"),
            Self::Reset(name) => write!(f, "RESET {name}"),
        }
    }
}

impl fmt::Display for CreateExternalTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or_replace = if self.or_replace { "OR REPLACE " } else { "" };
        let if_not_exists = if self.if_not_exists { "IF NOT EXISTS " } else { "" };
        write!(f, "CREATE {or_replace}EXTERNAL TABLE {if_not_exists}{}", self.name)?;
        let declared = self.columns.iter().map(ToString::to_string);
        let declared = declared.chain(self.constraints.iter().map(ToString::to_string)).collect::<Vec<_>>();
        if !declared.is_empty() {
            write!(f, " ({})", declared.join(", "))?;
        }
        write!(f, " STORED AS {}", self.format)?;
        write_partitions(f, &self.partitioned_by)?;
        write_options(f, &self.options)?;
        write!(f, " LOCATION {}", Value::SingleQuotedString(self.location.clone()))
    }
}

impl fmt::Display for CopyTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            CopySource::Query(query) => write!(f, "COPY ({query})")?,
            CopySource::Relation(name, columns) if columns.is_empty() => write!(f, "COPY {name}")?,
            CopySource::Relation(name, columns) => {
                let columns = columns.iter().map(ToString::to_string).collect::<Vec<_>>();
                write!(f, "COPY {name} ({})", columns.join(", "))?;
            }
        }
        write!(f, " TO {}", Value::SingleQuotedString(self.target.clone()))?;
        if let Some(format) = &self.format {
            write!(f, " STORED AS {format}")?;
        }
        write_partitions(f, &self.partitioned_by)?;
        write_options(f, &self.options)
    }
}

impl fmt::Display for Explain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let analyze = if self.analyze { "ANALYZE " } else { "" };
        let verbose = if self.verbose { "VERBOSE " } else { "" };
        let format = if self.json { "FORMAT JSON " } else { "" };
        write!(f, "EXPLAIN {analyze}{verbose}{format}{}", self.statement)
    }
}

fn write_partitions(f: &mut fmt::Formatter<'_>, columns: &[Ident]) -> fmt::Result {
    if columns.is_empty() {
        return Ok(());
    }
    let columns = columns.iter().map(ToString::to_string).collect::<Vec<_>>();
    write!(f, " PARTITIONED BY ({})", columns.join(", "))
}

fn write_options(f: &mut fmt::Formatter<'_>, options: &[NamedOption]) -> fmt::Result {
    if options.is_empty() {
        return Ok(());
    }
    let option = |(name, value): &NamedOption| format!("{} {value}", Value::SingleQuotedString(name.clone()));
    write!(f, " OPTIONS ({})", options.iter().map(option).collect::<Vec<_>>().join(", "))
}
