//! Functions in other languages: what goes to a primed process and what comes back.
//!
//! As in PostgreSQL's PL/Python, truth values, numbers, texts and bytes are values of the language; everything else is
//! its text, which is read as a literal is where it comes back. A function of [`Form::Arrow`] has whole columns of
//! Arrow's types instead.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, new_null_array};
use arrow::compute::{CastOptions as ArrowCast, can_cast_types, cast_with_options, concat};
use arrow::datatypes::DataType;
use datafusion_common::ScalarValue;
use datafusion_expr::{AggregateUDF, ScalarUDF, Volatility};
use diligence_base::function_limits::FunctionLimits;
use diligence_base::{Error, Result};
use diligence_engine::expressions::{Outside, outside_function};
use diligence_engine::stages::{Caller, Message};
use diligence_pool::{Answer, Code, CodeSpec, Form, Kind, Pool, Runtime, Steps};
use diligence_storage::foreign_error::from_arrow;
use diligence_types::SqlType;
use diligence_types::coercion::{CastOptions, cast_array};

use crate::closures::{ClosureFunction, Registered};
use crate::partial_states::{Combined, StepFunction};

/// The languages, with how their functions see their arguments: `plpython3u` is what PostgreSQL calls Python.
const LANGUAGES: [(&str, Form); 6] = [
    ("python", Form::Rows),
    ("plpython3u", Form::Rows),
    ("python_arrow", Form::Arrow),
    ("python_aggregate", Form::Groups),
    ("wasm", Form::Wasm),
    ("wasm_arrow", Form::WasmArrow),
];

/// How functions of a language see their arguments; `None` if there is no such language.
pub(crate) fn form_of(language: &str) -> Option<Form> {
    LANGUAGES.iter().find(|(known, _)| *known == language).map(|(_, form)| *form)
}

/// Whether a module of WebAssembly stands in a file: what is written is neither its text nor its bytes.
pub(crate) fn is_module_path(written: &str) -> bool {
    let written = written.trim();
    let starts = ["(", ";;", "0061736d", "0061736D", "\\x0061736d", "\\x0061736D", "0x0061736d", "0x0061736D", "AGFzb"];
    !starts.iter().any(|start| written.starts_with(start))
}

/// The body of a function in another language.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// How it sees its arguments.
    pub form: Form,
    /// Its text.
    pub text: String,
    /// What its module calls it, if that is not its name.
    pub export: Option<String>,
    /// How its values may change.
    pub volatility: Volatility,
    /// What it may take, if that is less than all may.
    pub limits: FunctionLimits,
    /// What computes it, if that is no process.
    pub closure: Option<Registered>,
}

/// A value on its way to a process or back: the type that it has there, and how it is sent.
#[derive(Clone, Debug)]
pub(crate) struct Carried {
    /// What it is cast to before, and from afterwards.
    pub sql_type: SqlType,
    /// How it is sent.
    pub kind: Kind,
    /// The names in it, of a row that is the value of a function in Python.
    pub fields: Vec<String>,
}

impl Carried {
    /// How arguments of a type are sent; arrays and rows go to Python as JSON, to WebAssembly only rows and arrays of
    /// arrays. Fails with 0A000 if they are not sent.
    pub(crate) fn argument(sql_type: &SqlType, form: Form) -> Result<Self> {
        let is_wasm = form.runtime() == Runtime::Wasm;
        match sql_type {
            SqlType::Array(element) if is_wasm && has_column(element) => Self::list(element, form),
            SqlType::Array(_) | SqlType::Record(_) if is_wasm => Ok(Self::new(SqlType::Json, Kind::Json)),
            SqlType::Array(_) | SqlType::Record(_) if matches!(form, Form::Rows | Form::RowSets | Form::Groups) => {
                Ok(Self::new(SqlType::Json, kind_of_json(sql_type)))
            }
            other => Self::of(other, form),
        }
    }

