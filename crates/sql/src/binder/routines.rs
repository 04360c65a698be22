//! Calls of functions that statements made: the body stands in the place of the call.
//!
//! The arguments of a function are bound where the call is, and cast to its parameters' types; those of a macro are put
//! in as they are written, so that it may be an aggregate of a column or take a lambda.

use std::sync::Arc;

use diligence_base::{Error, Result};
use diligence_pool::Form;
use diligence_types::SqlType;
use diligence_types::functions::{Argument, choose_routine};
use diligence_types::record_type::RecordType;
use sqlparser::ast::{
    DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments, Ident,
    ObjectName, Query, TableAlias,
};

use super::folds::is_fold;
use super::operators::{dimensions, of_texts};
use super::scope::{Clause, Level, Namespace, Withs};
use super::syntax::{bare_name, written};
use super::{Binder, Context, Named, Output, Rows, normalized, unsupported};
use crate::algebra::{Column, Constant, FunctionItem, Relation, Scalar, TableFunction};
use crate::parse::WHOLE_ROW;
use crate::procedural::{Block, Gives, Procedure, check};
use crate::quoting::quoted;
use crate::routines::{Body, Definition, RoutineParameter, polymorphic};

/// Functions within functions at most: one that calls itself is found by it.
const ROUTINE_DEPTH_MAX: usize = 32;

/// The arguments of a call, with the names that stand in front of them.
type Call = Vec<(Option<String>, Expr)>;

