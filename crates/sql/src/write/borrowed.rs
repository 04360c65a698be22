//! What comes before a writer of files, by DataFusion's front: the columns that are folders' names become text as it is
//! read back, and a NULL in a column that allows none is an error of INSERT.

use std::sync::Arc;

use arrow::array::{Array, StringArray};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, IntervalUnit};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::{Column, DataFusionError, plan_datafusion_err};
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::dml::CopyTo;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, LogicalPlanBuilder, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility, cast, lit, when,
};
use diligence_base::seams::Disk;
use diligence_base::{Error, Result};
use diligence_catalog::FileRelation;
use diligence_storage::Table;
use diligence_storage::external::{Compression, Destination, FileWriter, Format, PARTITION_NULL_NAME};
use diligence_storage::foreign_error::{from_datafusion, to_datafusion};

use super::CopyTarget;
use super::formats::{file_rows_max, write_format};
use super::plan::{KEEP_PARTITION_COLUMNS, nothing_to_write, writing_options};
use crate::errors::suggest;
use crate::rewrite::duplicates;

/// What writes the rows of an INSERT into a folder, and the plan of the rows as they are written. `input` has the
/// table's columns. Fails with kind `Unsupported` if the table takes no rows.
pub(crate) fn insert_plan(
    state: &SessionState,
    input: LogicalPlan,
    relation: &Arc<FileRelation>,
    replace: bool,
    disk: Arc<dyn Disk>,
) -> Result<(LogicalPlan, FileWriter)> {
    let table = relation.table()?;
    let (folder, ending) = table.folder_for_new(relation.options.compression.unwrap_or(Compression::Plain))?;
    let partitions = table.partition_columns();
    let schema = table.schema();
    let in_files = schema.fields().iter().filter(|field| !partitions.contains(field.name())).collect::<Vec<_>>();
    if in_files.is_empty() {
        return Err(nothing_to_write());
    }
    let format = write_format(state, table.format(), &writing_options(table.format(), &relation.options, &in_files));
    let format = format.map_err(from_datafusion)?;
    let project = || {
        let columns = input.schema().iter().map(Column::from).collect::<Vec<_>>();
        let exprs = columns.into_iter().zip(schema.fields()).map(|(column, field)| {
            let value = Expr::Column(column);
            let value = if field.is_nullable() { value } else { required(value, field.name()) };
            let value = if partitions.contains(field.name()) { folder_text(value)? } else { value };
            Ok(value.alias(field.name()))
        });
        let exprs = exprs.collect::<DataFusionResult<Vec<_>>>()?;
        LogicalPlanBuilder::from(input.clone()).project(exprs)?.build()
    };
    let plan = project().map_err(|error: DataFusionError| from_datafusion(error))?;
    let writer = FileWriter {
        name: relation.location.clone(),
        format,
        destination: Destination::Table { folder, ending, files: relation.clone(), replace },
        partition_columns: partitions.to_vec(),
        keeps_partition_columns: false,
        required_columns: vec![],
        file_rows_max: file_rows_max(state),
        disk,
    };
    Ok((plan, writer))
}

/// What writes the rows of a COPY, and the plan of the rows as they are written. With PARTITIONED BY, values become the
/// names of folders as they are read back: DataFusion writes NULL like an empty string or 0. Nested values become text
/// in CSV.
pub(crate) fn copy_plan(
    state: &SessionState,
    copy: CopyTo,
    target: CopyTarget,
    disk: Arc<dyn Disk>,
) -> Result<(LogicalPlan, FileWriter)> {
    let CopyTo { input, partition_by, options, .. } = copy;
    let format = target.format;
    if format == Format::Parquet {
        writable_to_parquet(input.schema().fields()).map_err(from_datafusion)?;
    }
    if format != Format::Csv {
        duplicates::refused(input.schema())?;
    }
    let names = input.schema().fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>();
    if let Some(unknown) = partition_by.iter().find(|column| !names.contains(column)) {
        let error = Error::input(format!("PARTITIONED BY names the column '{unknown}', which the rows do not have"));
        return Err(suggest(error, unknown, &names));
    }
    let keeps = match options.get(KEEP_PARTITION_COLUMNS).map(|value| value.trim()) {
        None => state.config_options().execution.keep_partition_by_columns,
        Some("true") => true,
        Some("false") => false,
        Some(other) => {
            return Err(Error::input(format!("{KEEP_PARTITION_COLUMNS}: expected true or false, found '{other}'")));
        }
    };
    if !keeps && !partition_by.is_empty() && names.iter().all(|name| partition_by.contains(name)) {
        return Err(nothing_to_write());
    }
    let plan = as_written(Arc::unwrap_or_clone(input), format, if keeps { &[] } else { &partition_by });
    let writer = FileWriter {
        destination: target.destination(disk.as_ref())?,
        name: target.name,
        format: write_format(state, format, &options).map_err(from_datafusion)?,
        partition_columns: partition_by,
        keeps_partition_columns: keeps,
        required_columns: vec![],
        file_rows_max: file_rows_max(state),
        disk,
    };
    Ok((plan.map_err(from_datafusion)?, writer))
}

