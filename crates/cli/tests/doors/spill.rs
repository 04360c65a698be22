//! Temp space from the command line: the smallest budget, and a process that is killed while it writes.

use std::fs;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::support::{diligence, run};

/// Longer than a start and some megabytes take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Bytes in temp space that are some spilling.
const SPILLED_BYTES: u64 = 8 << 20;

#[test]
fn the_smallest_budget_is_said_where_less_is_asked_for() {
    let home = tempfile::tempdir().unwrap();
    let ran = run(home.path(), &["sql", "--memory", "15MiB", "SELECT 1"], "");
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(ran.stderr.contains("a memory budget of 15.0 MiB is too small: the minimum is 16.0 MiB"), "{}", ran.stderr);
    for setting in ["memory", "query_memory"] {
        let sql = format!("SET {setting} = '100KB'");
        let ran = run(home.path(), &["sql", &sql], "");
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        assert!(ran.stderr.contains("100.0 KiB is too small: the minimum is 16.0 MiB"), "{}", ran.stderr);
        let ran = run(home.path(), &["sql", &format!("SET {setting} = '16MB'; SHOW {setting}")], "");
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert!(ran.stdout.contains("16.0 MiB"), "{}", ran.stdout);
    }
    let ran = run(home.path(), &["sql", "--memory", "16MiB", "SELECT 40 + 2"], "");
    assert!(ran.code == Some(0) && ran.stdout.contains("42"), "{}", ran.stderr);
}

/// Bytes that a process has written, to files that have a name or none.
#[cfg(target_os = "linux")]
fn written_bytes(child: &Child) -> u64 {
    let io = fs::read_to_string(format!("/proc/{}/io", child.id())).unwrap_or_default();
    let written = io.lines().find_map(|line| line.strip_prefix("wchar: "));
    written.and_then(|bytes| bytes.parse().ok()).unwrap_or(0)
}

#[cfg(target_os = "linux")]
#[test]
fn a_process_killed_while_it_spills_leaves_nothing_to_the_next() {
    let home = tempfile::tempdir().unwrap();
    let temp = home.path().join("temp");
    let arguments = ["sql", "--memory", "16MiB", "--temp-dir", "temp"];
    let sort = |rows: usize| {
        format!("SELECT max(r) FROM (SELECT row_number() OVER (ORDER BY -value) AS r FROM generate_series(1, {rows}))")
    };
    for _ in 0..3 {
        // Far more than is ever sorted.
        let mut child = diligence(home.path())
            .args(arguments)
            .arg(sort(500_000_000))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let end = Instant::now() + PATIENCE;
        while written_bytes(&child) < SPILLED_BYTES {
            assert!(Instant::now() < end, "{} bytes are written after {PATIENCE:?}", written_bytes(&child));
            assert_eq!(child.try_wait().unwrap(), None, "it ended before it was killed");
            std::thread::sleep(Duration::from_millis(5));
        }
        // SIGKILL: nobody can tidy up.
        child.kill().unwrap();
        child.wait().unwrap();
    }
    // Where a file system cannot make a file without a name, or remove the name, a file like this stays.
    fs::write(temp.join("diligence-temp-4242-0"), vec![0; 1 << 20]).unwrap();
    fs::write(temp.join("letter.txt"), "keep me").unwrap();
    let ran = run(home.path(), &[&arguments[..], &[sort(2_000_000).as_str()]].concat(), "");
    assert!(ran.code == Some(0) && ran.stdout.contains("2000000"), "{}{}", ran.stdout, ran.stderr);
    let names: Vec<_> = fs::read_dir(&temp).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["letter.txt"]);
}
