//! The algebra turned into the engine's plan.
//!
//! Each operator is lowered with the columns that are needed of it, so that nothing else is read, joined or sorted, and
//! says in which places of its rows its columns are. What the engine has no operator for is written with others first
//! (`desugared`): INTERSECT and EXCEPT as joins, DISTINCT ON and WITH TIES by numbering rows, joins with at most one
//! partner by an aggregate that refuses a second one.
//!
//! **Sides.** In all joins the engine's left side is the one that is held in memory: the smaller one, by estimates.
//!
//! **Order.** A node keeps its order, at the price of one packet, only if somebody depends on it (`ordered`): the
//! statement's ORDER BY, a LIMIT over an order. Only then is a sort made.

mod aggregates;
mod composites;
mod desugared;
mod doubtful;
mod expressions;
mod joins;
mod names;
pub(crate) mod parameters;
pub(crate) mod runtime_filters;
mod scans;
mod windows;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};
use datafusion_common::ScalarValue;
use datafusion_common::config::ConfigOptions;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::Column as ColumnExpr;
use diligence_base::{Error, Result, wanted};
use diligence_engine::expressions::Expr;
use diligence_engine::plan::{self, Node, Plan, PlanTables, WorkTableId};
use diligence_storage::foreign_error::{from_arrow, from_datafusion};
use diligence_types::SqlType;
use diligence_types::values::value_at;

use self::expressions::{Expressions, Positions, SubqueryValues, held_as, subqueries_in};
pub use self::names::SqlFunctions;
use crate::algebra::{Column, ColumnId, Constant, Numbers, Relation, Scalar, SetKind, SetOperation, SortKey, WithId};
use crate::ordering::estimates::{self, Cardinality};

/// What lowering needs of the session.
pub(crate) struct LoweringOptions {
    /// The time zone.
    pub zone: String,
    /// What functions of DataFusion are called with.
    pub options: Arc<ConfigOptions>,
    /// Whether parameters may stand in the conditions of scans: values take their places when the plan starts.
    pub keeps_parameters: bool,
}

/// The engine's plan of a relation, whose rows have these columns, in this order, and come in the relation's order; and
/// the tables that it names. Fails with kind `Unsupported` for what the engine cannot do.
pub(crate) fn lower(
    relation: &Relation,
    output: &[Column],
    numbers: &Numbers,
    options: &LoweringOptions,
) -> Result<(Plan, PlanTables)> {
    let mut lowering = Lowering {
        numbers,
        expressions: Expressions { zone: &options.zone, options: &options.options, keeps_parameters: false },
        keeps_parameters: options.keeps_parameters,
        runtime_filters: 0,
        work_tables: 0,
        withs: HashMap::new(),
        tables: PlanTables::default(),
    };
    let plan = lowering.root(relation, output)?;
    Ok((plan, lowering.tables))
}

/// The value of an expression without columns and subqueries. `None` if it cannot be computed now.
pub(crate) fn evaluated(scalar: &Scalar, options: &LoweringOptions) -> Option<Constant> {
    let constant = value_of(scalar, options).ok()?;
    (constant.value.data_type() == constant.sql_type.arrow()).then_some(constant)
}

/// The value of an expression without columns and subqueries. Fails as computing it does, and with kind `Bug` if it has
/// columns or subqueries.
pub(crate) fn value_of(scalar: &Scalar, options: &LoweringOptions) -> Result<Constant> {
    let expressions = Expressions { zone: &options.zone, options: &options.options, keeps_parameters: false };
    let schema = Arc::new(Schema::empty());
    let physical = expressions.lower(scalar, &Positions::new(), &schema, &mut SubqueryValues::new(0))?;
    let rows = RecordBatchOptions::new().with_row_count(Some(1));
    let batch = RecordBatch::try_new_with_options(schema, vec![], &rows).map_err(from_arrow)?;
    let sql_type = scalar.sql_type();
    let array = physical.evaluate(&batch).and_then(|value| value.into_array(1)).map_err(from_datafusion);
    let array = array.map_err(|error| match sql_type {
        SqlType::SmallInt | SqlType::Integer | SqlType::BigInt
            if error.message().starts_with("arithmetic overflow") =>
        {
            Error::value(format!("{sql_type} out of range")).with_code("22003")
        }
        _ => error,
    })?;
    let value = value_at(&array, 0).map_err(from_datafusion)?;
    Ok(Constant { value, sql_type })
}

