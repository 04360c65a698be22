//! The pool with a real interpreter. Without one these tests say so and are done.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray, BooleanArray, Int32Array, Int64Array, StringViewArray};
use arrow::datatypes::{Float64Type, Int64Type};
use diligence_base::seams::{SystemClock, ThreadSpawn};
use diligence_base::{Error, ErrorKind};
use parking_lot::Mutex;

use crate::growth::Growth;
use crate::{Answer, Caller, Code, CodeSpec, Form, Kind, Nobody, Pool, PoolOptions, Steps};

/// A pool, if there is an interpreter.
fn pool_with(change: impl FnOnce(&mut PoolOptions)) -> Option<Arc<Pool>> {
    let mut found = Command::new("python3");
    let found = found.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !found.is_ok_and(|status| status.success()) {
        eprintln!("not tested: there is no python3 here");
        return None;
    }
    let mut options = PoolOptions::default();
    change(&mut options);
    Some(Pool::new(options, Arc::new(SystemClock::default()), Arc::new(ThreadSpawn)))
}

fn pool() -> Option<Arc<Pool>> {
    pool_with(|_| {})
}

fn code(pool: &Pool, parameters: &[(&str, Kind)], returns: Kind, source: &str) -> Arc<Code> {
    let parameters = parameters.iter().map(|(name, kind)| ((*name).to_owned(), *kind)).collect();
    pool.code(CodeSpec { parameters, returns, ..CodeSpec::of_text(source) })
}

fn numbers(values: impl IntoIterator<Item = i64>) -> Vec<ArrayRef> {
    vec![Arc::new(Int64Array::from_iter_values(values))]
}

/// A function of a number that gives a number, for one.
fn one(pool: &Pool, source: &str, caller: &dyn Caller) -> Result<i64, Error> {
    let code = code(pool, &[("x", Kind::BigInt)], Kind::BigInt, source);
    let answers = pool.call(&code, &numbers([7]), 1, caller)?;
    match answers.as_slice() {
        [Answer::Values(values)] => Ok(values.as_primitive::<Int64Type>().value(0)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn rows_go_to_a_function_and_come_back() {
    let Some(pool) = pool() else { return };
    assert!(pool.processes().is_empty() && pool.counts().total == 0, "nothing is started before it is needed");
    let kinds = [("x", Kind::BigInt), ("s", Kind::Text), ("b", Kind::Boolean), ("d", Kind::Bytes)];
    let source = "if x is None: return None\nreturn s * x + str(b) + d.hex()";
    let code = code(&pool, &kinds, Kind::Text, source);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![Some(2), None, Some(0)])),
        Arc::new(StringViewArray::from(vec![Some("ä"), Some("b"), Some("c")])),
        Arc::new(BooleanArray::from(vec![Some(true), Some(false), None])),
        Arc::new(BinaryViewArray::from(vec![Some(&[255_u8, 0][..]), None, Some(&[])])),
    ];
    let answers = pool.call(&code, &columns, 3, &Nobody).unwrap();
    // The first row goes alone.
    let [Answer::Texts(first), Answer::Texts(others)] = answers.as_slice() else { panic!("{answers:?}") };
    let values = first.as_string_view().iter().chain(others.as_string_view()).collect::<Vec<_>>();
    assert_eq!(values, [Some("ääTrueff00"), None, Some("None")]);
    let processes = pool.processes();
    assert!(processes.iter().any(|process| process.functions == ["f"] && process.rows == 3), "{processes:?}");
}