    /// How the value of a function is sent; arrays and rows come from Python as their texts, and so do rows and arrays
    /// of arrays from WebAssembly. Fails with 0A000 if it is not sent.
    pub(crate) fn value(sql_type: &SqlType, form: Form) -> Result<Self> {
        let is_wasm = form.runtime() == Runtime::Wasm;
        match sql_type {
            SqlType::Array(element) if is_wasm && has_column(element) => Self::list(element, form),
            SqlType::Array(_) if is_wasm => Ok(Self::new(SqlType::Text, Kind::Text)),
            SqlType::Record(fields) if is_wasm && fields.is_row() => Ok(Self::new(SqlType::Text, Kind::Text)),
            // What is no text is JSON by itself.
            SqlType::Json | SqlType::Jsonb if matches!(form, Form::Rows | Form::Groups) => {
                Ok(Self::new(SqlType::Text, Kind::Document))
            }
            SqlType::Array(_) if matches!(form, Form::Rows | Form::Groups) => {
                Ok(Self::new(SqlType::Text, kind_of_json(sql_type)))
            }
            SqlType::Record(fields) if fields.is_row() && matches!(form, Form::Rows | Form::Groups) => {
                let fields = fields.iter().map(|field| field.name.clone()).collect();
                Ok(Self { fields, ..Self::new(SqlType::Text, Kind::Row) })
            }
            other => Self::of(other, form),
        }
    }

    /// The value of a function that is called for what it does: nobody looks at what comes back.
    pub(crate) fn nothing() -> Self {
        Self::new(SqlType::Void, Kind::Text)
    }

    /// Whether what comes back as one may be sent as the other: as the state of an aggregate, say.
    pub(crate) fn is_alike(&self, other: &Self) -> bool {
        let sent = |kind| if kind == Kind::Document { Kind::Text } else { kind };
        (sent(self.kind), &self.sql_type) == (sent(other.kind), &other.sql_type)
    }

    fn new(sql_type: SqlType, kind: Kind) -> Self {
        Self { sql_type, kind, fields: vec![] }
    }

    /// Arrays that go in columns of WebAssembly.
    fn list(element: &SqlType, form: Form) -> Result<Self> {
        let element = Self::of(element, form)?;
        let kind = element.kind.list().ok_or_else(|| Error::bug("elements that go in no column"))?;
        Ok(Self::new(SqlType::array_of(element.sql_type), kind))
    }

    /// Whether it is an array or a row that is sent as JSON.
    pub(crate) fn has_parts(&self) -> bool {
        matches!(self.kind, Kind::Json | Kind::Floats | Kind::Numerics | Kind::Blobs)
    }

    /// Whether steps of aggregates take and give it in processes.
    pub(crate) fn goes_through_steps(&self) -> bool {
        !self.has_parts() && self.kind != Kind::Row && self.kind.element().is_none()
    }

    /// How values of a type are sent that have no parts, or arrays as they are. Fails with 0A000 if they are not sent.
    fn of(sql_type: &SqlType, form: Form) -> Result<Self> {
        use SqlType::{
            Array, BigInt, Bit, Boolean, Bytea, Char, Date, Double, Enum, Integer, Interval, Json, Jsonb, Multirange,
            Name, Network, Numeric, Range, Real, Search, SmallInt, Text, Time, TimeTz, Timestamp, TimestampTz, Uuid,
            VarBit, Varchar,
        };
        let own = |kind| Ok(Self::new(sql_type.without_modifier(), kind));
        let is_own = |element: &SqlType| {
            Self::of(element, form).is_ok_and(|carried| carried.sql_type == element.without_modifier())
        };
        match sql_type {
            Array(element) if form == Form::Arrow && is_own(element) => own(Kind::Text),
            Boolean => own(Kind::Boolean),
            SmallInt => own(Kind::SmallInt),
            Integer => own(Kind::Integer),
            BigInt => own(Kind::BigInt),
            Real => own(Kind::Real),
            Double => own(Kind::Double),
            Bytea => own(Kind::Bytes),
            Numeric(_) | Date | Timestamp | TimestampTz if form == Form::Arrow => own(Kind::Text),
            Numeric(_) => Ok(Self::new(Text, Kind::Numeric)),
            Text | Varchar(_) | Char(_) | Name | Date | Time | TimeTz | Timestamp | TimestampTz | Interval | Uuid
            | Json | Jsonb | Enum(_) | Bit(_) | VarBit(_) | Range(_) | Multirange(_) | Network(_) | Search(_) => {
                Ok(Self::new(Text, Kind::Text))
            }
            other => {
                let error =
                    Error::unsupported(format!("functions in other languages cannot take or return type {other}"));
                Err(error.with_code("0A000").with_hint("pass it as text, json or bytea"))
            }
        }
    }
}

