//! Text to plan.
//!
//! The life of a statement:
//! 1. [`parse::split`] cuts a script into statements; [`parse::parse_one`] makes a syntax tree of one, after a look at
//!    how deep it nests.
//! 2. `rewrite` puts right in the syntax tree what would be misread.
//! 3. [`Planner::plan`] takes the names as a snapshot, the tree, and values for its parameters. It decides what kind of
//!    [`Statement`] it is. Settings, EXPLAIN, DDL and prepared statements are ours; queries go on.
//! 4. `planning` resolves tables (of the [catalog](diligence_catalog), or files by their path) and functions,
//!    and DataFusion makes a logical plan.
//! 5. DataFusion's analyzer and optimizer, with our [`rules`], improve it.
//! 6. DataFusion's physical planner, told to plan for one partition, makes a plain tree of operators, its leaves
//!    [`TableScanExec`](tables::TableScanExec)s.
//! 7. [`lower`](lower::lower) turns that tree into the engine's [`Plan`](diligence_engine::plan::Plan).
//!
//! Where a session says `SET sql_front = own`, a query goes another way from its syntax tree to the plan: `binder`,
//! `unnesting`, `rewrites`, `ordering` and `lowering`, over the operators of `algebra` (`front` is the road).
//!
//! Errors of every step go through [`errors`]: where in the text, what was expected, the nearest name.
//!
//! Invariant: nothing here runs a query. Statements that change something describe the change; the database applies it.

mod algebra;
mod binder;
mod bounded;
pub mod errors;
mod expression;
pub mod external;
mod front;
mod information;
mod inner_names;
pub mod lower;
mod lowering;
mod messages;
mod ordering;
pub mod parse;
mod planning;
mod privileges;
mod rewrite;
mod rewrites;
pub mod rules;
pub mod state;
mod statement;
pub mod stores;
pub mod tables;
mod unnesting;
mod write;

pub use planning::{Description, GenericPlan, Planned, Planner, PlannerOption, PlannerOptions, parameter_value};
pub use rewrite::Facts;
pub use statement::{Command, Query, Statement, Write};
pub use write::memory::MemoryWriter;
