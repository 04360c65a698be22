//! `diligence generate tpch`.

use crate::support::run;

#[test]
fn the_tables_are_made_once_and_can_be_queried() {
    let home = tempfile::tempdir().unwrap();
    let make = ["generate", "tpch", "--sf", "0.01", "--out", "data/tpch"];
    let ran = run(home.path(), &make, "");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("data/tpch/lineitem.parquet: 60175 rows"), "{}", ran.stderr);
    let again = run(home.path(), &make, "");
    assert_eq!(again.stderr.matches(": kept").count(), 8, "{}", again.stderr);

    let query = "SELECT count(*) AS lines, max(l_shipdate) AS last FROM lineitem";
    let ran = run(home.path(), &["sql", "--data", "data/tpch", "--format", "csv", query], "");
    assert_eq!(ran.stdout, "lines,last\n60175,1998-11-29\n", "{}", ran.stderr);
}

#[test]
fn another_scale_factor_does_not_replace_files_unasked() {
    let home = tempfile::tempdir().unwrap();
    let make = |factor: &str, more: &[&str]| {
        run(home.path(), &[&["generate", "tpch", "--sf", factor, "--out", "t"], more].concat(), "")
    };
    assert_eq!(make("0.001", &[]).code, Some(0));
    let refused = make("0.002", &[]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("--force"), "{}", refused.stderr);
    assert_eq!(make("0.002", &["--force"]).code, Some(0));
    assert_eq!(make("-1", &[]).code, Some(2));
}
