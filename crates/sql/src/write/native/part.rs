//! What one packet has of a statement that writes: rows in memory, or in clusters of a segment once they are many.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use diligence_base::{Error, Result};
use diligence_catalog::{ColumnIds, Relation, table_schema};
use diligence_engine::batch::{bytes_needed, compacted};
use diligence_storage::foreign_error::from_arrow;
use diligence_storage::segment::{SegmentBlock, SegmentWriter, is_storable};
use diligence_storage::{PartIo, WriteIo, WritePart};

use super::super::load::{CLUSTER_BYTES, CLUSTERS_MAX, LAST_PART, Load};
use super::{ChangeWay, NativeOperation, NativeRows, NativeTarget, NativeWriter, NewTable};

impl Load {
    /// `None` where rows that come stay in memory.
    pub(super) fn of(writer: &NativeWriter) -> Option<Self> {
        if writer.triggers.is_some() {
            return None;
        }
        let row_store = writer.catalog.row_store()?.clone();
        let of_new = |new: &NewTable| {
            let columns = table_schema(&new.schema);
            let ids = ColumnIds::of_new(columns.fields().len()).ids;
            Self { row_store: row_store.clone(), name: new.name.clone(), columns, ids, table: None }
        };
        let load = match &writer.target {
            NativeTarget::Create(new) | NativeTarget::Rewrite { new, .. } => of_new(new),
            NativeTarget::Change { table, way: ChangeWay::Insert { .. }, .. } => {
                let object = writer.catalog.snapshot().get(&table.name).filter(|now| now.id == table.id)?.clone();
                let Relation::Native(rows) = &object.relation else { return None };
                // Altered since the statement was planned: its rows will not come.
                if writer.planned.as_ref().is_some_and(|planned| !rows.takes_rows_for(planned, true)) {
                    return None;
                }
                let (columns, ids) = (rows.schema().clone(), rows.columns().ids.clone());
                Self { row_store, name: table.name.clone(), columns, ids, table: Some(rows.clone()) }
            }
            NativeTarget::Change { .. } => return None,
        };
        load.columns.fields().iter().all(|field| is_storable(field.data_type())).then_some(load)
    }
}

/// What one packet has.
pub(super) struct NativePart {
    pub(super) operation: Arc<NativeOperation>,
    pub(super) rows: Option<NativeRows>,
    /// Rows in its batches.
    pub(super) count: usize,
    /// Where its rows go, once they are many.
    pub(super) segment: Option<SegmentWriter>,
    pub(super) due: VecDeque<SegmentBlock>,
}

impl NativePart {
    /// Encodes its rows as a cluster.
    fn store(&mut self, load: &Load) -> Result<()> {
        let rows = self.rows.as_mut().ok_or_else(|| Error::bug("rows come after their end"))?;
        let batches = std::mem::take(&mut rows.batches).into_iter();
        let values = batches.map(|batch| self.operation.values(load, batch)).collect::<Result<Vec<_>>>()?;
        let mut segment = match self.segment.take() {
            Some(segment) => segment,
            None => load.row_store.begin(&load.columns, &load.ids, 0)?,
        };
        segment.encode_cluster(&values)?;
        drop(values);
        rows.memory.shrink(rows.memory.bytes());
        self.count = 0;
        self.due.extend(segment.due());
        match segment.clusters() == CLUSTERS_MAX {
            true => self.operation.written.lock().push((0, segment)),
            false => self.segment = Some(segment),
        }
        Ok(())
    }
}

impl WritePart for NativePart {
    /// Keeps rows. They are compacted, since views may refer to much that is the query's, and counted as what they hold
    /// then.
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let batch = &match &self.operation.writer.target {
            NativeTarget::Create(_) => batch.clone(),
            NativeTarget::Rewrite { table, layout, .. } | NativeTarget::Change { table, layout, .. } => {
                match self.operation.writer.triggers.as_ref().is_some_and(|triggers| triggers.change_rows()) {
                    // Looked at when the rows are what they are to be.
                    true => layout.unchecked(batch)?,
                    false => layout.checked(batch, &table.name)?,
                }
            }
        };
        let bytes = batch.columns().iter().map(|column| bytes_needed(column)).sum::<usize>();
        // What is given back of rows is kept with them.
        let load = self.operation.load.clone().filter(|load| load.columns.fields().len() == batch.num_columns());
        if let (Some(load), Some(divided)) = (&load, &self.operation.divided) {
            let columns = batch.columns().iter().map(compacted).collect::<Result<Vec<_>>>()?;
            let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
            let batch = RecordBatch::try_new_with_options(batch.schema(), columns, &options).map_err(from_arrow)?;
            let values = self.operation.values(load, batch)?;
            self.due.extend(divided.add(load, values, bytes)?);
            return Ok(());
        }
        if let (Some(load), Some(rows)) = (&load, &self.rows)
            && self.count > 0
            && (self.count + batch.num_rows() > load.row_store.cluster_rows()
                || rows.memory.bytes() + bytes > CLUSTER_BYTES)
        {
            self.store(load)?;
        }
        let rows = self.rows.as_mut().ok_or_else(|| Error::bug("rows come after their end"))?;
        rows.memory.grow(bytes)?;
        let columns = batch.columns().iter().map(compacted).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let batch = RecordBatch::try_new_with_options(batch.schema(), columns, &options).map_err(from_arrow)?;
        self.count += batch.num_rows();
        rows.batches.push(batch);
        Ok(())
    }

    fn held_bytes(&self) -> usize {
        self.due.iter().map(SegmentBlock::bytes).sum()
    }

    fn revoke(&mut self) -> Result<()> {
        Ok(())
    }

    fn next_io(&mut self) -> Option<PartIo> {
        let block = self.due.pop_front()?;
        Some(PartIo { bytes: block.bytes(), io: WriteIo::Blocking(Box::new(move || block.write())) })
    }

    fn finish(&mut self) -> Result<()> {
        if let Some(load) = self.operation.load.clone().filter(|_| self.segment.is_some())
            && self.count >= load.row_store.cluster_rows() / LAST_PART
        {
            self.store(&load)?;
        }
        self.operation.written.lock().extend(self.segment.take().map(|segment| (0, segment)));
        if let (Some(own), Some(all)) = (self.rows.take(), self.operation.rows.lock().as_mut()) {
            all.batches.extend(own.batches);
            all.memory.absorb(own.memory);
        }
        Ok(())
    }
}
