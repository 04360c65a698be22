//! WITH: common table expressions, recursive ones, SEARCH and CYCLE.
//!
//! A common table expression is bound once. What is read once and may be computed in its place goes there; what nothing
//! reads goes away; the rest is computed at most once ([`Relation::Definitions`]).

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use diligence_base::{Error, Result};
use diligence_storage::Table;
use diligence_types::SqlType;
use diligence_types::coercion::common_type;
use diligence_types::record_type::RecordType;
use diligence_types::sql_type::RecordField;
use sqlparser::ast::{
    Cte, CteAsMaterialized, Expr, Ident, ObjectName, Query, SetExpr, SetOperator, SetQuantifier, Setting, TableFactor,
    With,
};

use super::recursion;
use super::scope::{Clause, Level, Namespace, WithEntry, Withs};
use super::sets::misplaced_recursion;
use super::syntax::unnested;
use super::{
    Binder, Bound, Context, Output, Rows, STACK_GROWTH, STACK_RED_ZONE, name_place, normalized, place, unsupported,
};
use crate::algebra::{Column, Comparison, Constant, Recursive, Relation, Scalar, Scan, WithId};
use crate::errors;
use crate::written::WrittenRows;

/// A bound common table expression.
pub(super) struct Definition {
    id: WithId,
    relation: Relation,
    columns: Vec<Column>,
    materialized: Option<CteAsMaterialized>,
    /// Its rows, if it runs by itself.
    written: Option<Arc<WrittenRows>>,
}

/// Whether texts of a type have a length that a step's texts could exceed.
fn has_length(sql_type: &SqlType) -> bool {
    matches!(sql_type, SqlType::Varchar(Some(_)) | SqlType::Char(Some(_)))
}

/// Whether a statement of a WITH writes.
pub(crate) fn is_writing(query: &Query) -> bool {
    matches!(query.body.as_ref(), SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_))
}

/// Binds the last expression of a WITH, if it would be another one each time. Fails like
/// [`bind_query`](super::bind_query).
pub(crate) fn bind_volatile(with: With, name: &Ident, context: &dyn Context) -> Result<Option<Bound>> {
    let mut query = crate::parse::query("SELECT * FROM t")?;
    if let SetExpr::Select(select) = query.body.as_mut()
        && let Some(from) = select.from.first_mut()
        && let TableFactor::Table { name: table, .. } = &mut from.relation
    {
        *table = ObjectName::from(vec![name.clone()]);
    }
    query.with = Some(with);
    let bound = super::bind_query(&query, context)?;
    Ok(is_volatile(&bound.relation).then_some(bound))
}

impl Withs<'_> {
    /// A query that runs by itself, behind the common table expressions that are seen here, as they are written. Those
    /// that write are left out.
    pub(super) fn around(&self, mut query: Query) -> Query {
        if let Some(written) = self.written {
            let entries = self.entries.borrow();
            let is_seen = |cte: &&Cte| entries.contains_key(&normalized(&cte.alias.name)) && !is_writing(&cte.query);
            let seen = written.cte_tables.iter().filter(is_seen).cloned().collect::<Vec<_>>();
            if !seen.is_empty() {
                let with = With { cte_tables: seen, ..written.clone() };
                query = match query.with {
                    None => Query { with: Some(with), ..query },
                    Some(_) => Query {
                        with: Some(with),
                        body: Box::new(SetExpr::Query(Box::new(query))),
                        order_by: None,
                        limit_clause: None,
                        fetch: None,
                        locks: vec![],
                        for_clause: None,
                        settings: None,
                        format_clause: None,
                        pipe_operators: vec![],
                    },
                };
            }
        }
        match self.outer {
            Some(outer) => outer.around(query),
            None => query,
        }
    }
}

