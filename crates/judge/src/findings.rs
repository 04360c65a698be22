//! What a run has found: counts, and the differences in groups, so that one fault is one line.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use diligence_base::Result;

use crate::differences::MeantDifference;
use crate::order::RowOrder;
use crate::shrink::{is_query, shrink, skeleton};
use crate::sides::{JudgedErrors, Sides};
use crate::verdict::{Difference, DifferenceKind, Verdict};

/// Statements of a group that are shrunk; the smallest one is shown.
const SHRUNK_OF_GROUP_MAX: usize = 1;

/// Statements with other rows that are shrunk in a run: only then it is known which of them are alike.
const SHRUNK_ROWS_MAX: usize = 300;

/// Statements that are tried to shrink one.
const TRIES_MAX: usize = 2_000;

/// How long one statement is shrunk: a long one may take a server a second each time.
const SHRINK_TIME_MAX: Duration = Duration::from_secs(5);

/// Statements that are tried to shrink one that ends the server.
const TRIES_MAX_LOST: usize = 100;

/// What a run has found.
pub struct Findings {
    meant: Vec<MeantDifference>,
    errors: JudgedErrors,
    agree: usize,
    both_refuse: usize,
    same_code: usize,
    not_judged: usize,
    shrunk_rows: usize,
    counts: BTreeMap<DifferenceKind, usize>,
    meant_counts: BTreeMap<String, usize>,
    groups: BTreeMap<(DifferenceKind, String), Group>,
}

/// Differences of one fault.
struct Group {
    count: usize,
    place: String,
    statement: String,
    difference: Difference,
}

impl Findings {
    /// Nothing yet.
    pub fn new(meant: Vec<MeantDifference>, errors: JudgedErrors) -> Self {
        Self {
            meant,
            errors,
            agree: 0,
            both_refuse: 0,
            same_code: 0,
            not_judged: 0,
            shrunk_rows: 0,
            counts: BTreeMap::new(),
            meant_counts: BTreeMap::new(),
            groups: BTreeMap::new(),
        }
    }

    /// Judges a query that was found at a place.
    ///
    /// Fails with kind `Resource` if a server is lost and does not come back.
    pub fn judge(&mut self, sides: &mut Sides, query: &str, order: &RowOrder, place: &str) -> Result<()> {
        let verdict = sides.judge(query, order, self.errors)?;
        self.add(sides, verdict, query, place, is_query(query))
    }

    /// Runs a statement that makes something on both sides.
    ///
    /// Fails with kind `Resource` if a server is lost and does not come back.
    pub fn prepare(&mut self, sides: &mut Sides, statement: &str, place: &str) -> Result<bool> {
        let verdict = sides.prepare(statement)?;
        let works = matches!(verdict, Verdict::Agree);
        self.add(sides, verdict, statement, place, false)?;
        Ok(works)
    }

    /// Counts a statement that is not asked.
    pub fn leave_out(&mut self) {
        self.not_judged += 1;
    }

    fn add(
        &mut self,
        sides: &mut Sides,
        verdict: Verdict,
        statement: &str,
        place: &str,
        may_shrink: bool,
    ) -> Result<()> {
        let difference = match verdict {
            Verdict::Agree => {
                self.agree += 1;
                return Ok(());
            }
            Verdict::BothRefuse { same_code } => {
                self.both_refuse += 1;
                self.same_code += usize::from(same_code);
                return Ok(());
            }
            Verdict::NotJudged => {
                self.not_judged += 1;
                return Ok(());
            }
            Verdict::Differ(difference) => difference,
        };
        if self.is_meant(statement, &difference) {
            return Ok(());
        }
        let (kind, detail) = (difference.kind, difference.detail.clone());
        let known = self.groups.get(&(kind, detail.clone())).map_or(0, |group| group.count);
        let tries_max = match kind {
            _ if !may_shrink => 0,
            DifferenceKind::Rows if self.shrunk_rows < SHRUNK_ROWS_MAX => TRIES_MAX,
            DifferenceKind::Rows | DifferenceKind::Late => 0,
            DifferenceKind::Lost if known == 0 => TRIES_MAX_LOST,
            DifferenceKind::Lost => 0,
            _ if known < SHRUNK_OF_GROUP_MAX => TRIES_MAX,
            _ => 0,
        };
        let (statement, difference) = match tries_max {
            0 => (statement.to_owned(), difference),
            tries_max => self.smallest(sides, statement, difference, tries_max)?,
        };
        if tries_max > 0 && self.is_meant(&statement, &difference) {
            return Ok(());
        }
        let detail = match kind {
            DifferenceKind::Rows if tries_max > 0 => skeleton(&statement),
            _ => detail,
        };
        *self.counts.entry(kind).or_default() += 1;
        let group = self.groups.entry((kind, detail)).or_insert_with(|| Group {
            count: 0,
            place: place.to_owned(),
            statement: statement.clone(),
            difference: difference.clone(),
        });
        group.count += 1;
        if statement.len() < group.statement.len() {
            (group.place, group.statement, group.difference) = (place.to_owned(), statement, difference);
        }
        Ok(())
    }

