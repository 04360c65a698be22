//! Functions that lock: rows for SELECT … FOR UPDATE, and PostgreSQL's `pg_advisory_lock` and its kin.
//!
//! None of them waits. Where another session has the lock, the statement ends with code 55P03, and the session starts
//! it anew when it is its turn ([`locks`](diligence_catalog::locks)).

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, new_null_array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion_common::error::Result;
use datafusion_common::plan_err;
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use diligence_base::Error;
use diligence_catalog::locks::{AdvisoryKey, AdvisoryLock, RowLock};
use diligence_catalog::{LockWay, ObjectRef, RowsLocked, SessionCatalogs, SessionSnapshot};
use diligence_engine::plan::bytes::FunctionName;
use diligence_engine::stages::{Level, Message, caller};
use diligence_storage::foreign_error::{from_arrow, to_datafusion};
use parking_lot::Mutex;

/// The name of functions that lock rows.
const LOCK_ROW: &str = "lock row";

/// By their numbers in a plan's bytes.
const MODES: [RowLock; 4] = [RowLock::KeyShare, RowLock::Share, RowLock::NoKeyUpdate, RowLock::Update];
/// Likewise.
const WAYS: [LockWay; 3] = [LockWay::Wait, LockWay::Fail, LockWay::Skip];

/// A function that locks rows of a table, in a session that sees these catalogs. It is for one run of one statement:
/// it counts the rows.
pub(crate) fn row_function(
    table: ObjectRef,
    mode: RowLock,
    way: LockWay,
    catalogs: &SessionCatalogs,
) -> Arc<ScalarUDF> {
    static NUMBERS: AtomicU64 = AtomicU64::new(1);
    let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
    let signature = Signature::any(3, Volatility::Volatile);
    let session = Arc::new(catalogs.clone());
    Arc::new(ScalarUDF::from(RowFunction { number, table, mode, way, session, locked: Mutex::default(), signature }))
}

/// What a plan's bytes call a function, if it is one of these.
pub(crate) fn name_of(function: &ScalarUDF) -> Option<FunctionName> {
    if let Some(own) = function.inner().downcast_ref::<RowFunction>() {
        let ways = [MODES.iter().position(|mode| *mode == own.mode)?, WAYS.iter().position(|way| *way == own.way)?];
        let ids = [own.table.id.0 as i64, own.number as i64];
        let numbers = ids.into_iter().chain(ways.map(|place| place as i64)).collect();
        return Some(FunctionName { name: function.name().to_owned(), numbers, ..FunctionName::default() });
    }
    let own: &AdvisoryFunction = function.inner().downcast_ref()?;
    Some(FunctionName { name: own.name.clone(), ..FunctionName::default() })
}

/// The function of a name for a session that sees these catalogs and this snapshot; `None` if it is none of these.
pub(crate) fn named(
    name: &str,
    numbers: &[i64],
    snapshot: &SessionSnapshot,
    catalogs: &SessionCatalogs,
) -> Option<Arc<ScalarUDF>> {
    let (LOCK_ROW, [table, _, mode, way]) = (name, numbers) else { return advisory_function(name, catalogs) };
    let table = snapshot.catalog.all_objects().find(|object| object.id.0 as i64 == *table)?;
    let mode = MODES.get(usize::try_from(*mode).ok()?)?;
    let way = WAYS.get(usize::try_from(*way).ok()?)?;
    Some(row_function(table.reference(), *mode, *way, catalogs))
}

#[derive(Debug)]
struct RowFunction {
    /// No other one has it.
    number: u64,
    table: ObjectRef,
    mode: RowLock,
    way: LockWay,
    session: Arc<SessionCatalogs>,
    /// How many rows have been locked.
    locked: Mutex<i64>,
    signature: Signature,
}

impl PartialEq for RowFunction {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for RowFunction {}

impl Hash for RowFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.table.id.hash(state);
    }
}

