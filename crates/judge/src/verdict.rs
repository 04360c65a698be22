//! Two answers to one statement, compared: PostgreSQL's and ours.
//!
//! Values are compared as text, numbers by value, floats with a tolerance. Rows are compared in order as far as the
//! statement decides their order, and as a multiset beyond that. Names and types of columns must agree as well. If
//! PostgreSQL refuses a statement, so must we; whether with the same SQLSTATE is counted apart.

use std::fmt;

use diligence_client::{Column, Failure};

use crate::decimal::Decimal;
use crate::order::RowOrder;
use crate::session::{Reply, Value};

/// The relative tolerance of floats of 8 bytes: the order of additions is not decided.
const FLOAT8_TOLERANCE: f64 = 1e-9;

/// The relative tolerance of floats of 4 bytes.
const FLOAT4_TOLERANCE: f64 = 1e-5;

/// Rows up to which a multiset is compared pair by pair, if comparing the sorted rows fails.
const PAIRED_ROWS_MAX: usize = 500;

/// Rows that the text of an answer shows.
const SHOWN_ROWS_MAX: usize = 6;

/// Characters of a value that the text of an answer shows.
const SHOWN_CHARACTERS_MAX: usize = 120;

/// What comes of a statement.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// Both answer alike.
    Agree,
    /// Both refuse it.
    BothRefuse {
        /// Whether with the same SQLSTATE.
        same_code: bool,
    },
    /// PostgreSQL gives no answer to compare with.
    NotJudged,
    /// The answers differ.
    Differ(Difference),
}

/// How two answers differ.
#[derive(Clone, Debug)]
pub struct Difference {
    /// In what.
    pub kind: DifferenceKind,
    /// What tells this difference from others of its kind; empty where only the statement does.
    pub detail: String,
    /// PostgreSQL's answer, shortened.
    pub postgres: String,
    /// Our answer, shortened.
    pub ours: String,
}

/// In what two answers differ; the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DifferenceKind {
    /// Our server is gone.
    Lost,
    /// Our server does not answer in time.
    Late,
    /// We fail with an internal error where PostgreSQL refuses.
    Internal,
    /// The rows differ.
    Rows,
    /// We answer what PostgreSQL refuses.
    Accepted,
    /// We refuse what PostgreSQL answers.
    Refused,
    /// The types of columns differ.
    Types,
    /// The names of columns differ.
    Names,
}

impl fmt::Display for DifferenceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DifferenceKind::Lost => "lost",
            DifferenceKind::Late => "late",
            DifferenceKind::Internal => "internal",
            DifferenceKind::Rows => "rows",
            DifferenceKind::Accepted => "accepted",
            DifferenceKind::Refused => "refused",
            DifferenceKind::Types => "types",
            DifferenceKind::Names => "names",
        })
    }
}

/// Whether PostgreSQL refuses a statement for the values that it meets, not for what it says: data exceptions,
/// cardinality and constraint violations.
pub fn is_for_values(failure: &Failure) -> bool {
    ["21", "22", "23"].iter().any(|class| failure.code.starts_with(class))
}

/// Compares PostgreSQL's answer with ours.
pub fn compare(postgres: &Reply, ours: &Reply, order: &RowOrder) -> Verdict {
    let differ = |kind, detail: String| {
        Verdict::Differ(Difference { kind, detail, postgres: shown(postgres), ours: shown(ours) })
    };
    match (postgres, ours) {
        (Reply::Late | Reply::Lost(_), _) => Verdict::NotJudged,
        // PostgreSQL's own limit of time or memory says nothing about the statement.
        (Reply::Refused(failure), _) if ["53", "57"].iter().any(|class| failure.code.starts_with(class)) => {
            Verdict::NotJudged
        }
        (_, Reply::Lost(_)) => differ(DifferenceKind::Lost, String::new()),
        (_, Reply::Late) => differ(DifferenceKind::Late, String::new()),
        (Reply::Refused(_), Reply::Refused(failure)) if failure.code.starts_with("XX") => {
            differ(DifferenceKind::Internal, signature(failure))
        }
        (Reply::Refused(theirs), Reply::Refused(ours)) => Verdict::BothRefuse { same_code: theirs.code == ours.code },
        (Reply::Refused(failure), Reply::Rows { .. }) => differ(DifferenceKind::Accepted, signature(failure)),
        (Reply::Rows { .. }, Reply::Refused(failure)) => differ(DifferenceKind::Refused, signature(failure)),
        (Reply::Rows { columns: their_columns, rows: theirs }, Reply::Rows { columns, rows }) => {
            if columns.len() != their_columns.len() || !same_rows(their_columns, theirs, rows, order) {
                return differ(DifferenceKind::Rows, String::new());
            }
            let pairs = || their_columns.iter().zip(columns);
            if let Some((theirs, ours)) = pairs().find(|(theirs, ours)| theirs.oid != ours.oid) {
                return differ(DifferenceKind::Types, format!("{} is {}", type_name(theirs.oid), type_name(ours.oid)));
            }
            match pairs().find(|(theirs, ours)| theirs.name != ours.name) {
                Some((theirs, _)) => differ(DifferenceKind::Names, theirs.name.clone()),
                None => Verdict::Agree,
            }
        }
    }
}

