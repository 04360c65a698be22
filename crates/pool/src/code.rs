//! A function: its text, what it takes and what it gives.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arrow::datatypes::{DataType, Field};
use diligence_base::function_limits::FunctionLimits;
use diligence_base::limits::{BATCH_ROWS_MAX, POOL_FIRST_ROWS, POOL_FRAME_TIME};
use parking_lot::Mutex;

/// How a value is sent to a function and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Truth values.
    Boolean = 0,
    /// 16-bit integers.
    SmallInt = 1,
    /// 32-bit integers.
    Integer = 2,
    /// 64-bit integers.
    BigInt = 3,
    /// 32-bit floats.
    Real = 4,
    /// 64-bit floats.
    Double = 5,
    /// Decimals, as texts.
    Numeric = 6,
    /// Texts.
    Text = 7,
    /// Bytes.
    Bytes = 8,
    /// Arrays and rows, which Python alone takes: texts of JSON, whose values are as JSON has them. Arrays come back as
    /// SQL writes them.
    Json = 9,
    /// Arrays of floats, as JSON, also of those that JSON writes as texts.
    Floats = 10,
    /// Arrays of decimals, as JSON.
    Numerics = 11,
    /// Arrays of bytes, as JSON.
    Blobs = 12,
    /// Rows as values, which Python alone gives: texts, as SQL writes them.
    Row = 13,
    /// Values of json and jsonb that Python gives: texts of JSON, also of dictionaries, lists and truth values.
    Document = 14,
    /// Arrays, which WebAssembly alone takes: how many elements each has, and a column of all elements. The number is
    /// that of the elements' kind and [`LISTS_FROM`](Self::LISTS_FROM).
    BooleanList = 16,
    /// Arrays of 16-bit integers.
    SmallIntList = 17,
    /// Arrays of 32-bit integers.
    IntegerList = 18,
    /// Arrays of 64-bit integers.
    BigIntList = 19,
    /// Arrays of 32-bit floats.
    RealList = 20,
    /// Arrays of 64-bit floats.
    DoubleList = 21,
    /// Arrays of decimals, as texts.
    NumericList = 22,
    /// Arrays of texts.
    TextList = 23,
    /// Arrays of bytes.
    BytesList = 24,
}

impl Kind {
    /// What the number of an array's kind is beside that of its elements.
    pub const LISTS_FROM: u8 = 16;

    /// Kinds of elements that arrays may have in columns, and of these arrays.
    const LISTS: [(Self, Self); 9] = [
        (Self::Boolean, Self::BooleanList),
        (Self::SmallInt, Self::SmallIntList),
        (Self::Integer, Self::IntegerList),
        (Self::BigInt, Self::BigIntList),
        (Self::Real, Self::RealList),
        (Self::Double, Self::DoubleList),
        (Self::Numeric, Self::NumericList),
        (Self::Text, Self::TextList),
        (Self::Bytes, Self::BytesList),
    ];

    /// The kind of arrays of such elements; `None` if they go in no column.
    pub fn list(self) -> Option<Self> {
        Self::LISTS.iter().find(|(element, _)| *element == self).map(|(_, list)| *list)
    }

    /// The kind of the elements, of an array that goes in a column; `None` of all others.
    pub fn element(self) -> Option<Self> {
        Self::LISTS.iter().find(|(_, list)| *list == self).map(|(element, _)| *element)
    }

    /// The type of the arrays.
    pub fn arrow(self) -> DataType {
        match self {
            Self::Boolean => DataType::Boolean,
            Self::SmallInt => DataType::Int16,
            Self::Integer => DataType::Int32,
            Self::BigInt => DataType::Int64,
            Self::Real => DataType::Float32,
            Self::Double => DataType::Float64,
            Self::Numeric
            | Self::Text
            | Self::Json
            | Self::Floats
            | Self::Numerics
            | Self::Blobs
            | Self::Row
            | Self::Document => DataType::Utf8View,
            Self::Bytes => DataType::BinaryView,
            Self::BooleanList
            | Self::SmallIntList
            | Self::IntegerList
            | Self::BigIntList
            | Self::RealList
            | Self::DoubleList
            | Self::NumericList
            | Self::TextList
            | Self::BytesList => {
                let element = self.element().map_or(DataType::Null, Self::arrow);
                DataType::List(Arc::new(Field::new("item", element, true)))
            }
        }
    }
}