impl Binder<'_> {
    /// Binds the expressions of a WITH, each of which sees those before it; those of a WITH RECURSIVE see all others.
    /// Fails with 42712 if a name is given twice, with 0A000 if two read each other.
    pub(super) fn definitions(
        &self,
        with: &With,
        outer: Option<&Level<'_>>,
        withs: &Withs<'_>,
    ) -> Result<Vec<Definition>> {
        let mut definitions = Vec::with_capacity(with.cte_tables.len());
        for cte in recursion::in_order(with)? {
            let name = normalized(&cte.alias.name);
            if withs.entries.borrow().contains_key(&name) {
                let error = Error::input(format!("WITH query name \"{name}\" specified more than once"));
                return Err(errors::at(error.with_code("42712"), name_place(&cte.alias.name)));
            }
            let id = self.numbers.with();
            let written = self.context.written(cte);
            let mut rows = match &written {
                Some(written) => self.rows_written(written.clone()),
                None if is_writing(&cte.query) => {
                    let message = "WITH clause containing a data-modifying statement must be at the top level";
                    let error = Error::unsupported(message).with_code("0A000");
                    return Err(errors::at(error, name_place(&cte.alias.name)));
                }
                None if with.recursive => self.maybe_recursive(cte, &name, id, outer, withs)?,
                None => self.query(&cte.query, outer, withs)?,
            };
            rename(&mut rows, cte)?;
            let rows = self.settled(rows)?;
            let columns = rows.columns();
            let gives_nothing = is_writing(&cte.query) && columns.is_empty();
            let (reads, is_recursion) = (Rc::new(Cell::new(0)), false);
            let of_entry = columns.clone();
            let entry = WithEntry { id, columns: of_entry, reads, gives_nothing, is_recursion, added: 0 };
            withs.entries.borrow_mut().insert(name, Rc::new(entry));
            let (relation, materialized) = (rows.relation, cte.materialized);
            definitions.push(Definition { id, relation, columns, materialized, written });
        }
        Ok(definitions)
    }

    /// The rows of an expression that runs by itself.
    fn rows_written(&self, written: Arc<WrittenRows>) -> Rows {
        let schema = written.schema();
        let columns = schema.fields().iter().enumerate().filter_map(|(place, field)| {
            let sql_type = SqlType::of_field(field)?.untimed();
            Some((place, self.numbers.named(field.name(), sql_type, field.is_nullable())))
        });
        let columns = columns.collect::<Vec<_>>();
        let output = |(_, column): &(usize, Column)| Output { name: column.name.clone(), scalar: column.scalar() };
        let outputs = columns.iter().map(output).collect();
        let scan = Scan { name: written.describe(), table: written, columns, sample: None };
        Rows { relation: Relation::Scan(scan), outputs }
    }

    /// A query with its definitions, as far as they are read.
    pub(super) fn defined(&self, definitions: Vec<Definition>, mut rows: Rows) -> Rows {
        // Unread ones go first, from the last on: what only they read is unread then, too.
        let mut reads = HashMap::new();
        count_reads(&rows.relation, &mut reads);
        let mut kept = Vec::with_capacity(definitions.len());
        for definition in definitions.into_iter().rev() {
            if reads.get(&definition.id).copied().unwrap_or(0) > 0 {
                count_reads(&definition.relation, &mut reads);
                definition.written.iter().for_each(|written| written.is_read_from_now());
                kept.push(definition);
            }
        }
        kept.reverse();
        let mut inlined = HashMap::new();
        let mut shared = Vec::new();
        for definition in kept {
            let count = reads.get(&definition.id).copied().unwrap_or(0);
            if let Some(written) = definition.materialized {
                let is_materialized = written == CteAsMaterialized::Materialized;
                self.numbers.set_materialized(definition.id, is_materialized);
            }
            let may_move = match definition.materialized {
                Some(CteAsMaterialized::Materialized) => false,
                Some(CteAsMaterialized::NotMaterialized) | None => count == 1 && !is_volatile(&definition.relation),
            };
            if may_move {
                inlined.insert(definition.id, (definition.relation, definition.columns));
            } else {
                shared.push((definition.id, definition.relation, definition.columns));
            }
        }
        if !inlined.is_empty() {
            put_in(&mut rows.relation, &mut inlined);
            for (_, relation, _) in &mut shared {
                put_in(relation, &mut inlined);
            }
        }
        if !shared.is_empty() {
            rows.relation = Relation::Definitions { definitions: shared, input: Box::new(rows.relation) };
        }
        rows
    }

    /// An expression of a WITH RECURSIVE: recursive, if its second term reads it.
    fn maybe_recursive(
        &self,
        cte: &Cte,
        name: &str,
        id: WithId,
        outer: Option<&Level<'_>>,
        withs: &Withs<'_>,
    ) -> Result<Rows> {
        recursion::check(cte, name)?;
        let settings = cte.query.settings.as_deref().unwrap_or_default();
        let SetExpr::SetOperation { left, op: SetOperator::Union, set_quantifier, right } = cte.query.body.as_ref()
        else {
            return self.query(&cte.query, outer, withs);
        };
        let is_all = match set_quantifier {
            SetQuantifier::All => true,
            SetQuantifier::Distinct | SetQuantifier::None => false,
            _ => return self.query(&cte.query, outer, withs),
        };
        // WITH inside of the recursive query is seen by both terms.
        let inner = Withs { outer: Some(withs), written: cte.query.with.as_ref(), ..Withs::default() };
        let inner_definitions = match &cte.query.with {
            Some(with) => self.definitions(with, outer, &inner)?,
            None => vec![],
        };
        let base = self.set_expression(left, outer, &inner, false)?;
        let mut base = self.settled(base)?;
        rename(&mut base, cte)?;
        let traces = self.traces(settings, &base)?;
        let mut types = base.columns().iter().map(|column| column.sql_type.clone()).collect::<Vec<_>>();
        let names = base.outputs.iter().map(|output| output.name.clone()).collect::<Vec<_>>();

        let mut base = Some(base);
        for attempt in 0.. {
            let traced_types = traces.iter().map(|trace| (trace.name().to_owned(), trace.sql_type(&types, &names)));
            let traced = names.iter().cloned().zip(types.iter().cloned()).chain(traced_types.clone());
            let columns = traced.map(|(name, sql_type)| self.numbers.named(name, sql_type, true)).collect::<Vec<_>>();
            let reads = Rc::new(Cell::new(0));
            let (gives_nothing, is_recursion) = (false, true);
            let (added, of_entry, reads_of_entry) = (traces.len(), columns.clone(), reads.clone());
            let entry = WithEntry { id, columns: of_entry, reads: reads_of_entry, gives_nothing, is_recursion, added };
            inner.entries.borrow_mut().insert(name.to_owned(), Rc::new(entry));
            let step = self.step(right, &traces, name, id, outer, &inner);
            inner.entries.borrow_mut().remove(name);
            let step = step?;
            if reads.get() == 0 {
                // It never reads itself: a UNION like any other.
                return self.query(&cte.query, outer, withs);
            }
            let (mut relation, mut step_columns) = (step.relation, step.outputs);
            if step_columns.len() != types.len() + traces.len() {
                let message = "each UNION query must have the same number of columns";
                return Err(errors::at(Error::input(message).with_code("42601"), place(right.as_ref())));
            }
            let mut is_wider = false;
            for (index, sql_type) in types.iter_mut().enumerate() {
                let term = step_columns[index].scalar.sql_type();
                let overall = match &term {
                    SqlType::Unknown => Some(sql_type.clone()),
                    term => common_type(&[sql_type.clone(), term.clone()]),
                };
                match overall {
                    Some(overall) if overall == *sql_type => {}
                    // Literals have the digits that are written, where PostgreSQL's numerics have any number.
                    Some(SqlType::Numeric(_)) if matches!(sql_type, SqlType::Numeric(_)) && attempt == 0 => {
                        *sql_type = SqlType::NUMERIC;
                        is_wider = true;
                    }
                    Some(SqlType::Numeric(_)) if matches!(sql_type, SqlType::Numeric(None)) => {}
                    Some(overall) if overall.is_same(sql_type) && !has_length(sql_type) => {}
                    overall => {
                        let overall = overall.unwrap_or(term);
                        let by_length = overall.is_same(sql_type);
                        let shown = |one: &SqlType| if by_length { one.clone() } else { one.without_modifier() };
                        let message = format!(
                            "recursive query \"{name}\" column {} has type {} in non-recursive term but type {} overall",
                            index + 1,
                            shown(sql_type),
                            shown(&overall)
                        );
                        let error = Error::input(message).with_code("42804");
                        let error = error.with_hint("cast the output of the non-recursive term to the correct type");
                        return Err(errors::at(error, place(left.as_ref())));
                    }
                }
            }
            if is_wider {
                continue;
            }
            let Some(base) = base.take() else { return Err(Error::bug("a recursive query without a base")) };
            let (base_relation, mut base_columns) = self.in_types(base, &types)?;
            let traced = traces.iter().map(|trace| {
                let scalar = trace.begin(self, &base_columns, &names)?;
                Ok((self.column_for(trace.name(), &scalar), scalar))
            });
            let traced = traced.collect::<Result<Vec<_>>>()?;
            base_columns.extend(traced.iter().map(|(column, _)| column.clone()));
            let base_relation = base_relation.mapped(traced);
            let all = base_columns.iter().map(|column| column.sql_type.clone()).collect::<Vec<_>>();
            let outputs = std::mem::take(&mut step_columns);
            let taken = std::mem::replace(&mut relation, Relation::one_row());
            let (step_relation, step_columns) = self.in_types(Rows { relation: taken, outputs }, &all)?;
            let nullable = base_columns.iter().zip(&step_columns).map(|(base, step)| base.nullable || step.nullable);
            let columns = columns
                .iter()
                .zip(nullable)
                .map(|(column, nullable)| self.numbers.named(&column.name, column.sql_type.clone(), nullable));
            let columns = columns.collect::<Vec<_>>();
            let recursive = Recursive {
                id,
                name: name.to_owned(),
                base: (Box::new(base_relation), base_columns.iter().map(|column| column.id).collect()),
                step: (Box::new(step_relation), step_columns.iter().map(|column| column.id).collect()),
                is_distinct: !is_all,
                columns: columns.clone(),
            };
            let outputs = columns.iter().map(|column| Output { name: column.name.clone(), scalar: column.scalar() });
            let outputs = outputs.collect();
            let rows = self.defined(inner_definitions, Rows { relation: Relation::Recursive(recursive), outputs });
            if cte.query.order_by.is_some() || cte.query.limit_clause.is_some() || cte.query.fetch.is_some() {
                return Err(misplaced_recursion(name, "a query with ORDER BY, OFFSET or LIMIT"));
            }
            return Ok(rows);
        }
        Err(Error::bug("a recursive query whose types are never settled"))
    }

    /// The recursive term, with the columns of SEARCH and CYCLE behind its own.
    fn step(
        &self,
        term: &SetExpr,
        traces: &[Trace],
        name: &str,
        id: WithId,
        outer: Option<&Level<'_>>,
        withs: &Withs<'_>,
    ) -> Result<Rows> {
        let mut rows = self.set_expression(term, outer, withs, true)?;
        if traces.is_empty() {
            return Ok(rows);
        }
        let mut select = term;
        while let SetExpr::Query(query) = select {
            select = &query.body;
        }
        if !matches!(select, SetExpr::Select(_)) {
            let message = "with a SEARCH or CYCLE clause, the right side of the UNION must be a SELECT";
            return Err(errors::at(Error::input(message).with_code("42601"), place(term)));
        }
        // The columns that the step before has for them stand in the term's FROM.
        let mut before = Vec::new();
        find_table(&rows.relation, id, &mut before);
        let [before] = before.as_slice() else {
            let message = format!("with SEARCH or CYCLE the recursive term must read \"{name}\" in its FROM once");
            return Err(Error::input(message).with_code("0A000"));
        };
        let own = rows.outputs.len();
        if before.len() != own + traces.len() {
            let message = "each UNION query must have the same number of columns";
            return Err(errors::at(Error::input(message).with_code("42601"), place(term)));
        }
        let names = before[..own].iter().map(|column| column.name.clone()).collect::<Vec<_>>();
        let mut columns = Vec::with_capacity(own);
        let settled = self.settled(rows)?;
        columns.extend(settled.columns());
        rows = settled;
        for (index, trace) in traces.iter().enumerate() {
            let position = own + index;
            let scalar = trace.go_on(self, &before[position], &columns, &names)?;
            let column = self.column_for(trace.name(), &scalar);
            rows.outputs.push(Output { name: column.name.clone(), scalar: column.scalar() });
            rows.relation = rows.relation.mapped(vec![(column, scalar)]);
        }
        // A row that closes a cycle has no successors.
        for (index, trace) in traces.iter().enumerate() {
            if let Trace::Mark { yes, .. } = trace {
                let mark = before[own + index].scalar();
                let goes_on = self.compare(Comparison::IsDistinctFrom, mark, Scalar::Constant(yes.clone()))?;
                rows.relation = rows.relation.filtered(goes_on);
            }
        }
        Ok(rows)
    }

    /// The columns that SEARCH and CYCLE add.
    fn traces(&self, settings: &[Setting], base: &Rows) -> Result<Vec<Trace>> {
        let mut traces = Vec::new();
        let mut added: Vec<(&str, Ident)> = Vec::new();
        for setting in settings {
            let parts = match unnested(&setting.value) {
                Expr::Tuple(parts) => parts.as_slice(),
                one => std::slice::from_ref(one),
            };
            let name_of = |part: &Expr| match unnested(part) {
                Expr::Identifier(name) => Ok(name.clone()),
                other => Err(errors::at(Error::input("a column's name is expected").with_code("42601"), place(other))),
            };
            let columns_of = |what: &str, parts: &[Expr]| {
                let names = parts.iter().map(name_of).collect::<Result<Vec<_>>>()?;
                columns_named(what, &names, base)
            };
            match (setting.key.value.as_str(), parts) {
                ("search depth" | "search breadth", [by @ .., set]) => {
                    let by = columns_of("search", by)?;
                    added.push(("search sequence", name_of(set)?));
                    let name = normalized(&name_of(set)?);
                    traces.push(match setting.key.value.as_str() {
                        "search depth" => Trace::Depth { name, by },
                        _ => Trace::Breadth { name, by },
                    });
                }
                ("cycle", [columns, mark, yes, no, path]) => {
                    let columns = match unnested(columns) {
                        Expr::Tuple(columns) => columns.as_slice(),
                        one => std::slice::from_ref(one),
                    };
                    let by = columns_of("cycle", columns)?;
                    added.extend([("cycle mark", name_of(mark)?), ("cycle path", name_of(path)?)]);
                    let withs = Withs::default();
                    let level = Level::new(None, &withs, Namespace::default(), Clause::Values);
                    let values = vec![self.scalar(yes, &level)?, self.scalar(no, &level)?];
                    let (values, _) = self.in_common(values, "CYCLE")?;
                    let mut values = values.into_iter().map(|value| match value {
                        Scalar::Constant(constant) => Ok(constant),
                        _ => Err(unsupported("a mark of CYCLE that is not a literal")),
                    });
                    let (Some(yes), Some(no)) = (values.next(), values.next()) else {
                        return Err(Error::bug("a CYCLE without marks"));
                    };
                    let (name, path) = (normalized(&name_of(mark)?), normalized(&name_of(path)?));
                    traces.push(Trace::Mark { name, by: by.clone(), yes: yes?, no: no? });
                    traces.push(Trace::Depth { name: path, by });
                }
                _ => return Err(unsupported(format!("SETTINGS {}", setting.key))),
            }
        }
        refuse_same_names(&added, base)?;
        Ok(traces)
    }
}

