//! Temp space from the command line: the smallest budget, and a process that is killed while it writes.

use std::fs;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

#[cfg(target_os = "linux")]
use diligence_allocator::RESIDENT_BASE_BYTES;

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

/// Each cluster that is read was written before; one that is freed or whose place another one takes is not read any
/// more.
#[test]
fn a_log_of_block_requests_is_whole_when_the_command_has_ended() {
    let home = tempfile::tempdir().unwrap();
    let sql = "SELECT max(r) FROM (SELECT row_number() OVER (ORDER BY -value) AS r FROM generate_series(1::BIGINT, 2000000) AS g(value))";
    let ran = run(home.path(), &["sql", "--memory", "16MiB", "--temp-cluster", "64KiB", "--temp-log", "log", sql], "");
    assert!(ran.code == Some(0) && ran.stdout.contains("2000000"), "{}{}", ran.stdout, ran.stderr);
    let log = fs::read_to_string(home.path().join("log")).unwrap();
    assert!(log.starts_with("block 65536\n") && log.ends_with('\n'));
    let mut live = std::collections::HashSet::new();
    let (mut read, mut written) = (0, 0);
    for line in log.lines().skip(1).filter(|line| !line.starts_with('#')) {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["w", file, cluster] | ["w", file, cluster, "over", _, _] => {
                written += 1;
                assert!(live.insert((file.to_owned(), cluster.to_owned())), "written twice: {line}");
            }
            ["r", file, cluster] => {
                read += 1;
                assert!(live.contains(&(file.to_owned(), cluster.to_owned())), "not there: {line}");
            }
            ["f", file, cluster] => assert!(live.remove(&(file.to_owned(), cluster.to_owned())), "not there: {line}"),
            _ => panic!("no request: {line}"),
        }
    }
    assert!(written > 100 && read >= written && live.is_empty(), "{written} written, {read} read, {} left", live.len());
    let ran = run(home.path(), &["sql", "--temp-log", "nowhere/log", "SELECT 1"], "");
    assert!(ran.code == Some(2) && ran.stderr.contains("nowhere/log"), "{}", ran.stderr);
}

#[test]
fn who_reads_and_writes_temp_space_is_chosen_and_shown() {
    let home = tempfile::tempdir().unwrap();
    let sort = "SELECT max(r) FROM (SELECT row_number() OVER (ORDER BY -value) AS r FROM generate_series(1::BIGINT, 1000000) AS g(value))";
    let sql = format!("{sort}; SELECT io FROM system.temp");
    let shown =
        |io: &str| run(home.path(), &["sql", "--memory", "16MiB", "--temp-io", io, "--format", "csv", &sql], "");
    let threads = shown("threads");
    assert!(threads.code == Some(0) && threads.stdout.ends_with("threads\n"), "{}{}", threads.stdout, threads.stderr);
    // What the machine allows: containers often refuse it.
    let auto = shown("auto");
    assert!(auto.code == Some(0) && auto.stdout.contains("1000000"), "{}{}", auto.stdout, auto.stderr);
    let ring = shown("io-uring");
    match auto.stdout.contains("threads") {
        true => assert!(ring.code == Some(2) && ring.stderr.contains("refuses an io_uring"), "{}", ring.stderr),
        false => assert!(ring.code == Some(0) && ring.stdout.ends_with("io_uring\n"), "{}{}", ring.stdout, ring.stderr),
    }
    assert_eq!(shown("none").code, Some(2));
}

/// Bytes that a process has written, to files that have a name or none.
#[cfg(target_os = "linux")]
fn written_bytes(child: &Child) -> u64 {
    let io = fs::read_to_string(format!("/proc/{}/io", child.id())).unwrap_or_default();
    let written = io.lines().find_map(|line| line.strip_prefix("wchar: "));
    written.and_then(|bytes| bytes.parse().ok()).unwrap_or(0)
}

/// The most that a process has held so far, as the system counts it; 0 once it has ended.
#[cfg(target_os = "linux")]
fn peak_resident_bytes(child: &Child) -> usize {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.and_then(|text| text.split_whitespace().next()?.parse::<usize>().ok()).unwrap_or(0) * 1024
}

/// Parquet is read and written: pages, decoded columns, rows that wait to be encoded and what was freed of all that
/// count as well.
#[cfg(target_os = "linux")]
#[test]
fn the_process_holds_no_more_than_it_may() {
    let home = tempfile::tempdir().unwrap();
    let text = "md5(CAST(value AS VARCHAR)) || md5(CAST(-value AS VARCHAR)) || md5(CAST(value + 7 AS VARCHAR))";
    let rows =
        format!("COPY (SELECT {text} AS text FROM generate_series(1::BIGINT, 1500000) AS g(value)) TO 'rows.parquet'");
    let ran = run(home.path(), &["sql", &rows], "");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    for sql in [
        "COPY (SELECT * FROM 'rows.parquet' ORDER BY text) TO 'sorted.parquet'",
        "SELECT count(*), max(b.text) FROM 'rows.parquet' a JOIN 'rows.parquet' b ON a.text = b.text",
    ] {
        let mut child = diligence(home.path())
            .args(["sql", "--memory", "64MiB", "--workers", "2", "--temp-dir", "temp", sql])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut peak = 0;
        let code = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status.code();
            }
            peak = peak.max(peak_resident_bytes(&child));
            std::thread::sleep(Duration::from_millis(5));
        };
        assert_eq!(code, Some(0), "{sql}");
        // Where other tests keep the machine busy, memory goes back a little later than it should.
        let allowed = (64 << 20) / 10 * 11 + RESIDENT_BASE_BYTES + (16 << 20);
        assert!(peak > 64 << 20 && peak <= allowed, "{sql} had {peak} bytes of {allowed}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_process_killed_while_it_spills_leaves_nothing_to_the_next() {
    let home = tempfile::tempdir().unwrap();
    let temp = home.path().join("temp");
    let arguments = ["sql", "--memory", "16MiB", "--temp-dir", "temp"];
    let sort = |rows: usize| {
        format!(
            "SELECT max(r) FROM (SELECT row_number() OVER (ORDER BY -value) AS r FROM generate_series(1::BIGINT, {rows}) AS g(value))"
        )
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