impl Binder<'_> {
    /// A call of a function that a statement made; `None` if there is none of the name. Fails with 42883 if there is
    /// none for the arguments.
    pub(super) fn routine(&self, function: &Function, level: &Level<'_>) -> Result<Option<Scalar>> {
        let name = bare_name(function);
        let routines = self.context.routines(&function.name)?;
        if routines.is_empty() {
            return Ok(None);
        }
        if let [aggregate] = routines.as_slice()
            && is_fold(aggregate)
        {
            return self.deeper(|| self.fold(aggregate, function, level)).map(Some);
        }
        let is_group =
            |routine: &Definition| matches!(&routine.body, Body::Program(program) if program.form == Form::Groups);
        if routines.iter().all(is_group) {
            return self.group_program(&name, routines, function, level).map(Some);
        }
        if function.over.is_some() {
            return Ok(None);
        }
        if function.filter.is_some() {
            let message = format!("FILTER specified, but {name} is not an aggregate function");
            return Err(Error::input(message).with_code("42809"));
        }
        let has_clause = |clause: &FunctionArgumentClause| !matches!(clause, FunctionArgumentClause::OrderBy(_));
        if let FunctionArguments::List(list) = &function.args
            && (list.duplicate_treatment.is_some() || list.clauses.iter().any(has_clause))
        {
            return Err(Error::input(format!("{name} is not an aggregate function")).with_code("42809"));
        }
        let Some(call) = call_of(written(function)) else { return Ok(None) };
        let (definition, arguments) = self.routine_for(&name, routines, &call, level)?;
        if definition.is_macro {
            let arguments = typed_arguments(&definition, &arguments);
            let Body::Value(value) = definition.with_arguments(&arguments) else { return Err(in_from(&name)) };
            return self.deeper(|| self.scalar(&value, level)).map(Some);
        }
        if definition.is_record {
            let message = "function returning record called in context that cannot accept type record";
            let error = Error::unsupported(message).with_code("0A000");
            return Err(error.with_hint(format!("SELECT * FROM {name}(…) AS t(a integer, b text)")));
        }
        if let Body::Program(program) = &definition.body {
            match program.form {
                _ if definition.gives_rows => {
                    let array = self.program_array(&definition, program, &arguments, level)?;
                    return self.row_function_of(&name, array, level).map(Some);
                }
                Form::Groups => return self.group_program(&name, vec![definition], function, level).map(Some),
                _ => {}
            }
            return self.program(&definition, program, &arguments, level).map(Some);
        }
        if definition.is_procedure {
            return Err(is_procedure(&definition));
        }
        if let Body::Block(block) = &definition.body {
            let value = self.block(&definition, block, &arguments, level)?;
            return match definition.gives_rows {
                true => self.row_function_of(&name, value, level).map(Some),
                false => Ok(Some(value)),
            };
        }
        let mut bound = Vec::with_capacity(arguments.len());
        for (argument, parameter) in arguments.iter().zip(&definition.parameters) {
            bound.push(self.typed_scalar(&parameter.cast(argument), level)?);
        }
        let strict = definition.is_strict.then(|| bound.iter().map(|value| Scalar::IsNull(Box::new(value.clone()))));
        let is_null = strict.map(|nulls| Scalar::any(nulls.collect::<Vec<_>>()));
        let returns = definition.returns.as_ref().map(|returns| self.result_type(returns)).transpose()?;
        let value = self.with_template(bound, || match &definition.body {
            Body::Value(value) => self.body_value(value, returns.as_ref(), level),
            Body::Rows(query) => self.rows_value(&definition, query, level),
            Body::Program(_) | Body::Block(_) => Err(in_from(&name)),
        })?;
        let value = match &returns {
            Some(returns) => self.result_of(value, returns, false)?,
            None => value,
        };
        let value = match is_null {
            Some(is_null) if !definition.parameters.is_empty() => {
                let sql_type = value.sql_type();
                Scalar::Case { arms: vec![(is_null.negate(), value)], otherwise: None, sql_type }
            }
            _ => value,
        };
        match definition.body {
            Body::Rows(_) if definition.gives_rows => self.row_function_of(&name, value, level).map(Some),
            _ => Ok(Some(value)),
        }
    }

    /// A call of a function whose body is a block: its value, or an array of its rows.
    fn block(
        &self,
        definition: &Definition,
        block: &Arc<Block>,
        arguments: &[Expr],
        level: &Level<'_>,
    ) -> Result<Scalar> {
        let mut bound = Vec::with_capacity(arguments.len());
        for (argument, parameter) in arguments.iter().zip(&definition.parameters) {
            bound.push(self.argument_held(parameter, argument, level)?);
        }
        self.is_transient.set(true);
        refuse_trigger(definition)?;
        let procedure = self.procedure_of(definition, block)?;
        let sql_type = procedure.value_type();
        let function = self.context.procedure(procedure, definition.is_strict)?;
        Ok(Scalar::Asked { function, arguments: bound, sql_type })
    }

    /// What runs for a function or procedure with a block. Fails with 42704 for a type that there is not.
    fn procedure_of(&self, definition: &Definition, block: &Arc<Block>) -> Result<Procedure> {
        let mut columns = self.routine_columns(definition)?;
        let gives = match &definition.returns {
            Some(returns) => match self.sql_type(returns) {
                Ok(sql_type) => Gives::Value(sql_type),
                Err(error) => Gives::Row(self.row_columns(returns, error)?),
            },
            None if definition.gives_rows && columns.len() == 1 && columns[0].0 == definition.name => {
                Gives::Values(columns.remove(0).1)
            }
            None if definition.gives_rows => Gives::Rows(columns),
            None if definition.is_record => Gives::Row(columns),
            None if columns.is_empty() => Gives::Nothing,
            None => Gives::Row(columns),
        };
        let typed = |parameter: &RoutineParameter| {
            let data_type = parameter.data_type.as_ref().ok_or_else(|| Error::bug("a parameter without a type"))?;
            Ok((parameter.name.clone(), self.cast_type(data_type)?.untimed()))
        };
        Ok(Procedure {
            name: definition.name.clone(),
            parameters: definition.parameters.iter().map(typed).collect::<Result<_>>()?,
            block: block.clone(),
            gives,
            has_outputs: definition.returns.is_none()
                && !definition.is_record
                && !matches!(definition.columns.as_slice(), [(name, _)] if *name == definition.name),
            output: definition.output.clone(),
            acts_as: definition.acts_as.clone(),
            settings: definition.settings.clone(),
        })
    }

    /// The columns of a function's rows: those that it is declared with, or those of the table that it is declared to
    /// give rows of. Fails with 42704 for a type that there is not.
    pub(super) fn routine_columns(&self, definition: &Definition) -> Result<Vec<(String, SqlType)>> {
        if let [(_, only)] = definition.columns.as_slice()
            && definition.gives_rows
            && let Err(error) = self.sql_type(only)
        {
            return self.row_columns(only, error);
        }
        definition.columns.iter().map(|(name, given)| Ok((name.clone(), self.sql_type(given)?))).collect()
    }

    /// The columns of the table that is named where a type should be. Fails with an error if there is none.
    pub(super) fn row_columns(&self, data_type: &DataType, error: Error) -> Result<Vec<(String, SqlType)>> {
        let DataType::Custom(name, _) = data_type else { return Err(error) };
        if let Some(columns) = self.context.row_columns(name)? {
            return Ok(columns);
        }
        let Some(Named::Table { table, .. }) = self.context.table(name)? else { return Err(error) };
        let rows = table.schema();
        let columns = rows.fields().iter().map(|field| {
            let sql_type = SqlType::of_field(field).ok_or_else(|| Error::bug("a column without a type"))?;
            Ok((field.name().clone(), sql_type.untimed()))
        });
        columns.collect()
    }

    /// An argument that is held in the type that the parameter says. Fails with 0A000 for an array of more dimensions.
    pub(super) fn argument_held(
        &self,
        parameter: &RoutineParameter,
        argument: &Expr,
        level: &Level<'_>,
    ) -> Result<Scalar> {
        let value = self.typed_scalar(&parameter.cast(argument), level)?;
        if let Some(data_type) = &parameter.data_type
            && dimensions(&value.sql_type()) > dimensions(&self.cast_type(data_type)?)
        {
            let message = "an array of several dimensions as the argument of a function that is no query";
            return Err(unsupported(message).with_hint("pass its elements, or a json value"));
        }
        Ok(value)
    }

    /// A call in FROM; `None` if there is no function of the name.
    pub(super) fn routine_rows(
        &self,
        name: &sqlparser::ast::ObjectName,
        arguments: &[FunctionArg],
        alias: Option<&TableAlias>,
        level: &Level<'_>,
        withs: &Withs<'_>,
    ) -> Result<Option<Rows>> {
        let routines = self.context.routines(name)?;
        if routines.is_empty() {
            return Ok(None);
        }
        let bare = name.0.last().and_then(|part| part.as_ident()).map(normalized).unwrap_or_default();
        let Some(call) = call_of(arguments) else { return Ok(None) };
        let (mut definition, arguments) = self.routine_for(&bare, routines, &call, level)?;
        if definition.is_record {
            definition.columns = declared_columns(&definition, alias)?;
        } else if alias.is_some_and(|alias| alias.columns.iter().any(|column| column.data_type.is_some())) {
            let message = match definition.columns.len() {
                0 => "a column definition list is only allowed for functions returning \"record\"",
                _ => "a column definition list is redundant for a function with OUT parameters",
            };
            return Err(Error::input(message).with_code("42601"));
        }
        let as_query = |value: &Expr| -> Result<Arc<Query>> {
            let mut query = crate::parse::query("SELECT 1")?;
            if let sqlparser::ast::SetExpr::Select(select) = query.body.as_mut() {
                let alias = sqlparser::ast::Ident::with_quote('"', &bare);
                select.projection = vec![sqlparser::ast::SelectItem::ExprWithAlias { expr: value.clone(), alias }];
            }
            Ok(Arc::new(query))
        };
        let rows = |body: &Body| match body {
            Body::Value(value) => as_query(value),
            Body::Rows(query) => Ok(query.clone()),
            Body::Program(_) | Body::Block(_) => Err(Error::bug("a program is no query")),
        };
        if let Body::Program(program) = &definition.body {
            let scalar = self.program(&definition, program, &arguments, level)?;
            if definition.gives_rows {
                let query = self.program_rows(&definition)?;
                let value = scalar.cast(SqlType::Json, true);
                return self.with_template(vec![value], || self.query(&query, Some(level), withs)).map(Some);
            }
            if !definition.columns.is_empty() {
                return self.block_rows(&definition, &bare, scalar).map(Some);
            }
            let column = self.column_for(&bare, &scalar);
            let outputs = vec![Output { name: bare, scalar: column.scalar() }];
            return Ok(Some(Rows { relation: Relation::one_row().mapped(vec![(column, scalar)]), outputs }));
        }
        if definition.is_procedure {
            return Err(is_procedure(&definition));
        }
        if let Body::Block(block) = &definition.body {
            let value = self.block(&definition, block, &arguments, level)?;
            return self.block_rows(&definition, &bare, value).map(Some);
        }
        if definition.is_macro {
            let query = rows(&definition.with_arguments(&typed_arguments(&definition, &arguments)))?;
            return self.deeper(|| self.query(&query, Some(level), withs)).map(Some);
        }
        let mut bound = Vec::with_capacity(arguments.len());
        for (argument, parameter) in arguments.iter().zip(&definition.parameters) {
            bound.push(self.typed_scalar(&parameter.cast(argument), level)?);
        }
        if let (Body::Value(value), Some(returns)) = (&definition.body, &definition.returns) {
            let sql_type = self.result_type(returns)?;
            if matches!(sql_type, SqlType::Record(_)) {
                let value = self.with_template(bound, || self.body_value(value, Some(&sql_type), level))?;
                let value = self.result_of(value, &sql_type, false)?;
                return self.block_rows(&definition, &bare, value).map(Some);
            }
        }
        let query = rows(&definition.body)?;
        let rows = self.with_template(bound, || self.query(&query, Some(level), withs))?;
        let mut rows = self.settled(rows)?;
        let (types, _) = self.spread(&definition, self.routine_columns(&definition)?, &rows);
        if types.is_empty() {
            return Ok(Some(rows));
        }
        if types.len() != rows.outputs.len() && definition.is_record {
            return Err(other_row(rows.outputs.len(), types.len()));
        }
        if types.len() != rows.outputs.len() {
            let error = Error::input(format!("return type mismatch in function declared to return {}", types.len()));
            let detail = format!("The function's last statement gives {} columns.", rows.outputs.len());
            return Err(error.with_code("42P13").with_detail(detail));
        }
        let mut computed = Vec::new();
        for (output, (name, sql_type)) in rows.outputs.iter_mut().zip(types) {
            let value = std::mem::replace(&mut output.scalar, Scalar::boolean(false));
            let scalar = self.result_of(value, &sql_type, false)?;
            let column = self.column_for(&name, &scalar);
            (output.name, output.scalar) = (name, column.scalar());
            computed.push((column, scalar));
        }
        rows.relation = rows.relation.mapped(computed);
        Ok(Some(rows))
    }

    /// The rows of a function that a statement made as an array, as ROWS FROM takes them; of a value the array has one
    /// element. `None` if there is no such function, or if its columns are only known where it is called.
    pub(super) fn routine_array(&self, call: &Function, level: &Level<'_>) -> Result<Option<Scalar>> {
        let routines = self.context.routines(&call.name)?;
        let Some(given) = call_of(written(call)).filter(|_| !routines.is_empty()) else { return Ok(None) };
        let (definition, arguments) = self.routine_for(&bare_name(call), routines, &given, level)?;
        if definition.is_macro || definition.is_record || definition.is_procedure {
            return Ok(None);
        }
        let array = match &definition.body {
            _ if !definition.gives_rows => {
                let value = self.typed_scalar(&Expr::Function(call.clone()), level)?;
                let sql_type = SqlType::array_of(value.sql_type());
                return Ok(Some(Scalar::Array { elements: vec![value], sql_type }));
            }
            Body::Program(program) => self.program_array(&definition, program, &arguments, level)?,
            Body::Block(block) => self.block(&definition, block, &arguments, level)?,
            Body::Value(_) => return Ok(None),
            Body::Rows(query) => {
                let bound = arguments.iter().zip(&definition.parameters);
                let bound = bound.map(|(argument, parameter)| self.typed_scalar(&parameter.cast(argument), level));
                let bound = bound.collect::<Result<Vec<_>>>()?;
                let nulls = bound.iter().map(|value| Scalar::IsNull(Box::new(value.clone())));
                let is_null =
                    (definition.is_strict && !bound.is_empty()).then(|| Scalar::any(nulls.collect::<Vec<_>>()));
                let array = self.with_template(bound, || self.rows_value(&definition, query, level))?;
                match is_null {
                    Some(is_null) => {
                        let sql_type = array.sql_type();
                        Scalar::Case { arms: vec![(is_null.negate(), array)], otherwise: None, sql_type }
                    }
                    None => array,
                }
            }
        };
        Ok(Some(array))
    }

    /// What a function with a block gives, as rows.
    fn block_rows(&self, definition: &Definition, name: &str, value: Scalar) -> Result<Rows> {
        let whole = self.column_for(name, &value);
        let mut relation = Relation::one_row().mapped(vec![(whole.clone(), value)]);
        if definition.gives_rows {
            let array = whole.scalar();
            let (columns, _) = self.element_columns(name, &array);
            let outputs = columns.iter().map(|column| Output { name: column.name.clone(), scalar: column.scalar() });
            let outputs = outputs.collect();
            let items = vec![FunctionItem { array, columns }];
            let input = Box::new(relation);
            relation = Relation::TableFunction(TableFunction { input, items, ordinality: None, keeps_all: false });
            return Ok(Rows { relation, outputs });
        }
        let SqlType::Record(fields) = &whole.sql_type else {
            let outputs = vec![Output { name: name.to_owned(), scalar: whole.scalar() }];
            return Ok(Rows { relation, outputs });
        };
        let fields = fields.clone();
        Ok(self.fields_of(relation, &whole, &fields))
    }

    /// The columns of a row instead of the row.
    fn fields_of(&self, relation: Relation, whole: &Column, fields: &RecordType) -> Rows {
        let mut computed = Vec::new();
        let mut outputs = Vec::new();
        for (index, field) in fields.iter().enumerate() {
            let input = Box::new(whole.scalar());
            let scalar = Scalar::Field { input, index, sql_type: field.sql_type.clone() };
            let column = self.column_for(&field.name, &scalar);
            outputs.push(Output { name: field.name.clone(), scalar: column.scalar() });
            computed.push((column, scalar));
        }
        Rows { relation: relation.mapped(computed), outputs }
    }

    /// What a function in FROM gives: of a composite type, its columns.
    pub(super) fn with_fields(&self, rows: Rows, function: &str) -> Rows {
        let columns = rows.columns();
        match columns.as_slice() {
            [only] if only.name == function => match &only.sql_type {
                SqlType::Record(fields) if fields.composite_name().is_some() => {
                    self.fields_of(rows.relation, only, fields)
                }
                _ => rows,
            },
            _ => rows,
        }
    }

    /// The place of the function that PostgreSQL chooses among several for arguments of these types; `None` where they
    /// are macros, where their parameters have no types of their own, or where programs take what is cast to their
    /// types. Fails with 42883 if none takes the arguments, and with 42725 if several do as well.
    fn chosen_routine(
        &self,
        name: &str,
        fitting: &[(Definition, Vec<Expr>)],
        call: &Call,
        types: &[SqlType],
    ) -> Result<Option<usize>> {
        if fitting.iter().any(|(routine, _)| routine.is_macro || routine.is_polymorphic()) {
            return Ok(None);
        }
        let taken = |routine: &Definition, position: usize, name: Option<&String>| {
            let parameter = match name {
                Some(name) => routine.parameters.iter().find(|parameter| parameter.name == *name),
                None => routine.parameters.get(position),
            };
            let data_type = parameter.filter(|parameter| !parameter.is_variadic)?.data_type.as_ref()?;
            Some(Argument::Exact(self.sql_type(data_type).ok()?.base().clone()))
        };
        let shapes = fitting.iter().map(|(routine, _)| {
            let places = call.iter().enumerate();
            places.map(|(at, (name, _))| taken(routine, at, name.as_ref()).unwrap_or(Argument::Any)).collect::<Vec<_>>()
        });
        let chosen = choose_routine(name, &shapes.collect::<Vec<_>>(), types)?;
        if chosen.is_none() && !fitting.iter().any(|(routine, _)| matches!(routine.body, Body::Program(_))) {
            let given = types.iter().map(|given| given.without_modifier().to_string()).collect::<Vec<_>>().join(", ");
            let error = Error::input(format!("function {name}({given}) does not exist")).with_code("42883");
            return Err(error.with_hint("none takes these types without a cast: write one, as in f(x::integer)"));
        }
        Ok(chosen)
    }

    /// Of functions of one name the one for these arguments, which are put in order.
    pub(super) fn routine_for(
        &self,
        name: &str,
        routines: Vec<Definition>,
        call: &Call,
        level: &Level<'_>,
    ) -> Result<(Definition, Vec<Expr>)> {
        let fitting = routines.into_iter().filter_map(|routine| Some((routine.ordered(call)?, routine)));
        let mut fitting = fitting.map(|(arguments, routine)| (routine, arguments)).collect::<Vec<_>>();
        if fitting.len() > 1 {
            let types = call.iter().map(|(_, argument)| self.scalar(argument, level).map(|scalar| scalar.sql_type()));
            // Literals in arrays are texts.
            let own = |sql_type: SqlType| match sql_type.uncollated().untimed() {
                array @ SqlType::Array(_) => of_texts(&array),
                other => other,
            };
            let types = types.map(|found| found.map(own));
            let types = types.collect::<Result<Vec<_>>>()?;
            if let Some(chosen) = self.chosen_routine(name, &fitting, call, &types)? {
                fitting = vec![fitting.swap_remove(chosen)];
            }
            // That with the fewest other types; a literal without a type is of any.
            let cost = |routine: &Definition| {
                let cost = |(given, parameter): (&SqlType, &RoutineParameter)| {
                    let wanted = parameter.data_type.as_ref().and_then(|wanted| self.sql_type(wanted).ok());
                    let wanted = wanted.map(|wanted| wanted.base().clone());
                    match (given, wanted) {
                        // A literal without a type is a text, if it may be one.
                        (SqlType::Unknown, None | Some(SqlType::Text | SqlType::Varchar(_))) => 0,
                        (SqlType::Unknown, Some(_)) => 1,
                        (_, None) => 2,
                        (given, Some(wanted)) if given.without_modifier() == wanted.without_modifier() => 0,
                        (given, Some(wanted)) if is_number(given) && is_number(&wanted) => 1,
                        _ => 10,
                    }
                };
                types.iter().zip(&routine.parameters).map(cost).sum::<usize>()
            };
            fitting.sort_by_cached_key(|(routine, _)| cost(routine));
            if let [(first, _), (second, _), ..] = fitting.as_slice()
                && first.is_macro
                && cost(first) == cost(second)
            {
                let error = Error::input(format!("several bodies of the macro {name} take these arguments"));
                return Err(error.with_code("42725").with_hint("name the arguments, or cast them: f(a := 1)"));
            }
        }
        let none = || {
            let error = Error::input(format!("function {name} does not take these arguments")).with_code("42883");
            error.with_hint("it was made with others; \\df shows functions with their arguments")
        };
        let mut refused = None;
        for (routine, arguments) in fitting {
            if !routine.is_polymorphic() {
                return Ok((routine, arguments));
            }
            match self.specialized(name, routine, &arguments, level) {
                Ok(routine) => return Ok((routine, arguments)),
                Err(error) => {
                    refused.get_or_insert(error);
                }
            }
        }
        Err(refused.unwrap_or_else(none))
    }

    /// A function with the types that arguments give to those of its parameters that say none. Fails with 42883 if they
    /// do not go together, and with 42804 if they say nothing.
    fn specialized(
        &self,
        name: &str,
        routine: Definition,
        arguments: &[Expr],
        level: &Level<'_>,
    ) -> Result<Definition> {
        let types = arguments.iter().map(|argument| self.scalar(argument, level).map(|scalar| scalar.sql_type()));
        let types = types.collect::<Result<Vec<_>>>()?;
        let refused = || {
            let given = types.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let error = Error::input(format!("function {name}({given}) does not exist")).with_code("42883");
            error.with_hint(
                "No function matches the given name and argument types. You might need to add explicit type casts.",
            )
        };
        let (mut elements, mut common) = (Vec::new(), Vec::new());
        for (given, parameter) in types.iter().zip(&routine.parameters) {
            let Some(kind) = parameter.data_type.as_ref().and_then(polymorphic) else { continue };
            let element = match (kind.is_array, given) {
                (_, SqlType::Unknown) => continue,
                (true, SqlType::Array(element)) if **element == SqlType::Unknown => SqlType::Text,
                (true, SqlType::Array(element)) => element.as_ref().clone(),
                (true, _) => return Err(refused()),
                (false, given) => given.clone(),
            };
            if element == SqlType::Unknown {
                continue;
            }
            if kind.is_common { common.push(element) } else { elements.push(element.without_modifier()) }
        }
        if elements.iter().any(|element| *element != elements[0]) {
            return Err(refused());
        }
        let is_common = |parameter: &RoutineParameter| {
            parameter.data_type.as_ref().and_then(polymorphic).is_some_and(|kind| kind.is_common)
        };
        let is_own = |parameter: &RoutineParameter| {
            parameter.data_type.as_ref().and_then(polymorphic).is_some_and(|kind| !kind.is_common)
        };
        if elements.is_empty() && routine.parameters.iter().any(is_own) {
            let message = "could not determine polymorphic type because input has type unknown";
            return Err(Error::input(message).with_code("42804").with_hint("cast one of the arguments"));
        }
        let common = match common.is_empty() {
            true if routine.parameters.iter().any(is_common) => Some(SqlType::Text),
            true => None,
            false => Some(diligence_types::coercion::common_type(&common).ok_or_else(refused)?),
        };
        let written = |sql_type: &SqlType| match crate::parse::expression(&format!("CAST(NULL AS {sql_type})"))? {
            Expr::Cast { data_type, .. } => Ok(data_type),
            _ => Err(Error::bug("a type is none")),
        };
        let element = elements.first().map(written).transpose()?;
        let common = common.map(|common| written(&common.without_modifier())).transpose()?;
        Ok(routine.of_types(element.as_ref(), common.as_ref()))
    }

    /// `t.f` where `t` has no column `f`: the function `f` of its row, if a statement made one. Fails as a call does.
    pub(super) fn field_by_function(
        &self,
        source: &[Ident],
        name: &Ident,
        level: &Level<'_>,
    ) -> Result<Option<Scalar>> {
        if let Some(column) = self.by_other_name(source, name, level) {
            return Ok(Some(column));
        }
        let function = ObjectName::from(vec![Ident::with_quote('"', normalized(name))]);
        let takes_row = |routine: &Definition| !routine.is_macro && routine.parameters.len() == 1;
        if !self.context.routines(&function)?.iter().any(takes_row) {
            return Ok(None);
        }
        let source = source.iter().map(ToString::to_string).collect::<Vec<_>>().join(".");
        let call = crate::parse::expression(&format!("{function}({}({source}))", quoted(WHOLE_ROW)))?;
        self.scalar(&call, level).map(Some)
    }

    pub(super) fn with_template<T>(&self, arguments: Vec<Scalar>, bind: impl FnOnce() -> Result<T>) -> Result<T> {
        self.templates.borrow_mut().push(Arc::new(arguments));
        let bound = self.deeper(bind);
        self.templates.borrow_mut().pop();
        bound
    }

    /// Binds a body. Fails with 54001 if functions nest too deep.
    fn deeper<T>(&self, bind: impl FnOnce() -> Result<T>) -> Result<T> {
        if self.routine_depth.get() >= ROUTINE_DEPTH_MAX {
            let message = format!("functions nest too deep: more than {ROUTINE_DEPTH_MAX}");
            let error = Error::input(message).with_code("54001");
            return Err(error.with_hint("a function's body takes its place, so it cannot call itself"));
        }
        self.routine_depth.set(self.routine_depth.get() + 1);
        let bound = bind();
        self.routine_depth.set(self.routine_depth.get() - 1);
        bound
    }
}

