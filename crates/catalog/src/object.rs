//! What a name stands for.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use diligence_base::Result;
use diligence_base::ids::{ObjectId, ObjectVersion};
use diligence_storage::Table;
use diligence_types::collation::TextOrder;
use parking_lot::Mutex;

use crate::authority::SubjectKind;
use crate::name::oid_of;
use crate::rules::Materialized;
use crate::sequence::Sequence;
use crate::{
    CompositeDefinition, DomainDefinition, EnumDefinition, FileRelation, NativeTable, RelationName, Routine, Trigger,
    View,
};

/// One version of a relation in a catalog.
#[derive(Clone, Debug)]
pub struct Object {
    /// What it keeps until it is dropped.
    pub id: ObjectId,
    /// What another definition, or other rows of a table in memory, give it anew.
    pub version: ObjectVersion,
    /// Its name.
    pub name: RelationName,
    /// What it is.
    pub relation: Relation,
    /// Held by whoever makes the next version of its rows, so that readers never wait for the copying.
    pub(crate) writer: Arc<Mutex<()>>,
}

impl Object {
    /// The number of a column, by which grants know it: as long as the column is there, whatever its name.
    pub fn column_number(&self, column: &str) -> Option<u32> {
        let place = self.relation.schema().ok()?.index_of(column).ok()?;
        match &self.relation {
            Relation::Native(table) => table.columns().ids.get(place).copied(),
            _ => u32::try_from(place + 1).ok(),
        }
    }

    /// The column of a number; `None` if it is gone.
    pub fn column_of(&self, number: u32) -> Option<String> {
        let place = match &self.relation {
            Relation::Native(table) => table.columns().ids.iter().position(|id| *id == number)?,
            _ => usize::try_from(number).ok()?.checked_sub(1)?,
        };
        self.relation.schema().ok()?.fields().get(place).map(|field| field.name().clone())
    }

    /// The number by which PostgreSQL's clients know it.
    pub fn oid(&self) -> u32 {
        oid_of(self.id)
    }

    /// What a statement remembers to change it later. Holds no rows.
    pub fn reference(&self) -> ObjectRef {
        ObjectRef { id: self.id, name: self.name.clone() }
    }
}

/// An object, whatever version it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectRef {
    /// The object.
    pub id: ObjectId,
    /// Its name.
    pub name: RelationName,
}

/// What a relation is.
#[derive(Clone, Debug)]
pub enum Relation {
    /// Foreign files. Their content is what they hold when a statement opens them.
    Files(Arc<FileRelation>),
    /// A table in one state.
    Table(Arc<dyn Table>),
    /// A table whose rows statements change.
    Native(Arc<NativeTable>),
    /// A query with a name.
    View(Arc<View>),
    /// Numbers that no two statements get.
    Sequence(Arc<Sequence>),
    /// A function.
    Routine(Arc<Routine>),
    /// A type of labels.
    Enum(Arc<EnumDefinition>),
    /// A type of columns.
    Composite(Arc<CompositeDefinition>),
    /// Some of a type's values.
    Domain(Arc<DomainDefinition>),
    /// How texts are compared.
    Collation(Arc<TextOrder>),
}

impl Relation {
    /// What it is, in messages and listings.
    pub fn kind(&self) -> &'static str {
        match self {
            Relation::Files(_) => "external table",
            Relation::Native(table) if table.rules().materialized.is_some() => "materialized view",
            Relation::Table(_) | Relation::Native(_) => "table",
            Relation::View(_) => "view",
            Relation::Sequence(_) => "sequence",
            Relation::Routine(_) => "function",
            Relation::Collation(_) => "collation",
            Relation::Enum(_) | Relation::Composite(_) | Relation::Domain(_) => "type",
        }
    }

    /// What it calls when its rows change, in the order of their names.
    pub fn triggers(&self) -> &[Trigger] {
        match self {
            Relation::Native(table) => &table.rules().triggers,
            Relation::View(view) => &view.triggers,
            _ => &[],
        }
    }

    /// What a materialized view shows.
    pub fn materialized(&self) -> Option<&Materialized> {
        match self {
            Relation::Native(table) => table.rules().materialized.as_ref(),
            _ => None,
        }
    }

    /// Whether it can stand in FROM, and is listed with others that can.
    pub fn is_listed(&self) -> bool {
        !matches!(self, Relation::Routine(_) | Relation::Collation(_)) && !self.is_type()
    }

    /// What its privileges are those of.
    pub fn subject_kind(&self) -> SubjectKind {
        match self {
            Relation::Sequence(_) => SubjectKind::Sequence,
            Relation::Routine(_) => SubjectKind::Routine,
            Relation::Enum(_) | Relation::Composite(_) | Relation::Domain(_) => SubjectKind::Type,
            // Everyone may use it.
            Relation::Collation(_) => SubjectKind::Type,
            Relation::Files(_) | Relation::Table(_) | Relation::Native(_) | Relation::View(_) => SubjectKind::Table,
        }
    }

    /// Whether it is a type.
    pub fn is_type(&self) -> bool {
        matches!(self, Relation::Enum(_) | Relation::Composite(_) | Relation::Domain(_))
    }

    /// What it is, with its article.
    pub fn a_kind(&self) -> String {
        with_article(self.kind())
    }

    /// Whether a database on disk keeps it: what statements made. Files of a data folder are found anew, and a table
    /// that a program made is the program's.
    pub fn is_kept(&self) -> bool {
        match self {
            Relation::Files(files) => files.definition.is_some(),
            Relation::Native(_) | Relation::View(_) | Relation::Sequence(_) => true,
            Relation::Routine(_) | Relation::Enum(_) | Relation::Composite(_) | Relation::Domain(_) => true,
            Relation::Collation(_) => true,
            Relation::Table(_) => false,
        }
    }

    /// Its columns. Opens files if they have not been opened yet; fails as opening them does.
    pub fn schema(&self) -> Result<SchemaRef> {
        Ok(match self {
            Relation::Files(files) => files.table()?.schema(),
            Relation::Table(table) => table.schema(),
            Relation::Native(memory) => memory.schema().clone(),
            Relation::View(view) => view.schema.clone(),
            Relation::Sequence(_) => sequence_schema(),
            Relation::Routine(_) | Relation::Enum(_) | Relation::Composite(_) | Relation::Domain(_) => {
                Arc::new(Schema::empty())
            }
            Relation::Collation(_) => Arc::new(Schema::empty()),
        })
    }
}

/// The columns of a sequence, as PostgreSQL shows them.
pub fn sequence_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("last_value", DataType::Int64, false),
        Field::new("log_cnt", DataType::Int64, false),
        Field::new("is_called", DataType::Boolean, false),
    ]))
}

pub(crate) fn with_article(kind: &str) -> String {
    let article = if kind.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    format!("{article} {kind}")
}
