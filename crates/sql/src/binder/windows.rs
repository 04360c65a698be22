//! Window functions: OVER, named windows and frames.

use std::cell::RefCell;

use datafusion_common::ScalarValue;
use datafusion_expr as df;
use diligence_base::{Error, Result};
use diligence_engine::plan::Exclusion;
use diligence_types::SqlType;
use diligence_types::functions::aggregates;
use sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments, Ident, NamedWindowExpr,
    NullTreatment, WindowFrameBound, WindowFrameUnits, WindowSpec, WindowType,
};

use super::common_types::common_of;
use super::operators::Way;
use super::scope::{Clause, Level, WindowUse};
use super::syntax::{bare_name, is_distinct, written};
use super::window_calls::Integer;
use super::{Binder, name_place, normalized, place, placed};
use crate::algebra::{AggregateItem, Column, Constant, Scalar, SortKey, WindowFrame, WindowItem, WindowKind};
use crate::errors;

/// Functions that need OVER.
const WINDOW_FUNCTIONS: [&str; 11] = [
    "row_number",
    "rank",
    "dense_rank",
    "percent_rank",
    "cume_dist",
    "ntile",
    "lag",
    "lead",
    "first_value",
    "last_value",
    "nth_value",
];

/// Windows within windows by name at most: a name that stands for itself is found by it.
const NAMES_DEPTH_MAX: usize = 64;

/// Whether a function needs OVER.
pub(super) fn is_window_function(name: &str) -> bool {
    WINDOW_FUNCTIONS.contains(&name)
}

/// Whether a function tells, with WITHIN GROUP, where a row would be.
pub(super) fn is_hypothetical(name: &str) -> bool {
    matches!(name, "rank" | "dense_rank" | "percent_rank" | "cume_dist")
}

/// A window as it is written, with what it builds upon put in.
#[derive(Default)]
struct Spec<'e> {
    partition: &'e [Expr],
    order: &'e [sqlparser::ast::OrderByExpr],
    frame: Option<&'e sqlparser::ast::WindowFrame>,
    excludes: Exclusion,
}

/// A window, bound.
pub(super) struct Over {
    partition: Vec<Scalar>,
    order: Vec<SortKey>,
    frame: WindowFrame,
}

/// `max_by(x, y) OVER (PARTITION BY k)` and its kin as the first value of the partition in the order of `y`; `None` for
/// other functions, and for other windows, whose frames change from row to row.
fn best_of_partition(name: &str, function: &Function) -> Option<String> {
    let direction = match name {
        "max_by" | "arg_max" | "argmax" => "DESC",
        "min_by" | "arg_min" | "argmin" => "ASC",
        _ => return None,
    };
    let Some(WindowType::WindowSpec(spec)) = &function.over else { return None };
    if spec.window_name.is_some() || !spec.order_by.is_empty() || spec.window_frame.is_some() {
        return None;
    }
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(value)), FunctionArg::Unnamed(FunctionArgExpr::Expr(by))] =
        written(function)
    else {
        return None;
    };
    let filter = function.filter.as_ref().map_or_else(String::new, |filter| format!(" AND ({filter})"));
    let counts = format!("({by}) IS NOT NULL{filter}");
    let partition = match spec.partition_by.iter().map(ToString::to_string).collect::<Vec<_>>() {
        keys if keys.is_empty() => String::new(),
        keys => format!("PARTITION BY {} ", keys.join(", ")),
    };
    Some(format!(
        "first_value(CASE WHEN {counts} THEN ({value}) END) IGNORE NULLS OVER ({partition}ORDER BY \
         CASE WHEN {counts} THEN ({by}) END {direction} NULLS LAST \
         ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)"
    ))
}