    /// Whether the list has it; if so, it is counted.
    fn is_meant(&mut self, statement: &str, difference: &Difference) -> bool {
        let meant = self.meant.iter().find(|meant| meant.is_shown_by(statement, difference));
        if let Some(meant) = meant {
            *self.meant_counts.entry(meant.name.clone()).or_default() += 1;
        }
        meant.is_some()
    }

    /// The smallest statement that shows the difference, and what it shows.
    fn smallest(
        &mut self,
        sides: &mut Sides,
        statement: &str,
        difference: Difference,
        tries_max: usize,
    ) -> Result<(String, Difference)> {
        self.shrunk_rows += usize::from(difference.kind == DifferenceKind::Rows);
        let (mut last, mut failed) = (difference.clone(), None);
        let end = Instant::now() + SHRINK_TIME_MAX;
        let smallest = shrink(statement, tries_max, |candidate| {
            if Instant::now() > end {
                return false;
            }
            // What PostgreSQL refuses for its text must not count while it is asked to be answered.
            let errors = if difference.kind == DifferenceKind::Accepted { self.errors } else { JudgedErrors::OfValues };
            match sides.judge(candidate, &RowOrder::of(candidate), errors) {
                Ok(Verdict::Differ(found)) if found.kind == difference.kind && found.detail == difference.detail => {
                    last = found;
                    true
                }
                Ok(_) => false,
                Err(error) => {
                    failed = Some(error);
                    false
                }
            }
        });
        failed.map_or(Ok((smallest, last)), Err)
    }

    /// Whether of a thousand statements at most so many differ in a way that is not in the list. One that ends the
    /// server is one too many.
    pub fn are_within(&self, differ_max_per_thousand: usize) -> bool {
        let is_lost = self.counts.contains_key(&DifferenceKind::Lost);
        !is_lost && self.differing() * 1000 <= self.judged() * differ_max_per_thousand
    }

    fn differing(&self) -> usize {
        self.counts.values().sum()
    }

    fn judged(&self) -> usize {
        let meant = self.meant_counts.values().sum::<usize>();
        self.agree + self.both_refuse + self.differing() + meant
    }

    /// The report: the groups, the largest of each kind first, at most so many of a kind, and the counts as the last
    /// line.
    pub fn report(&self, title: &str, groups_max: usize) -> String {
        let mut text = String::new();
        let mut groups: Vec<_> = self.groups.iter().collect();
        groups.sort_by_key(|((kind, _), group)| (*kind, std::cmp::Reverse(group.count)));
        let mut of_kind = (None, 0);
        for ((kind, detail), group) in &groups {
            of_kind = if of_kind.0 == Some(*kind) { (Some(*kind), of_kind.1 + 1) } else { (Some(*kind), 1) };
            if of_kind.1 > groups_max {
                continue;
            }
            let Group { count, place, statement, difference } = group;
            // Writing to a text cannot fail.
            let _ = writeln!(
                text,
                "{kind} × {count}: {detail}\n    {statement}\n    PostgreSQL: {}\n    Diligence:  {}\n    {place}",
                difference.postgres, difference.ours
            );
        }
        for (name, count) in &self.meant_counts {
            let reason = self.meant.iter().find(|meant| meant.name == *name).map_or("", |meant| meant.reason.as_str());
            let _ = writeln!(text, "meant × {count}: {name} ({reason})");
        }
        let kinds = self.counts.iter().map(|(kind, count)| format!("{kind} {count}"));
        let kinds = kinds.collect::<Vec<_>>().join(", ");
        let meant: usize = self.meant_counts.values().sum();
        let (differ, judged) = (self.differing(), self.judged());
        let _ = writeln!(
            text,
            "{title}: {judged} judged, {} not; {} agree, {} refused by both ({} with the same SQLSTATE), {meant} differ as \
             meant, {differ} differ in {} groups{}{kinds}",
            self.not_judged,
            self.agree,
            self.both_refuse,
            self.same_code,
            groups.len(),
            if kinds.is_empty() { "" } else { ": " },
        );
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_has_the_counts() {
        let mut findings = Findings::new(Vec::new(), JudgedErrors::All);
        findings.leave_out();
        findings.agree = 3;
        let group = |count| Group {
            count,
            place: "seed 1".to_owned(),
            statement: "SELECT 1".to_owned(),
            difference: Difference {
                kind: DifferenceKind::Rows,
                detail: String::new(),
                postgres: "(1)".to_owned(),
                ours: "(2)".to_owned(),
            },
        };
        findings.groups.insert((DifferenceKind::Rows, "a".to_owned()), group(1));
        findings.groups.insert((DifferenceKind::Rows, "b".to_owned()), group(2));
        findings.counts.insert(DifferenceKind::Rows, 3);
        assert_eq!([0, 499, 500].map(|of_thousand| findings.are_within(of_thousand)), [false, false, true]);
        let report = findings.report("test", 1);
        assert!(report.starts_with("rows × 2: b\n"), "{report}");
        assert!(!report.contains("rows × 1: a"));
        let last = report.lines().last().unwrap();
        assert_eq!(
            last,
            "test: 6 judged, 1 not; 3 agree, 0 refused by both (0 with the same SQLSTATE), 0 differ as meant, 3 differ in 2 groups: rows 3"
        );
        assert!(!findings.are_within(0));
    }
}
