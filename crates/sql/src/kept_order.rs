//! Rows in the order of the file that they are read from, where a statement asks for no other: `preserve_order`.
//!
//! A chain of operators that take rows one by one keeps it, from the scan to the result, to a writer or to a LIMIT
//! (`ordered`). Several packets read and compute such a chain, and its rows are put in order behind it. So it costs
//! next to nothing, unless what takes them is a writer that takes ordered rows of one packet only.
//!
//! Sequences count rows in the order in which they are computed. So what counts takes rows that are in order already,
//! and one packet computes it.

use diligence_engine::expressions::Expr;
use diligence_engine::plan::{Node, Pact, Plan, PlanTables, Scan};

use crate::sequences;

/// When rows come in the order of what they are read from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum KeptOrder {
    /// Where rows are read from one file or series, and not many go to a writer of one packet.
    #[default]
    Auto,
    /// Wherever rows are read from one table and neither joined nor grouped.
    On,
    /// Only where a statement says an order.
    Off,
}

/// The rows of a file of about so many at most are written by one packet in a fraction of a second.
const WRITTEN_ROWS_MAX: usize = 500_000;

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
        self == Self::On || tables.find(scan.table).is_some_and(|table| table.rows_of_one_file().is_some())
    }

    /// The plan is for a writer that takes ordered rows of one packet only: has many rows come in any order, if nobody
    /// has asked for one. What a LIMIT takes stays the same.
    pub(crate) fn let_go(self, plan: &mut Plan, tables: &PlanTables) {
        let rows = |scan: &Scan| tables.find(scan.table).and_then(|table| table.rows_of_one_file());
        if self == Self::Auto && scan_below(plan).and_then(rows).is_some_and(|rows| rows > WRITTEN_ROWS_MAX) {
            unmark(plan);
        }
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
        Node::Project { input, expressions } => {
            mark(input);
            if expressions.iter().map(Expr::physical).any(sequences::are_counted) {
                bring_together(input);
            }
        }
        Node::Filter { input, .. } | Node::Limit { input, .. } | Node::ScalarSubqueries { input, .. } => mark(input),
        Node::Unnest(unnest) => mark(&mut unnest.input),
        _ => {}
    }
}

/// Has the rows of a plan come through one packet, in their order.
fn bring_together(plan: &mut Plan) {
    let rows = Plan { ordered: true, ..plan.clone() };
    plan.node = Node::Exchange { input: Box::new(rows), pact: Pact::Gather, consumers: 1 };
}

/// Takes the mark of all above a LIMIT.
fn unmark(plan: &mut Plan) {
    match &mut plan.node {
        Node::Limit { .. } => return,
        Node::Filter { input, .. } | Node::Project { input, .. } | Node::ScalarSubqueries { input, .. } => {
            unmark(input)
        }
        Node::Unnest(unnest) => unmark(&mut unnest.input),
        _ => {}
    }
    plan.ordered = false;
}