/// The rows with the values of folders' names as text, and in CSV with all nested ones.
fn as_written(input: LogicalPlan, format: Format, folders: &[String]) -> DataFusionResult<LogicalPlan> {
    let is_text = |field: &FieldRef| format == Format::Csv && field.data_type().is_nested();
    if folders.is_empty() && !input.schema().fields().iter().any(is_text) {
        return Ok(input);
    }
    let exprs = input.schema().iter().map(|(qualifier, field)| {
        let value = Expr::Column(Column::from((qualifier, field)));
        Ok(if folders.contains(field.name()) {
            folder_text(value)?.alias(field.name())
        } else if is_text(field) {
            ScalarUDF::from(NestedText::default()).call(vec![value]).alias(field.name())
        } else {
            value
        })
    });
    let exprs = exprs.collect::<DataFusionResult<Vec<_>>>()?;
    LogicalPlanBuilder::from(input).project(exprs)?.build()
}

/// A value as it stands in a folder's name.
fn folder_text(value: Expr) -> DataFusionResult<Expr> {
    when(value.clone().is_null(), lit(PARTITION_NULL_NAME)).otherwise(cast(value, DataType::Utf8))
}

/// Fails on types that Parquet has no form for.
fn writable_to_parquet(fields: &Fields) -> DataFusionResult<()> {
    match fields.iter().find(|field| matches!(field.data_type(), DataType::Interval(IntervalUnit::MonthDayNano))) {
        None => Ok(()),
        Some(field) => {
            let error =
                Error::unsupported(format!("Parquet has no form for the intervals of column '{}'", field.name()));
            Err(to_datafusion(error.with_hint("cast them to VARCHAR, or write an .arrow file")))
        }
    }
}

/// Lists, structs and maps as text, as the command line writes them in CSV.
#[derive(Debug, PartialEq, Eq, Hash)]
struct NestedText {
    signature: Signature,
}

impl Default for NestedText {
    fn default() -> Self {
        Self { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for NestedText {
    fn name(&self) -> &str {
        "nested_text"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DataFusionResult<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let options = FormatOptions::default().with_null("NULL").with_display_error(false);
        let texts = ArrayFormatter::try_new(&arrays[0], &options)?;
        let nulls = arrays[0].logical_nulls();
        let text = |row| match &nulls {
            Some(nulls) if nulls.is_null(row) => Ok(None),
            _ => texts.value(row).try_to_string().map(Some),
        };
        let text = (0..arrays[0].len()).map(text).collect::<Result<StringArray, _>>()?;
        Ok(ColumnarValue::Array(Arc::new(text)))
    }
}

/// A value, or an error if it is NULL.
fn required(value: Expr, column: &str) -> Expr {
    let function = Required { column: column.to_owned(), signature: Signature::any(1, Volatility::Immutable) };
    ScalarUDF::from(function).call(vec![value])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Required {
    column: String,
    signature: Signature,
}

impl ScalarUDFImpl for Required {
    fn name(&self) -> &str {
        "required"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> DataFusionResult<DataType> {
        Ok(types[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> DataFusionResult<FieldRef> {
        Ok(Arc::new(Field::new(&self.column, args.arg_fields[0].data_type().clone(), false)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let [value] = <[ColumnarValue; 1]>::try_from(args.args)
            .map_err(|args| plan_datafusion_err!("required() got {} values", args.len()))?;
        let has_null = match &value {
            ColumnarValue::Array(array) => array.logical_null_count() > 0,
            ColumnarValue::Scalar(value) => value.is_null() && args.number_rows > 0,
        };
        if has_null {
            return Err(to_datafusion(Error::value(format!("the column '{}' does not allow NULL", self.column))));
        }
        Ok(value)
    }
}
