//! Histories that have each anomaly, and some that have none.

use super::checker::{Anomaly, anomalies};
use super::history::{ListStep, TransactionRecord};

/// A transaction in each line: when it began and ended, then its steps. `0+1` appends 1 to list 0, `0=1,2` reads that
/// list. A line that begins with `-` was rolled back.
fn history(text: &str) -> Vec<TransactionRecord> {
    let record = |line: &str| {
        let mut words = line.trim_start_matches('-').split_whitespace();
        let (begun, ended) = words.next().and_then(|time| time.split_once("..")).expect(line);
        let step = |word: &str| match word.split_once('+') {
            Some((list, value)) => ListStep::Append(list.parse().unwrap(), value.parse().unwrap()),
            None => {
                let (list, values) = word.split_once('=').expect(word);
                let values = values.split(',').filter(|value| !value.is_empty());
                ListStep::Read(list.parse().unwrap(), values.map(|value| value.parse().unwrap()).collect())
            }
        };
        TransactionRecord {
            steps: words.map(step).collect(),
            is_committed: !line.starts_with('-'),
            lifetime: (begun.parse().unwrap(), ended.parse().unwrap()),
        }
    };
    text.split(';').map(|line| record(line.trim())).collect()
}

fn first_found(text: &str) -> Option<Anomaly> {
    anomalies(&history(text)).first().map(|(anomaly, _)| *anomaly)
}

#[test]
fn nothing_is_found_where_nothing_is() {
    for text in [
        "1..2 0= 0+1 0=1; 3..4 0=1 0+2 1+3 0=1,2; 5..6 0=1,2 1=3",
        // Side by side, and in one order.
        "1..9 0= 0+1; 2..8 1= 1+2; 20..21 0=1 1=2",
        "1..9 0+1; 2..8 0=; 3..7 0=1; 20..21 0=1",
        // What was rolled back is nowhere.
        "-1..9 0+1; 2..8 0= 0+2 0=2; 20..21 0=2",
        // Two values of one transaction, with its own reads between them.
        "1..9 0+1 0=1 0+2 0=1,2; 20..21 0=1,2",
    ] {
        assert_eq!(anomalies(&history(text)), [], "{text}");
    }
}

#[test]
fn each_anomaly_is_found() {
    for (anomaly, text) in [
        (Anomaly::AbortedRead, "-1..9 0+1; 2..8 0=1; 20..21 0="),
        (Anomaly::IntermediateRead, "1..9 0+1 0+2; 2..8 0=1; 20..21 0=1,2"),
        // Also below what the reader has appended itself.
        (Anomaly::IntermediateRead, "1..9 0+1 0+2; 2..8 0+3 0=1,3; 20..21 0=1,3,2"),
        // Each list has the value of another one at its end; the second was to come last in both.
        (Anomaly::WriteCycle, "1..9 0+1 1+2; 2..8 0+3 1+4; 20..21 0=1,3 1=4,2"),
        (Anomaly::WriteCycle, "1..2 0+1; 3..4 0+2; 20..21 0=2,1"),
        (Anomaly::InformationCycle, "1..9 0+1 1=2; 2..8 1+2 0=1; 20..21 0=1 1=2"),
        (Anomaly::InformationCycle, "1..9 0+1 1+2; 2..8 0=1 1+3; 20..21 0=1 1=3,2"),
        // A list of one moment, and one of a later one.
        (Anomaly::ReadSkew, "1..9 0= 1=2; 2..8 0+1 1+2; 20..21 0=1 1=2"),
        // A lost update.
        (Anomaly::ReadSkew, "1..9 0= 0+1; 2..8 0= 0+2; 20..21 0=1,2"),
        // What was there before the transaction began.
        (Anomaly::ReadSkew, "1..2 0+1; 3..4 0=; 20..21 0=1"),
        // Two see two others in different orders.
        (Anomaly::PartedReads, "1..9 0+1; 1..9 1+2; 1..9 0=1 1=; 1..9 0= 1=2; 20..21 0=1 1=2"),
        // Write skew.
        (Anomaly::AntiDependencyCycle, "1..9 0= 1= 0+1; 2..8 0= 1= 1+2; 20..21 0=1 1=2"),
        // One that only reads shows that two cannot follow one another.
        (Anomaly::AntiDependencyCycle, "1..9 0= 1= 0+1; 2..3 1+2; 4..5 0= 1=2; 20..21 0=1 1=2"),
    ] {
        assert_eq!(first_found(text), Some(anomaly), "{text}: {:?}", anomalies(&history(text)));
    }
}

#[test]
fn what_makes_no_sense_is_found() {
    for text in [
        // Lost.
        "1..2 0+1; 20..21 0=",
        // From nowhere; from another list; twice.
        "1..2 0=7; 20..21 0=7",
        "1..2 1+7; 3..4 0=7; 20..21 0=7 1=7",
        "1..2 0+7; 3..4 0=7,7; 20..21 0=7",
        "1..2 0+7; 3..4 0+7; 20..21 0=7",
        // No order of versions.
        "1..2 0+1; 3..4 0+2; 5..6 0=2; 20..21 0=1,2",
        // Own values that are not there, or not at the end.
        "1..9 0+1 0=; 20..21 0=1",
        "1..9 0+1 0=1,2; 2..3 0+2; 20..21 0=1,2",
    ] {
        assert_eq!(first_found(text), Some(Anomaly::Nonsense), "{text}");
    }
}

#[test]
fn each_level_allows_what_the_next_one_does_not() {
    use Anomaly::*;
    for (anomaly, levels) in [
        (Nonsense, 0),
        (AbortedRead, 0),
        (IntermediateRead, 0),
        (WriteCycle, 0),
        (InformationCycle, 0),
        (ReadSkew, 1),
        (PartedReads, 1),
        (AntiDependencyCycle, 2),
    ] {
        assert_eq!((0..3).filter(|level| anomaly.may_occur(*level)).count(), levels, "{anomaly:?}");
    }
}
