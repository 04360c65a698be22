//! A relation as text, for golden scripts and EXPLAIN VERBOSE: one operator a line, its inputs below it and further in,
//! columns by their numbers.

use std::fmt::{self, Write};

use diligence_engine::plan::Exclusion;
use diligence_types::SqlType;

use super::{
    AggregateItem, Column, ColumnId, Constant, FunctionItem, JoinKind, Quantifier, Relation, Scalar, SetKind, SortKey,
    Subquery, SubqueryKind, WindowItem, WindowKind,
};

/// Blanks that an operator stands further in than the one that reads it.
const INDENT: usize = 2;

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        write_relation(&mut text, self, 0)?;
        f.write_str(text.trim_end())
    }
}

impl fmt::Display for Column {
    /// Number, name and type; `?` behind the type of a column that may be NULL.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.nullable { "?" } else { "" };
        write!(f, "{} {} {}{mark}", self.id, self.name, self.sql_type)
    }
}

/// A list with commas.
struct List<'a, T>(&'a [T]);

impl<T: fmt::Display> fmt::Display for List<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, item) in self.0.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{item}")?;
        }
        Ok(())
    }
}

fn write_relation(out: &mut String, relation: &Relation, depth: usize) -> fmt::Result {
    write!(out, "{:1$}", "", depth * INDENT)?;
    // Subqueries in expressions are shown below the operator, each under its number there.
    let mut subqueries = Vec::new();
    for scalar in relation.scalars() {
        scalar.visit(&mut |part| {
            if let Scalar::Subquery(subquery) = part {
                subqueries.push(subquery.as_ref());
            }
        });
    }
    write_operator(out, relation)?;
    out.push('\n');
    for subquery in subqueries {
        writeln!(out, "{:2$}subquery {}", "", List(&ids(&subquery.columns)), (depth + 1) * INDENT)?;
        write_relation(out, &subquery.relation, depth + 2)?;
    }
    for (index, input) in relation.inputs().into_iter().enumerate() {
        if let Relation::Definitions { definitions, .. } = relation
            && let Some((id, _, columns)) = definitions.get(index)
        {
            writeln!(out, "{:3$}with {} {}", "", id.0, List(&ids(columns)), (depth + 1) * INDENT)?;
            write_relation(out, input, depth + 2)?;
            continue;
        }
        write_relation(out, input, depth + 1)?;
    }
    Ok(())
}

fn ids(columns: &[Column]) -> Vec<ColumnId> {
    columns.iter().map(|column| column.id).collect()
}