/// The places of columns by which SEARCH orders or CYCLE compares. Fails with 42601 if one is not there, with 42701 if
/// one is named twice.
fn columns_named(what: &str, names: &[Ident], base: &Rows) -> Result<Vec<usize>> {
    let mut places = Vec::with_capacity(names.len());
    for name in names {
        let wanted = normalized(name);
        let at = |message: String, code| errors::at(Error::input(message).with_code(code), name_place(name));
        let found = base.outputs.iter().position(|output| output.name == wanted);
        let found =
            found.ok_or_else(|| at(format!("{what} column \"{wanted}\" not in WITH query column list"), "42601"))?;
        if places.contains(&found) {
            return Err(at(format!("{what} column \"{wanted}\" specified more than once"), "42701"));
        }
        places.push(found);
    }
    Ok(places)
}

/// Fails with 42601 if a column that SEARCH or CYCLE adds has the name of another one.
fn refuse_same_names(added: &[(&str, Ident)], base: &Rows) -> Result<()> {
    for (index, (kind, name)) in added.iter().enumerate() {
        let own = normalized(name);
        let other = added[..index].iter().find(|(_, other)| normalized(other) == own);
        let message = match other {
            Some((other, _)) => format!("{other} column name and {kind} column name are the same"),
            None if base.outputs.iter().any(|output| output.name == own) => {
                format!("{kind} column name \"{own}\" already used in WITH query column list")
            }
            None => continue,
        };
        return Err(errors::at(Error::input(message).with_code("42601"), name_place(name)));
    }
    Ok(())
}