/// The states that the steps of an aggregate make of rows, in one answer.
fn stepped(
    pool: &Pool,
    kind: Kind,
    steps: (Option<&str>, bool),
    source: &str,
    columns: &[ArrayRef],
) -> Result<ArrayRef, Error> {
    let function = code(pool, &[("s", kind), ("x", kind)], kind, source);
    let steps = Steps { first: steps.0.map(str::to_owned), is_strict: steps.1 };
    let function = pool.code(CodeSpec { form: Form::Steps, steps, ..function.spec.clone() });
    let mut answers = pool.call(&function, columns, columns[0].len(), &Nobody)?;
    assert_eq!(answers.len(), 1);
    match answers.remove(0) {
        Answer::Values(values) | Answer::Texts(values) => Ok(values),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_steps_of_an_aggregate_make_a_state_of_each_group() {
    let Some(pool) = pool() else { return };
    let groups: ArrayRef = Arc::new(Int32Array::from(vec![3, 3, 8, 8, 8]));
    let columns = [groups.clone(), Arc::new(Int64Array::from(vec![1, 2, 3, 4, 5])) as ArrayRef];
    for (first, source, expected) in [
        (Some("10"), "return s + x", [Some(13), Some(22)]),
        (None, "return s * x", [Some(2), Some(60)]),
        // What is NULL stays NULL.
        (Some("0"), "return None if x == 3 else s + x", [Some(3), None]),
    ] {
        let states = stepped(&pool, Kind::BigInt, (first, true), source, &columns).unwrap();
        let states = states.as_primitive::<Int64Type>();
        let of_last = [1, 4].map(|row| states.is_valid(row).then(|| states.value(row)));
        assert_eq!(of_last, expected, "{source}");
    }
    let texts = Arc::new(StringViewArray::from(vec![Some("a"), None, Some("b"), Some("c"), None]));
    let columns = [groups, texts as ArrayRef];
    let states = stepped(&pool, Kind::Text, (None, false), "return (s or '') + (x or '-')", &columns).unwrap();
    let states = states.as_string_view();
    assert_eq!((states.value(1), states.value(4)), ("a-", "bc-"), "one that is not strict sees NULLs");
    let error = stepped(&pool, Kind::Text, (Some(""), false), "return s + x", &columns).unwrap_err();
    assert_eq!(error.code(), Some("38000"), "{error}");
}

#[test]
fn many_rows_go_in_parts() {
    let Some(pool) = pool() else { return };
    let code = code(&pool, &[("x", Kind::BigInt)], Kind::Double, "return x / 2");
    let rows = 20_000;
    let answers = pool.call(&code, &numbers(0..rows), rows as usize, &Nobody).unwrap();
    assert!(answers.len() > 1);
    let values = answers.iter().flat_map(|answer| match answer {
        Answer::Values(values) => values.as_primitive::<Float64Type>().values().to_vec(),
        other => panic!("{other:?}"),
    });
    assert!(values.eq((0..rows).map(|value| value as f64 / 2.0)));
}

#[test]
fn the_pool_grows_by_the_rule_and_shrinks() {
    let growth = Growth { threshold: 1, minimum: 3, maximum: 8 };
    let Some(pool) = pool_with(|options| options.growth = growth) else { return };
    assert_eq!(one(&pool, "return x + 1", &Nobody).unwrap(), 8);
    assert_eq!(pool.counts().total, 3);
    pool.set_options(|options| options.idle = Duration::ZERO);
    // The keeper looks by itself.
    while pool.counts().total > 1 {
        std::thread::yield_now();
    }
    assert_eq!(one(&pool, "return x + 1", &Nobody).unwrap(), 8);
}

#[test]
fn what_a_function_raises_is_told_with_its_place() {
    let Some(pool) = pool() else { return };
    let error = one(&pool, "\ny = x\nreturn y / 0", &Nobody).unwrap_err();
    assert_eq!((error.message(), error.code()), ("ZeroDivisionError: division by zero", Some("38000")));
    assert_eq!(error.detail(), Some("function f, line 3: return y / 0"));
    let error = one(&pool, "import sys\nsys.exit(3)", &Nobody).unwrap_err();
    assert_eq!((error.message(), error.code()), ("SystemExit: 3", Some("38000")));
    assert_eq!(one(&pool, " return x ", &Nobody).unwrap(), 7);
    assert_eq!(one(&pool, "\n\n  y = \"\"\"a\n b\"\"\"\n  return len(y)", &Nobody).unwrap(), 4);
    let error = one(&pool, "\n  y = x\n  return y / 0", &Nobody).unwrap_err();
    assert_eq!(error.detail(), Some("function f, line 3: return y / 0"));
    let error = one(&pool, "return x +", &Nobody).unwrap_err();
    assert_eq!((error.message(), error.code()), ("could not compile the function f", Some("42601")));
    assert!(error.detail().unwrap().contains("line 1: return x +"), "{error}");
    assert_eq!(pool.processes().iter().map(|process| process.calls).max(), Some(11), "it serves still");
}

#[test]
fn a_process_that_dies_ends_its_call_alone() {
    let Some(pool) = pool() else { return };
    for (source, expected) in [
        ("import os\nos._exit(3)", "ended with the exit code 3"),
        ("import os, signal\nprint('so far')\nos.kill(os.getpid(), signal.SIGKILL)", "was killed (signal 9)"),
        ("import ctypes\nctypes.string_at(0)", "crashed (signal 11"),
        ("import os\nos.closerange(3, 1000)\nwhile True: pass", "closed its connection"),
    ] {
        let error = one(&pool, source, &Nobody).unwrap_err();
        assert!(error.message().contains(expected) && error.code() == Some("38000"), "{source}: {error}");
        assert_eq!(error.detail().is_some_and(|detail| detail.contains("so far")), source.contains("so far"));
        assert_eq!(error.hint().is_none(), expected == "closed its connection", "{error:?}");
        assert_eq!(one(&pool, "return x + 1", &Nobody).unwrap(), 8);
    }
    let [numbers, _] = pool.numbers();
    assert_eq!((numbers.died_total, numbers.killed_total, numbers.refused_total), (4, 0, 0), "{numbers:?}");
    assert_eq!(numbers.requested_total, 8, "{numbers:?}");
    assert!(numbers.started_total >= 5 && numbers.counts.active == 0, "{numbers:?}");
}

/// Stops when the function has said that it runs.
#[derive(Default)]
struct Stopper(AtomicBool, Mutex<String>);

impl Caller for Stopper {
    fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn printed(&self, text: &str) {
        self.1.lock().push_str(text);
    }
}

#[test]
fn an_endless_loop_ends_when_nobody_wants_it_or_its_time_is_over() {
    let Some(pool) = pool_with(|options| options.time = Duration::from_millis(300)) else { return };
    let error = one(&pool, "while True: pass", &Nobody).unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Value, Some("57014")), "{error}");
    pool.set_options(|options| options.time = Duration::from_secs(3600));
    let stopper = Arc::new(Stopper::default());
    let calling = {
        let (pool, stopper) = (pool.clone(), stopper.clone());
        std::thread::spawn(move || one(&pool, "try:\n  while True: pass\nfinally:\n  while True: pass", &*stopper))
    };
    while !pool.processes().iter().any(|process| process.functions == ["f"] && process.calls > 1) {
        // The function is loaded; whether it runs already does not matter.
        if pool.processes().iter().any(|process| process.state == crate::ProcessState::Active) {
            break;
        }
        std::thread::yield_now();
    }
    stopper.0.store(true, Ordering::Relaxed);
    assert_eq!(calling.join().unwrap().unwrap_err().kind(), ErrorKind::Cancelled);
    assert_eq!(pool.numbers()[0].killed_total, 2);
    assert_eq!(one(&pool, "return x + 1", &Nobody).unwrap(), 8);
}