fn write_operator(out: &mut String, relation: &Relation) -> fmt::Result {
    match relation {
        Relation::Scan(scan) => {
            let columns = scan.columns.iter().map(|(_, column)| column.clone()).collect::<Vec<_>>();
            write!(out, "Scan {} [{}]", scan.name, List(&columns))?;
            if let Some((share, is_clusters)) = &scan.sample {
                let of = if *is_clusters { "clusters" } else { "rows" };
                write!(out, " sample {share} of {of}")?;
            }
            Ok(())
        }
        Relation::Values { columns, rows } => {
            write!(out, "Values [{}]", List(columns))?;
            rows.iter().try_for_each(|row| write!(out, " ({})", List(row)))
        }
        Relation::Map { columns, .. } => write!(out, "Map {}", computed(columns)),
        Relation::Filter { condition, .. } => write!(out, "Filter {condition}"),
        Relation::Join(join) => write!(out, "Join {} on {}", kind(&join.kind), join.on),
        Relation::Apply(apply) => write!(out, "Apply {} on {}", kind(&apply.kind), apply.on),
        Relation::Aggregate(aggregate) => {
            write!(out, "Aggregate by [{}]", computed(&aggregate.groups))?;
            if let Some(sets) = &aggregate.sets {
                write!(out, " sets {}", sets.set_index)?;
                for set in &sets.sets {
                    let marks = set.iter().map(|is_in| if *is_in { '1' } else { '0' }).collect::<String>();
                    write!(out, " {marks}")?;
                }
            }
            let items = aggregate.aggregates.iter().map(|(column, item)| format!("{column} = {item}"));
            write!(out, " [{}]", List(&items.collect::<Vec<_>>()))
        }
        Relation::Window(window) => {
            write!(out, "Window by [{}] order [{}]", List(&window.partition), List(&window.order))?;
            let items = window.items.iter().map(|(column, item)| format!("{column} = {item}"));
            write!(out, " [{}]", List(&items.collect::<Vec<_>>()))
        }
        Relation::Distinct { on, keeps_all, .. } => {
            write!(out, "Distinct {}{}", if *keeps_all { "on " } else { "" }, List(on))
        }
        Relation::Sort { keys, .. } => write!(out, "Sort {}", List(keys)),
        Relation::Limit(limit) => {
            out.push_str("Limit");
            if let Some(fetch) = &limit.fetch {
                write!(out, " {fetch}")?;
            }
            if let Some(skip) = &limit.skip {
                write!(out, " offset {skip}")?;
            }
            match &limit.ties {
                Some(ties) => write!(out, " with ties of {}", List(ties)),
                None => Ok(()),
            }
        }
        Relation::Set(set) => {
            let name = match set.kind {
                SetKind::Union => "Union",
                SetKind::Intersect => "Intersect",
                SetKind::Except => "Except",
            };
            let all = if set.is_all { " all" } else { "" };
            write!(out, "{name}{all} [{}]", List(&set.columns))?;
            set.inputs.iter().try_for_each(|(_, columns)| write!(out, " ({})", List(columns)))
        }
        Relation::Recursive(recursive) => {
            let distinct = if recursive.is_distinct { " distinct" } else { "" };
            write!(out, "Recursive {} {}{distinct} [{}]", recursive.id.0, recursive.name, List(&recursive.columns))?;
            write!(out, " base ({}) step ({})", List(&recursive.base.1), List(&recursive.step.1))
        }
        Relation::With(table) => write!(out, "With {} {} [{}]", table.id.0, table.name, List(&table.columns)),
        Relation::Definitions { .. } => write!(out, "Definitions"),
        Relation::TableFunction(function) => {
            write!(out, "Rows {}", List(&function.items))?;
            if let Some(ordinality) = &function.ordinality {
                write!(out, " ordinality {ordinality}")?;
            }
            out.push_str(if function.keeps_all { " keeps all" } else { "" });
            Ok(())
        }
    }
}

fn computed(columns: &[(Column, Scalar)]) -> String {
    let columns = columns.iter().map(|(column, scalar)| format!("{column} = {scalar}"));
    List(&columns.collect::<Vec<_>>()).to_string()
}

fn kind(kind: &JoinKind) -> String {
    match kind {
        JoinKind::Inner => "inner".into(),
        JoinKind::Left => "left".into(),
        JoinKind::Full => "full".into(),
        JoinKind::Semi => "semi".into(),
        JoinKind::Anti => "anti".into(),
        JoinKind::Mark(mark) => format!("mark {mark}"),
        JoinKind::Single => "single".into(),
    }
}

impl fmt::Display for SortKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.scalar)?;
        if self.descending {
            f.write_str(" desc")?;
        }
        // What PostgreSQL does by itself is not shown.
        match (self.descending, self.nulls_first) {
            (false, true) => f.write_str(" nulls first"),
            (true, false) => f.write_str(" nulls last"),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for FunctionItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", List(&self.columns), self.array)
    }
}

impl fmt::Display for AggregateItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let distinct = if self.is_distinct { "distinct " } else { "" };
        write!(f, "{}({distinct}{}", self.name(), List(&self.arguments))?;
        if !self.order.is_empty() {
            write!(f, " order {}", List(&self.order))?;
        }
        f.write_str(")")?;
        match &self.filter {
            Some(filter) => write!(f, " filter {filter}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for WindowItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            WindowKind::Engine(function) => write!(f, "{function:?}")?,
            WindowKind::Aggregate { call, is_distinct } => {
                let distinct = if *is_distinct { " distinct" } else { "" };
                write!(f, "{}{distinct}", call.overload.name)?;
            }
        }
        write!(f, "({}", List(&self.arguments))?;
        if !self.order.is_empty() {
            write!(f, " order {}", List(&self.order))?;
        }
        f.write_str(")")?;
        if let Some(filter) = &self.filter {
            write!(f, " filter {filter}")?;
        }
        write!(f, " {}", self.frame.frame)?;
        if self.frame.distances.iter().any(Option::is_some) {
            write!(f, " of [{}]", List(&self.frame.distances.iter().flatten().collect::<Vec<_>>()))?;
        }
        f.write_str(match self.frame.excludes {
            Exclusion::NoOthers => "",
            Exclusion::CurrentRow => " exclude current row",
            Exclusion::Group => " exclude group",
            Exclusion::Ties => " exclude ties",
        })
    }
}

