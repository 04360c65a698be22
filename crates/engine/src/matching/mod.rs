//! Compares plans and rewrites them: what two queries have in common, and how one of them is answered by what another
//! has made (view matching; Goldstein & Larson, "Optimizing Queries Using Materialized Views", SIGMOD 2001).
//!
//! * [`signature`]: what two parts of plans have to have in common to give the same rows; [`canonical`]: the form in
//!   which their expressions are compared; [`parameters`]: the constants in which queries of one template differ.
//! * [`cut`]: which part of a plan others may want as well; [`parts`]: how plans are taken apart and put together.
//! * [`shape`], [`order`], [`subsumption`]: whether rows that are there have what a plan wants, and more, and what is
//!   to be done with them then.
//! * [`merge`]: one plan that answers several queries: [`masks`] say which of them want a row, also of
//!   [joins](mask_joins); [`regroup`] and [`quotient`] put [`cells`] together to groups, and [`different`] what is
//!   computed of different values, of which [`value_counts`] tells how many there are; [`pair_conditions`] takes
//!   conditions out of joins for that.
//! * [`page`]: one plan for queries of several templates over the same joins; [`widening`] gives these all columns that
//!   any of the queries needs.
//! * [`common`]: what one plan has in several places.
//!
//! Invariant: functions of plans, without any state. Nothing here knows a query that runs, or what is kept.

pub(crate) mod canonical;
mod cells;
pub(crate) mod common;
pub(crate) mod cut;
mod different;
mod mask_joins;
pub(crate) mod masks;
pub(crate) mod merge;
pub(crate) mod order;
pub(crate) mod page;
mod pair_conditions;
pub(crate) mod parameters;
pub(crate) mod parts;
mod quotient;
pub(crate) mod regroup;
pub(crate) mod shape;
pub(crate) mod signature;
pub(crate) mod subsumption;
mod value_counts;
mod widening;
