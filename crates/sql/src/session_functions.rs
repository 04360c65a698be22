//! Functions that do something in their session or to others, or know what it does: `set_config`, `pg_notify`,
//! `pg_listening_channels`, `pg_cancel_backend`, `pg_terminate_backend` and `pg_trigger_depth`.

use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Weak};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, ListArray, RecordBatch, StringViewArray};
use arrow::buffer::OffsetBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int32Type};
use datafusion_common::error::Result;
use datafusion_common::{ScalarValue, plan_err};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use diligence_engine::plan::bytes::FunctionName;
use diligence_engine::stages::Caller;
use diligence_storage::foreign_error::to_datafusion;
use diligence_types::SqlType;

use crate::binder::LISTENING;
use crate::procedural::Procedure;
use crate::statement::Query;
use crate::write::triggers::TriggerRunner;

/// What changes a session's settings.
pub trait SettingsSink: Send + Sync + Debug {
    /// Changes a setting until the session ends or, with `is_local`, the transaction does; gives what it is then. Fails
    /// with kind `Input` if this is no value of it.
    fn set_config(&self, name: &str, value: &str, is_local: bool) -> diligence_base::Result<String>;

    /// A setting's value; `None` if there is no such setting.
    fn setting(&self, name: &str) -> Option<String>;

    /// `pg_notify`: says something in a channel. Fails with code 22023 for what is no message, 54000 if too many wait.
    fn notify(&self, channel: &str, payload: &str) -> diligence_base::Result<()>;

    /// `pg_listening_channels`: the channels that the session listens to, in order.
    fn listening(&self) -> Vec<String> {
        vec![]
    }

    /// `pg_trigger_depth`: how many triggers run within each other; 0 outside of any.
    fn trigger_depth(&self) -> i32 {
        0
    }

    /// `pg_terminate_backend` with `is_end`, and `pg_cancel_backend` without: ends the session of a process, or its
    /// statement. Gives whether there is one. Fails with 42501 if the session may not.
    fn stop_session(&self, _process_id: i32, _is_end: bool) -> diligence_base::Result<bool> {
        Ok(false)
    }
}

/// What runs queries whose answers decide what another one gives.
pub trait QueryRunner: TriggerRunner {
    /// The rows of a query; waits for them. Fails as the query does.
    fn rows(&self, query: &Query) -> diligence_base::Result<Vec<RecordBatch>>;

    /// What a procedure gives for these arguments, each an array of one value: a value or a row as columns of one, or
    /// columns of any number of rows. Fails as a statement of its body does, and with 54001 if procedures call each
    /// other too deep.
    fn call(
        &self,
        procedure: &Arc<Procedure>,
        arguments: Vec<ArrayRef>,
        caller: &dyn Caller,
    ) -> diligence_base::Result<Vec<ArrayRef>>;
}

/// `pg_notify(channel, payload)`, for a session that this is.
pub(crate) fn pg_notify(sink: &Weak<dyn SettingsSink>) -> Arc<ScalarUDF> {
    let signature = Signature::any(2, Volatility::Volatile);
    Arc::new(ScalarUDF::from(Notifies { sink: sink.clone(), signature }))
}

#[derive(Debug)]
struct Notifies {
    sink: Weak<dyn SettingsSink>,
    signature: Signature,
}

impl PartialEq for Notifies {
    fn eq(&self, other: &Self) -> bool {
        self.sink.ptr_eq(&other.sink)
    }
}

impl Eq for Notifies {}

impl Hash for Notifies {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl ScalarUDFImpl for Notifies {
    fn name(&self) -> &str {
        "pg_notify"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        if arguments.len() != 2 {
            return plan_err!("pg_notify takes a channel and a message");
        }
        Ok(DataType::Utf8View)
    }

