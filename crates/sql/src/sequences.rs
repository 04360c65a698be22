//! `nextval` and its kin as functions of one session: they count its sequences.
//!
//! A sequence is named by a text or by an oid, so the functions take any types and look at the values.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion_common::error::Result;
use datafusion_common::plan_err;
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use datafusion_physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use diligence_base::Error;
use diligence_catalog::sequence::SequenceState;
use diligence_catalog::{RelationName, SessionCatalogs};
use diligence_engine::plan::bytes::FunctionName;
use diligence_storage::foreign_error::to_datafusion;

/// What the functions do, by their names, with the least and the largest number of their arguments.
const FUNCTIONS: [(&str, Counting, usize, usize); 4] = [
    ("nextval", Counting::Next, 1, 1),
    ("currval", Counting::Current, 1, 1),
    ("lastval", Counting::Last, 0, 0),
    ("setval", Counting::Set, 2, 3),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Counting {
    Next,
    Current,
    Last,
    Set,
}

/// The function of this name, if it is one of these, for a session that sees these catalogs and looks for names along
/// this path.
pub(crate) fn function(name: &str, catalogs: &SessionCatalogs, path: &[String]) -> Option<Arc<ScalarUDF>> {
    let (name, counting, least, most) = FUNCTIONS.iter().find(|(known, ..)| *known == name)?;
    let signature = Signature::variadic_any(Volatility::Volatile);
    let session = Arc::new(catalogs.clone());
    let (arguments, path) = ((*least, *most), path.to_vec());
    let function = SequenceFunction { name, counting: *counting, arguments, session, path, signature };
    Some(Arc::new(ScalarUDF::from(function)))
}

/// What a plan's bytes call a function, if it is one of these.
pub(crate) fn name_of(function: &ScalarUDF) -> Option<FunctionName> {
    let own: &SequenceFunction = function.inner().downcast_ref()?;
    Some(FunctionName { name: own.name.to_owned(), texts: own.path.clone(), ..FunctionName::default() })
}

/// Whether an expression gives numbers that depend on how many rows it was computed of before.
pub(crate) fn are_counted(expression: &Arc<dyn PhysicalExpr>) -> bool {
    let own = expression.downcast_ref::<ScalarFunctionExpr>().map(ScalarFunctionExpr::fun);
    own.and_then(|function| function.inner().downcast_ref::<SequenceFunction>()).is_some()
        || expression.children().into_iter().any(are_counted)
}

#[derive(Debug)]
struct SequenceFunction {
    name: &'static str,
    counting: Counting,
    arguments: (usize, usize),
    session: Arc<SessionCatalogs>,
    /// Where names without a schema are looked for.
    path: Vec<String>,
    signature: Signature,
}

impl PartialEq for SequenceFunction {
    fn eq(&self, other: &Self) -> bool {
        self.counting == other.counting && Arc::ptr_eq(&self.session, &other.session)
    }
}

impl Eq for SequenceFunction {}

impl Hash for SequenceFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.counting.hash(state);
    }
}

impl ScalarUDFImpl for SequenceFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        let (least, most) = self.arguments;
        if !(least..=most).contains(&arguments.len()) {
            return plan_err!("{} takes {least} to {most} arguments, found {}", self.name, arguments.len());
        }
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = arguments.number_rows;
        let columns = arguments.args.iter().map(|argument| argument.to_array(rows));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let numbers = (0..rows).map(|row| self.number(&columns, row).map_err(to_datafusion));
        Ok(ColumnarValue::Array(Arc::new(numbers.collect::<Result<Int64Array>>()?)))
    }
}

impl SequenceFunction {
    /// The number for one row: NULL if an argument is NULL.
    fn number(&self, columns: &[ArrayRef], row: usize) -> diligence_base::Result<Option<i64>> {
        if columns.iter().any(|column| column.is_null(row)) {
            return Ok(None);
        }
        let name = || columns.first().map_or_else(|| Err(Error::bug("no argument")), |column| self.named(column, row));
        Ok(Some(match self.counting {
            Counting::Next => self.session.next_value(&name()?)?,
            Counting::Current => self.session.current_value(&name()?)?,
            Counting::Last => self.session.last_value()?,
            Counting::Set => {
                let last = integer(&columns[1], row)?;
                let is_called = match columns.get(2) {
                    Some(column) => column.as_boolean_opt().is_none_or(|column| column.value(row)),
                    None => true,
                };
                self.session.set_value(&name()?, SequenceState { last, is_called })?;
                last
            }
        }))
    }

    /// The sequence that a value names.
    fn named(&self, column: &ArrayRef, row: usize) -> diligence_base::Result<RelationName> {
        if column.data_type().is_integer() {
            let oid = integer(column, row)?;
            let snapshot = self.session.snapshot();
            let mut objects = snapshot.catalog.objects();
            let found = objects.find(|object| i64::from(object.oid()) == oid).map(|object| object.name.clone());
            return found
                .ok_or_else(|| Error::input(format!("could not open relation with OID {oid}")).with_code("42P01"));
        }
        let texts =
            cast(&column.slice(row, 1), &DataType::Utf8).map_err(diligence_storage::foreign_error::from_arrow)?;
        let text = texts.as_string::<i32>().value(0);
        let mut name = RelationName::parse(text);
        if let Some(name) = name.as_mut().filter(|_| !text.contains('.')) {
            let snapshot = self.session.snapshot();
            let has = |schema: &&String| {
                let found = snapshot.catalog.get(&RelationName::new(schema.as_str(), &name.name));
                found.is_some()
            };
            if let Some(schema) = self.path.iter().find(has) {
                name.schema.clone_from(schema);
            }
        }
        name.ok_or_else(|| Error::input(format!("invalid name syntax: \"{text}\"")).with_code("42602"))
    }
}

fn integer(column: &ArrayRef, row: usize) -> diligence_base::Result<i64> {
    let numbers = cast(&column.slice(row, 1), &DataType::Int64);
    Ok(numbers.map_err(diligence_storage::foreign_error::from_arrow)?.as_primitive::<Int64Type>().value(0))
}
