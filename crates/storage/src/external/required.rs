//! Columns that are declared NOT NULL: checked wherever their values are read.
//!
//! Not here: what can be known without reading, that a file lacks the column or that its footer counts NULLs. That is
//! checked when the table is opened.
//!
//! Invariant: no NULL of such a column leaves the clusters wrapped here, not even towards a row filter.

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::datatypes::{Field, Schema, SchemaRef};
use diligence_base::{Error, Result};

use crate::{AnswerId, Cluster, Decode, DecodeRequest, Decoded, Fetch, Fetched, FirstStep, RowFilter, Zone};

/// Which columns of a table are declared NOT NULL.
pub(crate) struct Required {
    /// The table's columns, these not nullable.
    pub schema: SchemaRef,
    is_required: Vec<bool>,
}

impl Required {
    /// `None` if no column is.
    pub fn new(schema: &Schema, declared: &Schema) -> Option<Self> {
        let required =
            |field: &Arc<Field>| declared.field_with_name(field.name()).is_ok_and(|found| !found.is_nullable());
        let is_required = schema.fields().iter().map(required).collect::<Vec<_>>();
        is_required.contains(&true).then(|| {
            let fields = schema.fields().iter().zip(&is_required);
            let fields = fields.map(|(field, &required)| {
                let nullable = field.is_nullable() && !required;
                Field::clone(field).with_nullable(nullable)
            });
            Self { schema: Arc::new(Schema::new(fields.collect::<Vec<_>>())), is_required }
        })
    }

    /// Their positions.
    pub fn columns(&self) -> impl Iterator<Item = usize> {
        self.is_required.iter().enumerate().filter(|(_, required)| **required).map(|(column, _)| column)
    }

    /// The cluster with the check.
    pub fn wrap(self: &Arc<Self>, inner: Arc<dyn Cluster>) -> Arc<dyn Cluster> {
        Arc::new(RequiredCluster { required: self.clone(), inner })
    }

    fn check(&self, columns: &[usize], arrays: &[ArrayRef], place: &str) -> Result<()> {
        for (&column, array) in columns.iter().zip(arrays) {
            if self.is_required[column] && array.logical_null_count() > 0 {
                let name = self.schema.field(column).name();
                return Err(Error::file(format!("{place}: column '{name}' is declared NOT NULL, but has a NULL here")));
            }
        }
        Ok(())
    }
}

struct RequiredCluster {
    required: Arc<Required>,
    inner: Arc<dyn Cluster>,
}

impl fmt::Debug for RequiredCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl Cluster for RequiredCluster {
    fn rows(&self) -> Option<usize> {
        self.inner.rows()
    }

    fn bytes(&self, columns: &[usize]) -> usize {
        self.inner.bytes(columns)
    }

    fn fetch(&self, columns: &[usize]) -> Fetch {
        self.inner.fetch(columns)
    }

    fn fetch_in_steps(&self, columns: &[usize], step_bytes: usize) -> Option<FirstStep> {
        self.inner.fetch_in_steps(columns, step_bytes)
    }

    fn decode(&self, fetched: Fetched, request: &DecodeRequest) -> Result<Box<dyn Decode>> {
        let place: Arc<str> = self.describe().into();
        let filters = request.filters.iter().map(|filter| {
            let (required, place, inner) = (self.required.clone(), place.clone(), filter.clone());
            Arc::new(RequiredFilter { required, place, inner }) as Arc<dyn RowFilter>
        });
        let inner = DecodeRequest { filters: filters.collect(), ..request.clone() };
        Ok(Box::new(RequiredDecode {
            required: self.required.clone(),
            place,
            columns: request.columns.clone(),
            inner: self.inner.decode(fetched, &inner)?,
        }))
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn place(&self) -> Option<u64> {
        self.inner.place()
    }

    fn zone(&self, column: usize) -> Option<Zone> {
        self.inner.zone(column)
    }

    fn holds(&self, column: usize) -> bool {
        self.inner.holds(column)
    }
}

/// A filter that must not see a NULL either: it might drop the row.
struct RequiredFilter {
    required: Arc<Required>,
    place: Arc<str>,
    inner: Arc<dyn RowFilter>,
}

impl RowFilter for RequiredFilter {
    fn columns(&self) -> &[usize] {
        self.inner.columns()
    }

    fn keep(&self, columns: &[ArrayRef]) -> Result<BooleanArray> {
        self.required.check(self.inner.columns(), columns, &self.place)?;
        self.inner.keep(columns)
    }

    fn is_worthwhile(&self) -> bool {
        self.inner.is_worthwhile()
    }

    fn answer(&self) -> Option<AnswerId> {
        self.inner.answer()
    }
}

struct RequiredDecode {
    required: Arc<Required>,
    place: Arc<str>,
    columns: Vec<usize>,
    inner: Box<dyn Decode>,
}

impl Decode for RequiredDecode {
    fn step(&mut self) -> Result<Decoded> {
        let decoded = self.inner.step()?;
        if let Decoded::Chunk(chunk) = &decoded {
            self.required.check(&self.columns, &chunk.columns, &self.place)?;
        }
        Ok(decoded)
    }

    fn bytes(&self) -> usize {
        self.inner.bytes()
    }

    fn bring(&mut self, read: Fetched) -> Result<()> {
        self.inner.bring(read)
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::DataType;

    use super::*;
    use crate::external::testing::{AtMost, open_bytes, try_read_all};
    use crate::external::{Format, OpenOptions};
    use crate::{ScanRequest, Table};

    #[test]
    fn a_null_is_an_error_wherever_it_is_read() {
        let fields = vec![Field::new("a", DataType::Int64, false), Field::new("b", DataType::Int64, true)];
        let options = OpenOptions {
            format: Some(Format::Csv),
            schema: Some(Arc::new(Schema::new(fields))),
            ..OpenOptions::default()
        };
        let table = open_bytes("required.csv", b"a,b\n1,\n,2\n".to_vec(), &options).unwrap();
        assert!(!table.schema().field(0).is_nullable());
        let read = |columns: Vec<usize>, filters: &[_]| {
            try_read_all(&table, &ScanRequest { columns, predicate: None }, filters, 100, true)
        };
        assert_eq!(read(vec![1], &[]).unwrap().num_rows(), 2);
        let error = read(vec![0], &[]).unwrap_err();
        assert!(error.message().contains("required.csv") && error.message().contains("'a' is declared NOT NULL"));
        assert!(read(vec![1], &[AtMost::filter(0, 9)]).is_err());
    }
}