    /// The empty text, as PostgreSQL shows what gives nothing.
    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = arguments.number_rows;
        let columns = arguments.args.iter().map(|argument| argument.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let [channels, payloads] = [&columns[0], &columns[1]].map(|column| cast(column, &DataType::Utf8));
        let (channels, payloads) = (channels?, payloads?);
        let (channels, payloads) = (channels.as_string::<i32>(), payloads.as_string::<i32>());
        for row in 0..rows {
            let text = |texts: &arrow::array::StringArray| match texts.is_valid(row) {
                true => texts.value(row).to_owned(),
                false => String::new(),
            };
            if let Some(sink) = self.sink.upgrade() {
                sink.notify(&text(channels), &text(payloads)).map_err(to_datafusion)?;
            }
        }
        Ok(ColumnarValue::Array(Arc::new(StringViewArray::from_iter_values(vec![""; rows]))))
    }
}

/// What a plan's bytes call a function, if it is one of these.
pub(crate) fn name_of(function: &ScalarUDF) -> Option<FunctionName> {
    let inner = function.inner();
    let is_own = inner.is::<Listens>()
        || inner.is::<Notifies>()
        || inner.is::<SetConfig>()
        || inner.is::<Stops>()
        || inner.is::<Depth>();
    is_own.then(|| FunctionName { name: function.name().to_owned(), ..FunctionName::default() })
}

/// The function, for a session whose settings this changes.
pub(crate) fn set_config(sink: &Weak<dyn SettingsSink>) -> Arc<ScalarUDF> {
    let signature = Signature::any(3, Volatility::Volatile);
    Arc::new(ScalarUDF::from(SetConfig { sink: sink.clone(), signature }))
}

#[derive(Debug)]
struct SetConfig {
    sink: Weak<dyn SettingsSink>,
    signature: Signature,
}

impl PartialEq for SetConfig {
    fn eq(&self, other: &Self) -> bool {
        self.sink.ptr_eq(&other.sink)
    }
}

impl Eq for SetConfig {}

impl Hash for SetConfig {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl ScalarUDFImpl for SetConfig {
    fn name(&self) -> &str {
        "set_config"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        if arguments.len() != 3 {
            return plan_err!("set_config takes a name, a value and whether it is for the transaction");
        }
        Ok(DataType::Utf8View)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = arguments.number_rows;
        let columns = arguments.args.iter().map(|argument| argument.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let texts = [&columns[0], &columns[1]].map(|column| cast(column, &DataType::Utf8));
        let [names, values] = texts;
        let (names, values) = (names?, values?);
        let (names, values) = (names.as_string::<i32>(), values.as_string::<i32>());
        let is_local = cast(&columns[2], &DataType::Boolean)?;
        let is_local = is_local.as_boolean();
        let mut answers = Vec::with_capacity(rows);
        for row in 0..rows {
            let (true, Some(sink)) = (names.is_valid(row), self.sink.upgrade()) else {
                answers.push(None);
                continue;
            };
            let value = if values.is_valid(row) { values.value(row) } else { "" };
            let is_local = is_local.is_valid(row) && is_local.value(row);
            answers.push(Some(sink.set_config(names.value(row), value, is_local).map_err(to_datafusion)?));
        }
        Ok(ColumnarValue::Array(Arc::new(StringViewArray::from_iter(answers))))
    }
}

/// `pg_listening_channels()` as an array, for a session that this is.
pub(crate) fn listening_channels(sink: &Weak<dyn SettingsSink>) -> Arc<ScalarUDF> {
    let signature = Signature::nullary(Volatility::Volatile);
    Arc::new(ScalarUDF::from(Listens { sink: sink.clone(), signature }))
}

#[derive(Debug)]
struct Listens {
    sink: Weak<dyn SettingsSink>,
    signature: Signature,
}

impl PartialEq for Listens {
    fn eq(&self, other: &Self) -> bool {
        self.sink.ptr_eq(&other.sink)
    }
}

impl Eq for Listens {}

impl Hash for Listens {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl ScalarUDFImpl for Listens {
    fn name(&self) -> &str {
        LISTENING
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        if !arguments.is_empty() {
            return plan_err!("{LISTENING} takes no arguments");
        }
        Ok(SqlType::array_of(SqlType::Text).arrow())
    }