/// What computes expressions without subqueries from rows of these columns, whose schema is given too. Fails with kind
/// `Bug` if they have others.
pub(crate) fn over_columns(
    scalars: &[Scalar],
    columns: &[Column],
    schema: &SchemaRef,
    options: &LoweringOptions,
) -> Result<Vec<Arc<dyn PhysicalExpr>>> {
    let expressions = Expressions { zone: &options.zone, options: &options.options, keeps_parameters: false };
    let positions = columns.iter().enumerate().map(|(place, column)| (column.id, place)).collect::<Positions>();
    let mut none = SubqueryValues::new(0);
    scalars.iter().map(|scalar| expressions.lower(scalar, &positions, schema, &mut none)).collect()
}

struct Lowering<'a> {
    numbers: &'a Numbers,
    expressions: Expressions<'a>,
    /// Whether conditions and computed columns may have parameters.
    keeps_parameters: bool,
    /// Runtime filters numbered so far.
    runtime_filters: u32,
    /// Recursive queries and common parts numbered so far.
    work_tables: u32,
    /// What common table expressions and recursive queries are called below.
    withs: HashMap<WithId, Shared>,
    /// The tables that scans name so far.
    tables: PlanTables,
}

/// Rows that are read by name.
struct Shared {
    table: WorkTableId,
    schema: SchemaRef,
    size: Cardinality,
    /// In how many places they are read.
    places: usize,
}

/// A plan, and which columns its rows have.
struct Lowered {
    plan: Plan,
    columns: Vec<ColumnId>,
    size: Cardinality,
}

impl Lowered {
    fn positions(&self) -> Positions {
        self.columns.iter().enumerate().map(|(position, id)| (*id, position)).collect()
    }

    fn schema(&self) -> &SchemaRef {
        &self.plan.schema
    }

    /// The same rows under a node made of the plan.
    fn under(self, size: Cardinality, node: impl FnOnce(Box<Plan>) -> Node) -> Self {
        let (schema, ordered) = (self.plan.schema.clone(), self.plan.ordered);
        let mut plan = Plan::new(node(Box::new(self.plan)), schema);
        plan.ordered = ordered;
        plan.rows_estimate = Some(size.whole_rows());
        Self { plan, columns: self.columns, size }
    }
}

fn field(column: &Column) -> Field {
    column.sql_type.field(&column.name, column.nullable)
}

