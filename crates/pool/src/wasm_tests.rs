//! The pool with machines of WebAssembly. Without `diligence-wasm` these tests say so and are done.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float32Array, Float64Array, Int16Array, Int32Array, Int64Array, ListArray,
    StringViewArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{Field, Float32Type, Float64Type, Int16Type, Int64Type};
use diligence_base::function_limits::FunctionLimits;
use diligence_base::seams::{Random, SystemClock, ThreadSpawn};
use diligence_base::{Error, Result};
use parking_lot::Mutex;

use crate::growth::Growth;
use crate::{Answer, Caller, Code, CodeSpec, Form, Kind, Nobody, Pool, PoolOptions, Runtime, Steps};

const LENGTH: &str = include_str!("../../../wasm/examples/length.wat");
const GREATER: &str = include_str!("../../../wasm/examples/greater.wat");

/// A pool, if there is a machine.
fn pool_with(change: impl FnOnce(&mut PoolOptions)) -> Option<Arc<Pool>> {
    let mut options = PoolOptions::default();
    change(&mut options);
    let pool = Pool::new(options, Arc::new(SystemClock::default()), Arc::new(ThreadSpawn));
    match one(&pool, "(module (func (export \"f\") (param i64) (result i64) local.get 0))") {
        Err(error) if error.code() == Some("58P01") => {
            eprintln!("not tested: {error}");
            None
        }
        tried => {
            assert_eq!(tried.unwrap(), 7);
            Some(pool)
        }
    }
}

fn pool() -> Option<Arc<Pool>> {
    pool_with(|_| {})
}

fn code(pool: &Pool, parameters: &[Kind], returns: Kind, form: Form, source: &str) -> Arc<Code> {
    let parameters = parameters.iter().map(|kind| (String::new(), *kind)).collect();
    let export = match source {
        LENGTH => "bytes_of",
        GREATER => "greater",
        _ => "f",
    };
    let export = export.to_owned();
    pool.code(CodeSpec { parameters, returns, form, export, ..CodeSpec::of_text(source) })
}

fn values(answers: Vec<Answer>) -> ArrayRef {
    let arrays = answers.into_iter().map(|answer| match answer {
        Answer::Values(values) | Answer::Texts(values) => values,
        Answer::OutOfRange(value, kind) => panic!("{value} of {kind:?}"),
    });
    let arrays = arrays.collect::<Vec<_>>();
    arrow::compute::concat(&arrays.iter().map(AsRef::as_ref).collect::<Vec<_>>()).unwrap()
}

fn called(pool: &Pool, code: &Arc<Code>, columns: &[ArrayRef]) -> Result<ArrayRef> {
    pool.call(code, columns, columns[0].len(), &Nobody).map(values)
}

/// A function of a number that gives a number, for one.
fn one(pool: &Pool, source: &str) -> Result<i64, Error> {
    let code = code(pool, &[Kind::BigInt], Kind::BigInt, Form::Wasm, source);
    let values = called(pool, &code, &[Arc::new(Int64Array::from(vec![7]))])?;
    Ok(values.as_primitive::<Int64Type>().value(0))
}

/// A function of this name in a module of its own, with these types and this body.
fn module(types: &str, body: &str) -> String {
    format!("(module (memory (export \"memory\") 1) (func $f (export \"f\") {types} {body}))")
}

