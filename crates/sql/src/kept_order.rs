//! Rows in the order of the file that they are read from, where a statement asks for no other: `preserve_order`.
//!
//! Order is what one packet carries (`ordered`), so it costs what more packets would save. A chain of operators that
//! take rows one by one keeps it, from the scan to the result, to a writer or to a LIMIT.

use diligence_engine::plan::{Node, Plan, PlanTables, Scan};

/// When rows come in the order of what they are read from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum KeptOrder {
    /// Where rows are read from one file and that costs little.
    #[default]
    Auto,
    /// Wherever rows are read from one table and neither joined nor grouped.
    On,
    /// Only where a statement says an order.
    Off,
}

/// A LIMIT of so many rows at most is reached soon by one packet, too.
const LIMITED_ROWS_MAX: usize = 1_000_000;

/// A file of about so many rows at most is read by one packet in a fraction of a second.
const FILE_ROWS_MAX: usize = 500_000;

impl KeptOrder {
    /// The one that a setting says; `None` if there is none of the name.
    pub(crate) fn of_setting(given: &str, truth: Option<bool>) -> Option<Self> {
        match truth {
            Some(true) => Some(Self::On),
            Some(false) => Some(Self::Off),
            None => given.trim().eq_ignore_ascii_case("auto").then_some(Self::Auto),
        }
    }

    /// As the setting shows it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::On => "on",
            Self::Off => "off",
        }
    }

    /// Has the result of a plan, and what its LIMITs take, come in the order of the table that it is read from.
    pub(crate) fn keep(self, plan: &mut Plan, tables: &PlanTables) {
        if self != Self::Off {
            self.keep_below(plan, tables, true);
        }
    }

    fn keep_below(self, plan: &mut Plan, tables: &PlanTables, is_result: bool) {
        stacker::maybe_grow(128 * 1024, 2 * 1024 * 1024, || {
            let is_asked = !plan.ordered && (is_result || matches!(plan.node, Node::Limit { .. }));
            if is_asked && scan_below(plan).is_some_and(|scan| self.is_kept(scan, tables)) {
                mark(plan);
            }
            plan.inputs_mut().into_iter().for_each(|input| self.keep_below(input, tables, false));
        });
    }

    fn is_kept(self, scan: &Scan, tables: &PlanTables) -> bool {
        if self == Self::On {
            return true;
        }
        let rows = tables.find(scan.table).and_then(|table| table.rows_of_one_file());
        let is_limited = scan.filters.is_empty() && scan.limit.is_some_and(|limit| limit <= LIMITED_ROWS_MAX);
        rows.is_some_and(|rows| is_limited || rows <= FILE_ROWS_MAX)
    }
}

/// The scan whose rows come out one by one, in its order.
fn scan_below(plan: &Plan) -> Option<&Scan> {
    match &plan.node {
        Node::Scan(scan) => Some(scan),
        Node::Filter { input, .. }
        | Node::Project { input, .. }
        | Node::Limit { input, .. }
        | Node::ScalarSubqueries { input, .. } => scan_below(input),
        Node::Unnest(unnest) => scan_below(&unnest.input),
        _ => None,
    }
}

fn mark(plan: &mut Plan) {
    plan.ordered = true;
    match &mut plan.node {
        Node::Filter { input, .. }
        | Node::Project { input, .. }
        | Node::Limit { input, .. }
        | Node::ScalarSubqueries { input, .. } => mark(input),
        Node::Unnest(unnest) => mark(&mut unnest.input),
        _ => {}
    }
}