impl Binder<'_> {
    /// A call with OVER. Fails with 42P20 where no window function may stand.
    pub(super) fn window_function(&self, name: &str, function: &Function, level: &Level<'_>) -> Result<Scalar> {
        if let Some(meant) = best_of_partition(name, function) {
            return self.scalar(&crate::parse::expression(&meant)?, level);
        }
        let given = name;
        let name = match name {
            "list" => "array_agg",
            "first" if ignores_nulls(function) => "first_value",
            "last" if ignores_nulls(function) => "last_value",
            other => other,
        };
        let at =
            |error| errors::at(error, function.name.0.last().and_then(|part| part.as_ident()).and_then(name_place));
        if level.in_aggregate.get() {
            let message = "aggregate function calls cannot contain window function calls";
            return Err(at(Error::input(message).with_code("42803")));
        }
        if level.in_window.get() {
            return Err(at(Error::input("window function calls cannot be nested").with_code("42P20")));
        }
        if !level.clause.get().has_windows() {
            let message = format!("window functions are not allowed in {}", level.clause.get().name());
            return Err(at(Error::input(message).with_code("42P20")));
        }
        if let Some(scalar) = self.of_frame(given, function, level)? {
            return Ok(scalar);
        }
        if !function.within_group.is_empty() {
            let message = format!("OVER is not supported for ordered-set aggregate {name}");
            return Err(at(Error::input(message).with_code("0A000")));
        }
        let Some(over) = &function.over else { return Err(Error::bug("a window function without OVER")) };
        let was = level.in_window.replace(true);
        let bound = self.over(over, level).and_then(|over| {
            let filter = match &function.filter {
                Some(filter) => Some(self.condition(filter, level, "FILTER")?),
                None => None,
            };
            let arguments = match is_window_function(name) {
                true => self.arguments(name, written(function), level)?,
                false => self.aggregate_arguments(name, function, level)?,
            };
            Ok((over, filter, arguments))
        });
        level.in_window.set(was);
        let (over, filter, arguments) = bound?;
        let over = RefCell::new(over);
        let put = |kind: WindowKind, arguments: Vec<Scalar>, filter: Option<Scalar>, column: Column| {
            let frame = over.borrow().frame.clone();
            self.put(&over, WindowItem { kind, arguments, filter, order: vec![], frame }, column, level)
        };
        // The first value of the frame that is there.
        if name == "any_value" && filter.is_none() && arguments.len() == 1 {
            return self.engine_function("first_value", arguments, true, &|kind, arguments, column| {
                put(WindowKind::Engine(kind), arguments, None, column)
            });
        }
        if is_window_function(name) {
            if filter.is_some() {
                let message = "FILTER is not implemented for non-aggregate window functions";
                return Err(at(Error::input(message).with_code("0A000")));
            }
            return self.engine_function(name, arguments, ignores_nulls(function), &|kind, arguments, column| {
                put(WindowKind::Engine(kind), arguments, None, column)
            });
        }
        if aggregates(name).is_empty() {
            let known = diligence_types::functions::has_function(name);
            let error = match known {
                true => Error::input(format!(
                    "OVER specified, but {name} is not a window function nor an aggregate function"
                ))
                .with_code("42809"),
                false => self.unknown_function(name, &arguments),
            };
            return Err(at(error));
        }
        if ignores_nulls(function) {
            return Err(at(Error::input("aggregate functions do not accept IGNORE NULLS").with_code("0A000")));
        }
        if let FunctionArguments::List(list) = &function.args
            && list.clauses.iter().any(|clause| matches!(clause, FunctionArgumentClause::OrderBy(_)))
        {
            let message = "aggregate ORDER BY is not implemented for window functions";
            return Err(at(Error::input(message).with_code("0A000")));
        }
        // PostgreSQL has no DISTINCT here; DuckDB does.
        self.windowed(name, arguments, is_distinct(function), filter, &|item: AggregateItem, nullable| {
            self.put_aggregate(&over, item, nullable, level)
        })
    }

    /// Puts an aggregate of frames to the functions over the same window.
    pub(super) fn put_aggregate(
        &self,
        over: &RefCell<Over>,
        item: AggregateItem,
        nullable: bool,
        level: &Level<'_>,
    ) -> Scalar {
        let column = self.numbers.named(item.call.overload.name, item.call.returns.clone(), nullable);
        let AggregateItem { call, arguments, is_distinct, filter, order, .. } = item;
        let frame = over.borrow().frame.clone();
        let kind = WindowKind::Aggregate { call, is_distinct };
        self.put(over, WindowItem { kind, arguments, filter, order, frame }, column, level)
    }

    /// Puts a function to those over the same window.
    fn put(&self, over: &RefCell<Over>, item: WindowItem, column: Column, level: &Level<'_>) -> Scalar {
        let over = over.borrow();
        let mut uses = level.window_uses.borrow_mut();
        let same = |window: &&mut WindowUse| window.partition == over.partition && window.order == over.order;
        let scalar = column.scalar();
        match uses.iter_mut().find(same) {
            Some(window) => match window.items.iter().find(|(_, other)| *other == item) {
                Some((other, _)) if other.sql_type == column.sql_type => return other.scalar(),
                _ => window.items.push((column, item)),
            },
            None => uses.push(WindowUse {
                partition: over.partition.clone(),
                order: over.order.clone(),
                items: vec![(column, item)],
            }),
        }
        scalar
    }

    /// A window, bound.
    pub(super) fn over(&self, over: &WindowType, level: &Level<'_>) -> Result<Over> {
        let spec = match over {
            WindowType::NamedWindow(name) => self.named_window(name, level.windows.len(), level, 0)?,
            WindowType::WindowSpec(spec) => self.spec(spec, level.windows.len(), level, 0)?,
        };
        let was = level.clause.get();
        let partition = spec.partition.iter().map(|part| self.group_key(self.typed_scalar(part, level)?));
        let partition = partition.collect::<Result<Vec<_>>>()?;
        let mut shown = spec.order.iter().map(|key| self.sort_key(key, level)).collect::<Result<Vec<_>>>()?;
        level.clause.set(was);
        let distances = self.distances(&spec, &mut shown, level)?;
        let frame = self.frame(&spec, &shown, distances)?;
        let order = shown.into_iter().map(|key| Ok(SortKey { scalar: self.key(key.scalar)?, ..key }));
        Ok(Over { partition, order: order.collect::<Result<_>>()?, frame })
    }

    /// A window of a name among the first `before` definitions: a definition sees those in front of it. Fails with
    /// 42704 if there is none.
    fn named_window<'e>(&self, name: &Ident, before: usize, level: &Level<'e>, depth: usize) -> Result<Spec<'e>> {
        let wanted = normalized(name);
        let definitions: &'e [_] = level.windows;
        let found = definitions[..before].iter().position(|definition| normalized(&definition.0) == wanted);
        let Some(index) = found.filter(|_| depth < NAMES_DEPTH_MAX) else {
            let error = Error::input(format!("no window is named '{}'", name.value)).with_code("42704");
            return Err(errors::at(error.with_hint("name it in WINDOW name AS (…)"), name_place(name)));
        };
        match &definitions[index].1 {
            NamedWindowExpr::NamedWindow(other) => self.named_window(other, index, level, depth + 1),
            NamedWindowExpr::WindowSpec(spec) => self.spec(spec, index, level, depth + 1),
        }
    }

    /// A window that may build upon a named one.
    fn spec<'e>(&self, spec: &'e WindowSpec, before: usize, level: &Level<'e>, depth: usize) -> Result<Spec<'e>> {
        let (excludes, partition) = excluded(&spec.partition_by);
        let Some(name) = &spec.window_name else {
            return Ok(Spec { partition, order: &spec.order_by, frame: spec.window_frame.as_ref(), excludes });
        };
        let base = self.named_window(name, before, level, depth)?;
        let fixed = |clause: &str| {
            let message = format!("cannot override {clause} clause of window \"{}\"", name.value);
            errors::at(Error::input(message).with_code("42P20"), name_place(name))
        };
        if !partition.is_empty() {
            return Err(fixed("PARTITION BY"));
        }
        if !spec.order_by.is_empty() && !base.order.is_empty() {
            return Err(fixed("ORDER BY"));
        }
        if base.frame.is_some() {
            let message = format!("cannot copy window \"{}\" because it has a frame clause", name.value);
            return Err(errors::at(Error::input(message).with_code("42P20"), name_place(name)));
        }
        let order = if spec.order_by.is_empty() { base.order } else { &spec.order_by };
        Ok(Spec { partition: base.partition, order, frame: spec.window_frame.as_ref(), excludes })
    }

    /// The frame; up to the row's peers where none is written.
    fn frame(&self, spec: &Spec<'_>, order: &[SortKey], distances: [Option<Scalar>; 2]) -> Result<WindowFrame> {
        let known = |frame| WindowFrame { excludes: spec.excludes, ..WindowFrame::known(frame) };
        let unbounded = |units| {
            let start = df::WindowFrameBound::Preceding(ScalarValue::UInt64(None));
            let end = df::WindowFrameBound::Following(ScalarValue::UInt64(None));
            df::WindowFrame::new_bounds(units, start, end)
        };
        let Some(frame) = spec.frame else {
            let frame = match order.is_empty() {
                // All rows are peers.
                true => unbounded(df::WindowFrameUnits::Rows),
                false => df::WindowFrame::new_bounds(
                    df::WindowFrameUnits::Range,
                    df::WindowFrameBound::Preceding(ScalarValue::Null),
                    df::WindowFrameBound::CurrentRow,
                ),
            };
            return Ok(known(frame));
        };
        let units = match frame.units {
            WindowFrameUnits::Rows => df::WindowFrameUnits::Rows,
            WindowFrameUnits::Range => df::WindowFrameUnits::Range,
            WindowFrameUnits::Groups => df::WindowFrameUnits::Groups,
        };
        let end = frame.end_bound.as_ref().unwrap_or(&WindowFrameBound::CurrentRow);
        let invalid = |message: &str| Error::input(message).with_code("42P20");
        use WindowFrameBound::{CurrentRow, Following, Preceding};
        match (&frame.start_bound, end) {
            (Following(None), _) => return Err(invalid("frame start cannot be UNBOUNDED FOLLOWING")),
            (_, Preceding(None)) => return Err(invalid("frame end cannot be UNBOUNDED PRECEDING")),
            (CurrentRow, Preceding(_)) => {
                return Err(invalid("frame starting from current row cannot have preceding rows"));
            }
            (Following(_), CurrentRow | Preceding(_)) => {
                return Err(invalid("frame starting from following row cannot end before it"));
            }
            _ => {}
        }
        let has_offset =
            [&frame.start_bound, end].iter().any(|bound| matches!(bound, Preceding(Some(_)) | Following(Some(_))));
        if units == df::WindowFrameUnits::Groups && order.is_empty() {
            return Err(invalid("GROUPS mode requires an ORDER BY clause"));
        }
        if units == df::WindowFrameUnits::Range && has_offset && order.len() != 1 {
            let message = "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column";
            return Err(invalid(message));
        }
        // Without an order all rows are peers, whichever way the frame is written.
        if units == df::WindowFrameUnits::Range && order.is_empty() {
            return Ok(known(unbounded(df::WindowFrameUnits::Rows)));
        }
        let bound = |bound: &WindowFrameBound, distance: Option<Scalar>, is_start: bool| {
            let (distance, later) = match distance {
                None if units == df::WindowFrameUnits::Range => (ScalarValue::Null, None),
                None => (ScalarValue::UInt64(None), None),
                Some(Scalar::Constant(constant)) => {
                    (constant.distance(units == df::WindowFrameUnits::Range, is_start)?, None)
                }
                // The lowering puts in what it is.
                Some(later) => (ScalarValue::UInt64(Some(0)), Some(later)),
            };
            let bound = match bound {
                CurrentRow => df::WindowFrameBound::CurrentRow,
                Preceding(_) => df::WindowFrameBound::Preceding(distance),
                Following(_) => df::WindowFrameBound::Following(distance),
            };
            Ok::<_, Error>((bound, later))
        };
        let at = |bound: &WindowFrameBound, error: Error| match bound {
            Preceding(Some(offset)) | Following(Some(offset)) => placed(error, || place(offset.as_ref())),
            _ => error,
        };
        let [first, last] = distances;
        let (start, first) = bound(&frame.start_bound, first, true).map_err(|error| at(&frame.start_bound, error))?;
        let (end, last) = bound(end, last, false).map_err(|error| at(end, error))?;
        let mut frame = known(df::WindowFrame::new_bounds(units, start, end));
        frame.distances = [first, last];
        Ok(frame)
    }

    /// The distances of a frame's bounds: a `bigint` of rows or groups of peers, or what is added to the order's
    /// values. With RANGE the order's key becomes what distances can be added to: dates are timestamps, intervals and
    /// times their length, and decimals have as many digits as the distances.
    fn distances(&self, spec: &Spec<'_>, order: &mut [SortKey], level: &Level<'_>) -> Result<[Option<Scalar>; 2]> {
        let Some(frame) = spec.frame else { return Ok([None, None]) };
        let ends = [Some(&frame.start_bound), frame.end_bound.as_ref()];
        let mut distances = [None, None];
        let mut places = [None, None];
        for (index, bound) in ends.into_iter().enumerate() {
            let Some(WindowFrameBound::Preceding(Some(offset)) | WindowFrameBound::Following(Some(offset))) = bound
            else {
                continue;
            };
            let was = level.clause.replace(Clause::Window);
            let scalar = self.scalar(offset, level);
            level.clause.set(was);
            let scalar = scalar?;
            if !scalar.columns().is_empty() {
                let message = format!("argument of {} must not contain variables", frame.units);
                return Err(errors::at(Error::input(message).with_code("42P10"), place(offset.as_ref())));
            }
            (distances[index], places[index]) = (Some(scalar), Some(offset));
        }
        if distances.iter().all(Option::is_none) {
            return Ok(distances);
        }
        let at = |index: usize, error: Error| match places[index] {
            Some(offset) => placed(error, || place(offset.as_ref())),
            None => error,
        };
        let each = |distances: [Option<Scalar>; 2], change: &dyn Fn(Scalar) -> Result<Scalar>| {
            let [first, last] = distances;
            let first = first.map(change).transpose().map_err(|error| at(0, error))?;
            Ok::<_, Error>([first, last.map(change).transpose().map_err(|error| at(1, error))?])
        };
        let ([key], WindowFrameUnits::Range) = (order, frame.units) else {
            return each(distances, &|scalar| {
                let rows = self.known_integer(&scalar)?;
                Ok(match rows {
                    Integer::Of(rows) => rows,
                    Integer::Known(Some(rows)) => Scalar::Constant(Constant::bigint(rows)),
                    Integer::Known(None) => Scalar::Constant(Constant::null(SqlType::BigInt)),
                })
            });
        };
        let from = key.scalar.sql_type();
        let taken = key.scalar.clone();
        let interval = |scalar: Scalar| self.cast(scalar, &SqlType::Interval, Way::Implicit);
        match &from {
            SqlType::Date => {
                key.scalar = self.cast(taken, &SqlType::Timestamp, Way::Implicit)?;
                each(distances, &interval)
            }
            SqlType::Timestamp | SqlType::TimestampTz => each(distances, &interval),
            SqlType::Time | SqlType::Interval => {
                key.scalar = self.key(interval(taken)?)?;
                each(distances, &|scalar| self.key(interval(scalar)?))
            }
            SqlType::SmallInt | SqlType::Integer | SqlType::BigInt => {
                for (index, distance) in distances.iter().flatten().enumerate() {
                    let given = distance.sql_type();
                    if !matches!(given, SqlType::SmallInt | SqlType::Integer | SqlType::BigInt | SqlType::Unknown) {
                        return Err(at(index, no_distance(&from, Some(&given))));
                    }
                }
                key.scalar = self.cast(taken, &SqlType::BigInt, Way::Implicit)?;
                each(distances, &|scalar| {
                    // A literal is one of the key's type.
                    let scalar = match scalar.sql_type() {
                        SqlType::Unknown => constant_in(self.cast(scalar, &from, Way::Implicit)?)?,
                        _ => scalar,
                    };
                    constant_in(self.cast(scalar, &SqlType::BigInt, Way::Implicit)?)
                })
            }
            SqlType::Real | SqlType::Double => {
                key.scalar = self.cast(taken, &SqlType::Double, Way::Implicit)?;
                each(distances, &|scalar| constant_in(self.cast(scalar, &SqlType::Double, Way::Implicit)?))
            }
            SqlType::Numeric(_) => {
                let types = distances.iter().flatten().map(Scalar::sql_type).filter(|other| *other != SqlType::Unknown);
                let types = std::iter::once(from.clone()).chain(types).collect::<Vec<_>>();
                let common = common_of(&types, "RANGE")?;
                if common.category() != diligence_types::sql_type::Category::Numeric || common == SqlType::Double {
                    return Err(at(0, no_distance(&from, None)));
                }
                key.scalar = self.cast(taken, &common, Way::Implicit)?;
                each(distances, &|scalar| constant_in(self.cast(scalar, &common, Way::Implicit)?))
            }
            _ => Err(at(0, no_distance(&from, None))),
        }
    }
}