/// A column that SEARCH or CYCLE adds to a recursive query.
enum Trace {
    /// The rows on the way to a row, as an array of their columns: what SEARCH DEPTH FIRST sorts by, CYCLE's path.
    Depth { name: String, by: Vec<usize> },
    /// The number of steps to a row and its columns: what SEARCH BREADTH FIRST sorts by.
    Breadth { name: String, by: Vec<usize> },
    /// Whether a row closes a cycle: it is on its own way. The path is the column behind it.
    Mark { name: String, by: Vec<usize>, yes: Constant, no: Constant },
}

impl Trace {
    fn name(&self) -> &str {
        match self {
            Self::Depth { name, .. } | Self::Breadth { name, .. } | Self::Mark { name, .. } => name,
        }
    }

    fn row_type(by: &[usize], types: &[SqlType], names: &[String]) -> Vec<RecordField> {
        let field = |index: &usize| RecordField { name: names[*index].clone(), sql_type: types[*index].clone() };
        by.iter().map(field).collect()
    }

    fn sql_type(&self, types: &[SqlType], names: &[String]) -> SqlType {
        match self {
            Self::Depth { by, .. } => {
                SqlType::array_of(SqlType::Record(RecordType::row(Self::row_type(by, types, names))))
            }
            Self::Breadth { by, .. } => {
                let depth = RecordField { name: "depth".into(), sql_type: SqlType::BigInt };
                let fields = std::iter::once(depth).chain(Self::row_type(by, types, names));
                SqlType::Record(RecordType::row(fields.collect()))
            }
            Self::Mark { yes, .. } => yes.sql_type.clone(),
        }
    }

