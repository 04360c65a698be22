//! Calls of aggregates: their arguments, their order and filter, and forms that are other aggregates.
//!
//! An aggregate belongs to the SELECT of its innermost argument, which may be one around it.

use diligence_base::{Error, Result};
use diligence_types::SqlType;
use diligence_types::functions::{AggregateBody, AggregateCall, resolve_aggregate};
use diligence_types::sql_type::{Category, RecordField};
use sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments, OrderByExpr,
    OrderByOptions,
};

use super::operators::Way;
use super::scope::{Level, Tracker};
use super::syntax::{is_distinct, written};
use super::{Binder, place, placed, unsupported};
use crate::algebra::{AggregateItem, Comparison, Constant, Scalar, SortKey};

/// DuckDB's names of aggregates that are others of PostgreSQL, written otherwise.
const OTHER_FORMS: [&str; 18] = [
    "any_value",
    "arg_max_null",
    "arg_max_nulls_last",
    "arg_min_null",
    "arg_min_nulls_last",
    "max_by",
    "arg_max",
    "argmax",
    "min_by",
    "arg_min",
    "argmin",
    "quantile",
    "quantile_cont",
    "quantile_disc",
    "approx_quantile",
    "reservoir_quantile",
    "list",
    "mode",
];

/// Whether an aggregate is another one, written otherwise.
pub(super) fn is_other_form(name: &str) -> bool {
    OTHER_FORMS.contains(&name)
}

/// Whether an array has arrays or records in it, whose values the engine does not compare one by one.
pub(super) fn is_of_nested(sql_type: &SqlType) -> bool {
    matches!(sql_type.element(), Some(SqlType::Array(_) | SqlType::Record(_)))
}

/// What is bound of an aggregate's call.
pub(super) struct Call {
    pub arguments: Vec<Scalar>,
    pub is_distinct: bool,
    pub filter: Option<Scalar>,
    pub order: Vec<SortKey>,
    pub is_within_group: bool,
}

