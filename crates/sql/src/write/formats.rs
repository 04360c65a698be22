//! How files are written, from the options of a statement and the settings of its session.

use std::collections::HashMap;

use datafusion_common::config::{ConfigFileType, ConfigOptions, TableOptions};
use datafusion_common::error::{DataFusionError, Result};
use datafusion_common::file_options::csv_writer::CsvWriterOptions;
use datafusion_common::parsers::CompressionTypeVariant;
use diligence_storage::external::{Compression, Format, Packing, WriteFormat};

/// A format with what the options say, which have DataFusion's names.
pub(super) fn write_format(
    settings: &ConfigOptions,
    format: Format,
    options: &HashMap<String, String>,
) -> Result<WriteFormat> {
    let mut all = TableOptions::default_from_session_config(settings);
    let mut set = |kind| {
        all.set_config_format(kind);
        all.alter_with_string_hash_map(options)
    };
    match format {
        Format::Parquet => {
            set(ConfigFileType::PARQUET)?;
            Ok(WriteFormat::Parquet(Box::new(all.parquet)))
        }
        Format::Arrow => Ok(WriteFormat::Arrow),
        Format::Csv => {
            set(ConfigFileType::CSV)?;
            let mut csv = all.csv;
            csv.has_header.get_or_insert(settings.catalog.has_header);
            let packing = packing(csv.compression, csv.compression_level);
            Ok(WriteFormat::Csv(CsvWriterOptions::try_from(&csv)?.writer_options, packing))
        }
        Format::Json => {
            set(ConfigFileType::JSON)?;
            Ok(WriteFormat::Json(packing(all.json.compression, all.json.compression_level)))
        }
        Format::Delta | Format::Iceberg | Format::Sqlite => {
            Err(DataFusionError::NotImplemented(format!("tables of {} are not written", format.name())))
        }
    }
}

/// Another file of a folder is begun when one has so many rows.
pub(super) fn file_rows_max(settings: &ConfigOptions) -> u64 {
    settings.execution.soft_max_rows_per_output_file.get() as u64
}

fn packing(compression: CompressionTypeVariant, level: Option<u32>) -> Packing {
    let compression = match compression {
        CompressionTypeVariant::GZIP => Compression::Gzip,
        CompressionTypeVariant::BZIP2 => Compression::Bzip2,
        CompressionTypeVariant::XZ => Compression::Xz,
        CompressionTypeVariant::ZSTD => Compression::Zstandard,
        CompressionTypeVariant::UNCOMPRESSED => Compression::Plain,
    };
    Packing { compression, level }
}