#[test]
fn numbers_go_row_by_row_in_a_loop_of_the_machine() {
    let Some(pool) = pool() else { return };
    let plus = module("(param i64 i64) (result i64)", "(i64.add (local.get 0) (local.get 1))");
    let plus = code(&pool, &[Kind::BigInt; 2], Kind::BigInt, Form::Wasm, &plus);
    let rows = 100_000_i64;
    let columns: Vec<ArrayRef> =
        vec![Arc::new(Int64Array::from_iter_values(0..rows)), Arc::new(Int64Array::from_iter_values((0..rows).rev()))];
    let sums = called(&pool, &plus, &columns).unwrap();
    assert_eq!(sums.len() as i64, rows);
    assert!(sums.as_primitive::<Int64Type>().values().iter().all(|sum| *sum == rows - 1));

    let kinds = [Kind::Boolean, Kind::SmallInt, Kind::Integer, Kind::Real];
    let columns: Vec<ArrayRef> = vec![
        Arc::new(BooleanArray::from(vec![true, false, true])),
        Arc::new(Int16Array::from(vec![-3, 4, 5])),
        Arc::new(Int32Array::from(vec![-70_000, 2, 3])),
        Arc::new(Float32Array::from(vec![0.5, 0.25, -1.0])),
    ];
    let types = "(param i32 i32 i32 f32)";
    let sum = "(i32.add (local.get 0) (i32.add (local.get 1) (local.get 2)))";
    let small = code(&pool, &kinds, Kind::SmallInt, Form::Wasm, &module(&format!("{types} (result i32)"), sum));
    let error = pool.call(&small, &columns, 3, &Nobody).unwrap_err();
    assert_eq!((error.message(), error.code()), ("value \"-70002\" is out of range for type smallint", Some("22003")));
    let late = columns.iter().map(|column| column.slice(1, 2)).collect::<Vec<_>>();
    assert_eq!(called(&pool, &small, &late).unwrap().as_primitive::<Int16Type>().values(), &[6, 9]);
    let real = module(&format!("{types} (result f32)"), "(f32.add (local.get 3) (f32.convert_i32_s (local.get 1)))");
    let real = code(&pool, &kinds, Kind::Real, Form::Wasm, &real);
    assert_eq!(called(&pool, &real, &columns).unwrap().as_primitive::<Float32Type>().values(), &[-2.5, 4.25, 4.0]);
    let truth = module(&format!("{types} (result i32)"), "(i32.mul (local.get 0) (i32.const 8))");
    let truth = code(&pool, &kinds, Kind::Boolean, Form::Wasm, &truth);
    assert_eq!(*called(&pool, &truth, &columns).unwrap().as_boolean(), BooleanArray::from(vec![true, false, true]));
    assert!(pool.processes().iter().all(|process| process.runtime == Runtime::Wasm), "no interpreter is started");
}

#[test]
fn the_steps_of_an_aggregate_keep_their_state_in_the_loop() {
    let Some(pool) = pool() else { return };
    let groups: ArrayRef = Arc::new(Int32Array::from(vec![0, 0, 7, 7, 7]));
    let steps = |kind: Kind, value: Kind, first: Option<&str>, source: &str, values: ArrayRef| {
        let function = code(&pool, &[kind, value], kind, Form::WasmSteps, source);
        let steps = Steps { first: first.map(str::to_owned), is_strict: true };
        let function = pool.code(CodeSpec { steps, ..function.spec.clone() });
        called(&pool, &function, &[groups.clone(), values])
    };
    let plus = module("(param i64 i64) (result i64)", "(i64.add (local.get 0) (local.get 1))");
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3, 4, 5]));
    let sums = steps(Kind::BigInt, Kind::BigInt, Some("-10"), &plus, numbers.clone()).unwrap();
    assert_eq!(sums.as_primitive::<Int64Type>().values(), &[-9, -7, -7, -3, 2]);
    // The first value is the first state.
    let sums = steps(Kind::BigInt, Kind::BigInt, None, &plus, numbers.clone()).unwrap();
    assert_eq!(sums.as_primitive::<Int64Type>().values(), &[1, 3, 3, 7, 12]);
    let least = module("(param f64 f64) (result f64)", "(f64.min (local.get 0) (local.get 1))");
    let floats: ArrayRef = Arc::new(Float64Array::from(vec![1.5, -2.0, 1e300, 4.0, 5.0]));
    let least = steps(Kind::Double, Kind::Double, Some("Infinity"), &least, floats).unwrap();
    assert_eq!(least.as_primitive::<Float64Type>().values(), &[1.5, -2.0, 1e300, 4.0, 4.0]);
    let all = module("(param i32 i64) (result i32)", "(i32.and (local.get 0) (i64.gt_s (local.get 1) (i64.const 1)))");
    let all = steps(Kind::Boolean, Kind::BigInt, Some("true"), &all, numbers.clone()).unwrap();
    assert_eq!(*all.as_boolean(), BooleanArray::from(vec![false, false, true, true, true]));
    let error = steps(Kind::BigInt, Kind::Integer, Some("0"), &plus, numbers).unwrap_err();
    assert_eq!(error.code(), Some("42P13"), "{error}");
    assert!(error.detail().unwrap().contains("(i64, i32) -> i64"), "{error:?}");
}