/// Fails with 0A000 for a function that only tables call.
fn refuse_trigger(definition: &Definition) -> Result<()> {
    if !definition.is_trigger {
        return Ok(());
    }
    let error = Error::unsupported("trigger functions can only be called as triggers").with_code("0A000");
    Err(error.with_hint("CREATE TRIGGER … EXECUTE FUNCTION has a table call it"))
}

/// Looks whether a function's body makes sense for arguments of its types. Fails as binding it does.
pub(crate) fn check_routine(definition: &Definition, context: &dyn Context) -> Result<()> {
    let binder = Binder::new(context);
    if definition.is_polymorphic() {
        // Its body is looked at where calls say the types.
        return Ok(());
    }
    if let Some(kind) = definition.returns.as_ref().and_then(polymorphic) {
        let what = if kind.is_common { "anycompatible" } else { "anyelement" };
        let error = Error::input("cannot determine result data type").with_code("42P13");
        let detail = format!("A result of a type such as {what} requires at least one input of such a type.");
        return Err(error.with_detail(detail));
    }
    if let Body::Block(block) = &definition.body {
        if context.setting("check_function_bodies").as_deref() != Some("off") {
            check(block).map_err(|error| error.context(format!("the function '{}'", definition.name)))?;
        }
        return binder.procedure_of(definition, block).map(drop);
    }
    if let Body::Program(program) = &definition.body {
        binder.routine_columns(definition)?;
        return context.check_program(&binder.program_call(definition, program)?);
    }
    let null = |parameter: &RoutineParameter| {
        let sql_type =
            parameter.data_type.as_ref().map(|given| binder.cast_type(given)).transpose()?.map(SqlType::untimed);
        let sql_type = sql_type.unwrap_or(SqlType::Text);
        Ok(Scalar::Constant(Constant::null(sql_type.base().clone())))
    };
    let arguments = definition.parameters.iter().map(null).collect::<Result<Vec<_>>>()?;
    let returns = definition.returns.as_ref().map(|data_type| binder.result_type(data_type)).transpose()?;
    let declared = binder.routine_columns(definition)?;
    let withs = Withs::default();
    let checked = binder.with_template(arguments, || match &definition.body {
        Body::Value(value) => {
            let level = Level::new(None, &withs, Namespace::default(), Clause::Select);
            binder.body_value(value, returns.as_ref(), &level).map(drop)
        }
        Body::Program(_) | Body::Block(_) => Ok(()),
        Body::Rows(query) => {
            let rows = binder.query(query, None, &withs)?;
            let (declared, whole) = binder.spread(definition, declared, &rows);
            match declared.len() {
                0 => Ok(()),
                count if count == rows.outputs.len() => Ok(()),
                count => {
                    let whole = whole.map(|whole| format!(" declared to return {whole}")).unwrap_or_default();
                    let error = Error::input(format!("return type mismatch in function{whole}")).with_code("42P13");
                    let given = rows.outputs.len();
                    Err(error.with_detail(format!("It is declared with {count} columns, and its query gives {given}.")))
                }
            }
        }
    });
    // NULL stands for its arguments: that it may not be one says nothing of the body, such as of a frame's offset.
    if checked.as_ref().is_err_and(|error| error.code() == Some("22004")) {
        return Ok(());
    }
    // Places in its text are none in the statement's.
    checked.map_err(|error| error.context(format!("the function '{}'", definition.name)))
}