    /// The row's own columns.
    fn row(by: &[usize], columns: &[Column], names: &[String], depth: Option<Scalar>) -> Scalar {
        let named = by.iter().map(|index| (names[*index].clone(), columns[*index].scalar()));
        let all = depth.into_iter().map(|depth| ("depth".to_owned(), depth)).chain(named);
        let (names, fields) = all.unzip::<_, _, Vec<_>, Vec<_>>();
        super::operators::named_row(fields, names.into_iter())
    }

    /// The value in the rows that the recursion begins with.
    fn begin(&self, _binder: &Binder<'_>, columns: &[Column], names: &[String]) -> Result<Scalar> {
        Ok(match self {
            Self::Depth { by, .. } => {
                let row = Self::row(by, columns, names, None);
                let sql_type = SqlType::array_of(row.sql_type());
                Scalar::Array { elements: vec![row], sql_type }
            }
            Self::Breadth { by, .. } => Self::row(by, columns, names, Some(Scalar::Constant(Constant::bigint(0)))),
            Self::Mark { no, .. } => Scalar::Constant(no.clone()),
        })
    }

    /// The value in a row that comes from another: `before` is the other's column.
    fn go_on(&self, binder: &Binder<'_>, before: &Column, columns: &[Column], names: &[String]) -> Result<Scalar> {
        match self {
            Self::Depth { by, .. } => {
                let row = Self::row(by, columns, names, None);
                binder.call("array_append", vec![before.scalar(), row])
            }
            Self::Breadth { by, .. } => {
                let input = Box::new(before.scalar());
                let depth = Scalar::Field { input, index: 0, sql_type: SqlType::BigInt };
                let depth = binder.operator("+", vec![depth, Scalar::Constant(Constant::bigint(1))])?;
                Ok(Self::row(by, columns, names, Some(depth)))
            }
            Self::Mark { by, yes, no, .. } => {
                // The path is the next column of the step before; its number is not known here, so it is found by the
                // caller's order: the mark's column and the path's are made one after the other.
                let path = Column {
                    id: crate::algebra::ColumnId(before.id.0 + 1),
                    name: "path".into(),
                    sql_type: SqlType::array_of(Self::row(by, columns, names, None).sql_type()),
                    nullable: true,
                };
                let row = Self::row(by, columns, names, None);
                let is_met = binder.over_array(row, "=", crate::algebra::Quantifier::Any, path.scalar())?;
                Ok(Scalar::Case {
                    arms: vec![(is_met, Scalar::Constant(yes.clone()))],
                    otherwise: Some(Box::new(Scalar::Constant(no.clone()))),
                    sql_type: yes.sql_type.clone(),
                })
            }
        }
    }
}

