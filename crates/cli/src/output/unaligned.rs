//! Values with a separator between them, as psql writes them with `-A`: no widths and no quotes. Values have the texts
//! of PostgreSQL's protocol: `t`, `{1,2}`.

use std::io::Write;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use diligence_server::texts;

use super::{Demand, Expanded, ResultWriter, TableOptions, WriteError};

pub(super) struct UnalignedWriter<'a> {
    output: &'a mut dyn Write,
    options: TableOptions,
    names: Vec<String>,
    /// The names of the columns, as long as they are not written: a statement that fails before its first row shows
    /// none.
    header: Option<String>,
    rows: u64,
    /// Whether a record was written, which the next one is separated from.
    is_begun: bool,
    /// Whether the last record has the end of its line.
    is_ended: bool,
}

/// Of a statement that fails after some rows the last line ends, too: the error stands in its own.
impl Drop for UnalignedWriter<'_> {
    fn drop(&mut self) {
        if self.is_begun && !self.is_ended {
            let _ = self.output.write_all(b"\n").and_then(|()| self.output.flush());
        }
    }
}

impl<'a> UnalignedWriter<'a> {
    pub(super) fn new(output: &'a mut dyn Write, options: TableOptions) -> Self {
        Self { output, options, names: Vec::new(), header: None, rows: 0, is_begun: false, is_ended: false }
    }

    fn is_expanded(&self) -> bool {
        self.options.expanded == Expanded::On
    }

    /// Writes a record: separators stand between records, and an end of line behind the last.
    fn record(&mut self, record: &str) -> Result<(), WriteError> {
        if std::mem::replace(&mut self.is_begun, true) {
            self.output.write_all(self.options.record_separator.as_bytes())?;
        }
        self.output.write_all(record.as_bytes())?;
        Ok(())
    }
}

impl ResultWriter for UnalignedWriter<'_> {
    fn begin(&mut self, schema: &SchemaRef) -> Result<(), WriteError> {
        self.names = schema.fields().iter().map(|field| field.name().clone()).collect();
        if self.options.headers && !self.is_expanded() {
            self.header = Some(self.names.join(&self.options.field_separator));
        }
        Ok(())
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<Demand, WriteError> {
        let most = self.options.rows.map_or(u64::MAX, |rows| rows as u64);
        let separator = self.options.field_separator.clone();
        let null = self.options.unaligned_null.clone();
        for row in texts(batch).map_err(WriteError::Value)? {
            self.header.take().map_or(Ok(()), |header| self.record(&header))?;
            if self.rows == most {
                return Ok(Demand::Enough);
            }
            let values = row.into_iter().map(|value| value.unwrap_or_else(|| null.clone()));
            if self.is_expanded() {
                // A blank record stands between rows.
                if self.rows > 0 {
                    self.record("")?;
                }
                let named = self.names.iter().zip(values).map(|(name, value)| format!("{name}{separator}{value}"));
                named.collect::<Vec<_>>().iter().try_for_each(|record| self.record(record))?;
            } else {
                self.record(&values.collect::<Vec<_>>().join(&separator))?;
            }
            self.rows += 1;
        }
        Ok(Demand::More)
    }

    fn flush(&mut self) -> Result<(), WriteError> {
        Ok(self.output.flush()?)
    }

    fn end(&mut self) -> Result<(), WriteError> {
        self.header.take().map_or(Ok(()), |header| self.record(&header))?;
        if self.options.footer && !self.is_expanded() {
            let rows = if self.rows == 1 { "row" } else { "rows" };
            self.record(&format!("({} {rows})", self.rows))?;
        }
        if self.is_begun {
            self.is_ended = true;
            self.output.write_all(b"\n")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::super::{Format, writer};
    use super::*;

    fn written(options: TableOptions) -> String {
        let mut output = Vec::new();
        let mut writer = writer(Format::Unaligned, &mut output, options);
        writer.begin(&sample().schema()).unwrap();
        writer.write(&sample()).unwrap();
        writer.end().unwrap();
        drop(writer);
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn a_statement_that_fails_leaves_no_line_open() {
        for (writes, expected) in [(false, ""), (true, "number|text|price|float|list\n1|a,\"b\"|1.00|1|{1,NULL}\n")] {
            let mut output = Vec::new();
            let options = TableOptions { rows: Some(1), ..TableOptions::default() };
            let mut writer = writer(Format::Unaligned, &mut output, options);
            writer.begin(&sample().schema()).unwrap();
            if writes {
                writer.write(&sample()).unwrap();
            }
            drop(writer);
            assert_eq!(String::from_utf8(output).unwrap(), expected);
        }
    }

    #[test]
    fn values_have_separators_only() {
        let expected = "number|text|price|float|list\n1|a,\"b\"|1.00|1|{1,NULL}\n||2.50|0.5|\n-30||-0.05|NaN|{}\n";
        assert_eq!(written(TableOptions::default()), format!("{expected}(3 rows)\n"));
        let bare = TableOptions { headers: false, footer: false, ..TableOptions::default() };
        let rows = expected.split_once('\n').unwrap().1;
        assert_eq!(written(bare.clone()), rows);
        let separated = TableOptions {
            field_separator: ";".to_owned(),
            record_separator: "#".to_owned(),
            unaligned_null: "-".to_owned(),
            rows: Some(2),
            ..bare.clone()
        };
        assert_eq!(written(separated), "1;a,\"b\";1.00;1;{1,NULL}#-;;2.50;0.5;-\n");
        let expanded = TableOptions { expanded: Expanded::On, rows: Some(1), ..bare };
        assert_eq!(written(expanded), "number|1\ntext|a,\"b\"\nprice|1.00\nfloat|1\nlist|{1,NULL}\n");
    }
}
