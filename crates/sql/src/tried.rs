//! The function that stands for TRY in a bound expression: NULL in rows for which its argument fails.

use std::sync::{Arc, OnceLock};

use arrow::datatypes::DataType;
use datafusion_common::{Result, internal_err};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

/// The function, which lowering replaces: an argument that fails would never come to it.
pub(crate) fn marker() -> Arc<ScalarUDF> {
    static MARKER: OnceLock<Arc<ScalarUDF>> = OnceLock::new();
    let made = || Tried { signature: Signature::any(1, Volatility::Immutable) };
    MARKER.get_or_init(|| Arc::new(ScalarUDF::from(made()))).clone()
}

/// Whether a function is that one.
pub(crate) fn is_marker(function: &ScalarUDF) -> bool {
    function.inner().downcast_ref::<Tried>().is_some()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Tried {
    signature: Signature,
}

impl ScalarUDFImpl for Tried {
    fn name(&self) -> &str {
        "try"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [tried] => Ok(tried.clone()),
            _ => internal_err!("TRY has one argument"),
        }
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("TRY was not lowered")
    }
}