/// Steps of many groups at once, whose states are columns.
#[test]
fn the_steps_of_an_aggregate_may_be_of_whole_columns() {
    let Some(pool) = pool() else { return };
    let steps = |kind: Kind, form: Form, steps: Steps, source: &str, columns: &[ArrayRef]| {
        let function = code(&pool, &[kind, kind], kind, form, source);
        called(&pool, &pool.code(CodeSpec { steps, ..function.spec.clone() }), columns)
    };
    let begun = |first: Option<&str>, is_strict: bool| Steps { first: first.map(str::to_owned), is_strict };
    let groups: ArrayRef = Arc::new(Int32Array::from(vec![0, 0, 7, 7, 7, 8]));
    // A state is NULL once it has been, as its validity is that of the state before.
    let plus = "(module (memory (export \"memory\") 2)
      (func (export \"diligence_alloc\") (param i32) (result i32) (i32.const 1024))
      (func (export \"f\") (param $rows i32) (param $columns i32) (param $result i32) (result i32)
        (local $s i32) (local $x i32)
        (local.set $s (i32.load offset=16 (local.get $columns)))
        (local.set $x (i32.load offset=40 (local.get $columns)))
        (i32.store offset=8 (local.get $result) (i32.load offset=8 (local.get $columns)))
        (i32.store offset=16 (local.get $result) (local.get $s))
        (loop $next
          (i64.store (local.get $s) (i64.add (i64.load (local.get $s)) (i64.load (local.get $x))))
          (local.set $s (i32.add (local.get $s) (i32.const 8)))
          (local.set $x (i32.add (local.get $x) (i32.const 8)))
          (local.set $rows (i32.sub (local.get $rows) (i32.const 1)))
          (br_if $next (local.get $rows)))
        (i32.const 0)))";
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3, 4, 5, 6]));
    for (first, is_strict, expected) in [
        (Some("-10"), true, [None, Some(-7), None, None, Some(2), Some(-4)]),
        (Some("-10"), false, [None, Some(-7), None, None, Some(2), Some(-4)]),
        (None, true, [None, Some(3), None, None, Some(12), Some(6)]),
        (None, false, [None; 6]),
    ] {
        for form in [Form::WasmSteps, Form::WasmArrowSteps] {
            let sums = steps(Kind::BigInt, form, begun(first, is_strict), plus, &[groups.clone(), numbers.clone()]);
            let sums = sums.unwrap_or_else(|error| panic!("{first:?} {is_strict} {form:?}: {error}"));
            assert_eq!(*sums.as_primitive::<Int64Type>(), Int64Array::from(expected.to_vec()), "{first:?} {is_strict}");
        }
    }

    let texts: ArrayRef = Arc::new(StringViewArray::from(vec!["b", "a", "", "zwölf Zeichen und mehr", "c", ""]));
    for (first, expected) in [
        (Some("ab"), [None, Some("b"), None, None, Some("zwölf Zeichen und mehr"), Some("ab")]),
        (None, [None, Some("b"), None, None, Some("zwölf Zeichen und mehr"), Some("")]),
    ] {
        let columns = [groups.clone(), texts.clone()];
        let states = steps(Kind::Text, Form::WasmSteps, begun(first, true), GREATER, &columns).unwrap();
        assert_eq!(*states.as_string_view(), StringViewArray::from(expected.to_vec()), "{first:?}");
    }
    // Many groups, and one of many rows.
    let rows = 20_000;
    let ids: ArrayRef = Arc::new(Int32Array::from_iter_values((0..rows).map(|row| (row / 2).min(5_000))));
    let names = (0..rows).map(|row| format!("{:05}", (row * 7919) % rows)).collect::<Vec<_>>();
    let columns: [ArrayRef; 2] = [ids.clone(), Arc::new(StringViewArray::from_iter_values(&names))];
    let states = steps(Kind::Text, Form::WasmSteps, begun(None, true), GREATER, &columns).unwrap();
    let states = states.as_string_view();
    for pair in 0..1_000 {
        let (one, other) = (names[2 * pair].as_str(), names[2 * pair + 1].as_str());
        // Rows go in parts, and one may end in the middle of a group.
        let expected = if states.is_valid(2 * pair) { other } else { one.max(other) };
        assert_eq!(states.value(2 * pair + 1), expected, "{pair}");
    }
    let of_long = (10_000..rows as usize).filter(|row| states.is_valid(*row)).map(|row| states.value(row)).max();
    assert_eq!(of_long, names[10_000..].iter().map(String::as_str).max());

    let error = steps(Kind::SmallInt, Form::WasmSteps, begun(Some("x"), true), GREATER, &[groups, numbers]);
    assert_eq!(error.unwrap_err().code(), Some("39000"));
}