fn schema_of(columns: &[Column]) -> SchemaRef {
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

impl Lowering<'_> {
    /// A relation by itself: its subqueries that give one value are computed before it.
    fn root(&mut self, relation: &Relation, output: &[Column]) -> Result<Plan> {
        let mut values = SubqueryValues::new(subqueries_in(relation));
        let needed = output.iter().map(|column| column.id).collect();
        let ordered = has_order(relation);
        let lowered = self.relation(relation, &needed, ordered, &mut values)?;
        let lowered = self.projected(lowered, output)?;
        if values.subqueries.is_empty() {
            return Ok(lowered.plan);
        }
        let SubqueryValues { results, subqueries, .. } = values;
        let plans = subqueries.iter().map(|subquery| self.root(&subquery.relation, &subquery.columns[..1]));
        let subqueries = plans.collect::<Result<Vec<_>>>()?;
        let lowered = lowered;
        let size = lowered.size.clone();
        Ok(lowered.under(size, |input| Node::ScalarSubqueries { input, subqueries, results }).plan)
    }

    /// The rows with exactly these columns, in this order.
    fn projected(&self, lowered: Lowered, output: &[Column]) -> Result<Lowered> {
        let positions = lowered.positions();
        let wanted = output.iter().map(|column| positions.get(&column.id).copied());
        let wanted = wanted.collect::<Option<Vec<_>>>();
        let wanted = wanted.ok_or_else(|| Error::bug("a column of the result is not among those of its plan"))?;
        let fields = output.iter().map(field).collect::<Vec<_>>();
        // Types of times with a modifier are those of results alone: the relation has none. What aggregates give is
        // told by its Arrow type alone.
        let is_named = |(column, (wanted, found)): (&Column, (&Field, &FieldRef))| {
            let is_timed = matches!(column.sql_type, SqlType::Timed(_));
            let tells = || !is_timed && SqlType::of_field(found).is_some_and(|told| *told.base() == column.sql_type);
            wanted.name() == found.name() && (wanted.metadata() == found.metadata() || tells())
        };
        let is_same = wanted.iter().copied().eq(0..lowered.columns.len())
            && output.iter().zip(fields.iter().zip(lowered.schema().fields())).all(is_named);
        if is_same {
            return Ok(lowered);
        }
        let columns = output.iter().zip(&wanted).map(|(column, position)| {
            let expression: Arc<dyn PhysicalExpr> =
                Arc::new(ColumnExpr::new(lowered.schema().field(*position).name(), *position));
            (column.clone(), expression)
        });
        let columns = columns.collect();
        self.with_names(lowered, columns)
    }

    /// The rows with computed columns only. Where these are the columns that there are, in their order, other names for
    /// them are no operator: what reads them goes by their places.
    fn computed(&self, lowered: Lowered, columns: Vec<(Column, Arc<dyn PhysicalExpr>)>) -> Result<Lowered> {
        let is_there = |(place, (_, physical)): (usize, &(Column, Arc<dyn PhysicalExpr>))| {
            physical.downcast_ref::<ColumnExpr>().is_some_and(|column| column.index() == place)
        };
        if columns.len() == lowered.columns.len() && columns.iter().enumerate().all(is_there) {
            return Ok(Lowered { columns: columns.into_iter().map(|(column, _)| column.id).collect(), ..lowered });
        }
        self.with_names(lowered, columns)
    }

    /// The same, with the columns' names.
    fn with_names(&self, lowered: Lowered, columns: Vec<(Column, Arc<dyn PhysicalExpr>)>) -> Result<Lowered> {
        let input = lowered.schema().clone();
        let mut expressions = Vec::with_capacity(columns.len());
        let mut fields = Vec::with_capacity(columns.len());
        let mut ids = Vec::with_capacity(columns.len());
        for (column, physical) in columns {
            let expression = Expr::new(physical, &input)?;
            fields.push(field(&column).with_data_type(expression.data_type().clone()).with_nullable(true));
            ids.push(column.id);
            expressions.push(expression);
        }
        let schema = Arc::new(Schema::new(fields));
        let (ordered, size) = (lowered.plan.ordered, lowered.size.clone());
        let mut plan = Plan::new(Node::Project { input: Box::new(lowered.plan), expressions }, schema);
        plan.ordered = ordered;
        plan.rows_estimate = Some(size.whole_rows());
        Ok(Lowered { plan, columns: ids, size })
    }

    /// Expressions that values are put into when the plan starts.
    fn with_parameters(&self) -> Expressions<'_> {
        Expressions { keeps_parameters: self.keeps_parameters, ..self.expressions }
    }

    fn expression(&self, scalar: &Scalar, lowered: &Lowered, values: &mut SubqueryValues) -> Result<Expr> {
        let physical = self.expressions.lower(scalar, &lowered.positions(), lowered.schema(), values)?;
        Expr::new(physical, lowered.schema())
    }

    fn relation(
        &mut self,
        relation: &Relation,
        needed: &BTreeSet<ColumnId>,
        ordered: bool,
        values: &mut SubqueryValues,
    ) -> Result<Lowered> {
        wanted::check()?;
        stacker::maybe_grow(128 * 1024, 2 * 1024 * 1024, || {
            let mut lowered = self.operator(relation, needed, ordered, values)?;
            lowered.plan.ordered = ordered;
            lowered.plan.rows_estimate = Some(lowered.size.whole_rows());
            Ok(lowered)
        })
    }

    fn operator(
        &mut self,
        relation: &Relation,
        needed: &BTreeSet<ColumnId>,
        ordered: bool,
        values: &mut SubqueryValues,
    ) -> Result<Lowered> {
        if let Some(other) = self.desugared(relation)? {
            return self.relation(&other, needed, ordered, values);
        }
        match relation {
            Relation::Scan(scan) => self.scan(scan, &[], needed, values),
            Relation::Values { columns, rows } => self.values(columns, rows, needed, values),
            Relation::Filter { input, condition } => self.filter(input, condition, needed, ordered, values),
            Relation::Map { input, columns } => self.map(input, columns, needed, ordered, values),
            Relation::Join(join) => self.join(join, needed, values),
            Relation::Aggregate(aggregate) => self.aggregate(aggregate, needed, values),
            Relation::Window(window) => self.window(window, needed, values),
            Relation::Distinct { input, on, .. } => self.distinct(input, on, values),
            Relation::Sort { input, keys } => self.sort(input, keys, None, needed, ordered, values),
            Relation::Limit(limit) => self.limit(limit, needed, values),
            Relation::Set(set) => self.union(set, needed, values),
            Relation::Recursive(recursive) => self.recursive(recursive, values),
            Relation::With(table) => self.with_table(table),
            Relation::Definitions { definitions, input } => {
                self.definitions(definitions, input, needed, ordered, values)
            }
            Relation::TableFunction(function) => self.table_function(function, needed, ordered, values),
            Relation::Apply(_) => Err(Error::bug("a dependent join was not unnested")),
        }
    }

    fn values(
        &mut self,
        columns: &[Column],
        rows: &[Vec<Scalar>],
        needed: &BTreeSet<ColumnId>,
        values: &mut SubqueryValues,
    ) -> Result<Lowered> {
        let kept = (0..columns.len()).filter(|index| needed.contains(&columns[*index].id)).collect::<Vec<_>>();
        let wanted = kept.iter().map(|index| Column { nullable: true, ..columns[*index].clone() }).collect::<Vec<_>>();
        let size = estimates::of(&Relation::Values { columns: vec![], rows: rows.to_vec() }, &[]);
        let is_constant = |row: &Vec<Scalar>| kept.iter().all(|index| row[*index].as_constant().is_some());
        let ids = wanted.iter().map(|column| column.id).collect::<Vec<_>>();
        if rows.iter().all(is_constant) {
            let schema = schema_of(&wanted);
            let arrays = kept.iter().zip(&wanted).map(|(index, column)| {
                let constants = rows.iter().filter_map(|row| row[*index].as_constant());
                array_of(constants, &column.sql_type)
            });
            let arrays = arrays.collect::<Result<Vec<_>>>()?;
            let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
            let batch = RecordBatch::try_new_with_options(schema.clone(), arrays, &options).map_err(from_arrow)?;
            let batches = if rows.is_empty() { vec![] } else { vec![batch] };
            return Ok(Lowered { plan: Plan::new(Node::Values { batches }, schema), columns: ids, size });
        }
        let mut inputs = Vec::with_capacity(rows.len());
        for row in rows {
            let one = self.one_row()?;
            let computed = kept.iter().zip(&wanted).map(|(index, column)| {
                let physical = self.with_parameters().lower(&row[*index], &Positions::new(), one.schema(), values)?;
                Ok((column.clone(), physical))
            });
            let computed = computed.collect::<Result<Vec<_>>>()?;
            inputs.push(self.computed(one, computed)?.plan);
        }
        Ok(match inputs.len() {
            1 => Lowered { plan: inputs.remove(0), columns: ids, size },
            _ => {
                let schema = inputs[0].schema.clone();
                Lowered { plan: Plan::new(Node::Union { inputs }, schema), columns: ids, size }
            }
        })
    }

    fn one_row(&self) -> Result<Lowered> {
        let schema = Arc::new(Schema::empty());
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        let batch = RecordBatch::try_new_with_options(schema.clone(), vec![], &options).map_err(from_arrow)?;
        let size = estimates::of(&Relation::one_row(), &[]);
        Ok(Lowered { plan: Plan::new(Node::Values { batches: vec![batch] }, schema), columns: vec![], size })
    }

    fn filter(
        &mut self,
        input: &Relation,
        condition: &Scalar,
        needed: &BTreeSet<ColumnId>,
        ordered: bool,
        values: &mut SubqueryValues,
    ) -> Result<Lowered> {
        let conditions = condition.clone().conjuncts();
        if let Relation::Scan(scan) = input {
            return self.scan(scan, &conditions, needed, values);
        }
        let mut below = needed.clone();
        condition.add_columns(&mut below);
        let lowered = self.relation(input, &below, ordered, values)?;
        let predicate = self.with_parameters().lower(condition, &lowered.positions(), lowered.schema(), values)?;
        let predicate = Expr::new(predicate, lowered.schema())?;
        let filter = Relation::Filter { input: Box::new(Relation::one_row()), condition: condition.clone() };
        let size = estimates::of(&filter, std::slice::from_ref(&lowered.size));
        Ok(lowered.under(size, |input| Node::Filter { input, predicate }))
    }

    fn map(
        &mut self,
        input: &Relation,
        columns: &[(Column, Scalar)],
        needed: &BTreeSet<ColumnId>,
        ordered: bool,
        values: &mut SubqueryValues,
    ) -> Result<Lowered> {
        let wanted = columns.iter().filter(|(column, _)| needed.contains(&column.id)).collect::<Vec<_>>();
        let computed = columns.iter().map(|(column, _)| column.id).collect::<BTreeSet<_>>();
        let mut below = needed.difference(&computed).copied().collect::<BTreeSet<_>>();
        wanted.iter().for_each(|(_, scalar)| scalar.add_columns(&mut below));
        let lowered = self.relation(input, &below, ordered, values)?;
        if wanted.is_empty() {
            return Ok(lowered);
        }
        let positions = lowered.positions();
        let mut all = Vec::new();
        for column in input.columns().into_iter().filter(|column| needed.contains(&column.id)) {
            let physical = self.expressions.lower(&column.scalar(), &positions, lowered.schema(), values)?;
            all.push((column, physical));
        }
        for (column, scalar) in wanted {
            let physical = self.with_parameters().lower(scalar, &positions, lowered.schema(), values)?;
            all.push((column.clone(), physical));
        }
        let map = Relation::Map { input: Box::new(Relation::one_row()), columns: columns.to_vec() };
        let size = estimates::of(&map, std::slice::from_ref(&lowered.size));
        let mut mapped = self.computed(lowered, all)?;
        mapped.size = size;
        Ok(mapped)
    }

    fn sort_keys(
        &self,
        keys: &[SortKey],
        lowered: &Lowered,
        values: &mut SubqueryValues,
    ) -> Result<Vec<plan::SortKey>> {
        let mut key = |key: &SortKey| {
            let options = arrow::compute::SortOptions { descending: key.descending, nulls_first: key.nulls_first };
            Ok(plan::SortKey { expression: self.expression(&key.scalar, lowered, values)?, options })
        };
        keys.iter().flat_map(SortKey::physical).map(|physical| key(&physical)).collect()
    }

    fn sort(
        &mut self,
        input: &Relation,
        keys: &[SortKey],
        fetch: Option<usize>,
        needed: &BTreeSet<ColumnId>,
        ordered: bool,
        values: &mut SubqueryValues,
    ) -> Result<Lowered> {
        // An order that nobody depends on is not worth making.
        if (!ordered && fetch.is_none()) || keys.is_empty() {
            return self.relation(input, needed, false, values);
        }
        let mut below = needed.clone();
        keys.iter().for_each(|key| key.scalar.add_columns(&mut below));
        let lowered = self.relation(input, &below, false, values)?;
        let keys = self.sort_keys(keys, &lowered, values)?;
        let mut size = lowered.size.clone();
        if let Some(fetch) = fetch {
            size.rows = size.rows.min(fetch as f64).max(1.0);
        }
        Ok(lowered.under(size, |input| Node::Sort { input, keys, fetch }))
    }

    fn limit(
        &mut self,
        limit: &crate::algebra::Limit,
        needed: &BTreeSet<ColumnId>,
        values: &mut SubqueryValues,
    ) -> Result<Lowered> {
        let skip = rows_of(limit.skip.as_ref(), "OFFSET")?.unwrap_or(0);
        let fetch = rows_of(limit.fetch.as_ref(), "LIMIT")?;
        let most = fetch.map(|fetch| skip.saturating_add(fetch));
        let mut lowered = match &*limit.input {
            Relation::Sort { input, keys } => {
                let mut sorted = self.sort(input, keys, most, needed, true, values)?;
                sorted.plan.ordered = true;
                sorted
            }
            // The columns of a computed one are computed of the rows that are left.
            Relation::Map { input, columns } if matches!(**input, Relation::Sort { .. }) => {
                let limited = crate::algebra::Limit { input: input.clone(), ..limit.clone() };
                let map = Relation::Map { input: Box::new(Relation::Limit(limited)), columns: columns.clone() };
                return self.relation(&map, needed, true, values);
            }
            other => self.relation(other, needed, has_order(other), values)?,
        };
        if let Some(most) = most {
            hint(&mut lowered.plan, most);
        }
        let mut size = lowered.size.clone();
        if let Some(fetch) = fetch {
            size.rows = size.rows.min(fetch as f64).max(1.0);
        }
        Ok(lowered.under(size, |input| Node::Limit { input, skip, fetch }))
    }

    fn distinct(&mut self, input: &Relation, on: &[ColumnId], values: &mut SubqueryValues) -> Result<Lowered> {
        let needed = on.iter().copied().collect();
        let lowered = self.relation(input, &needed, false, values)?;
        let columns = input.columns();
        let output = on.iter().map(|id| columns.iter().find(|column| column.id == *id).cloned());
        let output =
            output.collect::<Option<Vec<_>>>().ok_or_else(|| Error::bug("DISTINCT of a column that is not there"))?;
        let lowered = self.projected(lowered, &output)?;
        let schema = lowered.schema().clone();
        let groups = (0..on.len()).map(|index| Expr::column(index, &schema)).collect::<Result<Vec<_>>>()?;
        let distinct = Relation::Distinct { input: Box::new(Relation::one_row()), on: on.to_vec(), keeps_all: false };
        let size = estimates::of(&distinct, std::slice::from_ref(&lowered.size));
        if on.is_empty() {
            // Rows without columns are all equal: one, if there is any.
            return Ok(lowered.under(size, |input| Node::Limit { input, skip: 0, fetch: Some(1) }));
        }
        Ok(lowered.under(size, |input| {
            Node::Aggregate(plan::Aggregate {
                input,
                grouping_sets: vec![vec![false; groups.len()]],
                groups,
                has_grouping_id: false,
                aggregates: vec![],
                limit: None,
            })
        }))
    }

    /// UNION ALL; the others are desugared.
    fn union(
        &mut self,
        set: &SetOperation,
        needed: &BTreeSet<ColumnId>,
        values: &mut SubqueryValues,
    ) -> Result<Lowered> {
        if set.kind != SetKind::Union || !set.is_all {
            return Err(Error::bug("a set operation was not desugared"));
        }
        let kept = (0..set.columns.len()).filter(|index| needed.contains(&set.columns[*index].id)).collect::<Vec<_>>();
        let output = kept.iter().map(|index| Column { nullable: true, ..set.columns[*index].clone() });
        let output = output.collect::<Vec<_>>();
        let mut inputs = Vec::with_capacity(set.inputs.len());
        let mut rows = 0.0;
        for (input, ids) in &set.inputs {
            let needed = kept.iter().map(|index| ids[*index]).collect();
            let lowered = self.relation(input, &needed, false, values)?;
            rows += lowered.size.rows;
            let positions = lowered.positions();
            let columns = kept.iter().zip(&output).map(|(index, column)| {
                let position = *positions.get(&ids[*index]).ok_or_else(|| Error::bug("a UNION lost a column"))?;
                let name = lowered.schema().field(position).name();
                Ok((column.clone(), Arc::new(ColumnExpr::new(name, position)) as Arc<dyn PhysicalExpr>))
            });
            let columns = columns.collect::<Result<Vec<_>>>()?;
            let mut projected = self.computed(lowered, columns)?;
            projected.plan.ordered = false;
            inputs.push(projected.plan);
        }
        let schema = schema_of(&output);
        let ids = output.iter().map(|column| column.id).collect();
        let mut size = estimates::of(&Relation::one_row(), &[]);
        size.rows = rows.max(1.0);
        Ok(Lowered { plan: Plan::new(Node::Union { inputs }, schema), columns: ids, size })
    }

    fn recursive(&mut self, recursive: &crate::algebra::Recursive, values: &mut SubqueryValues) -> Result<Lowered> {
        let table = self.next_table();
        let output = recursive.columns.iter().map(|column| Column { nullable: true, ..column.clone() });
        let output = output.collect::<Vec<_>>();
        let schema = schema_of(&output);
        let mut side = |lowering: &mut Self, (relation, ids): &(Box<Relation>, Vec<ColumnId>)| {
            let needed = ids.iter().copied().collect();
            let lowered = lowering.relation(relation, &needed, false, values)?;
            let positions = lowered.positions();
            let columns = ids.iter().zip(&output).map(|(id, column)| {
                let position = *positions.get(id).ok_or_else(|| Error::bug("a recursive query lost a column"))?;
                let name = lowered.schema().field(position).name();
                Ok((column.clone(), Arc::new(ColumnExpr::new(name, position)) as Arc<dyn PhysicalExpr>))
            });
            let columns = columns.collect::<Result<Vec<_>>>()?;
            lowering.computed(lowered, columns)
        };
        let base = side(self, &recursive.base)?;
        let size = base.size.clone();
        let shared = Shared { table, schema: schema.clone(), size: size.clone(), places: 0 };
        self.withs.insert(recursive.id, shared);
        let step = side(self, &recursive.step)?;
        let node = Node::Recursive(plan::Recursive {
            name: recursive.name.clone(),
            base: Box::new(base.plan),
            step: Box::new(step.plan),
            table,
            is_distinct: recursive.is_distinct,
        });
        let columns = output.iter().map(|column| column.id).collect();
        let mut size = size;
        size.rows *= 10.0;
        Ok(Lowered { plan: Plan::new(node, schema), columns, size })
    }

    fn next_table(&mut self) -> WorkTableId {
        self.work_tables += 1;
        WorkTableId(self.work_tables - 1)
    }

    fn with_table(&mut self, table: &crate::algebra::WithTable) -> Result<Lowered> {
        let Some(shared) = self.withs.get_mut(&table.id) else {
            return Err(Error::bug(format!("the rows of {} are not there", table.name)));
        };
        shared.places += 1;
        let columns = table.columns.iter().map(|column| column.id).collect::<Vec<_>>();
        if columns.len() != shared.schema.fields().len() {
            return Err(Error::bug(format!("{} has other columns where it is read", table.name)));
        }
        let node = Node::WorkTable(plan::WorkTable {
            table: shared.table,
            name: table.name.clone(),
            columns: (0..columns.len()).collect(),
        });
        Ok(Lowered { plan: Plan::new(node, shared.schema.clone()), columns, size: shared.size.clone() })
    }

    fn definitions(
        &mut self,
        definitions: &[(WithId, Relation, Vec<Column>)],
        input: &Relation,
        needed: &BTreeSet<ColumnId>,
        ordered: bool,
        values: &mut SubqueryValues,
    ) -> Result<Lowered> {
        let mut parts = Vec::with_capacity(definitions.len());
        for (id, relation, columns) in definitions {
            let wanted = columns.iter().map(|column| column.id).collect();
            let lowered = self.relation(relation, &wanted, false, values)?;
            let lowered = self.projected(lowered, columns)?;
            let table = self.next_table();
            let shared = Shared { table, schema: lowered.schema().clone(), size: lowered.size, places: 0 };
            self.withs.insert(*id, shared);
            parts.push((*id, table, lowered.plan));
        }
        let lowered = self.relation(input, needed, ordered, values)?;
        let parts = parts.into_iter().map(|(id, table, plan)| {
            let places = self.withs.get(&id).map_or(0, |shared| shared.places);
            plan::CommonPart { plan, table, places }
        });
        let parts = parts.filter(|part| part.places > 0).collect::<Vec<_>>();
        if parts.is_empty() {
            return Ok(lowered);
        }
        let size = lowered.size.clone();
        Ok(lowered.under(size, |input| Node::Common(plan::Common { parts, input })))
    }

    fn table_function(
        &mut self,
        function: &crate::algebra::TableFunction,
        needed: &BTreeSet<ColumnId>,
        ordered: bool,
        values: &mut SubqueryValues,
    ) -> Result<Lowered> {
        let below = function.input.column_ids();
        let mut wanted: BTreeSet<ColumnId> = needed.intersection(&below).copied().collect();
        let shown = wanted.clone();
        function.items.iter().for_each(|item| item.array.add_columns(&mut wanted));
        let lowered = self.relation(&function.input, &wanted, ordered, values)?;
        let kept = (0..lowered.columns.len()).filter(|index| shown.contains(&lowered.columns[*index]));
        let kept = kept.collect::<Vec<_>>();
        let mut columns = kept.iter().map(|index| lowered.columns[*index]).collect::<Vec<_>>();
        let mut fields = kept.iter().map(|index| lowered.schema().field(*index).clone()).collect::<Vec<_>>();
        let mut arrays = Vec::with_capacity(function.items.len());
        for item in &function.items {
            let array = self.expression(&item.array, &lowered, values)?;
            // A record is one column, or one for each of its fields, however many it has.
            let splits = match item.array.sql_type().element() {
                Some(record @ diligence_types::SqlType::Record(_)) => {
                    item.columns.len() != 1 || item.columns[0].sql_type != *record
                }
                _ => false,
            };
            columns.extend(item.columns.iter().map(|column| column.id));
            fields.extend(item.columns.iter().map(|column| field(column).with_nullable(true)));
            arrays.push((array, splits));
        }
        if let Some(ordinality) = &function.ordinality {
            columns.push(ordinality.id);
            fields.push(field(ordinality).with_nullable(true));
        }
        let size = estimates::of(&Relation::TableFunction(function.clone()), std::slice::from_ref(&lowered.size));
        let node = Node::Unnest(plan::Unnest {
            input: Box::new(lowered.plan),
            kept,
            arrays,
            ordinality: function.ordinality.is_some(),
            keeps_all: function.keeps_all,
        });
        let plan = Plan::new(node, Arc::new(Schema::new(fields)));
        Ok(Lowered { plan, columns, size })
    }
}