impl ScalarUDFImpl for RowFunction {
    fn name(&self) -> &str {
        LOCK_ROW
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = arguments.number_rows;
        let columns = arguments.args.iter().map(|argument| argument.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let count = |column: &ArrayRef| {
            let counts = cast(column, &DataType::Int64)?;
            let counts = counts.as_primitive::<Int64Type>();
            Ok::<_, datafusion_common::DataFusionError>((rows > 0 && counts.is_valid(0)).then(|| counts.value(0)))
        };
        let most = count(&columns[1])?.map(|fetch| fetch.saturating_add(columns_count(count(&columns[2]))));
        let numbers = columns[0].as_primitive::<Int64Type>();
        let catalog = self.session.catalog();
        let mut locked = self.locked.lock();
        let mut answers = Vec::with_capacity(rows);
        for row in 0..rows {
            // Rows that an outer join made have no number.
            let is_locked = match (numbers.is_valid(row), most.is_some_and(|most| *locked >= most)) {
                (_, true) => false,
                (false, _) => true,
                (true, _) => {
                    let number = numbers.value(row);
                    let done = catalog.lock_row(self.session.owner(), &self.table, number, self.mode, self.way);
                    done.map_err(to_datafusion)? == RowsLocked::Locked
                }
            };
            *locked += i64::from(is_locked);
            answers.push(is_locked);
        }
        Ok(ColumnarValue::Array(Arc::new(BooleanArray::from(answers))))
    }
}

fn columns_count(count: Result<Option<i64>>) -> i64 {
    count.ok().flatten().unwrap_or(0)
}

/// What the functions of applications' locks do, by their names behind `pg_`.
const FUNCTIONS: [(&str, Advisory); 11] = [
    ("advisory_lock", Advisory::Take { is_shared: false, is_lasting: true, waits: true }),
    ("advisory_lock_shared", Advisory::Take { is_shared: true, is_lasting: true, waits: true }),
    ("advisory_xact_lock", Advisory::Take { is_shared: false, is_lasting: false, waits: true }),
    ("advisory_xact_lock_shared", Advisory::Take { is_shared: true, is_lasting: false, waits: true }),
    ("try_advisory_lock", Advisory::Take { is_shared: false, is_lasting: true, waits: false }),
    ("try_advisory_lock_shared", Advisory::Take { is_shared: true, is_lasting: true, waits: false }),
    ("try_advisory_xact_lock", Advisory::Take { is_shared: false, is_lasting: false, waits: false }),
    ("try_advisory_xact_lock_shared", Advisory::Take { is_shared: true, is_lasting: false, waits: false }),
    ("advisory_unlock", Advisory::Release { is_shared: false }),
    ("advisory_unlock_shared", Advisory::Release { is_shared: true }),
    ("advisory_unlock_all", Advisory::ReleaseAll),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Advisory {
    Take { is_shared: bool, is_lasting: bool, waits: bool },
    Release { is_shared: bool },
    ReleaseAll,
}

/// The function of this name, if it is one of these, for a session that sees these catalogs.
pub(crate) fn advisory_function(name: &str, catalogs: &SessionCatalogs) -> Option<Arc<ScalarUDF>> {
    let bare = name.strip_prefix("pg_")?;
    let (_, advisory) = FUNCTIONS.iter().find(|(known, _)| *known == bare)?;
    let signature = Signature::variadic_any(Volatility::Volatile);
    let session = Arc::new(catalogs.clone());
    let function = AdvisoryFunction { name: name.to_owned(), advisory: *advisory, session, signature };
    Some(Arc::new(ScalarUDF::from(function)))
}

#[derive(Debug)]
struct AdvisoryFunction {
    name: String,
    advisory: Advisory,
    session: Arc<SessionCatalogs>,
    signature: Signature,
}

impl PartialEq for AdvisoryFunction {
    fn eq(&self, other: &Self) -> bool {
        self.advisory == other.advisory && Arc::ptr_eq(&self.session, &other.session)
    }
}

impl Eq for AdvisoryFunction {}

impl Hash for AdvisoryFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.advisory.hash(state);
    }
}