/// What runs functions: processes are of one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Runtime {
    /// An interpreter of Python.
    Python,
    /// A machine of WebAssembly: `diligence-wasm`.
    Wasm,
}

impl Runtime {
    /// Its name in `system.pool`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::Wasm => "wasm",
        }
    }
}

/// What the functions of a process are kept from, for as long as it is there, as bits: 1 from files, 2 from the
/// network. A machine of WebAssembly gives them neither anyway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct KeptFrom(pub(crate) u8);

impl KeptFrom {
    pub(crate) const NOTHING: Self = Self(0);
    /// As many as there are.
    pub(crate) const COUNT: usize = 4;

    pub(crate) fn of(files: bool, network: bool) -> Self {
        Self(u8::from(files) | (u8::from(network) << 1))
    }

    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// As `system.pool` says it.
    pub fn name(self) -> &'static str {
        match self.0 {
            0 => "",
            1 => "files",
            2 => "network",
            _ => "files, network",
        }
    }
}

/// How a function sees its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Form {
    /// Row by row, in Python.
    Rows = 0,
    /// Batch by batch, as arrays of pyarrow.
    Arrow = 1,
    /// Of a module of WebAssembly: row by row if its type is that of numbers, else batch by batch.
    Wasm = 2,
    /// Of a module of WebAssembly: batch by batch, as columns that lie as Arrow has them.
    WasmArrow = 3,
    /// Row by row, in Python, each of which gives any number of rows: a text of JSON, a list of lists of texts.
    RowSets = 4,
    /// Group by group, in Python: a text of JSON, a list of the group's rows, gives lists of its arguments' values.
    Groups = 5,
    /// The steps of an aggregate, in Python: each row of a group makes the next of its state. The rows of a group come
    /// one after the other, with the group's number in front; what it gives for the last of them is the state.
    Steps = 6,
    /// The same, of a module of WebAssembly: row by row if its type is that of numbers, else of many groups at once.
    WasmSteps = 7,
    /// The same, as columns that lie as Arrow has them.
    WasmArrowSteps = 8,
}

impl Form {
    /// What runs it.
    pub fn runtime(self) -> Runtime {
        match self {
            Self::Rows | Self::Arrow | Self::RowSets | Self::Groups | Self::Steps => Runtime::Python,
            Self::Wasm | Self::WasmArrow | Self::WasmSteps | Self::WasmArrowSteps => Runtime::Wasm,
        }
    }

    /// Whether it is that of the steps of an aggregate.
    pub(crate) fn has_steps(self) -> bool {
        matches!(self, Self::Steps | Self::WasmSteps | Self::WasmArrowSteps)
    }
}

/// How the steps of an aggregate begin, and what they pass over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Steps {
    /// A group's state before its first row, as SQL shows the value. `None` is NULL; of a strict function, the first
    /// row's first argument is the first state then.
    pub first: Option<String>,
    /// Whether a state that is NULL stays as it is.
    pub is_strict: bool,
}

/// What a function is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CodeSpec {
    /// Its name, for messages.
    pub name: String,
    /// What it takes: names, empty where there are none, and kinds. Of [`Form::Arrow`] the kinds say nothing.
    pub parameters: Vec<(String, Kind)>,
    /// What it gives.
    pub returns: Kind,
    /// How it sees its arguments.
    pub form: Form,
    /// The text of its body; of WebAssembly the module, as text, hexadecimal digits or base64.
    pub source: String,
    /// What the module calls it; nobody asks in Python.
    pub export: String,
    /// The columns of its rows, or of the row that is its value; none unless it gives rows.
    pub columns: Vec<String>,
    /// What it may take, where that is less than the pool allows.
    pub limits: FunctionLimits,
    /// Of the steps of an aggregate, how they begin; nobody asks of others.
    pub steps: Steps,
}

#[cfg(test)]
impl CodeSpec {
    /// A function of nothing that gives a text, for tests to change.
    pub(crate) fn of_text(source: &str) -> Self {
        Self {
            name: "f".to_owned(),
            parameters: vec![],
            returns: Kind::Text,
            form: Form::Rows,
            source: source.to_owned(),
            export: String::new(),
            columns: vec![],
            limits: FunctionLimits::default(),
            steps: Steps::default(),
        }
    }
}

