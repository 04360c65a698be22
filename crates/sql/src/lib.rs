//! Text to plan.
//!
//! The life of a statement:
//! 1. [`parse::split`] cuts a script into statements; [`parse::parse_one`] makes a syntax tree of one, after a look at
//!    how deep it nests.
//! 2. [`Planner::plan`] takes the names as a snapshot, the tree, and values for its parameters. It decides what kind of
//!    [`Statement`] it is (`planning`): what changes the session or the catalog is described, queries go on.
//! 3. `binder` finds what names stand for (tables of the [catalog](diligence_catalog), files by their path, functions,
//!    columns) and gives every expression its type: a relation of the `algebra`, whose columns have numbers.
//! 4. `unnesting` replaces correlated subqueries by joins, `rewrites` and `ordering` make it cheaper, `lowering` turns
//!    it into the engine's [`Plan`](diligence_engine::plan::Plan). `front` is the road.
//!
//! Errors of every step go through [`errors`]: where in the text, what was expected, the nearest name.
//!
//! Invariant: nothing here runs a query. Statements that change something describe the change; the database applies it.

mod algebra;
mod binder;
mod catalog_functions;
mod closures;
mod default_order;
pub mod errors;
mod expression;
pub mod external;
mod facts;
mod following;
mod formulas;
mod front;
mod information;
mod kept_order;
mod lowering;
mod ordering;
pub mod parse;
mod partial_states;
mod planning;
mod privileges;
pub mod procedural;
mod procedures;
mod programs;
mod query;
mod quoting;
mod registry;
mod renaming;
mod rewrites;
mod routines;
mod row_locks;
mod sequences;
mod session_functions;
mod sleeping;
mod statement;
mod tried;
mod type_names;
mod unnesting;
mod view_shape;
mod walking;
mod write;
mod written;

pub use closures::Closure;
pub use facts::Facts;
pub use following::NewName;
pub use lowering::SqlFunctions;
pub use planning::{
    Description, FollowedRows, Formula, GenericPlan, Planned, PlannedAppend, Planner, PlannerOption, PlannerOptions,
    PreparedInfo, SessionLive, kept_tables, parameter_value,
};
pub use registry::Closures;
pub use session_functions::{QueryRunner, SettingsSink};
pub use statement::{
    Called, ChannelStep, Command, DroppedKind, ExportFormat, Maintenance, Part, Query, Several, Statement,
    TransactionStep, Write,
};
pub use write::native::{NativeWriter, Returned};
pub use write::triggers::{DeferredTrigger, TableTriggers, TriggerRunner};
