//! Looks for anomalies in a history of lists, as Elle does (Kingsbury and Alvaro, "Elle: Inferring Isolation Anomalies
//! from Experimental Observations", VLDB 2020).
//!
//! The longest list that was read of each key is the order of its versions. With it, each read tells which transactions
//! came before the reader and which after it, and a transaction that comes before itself is an anomaly.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::graph::{Cycle, Graph, Reason};
use super::history::{ListStep, TransactionRecord};

/// An anomaly that levels may have or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Anomaly {
    /// What no order of versions explains: values that nobody appended, or twice, or that were lost; reads without what
    /// their own transaction has appended; lists of which none is the beginning of the other.
    Nonsense,
    /// G1a: a value of a transaction that was rolled back.
    AbortedRead,
    /// G1b: a list without values that its writer appended before it was committed.
    IntermediateRead,
    /// G0: a cycle of writes.
    WriteCycle,
    /// G1c: a cycle of writes, and of reads of what was written.
    InformationCycle,
    /// G-single: a cycle in which one transaction does not see what comes before it.
    ReadSkew,
    /// A cycle with several of such, which do not follow one another.
    PartedReads,
    /// G2: any other cycle.
    AntiDependencyCycle,
}

impl Anomaly {
    /// Whether it may occur at a level, by its place.
    pub(super) fn may_occur(self, level: usize) -> bool {
        let first_without = match self {
            Self::AntiDependencyCycle => 2,
            Self::ReadSkew | Self::PartedReads => 1,
            _ => 0,
        };
        level < first_without
    }
}

/// What a history is, and what was found in it.
struct Checker<'a> {
    history: &'a [TransactionRecord],
    /// Who appended a value.
    writers: HashMap<i64, usize>,
    /// The values of each list in the order of its versions.
    versions: BTreeMap<usize, &'a [i64]>,
    found: Vec<(Anomaly, String)>,
}

/// The anomalies of a history whose last transaction has read all lists when the others had ended.
pub(super) fn anomalies(history: &[TransactionRecord]) -> Vec<(Anomaly, String)> {
    let mut checker = Checker { history, writers: HashMap::new(), versions: BTreeMap::new(), found: Vec::new() };
    checker.know_writers();
    checker.check_reads();
    checker.order_versions();
    checker.check_lost();
    if !checker.found.iter().any(|(anomaly, _)| *anomaly == Anomaly::Nonsense) {
        checker.check_cycles();
    }
    checker.found
}

impl<'a> Checker<'a> {
    fn find(&mut self, anomaly: Anomaly, what: String) {
        self.found.push((anomaly, what));
    }

    fn know_writers(&mut self) {
        for (number, record) in self.history.iter().enumerate() {
            for step in &record.steps {
                let ListStep::Append(_, value) = step else { continue };
                if self.writers.insert(*value, number).is_some() {
                    self.found.push((Anomaly::Nonsense, format!("{value} is appended twice")));
                }
            }
        }
    }

