//! Functions of texts and JSON whose arguments are not taken as they are written.

use diligence_base::Result;
use sqlparser::ast::{Expr, FunctionArg, FunctionArgExpr};

use super::SpecialCall;
use crate::algebra::{Constant, Scalar};

/// Functions that take any number of values, and an array of them with VARIADIC.
const OF_ANY_NUMBER: [&str; 10] = [
    "concat",
    "concat_ws",
    "format",
    "json_extract_path",
    "json_extract_path_text",
    "jsonb_build_array",
    "jsonb_extract_path",
    "jsonb_extract_path_text",
    "num_nonnulls",
    "num_nulls",
];

impl SpecialCall<'_, '_, '_> {
    /// A function of texts.
    pub(super) fn of_texts(&self) -> Result<Option<Scalar>> {
        match self.name {
            "octet_length" => {
                let [value] = self.exactly("one argument")?;
                self.binder.call(self.name, vec![self.binder.padded(value)?]).map(Some)
            }
            "normalize" => self.normalized_to_form(),
            name if OF_ANY_NUMBER.contains(&name) => self.binder.variadic_array(name, self.written(), self.level),
            _ => Ok(None),
        }
    }

    /// `normalize(text, NFC)`.
    fn normalized_to_form(&self) -> Result<Option<Scalar>> {
        let [FunctionArg::Unnamed(text), FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Identifier(form)))] =
            self.written()
        else {
            return Ok(None);
        };
        let form = Scalar::Constant(Constant::text(form.value.clone()));
        self.binder.call("normalize", vec![self.binder.argument(text, self.level)?, form]).map(Some)
    }
}
