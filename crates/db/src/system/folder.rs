//! What a database on disk has written: its log and its checkpoints. One in memory has no rows here, nor has one that
//! is only read.

use std::time::{Duration, SystemTime};

use diligence_base::Result;
use diligence_native::{CheckpointInfo, LogInfo};

use super::{Column, Kind, SessionView, Value, instant};

pub(super) const LOG: [Column; 7] = [
    ("number", Kind::Number),
    ("file_bytes", Kind::Number),
    ("bytes", Kind::Number),
    ("first_record", Kind::Number),
    ("records", Kind::Number),
    ("synced_records", Kind::Number),
    ("covered", Kind::Text),
];

/// One row for each file of the log, the present one last.
pub(super) fn log(session: &dyn SessionView) -> Result<Vec<Vec<Value>>> {
    let known = |number: Option<u64>| number.map_or(Value::Number(None), Value::from);
    let row = |log: LogInfo| {
        vec![
            log.number.into(),
            log.file_bytes.into(),
            known(log.bytes),
            known(log.first_record),
            known(log.records),
            known(log.synced_records),
            if log.is_covered { "yes" } else { "no" }.into(),
        ]
    };
    Ok(session.logs()?.into_iter().map(row).collect())
}

pub(super) const CHECKPOINTS: [Column; 9] = [
    ("number", Kind::Number),
    ("state", Kind::Text),
    ("began", Kind::Text),
    ("took_us", Kind::Number),
    ("image_bytes", Kind::Number),
    ("log_bytes", Kind::Number),
    ("error", Kind::Text),
    ("made_total", Kind::Number),
    ("failed_total", Kind::Number),
];

/// One row for each of the last checkpoints, oldest first.
pub(super) fn checkpoints(session: &dyn SessionView) -> Result<Vec<Vec<Value>>> {
    let row = |checkpoint: CheckpointInfo| {
        let began = SystemTime::UNIX_EPOCH + Duration::from_micros(u64::try_from(checkpoint.began_us).unwrap_or(0));
        let (state, image_bytes, log_bytes, error) = match checkpoint.outcome {
            Ok((image_bytes, log_bytes)) => ("made", image_bytes.into(), log_bytes.into(), Value::Text(None)),
            Err(error) => ("failed", Value::Number(None), Value::Number(None), error.message().into()),
        };
        vec![
            checkpoint.number.into(),
            state.into(),
            instant(began),
            (checkpoint.took.as_micros() as u64).into(),
            image_bytes,
            log_bytes,
            error,
            checkpoint.made_total.into(),
            checkpoint.failed_total.into(),
        ]
    };
    Ok(session.checkpoints().into_iter().map(row).collect())
}
