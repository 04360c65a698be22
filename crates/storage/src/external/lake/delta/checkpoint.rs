//! Checkpoints: all actions that make a version, in Parquet files or lines of JSON.
//!
//! A row of a Parquet file becomes the line of JSON that it stands for, and is read as such: so there is one way in
//! which actions are read.

use std::sync::Arc;

use arrow::json::LineDelimitedWriter;
use bytes::Bytes;
use diligence_base::panics::caught_quietly;
use diligence_base::{Error, Result};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::errors::ParquetError;

use super::actions::Action;
use crate::external::lake::DELTA_LOG;
use crate::external::lake::place::Place;
use crate::external::source::Source;

/// Rows of a Parquet file that become lines at once.
const ROWS_AT_ONCE: usize = 4096;

/// What readers need of a checkpoint.
const COLUMNS: [&str; 4] = ["add", "metaData", "protocol", "sidecar"];

/// Fields of those that are not needed, and may be large.
const FIELDS_LEFT_OUT: [&str; 4] = ["add.stats_parsed", "add.partitionValues_parsed", "add.tags", "sidecar.tags"];

/// Calls `apply` for every action of a checkpoint in these files of the log.
pub(super) fn read(place: &Place, files: &[String], apply: &mut dyn FnMut(Action) -> Result<()>) -> Result<()> {
    let mut sidecars = Vec::new();
    for file in files {
        let (source, bytes) = place.read(&format!("{DELTA_LOG}/{file}"))?;
        let mut apply_or_keep = |mut action: Action| {
            sidecars.extend(action.sidecar.take());
            apply(action)
        };
        match file.ends_with(".json") {
            true => lines(&source, &bytes, &mut apply_or_keep)?,
            false => parquet(&source, &bytes, &mut apply_or_keep)?,
        }
    }
    for sidecar in sidecars {
        let path = match sidecar.path.contains('/') {
            true => sidecar.path,
            false => format!("{DELTA_LOG}/_sidecars/{}", sidecar.path),
        };
        let (source, bytes) = place.read(&path)?;
        parquet(&source, &bytes, apply)?;
    }
    Ok(())
}

/// Calls `apply` for every line of a file. Fails with kind `File` for one that is no action.
pub(super) fn lines(source: &Source, bytes: &[u8], apply: &mut dyn FnMut(Action) -> Result<()>) -> Result<()> {
    for (number, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let action = serde_json::from_slice(line);
        let wrong = |error| source.error(format!("line {}: this is no action of a log: {error}", number + 1));
        apply(action.map_err(wrong)?)?;
    }
    Ok(())
}

fn parquet(source: &Arc<Source>, bytes: &Bytes, apply: &mut dyn FnMut(Action) -> Result<()>) -> Result<()> {
    let damaged = |error: &dyn std::fmt::Display| source.error(format!("the checkpoint cannot be read: {error}"));
    let reader = caught_quietly(|| {
        let builder = ParquetRecordBatchReaderBuilder::try_new(bytes.clone())?.with_batch_size(ROWS_AT_ONCE);
        let descriptor = builder.metadata().file_metadata().schema_descr_ptr();
        let is_wanted = |leaf: &usize| {
            let path = descriptor.column(*leaf).path().parts().join(".");
            let has = |prefix: &str| path.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('.'));
            COLUMNS.iter().any(|column| has(column)) && !FIELDS_LEFT_OUT.iter().any(|field| has(field))
        };
        let leaves = (0..descriptor.num_columns()).filter(is_wanted).collect::<Vec<_>>();
        let mask = ProjectionMask::leaves(&descriptor, leaves);
        builder.with_projection(mask).build()
    });
    let mut reader = match reader {
        Some(reader) => reader.map_err(|error| damaged(&error))?,
        None => return Err(damaged(&"it is damaged")),
    };
    loop {
        let text = caught_quietly(|| {
            let Some(batch) = reader.next().transpose()? else { return Ok(None) };
            let mut writer = LineDelimitedWriter::new(Vec::new());
            writer.write(&batch)?;
            writer.finish()?;
            Ok::<_, ParquetError>(Some(writer.into_inner()))
        });
        match text {
            Some(Ok(Some(text))) => lines(source, &text, apply)?,
            Some(Ok(None)) => return Ok(()),
            Some(Err(error)) => return Err(damaged(&error)),
            None => return Err::<(), Error>(damaged(&"it is damaged")),
        }
    }
}
