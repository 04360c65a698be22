//! Errors of the libraries we stand on, turned into ours. The kind says what the caller does next.

use arrow::error::ArrowError;
use datafusion_common::DataFusionError;
use diligence_base::{Error, ErrorKind};
use parquet::errors::ParquetError;

/// An Arrow kernel failed: almost always because of a value.
pub fn from_arrow(error: ArrowError) -> Error {
    match error {
        ArrowError::DivideByZero => Error::value("division by zero"),
        ArrowError::ArithmeticOverflow(message) => Error::value(format!("arithmetic overflow: {message}")),
        ArrowError::CastError(message) => Error::value(message),
        ArrowError::ComputeError(message) => Error::value(message),
        ArrowError::ParseError(message) => Error::value(message),
        ArrowError::InvalidArgumentError(message) => Error::value(message),
        ArrowError::MemoryError(message) => Error::resource(message),
        ArrowError::NotYetImplemented(message) => Error::unsupported(message),
        ArrowError::IoError(message, _) => Error::file(message),
        ArrowError::ExternalError(inner) => match inner.downcast::<DataFusionError>() {
            Ok(inner) => from_datafusion(*inner),
            Err(inner) => match inner.downcast::<Error>() {
                Ok(inner) => *inner,
                Err(inner) => Error::value(inner.to_string()),
            },
        },
        other => Error::value(other.to_string()),
    }
}

/// DataFusion failed: while planning because of the statement, while running because of a value.
pub fn from_datafusion(error: DataFusionError) -> Error {
    match error {
        DataFusionError::ArrowError(inner, _) => from_arrow(*inner),
        DataFusionError::ParquetError(inner) => from_parquet(*inner),
        DataFusionError::ObjectStore(inner) => Error::file(inner.to_string()),
        DataFusionError::IoError(inner) => Error::file(inner.to_string()),
        DataFusionError::SQL(inner, _) => Error::input(inner.to_string()),
        DataFusionError::Plan(message) | DataFusionError::Configuration(message) => Error::input(message),
        DataFusionError::SchemaError(inner, _) => Error::input(inner.to_string()),
        DataFusionError::NotImplemented(message) => Error::unsupported(message),
        DataFusionError::Execution(message) => Error::value(message),
        DataFusionError::ResourcesExhausted(message) => Error::resource(message),
        DataFusionError::Internal(message) => Error::bug(message),
        DataFusionError::Context(context, inner) => {
            let inner = from_datafusion(*inner);
            // The optimizer's rule names say nothing to a user; keep what is about the statement.
            if inner.kind() == ErrorKind::Bug { inner.context(context) } else { inner }
        }
        DataFusionError::Diagnostic(_, inner) => from_datafusion(*inner),
        DataFusionError::Shared(inner) => from_shared(&inner),
        DataFusionError::External(inner) => match inner.downcast::<Error>() {
            Ok(inner) => *inner,
            Err(inner) => match inner.downcast::<DataFusionError>() {
                Ok(inner) => from_datafusion(*inner),
                Err(inner) => Error::value(inner.to_string()),
            },
        },
        other => Error::value(other.to_string()),
    }
}

fn from_shared(error: &DataFusionError) -> Error {
    if let DataFusionError::External(inner) = error
        && let Some(inner) = inner.downcast_ref::<Error>()
    {
        return inner.clone();
    }
    match error {
        DataFusionError::Plan(message) => Error::input(message.clone()),
        DataFusionError::ResourcesExhausted(message) => Error::resource(message.clone()),
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => from_shared(inner),
        DataFusionError::Shared(inner) => from_shared(inner),
        other => Error::value(other.strip_backtrace()),
    }
}

/// A Parquet file cannot be read. The caller adds the file's name.
pub fn from_parquet(error: ParquetError) -> Error {
    match error {
        ParquetError::ArrowError(message) => Error::value(message),
        ParquetError::External(inner) => Error::file(inner.to_string()),
        other => Error::file(other.to_string()),
    }
}

/// Our error on its way through a DataFusion interface; [`from_datafusion`] gives it back unchanged.
pub fn to_datafusion(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
