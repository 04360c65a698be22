//! What a function may take: limits of its own, of its caller, and of all. Without an interpreter these tests say so
//! and are done.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, AsArray, Int64Array};
use arrow::datatypes::Int64Type;
use diligence_base::function_limits::FunctionLimits;
use diligence_base::seams::{SystemClock, ThreadSpawn};
use diligence_base::{Error, Result};

use crate::{Answer, Caller, CodeSpec, Kind, Pool, PoolOptions};

fn pool() -> Option<Arc<Pool>> {
    let mut found = Command::new("python3");
    let found = found.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !found.is_ok_and(|status| status.success()) {
        eprintln!("not tested: there is no python3 here");
        return None;
    }
    Some(Pool::new(PoolOptions::default(), Arc::new(SystemClock::default()), Arc::new(ThreadSpawn)))
}

/// A caller who may have no more than this.
struct Limited(FunctionLimits);

impl Caller for Limited {
    fn is_stopped(&self) -> bool {
        false
    }

    fn printed(&self, _text: &str) {}

    fn limits(&self) -> FunctionLimits {
        self.0
    }
}

const FREE: FunctionLimits =
    FunctionLimits { time: None, memory_bytes: None, fuel: None, has_no_files: false, has_no_network: false };

/// The value of a function of one number under limits of its own, for 7.
fn one(pool: &Pool, source: &str, limits: FunctionLimits, caller: &dyn Caller) -> Result<i64, Error> {
    let parameters = vec![("x".to_owned(), Kind::BigInt)];
    let code = pool.code(CodeSpec { parameters, returns: Kind::BigInt, limits, ..CodeSpec::of_text(source) });
    let column: ArrayRef = Arc::new(Int64Array::from(vec![7]));
    match pool.call(&code, &[column], 1, caller)?.as_slice() {
        [Answer::Values(values)] => Ok(values.as_primitive::<Int64Type>().value(0)),
        other => panic!("{other:?}"),
    }
}

const HOARD: &str = "a = []\nfor _ in range(100): a.append(bytes(1 << 20))\nreturn len(a)";

#[test]
fn memory_of_a_function_s_own_is_what_a_call_takes() {
    let Some(pool) = pool() else { return };
    let small = FunctionLimits { memory_bytes: Some(32 << 20), ..FREE };
    let large = FunctionLimits { memory_bytes: Some(256 << 20), ..FREE };
    let error = one(&pool, HOARD, small, &Limited(FREE)).unwrap_err();
    assert_eq!(error.code(), Some("53200"), "{error}");
    assert!(error.hint().unwrap().contains("ALTER FUNCTION f SET function_memory"), "{error}");
    for limits in [large, FREE] {
        assert_eq!(one(&pool, HOARD, limits, &Limited(FREE)).unwrap(), 100);
    }
    // What other functions have left in the process does not count.
    let keeper = "GD['kept'] = bytes(100 << 20)\nreturn 1";
    assert_eq!(one(&pool, keeper, FREE, &Limited(FREE)).unwrap(), 1);
    assert_eq!(one(&pool, "return len(bytes(8 << 20))", small, &Limited(FREE)).unwrap(), 8 << 20);
    // The limit is gone when the call is over.
    assert_eq!(one(&pool, HOARD, FREE, &Limited(FREE)).unwrap(), 100);
}

#[test]
fn a_caller_may_have_less_than_others() {
    let Some(pool) = pool() else { return };
    let limits = FunctionLimits { time: Some(Duration::from_millis(200)), memory_bytes: Some(32 << 20), ..FREE };
    let error = one(&pool, "while True: pass", FREE, &Limited(limits)).unwrap_err();
    assert_eq!(error.code(), Some("57014"), "{error}");
    assert!(error.hint().unwrap().contains("ALTER ROLE"), "{error}");
    let error = one(&pool, HOARD, FREE, &Limited(limits)).unwrap_err();
    assert_eq!(error.code(), Some("53200"), "{error}");
    assert!(error.hint().unwrap().contains("ALTER ROLE"), "{error}");
    assert_eq!(one(&pool, HOARD, FREE, &Limited(FREE)).unwrap(), 100);
    // The least of both holds, whoever it is from.
    let own = FunctionLimits { memory_bytes: Some(16 << 20), ..FREE };
    let error = one(&pool, HOARD, own, &Limited(limits)).unwrap_err();
    assert!(error.hint().unwrap().contains("ALTER FUNCTION f"), "{error}");
}