/// Whether arrays of such elements go in a column of WebAssembly.
fn has_column(element: &SqlType) -> bool {
    !matches!(element, SqlType::Array(_) | SqlType::Record(_))
}

/// How arrays and rows of a type are sent, by what is in them.
fn kind_of_json(mut sql_type: &SqlType) -> Kind {
    while let SqlType::Array(element) = sql_type {
        sql_type = element;
    }
    match sql_type {
        SqlType::Real | SqlType::Double => Kind::Floats,
        SqlType::Numeric(_) => Kind::Numerics,
        SqlType::Bytea => Kind::Blobs,
        _ => Kind::Json,
    }
}

/// A function, as far as a call of it needs it.
pub(crate) struct ProgramCall<'d> {
    /// Its name.
    pub name: &'d str,
    /// Its body.
    pub program: &'d Program,
    /// What it takes, with the names in its body.
    pub parameters: Vec<(String, Carried)>,
    /// What it gives.
    pub returns: Carried,
    /// The columns of its rows; none of a value.
    pub columns: Vec<String>,
    /// Whether it is NULL if an argument is.
    pub is_strict: bool,
}

impl ProgramCall<'_> {
    fn code(&self, pool: &Pool) -> Arc<Code> {
        self.code_of(pool, self.program.form, Steps::default())
    }

    fn code_of(&self, pool: &Pool, form: Form, steps: Steps) -> Arc<Code> {
        let parameters = self.parameters.iter().map(|(name, carried)| (name.clone(), carried.kind));
        pool.code(CodeSpec {
            name: self.name.to_owned(),
            parameters: parameters.collect(),
            returns: self.returns.kind,
            form,
            source: self.program.text.clone(),
            export: match self.program.form.runtime() {
                Runtime::Python => String::new(),
                Runtime::Wasm => self.program.export.clone().unwrap_or_else(|| self.name.to_owned()),
            },
            columns: if self.columns.is_empty() { self.returns.fields.clone() } else { self.columns.clone() },
            limits: self.program.limits,
            steps,
        })
    }

    /// Whether it is a module's function of numbers. No number of WebAssembly is NULL.
    fn takes_numbers(&self) -> bool {
        let mut kinds = self.parameters.iter().map(|(_, carried)| carried.kind).chain([self.returns.kind]);
        let is_number = |kind| {
            use Kind::{BigInt, Boolean, Double, Integer, Real, SmallInt};
            matches!(kind, Boolean | SmallInt | Integer | BigInt | Real | Double)
        };
        self.program.form == Form::Wasm && kinds.all(is_number)
    }

    /// Looks whether a process takes it. Fails as [`Pool::check`] does.
    pub(crate) fn check(&self, pool: &Pool) -> Result<()> {
        pool.check(&self.code(pool), &diligence_pool::Nobody)
    }

    /// The function that expressions call, whose arguments have the types in which they are sent.
    pub(crate) fn function(&self, pool: &Arc<Pool>) -> Arc<ScalarUDF> {
        if let Some(registered) = &self.program.closure {
            return outside_function(Arc::new(ClosureFunction {
                name: self.name.to_owned(),
                registered: registered.clone(),
                returns: self.returns.sql_type.arrow(),
                is_strict: self.is_strict && !self.parameters.is_empty(),
                volatility: self.program.volatility,
            }));
        }
        outside_function(Arc::new(self.of_code(self.code(pool), pool)))
    }

    fn of_code(&self, code: Arc<Code>, pool: &Arc<Pool>) -> PoolFunction {
        PoolFunction {
            code,
            pool: pool.clone(),
            returns: self.returns.sql_type.clone(),
            is_strict: self.passes_over_nulls(),
            volatility: self.program.volatility,
        }
    }

    /// Whether it is not called with a NULL.
    pub(crate) fn passes_over_nulls(&self) -> bool {
        (self.is_strict || self.takes_numbers()) && !self.parameters.is_empty()
    }

    /// The form of the same function as an aggregate's steps; `None` if it cannot be that.
    pub(crate) fn steps_form(&self) -> Option<Form> {
        match self.program.form {
            _ if self.program.closure.is_some() || !self.columns.is_empty() => None,
            Form::Rows => Some(Form::Steps),
            Form::Wasm => Some(Form::WasmSteps),
            Form::WasmArrow => Some(Form::WasmArrowSteps),
            _ => None,
        }
    }

    /// Whether a process computes a value of each row.
    pub(crate) fn is_of_process(&self) -> bool {
        let is_of_rows = matches!(self.program.form, Form::Rows | Form::Arrow | Form::Wasm | Form::WasmArrow);
        is_of_rows && self.program.closure.is_none() && self.columns.is_empty()
    }
}