/// The SQLSTATE and the first line of the message, without what differs from statement to statement: numbers, and the
/// columns of relations whose names have numbers.
fn signature(failure: &Failure) -> String {
    let line = failure.message.lines().next().unwrap_or_default();
    let mut message = String::new();
    let mut letters = line.chars().take(SHOWN_CHARACTERS_MAX).peekable();
    while let Some(letter) = letters.next() {
        if !letter.is_ascii_digit() {
            message.push(letter);
            continue;
        }
        while letters.next_if(char::is_ascii_digit).is_some() {}
        message.push('#');
        if letters.next_if_eq(&'.').is_some() {
            while letters.next_if(|letter| letter.is_alphanumeric()).is_some() {}
            message.push_str(".#");
        }
    }
    format!("{} {message}", failure.code)
}

/// An answer as a short text: what lists of differences match, and what reports show.
fn shown(reply: &Reply) -> String {
    let (columns, rows) = match reply {
        Reply::Rows { columns, rows } => (columns, rows),
        Reply::Refused(failure) => return format!("ERROR {}: {}", failure.code, failure.message.replace('\n', " ")),
        Reply::Late => return "no answer in time".to_owned(),
        Reply::Lost(what) => return format!("connection lost: {what}"),
    };
    let heads = columns.iter().map(|column| format!("{} {}", column.name, type_name(column.oid)));
    let value = |value: &Value| match value {
        None => "NULL".to_owned(),
        Some(text) if text.chars().nth(SHOWN_CHARACTERS_MAX).is_some() => {
            format!("'{}…'", text.chars().take(SHOWN_CHARACTERS_MAX).collect::<String>())
        }
        Some(text) => format!("'{text}'"),
    };
    let rows_shown = rows.iter().take(SHOWN_ROWS_MAX);
    let rows_shown = rows_shown.map(|row| format!("({})", row.iter().map(value).collect::<Vec<_>>().join(", ")));
    let more = if rows.len() > SHOWN_ROWS_MAX { format!(" … {} rows", rows.len()) } else { String::new() };
    format!("[{}] {}{more}", heads.collect::<Vec<_>>().join(", "), rows_shown.collect::<Vec<_>>().join(" "))
}

/// PostgreSQL's name of a type.
fn type_name(oid: u32) -> String {
    let name = match oid {
        16 => "bool",
        17 => "bytea",
        19 => "name",
        20 => "int8",
        21 => "int2",
        23 => "int4",
        25 => "text",
        114 => "json",
        700 => "float4",
        701 => "float8",
        705 => "unknown",
        1000 => "bool[]",
        1001 => "bytea[]",
        1005 => "int2[]",
        1007 => "int4[]",
        1009 => "text[]",
        1015 => "varchar[]",
        1016 => "int8[]",
        1022 => "float8[]",
        1042 => "bpchar",
        1043 => "varchar",
        1082 => "date",
        1083 => "time",
        1114 => "timestamp",
        1115 => "timestamp[]",
        1182 => "date[]",
        1184 => "timestamptz",
        1186 => "interval",
        1231 => "numeric[]",
        1266 => "timetz",
        1700 => "numeric",
        2249 => "record",
        2950 => "uuid",
        3802 => "jsonb",
        other => return format!("type {other}"),
    };
    name.to_owned()
}