#[test]
fn texts_go_in_whole_columns_with_nulls() {
    let Some(pool) = pool() else { return };
    let length = code(&pool, &[Kind::Text], Kind::BigInt, Form::Wasm, LENGTH);
    let texts: ArrayRef = Arc::new(StringViewArray::from(vec![Some("ä"), None, Some(""), Some("a text that is long")]));
    let lengths = called(&pool, &length, &[texts]).unwrap();
    assert_eq!(*lengths.as_primitive::<Int64Type>(), Int64Array::from(vec![Some(2), None, Some(0), Some(19)]));
    let many: ArrayRef = Arc::new(StringViewArray::from_iter_values((0..20_000).map(|row| "x".repeat(row % 97))));
    let lengths = called(&pool, &length, &[many]).unwrap();
    assert!(
        lengths.as_primitive::<Int64Type>().values().iter().enumerate().all(|(row, length)| *length == row as i64 % 97)
    );

    // What it gives is what it got: columns of every kind.
    let same = "(module (memory (export \"memory\") 40)
      (func (export \"diligence_alloc\") (param i32) (result i32) (i32.const 64))
      (func (export \"f\") (param i32 i32 i32) (result i32)
        (i32.store offset=8 (local.get 2) (i32.load offset=8 (local.get 1)))
        (i64.store offset=12 (local.get 2) (i64.load offset=12 (local.get 1)))
        (i32.const 0)))";
    let list = |elements: ArrayRef| -> ArrayRef {
        let item = Arc::new(Field::new("item", elements.data_type().clone(), true));
        let (offsets, valid) = (OffsetBuffer::from_lengths([2, 0, 1]), NullBuffer::from(vec![true, false, true]));
        Arc::new(ListArray::new(item, offsets, elements, Some(valid)))
    };
    let columns: [(Kind, ArrayRef); 9] = [
        (Kind::Text, Arc::new(StringViewArray::from(vec![Some("one"), None, Some("zwölf Zeichen und mehr")]))),
        (Kind::Boolean, Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)]))),
        (Kind::SmallInt, Arc::new(Int16Array::from(vec![Some(-1), None, Some(i16::MAX)]))),
        (Kind::Integer, Arc::new(Int32Array::from(vec![Some(i32::MIN), None, Some(3)]))),
        (Kind::Real, Arc::new(Float32Array::from(vec![Some(f32::INFINITY), None, Some(0.1)]))),
        (Kind::TextList, list(Arc::new(StringViewArray::from(vec![Some("ein Text, der lang ist"), None, Some("")])))),
        (Kind::BooleanList, list(Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])))),
        (Kind::IntegerList, list(Arc::new(Int32Array::from(vec![Some(-7), None, Some(9)])))),
        (Kind::DoubleList, list(Arc::new(Float64Array::from(vec![Some(0.5), None, Some(f64::INFINITY)])))),
    ];
    for (kind, column) in columns {
        let same = code(&pool, &[kind], kind, Form::WasmArrow, same);
        assert_eq!(&called(&pool, &same, std::slice::from_ref(&column)).unwrap(), &column, "{kind:?}");
    }
}