/// An aggregate of two functions, as far as a call of it needs them.
pub(crate) struct CombinedCall<'d> {
    /// Its name.
    pub name: &'d str,
    /// What makes a state of one and a row's values.
    pub step: ProgramCall<'d>,
    /// The form of the steps.
    pub form: Form,
    /// What makes a state of two.
    pub combine: ProgramCall<'d>,
    /// The state of no rows, as it is sent, and as SQL shows it unless it is NULL.
    pub first: (ScalarValue, Option<String>),
}

impl CombinedCall<'_> {
    /// The aggregate that gives a group's state, whose arguments have the types in which they are sent.
    pub(crate) fn function(&self, pool: &Arc<Pool>) -> Arc<AggregateUDF> {
        let (value, shown) = &self.first;
        let steps = Steps { first: shown.clone(), is_strict: self.step.passes_over_nulls() };
        let step = self.step.of_code(self.step.code_of(pool, self.form, steps), pool);
        let mut combine = self.combine.of_code(self.combine.code(pool), pool);
        if step.volatility != Volatility::Immutable {
            combine.volatility = step.volatility;
        }
        let combined = Combined {
            // The engine knows its own aggregates by their names.
            name: format!("combined {}", self.name),
            skips_nulls: step.is_strict,
            step: Arc::new(PoolSteps(step)),
            combine: Arc::new(combine),
            first: value.clone(),
            arguments: self.step.parameters.len().saturating_sub(1),
        };
        combined.udaf()
    }
}

/// The steps of an aggregate, which primed processes take.
#[derive(Debug)]
struct PoolSteps(PoolFunction);

impl StepFunction for PoolSteps {
    fn identity(&self) -> u64 {
        self.0.code.number()
    }

    fn states(&self, columns: &[ArrayRef], rows: usize, caller: &dyn Caller) -> Result<Vec<ArrayRef>> {
        let answers = self.0.pool.call(&self.0.code, columns, rows, &Asker(caller))?;
        answers.into_iter().map(|answer| self.0.read(answer)).collect()
    }
}

/// A function that primed processes compute.
#[derive(Debug)]
struct PoolFunction {
    pool: Arc<Pool>,
    code: Arc<Code>,
    returns: SqlType,
    is_strict: bool,
    volatility: Volatility,
}

/// A query, as the pool sees it.
struct Asker<'c>(&'c dyn Caller);

impl diligence_pool::Caller for Asker<'_> {
    fn is_stopped(&self) -> bool {
        self.0.is_stopped()
    }

    fn printed(&self, text: &str) {
        self.0.printed(Message::notice(text));
    }

    fn waits(&self) {
        self.0.leave();
    }

    fn limits(&self) -> FunctionLimits {
        self.0.function_limits()
    }
}

impl Outside for PoolFunction {
    fn name(&self) -> &str {
        &self.code.spec.name
    }

    fn identity(&self) -> u64 {
        self.code.number()
    }

    fn returns(&self) -> DataType {
        self.returns.arrow()
    }

    fn volatility(&self) -> Volatility {
        self.volatility
    }

    fn is_strict(&self) -> bool {
        self.is_strict
    }

    fn is_brief(&self) -> bool {
        true
    }

    fn call(&self, arguments: &[ArrayRef], rows: usize, caller: &dyn Caller) -> Result<ArrayRef> {
        let answers = self.pool.call(&self.code, arguments, rows, &Asker(caller))?;
        let mut arrays = answers.into_iter().map(|answer| self.read(answer)).collect::<Result<Vec<_>>>()?;
        if let [_] = arrays.as_slice() {
            return Ok(arrays.remove(0));
        }
        let arrays = arrays.iter().map(AsRef::as_ref).collect::<Vec<_>>();
        concat(&arrays).map_err(from_arrow)
    }
}