/// Whether a relation's rows come in an order.
fn has_order(relation: &Relation) -> bool {
    match relation {
        Relation::Sort { keys, .. } => !keys.is_empty(),
        Relation::Map { input, .. } | Relation::Filter { input, .. } | Relation::Definitions { input, .. } => {
            has_order(input)
        }
        Relation::Limit(limit) => limit.ties.is_some() || has_order(&limit.input),
        Relation::TableFunction(function) => has_order(&function.input),
        Relation::Distinct { input, keeps_all: true, .. } => has_order(input),
        _ => false,
    }
}

/// A scan right below a limit learns that it may stop.
fn hint(plan: &mut Plan, rows: usize) {
    match &mut plan.node {
        Node::Scan(scan) => scan.limit = Some(scan.limit.map_or(rows, |limit| limit.min(rows))),
        Node::Project { input, .. } => hint(input, rows),
        _ => {}
    }
}

/// A number of rows that is known now; `None` if it is not given or NULL. Fails with 2201W or 2201X if it is negative.
fn rows_of(scalar: Option<&Scalar>, clause: &str) -> Result<Option<usize>> {
    let Some(scalar) = scalar else { return Ok(None) };
    let Some(constant) = scalar.as_constant() else {
        return Err(Error::bug(format!("{clause} is not a constant and was not desugared")));
    };
    match &constant.value {
        value if value.is_null() => Ok(None),
        ScalarValue::Int64(Some(rows)) => match usize::try_from(*rows) {
            Ok(rows) => Ok(Some(rows)),
            Err(_) => {
                let code = if clause == "LIMIT" { "2201W" } else { "2201X" };
                Err(Error::input(format!("{clause} must not be negative")).with_code(code))
            }
        },
        other => Err(Error::bug(format!("{clause} has the type {}", other.data_type()))),
    }
}

fn array_of<'a>(
    constants: impl Iterator<Item = &'a Constant>,
    sql_type: &diligence_types::SqlType,
) -> Result<ArrayRef> {
    let wanted = sql_type.arrow();
    // What is said of an array's elements, such as that they are varchar(5), is not in a literal's value, and numbers
    // in quotes have digits of their own.
    let values = constants.map(|constant| held_as(&constant.value, &wanted)).collect::<Result<Vec<_>>>()?;
    if values.is_empty() {
        return Ok(arrow::array::new_empty_array(&wanted));
    }
    let array = ScalarValue::iter_to_array(values).map_err(from_datafusion)?;
    // It is lost on the way as well.
    if *array.data_type() == wanted { Ok(array) } else { arrow::compute::cast(&array, &wanted).map_err(from_arrow) }
}
