//! What the server can do, and the types that it has, as Flight SQL's clients ask for it.

use std::sync::LazyLock;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow_flight::sql::metadata::{
    SqlInfoData, SqlInfoDataBuilder, XdbcTypeInfo, XdbcTypeInfoData, XdbcTypeInfoDataBuilder,
};
use arrow_flight::sql::{
    Nullable, Searchable, SqlInfo, SqlNullOrdering, SqlSupportedCaseSensitivity, SqlSupportedTransaction,
    SqlTransactionIsolationLevel, XdbcDataType, XdbcDatetimeSubcode,
};
use diligence_base::limits::STATEMENT_BYTES_MAX;
use diligence_base::{Error, Result};

/// Bytes of a name that PostgreSQL keeps, and so do clients that look for them.
const NAME_BYTES: i64 = 63;

static SQL_INFO: LazyLock<Result<SqlInfoData>> = LazyLock::new(|| {
    let mut info = SqlInfoDataBuilder::new();
    info.append(SqlInfo::FlightSqlServerName, "Diligence");
    info.append(SqlInfo::FlightSqlServerVersion, env!("CARGO_PKG_VERSION"));
    info.append(SqlInfo::FlightSqlServerArrowVersion, "59.3.2");
    info.append(SqlInfo::FlightSqlServerReadOnly, false);
    info.append(SqlInfo::FlightSqlServerSql, true);
    info.append(SqlInfo::FlightSqlServerSubstrait, false);
    info.append(SqlInfo::FlightSqlServerTransaction, SqlSupportedTransaction::Savepoint as i32);
    info.append(SqlInfo::FlightSqlServerCancel, true);
    info.append(SqlInfo::FlightSqlServerBulkIngestion, true);
    info.append(SqlInfo::FlightSqlServerIngestTransactionsSupported, true);
    // For as long as it takes.
    info.append(SqlInfo::FlightSqlServerStatementTimeout, 0_i32);
    info.append(SqlInfo::FlightSqlServerTransactionTimeout, 0_i32);
    info.append(SqlInfo::SqlDdlCatalog, false);
    info.append(SqlInfo::SqlDdlSchema, true);
    info.append(SqlInfo::SqlDdlTable, true);
    info.append(SqlInfo::SqlIdentifierCase, i64::from(SqlSupportedCaseSensitivity::SqlCaseSensitivityLowercase as i32));
    info.append(SqlInfo::SqlIdentifierQuoteChar, "\"");
    let quoted = SqlSupportedCaseSensitivity::SqlCaseSensitivityCaseInsensitive as i32;
    info.append(SqlInfo::SqlQuotedIdentifierCase, i64::from(quoted));
    info.append(SqlInfo::SqlAllTablesAreSelectable, true);
    info.append(SqlInfo::SqlNullOrdering, i64::from(SqlNullOrdering::SqlNullsSortedHigh as i32));
    info.append(SqlInfo::SqlSearchStringEscape, "\\");
    info.append(SqlInfo::SqlExtraNameCharacters, "");
    info.append(SqlInfo::SqlSupportsColumnAliasing, true);
    info.append(SqlInfo::SqlNullPlusNullIsNull, true);
    info.append(SqlInfo::SqlSupportsTableCorrelationNames, true);
    info.append(SqlInfo::SqlSupportsDifferentTableCorrelationNames, false);
    info.append(SqlInfo::SqlSupportsExpressionsInOrderBy, true);
    info.append(SqlInfo::SqlSupportsOrderByUnrelated, true);
    info.append(SqlInfo::SqlSupportsLikeEscapeClause, true);
    info.append(SqlInfo::SqlSupportsNonNullableColumns, true);
    info.append(SqlInfo::SqlSupportsIntegrityEnhancementFacility, true);
    info.append(SqlInfo::SqlSchemaTerm, "schema");
    info.append(SqlInfo::SqlProcedureTerm, "procedure");
    info.append(SqlInfo::SqlCatalogTerm, "database");
    info.append(SqlInfo::SqlCatalogAtStart, true);
    info.append(SqlInfo::SqlSelectForUpdateSupported, true);
    info.append(SqlInfo::SqlStoredProceduresSupported, true);
    info.append(SqlInfo::SqlCorrelatedSubqueriesSupported, true);
    info.append(SqlInfo::SqlMaxColumnNameLength, NAME_BYTES);
    info.append(SqlInfo::SqlDbSchemaNameLength, NAME_BYTES);
    info.append(SqlInfo::SqlMaxTableNameLength, NAME_BYTES);
    info.append(SqlInfo::SqlMaxStatementLength, STATEMENT_BYTES_MAX as i64);
    let isolation = SqlTransactionIsolationLevel::SqlTransactionReadCommitted as i32;
    info.append(SqlInfo::SqlDefaultTransactionIsolation, i64::from(isolation));
    info.append(SqlInfo::SqlTransactionsSupported, true);
    info.append(SqlInfo::SqlDataDefinitionCausesTransactionCommit, false);
    info.append(SqlInfo::SqlDataDefinitionsInTransactionsIgnored, false);
    info.append(SqlInfo::SqlBatchUpdatesSupported, true);
    info.append(SqlInfo::SqlSavepointsSupported, true);
    info.append(SqlInfo::SqlNamedParametersSupported, false);
    info.append(SqlInfo::SqlLocatorsUpdateCopy, false);
    info.append(SqlInfo::SqlStoredFunctionsUsingCallSyntaxSupported, false);
    info.build().map_err(|error| Error::bug(format!("what the server can do: {error}")))
});