#[test]
fn memory_without_end_is_an_error_of_the_call() {
    let Some(pool) = pool_with(|options| options.memory_bytes = 200 << 20) else { return };
    let error = one(&pool, "a = []\nwhile True: a.append(bytes(1000000))", &Nobody).unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Value, Some("53200")), "{error}");
    assert_eq!(one(&pool, "return x + 1", &Nobody).unwrap(), 8);
}

#[test]
fn what_a_function_prints_goes_to_its_caller() {
    let Some(pool) = pool() else { return };
    let stopper = Stopper::default();
    let source = "import os, sys, subprocess\nprint('one', x)\nprint('two', file=sys.stderr)\nos.write(1, b'three\\n')\n\
                  plpy.notice('four')\nsubprocess.run(['echo', 'five'])\nreturn x";
    assert_eq!(one(&pool, source, &stopper).unwrap(), 7);
    assert_eq!(*stopper.1.lock(), "one 7\ntwo\nthree\nfour\nfive\n");
    let stopper = Stopper::default();
    assert_eq!(one(&pool, "for _ in range(1000): print('x' * 1000)\nreturn x", &stopper).unwrap(), 7);
    let printed = stopper.1.lock().len();
    assert!((60_000..=70_000).contains(&printed), "{printed}");
}

#[test]
fn a_function_that_forks_speaks_once() {
    let Some(pool) = pool() else { return };
    assert_eq!(one(&pool, "import os\nos.fork()\nreturn x", &Nobody).unwrap(), 7);
    assert_eq!(one(&pool, "return x + 1", &Nobody).unwrap(), 8);
    // One that lives on has the output still; the process itself goes.
    let error = one(&pool, "import os\nif os.fork() == 0:\n  while True: pass\nos._exit(4)", &Nobody).unwrap_err();
    assert!(error.message().contains("exit code 4"), "{error}");
}