/// Warns of a lock that is to be released and is somebody else's, or nobody's.
fn tell_not_owned(is_shared: bool) {
    let kind = if is_shared { "ShareLock" } else { "ExclusiveLock" };
    let said = Error::value(format!("you don't own a lock of type {kind}")).with_code("01000");
    if let Some(caller) = caller() {
        caller.printed(Message { level: Level::Warning, said });
    }
}

impl ScalarUDFImpl for AdvisoryFunction {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        let fits = match self.advisory {
            Advisory::ReleaseAll => arguments.is_empty(),
            _ => (1..=2).contains(&arguments.len()) && arguments.iter().all(DataType::is_integer),
        };
        if !fits {
            return plan_err!("{} takes one bigint or two integers", self.name);
        }
        // What PostgreSQL says is void, it shows as an empty text.
        Ok(match self.advisory {
            Advisory::Take { waits: true, .. } | Advisory::ReleaseAll => DataType::Utf8View,
            _ => DataType::Boolean,
        })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = arguments.number_rows;
        let columns = arguments.args.iter().map(|argument| argument.to_array(rows));
        let columns = columns.map(|column| Ok(cast(&column?, &DataType::Int64)?)).collect::<Result<Vec<_>>>()?;
        let (locks, owner) = (self.session.locks(), self.session.owner());
        let mut answers = Vec::with_capacity(rows);
        for row in 0..rows {
            let answer = match self.advisory {
                Advisory::ReleaseAll => {
                    locks.release_all_advisory(owner);
                    Some(true)
                }
                Advisory::Release { is_shared } => {
                    let key = key(&columns, row).map_err(to_datafusion)?;
                    let released = key.map(|key| locks.release_advisory(owner, key, is_shared));
                    if released == Some(false) {
                        tell_not_owned(is_shared);
                    }
                    released
                }
                Advisory::Take { is_shared, is_lasting, waits } => match key(&columns, row).map_err(to_datafusion)? {
                    None => None,
                    Some(key) if waits => {
                        let taken = locks.take_advisory(owner, key, AdvisoryLock { is_shared, is_lasting });
                        taken.map_err(to_datafusion)?;
                        Some(true)
                    }
                    Some(key) => Some(locks.try_advisory(owner, key, AdvisoryLock { is_shared, is_lasting })),
                },
            };
            answers.push(answer);
        }
        let answers = BooleanArray::from(answers);
        Ok(ColumnarValue::Array(match arguments.return_field.data_type() {
            DataType::Boolean => Arc::new(answers),
            _ if answers.null_count() == answers.len() => new_null_array(&DataType::Utf8View, rows),
            _ => {
                let texts = answers.iter().map(|answer| answer.map(|_| ""));
                Arc::new(texts.collect::<arrow::array::StringViewArray>())
            }
        }))
    }
}

/// The number that is locked; `None` for NULL. Fails with 22003 if one of two does not fit 32 bits.
fn key(columns: &[ArrayRef], row: usize) -> diligence_base::Result<Option<AdvisoryKey>> {
    if columns.iter().any(|column| column.is_null(row)) {
        return Ok(None);
    }
    let number = |column: &ArrayRef| {
        column
            .as_primitive_opt::<Int64Type>()
            .map(|numbers| numbers.value(row))
            .ok_or_else(|| from_arrow(arrow::error::ArrowError::CastError("a lock's number is no integer".to_owned())))
    };
    let small = |column: &ArrayRef| {
        i32::try_from(number(column)?).map_err(|_| Error::value("integer out of range").with_code("22003"))
    };
    Ok(Some(match columns {
        [one] => AdvisoryKey::One(number(one)?),
        [first, second] => AdvisoryKey::Two(small(first)?, small(second)?),
        _ => return Err(Error::bug("a lock has one or two numbers")),
    }))
}