/// Those facts about the server that are asked for; all if none is.
pub(super) fn sql_info(asked: &[u32]) -> Result<RecordBatch> {
    let info = SQL_INFO.as_ref().map_err(Error::clone)?;
    info.record_batch(asked.iter().copied()).map_err(|error| Error::bug(error.to_string()))
}

/// The columns of [`sql_info`].
pub(super) fn sql_info_schema() -> Result<SchemaRef> {
    Ok(SQL_INFO.as_ref().map_err(Error::clone)?.schema())
}

/// A type: its name, what JDBC calls it, its digits or characters or bytes, what stands around a literal, and what may
/// follow the name in parentheses.
type Known = (&'static str, XdbcDataType, i32, Option<(&'static str, &'static str)>, &'static [&'static str]);

const TEXT: Option<(&str, &str)> = Some(("'", "'"));

#[rustfmt::skip]
const TYPES: [Known; 18] = [
    ("boolean", XdbcDataType::XdbcBit, 1, None, &[]),
    ("smallint", XdbcDataType::XdbcSmallint, 5, None, &[]),
    ("integer", XdbcDataType::XdbcInteger, 10, None, &[]),
    ("bigint", XdbcDataType::XdbcBigint, 19, None, &[]),
    ("numeric", XdbcDataType::XdbcNumeric, 76, None, &["precision", "scale"]),
    ("real", XdbcDataType::XdbcReal, 7, None, &[]),
    ("double precision", XdbcDataType::XdbcDouble, 15, None, &[]),
    ("text", XdbcDataType::XdbcVarchar, i32::MAX, TEXT, &[]),
    ("character varying", XdbcDataType::XdbcVarchar, i32::MAX, TEXT, &["length"]),
    ("character", XdbcDataType::XdbcChar, i32::MAX, TEXT, &["length"]),
    ("bytea", XdbcDataType::XdbcVarbinary, i32::MAX, TEXT, &[]),
    ("date", XdbcDataType::XdbcDate, 10, Some(("DATE '", "'")), &[]),
    ("time without time zone", XdbcDataType::XdbcTime, 15, Some(("TIME '", "'")), &[]),
    ("timestamp without time zone", XdbcDataType::XdbcTimestamp, 29, Some(("TIMESTAMP '", "'")), &[]),
    ("timestamp with time zone", XdbcDataType::XdbcTimestamp, 35, Some(("TIMESTAMPTZ '", "'")), &[]),
    ("interval", XdbcDataType::XdbcInterval, 49, Some(("INTERVAL '", "'")), &[]),
    ("json", XdbcDataType::XdbcVarchar, i32::MAX, TEXT, &[]),
    ("uuid", XdbcDataType::XdbcChar, 36, TEXT, &[]),
];

static TYPE_INFO: LazyLock<Result<XdbcTypeInfoData>> = LazyLock::new(|| {
    let mut info = XdbcTypeInfoDataBuilder::new();
    for (name, data_type, size, literal, parameters) in TYPES {
        let is_number = literal.is_none() && data_type != XdbcDataType::XdbcBit;
        let is_text = matches!(data_type, XdbcDataType::XdbcVarchar | XdbcDataType::XdbcChar);
        let is_exact = is_number && !matches!(data_type, XdbcDataType::XdbcReal | XdbcDataType::XdbcDouble);
        let scale = if data_type == XdbcDataType::XdbcNumeric { 38 } else { 0 };
        let subcode = match name {
            "timestamp with time zone" => Some(XdbcDatetimeSubcode::XdbcSubcodeTimestampWithTimezone),
            "timestamp without time zone" => Some(XdbcDatetimeSubcode::XdbcSubcodeTimestamp),
            "time without time zone" => Some(XdbcDatetimeSubcode::XdbcSubcodeTime),
            _ => None,
        };
        info.append(XdbcTypeInfo {
            type_name: name.to_owned(),
            data_type,
            column_size: Some(size),
            literal_prefix: literal.map(|(prefix, _)| prefix.to_owned()),
            literal_suffix: literal.map(|(_, suffix)| suffix.to_owned()),
            create_params: Some(parameters.iter().map(|name| (*name).to_owned()).collect()),
            nullable: Nullable::NullabilityNullable,
            case_sensitive: is_text,
            searchable: if is_text { Searchable::Full } else { Searchable::Basic },
            unsigned_attribute: is_number.then_some(false),
            fixed_prec_scale: false,
            auto_increment: is_number.then_some(false),
            local_type_name: Some(name.to_owned()),
            minimum_scale: is_exact.then_some(0),
            maximum_scale: is_exact.then_some(scale),
            sql_data_type: if subcode.is_some() { XdbcDataType::XdbcDatetime } else { data_type },
            datetime_subcode: subcode,
            num_prec_radix: is_number.then_some(10),
            interval_precision: (data_type == XdbcDataType::XdbcInterval).then_some(6),
        });
    }
    info.build().map_err(|error| Error::bug(format!("the types that the server has: {error}")))
});

/// The types that there are, or those that JDBC has under a number.
pub(super) fn type_info(asked: Option<i32>) -> Result<RecordBatch> {
    let info = TYPE_INFO.as_ref().map_err(Error::clone)?;
    info.record_batch(asked).map_err(|error| Error::bug(error.to_string()))
}

/// The columns of [`type_info`].
pub(super) fn type_info_schema() -> Result<SchemaRef> {
    Ok(TYPE_INFO.as_ref().map_err(Error::clone)?.schema())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_told() {
        let all = sql_info(&[]).unwrap();
        assert!(all.num_rows() > 40 && all.schema() == sql_info_schema().unwrap());
        let some = sql_info(&[SqlInfo::FlightSqlServerName as u32, 999_999]).unwrap();
        assert_eq!(some.num_rows(), 1);
        assert_eq!(type_info(None).unwrap().num_rows(), TYPES.len());
        assert_eq!(type_info(Some(XdbcDataType::XdbcVarchar as i32)).unwrap().num_rows(), 3);
    }
}
