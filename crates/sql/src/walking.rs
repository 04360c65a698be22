//! Walks of the parser's trees, each compiled once.
//!
//! The parser's own walk is compiled for each visitor anew, and it is some two thousand functions: twenty visitors were
//! more than half of what this crate had to generate.

use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, ObjectName, Query, Select, Statement, TableFactor, ValueWithSpan, Visit, VisitMut, Visitor, VisitorMut,
};

/// Shows each part of a tree to a visitor, until it breaks.
pub(crate) fn walk(tree: &impl Visit, visitor: &mut dyn Visitor<Break = ()>) -> ControlFlow<()> {
    tree.visit(&mut Any(visitor))
}

/// Has a visitor change the parts of a tree, until it breaks.
pub(crate) fn walk_mut(tree: &mut impl VisitMut, visitor: &mut dyn VisitorMut<Break = ()>) -> ControlFlow<()> {
    tree.visit(&mut AnyMut(visitor))
}

/// Shows each expression of a tree before its parts, until `visit` breaks.
pub(crate) fn each_expression(tree: &impl Visit, visit: impl FnMut(&Expr) -> ControlFlow<()>) -> ControlFlow<()> {
    struct Each<F>(F);
    impl<F: FnMut(&Expr) -> ControlFlow<()>> Visitor for Each<F> {
        type Break = ();

        fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<()> {
            (self.0)(expression)
        }
    }
    walk(tree, &mut Each(visit))
}

/// Has `visit` change each expression of a tree, behind its parts, until it breaks.
pub(crate) fn each_expression_mut(
    tree: &mut impl VisitMut,
    visit: impl FnMut(&mut Expr) -> ControlFlow<()>,
) -> ControlFlow<()> {
    struct Each<F>(F);
    impl<F: FnMut(&mut Expr) -> ControlFlow<()>> VisitorMut for Each<F> {
        type Break = ();

        fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
            (self.0)(expression)
        }
    }
    walk_mut(tree, &mut Each(visit))
}

/// A visitor, whichever it is.
struct Any<'v>(&'v mut dyn Visitor<Break = ()>);

/// The same for one that changes what it is shown.
struct AnyMut<'v>(&'v mut dyn VisitorMut<Break = ()>);

/// Hands each part on.
macro_rules! handed_on {
    ($($call:ident($part:ty);)*) => {$(
        fn $call(&mut self, part: $part) -> ControlFlow<()> {
            self.0.$call(part)
        }
    )*};
}

impl Visitor for Any<'_> {
    type Break = ();

    handed_on! {
        pre_visit_query(&Query);
        post_visit_query(&Query);
        pre_visit_select(&Select);
        post_visit_select(&Select);
        pre_visit_relation(&ObjectName);
        post_visit_relation(&ObjectName);
        pre_visit_table_factor(&TableFactor);
        post_visit_table_factor(&TableFactor);
        pre_visit_expr(&Expr);
        post_visit_expr(&Expr);
        pre_visit_statement(&Statement);
        post_visit_statement(&Statement);
        pre_visit_value(&ValueWithSpan);
        post_visit_value(&ValueWithSpan);
    }
}

impl VisitorMut for AnyMut<'_> {
    type Break = ();

    handed_on! {
        pre_visit_query(&mut Query);
        post_visit_query(&mut Query);
        pre_visit_select(&mut Select);
        post_visit_select(&mut Select);
        pre_visit_relation(&mut ObjectName);
        post_visit_relation(&mut ObjectName);
        pre_visit_table_factor(&mut TableFactor);
        post_visit_table_factor(&mut TableFactor);
        pre_visit_expr(&mut Expr);
        post_visit_expr(&mut Expr);
        pre_visit_statement(&mut Statement);
        post_visit_statement(&mut Statement);
        pre_visit_value(&mut ValueWithSpan);
        post_visit_value(&mut ValueWithSpan);
    }
}