/// The procedure that CALL runs, with its arguments in order. Fails with 42883 if there is none, and with 42809 if it
/// is a function.
pub(crate) fn called(call: &Function, context: &dyn Context) -> Result<(Procedure, Vec<Expr>)> {
    let binder = Binder::new(context);
    let name = bare_name(call);
    let none = |name: &str| {
        let error = Error::input(format!("procedure {name} does not exist")).with_code("42883");
        error.with_hint(
            "No procedure matches the given name and argument types. You might need to add explicit type casts.",
        )
    };
    let routines = context.routines(&call.name)?;
    if routines.is_empty() {
        return Err(none(&name));
    }
    if let Some(function) = routines.first().filter(|_| !routines.iter().any(|routine| routine.is_procedure)) {
        let error = Error::input(format!("{} is not a procedure", shown(function))).with_code("42809");
        return Err(error.with_hint("To call a function, use SELECT."));
    }
    let given = call_of(written(call)).ok_or_else(|| none(&name))?;
    let withs = Withs::default();
    let level = Level::new(None, &withs, Namespace::default(), Clause::Select);
    let procedures = routines.into_iter().filter(|routine| routine.is_procedure).collect();
    let (definition, arguments) = binder.routine_for(&name, procedures, &given, &level)?;
    let Body::Block(block) = &definition.body else { return Err(none(&name)) };
    let arguments = arguments.iter().zip(&definition.parameters);
    let arguments = arguments.map(|(argument, parameter)| parameter.cast(argument)).collect();
    refuse_trigger(&definition)?;
    Ok((binder.procedure_of(&definition, block)?, arguments))
}