#[test]
fn what_ends_a_function_ends_its_call_alone() {
    let Some(pool) = pool_with(|options| (options.fuel, options.memory_bytes) = (10_000_000, 64 << 20)) else { return };
    let number = "(param i64) (result i64)";
    let grow = "(if (i32.eq (memory.grow (i32.const 16000)) (i32.const -1)) (then (unreachable))) (local.get 0)";
    for (body, message, code) in [
        ("(loop $l (br $l)) (local.get 0)", "has used up its fuel", "57014"),
        ("(i64.div_s (local.get 0) (i64.const 0))", "integer divide by zero", "38000"),
        ("(unreachable)", "`unreachable` instruction executed", "38000"),
        ("(i64.load (i32.const -8))", "out of bounds memory access", "38000"),
        ("(call $f (local.get 0))", "stack", "38000"),
        (grow, "has used up its memory", "53200"),
    ] {
        let error = one(&pool, &module(number, body)).unwrap_err();
        assert!(error.message().contains(message) && error.code() == Some(code), "{body}: {error:?}");
        assert_eq!(one(&pool, &module(number, "(local.get 0)")).unwrap(), 7);
    }
    let error = one(&pool, &module(number, "(i64.div_s (local.get 0) (i64.const 0))")).unwrap_err();
    assert_eq!(error.detail(), Some("function f\nin the module's function f"));
}

#[test]
fn a_function_may_have_less_than_others() {
    let Some(pool) = pool() else { return };
    let number = "(param i64) (result i64)";
    let counts = "(local $n i64)
      (loop $next
        (local.set $n (i64.add (local.get $n) (i64.const 1)))
        (br_if $next (i64.lt_u (local.get $n) (i64.const 1000000))))
      (local.get $n)";
    let grows = "(if (i32.eq (memory.grow (i32.const 100)) (i32.const -1)) (then (unreachable))) (local.get 0)";
    let fuel = FunctionLimits { fuel: Some(10_000), ..FunctionLimits::default() };
    let memory = FunctionLimits { memory_bytes: Some(1 << 20), ..FunctionLimits::default() };
    for (body, limits, sqlstate, setting, value) in
        [(counts, fuel, "57014", "function_fuel", 1_000_000), (grows, memory, "53200", "function_memory", 7)]
    {
        let free = code(&pool, &[Kind::BigInt], Kind::BigInt, Form::Wasm, &module(number, body));
        let limited = pool.code(CodeSpec { limits, ..free.spec.clone() });
        let column: ArrayRef = Arc::new(Int64Array::from(vec![7]));
        for _ in 0..2 {
            let error = called(&pool, &limited, std::slice::from_ref(&column)).unwrap_err();
            assert_eq!(error.code(), Some(sqlstate), "{error}");
            assert!(error.hint().unwrap().contains(&format!("ALTER FUNCTION f SET {setting}")), "{error}");
            let values = called(&pool, &free, std::slice::from_ref(&column)).unwrap();
            assert_eq!(values.as_primitive::<Int64Type>().value(0), value, "{setting}");
        }
    }
}

#[test]
fn what_is_no_such_function_is_refused_when_it_is_made() {
    let Some(pool) = pool() else { return };
    let number = "(param i64) (result i64)";
    let import = format!("(module (import \"env\" \"read\" (func)) (func (export \"f\") {number} (local.get 0)))");
    for (source, expected, detail) in [
        ("(module", "42601", "expected"),
        ("AGFzbQIAAAA=", "42601", ""),
        ("0061736d0100000", "42601", "hexadecimal"),
        ("(module (func (export \"g\")))", "42P13", "It exports g."),
        (module("(param i32) (result i64)", "(i64.const 1)").as_str(), "42P13", "(i64) -> i64 for rows"),
        (module("(param i32 i32 i32) (result i32)", "(i32.const 0)").as_str(), "42P13", "whole columns need it"),
        (import.as_str(), "42P13", "print of diligence"),
    ] {
        let code = code(&pool, &[Kind::BigInt], Kind::BigInt, Form::Wasm, source);
        let error = pool.check(&code, &Nobody).unwrap_err();
        assert_eq!(error.code(), Some(expected), "{source}: {error}");
        assert!(error.detail().unwrap_or_default().contains(detail), "{source}: {:?}", error.detail());
    }
}

/// A caller who notes what functions print.
#[derive(Default)]
struct Listener(Mutex<String>);