/// Gives the first columns of a query the names that its common table expression lists. Fails with 42P10 if it lists
/// more than there are.
fn rename(rows: &mut Rows, cte: &Cte) -> Result<()> {
    if cte.alias.columns.len() > rows.outputs.len() {
        let message = format!(
            "WITH query \"{}\" has {} columns available but {} columns specified",
            cte.alias.name.value,
            rows.outputs.len(),
            cte.alias.columns.len()
        );
        return Err(errors::at(Error::input(message).with_code("42P10"), name_place(&cte.alias.name)));
    }
    for (output, definition) in rows.outputs.iter_mut().zip(&cte.alias.columns) {
        output.name = normalized(&definition.name);
    }
    Ok(())
}

/// The columns of every reference to a recursive query's rows that is not in a subquery.
fn find_table(relation: &Relation, id: WithId, found: &mut Vec<Vec<Column>>) {
    if let Relation::With(table) = relation
        && table.id == id
    {
        found.push(table.columns.clone());
    }
    for input in relation.inputs() {
        find_table(input, id, found);
    }
}

/// Counts how often each common table expression is read.
fn count_reads(relation: &Relation, reads: &mut HashMap<WithId, usize>) {
    stacker::maybe_grow(STACK_RED_ZONE, STACK_GROWTH, || {
        if let Relation::With(table) = relation {
            *reads.entry(table.id).or_default() += 1;
        }
        for scalar in relation.scalars() {
            scalar.visit(&mut |part| {
                if let Scalar::Subquery(subquery) = part {
                    count_reads(&subquery.relation, reads);
                }
            });
        }
        for input in relation.inputs() {
            count_reads(input, reads);
        }
        // What a step reads is read with each step.
        if let Relation::Recursive(recursive) = relation {
            count_reads(&recursive.step.0, reads);
        }
    });
}