#[test]
fn values_of_other_types_are_texts_to_be_read_and_errors_where_they_cannot_be() {
    let Some(pool) = pool() else { return };
    let given = |returns, source: &str| {
        let code = code(&pool, &[("x", Kind::BigInt)], returns, source);
        pool.call(&code, &numbers([7]), 1, &Nobody).map(|mut answers| answers.remove(0))
    };
    for (returns, source, expected) in [
        (Kind::BigInt, "return '12'", "12"),
        (Kind::BigInt, "return True", "True"),
        (Kind::BigInt, "return 2 ** 70", "1180591620717411303424"),
        (Kind::Double, "return [1]", "[1]"),
        (Kind::Text, "return {'a': 1.5}", "{'a': 1.5}"),
        (Kind::Text, "return 0.1", "0.1"),
        (Kind::Numeric, "from decimal import Decimal\nreturn Decimal('1.50')", "1.50"),
    ] {
        match given(returns, source) {
            Ok(Answer::Texts(texts)) => assert_eq!(texts.as_string_view().value(0), expected, "{source}"),
            other => panic!("{source}: {other:?}"),
        }
    }
    let error = given(Kind::SmallInt, "return 40000").unwrap_err();
    assert_eq!((error.message(), error.code()), ("value \"40000\" is out of range for type smallint", Some("22003")));
    let error = given(Kind::Bytes, "return 'text'").unwrap_err();
    assert_eq!(error.code(), Some("39000"), "{error}");
}

#[test]
fn pl_python_s_names_are_there() {
    let Some(pool) = pool() else { return };
    let source = "SD['n'] = SD.get('n', 0) + 1\nglobal x\nx = x + args[0]\nreturn x + SD['n']";
    let code = code(&pool, &[("x", Kind::BigInt)], Kind::BigInt, source);
    let answers = pool.call(&code, &numbers([1, 2]), 2, &Nobody).unwrap();
    let [Answer::Values(first), Answer::Values(second)] = answers.as_slice() else { panic!("{answers:?}") };
    let value = |values: &ArrayRef| values.as_primitive::<Int64Type>().value(0);
    assert_eq!([value(first), value(second)], [3, 6]);
    let error = one(&pool, "plpy.error('so not')", &Nobody).unwrap_err();
    assert_eq!((error.message(), error.code()), ("plpy.Error: so not", Some("38000")));
}

#[test]
fn without_an_interpreter_the_error_says_what_to_install() {
    let clock = Arc::new(SystemClock::default());
    let options = PoolOptions { python: "no-such-python".to_owned(), ..PoolOptions::default() };
    let pool = Pool::new(options, clock, Arc::new(ThreadSpawn));
    for _ in 0..2 {
        let error = one(&pool, "return x", &Nobody).unwrap_err();
        assert_eq!(error.code(), Some("58P01"), "{error}");
        assert!(error.hint().unwrap().contains("install"), "{error}");
    }
    assert_eq!(pool.counts().active, 0);
    pool.set_options(|options| options.python = "false".to_owned());
    let error = one(&pool, "return x", &Nobody).unwrap_err();
    assert!(error.message().contains("ended with the exit code 1 before it was ready"), "{error}");
    assert!(error.code() == Some("58000") && error.hint().unwrap().contains("SET python"), "{error}");
}