/// Whether values of Arrow's type `found` can be cast to `wanted` without being read: numbers, times, bytes, and lists
/// of these or of texts.
fn fits(found: &DataType, wanted: &DataType) -> bool {
    match (found, wanted) {
        (
            DataType::List(found) | DataType::LargeList(found) | DataType::FixedSizeList(found, _),
            DataType::List(wanted),
        ) => found.data_type() == wanted.data_type() || fits(found.data_type(), wanted.data_type()),
        (DataType::Utf8 | DataType::LargeUtf8, DataType::Utf8View)
        | (DataType::Binary | DataType::LargeBinary, DataType::BinaryView)
        | (DataType::Null, _) => true,
        _ => found.is_numeric() && wanted.is_numeric() || found.is_temporal() && wanted.is_temporal(),
    }
}

/// The type of numbers that may have a fraction.
fn fraction_type(found: &DataType) -> Option<SqlType> {
    match found {
        DataType::Float32 => Some(SqlType::Real),
        DataType::Float64 => Some(SqlType::Double),
        DataType::Decimal128(precision, scale) => Some(SqlType::decimal(*precision, *scale)),
        _ => None,
    }
}

/// Whether texts, also in lists, have a byte that no text may have.
fn has_zero_bytes(array: &ArrayRef) -> bool {
    match array.data_type() {
        DataType::List(_) => has_zero_bytes(array.as_list::<i32>().values()),
        DataType::Utf8View => array.as_string_view().iter().flatten().any(|text| text.as_bytes().contains(&0)),
        _ => false,
    }
}

impl PoolFunction {
    fn zero_byte(&self) -> Error {
        let error = Error::value("invalid byte sequence for encoding \"UTF8\": 0x00").with_code("22021");
        error.with_detail(format!("function {}", self.name()))
    }

    /// An error with the name of the function, unless it tells more already.
    fn placed(&self, error: Error) -> Error {
        if error.detail().is_some() { error } else { error.with_detail(format!("function {}", self.name())) }
    }

    /// What came, in the type that is to come out. Fails like a literal of that type, and with 42804 if it is of
    /// another.
    fn read(&self, answer: Answer) -> Result<ArrayRef> {
        let (array, is_text) = match answer {
            Answer::Values(array) => {
                let array = match array.data_type() {
                    DataType::Dictionary(_, values) => arrow::compute::cast(&array, values).map_err(from_arrow)?,
                    _ => array,
                };
                let is_text = matches!(array.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
                (array, is_text)
            }
            Answer::Texts(array) => (array, true),
            Answer::OutOfRange(value, _) => {
                return Err(Error::value(format!("value \"{value}\" is out of range")).with_code("22003"));
            }
        };
        if self.returns == SqlType::Void {
            return Ok(new_null_array(&DataType::Null, array.len()));
        }
        let wanted = self.returns.arrow();
        if is_text {
            let texts = arrow::compute::cast(&array, &DataType::Utf8View).map_err(from_arrow)?;
            if has_zero_bytes(&texts) {
                return Err(self.zero_byte());
            }
            if self.returns == SqlType::Text {
                return Ok(texts);
            }
            let options = CastOptions { zone: "UTC".to_owned(), is_explicit: true, is_try: false };
            return cast_array(&texts, &SqlType::Text, &self.returns, &options).map_err(|error| self.placed(error));
        }
        let found = array.data_type();
        if *found == wanted && !has_zero_bytes(&array) {
            return Ok(array);
        }
        // SQL rounds what Arrow would cut off.
        if wanted.is_integer()
            && let Some(from) = fraction_type(found)
        {
            let options = CastOptions { zone: "UTC".to_owned(), is_explicit: true, is_try: false };
            return cast_array(&array, &from, &self.returns, &options).map_err(|error| self.placed(error));
        }
        if fits(found, &wanted) && can_cast_types(found, &wanted) {
            let options = ArrowCast { safe: false, ..ArrowCast::default() };
            let array = cast_with_options(&array, &wanted, &options);
            let array = array.map_err(|error| {
                let message =
                    format!("a value of the function {} is out of range for type {}", self.name(), self.returns);
                Error::value(message).with_code("22003").with_detail(error.to_string())
            })?;
            return match has_zero_bytes(&array) {
                true => Err(self.zero_byte()),
                false => Ok(array),
            };
        }
        let message = format!("the function {} returned Arrow's {found} for type {}", self.name(), self.returns);
        let error = Error::value(message).with_code("42804");
        Err(error.with_hint("cast it in the function, as in pc.cast(value, pa.string()), or declare another type"))
    }
}