/// The error for a RANGE whose key has no distances, or not of this type.
fn no_distance(key: &SqlType, distance: Option<&SqlType>) -> Error {
    let key = key.without_modifier();
    let of = match distance {
        Some(distance) => format!(" and offset type {}", distance.without_modifier()),
        None => String::new(),
    };
    let message = format!("RANGE with offset PRECEDING/FOLLOWING is not supported for column type {key}{of}");
    Error::input(message).with_code("0A000")
}

/// A cast literal as a literal, so that plans show it.
fn constant_in(scalar: Scalar) -> Result<Scalar> {
    if let Scalar::Cast { input, to, .. } = &scalar
        && let Some(constant) = input.as_constant()
        && let Ok(value) = constant.value.cast_to(&to.arrow())
    {
        return Ok(Scalar::Constant(Constant { value, sql_type: to.clone() }));
    }
    Ok(scalar)
}

/// Whether a function passes over NULLs.
pub(super) fn ignores_nulls(function: &Function) -> bool {
    let ignore = NullTreatment::IgnoreNulls;
    function.null_treatment.as_ref() == Some(&ignore)
        || matches!(&function.args, FunctionArguments::List(list) if list.clauses.iter().any(|clause| {
            matches!(clause, FunctionArgumentClause::IgnoreOrRespectNulls(NullTreatment::IgnoreNulls))
        }))
}

/// EXCLUDE, which is spelled as a first part of PARTITION BY, and the other parts.
fn excluded(partition: &[Expr]) -> (Exclusion, &[Expr]) {
    if let [Expr::Function(function), rest @ ..] = partition {
        let excludes = match bare_name(function).as_str() {
            "exclude current row" => Exclusion::CurrentRow,
            "exclude group" => Exclusion::Group,
            "exclude ties" => Exclusion::Ties,
            "exclude no others" => Exclusion::NoOthers,
            _ => return (Exclusion::NoOthers, partition),
        };
        return (excludes, rest);
    }
    (Exclusion::NoOthers, partition)
}