/// A function that a pool knows.
#[derive(Debug)]
pub struct Code {
    /// What it is.
    pub spec: CodeSpec,
    number: u64,
    /// What a row has taken lately; 0 if nobody knows.
    row_ns: AtomicU64,
    /// How many rows it has had.
    rows: AtomicU64,
    /// The same function under less, as callers have called it who may have less. Those that were called last stand at
    /// the end.
    limited: Mutex<Vec<Arc<Code>>>,
}

/// What a call may take without saying that it waits: less than a turn of the engine, and more than a fast function
/// takes for a batch, there and back.
const MOMENT: Duration = Duration::from_micros(500);

/// Limits under which a function is remembered beside its own.
const LIMITED_MAX: usize = 8;

impl Code {
    pub(crate) fn new(spec: CodeSpec, number: u64) -> Self {
        Self { spec, number, row_ns: AtomicU64::new(0), rows: AtomicU64::new(0), limited: Mutex::default() }
    }

    /// The function under these limits, which are no more than its own: `make` makes it if it is not known.
    pub(crate) fn limited(&self, limits: FunctionLimits, make: impl FnOnce() -> Arc<Self>) -> Arc<Self> {
        let mut limited = self.limited.lock();
        let known = limited.iter().position(|code| code.spec.limits == limits);
        let code = match known {
            Some(place) => limited.remove(place),
            None => make(),
        };
        if limited.len() >= LIMITED_MAX {
            limited.remove(0);
        }
        limited.push(code.clone());
        code
    }

    /// Its number: no other function of the pool has it.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Rows that are sent at once: few enough that it notices soon when it is to stop, and many enough that the way
    /// there and back does not count. Of a function in Python the first comes alone: one that asks another server may
    /// take long for each, and its time is for the rows that it gets at once.
    pub(crate) fn rows_at_once(&self) -> usize {
        let rows_max = match self.rows.load(Ordering::Relaxed) {
            few if few < POOL_FIRST_ROWS as u64 => POOL_FIRST_ROWS,
            _ => BATCH_ROWS_MAX,
        };
        match self.row_ns.load(Ordering::Relaxed) {
            0 if matches!(self.spec.form, Form::Rows | Form::RowSets | Form::Groups) => 1,
            0 => POOL_FIRST_ROWS,
            row_ns => (POOL_FRAME_TIME.as_nanos() as u64 / row_ns).clamp(1, rows_max as u64) as usize,
        }
    }

    /// Whether so many rows take a moment, as far as is known.
    pub(crate) fn is_brief(&self, rows: usize) -> bool {
        let row_ns = self.row_ns.load(Ordering::Relaxed);
        row_ns > 0 && row_ns.saturating_mul(rows as u64) <= MOMENT.as_nanos() as u64
    }

    /// Notes that so many rows have taken so long.
    pub(crate) fn took(&self, rows: usize, time: Duration) {
        if rows > 0 {
            self.row_ns.store((time.as_nanos() as u64 / rows as u64).max(1), Ordering::Relaxed);
            self.rows.fetch_add(rows as u64, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_arrays_have_the_numbers_of_their_elements() {
        for (element, list) in Kind::LISTS {
            assert_eq!(element as u8 + Kind::LISTS_FROM, list as u8);
            assert_eq!((element.list(), list.element()), (Some(list), Some(element)));
            assert!(matches!(list.arrow(), DataType::List(item) if *item.data_type() == element.arrow()));
        }
        assert_eq!((Kind::Json.list(), Kind::Text.element(), Kind::TextList.list()), (None, None, None));
    }

    #[test]
    fn slow_functions_get_few_rows_at_once() {
        let code = Code::new(CodeSpec::of_text(""), 1);
        assert_eq!(code.rows_at_once(), 1);
        assert!(!code.is_brief(1), "nobody knows");
        code.took(1, Duration::from_micros(1));
        assert_eq!(code.rows_at_once(), POOL_FIRST_ROWS, "one row tells little");
        for (rows, time, expected) in [(1000, POOL_FRAME_TIME, 1000), (1, POOL_FRAME_TIME * 50, 1)] {
            code.took(rows, time);
            assert_eq!(code.rows_at_once(), expected);
        }
        code.took(1000, Duration::from_micros(1));
        assert_eq!(code.rows_at_once(), BATCH_ROWS_MAX);
        code.took(1000, MOMENT);
        assert!(code.is_brief(1000) && !code.is_brief(1001));
    }
}
