//! The columns of a lake's table, and how they are found in its files: by the names that they had when a file was
//! written, or by numbers that stay.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields};
use datafusion_common::ScalarValue;
use parquet::arrow::PARQUET_FIELD_ID_META_KEY;

use crate::external::schema::{JSON_TYPE, TYPE_KEY, UUID_TYPE};

/// Types within types at most: they are walked by recursion.
pub(super) const TYPE_DEPTH_MAX: usize = 100;

/// A column, or a field of a struct.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LakeField {
    /// What SQL calls it.
    pub name: String,
    pub ty: LakeType,
    /// Its number, which files may have.
    pub id: Option<i32>,
    /// What files call it.
    pub names: Vec<String>,
    /// Its value in files that do not have it; NULL if `None`.
    pub default: Option<ScalarValue>,
}

/// The type of a field.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum LakeType {
    Plain(DataType),
    Uuid,
    /// Values of any type, which are JSON to SQL.
    Variant,
    Struct(Vec<LakeField>),
    List(Box<LakeField>),
    Map(Box<LakeField>, Box<LakeField>),
}

/// How the columns of a file are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Names,
    Ids,
    /// By numbers; by names in a file that has none.
    IdsOrNames,
}

impl By {
    /// How the columns of a file with this schema are told.
    pub fn in_file(self, file: &Fields) -> Self {
        let has_ids = || file.iter().any(|field| id_of(field).is_some());
        match self {
            By::IdsOrNames if !has_ids() => By::Names,
            By::IdsOrNames => By::Ids,
            other => other,
        }
    }
}

fn id_of(field: &Field) -> Option<i32> {
    field.metadata().get(PARQUET_FIELD_ID_META_KEY)?.parse().ok()
}

impl LakeField {
    /// The field as SQL sees it; what is inside of others has the types that files have.
    pub fn arrow(&self, is_root: bool) -> Field {
        let ty = match &self.ty {
            LakeType::Plain(ty) => match ty {
                DataType::Utf8View if !is_root => DataType::Utf8,
                DataType::BinaryView if !is_root => DataType::Binary,
                other => other.clone(),
            },
            LakeType::Uuid => {
                let metadata = [(TYPE_KEY.to_owned(), UUID_TYPE.to_owned())].into();
                return Field::new(&self.name, DataType::Utf8View, true).with_metadata(metadata);
            }
            LakeType::Variant => {
                let metadata = [(TYPE_KEY.to_owned(), JSON_TYPE.to_owned())].into();
                return Field::new(&self.name, DataType::Utf8View, true).with_metadata(metadata);
            }
            LakeType::Struct(fields) => DataType::Struct(fields.iter().map(|field| field.arrow(false)).collect()),
            LakeType::List(item) => DataType::List(Arc::new(item.arrow(false))),
            LakeType::Map(key, value) => {
                let entries = vec![key.arrow(false).with_nullable(false), value.arrow(false)];
                DataType::Map(Arc::new(Field::new("entries", DataType::Struct(entries.into()), false)), false)
            }
        };
        Field::new(&self.name, ty, true)
    }

    /// Where it is among the fields of a file; `None` if the file does not have it.
    pub fn place(&self, file: &Fields, by: By) -> Option<usize> {
        file.iter().position(|field| self.is(field, by))
    }

    fn is(&self, field: &Field, by: By) -> bool {
        match by {
            By::Names => self.names.iter().any(|name| name == field.name()),
            By::Ids | By::IdsOrNames => self.id.is_some() && id_of(field) == self.id,
        }
    }

    /// The type of a file's field, with the names that SQL has.
    pub fn renamed(&self, file: &DataType, by: By) -> DataType {
        let inner = |wanted: &LakeField, field: &Field| {
            Field::new(&wanted.name, wanted.renamed(field.data_type(), by), field.is_nullable())
        };
        match (&self.ty, file) {
            (LakeType::Struct(wanted), DataType::Struct(fields)) => {
                let named =
                    |(place, field): (usize, &Arc<Field>)| match wanted.iter().find(|wanted| wanted.is(field, by)) {
                        Some(wanted) => inner(wanted, field),
                        // No longer a field: a name that nothing has.
                        None => Field::new(format!("\0{place}"), field.data_type().clone(), field.is_nullable()),
                    };
                DataType::Struct(fields.iter().enumerate().map(named).collect())
            }
            (LakeType::List(wanted), DataType::List(item)) => DataType::List(Arc::new(inner(wanted, item))),
            (LakeType::Map(key, value), DataType::Map(entries, is_sorted)) => match entries.data_type() {
                DataType::Struct(fields) if fields.len() == 2 => {
                    let fields = Fields::from(vec![inner(key, &fields[0]), inner(value, &fields[1])]);
                    DataType::Map(Arc::new(Field::new("entries", DataType::Struct(fields), false)), *is_sorted)
                }
                _ => file.clone(),
            },
            _ => file.clone(),
        }
    }
}