/// The arguments as they are written; `None` if one is no expression.
pub(super) fn call_of(arguments: &[FunctionArg]) -> Option<Call> {
    let one = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some((None, value.clone())),
        FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } => {
            Some((Some(normalized(name)), value.clone()))
        }
        // `f(t.*)`: the row.
        FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(name)) => {
            let row = crate::parse::expression(&format!("{}({name})", quoted(WHOLE_ROW)));
            row.ok().map(|row| (None, row))
        }
        _ => None,
    };
    arguments.iter().map(one).collect()
}

/// The arguments of a macro, in the types that its parameters say.
fn typed_arguments(definition: &Definition, arguments: &[Expr]) -> Vec<Expr> {
    arguments.iter().zip(&definition.parameters).map(|(argument, parameter)| parameter.cast(argument)).collect()
}

fn is_number(sql_type: &SqlType) -> bool {
    use SqlType::{BigInt, Double, Integer, Numeric, Real, SmallInt};
    matches!(sql_type, SmallInt | Integer | BigInt | Real | Double | Numeric { .. })
}

/// The columns that FROM declares of a function that returns records. Fails with 42601 if it declares none.
fn declared_columns(definition: &Definition, alias: Option<&TableAlias>) -> Result<Vec<(String, DataType)>> {
    let columns = alias.iter().flat_map(|alias| &alias.columns);
    let columns = columns.map(|column| Some((normalized(&column.name), column.data_type.clone()?)));
    match columns.collect::<Option<Vec<_>>>().filter(|columns| !columns.is_empty()) {
        Some(columns) => Ok(columns),
        None => {
            let message = "a column definition list is required for functions returning \"record\"";
            let error = Error::input(message).with_code("42601");
            Err(error.with_hint(format!("{}(…) AS t(a integer, b text)", definition.name)))
        }
    }
}

/// A routine with the types of its arguments.
fn shown(definition: &Definition) -> String {
    format!("{}({})", definition.name, definition.arguments().unwrap_or_default())
}

fn is_procedure(definition: &Definition) -> Error {
    let message = format!("{} is a procedure", shown(definition));
    Error::input(message).with_code("42809").with_hint("To call a procedure, use CALL.")
}

/// The error for rows of a function that are others than its call declares.
fn other_row(given: usize, wanted: usize) -> Error {
    let error = Error::input("function return row and query-specified return row do not match");
    let columns = if given == 1 { "" } else { "s" };
    let detail = format!("Returned row contains {given} attribute{columns}, but query expects {wanted}.");
    error.with_code("42804").with_detail(detail)
}

fn in_from(name: &str) -> Error {
    let error = Error::unsupported(format!("the function {name} gives rows")).with_code("0A000");
    error.with_hint(format!("it stands in FROM: SELECT * FROM {name}(…)"))
}
