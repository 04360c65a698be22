//! The road of a query through the rooms of the front: bound, unnested, rewritten, ordered, lowered.

use std::sync::Arc;

use arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};
use datafusion_common::ScalarValue;
use datafusion_common::config::ConfigOptions;
use diligence_base::{Error, Result};
use diligence_catalog::types::{computed, of_column, shown_as};
use diligence_engine::plan::{Node, Plan, PlanTables};
use diligence_types::SqlType;

use crate::algebra::{Constant, Numbers, Relation, Scalar};
use crate::binder::{self, Bound, Context, Origin};
use crate::lowering::{self, LoweringOptions};
use crate::{ordering, rewrites, unnesting};

/// A query's plan.
pub(crate) struct Planned {
    /// What the engine runs.
    pub plan: Plan,
    /// The tables that it names.
    pub tables: PlanTables,
    /// Whether what the session or the clock said is in it, so that it is not to be run again.
    pub is_transient: bool,
    /// The forms on the way, for EXPLAIN VERBOSE and golden scripts.
    pub forms: Forms,
}

/// A query between its text and its plan.
pub(crate) struct Forms {
    /// As it was bound.
    pub bound: String,
    /// Without dependent joins.
    pub unnested: String,
    /// Rewritten, its joins in order.
    pub rewritten: String,
}

/// Plans a bound query for all values of its parameters. Fails with 08P01 if a value must be known.
pub(crate) fn without_values(bound: Bound, context: &dyn Context, options: &Arc<ConfigOptions>) -> Result<Planned> {
    planned(bound, true, false, context, options)
}

/// Plans a bound query with values for its parameters. `is_shown` asks for the forms on the way. Fails with kind
/// `Input` if there are fewer values than parameters, `Unsupported` if there is no operator for what the query means.
pub(crate) fn of_bound(
    bound: Bound,
    values: &[ScalarValue],
    is_shown: bool,
    context: &dyn Context,
    options: &Arc<ConfigOptions>,
) -> Result<Planned> {
    let relation = with_values(bound.relation, &bound.parameters, values)?;
    planned(Bound { relation, ..bound }, false, is_shown, context, options)
}

fn planned(
    bound: Bound,
    keeps_parameters: bool,
    is_shown: bool,
    context: &dyn Context,
    options: &Arc<ConfigOptions>,
) -> Result<Planned> {
    let Bound { relation, columns, is_transient, computed: places, objects, origins, .. } = bound;
    let numbers = context.numbers();
    let options = LoweringOptions { zone: context.zone().to_owned(), options: options.clone(), keeps_parameters };
    let text = |relation: &Relation| if is_shown { relation.to_string() } else { String::new() };
    let mut shown = binder::shown_types(&relation, &columns);
    shown.extend(objects.into_iter().map(|(place, name)| (place, name.to_owned())));
    let bound_form = text(&relation);
    let relation = unnesting::unnest(relation, numbers)?;
    let unnested = text(&relation);
    let relation = improved(relation, numbers, &options)?;
    let rewritten = text(&relation);
    let (mut plan, mut tables) = lowering::lower(&relation, &columns, numbers, &options)?;
    if !context.uses_index() {
        without_index(&mut plan, &mut tables);
    }
    context.kept_order().keep(&mut plan, &tables);
    plan.schema = with_origins(&with_shown(&with_computed(&plan.schema, &places), &shown), &origins);
    Ok(Planned { plan, tables, is_transient, forms: Forms { bound: bound_form, unnested, rewritten } })
}