/// How values of a column are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Likeness {
    /// As texts.
    Text,
    /// As decimals.
    Number,
    /// As floats with a relative tolerance.
    Float(f64),
    /// As arrays, element by element.
    Array,
}

fn likeness(oid: u32) -> Likeness {
    match oid {
        20 | 21 | 23 | 26 | 1700 => Likeness::Number,
        701 => Likeness::Float(FLOAT8_TOLERANCE),
        700 => Likeness::Float(FLOAT4_TOLERANCE),
        1005 | 1007 | 1016 | 1021 | 1022 | 1231 => Likeness::Array,
        _ => Likeness::Text,
    }
}

impl Likeness {
    fn alike(self, left: &Value, right: &Value) -> bool {
        match (left, right) {
            (Some(left), Some(right)) => left == right || self.alike_texts(left, right),
            (left, right) => left == right,
        }
    }

    fn alike_texts(self, left: &str, right: &str) -> bool {
        match self {
            Likeness::Text => false,
            Likeness::Number => match (Decimal::parse(left), Decimal::parse(right)) {
                (Some(left), Some(right)) => left.is_like(&right),
                _ => false,
            },
            Likeness::Float(tolerance) => match (left.parse::<f64>(), right.parse::<f64>()) {
                (Ok(left), Ok(right)) if left.is_finite() && right.is_finite() => {
                    (left - right).abs() <= tolerance * left.abs().max(right.abs()).max(tolerance)
                }
                _ => false,
            },
            Likeness::Array => {
                let parts = |text: &str| text.split(['{', '}', ',']).map(str::to_owned).collect::<Vec<_>>();
                let alike = |(left, right): (&String, &String)| {
                    let float = Likeness::Float(FLOAT8_TOLERANCE);
                    left == right || Likeness::Number.alike_texts(left, right) || float.alike_texts(left, right)
                };
                let (left, right) = (parts(left), parts(right));
                left.len() == right.len() && left.iter().zip(&right).all(alike)
            }
        }
    }

    /// A text by which like values are mostly sorted to the same place.
    fn sort_text(self, value: &Value) -> String {
        match (self, value) {
            (_, None) => "NULL".to_owned(),
            (Likeness::Number | Likeness::Float(_), Some(text)) => match text.parse::<f64>() {
                // Adding zero makes the negative zero positive.
                Ok(number) => format!("{:.6e}", number + 0.0),
                Err(_) => text.clone(),
            },
            (_, Some(text)) => text.clone(),
        }
    }
}