impl Binder<'_> {
    /// An aggregate without OVER: columns of the level that it belongs to. Fails with 42803 where no aggregate may
    /// stand.
    pub(super) fn aggregate(&self, name: &str, function: &Function, level: &Level<'_>) -> Result<Scalar> {
        let (target, meant, parts) = self.aggregate_at(name, function, level)?;
        let (name, parts, of_times) = self.middle(name, meant, parts)?;
        let call = self.chosen(name, &parts)?;
        if parts.is_within_group {
            let direct = parts.arguments.len() - parts.order.len();
            target.directs.borrow_mut().extend(parts.arguments[..direct].iter().cloned());
        }
        let value =
            self.computed(name, call, parts, &|item, nullable| self.placed_for(level, target, item, nullable))?;
        match of_times {
            Some(sql_type) => self.time_of_seconds(value, &sql_type),
            None => Ok(value),
        }
    }

    /// The level that an aggregate belongs to, and what is bound of its call, by PostgreSQL's name of it. Fails with
    /// 42803 where no aggregate may stand.
    pub(super) fn aggregate_at<'n, 'l, 's>(
        &self,
        name: &'n str,
        function: &Function,
        level: &'l Level<'s>,
    ) -> Result<(&'l Level<'s>, &'n str, Call)> {
        self.trackers.borrow_mut().push(Tracker::new(level.depth));
        let was_inside = level.in_aggregate.replace(true);
        let bound = self.aggregate_parts(name, function, level);
        level.in_aggregate.set(was_inside);
        let tracker = self.trackers.borrow_mut().pop();
        let (name, parts) = self.as_postgres(name, bound?)?;
        Ok((self.level_of(tracker, level, was_inside)?, name, parts))
    }

    /// The level that an aggregate belongs to by the columns that were met in its parts. Fails with 42803 where no
    /// aggregate may stand, and if its direct arguments are of a level inside of the one that it belongs to.
    fn level_of<'l, 's>(
        &self,
        tracker: Option<Tracker>,
        level: &'l Level<'s>,
        was_inside: bool,
    ) -> Result<&'l Level<'s>> {
        let tracker = tracker.unwrap_or_else(|| Tracker::new(level.depth));
        let target = level.at(tracker.innermost.unwrap_or(level.depth));
        if tracker.direct.is_some_and(|direct| direct > target.depth) {
            let message = "outer-level aggregate cannot contain a lower-level variable in its direct arguments";
            return Err(Error::input(message).with_code("42803"));
        }
        let holds_another = tracker.aggregates.contains(&target.depth);
        self.trackers.borrow_mut().iter_mut().for_each(|tracker| tracker.aggregates.push(target.depth));
        let is_nested = if target.depth == level.depth { was_inside } else { target.in_aggregate.get() };
        if is_nested || holds_another {
            return Err(Error::input("aggregate function calls cannot be nested").with_code("42803"));
        }
        if !target.clause.get().has_aggregates() {
            let message = format!("aggregate functions are not allowed in {}", target.clause.get().name());
            return Err(Error::input(message).with_code("42803"));
        }
        Ok(target)
    }

    /// What is in parentheses in front of WITHIN GROUP: its columns do not decide to which level the aggregate belongs.
    fn direct<T>(&self, bind: impl FnOnce() -> Result<T>) -> Result<T> {
        let before = self.trackers.borrow().last().and_then(|tracker| tracker.innermost);
        let bound = bind();
        if let Some(tracker) = self.trackers.borrow_mut().last_mut() {
            tracker.direct = std::mem::replace(&mut tracker.innermost, before);
        }
        bound
    }

    /// An aggregate's column at the level that it belongs to, which is read at another.
    pub(super) fn placed_for(
        &self,
        level: &Level<'_>,
        target: &Level<'_>,
        item: AggregateItem,
        nullable: bool,
    ) -> Scalar {
        let scalar = self.placed_in(target, item, nullable);
        if target.depth < level.depth
            && let Some(id) = scalar.as_column()
        {
            target.read.borrow_mut().insert(id);
        }
        scalar
    }

    /// DuckDB's aggregates as those that PostgreSQL has, and `first_value`. Fails with 42883 for another number of
    /// arguments, and with 42725 for `array_agg` of a literal without a type.
    pub(super) fn as_postgres<'n>(&self, name: &'n str, mut parts: Call) -> Result<(&'n str, Call)> {
        // PostgreSQL has one of arrays, and one of all others: nothing says which is meant.
        if name == "array_agg"
            && let [Scalar::Constant(Constant { sql_type: SqlType::Unknown, .. })] = parts.arguments.as_slice()
        {
            let error = Error::input("function array_agg(unknown) is not unique").with_code("42725");
            return Err(error.with_hint("cast the argument: array_agg('a'::text)"));
        }
        let is_there = |scalar: &Scalar| Scalar::IsNull(Box::new(scalar.clone())).negate();
        // Structs, maps, and arrays with parts, have an order, but the engine has no extremes of them.
        if let ("min" | "max", [value], false) = (name, parts.arguments.as_slice(), parts.is_within_group)
            && (matches!(value.sql_type(), SqlType::Record(_) | SqlType::Map(_)) || is_of_nested(&value.sql_type()))
        {
            let value = value.clone();
            let filter = Some(Scalar::all([is_there(&value)].into_iter().chain(parts.filter.take())));
            let order = vec![SortKey { scalar: value, descending: name == "max", nulls_first: false }];
            return Ok(("first_value", Call { order, filter, is_distinct: false, ..parts }));
        }
        if !is_other_form(name) {
            return Ok((name, parts));
        }
        if name == "list" {
            // PostgreSQL's arrays of arrays have one length; lists of lists have any.
            let of_lists = matches!(parts.arguments.as_slice(), [list] if list.sql_type().element().is_some());
            return Ok((if of_lists { name } else { "array_agg" }, parts));
        }
        if name == "any_value" {
            if let Some(value) = parts.arguments.first().filter(|value| value.nullable()) {
                parts.filter = Some(Scalar::all([is_there(value)].into_iter().chain(parts.filter.take())));
            }
            // The first one in the order that is said.
            let is_ordered = !parts.order.is_empty() && !parts.is_within_group;
            return Ok((if is_ordered { "first_value" } else { name }, parts));
        }
        // Of so many rows, an array.
        if parts.arguments.len() == 3 && parts.order.is_empty() && !parts.is_distinct {
            match name {
                "max_by" | "arg_max" | "argmax" => return Ok(("max_by_some", parts)),
                "min_by" | "arg_min" | "argmin" => return Ok(("min_by_some", parts)),
                _ => {}
            }
        }
        if name == "mode" {
            if !parts.is_within_group && parts.arguments.len() == 1 && parts.order.is_empty() {
                let value = self.typed(parts.arguments.remove(0))?;
                parts.order.push(SortKey { scalar: value.clone(), descending: false, nulls_first: false });
                parts.arguments.push(value);
                parts.is_within_group = true;
            }
            return Ok((name, parts));
        }
        let [value, by] = <[Scalar; 2]>::try_from(std::mem::take(&mut parts.arguments))
            .map_err(|_| Error::input(format!("{name} takes two arguments")).with_code("42883"))?;
        if parts.is_distinct || parts.is_within_group || !parts.order.is_empty() {
            let message = format!("{name} takes neither DISTINCT nor an order");
            return Err(Error::input(message).with_code("42809"));
        }
        let key = |scalar: Scalar, descending: bool| SortKey { scalar, descending, nulls_first: false };
        let (value, by) = (self.typed(value)?, self.typed(by)?);
        match name {
            "quantile_cont" | "quantile_disc" | "quantile" | "approx_quantile" | "reservoir_quantile" => {
                let order = vec![key(value.clone(), false)];
                let arguments = vec![by, value];
                let name = if name == "quantile_cont" { "percentile_cont" } else { "percentile_disc" };
                Ok((name, Call { arguments, order, is_within_group: true, ..parts }))
            }
            // Rows without one of the two do not count.
            _ => {
                let counts = match name {
                    "arg_max_null" | "arg_min_null" => vec![is_there(&by)],
                    "arg_max_nulls_last" | "arg_min_nulls_last" => vec![],
                    _ => vec![is_there(&value), is_there(&by)],
                };
                let filter = Scalar::all(counts.into_iter().chain(parts.filter));
                let order = vec![key(by, name.contains("max"))];
                Ok(("first_value", Call { arguments: vec![value], order, filter: Some(filter), ..parts }))
            }
        }
    }

    /// The value of an aggregate whose call is bound, of rows that it is placed over.
    pub(super) fn aggregate_of_rows(
        &self,
        name: &str,
        parts: Call,
        place: &dyn Fn(AggregateItem, bool) -> Scalar,
    ) -> Result<Scalar> {
        let (meant, parts) = self.as_postgres(name, parts)?;
        let (name, parts, of_times) = self.middle(name, meant, parts)?;
        let call = self.chosen(name, &parts)?;
        let value = self.computed(name, call, parts, place)?;
        match of_times {
            Some(sql_type) => self.time_of_seconds(value, &sql_type),
            None => Ok(value),
        }
    }

    /// DuckDB's `median` and `quantile_cont` of what has no numbers between its values: of texts the one in the middle,
    /// of times that between two. The last part is the type of the time, whose value is computed in seconds.
    fn middle<'n>(&self, written: &str, name: &'n str, parts: Call) -> Result<(&'n str, Call, Option<SqlType>)> {
        let (by, value) = match (written, parts.arguments.as_slice()) {
            ("median", [value]) if !parts.is_within_group && parts.order.is_empty() => {
                let half = datafusion_common::ScalarValue::Float64(Some(0.5));
                (Scalar::Constant(Constant { value: half, sql_type: SqlType::Double }), value.clone())
            }
            ("quantile_cont", [by, value]) if by.sql_type().element().is_none() => (by.clone(), value.clone()),
            _ => return Ok((name, parts, None)),
        };
        let key = |scalar: &Scalar| SortKey { scalar: scalar.clone(), descending: false, nulls_first: false };
        let sql_type = value.sql_type();
        match &sql_type {
            SqlType::Date | SqlType::Timestamp | SqlType::TimestampTz => {
                let epoch = Scalar::Constant(Constant::text("epoch"));
                let seconds = self.call("date_part", vec![epoch, value])?;
                let order = vec![key(&seconds)];
                let parts = Call { arguments: vec![by, seconds], order, is_within_group: true, ..parts };
                let of_times = if sql_type == SqlType::Date { SqlType::Timestamp } else { sql_type.clone() };
                Ok(("percentile_cont", parts, Some(of_times)))
            }
            other if written == "median" && matches!(other.category(), Category::String | Category::Enum) => {
                let order = vec![key(&value)];
                let parts = Call { arguments: vec![by, value], order, is_within_group: true, ..parts };
                Ok(("percentile_disc", parts, None))
            }
            _ => Ok((name, parts, None)),
        }
    }

    /// The time that is so many seconds from 1970 on, in UTC.
    fn time_of_seconds(&self, seconds: Scalar, sql_type: &SqlType) -> Result<Scalar> {
        let time = self.call("to_timestamp", vec![seconds])?;
        match sql_type {
            SqlType::Timestamp => self.call("timezone", vec![Scalar::Constant(Constant::text("UTC")), time]),
            _ => Ok(time),
        }
    }

    pub(super) fn aggregate_parts(&self, name: &str, function: &Function, level: &Level<'_>) -> Result<Call> {
        let is_within_group = !function.within_group.is_empty();
        let arguments = || self.with_names(name, self.aggregate_arguments(name, function, level)?);
        let mut arguments = if is_within_group { self.direct(arguments)? } else { arguments()? };
        let mut order = &[][..];
        if let FunctionArguments::List(list) = &function.args {
            for clause in &list.clauses {
                match clause {
                    FunctionArgumentClause::OrderBy(keys) => order = keys,
                    FunctionArgumentClause::Separator(separator) => arguments.push(self.literal(&separator.value)?),
                    other => return Err(unsupported(format!("{other} in {name}"))),
                }
            }
        }
        if function.null_treatment.is_some() {
            return Err(Error::input("aggregate functions do not accept RESPECT/IGNORE NULLS").with_code("0A000"));
        }
        let order = if is_within_group { &function.within_group } else { order };
        let given = |key: &OrderByExpr| {
            // What is written as an argument is that argument, also where a subquery is bound anew each time.
            let is_given = |argument: &FunctionArg| matches!(argument, FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) if *argument == key.expr);
            let place = if is_within_group { None } else { written(function).iter().position(is_given) };
            match place.and_then(|place| arguments.get(place)) {
                Some(argument) => self.sorted(self.typed(argument.clone())?, &key.options, Some(&key.expr)),
                None => self.sort_key(key, level),
            }
        };
        let order = order.iter().map(given).collect::<Result<Vec<_>>>()?;
        if is_within_group {
            arguments.extend(order.iter().map(|key| key.scalar.clone()));
        }
        let decided = |argument: Scalar| match argument.sql_type() {
            SqlType::Record(_) | SqlType::Array(_) => self.typed(argument),
            _ => Ok(argument),
        };
        let arguments = arguments.into_iter().map(decided).collect::<Result<Vec<_>>>()?;
        let filter = match &function.filter {
            Some(filter) => Some(self.condition(filter, level, "FILTER")?),
            None => None,
        };
        let is_distinct = is_distinct(function);
        if is_distinct && is_within_group {
            return Err(Error::input("cannot use DISTINCT with WITHIN GROUP").with_code("42601"));
        }
        if is_distinct && order.iter().any(|key| !arguments.contains(&key.scalar)) {
            let message = "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list";
            return Err(Error::input(message).with_code("42P10"));
        }
        Ok(Call { arguments, is_distinct, filter, order, is_within_group })
    }

    /// The arguments of an aggregate; none for `*`.
    pub(super) fn aggregate_arguments(
        &self,
        name: &str,
        function: &Function,
        level: &Level<'_>,
    ) -> Result<Vec<Scalar>> {
        match written(function) {
            [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)] if name == "count" && is_distinct(function) => {
                let error = Error::input("DISTINCT specified for count(*), which has no argument").with_code("42601");
                Err(error.with_hint("name a column, or count the rows of SELECT DISTINCT"))
            }
            [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)] if name == "count" => Ok(vec![]),
            arguments => {
                let bound = self.arguments(name, arguments, level)?;
                let sql_type = bound.first().map(Scalar::sql_type);
                match bound.as_slice() {
                    // DuckDB's sum of truth values counts those that are true.
                    [value] if name == "sum" && sql_type == Some(SqlType::Boolean) => {
                        Ok(vec![self.explicit(value.clone(), &SqlType::Integer, false)?])
                    }
                    // Whole numbers have halves between them.
                    [value] if name == "median" => match sql_type {
                        Some(SqlType::Numeric(Some((_, 0)))) => {
                            Ok(vec![self.explicit(value.clone(), &SqlType::NUMERIC, false)?])
                        }
                        _ => Ok(bound),
                    },
                    _ => Ok(bound),
                }
            }
        }
    }

    /// One part of an ORDER BY within an expression.
    pub(super) fn sort_key(&self, key: &OrderByExpr, level: &Level<'_>) -> Result<SortKey> {
        let scalar = self.typed_scalar(&key.expr, level)?;
        self.sorted(scalar, &key.options, Some(&key.expr))
    }

    /// An expression with the direction that ORDER BY says.
    pub(super) fn sorted(
        &self,
        scalar: Scalar,
        options: &OrderByOptions,
        expression: Option<&Expr>,
    ) -> Result<SortKey> {
        let scalar = match (scalar.sql_type(), expression) {
            // ORDER BY ALL is DuckDB's, whose `json` is a text.
            (SqlType::Json, None) => self.explicit(scalar, &SqlType::Text, false)?,
            _ => scalar,
        };
        if scalar.sql_type() == SqlType::Json {
            let message = format!("could not identify an ordering operator for type {}", scalar.sql_type());
            return Err(placed(Error::input(message).with_code("42883"), || expression.and_then(place)));
        }
        let order = self.context.default_order();
        let descending = options.asc.map_or(order.descending, |ascending| !ascending);
        let nulls_first = options.nulls_first.unwrap_or_else(|| order.nulls.is_first(descending));
        Ok(SortKey { scalar, descending, nulls_first })
    }

    pub(super) fn chosen(&self, name: &str, parts: &Call) -> Result<AggregateCall> {
        let candidates = parts.arguments.iter().map(Self::candidate).collect::<Vec<_>>();
        let call = resolve_aggregate(name, &candidates)?;
        if call.overload.is_ordered_set != parts.is_within_group {
            let message = if parts.is_within_group {
                format!("{name} is not an ordered-set aggregate, so it cannot have WITHIN GROUP")
            } else {
                format!("WITHIN GROUP is required for ordered-set aggregate {name}")
            };
            return Err(Error::input(message).with_code("42809"));
        }
        Ok(call)
    }

    /// An aggregate by name over bound arguments.
    pub(super) fn plain(
        &self,
        name: &str,
        arguments: Vec<Scalar>,
        parts: &Call,
        place: &dyn Fn(AggregateItem, bool) -> Scalar,
    ) -> Result<Scalar> {
        let (is_distinct, filter) = (parts.is_distinct, parts.filter.clone());
        let parts = Call { arguments: vec![], is_distinct, filter, order: vec![], is_within_group: false };
        self.ordered_aggregate(name, arguments, &parts, place)
    }

    /// The same with the order of the parts.
    pub(super) fn ordered_aggregate(
        &self,
        name: &str,
        arguments: Vec<Scalar>,
        parts: &Call,
        place: &dyn Fn(AggregateItem, bool) -> Scalar,
    ) -> Result<Scalar> {
        let candidates = arguments.iter().map(Self::candidate).collect::<Vec<_>>();
        let call = resolve_aggregate(name, &candidates)?;
        let parts = Call {
            arguments,
            is_distinct: parts.is_distinct,
            filter: parts.filter.clone(),
            order: parts.order.clone(),
            is_within_group: false,
        };
        self.computed(name, call, parts, place)
    }

    /// The value of an aggregate: one item that the engine computes, or an expression of several. `place` puts an item
    /// where it belongs and gives its column.
    pub(super) fn computed(
        &self,
        name: &str,
        call: AggregateCall,
        mut parts: Call,
        place: &dyn Fn(AggregateItem, bool) -> Scalar,
    ) -> Result<Scalar> {
        match call.overload.body {
            AggregateBody::DataFusion { .. } | AggregateBody::Rows(_) | AggregateBody::Extreme { .. } => {}
            AggregateBody::Average => return self.average(&call, parts, place),
            AggregateBody::Rewritten => return self.rewritten(name, call, parts, place),
        }
        let arguments = std::mem::take(&mut parts.arguments).into_iter().enumerate();
        let arguments = arguments.map(|(index, argument)| match call.arguments.get(index) {
            Some(to) => self.cast(argument, to, Way::Implicit),
            None => self.typed(argument),
        });
        let mut arguments = arguments.collect::<Result<Vec<_>>>()?;
        let mut call = call;
        self.collated_aggregate(name, &mut call, &arguments)?;
        // What is counted once is told apart by its key.
        if parts.is_distinct && name == "count" {
            arguments = arguments.into_iter().map(|argument| self.group_key(argument)).collect::<Result<_>>()?;
        }
        let order = parts.order.into_iter().map(|key| Ok(SortKey { scalar: self.key(key.scalar)?, ..key }));
        let order = order.collect::<Result<_>>()?;
        let item =
            AggregateItem { call, arguments, is_distinct: parts.is_distinct, filter: parts.filter, order, made: None };
        Ok(place(item, name != "count"))
    }

    /// `avg` of integers and numerics: the sum by the count.
    pub(super) fn average(
        &self,
        call: &AggregateCall,
        mut parts: Call,
        place: &dyn Fn(AggregateItem, bool) -> Scalar,
    ) -> Result<Scalar> {
        let argument = parts.arguments.pop().ok_or_else(|| Error::bug("avg without an argument"))?;
        let argument = match call.arguments.first() {
            Some(to) => self.cast(argument, to, Way::Implicit)?,
            None => argument,
        };
        let sum = self.plain("sum", vec![argument.clone()], &parts, place)?;
        let count = self.plain("count", vec![argument], &parts, place)?;
        let quotient = self.operator("/", vec![self.as_numeric(sum)?, self.as_numeric(count)?])?;
        self.cast(quotient, &call.returns, Way::Implicit)
    }

    /// An integer as a numeric without digits behind the point.
    pub(super) fn as_numeric(&self, scalar: Scalar) -> Result<Scalar> {
        match scalar.sql_type() {
            SqlType::SmallInt | SqlType::Integer | SqlType::BigInt => {
                self.cast(scalar, &SqlType::decimal(19, 0), Way::Implicit)
            }
            _ => Ok(scalar),
        }
    }

    /// Aggregates that are expressions of others.
    pub(super) fn rewritten(
        &self,
        name: &str,
        call: AggregateCall,
        mut parts: Call,
        place: &dyn Fn(AggregateItem, bool) -> Scalar,
    ) -> Result<Scalar> {
        let arguments = std::mem::take(&mut parts.arguments).into_iter().enumerate();
        let arguments = arguments.map(|(index, argument)| match call.arguments.get(index) {
            Some(to) => self.cast(argument, to, Way::Implicit),
            None => self.typed(argument),
        });
        let arguments = arguments.collect::<Result<Vec<_>>>()?;
        match (name, arguments.as_slice()) {
            ("avg", [moment])
                if matches!(moment.sql_type(), SqlType::Date | SqlType::Timestamp | SqlType::TimestampTz) =>
            {
                self.mean_moment(moment.clone(), &parts, place)
            }
            ("avg", [_]) => {
                let sum = self.plain("sum", arguments.clone(), &parts, place)?;
                let count = self.plain("count", arguments, &parts, place)?;
                let count = self.cast(count, &SqlType::Double, Way::Implicit)?;
                self.operator("/", vec![sum, count])
            }
            ("variance" | "var_samp" | "var_pop" | "stddev" | "stddev_samp" | "stddev_pop", [_]) => {
                self.deviation(name, call, arguments, parts, place)
            }
            _ => self.made(name, arguments, &parts, place),
        }
    }

    /// Variances and deviations of integers and numerics: a function of the count, the sum and the sum of squares.
    pub(super) fn deviation(
        &self,
        name: &str,
        call: AggregateCall,
        mut arguments: Vec<Scalar>,
        parts: Call,
        place: &dyn Fn(AggregateItem, bool) -> Scalar,
    ) -> Result<Scalar> {
        let argument = arguments.pop().ok_or_else(|| Error::bug("a variance of nothing"))?;
        let x = self.as_numeric(argument)?;
        if parts.is_distinct {
            // Squares of values that differ may be equal.
            let Call { is_distinct, filter, .. } = parts;
            let item = AggregateItem { call, arguments: vec![x], is_distinct, filter, order: vec![], made: None };
            return Ok(place(item, true));
        }
        let parts = &parts;
        let square = self.operator("*", vec![x.clone(), x.clone()])?;
        let count = self.plain("count", vec![x.clone()], parts, place)?;
        let sum = self.plain("sum", vec![x], parts, place)?;
        let squares = self.plain("sum", vec![square], parts, place)?;
        let function = match name {
            "variance" => "numeric_var_samp".to_owned(),
            "stddev" => "numeric_stddev_samp".to_owned(),
            other => format!("numeric_{other}"),
        };
        let value = self.call(&function, vec![count, sum, squares])?;
        self.cast(value, &call.returns, Way::Implicit)
    }

    /// An aggregate as a window's function: `place` puts each item into the window.
    pub(super) fn windowed(
        &self,
        name: &str,
        arguments: Vec<Scalar>,
        is_distinct: bool,
        filter: Option<Scalar>,
        place: &dyn Fn(AggregateItem, bool) -> Scalar,
    ) -> Result<Scalar> {
        let parts = Call { arguments, is_distinct, filter, order: vec![], is_within_group: false };
        let call = self.chosen(name, &parts)?;
        self.computed(name, call, parts, place)
    }

    /// `rank(a) WITHIN GROUP (ORDER BY x)` and its kin: where a row would be among those of the group.
    pub(super) fn hypothetical(&self, name: &str, function: &Function, level: &Level<'_>) -> Result<Scalar> {
        self.trackers.borrow_mut().push(Tracker::new(level.depth));
        let was_inside = level.in_aggregate.get();
        let bound = self.direct(|| self.arguments(name, written(function), level)).and_then(|direct| {
            level.in_aggregate.set(true);
            let parts = self.hypothetical_parts(name, function, &direct, level);
            level.in_aggregate.set(was_inside);
            Ok((direct, parts?))
        });
        let tracker = self.trackers.borrow_mut().pop();
        let (direct, (before, equal, key_columns, filter)) = bound?;
        let target = self.level_of(tracker, level, was_inside)?;
        target.directs.borrow_mut().extend(direct);
        let count = |condition: Option<Scalar>, distinct: Option<Scalar>| {
            let conditions = filter.iter().cloned().chain(condition).collect::<Vec<_>>();
            let parts = Call {
                is_distinct: distinct.is_some(),
                arguments: distinct.into_iter().collect(),
                filter: (!conditions.is_empty()).then(|| Scalar::all(conditions)),
                order: vec![],
                is_within_group: false,
            };
            let call = self.chosen("count", &parts)?;
            self.computed("count", call, parts, &|item, nullable| self.placed_for(level, target, item, nullable))
        };
        let one = || Scalar::Constant(Constant::bigint(1));
        match name {
            "rank" => self.operator("+", vec![count(Some(before), None)?, one()]),
            "dense_rank" => {
                let sql_types = key_columns
                    .iter()
                    .enumerate()
                    .map(|(index, key)| RecordField { name: format!("f{}", index + 1), sql_type: key.sql_type() });
                let sql_type = SqlType::Record(sql_types.collect());
                let row = Scalar::Record { fields: key_columns, sql_type };
                self.operator("+", vec![count(Some(before), Some(row))?, one()])
            }
            _ => {
                let all = self.cast(count(None, None)?, &SqlType::Double, Way::Implicit)?;
                let double = |value: f64| {
                    let value = datafusion_common::ScalarValue::Float64(Some(value));
                    Scalar::Constant(Constant { value, sql_type: SqlType::Double })
                };
                if name == "percent_rank" {
                    let before = self.cast(count(Some(before), None)?, &SqlType::Double, Way::Implicit)?;
                    let none = self.compare(Comparison::Equal, all.clone(), double(0.0))?;
                    let share = self.operator("/", vec![before, all])?;
                    let otherwise = Some(Box::new(share));
                    return Ok(Scalar::Case { arms: vec![(none, double(0.0))], otherwise, sql_type: SqlType::Double });
                }
                let up_to = count(Some(Scalar::any([before, equal])), None)?;
                let up_to = self.cast(up_to, &SqlType::Double, Way::Implicit)?;
                let up_to = self.operator("+", vec![up_to, double(1.0)])?;
                let all = self.operator("+", vec![all, double(1.0)])?;
                self.operator("/", vec![up_to, all])
            }
        }
    }

    /// Whether a row of the group is before the hypothetical one, whether it is its peer, its keys, and FILTER. Fails
    /// with 42883 if there are not as many arguments as keys.
    fn hypothetical_parts(
        &self,
        name: &str,
        function: &Function,
        direct: &[Scalar],
        level: &Level<'_>,
    ) -> Result<(Scalar, Scalar, Vec<Scalar>, Option<Scalar>)> {
        let keys = &function.within_group;
        if direct.len() != keys.len() || keys.is_empty() {
            let types = direct.iter().map(|argument| argument.sql_type().to_string()).collect::<Vec<_>>().join(", ");
            let error = Error::input(format!("function {name}({types}) does not exist")).with_code("42883");
            let hint = format!(
                "{name} takes as many arguments (here {}) as WITHIN GROUP has expressions (here {})",
                direct.len(),
                keys.len()
            );
            return Err(error.with_hint(hint));
        }
        let mut before = Vec::new();
        let mut equal: Vec<Scalar> = Vec::new();
        let mut columns = Vec::new();
        for (argument, key) in direct.iter().zip(keys) {
            let SortKey { scalar, descending, nulls_first } = {
                let scalar = self.scalar(&key.expr, level)?;
                self.sorted(scalar, &key.options, Some(&key.expr))?
            };
            let (both, _) = self.in_common(vec![scalar, argument.clone()], "WITHIN GROUP")?;
            let keys = both.into_iter().map(|scalar| self.key(scalar)).collect::<Result<Vec<_>>>()?;
            let [row, wanted] = keys.try_into().map_err(|_| Error::bug("two values are two"))?;
            let comparison = if descending { Comparison::Greater } else { Comparison::Less };
            let is_null = |scalar: &Scalar| Scalar::IsNull(Box::new(scalar.clone()));
            // NULLs are on one side of all values.
            let (first, last) = if nulls_first { (&row, &wanted) } else { (&wanted, &row) };
            let apart = Scalar::all([is_null(first), is_null(last).negate()]);
            let less =
                Scalar::Coalesce(vec![self.compare(comparison, row.clone(), wanted.clone())?, Scalar::boolean(false)]);
            let is_before = Scalar::any([less, apart]);
            before.push(Scalar::all(equal.iter().cloned().chain([is_before])));
            equal.push(self.compare(Comparison::IsNotDistinctFrom, row.clone(), wanted)?);
            columns.push(row);
        }
        let filter = match &function.filter {
            Some(filter) => Some(self.condition(filter, level, "FILTER")?),
            None => None,
        };
        Ok((Scalar::any(before), Scalar::all(equal), columns, filter))
    }

    /// An aggregate's column at the level that it belongs to.
    pub(super) fn placed_in(&self, target: &Level<'_>, item: AggregateItem, nullable: bool) -> Scalar {
        let mut aggregates = target.aggregates.borrow_mut();
        let known = aggregates.iter().find(|(_, other)| *other == item).map(|(column, _)| column.clone());
        let column = known.unwrap_or_else(|| {
            let column = self.numbers.named(item.name(), item.call.returns.clone(), nullable);
            aggregates.push((column.clone(), item));
            column
        });
        column.scalar()
    }
}