    fn invoke_with_args(&self, _arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let DataType::List(element) = self.return_type(&[])? else { return plan_err!("{LISTENING} gives no list") };
        let channels = self.sink.upgrade().map(|sink| sink.listening()).unwrap_or_default();
        let offsets = OffsetBuffer::from_lengths([channels.len()]);
        let channels = Arc::new(StringViewArray::from_iter_values(channels));
        let list = ListArray::try_new(element, offsets, channels, None)?;
        Ok(ColumnarValue::Scalar(ScalarValue::List(Arc::new(list))))
    }
}

/// The function that tells how many triggers run.
pub(crate) const DEPTH: &str = "pg_trigger_depth";

/// `pg_trigger_depth()`, for a session that this is.
pub(crate) fn trigger_depth(sink: &Weak<dyn SettingsSink>) -> Arc<ScalarUDF> {
    let signature = Signature::nullary(Volatility::Volatile);
    Arc::new(ScalarUDF::from(Depth { sink: sink.clone(), signature }))
}

#[derive(Debug)]
struct Depth {
    sink: Weak<dyn SettingsSink>,
    signature: Signature,
}

impl PartialEq for Depth {
    fn eq(&self, other: &Self) -> bool {
        self.sink.ptr_eq(&other.sink)
    }
}

impl Eq for Depth {}

impl Hash for Depth {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl ScalarUDFImpl for Depth {
    fn name(&self) -> &str {
        DEPTH
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        if !arguments.is_empty() {
            return plan_err!("{DEPTH} takes no arguments");
        }
        Ok(DataType::Int32)
    }

    fn invoke_with_args(&self, _arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let depth = self.sink.upgrade().map(|sink| sink.trigger_depth());
        Ok(ColumnarValue::Scalar(ScalarValue::Int32(depth)))
    }
}

/// The function that ends a session's statement.
pub(crate) const CANCEL: &str = "pg_cancel_backend";
/// The function that ends a session.
pub(crate) const TERMINATE: &str = "pg_terminate_backend";

/// `pg_cancel_backend(pid)` or, with `is_end`, `pg_terminate_backend(pid)`, for a session that this is.
pub(crate) fn stop_session(sink: &Weak<dyn SettingsSink>, is_end: bool) -> Arc<ScalarUDF> {
    let signature = Signature::any(1, Volatility::Volatile);
    Arc::new(ScalarUDF::from(Stops { sink: sink.clone(), is_end, signature }))
}

#[derive(Debug)]
struct Stops {
    sink: Weak<dyn SettingsSink>,
    is_end: bool,
    signature: Signature,
}

impl PartialEq for Stops {
    fn eq(&self, other: &Self) -> bool {
        self.is_end == other.is_end && self.sink.ptr_eq(&other.sink)
    }
}

impl Eq for Stops {}

impl Hash for Stops {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl ScalarUDFImpl for Stops {
    fn name(&self) -> &str {
        if self.is_end { TERMINATE } else { CANCEL }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [DataType::Int16 | DataType::Int32] => Ok(DataType::Boolean),
            _ => plan_err!("{} takes the number of a process", self.name()),
        }
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = arguments.number_rows;
        let Some(given) = arguments.args.first() else { return plan_err!("{} takes one argument", self.name()) };
        let numbers = cast(&given.to_array(rows)?, &DataType::Int32)?;
        let numbers = numbers.as_primitive::<Int32Type>();
        let answers = (0..rows).map(|row| match self.sink.upgrade().filter(|_| numbers.is_valid(row)) {
            Some(sink) => sink.stop_session(numbers.value(row), self.is_end).map(Some).map_err(to_datafusion),
            None => Ok(None),
        });
        Ok(ColumnarValue::Array(Arc::new(answers.collect::<Result<BooleanArray>>()?)))
    }
}