impl fmt::Display for Constant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_null() {
            return write!(f, "null::{}", self.sql_type);
        }
        match (&self.sql_type, self.value.try_as_str().flatten()) {
            (SqlType::Text, Some(text)) => write!(f, "'{}'", text.replace('\'', "''")),
            (sql_type, Some(text)) => write!(f, "'{}'::{sql_type}", text.replace('\'', "''")),
            (SqlType::Integer | SqlType::Boolean, None) => write!(f, "{}", self.value),
            (sql_type, None) => write!(f, "{}::{sql_type}", self.value),
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Column { id, .. } => write!(f, "{id}"),
            Self::Constant(constant) => write!(f, "{constant}"),
            Self::Parameter { index, sql_type } => write!(f, "${}::{sql_type}", index + 1),
            Self::Call { call, arguments } => {
                let name = call.overload.name.trim_start_matches("duckdb ");
                let is_sign = !name.starts_with(|c: char| c.is_alphabetic() || c == '_');
                match arguments.as_slice() {
                    [left, right] if is_sign => write!(f, "({left} {name} {right})"),
                    [only] if is_sign => write!(f, "({name} {only})"),
                    _ => write!(f, "{name}({})", List(arguments)),
                }
            }
            Self::Asked { function, arguments, .. } => write!(f, "{}({})", function.name(), List(arguments)),
            Self::Cast { input, to, is_try, is_explicit } => {
                let name = match (is_try, is_explicit) {
                    (true, _) => "try_cast",
                    (false, true) => "cast",
                    // Nobody wrote it.
                    (false, false) => "as",
                };
                write!(f, "{name}({input}, {to})")
            }
            Self::Compare { comparison, left, right } => write!(f, "({left} {} {right})", comparison.sign()),
            Self::And(terms) => write_terms(f, terms, " and "),
            Self::Or(terms) => write_terms(f, terms, " or "),
            Self::Not(input) => write!(f, "not {input}"),
            Self::IsNull(input) => write!(f, "({input} is null)"),
            Self::InList { value, list, is_negated } => {
                let not = if *is_negated { "not " } else { "" };
                write!(f, "({value} {not}in ({}))", List(list))
            }
            Self::Like { value, pattern, escape, is_negated, ignores_case } => {
                let not = if *is_negated { "not " } else { "" };
                let name = if *ignores_case { "ilike" } else { "like" };
                write!(f, "({value} {not}{name} {pattern}")?;
                match escape {
                    Some('\\') => {}
                    Some(escape) => write!(f, " escape '{escape}'")?,
                    None => f.write_str(" escape ''")?,
                }
                f.write_str(")")
            }
            Self::Case { arms, otherwise, .. } => {
                f.write_str("case")?;
                for (condition, value) in arms {
                    write!(f, " when {condition} then {value}")?;
                }
                if let Some(otherwise) = otherwise {
                    write!(f, " else {otherwise}")?;
                }
                f.write_str(" end")
            }
            Self::Coalesce(inputs) => write!(f, "coalesce({})", List(inputs)),
            Self::Record { fields, .. } => write!(f, "row({})", List(fields)),
            Self::Field { input, index, .. } => write!(f, "{input}.{}", index + 1),
            Self::Array { elements, sql_type } => match elements.is_empty() {
                true => write!(f, "[]::{sql_type}"),
                false => write!(f, "[{}]", List(elements)),
            },
            Self::Subquery(subquery) => write!(f, "{subquery}"),
        }
    }
}

fn write_terms(f: &mut fmt::Formatter<'_>, terms: &[Scalar], between: &str) -> fmt::Result {
    f.write_str("(")?;
    for (index, term) in terms.iter().enumerate() {
        f.write_str(if index > 0 { between } else { "" })?;
        write!(f, "{term}")?;
    }
    f.write_str(")")
}

impl fmt::Display for Subquery {
    /// What is asked, with the subquery's columns in the place of its rows.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = ids(&self.columns);
        match &self.kind {
            SubqueryKind::Exists => write!(f, "exists({})", List(&columns)),
            SubqueryKind::Value => write!(f, "value({})", List(&columns)),
            SubqueryKind::Array => write!(f, "array({})", List(&columns)),
            SubqueryKind::Quantified { left, comparison, quantifier } => {
                let quantifier = if *quantifier == Quantifier::Any { "any" } else { "all" };
                write!(f, "(({}) {} {quantifier}({}))", List(left), comparison.sign(), List(&columns))
            }
        }
    }
}
