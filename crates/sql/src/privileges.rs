//! `has_table_privilege` and its kin as functions of one statement: they answer by the snapshot that it sees.
//!
//! Privileges are named by a text, what they are of and who has them by a text or an oid, so the functions take any
//! types and look at the values.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::quoting::quoted;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion_common::error::Result;
use datafusion_common::{ScalarValue, exec_err, plan_err};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use diligence_catalog::privileges::{AskedKind, Named, Question};
use diligence_catalog::{RelationName, SessionSnapshot};
use diligence_engine::plan::bytes::FunctionName;
use diligence_storage::foreign_error::to_datafusion;

/// The functions, and of what they tell the privileges.
pub(crate) const NAMES: [(&str, AskedKind); 11] = [
    ("has_any_column_privilege", AskedKind::Column),
    ("has_column_privilege", AskedKind::Column),
    ("has_database_privilege", AskedKind::Database),
    ("has_function_privilege", AskedKind::Function),
    ("has_language_privilege", AskedKind::Language),
    ("has_schema_privilege", AskedKind::Schema),
    ("has_sequence_privilege", AskedKind::Sequence),
    ("has_table_privilege", AskedKind::Table),
    ("has_tablespace_privilege", AskedKind::Tablespace),
    ("has_type_privilege", AskedKind::Type),
    ("pg_has_role", AskedKind::Role),
];

/// The function that names a column before the privilege.
const OF_COLUMN: &str = "has_column_privilege";

/// The function of this name, if it is one of these, for a statement of this user that sees this snapshot and looks
/// names without a schema up along this path.
pub(crate) fn function(
    name: &str,
    snapshot: &SessionSnapshot,
    user: &str,
    path: Vec<String>,
) -> Option<Arc<ScalarUDF>> {
    let (name, subject) = NAMES.iter().find(|(known, _)| *known == name)?;
    let asker = Asker { snapshot: snapshot.clone(), user: user.to_owned(), path };
    let signature = Signature::variadic_any(Volatility::Stable);
    Some(Arc::new(ScalarUDF::from(HasPrivilege { name, subject: *subject, asker: Arc::new(asker), signature })))
}

/// What a plan's bytes call a function, if it is one of these.
pub(crate) fn name_of(function: &ScalarUDF) -> Option<FunctionName> {
    let own: &HasPrivilege = function.inner().downcast_ref()?;
    let texts = std::iter::once(&own.asker.user).chain(&own.asker.path).cloned().collect();
    Some(FunctionName { name: own.name.to_owned(), texts, ..FunctionName::default() })
}

/// Whoever runs the statement, and what that session sees.
#[derive(Debug)]
struct Asker {
    snapshot: SessionSnapshot,
    user: String,
    path: Vec<String>,
}

impl Asker {
    /// The name of a relation with its schema, if it is found along the path.
    fn whole_name(&self, name: &str) -> Option<String> {
        let parsed = RelationName::parse(name).filter(|_| !name.contains('.'))?;
        let mut candidates = self.path.iter().map(|schema| RelationName::new(schema, &parsed.name));
        let found = candidates.find(|name| self.snapshot.catalog.resolve(name).is_some())?;
        Some(format!("{}.{}", quoted(&found.schema), quoted(&found.name)))
    }
}

#[derive(Debug)]
struct HasPrivilege {
    name: &'static str,
    subject: AskedKind,
    asker: Arc<Asker>,
    signature: Signature,
}

impl PartialEq for HasPrivilege {
    /// Two functions of one name may see different snapshots.
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && Arc::ptr_eq(&self.asker, &other.asker)
    }
}

impl Eq for HasPrivilege {}

impl Hash for HasPrivilege {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl HasPrivilege {
    /// Arguments without the user.
    fn arguments(&self) -> usize {
        if self.name == OF_COLUMN { 3 } else { 2 }
    }
}

impl ScalarUDFImpl for HasPrivilege {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        let count = self.arguments();
        if ![count, count + 1].contains(&arguments.len()) {
            return plan_err!("{} takes {count} or {} arguments, found {}", self.name, count + 1, arguments.len());
        }
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = arguments.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { arguments.number_rows };
        let columns = arguments.args.iter().map(|argument| ArgumentColumn::new(&argument.to_array(rows)?));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let answers = (0..rows).map(|row| self.answer(&columns, row)).collect::<Result<BooleanArray>>()?;
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&answers, 0)?),
            false => ColumnarValue::Array(Arc::new(answers)),
        })
    }
}

impl HasPrivilege {
    /// The answer for one row: NULL if an argument is NULL, or a number is nobody's.
    fn answer(&self, columns: &[ArgumentColumn], row: usize) -> Result<Option<bool>> {
        let Some(values) = columns.iter().map(|column| column.value(row)).collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        let (user, rest) = match values.split_first() {
            Some((user, rest)) if rest.len() == self.arguments() => (Some(*user), rest),
            _ => (None, values.as_slice()),
        };
        let (object, column, privileges) = match rest {
            [object, privileges] => (*object, None, *privileges),
            [object, column, privileges] => (*object, Some(*column), *privileges),
            _ => return exec_err!("{} was called with {} arguments", self.name, values.len()),
        };
        let Named::Text(privileges) = privileges else {
            return exec_err!("{} takes the names of privileges as a text", self.name);
        };
        let Asker { snapshot, user: asker, .. } = &*self.asker;
        let is_relation = matches!(self.subject, AskedKind::Table | AskedKind::Column | AskedKind::Sequence);
        let whole = match object {
            Named::Text(name) if is_relation => self.asker.whole_name(name),
            _ => None,
        };
        let object = whole.as_deref().map_or(object, Named::Text);
        let question = Question { snapshot, asker, user, subject: self.subject, object, column, privileges };
        question.answer().map_err(to_datafusion)
    }
}

/// The values of an argument.
enum ArgumentColumn {
    Texts(StringArray),
    Numbers(Int64Array),
}

impl ArgumentColumn {
    fn new(values: &ArrayRef) -> Result<Self> {
        Ok(match values.data_type().is_integer() {
            true => ArgumentColumn::Numbers(cast(values, &DataType::Int64)?.as_primitive::<Int64Type>().clone()),
            false => ArgumentColumn::Texts(cast(values, &DataType::Utf8)?.as_string::<i32>().clone()),
        })
    }

    fn value(&self, row: usize) -> Option<Named<'_>> {
        match self {
            ArgumentColumn::Texts(texts) => texts.is_valid(row).then(|| Named::Text(texts.value(row))),
            ArgumentColumn::Numbers(numbers) => numbers.is_valid(row).then(|| Named::Number(numbers.value(row))),
        }
    }
}
