//! Columns of VARIANT, each of whose values has a type of its own: read as JSON, whether their parts are columns
//! (shredded) or not.

use std::sync::Arc;

use arrow::array::{ArrayRef, StringViewBuilder};
use arrow::datatypes::DataType;
use diligence_base::Result;
use parquet::errors::ParquetError;
use parquet_variant_compute::{VariantArray, unshred_variant};
use parquet_variant_json::VariantToJson;

use super::guard::guard;
use crate::external::source::Source;

/// Whether a type is that of a group with the parts of a variant.
pub(super) fn is_variant_group(ty: &DataType) -> bool {
    let DataType::Struct(fields) = ty else { return false };
    let is_binary = |name: &str| {
        let field = fields.iter().find(|field| field.name() == name);
        field.is_some_and(|field| {
            matches!(field.data_type(), DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
        })
    };
    let has = |name: &str| fields.iter().any(|field| field.name() == name);
    is_binary("metadata") && (is_binary("value") || !has("value") && has("typed_value"))
}

/// The texts of variants in JSON. Fails with kind `File` if they are damaged.
pub(super) fn json_texts(source: &Source, what: &str, array: &ArrayRef) -> Result<ArrayRef> {
    guard(source, what, || {
        let variants = unshred_variant(&VariantArray::try_new(array)?)?;
        let mut texts = StringViewBuilder::with_capacity(variants.len());
        for row in 0..variants.len() {
            if variants.is_null(row) {
                texts.append_null();
                continue;
            }
            texts.append_value(variants.try_value(row)?.to_json_string()?);
        }
        Ok::<_, ParquetError>(Arc::new(texts.finish()) as ArrayRef)
    })
}