#[test]
fn processes_that_are_killed_before_they_are_ready_are_replaced() {
    let directory = std::env::temp_dir().join(format!("diligence-pool-killed-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    // Written by another process: one that is started here meanwhile would hold the file open.
    let script = |name: &str, killed: &str| {
        let write = "printf '#!/bin/sh\\nfor n in %s; do mkdir \"%s/$n\" 2>/dev/null && kill -9 $$; done\\n\
                     exec python3 \"$@\"\\n' \"$1\" \"$2\" > \"$2/$0\" && chmod +x \"$2/$0\"";
        let status = Command::new("sh").args(["-c", write, name, killed]).arg(&directory).status();
        assert!(status.unwrap().success());
        directory.join(name).to_string_lossy().into_owned()
    };
    let (twice, always) = (script("twice", "1 2"), script("always", "3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20"));
    if let Some(pool) = pool_with(|options| options.python = twice) {
        assert_eq!(one(&pool, "return x + 1", &Nobody).unwrap(), 8);
        let killed = ["1", "2"].map(|name| directory.join(name).is_dir());
        assert_eq!((killed, pool.counts().active), ([true, true], 0));
    }
    if let Some(pool) = pool_with(|options| options.python = always) {
        let error = one(&pool, "return x + 1", &Nobody).unwrap_err();
        assert!(error.message().contains("was killed (signal 9) before it was ready"), "{error}");
        assert_eq!((error.code(), pool.counts().active), (Some("58000"), 0));
    }
    std::fs::remove_dir_all(&directory).unwrap();
}

/// A function that finds the socket speaks for its process: frames with made up heads, kinds, numbers and lengths, and
/// bytes of any kind. Its call ends with an error, soon, and nobody else's does.
#[test]
fn a_function_that_forges_answers_ends_its_own_call() {
    let Some(pool) = pool_with(|options| options.time = Duration::from_secs(10)) else { return };
    let forge = "import os, random, struct\nfrom stat import S_ISSOCK\nmade = random.Random(SEED)\n\
                 sockets = [int(name) for name in os.listdir('/proc/self/fd')]\n\
                 sockets = [d for d in sockets if d >= 64 and S_ISSOCK(os.fstat(d).st_mode)]\n\
                 body = made.randbytes(made.choice([0, 1, 9, 100]))\n\
                 length = made.choice([len(body), len(body), 1 << 31, 0, len(body) + 1])\n\
                 head = struct.pack('<IB3xQ', length, made.choice([1, 2, 3, 4, 9]), made.choice([0, 1, 2, 3, 1 << 60]))\n\
                 os.write(sockets[0], made.choice([head + body, head[:5], body]))\nos._exit(7)";
    for seed in 0..60 {
        let forged = one(&pool, &forge.replace("SEED", &seed.to_string()), &Nobody);
        if let Err(error) = forged {
            let code = error.code().unwrap_or_default();
            assert!(["38000", "39000", "42804", "22P02", "22003", "54000"].contains(&code), "seed {seed}: {error:?}");
        }
        assert_eq!(one(&pool, "return x + 1", &Nobody).unwrap(), 8, "seed {seed}");
    }
    assert_eq!(pool.counts().active, 0);
}

/// A function that finds the socket answers for calls to come: frames with the numbers and values of later questions,
/// of other functions. No other call gets them.
#[test]
fn answers_that_nobody_has_asked_for_reach_nobody() {
    let growth = Growth { threshold: 0, minimum: 1, maximum: 1 };
    let Some(pool) = pool_with(|options| options.growth = growth) else { return };
    let forge = "import os, struct, sys\nfrom stat import S_ISSOCK\n\
                 sockets = [int(name) for name in os.listdir('/proc/self/fd') if int(name) >= 64]\n\
                 sockets = [d for d in sockets if S_ISSOCK(os.fstat(d).st_mode)]\n\
                 frame = lambda kind, number, body: struct.pack('<IB3xQ', len(body), kind, number) + body\n\
                 value, step = b'\\0\\0' + struct.pack('<q', 99), sys._getframe()\n\
                 while step.f_code.co_name != 'serve': step = step.f_back\n\
                 own = step.f_locals['number']\n\
                 os.write(sockets[0], b''.join(FRAMES))\nreturn x";
    for frames in [
        "[frame(3, own + 1, value)]",
        "[frame(3, own, value), frame(3, own + 1, value)]",
        "[frame(3, own, value), frame(2, own + 1, b''), frame(3, own + 2, value)]",
        "[frame(3, own, value), frame(2, 1, b''), frame(3, 2, value)]",
    ] {
        for _ in 0..5 {
            // Its own call ends with what it has made up, or with an error.
            match one(&pool, &forge.replace("FRAMES", frames), &Nobody) {
                Ok(value) => assert_eq!(value, 99, "{frames}"),
                Err(error) => assert_eq!(error.code(), Some("39000"), "{frames}: {error}"),
            }
            assert_eq!(one(&pool, "return x + 1", &Nobody).unwrap(), 8, "{frames}");
            assert_eq!(one(&pool, "return x + 2", &Nobody).unwrap(), 9, "{frames}");
        }
    }
    let [numbers, _] = pool.numbers();
    assert!(numbers.killed_total >= 20 && numbers.counts.active == 0, "{numbers:?}");
}

/// Processes are killed at any time while calls run. A call gives what it is to, or says that its process was killed;
/// calls that have no process yet notice nothing.
#[test]
fn kills_at_any_time_end_single_calls() {
    let Some(pool) = pool() else { return };
    let callers = (0..4).map(|_| {
        let pool = pool.clone();
        std::thread::spawn(move || {
            let mut killed = 0;
            for _ in 0..60 {
                match one(&pool, "return sum(range(20000)) * 0 + x + 1", &Nobody) {
                    Ok(value) => assert_eq!(value, 8),
                    Err(error) => {
                        assert_eq!(error.code(), Some("38000"), "{error}");
                        killed += 1;
                    }
                }
            }
            killed
        })
    });
    let callers = callers.collect::<Vec<_>>();
    let mut kills = 0;
    while callers.iter().any(|caller| !caller.is_finished()) {
        let processes = pool.processes();
        if let Some(process) = processes.get(kills % processes.len().max(1))
            && process.calls > 3
        {
            // SAFETY: a signal touches no memory; the process is the pool's.
            unsafe { libc::kill(process.pid as libc::pid_t, libc::SIGKILL) };
            kills += 1;
        }
        std::thread::yield_now();
    }
    let killed = callers.into_iter().map(|caller| caller.join().unwrap()).sum::<usize>();
    assert!(killed <= kills, "{killed} calls ended by {kills} kills");
    assert_eq!(pool.counts().active, 0);
    // The last signals may meet processes that nobody has used since: so many calls end as well.
    let left = (0..=kills).find_map(|_| one(&pool, "return x + 1", &Nobody).ok());
    assert_eq!(left, Some(8));
}

#[test]
fn functions_are_forgotten_by_least_recent_use() {
    let growth = Growth { threshold: 0, minimum: 1, maximum: 1 };
    let Some(pool) = pool_with(|options| options.growth = growth) else { return };
    for number in 0..100 {
        assert_eq!(one(&pool, &format!("return x + {number}"), &Nobody).unwrap(), 7 + number);
        assert_eq!(one(&pool, "return x", &Nobody).unwrap(), 7);
    }
    let processes = pool.processes();
    let calls = processes[0].calls;
    // They share a name, which stands once.
    assert_eq!((processes.len(), processes[0].functions.len()), (1, 1));
    assert_eq!(one(&pool, "return x", &Nobody).unwrap(), 7);
    assert_eq!(pool.processes()[0].calls, calls + 1, "the one that was used often is there still");
    assert_eq!(one(&pool, "return x + 0", &Nobody).unwrap(), 7);
    assert_eq!(pool.processes()[0].calls, calls + 3, "the oldest is loaded anew");
}

#[test]
fn a_function_s_time_is_for_few_rows_where_each_takes_long() {
    let Some(pool) = pool_with(|options| options.time = Duration::from_millis(900)) else { return };
    let slow = code(&pool, &[("x", Kind::BigInt)], Kind::BigInt, "import time\ntime.sleep(0.06)\nreturn x");
    // All of them together take longer than the function may.
    let rows = 25;
    let answers = pool.call(&slow, &numbers(0..rows), rows as usize, &Nobody).unwrap();
    let values = answers.iter().map(|answer| match answer {
        Answer::Values(values) => values.len(),
        other => panic!("{other:?}"),
    });
    assert_eq!(values.sum::<usize>(), rows as usize);
}
