//! Promises that hold on every machine: answers agree, memory is bounded, every query finishes. A benchmark that finds
//! one broken fails, after its tables are printed and its report is written. How fast something is depends on the
//! machine and is no promise.

use serde_json::Value;

/// What a report says was broken, for people; the first contestant is ours.
pub fn broken(report: &Value) -> Vec<String> {
    let list = |name: &str| report[name].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut broken = Vec::new();
    for wrong in list("disagreements") {
        broken.push(format!("answers differ: {}", text(wrong)));
    }
    for limited in list("limited").iter().filter(|limited| limited["is_allowed"] == false) {
        broken.push(format!("{} held more memory than it may", text(&limited["contestant"])));
    }
    for budget in list("budgets") {
        let megabytes = budget["budget_bytes"].as_u64().unwrap_or(0) / 1_000_000;
        if budget["resident_is_allowed"] == false {
            broken.push(format!("more memory was held than may be with a budget of {megabytes} MB"));
        }
        if let Some(failed) = budget["failed"][0].as_str() {
            broken.push(format!("failed with a budget of {megabytes} MB: {failed}"));
        }
    }
    broken
}

/// A string without its quotes.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_holds_is_not_broken() {
        let budget = json!({ "budget_bytes": 1, "resident_is_allowed": true, "failed": [null, "a rival's"] });
        let report = json!({ "disagreements": [], "limited": [{ "is_allowed": true }], "budgets": [budget] });
        assert_eq!(broken(&report), Vec::<String>::new());
        assert_eq!(broken(&json!({ "median_s": 1 })), Vec::<String>::new());
    }

    #[test]
    fn what_is_broken_is_said() {
        let budget = json!({ "budget_bytes": 64_000_000, "resident_is_allowed": false, "failed": ["no room"] });
        let limited = json!({ "contestant": "ours", "is_allowed": false });
        let report = json!({ "disagreements": ["Q3"], "limited": [limited], "budgets": [budget] });
        assert_eq!(
            broken(&report),
            [
                "answers differ: Q3",
                "ours held more memory than it may",
                "more memory was held than may be with a budget of 64 MB",
                "failed with a budget of 64 MB: no room",
            ]
        );
    }
}