impl Caller for Listener {
    fn is_stopped(&self) -> bool {
        false
    }

    fn printed(&self, text: &str) {
        self.0.lock().push_str(text);
    }
}

#[test]
fn a_module_prints_to_its_caller_and_keeps_its_memory() {
    let Some(pool) = pool() else { return };
    let source = "(module (import \"diligence\" \"print\" (func $print (param i32 i32))) (memory (export \"memory\") 1)
      (data (i32.const 0) \"hello\") (global $calls (mut i64) (i64.const 0))
      (func (export \"f\") (param i64) (result i64)
        (call $print (i32.const 0) (i32.const 5))
        (global.set $calls (i64.add (global.get $calls) (i64.const 1)))
        (global.get $calls)))";
    let counts = code(&pool, &[Kind::BigInt], Kind::BigInt, Form::Wasm, source);
    let listener = Listener::default();
    let column: ArrayRef = Arc::new(Int64Array::from(vec![0, 0]));
    let counted = values(pool.call(&counts, &[column], 2, &listener).unwrap());
    assert_eq!(counted.as_primitive::<Int64Type>().values(), &[1, 2]);
    assert_eq!(*listener.0.lock(), "hello\nhello\n");
}

/// Results that a hostile module describes: addresses, offsets and codes that are made up. Each is refused, or its
/// values are well formed; the process answers on.
#[test]
fn whatever_a_module_says_of_its_result_is_refused_or_fits() {
    let growth = Growth { threshold: 0, minimum: 1, maximum: 1 };
    let Some(pool) = pool_with(|options| options.growth = growth) else { return };
    let hostile = "(module (memory (export \"memory\") 2)
      (func (export \"diligence_alloc\") (param i32) (result i32) (i32.const 65536))
      (func (export \"f\") (param $rows i32) (param $columns i32) (param $result i32) (result i32)
        (local $values i32)
        (local.set $values (i32.load offset=16 (local.get $columns)))
        (i32.store offset=8 (local.get $result) (i32.load (local.get $values)))
        (i32.store offset=12 (local.get $result) (i32.load offset=8 (local.get $values)))
        (i32.store offset=16 (local.get $result) (i32.load offset=16 (local.get $values)))
        (i32.load offset=24 (local.get $values))))";
    use Kind::{BigInt, BigIntList, Boolean, Bytes, Double, Integer, Text, TextList};
    let kinds = [Text, Bytes, BigInt, Integer, Boolean, Double, TextList, BigIntList];
    let codes = kinds.map(|kind| code(&pool, &[Kind::BigInt], kind, Form::WasmArrow, hostile));
    let (mut refused, mut fitting) = (0, 0);
    for seed in 0..3_000 {
        let mut random = Random::new(seed);
        let mut made_up = || match random.below(8) {
            0 => random.below(1 << 20) as i64,
            1 => -(random.below(1 << 20) as i64),
            2 => i64::from(u32::MAX),
            3 => 65536 + random.below(400) as i64,
            4 => 131_072 - random.below(64) as i64,
            _ => 0,
        };
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values((0..6).map(|_| made_up())));
        let code = &codes[seed as usize % codes.len()];
        match pool.call(code, &[column], 6, &Nobody) {
            Ok(answers) => {
                let array = values(answers);
                assert_eq!(array.len(), 6, "seed {seed}");
                array.to_data().validate_full().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
                fitting += 1;
            }
            Err(error) => {
                assert!(matches!(error.code(), Some("38000" | "39000")), "seed {seed}: {error}");
                refused += 1;
            }
        }
    }
    assert!(refused > 500 && fitting > 100, "{refused} refused, {fitting} fitting");
}

#[test]
fn without_a_machine_the_error_says_what_to_build() {
    let options = PoolOptions { wasm: "no-such-machine".to_owned(), ..PoolOptions::default() };
    let pool = Pool::new(options, Arc::new(SystemClock::default()), Arc::new(ThreadSpawn));
    let error = one(&pool, "(module)").unwrap_err();
    assert_eq!(error.code(), Some("58P01"), "{error}");
    assert!(error.hint().unwrap().contains("wasm/Cargo.toml"), "{error}");
}
