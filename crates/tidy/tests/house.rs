//! The repository is in order.

use diligence_tidy::{CHECKS, findings_of, house_of_this_crate};

#[test]
fn the_house_is_tidy() {
    let house = house_of_this_crate().expect("the repository can be read");
    let findings: Vec<_> = CHECKS.iter().flat_map(|check| findings_of(&house, check)).collect();
    let lines: String = findings.iter().map(|finding| format!("{finding}\n")).collect();
    assert!(findings.is_empty(), "{} things are not in order:\n{lines}", findings.len());
}
