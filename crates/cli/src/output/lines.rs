//! The values of a result as plain lines, for plans, whose lines are long and indented.

use std::io::Write;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use super::text::{formatters, options, printable};
use super::{Demand, ResultWriter, WriteError};

/// Writes every value on separate lines.
pub struct LineWriter<'a> {
    output: &'a mut dyn Write,
}

impl<'a> LineWriter<'a> {
    /// A writer to this output.
    pub fn new(output: &'a mut dyn Write) -> Self {
        Self { output }
    }
}

impl ResultWriter for LineWriter<'_> {
    fn begin(&mut self, _schema: &SchemaRef) -> Result<(), WriteError> {
        Ok(())
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<Demand, WriteError> {
        let options = options();
        let formatters = formatters(batch, &options)?;
        for row in 0..batch.num_rows() {
            for column in &formatters {
                for line in column.value(row).to_string().lines() {
                    writeln!(self.output, "{}", printable(line))?;
                }
            }
        }
        Ok(Demand::More)
    }

    fn flush(&mut self) -> Result<(), WriteError> {
        Ok(self.output.flush()?)
    }

    fn end(&mut self) -> Result<(), WriteError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use arrow::array::{ArrayRef, StringArray};

    #[test]
    fn a_plan_keeps_its_indentation() {
        let lines: ArrayRef = Arc::new(StringArray::from(vec!["Limit 1", "  Scan t\n  where a"]));
        let batch = RecordBatch::try_from_iter([("plan", lines)]).unwrap();
        let mut output = Vec::new();
        LineWriter::new(&mut output).write(&batch).unwrap();
        assert_eq!(String::from_utf8(output).unwrap(), "Limit 1\n  Scan t\n  where a\n");
    }
}