/// The schema of a result in which something computes the values of the columns at these places.
pub(crate) fn with_computed(schema: &SchemaRef, places: &[usize]) -> SchemaRef {
    if places.is_empty() {
        return schema.clone();
    }
    let field = |(place, field): (usize, &FieldRef)| match places.contains(&place) {
        true => Arc::new(computed(Field::clone(field))),
        false => field.clone(),
    };
    let fields = schema.fields().iter().enumerate().map(field).collect::<Vec<_>>();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// The schema of a result in which columns at these places are told to be of types of these names.
pub(crate) fn with_shown(schema: &SchemaRef, shown: &[(usize, String)]) -> SchemaRef {
    if shown.is_empty() {
        return schema.clone();
    }
    let mut fields = schema.fields().to_vec();
    for (place, name) in shown {
        if let Some(field) = fields.get_mut(*place) {
            *field = Arc::new(shown_as(Field::clone(field), name));
        }
    }
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// The schema of a result whose columns are such of tables and views.
pub(crate) fn with_origins(schema: &SchemaRef, origins: &[Option<Origin>]) -> SchemaRef {
    if origins.iter().all(Option::is_none) {
        return schema.clone();
    }
    let fields = schema.fields().iter().zip(origins).map(|(field, origin)| match origin {
        Some(Origin { relation, place }) => Arc::new(of_column(Field::clone(field), *relation, *place)),
        None => field.clone(),
    });
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
}

/// Has the scans of a plan look at all rows that may fit.
fn without_index(plan: &mut Plan, tables: &mut PlanTables) {
    if let Node::Scan(scan) = &mut plan.node
        && let Some(table) = tables.find(scan.table).and_then(|table| table.without_index())
    {
        scan.table = tables.add(table);
    }
    plan.inputs_mut().into_iter().for_each(|input| without_index(input, tables));
}

/// A relation that costs less, and so do the subqueries that its expressions read.
fn improved(relation: Relation, numbers: &Numbers, options: &LoweringOptions) -> Result<Relation> {
    let relation = rewrites::rewritten(relation, numbers, &|scalar| lowering::evaluated(scalar, options))?;
    let mut relation = ordering::ordered(relation)?;
    each_subquery(&mut relation, &mut |subquery| {
        let taken = std::mem::replace(subquery, Relation::one_row());
        *subquery = improved(taken, numbers, options)?;
        Ok(())
    })?;
    Ok(relation)
}

/// Calls `change` with the relations of the subqueries in the expressions of a relation and all below it.
fn each_subquery(relation: &mut Relation, change: &mut dyn FnMut(&mut Relation) -> Result<()>) -> Result<()> {
    stacker::maybe_grow(128 * 1024, 2 * 1024 * 1024, || {
        for scalar in relation.scalars_mut() {
            each_in_scalar(scalar, change)?;
        }
        relation.inputs_mut().into_iter().try_for_each(|input| each_subquery(input, change))
    })
}

fn each_in_scalar(scalar: &mut Scalar, change: &mut dyn FnMut(&mut Relation) -> Result<()>) -> Result<()> {
    stacker::maybe_grow(128 * 1024, 2 * 1024 * 1024, || {
        if let Scalar::Subquery(subquery) = scalar {
            change(&mut subquery.relation)?;
        }
        scalar.children_mut().into_iter().try_for_each(|child| each_in_scalar(child, change))
    })
}

/// A relation with values for its parameters.
fn with_values(mut relation: Relation, parameters: &[SqlType], values: &[ScalarValue]) -> Result<Relation> {
    if parameters.is_empty() {
        return Ok(relation);
    }
    if values.len() < parameters.len() {
        let message = format!("the statement has {} parameters; found {} values", parameters.len(), values.len());
        return Err(Error::input(message).with_code("08P01"));
    }
    put(&mut relation, &constants_of(values)?)?;
    Ok(relation)
}

/// An expression with values for its parameters. Fails with 08P01 if there is none for one.
pub(crate) fn scalar_with_values(scalar: &Scalar, values: &[ScalarValue]) -> Result<Scalar> {
    let mut own = scalar.clone();
    put_in_scalar(&mut own, &constants_of(values)?)?;
    Ok(own)
}

fn constants_of(values: &[ScalarValue]) -> Result<Vec<Constant>> {
    let constants = values.iter().map(|value| {
        let given = SqlType::of_arrow(&value.data_type()).unwrap_or(SqlType::Text);
        let value = value.cast_to(&given.arrow()).map_err(diligence_storage::foreign_error::from_datafusion)?;
        Ok(Constant { value, sql_type: given })
    });
    constants.collect()
}

fn put(relation: &mut Relation, constants: &[Constant]) -> Result<()> {
    for scalar in relation.scalars_mut() {
        put_in_scalar(scalar, constants)?;
    }
    relation.inputs_mut().into_iter().try_for_each(|input| put(input, constants))
}

fn put_in_scalar(scalar: &mut Scalar, constants: &[Constant]) -> Result<()> {
    match scalar {
        Scalar::Parameter { index, sql_type } => {
            let Some(constant) = constants.get(*index) else {
                let message = format!("there is no value for the parameter ${}", *index + 1);
                return Err(Error::input(message).with_code("08P01"));
            };
            let to = sql_type.clone();
            *scalar = Scalar::Constant(constant.clone()).cast(to, true);
            return Ok(());
        }
        Scalar::Subquery(subquery) => put(&mut subquery.relation, constants)?,
        _ => {}
    }
    scalar.children_mut().into_iter().try_for_each(|child| put_in_scalar(child, constants))
}