/// Whether anything in a relation may change with each evaluation.
fn is_volatile(relation: &Relation) -> bool {
    stacker::maybe_grow(STACK_RED_ZONE, STACK_GROWTH, || {
        let in_scalar = |scalar: &&Scalar| {
            let mut found = scalar.is_volatile();
            scalar.visit(&mut |part| {
                if let Scalar::Subquery(subquery) = part {
                    found |= is_volatile(&subquery.relation);
                }
            });
            found
        };
        relation.scalars().iter().any(in_scalar) || relation.inputs().into_iter().any(is_volatile)
    })
}

/// Puts definitions into the place where each is read.
fn put_in(relation: &mut Relation, definitions: &mut HashMap<WithId, (Relation, Vec<Column>)>) {
    stacker::maybe_grow(STACK_RED_ZONE, STACK_GROWTH, || {
        if let Relation::With(table) = relation
            && let Some((input, columns)) = definitions.remove(&table.id)
        {
            let read = std::mem::take(&mut table.columns);
            let computed = read.into_iter().zip(&columns).map(|(new, column)| (new, column.scalar())).collect();
            *relation = input.mapped(computed);
        }
        for scalar in relation.scalars_mut() {
            put_into_scalar(scalar, definitions);
        }
        for input in relation.inputs_mut() {
            put_in(input, definitions);
        }
    });
}

fn put_into_scalar(scalar: &mut Scalar, definitions: &mut HashMap<WithId, (Relation, Vec<Column>)>) {
    stacker::maybe_grow(STACK_RED_ZONE, STACK_GROWTH, || {
        if let Scalar::Subquery(subquery) = scalar {
            put_in(&mut subquery.relation, definitions);
        }
        for child in scalar.children_mut() {
            put_into_scalar(child, definitions);
        }
    });
}