fn same_rows(columns: &[Column], theirs: &[Vec<Value>], ours: &[Vec<Value>], order: &RowOrder) -> bool {
    if theirs.len() != ours.len() {
        return false;
    }
    let likenesses: Vec<_> = columns.iter().map(|column| likeness(column.oid)).collect();
    let alike = |left: &Vec<Value>, right: &Vec<Value>, columns: &[usize]| {
        left.len() == right.len()
            && columns.iter().all(|column| match (left.get(*column), right.get(*column), likenesses.get(*column)) {
                (Some(left), Some(right), Some(likeness)) => likeness.alike(left, right),
                _ => false,
            })
    };
    let all: Vec<_> = (0..columns.len()).collect();
    let names: Vec<_> = columns.iter().map(|column| column.name.as_str()).collect();
    let keys = order.positions(&names);
    if !theirs.iter().zip(ours).all(|(left, right)| alike(left, right, &keys)) {
        return false;
    }
    if *order == RowOrder::Total {
        return true;
    }
    let sorted = |rows: &[Vec<Value>]| {
        let mut rows: Vec<_> = rows
            .iter()
            .map(|row| {
                let texts = row.iter().zip(&likenesses).map(|(value, likeness)| likeness.sort_text(value));
                (texts.collect::<Vec<_>>(), row.clone())
            })
            .collect();
        rows.sort();
        rows
    };
    let (theirs, mut ours) = (sorted(theirs), sorted(ours));
    if theirs.iter().zip(&ours).all(|((_, left), (_, right))| alike(left, right, &all)) {
        return true;
    }
    // Sorting can separate numbers that are nearly the same.
    theirs.len() <= PAIRED_ROWS_MAX
        && theirs.iter().all(|(_, left)| {
            let found = ours.iter().position(|(_, right)| alike(left, right, &all));
            found.map(|at| ours.swap_remove(at)).is_some()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(oids: &[u32], rows: &[&[Option<&str>]]) -> Reply {
        let column = |(at, oid): (usize, &u32)| Column { name: format!("c{at}"), oid: *oid, modifier: -1 };
        let columns = oids.iter().enumerate().map(column).collect();
        let value = |value: &Option<&str>| value.map(str::to_owned);
        Reply::Rows { columns, rows: rows.iter().map(|row| row.iter().map(value).collect()).collect() }
    }

    fn refused(code: &str) -> Reply {
        Reply::Refused(Failure {
            code: code.to_owned(),
            message: "line 12 of 34\nmore".to_owned(),
            ..Failure::default()
        })
    }

    fn kind(verdict: &Verdict) -> Option<DifferenceKind> {
        match verdict {
            Verdict::Differ(difference) => Some(difference.kind),
            _ => None,
        }
    }

    #[test]
    fn rows_are_a_multiset_unless_their_order_is_decided() {
        let theirs = rows(&[23, 25], &[&[Some("1"), Some("a")], &[Some("1"), Some("b")], &[None, Some("c")]]);
        let ours = rows(&[23, 25], &[&[Some("1"), Some("b")], &[Some("1"), Some("a")], &[None, Some("c")]]);
        let by = |statement| compare(&theirs, &ours, &RowOrder::of(statement));
        assert!(matches!(by("SELECT 1"), Verdict::Agree));
        assert!(matches!(by("SELECT 1 ORDER BY 1"), Verdict::Agree));
        assert_eq!(kind(&by("SELECT 1 ORDER BY 1, 2")), Some(DifferenceKind::Rows));
        assert_eq!(kind(&compare(&theirs, &ours, &RowOrder::Total)), Some(DifferenceKind::Rows));
    }

    #[test]
    fn values_are_compared_as_their_type_says() {
        let alike = |oid, left, right| {
            matches!(compare(&rows(&[oid], &[&[left]]), &rows(&[oid], &[&[right]]), &RowOrder::Free), Verdict::Agree)
        };
        assert!(alike(1700, Some("1.50"), Some("1.5")) && !alike(25, Some("1.50"), Some("1.5")));
        assert!(alike(701, Some("0.3"), Some("0.30000000000000004")) && !alike(701, Some("0.3"), Some("0.31")));
        assert!(alike(1231, Some("{1.0,NULL}"), Some("{1,NULL}")) && !alike(1231, Some("{1,2}"), Some("{2,1}")));
        assert!(!alike(25, Some(""), None) && !alike(23, Some("0"), None) && alike(701, Some("NaN"), Some("NaN")));
    }

    #[test]
    fn types_names_and_errors_are_compared_too() {
        let one = rows(&[23], &[&[Some("1")]]);
        let long = rows(&[20], &[&[Some("1")]]);
        assert_eq!(kind(&compare(&one, &long, &RowOrder::Free)), Some(DifferenceKind::Types));
        assert_eq!(kind(&compare(&one, &refused("0A000"), &RowOrder::Free)), Some(DifferenceKind::Refused));
        assert_eq!(kind(&compare(&refused("22012"), &one, &RowOrder::Free)), Some(DifferenceKind::Accepted));
        assert_eq!(
            kind(&compare(&refused("22012"), &refused("XX000"), &RowOrder::Free)),
            Some(DifferenceKind::Internal)
        );
        assert_eq!(kind(&compare(&one, &Reply::Late, &RowOrder::Free)), Some(DifferenceKind::Late));
        let same = |ours| {
            matches!(compare(&refused("22012"), &ours, &RowOrder::Free), Verdict::BothRefuse { same_code: true })
        };
        assert!(same(refused("22012")) && !same(refused("22003")));
        assert!(matches!(compare(&Reply::Late, &one, &RowOrder::Free), Verdict::NotJudged));
        match compare(&one, &refused("42883"), &RowOrder::Free) {
            Verdict::Differ(difference) => assert_eq!(difference.detail, "42883 line # of #"),
            other => panic!("{other:?}"),
        }
    }
}