    /// Committed transactions with their numbers.
    fn committed(&self) -> impl Iterator<Item = (usize, &'a TransactionRecord)> + use<'a> {
        self.history.iter().enumerate().filter(|(_, record)| record.is_committed)
    }

    fn check_reads(&mut self) {
        for (reader, record) in self.committed() {
            for (place, step) in record.steps.iter().enumerate() {
                if let ListStep::Read(list, values) = step {
                    self.check_read(reader, *list, values, &record.steps[..place]);
                }
            }
        }
    }

    /// Looks at one read, before which its transaction has done other things.
    fn check_read(&mut self, reader: usize, list: usize, values: &[i64], before: &[ListStep]) {
        let history = self.history;
        let mut distinct = HashSet::new();
        for value in values {
            let what = format!("transaction {reader} reads {value} in list {list}");
            match self.writers.get(value).map(|writer| &history[*writer]) {
                _ if !distinct.insert(*value) => self.find(Anomaly::Nonsense, format!("{what} twice")),
                None => self.find(Anomaly::Nonsense, format!("{what}, which nobody has appended")),
                Some(writer) if !writer.appended(list).any(|own| own == *value) => {
                    self.find(Anomaly::Nonsense, format!("{what}, which was appended to another one"));
                }
                Some(writer) if !writer.is_committed => {
                    self.find(Anomaly::AbortedRead, format!("{what}, which was rolled back"));
                }
                Some(_) => {}
            }
        }
        let own = before.iter().filter_map(|step| match step {
            ListStep::Append(to, value) if *to == list => Some(*value),
            _ => None,
        });
        let own = own.collect::<Vec<_>>();
        if !values.ends_with(&own) {
            let what = format!("transaction {reader} reads {values:?} in list {list} and has appended {own:?}");
            self.find(Anomaly::Nonsense, what);
            return;
        }
        let Some(last) = values[..values.len() - own.len()].last() else { return };
        let Some(writer) = self.writers.get(last).map(|writer| &history[*writer]) else { return };
        if writer.is_committed && writer.appended(list).next_back() != Some(*last) {
            let what = format!("transaction {reader} reads {last} as the last value in list {list}");
            self.find(Anomaly::IntermediateRead, format!("{what}, which its writer has followed with others"));
        }
    }

    /// All lists that committed transactions have read.
    fn reads(&self) -> impl Iterator<Item = (usize, usize, &'a [i64])> + use<'a> {
        self.committed().flat_map(|(reader, record)| {
            record.steps.iter().filter_map(move |step| match step {
                ListStep::Read(list, values) => Some((reader, *list, values.as_slice())),
                ListStep::Append(..) => None,
            })
        })
    }

    fn order_versions(&mut self) {
        for (_, list, values) in self.reads() {
            let longest = self.versions.entry(list).or_default();
            if values.len() > longest.len() {
                *longest = values;
            }
        }
        for (reader, list, values) in self.reads() {
            let longest = self.versions[&list];
            if !longest.starts_with(values) {
                let what = format!("transaction {reader} reads {values:?} in list {list}, and another one {longest:?}");
                self.find(Anomaly::Nonsense, what);
            }
        }
    }

    fn check_lost(&mut self) {
        let kept = self.versions.values().flat_map(|values| values.iter().copied()).collect::<HashSet<_>>();
        for (writer, record) in self.committed() {
            for step in &record.steps {
                if let ListStep::Append(list, value) = step
                    && !kept.contains(value)
                {
                    let what = format!("transaction {writer} has appended {value} to list {list}, and it is lost");
                    self.find(Anomaly::Nonsense, what);
                }
            }
        }
    }

    fn check_cycles(&mut self) {
        let graph = self.graph();
        let is_written = |reason| matches!(reason, Reason::Writes | Reason::Time);
        let looks: [(Anomaly, Option<Cycle>); 5] = [
            (Anomaly::WriteCycle, graph.cycle(is_written)),
            (Anomaly::InformationCycle, graph.cycle(|reason| reason != Reason::Reads)),
            (Anomaly::ReadSkew, graph.cycle_of_one_read()),
            (Anomaly::PartedReads, graph.cycle_of_parted_reads()),
            (Anomaly::AntiDependencyCycle, graph.cycle(|_| true)),
        ];
        // A cycle of a kind is one of the later kinds, too.
        if let Some((anomaly, cycle)) = looks.into_iter().find_map(|(anomaly, cycle)| Some((anomaly, cycle?))) {
            let what = self.told(&cycle);
            self.find(anomaly, what);
        }
    }

    /// Which committed transactions come before which others.
    fn graph(&self) -> Graph {
        let mut graph = Graph::new(2 * self.history.len());
        for values in self.versions.values() {
            for pair in values.windows(2) {
                graph.order(self.writers[&pair[0]], self.writers[&pair[1]], Reason::Writes);
            }
        }
        for (reader, list, values) in self.reads() {
            if let Some(last) = values.iter().rev().find(|value| self.writers[*value] != reader) {
                graph.order(self.writers[last], reader, Reason::IsRead);
            }
            if let Some(next) = self.versions[&list].get(values.len()) {
                graph.order(reader, self.writers[next], Reason::Reads);
            }
        }
        self.order_times(&mut graph);
        graph
    }

    /// Ends of transactions come before later begins. Each end has a node of its own, which comes before that of the
    /// next end.
    fn order_times(&self, graph: &mut Graph) {
        let node = |record: usize| self.history.len() + record;
        let mut ends = self.committed().map(|(number, record)| (record.lifetime.1, number)).collect::<Vec<_>>();
        ends.sort_unstable();
        for pair in ends.windows(2) {
            graph.order(node(pair[0].1), node(pair[1].1), Reason::Time);
        }
        for (number, record) in self.committed() {
            graph.order(number, node(number), Reason::Time);
            let ended_before = ends.partition_point(|(end, _)| *end < record.lifetime.0);
            if let Some((_, last)) = ended_before.checked_sub(1).map(|place| ends[place]) {
                graph.order(node(last), number, Reason::Time);
            }
        }
    }

    /// A cycle with what its transactions do.
    fn told(&self, cycle: &Cycle) -> String {
        let lines = cycle.iter().map(|(node, reason)| match self.history.get(*node) {
            Some(record) => format!("transaction {node} ({reason:?} before the next): {:?}", record.steps),
            None => format!("the end of transaction {}", node - self.history.len()),
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}