/// Whether the system lets processes keep functions from files and the network.
fn is_possible(pool: &Pool, limits: FunctionLimits) -> bool {
    match one(pool, "return x", limits, &Limited(FREE)) {
        Ok(value) => value == 7,
        Err(error) => {
            let said = error.detail().unwrap_or_default();
            assert!(said.contains("function_files = off") || said.contains("function_network = off"), "{error:?}");
            eprintln!("not tested: {said}");
            false
        }
    }
}

#[test]
fn functions_are_kept_from_files() {
    let Some(pool) = pool() else { return };
    let kept = FunctionLimits { has_no_files: true, ..FREE };
    if !is_possible(&pool, kept) {
        return;
    }
    let path = std::env::temp_dir().join(format!("diligence-kept-{}", std::process::id()));
    std::fs::write(&path, "secret").unwrap();
    let shown = path.display();
    let read = format!("return len(open('{shown}').read())");
    let write = format!("return open('{shown}', 'w').write('x')");
    let started =
        format!("import subprocess\nreturn subprocess.run(['cat', '{shown}'], capture_output=True).returncode");
    let engine = format!("return len(open('/proc/{}/environ', 'rb').read())", std::process::id());
    assert_eq!(one(&pool, &read, FREE, &Limited(FREE)).unwrap(), 6);
    for source in [&read, &write, &engine] {
        let error = one(&pool, source, kept, &Limited(FREE)).unwrap_err();
        assert_eq!(error.code(), Some("38000"), "{source}: {error}");
        assert!(error.message().contains("PermissionError"), "{source}: {error}");
        assert!(error.hint().unwrap().ends_with("keep the function from: files"), "{error:?}");
        // So is whoever may have less than others.
        assert_eq!(one(&pool, source, FREE, &Limited(kept)).unwrap_err().message(), error.message());
    }
    assert_ne!(one(&pool, &started, kept, &Limited(FREE)).unwrap(), 0, "what it starts is kept from them, too");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "secret");
    let imports = "import decimal, json, subprocess, datetime\nreturn len(json.dumps([x]))";
    assert_eq!(one(&pool, imports, kept, &Limited(FREE)).unwrap(), 3, "libraries are there");
    let names = pool.processes().iter().map(|process| process.kept_from.name()).collect::<Vec<_>>();
    assert!(names.contains(&"") && names.contains(&"files"), "{names:?}");
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn functions_are_kept_from_the_network() {
    let Some(pool) = pool() else { return };
    let kept = FunctionLimits { has_no_network: true, ..FREE };
    if !is_possible(&pool, kept) {
        return;
    }
    for family in ["AF_INET", "AF_INET6", "AF_UNIX"] {
        let connect = format!("import socket\nsocket.socket(socket.{family}).close()\nreturn x");
        if family != "AF_INET6" {
            assert_eq!(one(&pool, &connect, FREE, &Limited(FREE)).unwrap(), 7);
        }
        let error = one(&pool, &connect, kept, &Limited(FREE)).unwrap_err();
        assert!(error.message().contains("PermissionError"), "{family}: {error}");
        assert!(error.hint().unwrap().ends_with("keep the function from: network"), "{error:?}");
    }
    let pair = "import socket\none, other = socket.socketpair()\none.send(b'abc')\nreturn len(other.recv(9))";
    assert_eq!(one(&pool, pair, kept, &Limited(FREE)).unwrap(), 3, "pairs are within the process");
    // For all: processes that were started before are not used again.
    pool.set_options(|options| (options.files, options.network) = (false, false));
    let both = FunctionLimits { has_no_files: true, has_no_network: true, ..FREE };
    if !is_possible(&pool, both) {
        return;
    }
    let error = one(&pool, "import socket\nsocket.socket()", FREE, &Limited(FREE)).unwrap_err();
    assert!(error.hint().unwrap().ends_with("keep the function from: files, network"), "{error:?}");
    let numbers = pool.processes().iter().map(|process| process.number).collect::<Vec<_>>();
    let mut different = numbers.clone();
    different.dedup();
    assert_eq!(numbers, different, "numbers tell processes apart, whatever they keep functions from");
}
