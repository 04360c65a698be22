//! What functions that statements made are: parameters, a body with `$1`, `$2`, … in their places, and what comes out.

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion_expr::Volatility;
use diligence_base::function_limits::FunctionLimits;
use diligence_base::{Error, Result};
use diligence_catalog::{MacroBody, MacroParameter, macro_bodies, settings_of};
use diligence_pool::{Form, Runtime};
use sqlparser::ast::{
    self, ArgMode, CastKind, CreateFunctionBody, DataType, Expr, FunctionBehavior, FunctionCalledOnNull,
    FunctionReturnType, Ident, MacroDefinition, Query, SetExpr, Statement, VisitorMut,
};

use crate::parse::{self, SyntaxTree};
use crate::procedural::{self, Block};
use crate::programs::{self, Program};
use crate::walking::{walk, walk_mut};

/// A function as it is put in the place of its calls.
#[derive(Clone)]
pub(crate) struct Definition {
    /// Its name, as written.
    pub name: String,
    /// What it takes, in order.
    pub parameters: Vec<RoutineParameter>,
    /// What it computes.
    pub body: Body,
    /// The type of its value; of a macro, and of rows, what the body says.
    pub returns: Option<DataType>,
    /// What its rows' columns are called, and their types; those of the body, if empty.
    pub columns: Vec<(String, DataType)>,
    /// Whether it is NULL if an argument is.
    pub is_strict: bool,
    /// Whether arguments are put in as they are written: a macro.
    pub is_macro: bool,
    /// Whether it gives any number of rows.
    pub gives_rows: bool,
    /// Whether it is a procedure, which CALL runs.
    pub is_procedure: bool,
    /// The parameter whose value it gives, if it has one to give (OUT).
    pub output: Option<String>,
    /// Whether only tables call it: RETURNS trigger.
    pub is_trigger: bool,
    /// As whom it runs, if that is not whoever calls it.
    pub acts_as: Option<String>,
    /// What its settings are while it runs.
    pub settings: Vec<(String, String)>,
    /// Whether its calls say what its columns are: RETURNS record.
    pub is_record: bool,
}

/// What a routine takes.
#[derive(Clone)]
pub(crate) struct RoutineParameter {
    /// Its name; empty without one.
    pub name: String,
    /// Its type; any, of a macro.
    pub data_type: Option<DataType>,
    /// Its value if it is left out.
    pub default: Option<Expr>,
    /// Whether it takes all further arguments, as an array.
    pub is_variadic: bool,
}

impl RoutineParameter {
    /// An argument in its type.
    pub fn cast(&self, argument: &Expr) -> Expr {
        match &self.data_type {
            None => argument.clone(),
            Some(data_type) => cast(argument, data_type),
        }
    }
}

/// A value in a type.
pub(crate) fn cast(value: &Expr, data_type: &DataType) -> Expr {
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(Expr::Nested(Box::new(value.clone()))),
        data_type: data_type.clone(),
        array: false,
        format: None,
    }
}

/// What a routine computes, with parameters as placeholders.
#[derive(Clone)]
pub(crate) enum Body {
    /// A value.
    Value(Arc<Expr>),
    /// Rows.
    Rows(Arc<Query>),
    /// A value that a process computes.
    Program(Arc<Program>),
    /// Statements.
    Block(Arc<Block>),
}

impl Definition {
    /// What a statement defines. Fails with 0A000 for what there is not, 42P13 for what makes no function, and as its
    /// body is read.
    pub(crate) fn of(statement: &Statement) -> Result<Self> {
        match statement {
            Statement::CreateMacro { name, args, definition, .. } => {
                let parameters = args.iter().flatten().map(|given| RoutineParameter {
                    name: lower(&given.name),
                    data_type: None,
                    default: given.default_expr.clone(),
                    is_variadic: false,
                });
                Ok(Self::of_macro(last(name)?, parameters.collect(), definition))
            }
            Statement::CreateFunction(create) => Self::of_function(create),
            _ => Err(Error::bug("a statement makes no function")),
        }
    }

    /// What a statement defines, which is several of one name if it is a macro with several bodies. Fails as
    /// [`Self::of`] does.
    pub(crate) fn all_of(statement: &Statement) -> Result<Vec<Self>> {
        let (Statement::CreateMacro { name, .. }, Some(bodies)) = (statement, macro_bodies(statement)) else {
            return Ok(vec![Self::of(statement)?]);
        };
        bodies.iter().map(|body| Self::of_body(last(name)?, body)).collect()
    }

    fn of_macro(name: String, parameters: Vec<RoutineParameter>, definition: &MacroDefinition) -> Self {
        let body = match definition {
            MacroDefinition::Expr(value) => Body::Value(Arc::new(value.clone())),
            MacroDefinition::Table(query) => Body::Rows(Arc::new(query.as_ref().clone())),
        };
        Self {
            name,
            parameters,
            body,
            returns: None,
            columns: vec![],
            is_strict: false,
            is_macro: true,
            gives_rows: false,
            is_procedure: false,
            output: None,
            is_trigger: false,
            acts_as: None,
            settings: vec![],
            is_record: false,
        }
        .with_placeholders()
    }

    /// A macro of one of its bodies, which are texts.
    fn of_body(name: String, body: &MacroBody) -> Result<Self> {
        let typed = |type_name: &String| match parse::expression(&format!("CAST(NULL AS {type_name})"))? {
            Expr::Cast { data_type, .. } => Ok(data_type),
            _ => Err(Error::input(format!("\"{type_name}\" is no type")).with_code("42601")),
        };
        let parameter = |given: &MacroParameter| {
            Ok(RoutineParameter {
                name: given.name.clone(),
                data_type: given.type_name.as_ref().map(typed).transpose()?,
                default: given.default.as_ref().map(|default| parse::expression(default)).transpose()?,
                is_variadic: false,
            })
        };
        let parameters = body.parameters.iter().map(parameter).collect::<Result<Vec<_>>>()?;
        let parsed = parse::parse_one(&format!("CREATE MACRO f() AS {}", body.text))?;
        match parsed.statement {
            SyntaxTree::Statement(statement) => match statement.as_ref() {
                Statement::CreateMacro { definition, .. } => Ok(Self::of_macro(name, parameters, definition)),
                _ => Err(Error::bug("a body makes no macro")),
            },
            _ => Err(Error::bug("a body makes no macro")),
        }
    }

    fn of_function(create: &ast::CreateFunction) -> Result<Self> {
        let language = create.language.as_ref().map_or_else(|| "sql".to_owned(), lower);
        let form = programs::form_of(&language);
        if !matches!(language.as_str(), "sql" | "plpgsql") && form.is_none() {
            let error = Error::unsupported(format!("language \"{language}\" is not supported")).with_code("0A000");
            return Err(error.with_hint(
                "functions are written in SQL, PL/pgSQL, Python or WebAssembly: LANGUAGE sql, plpgsql, python, python_arrow, \
                 python_aggregate, wasm, wasm_arrow",
            ));
        }
        refuse_names_twice(create)?;
        let is_procedure = create.return_type.as_ref().is_some_and(is_of_procedure);
        let settings = settings_of(create);
        let (settings, limits) = match form.is_some() {
            true => (vec![], own_limits(&settings, &language)?),
            false => (settings, FunctionLimits::default()),
        };
        // What runs as somebody else, or under other settings, does not stand in the place of the call.
        let is_apart = !settings.is_empty() || matches!(create.security, Some(ast::FunctionSecurity::Definer));
        let (mut parameters, mut columns) = (Vec::new(), Vec::new());
        for given in create.args.iter().flatten() {
            let name = given.name.as_ref().map(lower).unwrap_or_default();
            let is_variadic = matches!(given.mode, Some(ArgMode::Variadic));
            if matches!(given.mode, Some(ArgMode::Out | ArgMode::InOut)) {
                columns.push((name.clone(), given.data_type.clone()));
            }
            // CALL names those that are given back, too.
            if is_procedure || !matches!(given.mode, Some(ArgMode::Out)) {
                let (data_type, default) = (Some(given.data_type.clone()), given.default_expr.clone());
                parameters.push(RoutineParameter { name, data_type, default, is_variadic });
            }
        }
        let (mut returns, mut gives_rows, mut is_called_by_tables, mut is_record) = (None, false, false, false);
        match &create.return_type {
            // Of what OUT parameters name, this says nothing more.
            Some(FunctionReturnType::SetOf(given)) if is_record_type(given) => {
                gives_rows = true;
                is_record = columns.is_empty();
            }
            Some(FunctionReturnType::DataType(given)) if is_record_type(given) => is_record = columns.is_empty(),
            Some(FunctionReturnType::SetOf(given)) => {
                gives_rows = true;
                columns = vec![(last(&create.name)?, given.clone())];
            }
            Some(FunctionReturnType::DataType(DataType::Table(Some(given)))) => {
                gives_rows = true;
                columns = given.iter().map(|column| (lower(&column.name), column.data_type.clone())).collect();
            }
            Some(FunctionReturnType::DataType(given)) if is_void(given) || is_procedure => {}
            Some(FunctionReturnType::DataType(given)) if is_trigger(given) => is_called_by_tables = true,
            Some(FunctionReturnType::DataType(given)) => returns = Some(given.clone()),
            None if columns.is_empty() => {
                return Err(Error::input("function result type must be specified").with_code("42P13"));
            }
            None => {}
        }
        let mut output = None;
        if let [(name, only)] = columns.as_slice()
            && !gives_rows
            && !is_procedure
        {
            returns = Some(only.clone());
            output = Some(name.clone());
            columns.clear();
        }
        let is_value = !gives_rows && columns.is_empty() && returns.is_some();
        let is_void = matches!(&create.return_type, Some(FunctionReturnType::DataType(given)) if is_void(given));
        // Of OUT parameters a row; or nothing.
        let is_row_or_nothing = !gives_rows && !is_record && !is_procedure && (is_void || !columns.is_empty());
        let gives = gives_rows || is_record || !columns.is_empty() || returns.is_some();
        let form = form.map(|form| if form == Form::Rows && gives_rows { Form::RowSets } else { form });
        let may_give_rows = form.is_some_and(|form| form == Form::RowSets || form.runtime() == Runtime::Wasm);
        let body = match &create.function_body {
            Some(CreateFunctionBody::AsBeforeOptions { body, .. } | CreateFunctionBody::AsAfterOptions(body))
                if language == "plpgsql" =>
            {
                let text = text_of(body).ok_or_else(no_body)?;
                Body::Block(Arc::new(match is_called_by_tables {
                    true => procedural::read(&with_places_from_one(text))?,
                    false => procedural::read(text)?,
                }))
            }
            _ if is_called_by_tables => {
                let error = Error::input(format!("{language} functions cannot return type trigger"));
                return Err(error.with_code("42P13").with_hint("write trigger functions in PL/pgSQL"));
            }
            _ if form.is_some() && is_procedure => {
                let error = Error::unsupported(format!("procedures in {language} are not supported"));
                return Err(error.with_code("0A000").with_hint("make a function that RETURNS void, and SELECT it"));
            }
            _ if let Some(form) = form
                && !is_value
                && !(form == Form::Rows && is_row_or_nothing)
                && !(gives_rows && may_give_rows) =>
            {
                let error = Error::unsupported(format!("functions in {language} return one value")).with_code("0A000");
                return Err(error.with_hint(
                    "RETURNS text, or another type; LANGUAGE python and wasm may return rows, and python also void and \
                     OUT parameters",
                ));
            }
            Some(CreateFunctionBody::AsBeforeOptions { body, link_symbol })
                if let Some(form) = form.filter(|form| link_symbol.is_none() || form.runtime() == Runtime::Wasm) =>
            {
                let text = text_of(body).ok_or_else(no_body)?.to_owned();
                let export = link_symbol.as_ref().map(|name| text_of(name).ok_or_else(no_body)).transpose()?;
                let export = export.map(str::to_owned);
                let volatility = match create.behavior {
                    Some(FunctionBehavior::Immutable) => Volatility::Immutable,
                    Some(FunctionBehavior::Stable) => Volatility::Stable,
                    Some(FunctionBehavior::Volatile) | None => Volatility::Volatile,
                };
                Body::Program(Arc::new(Program { form, text, export, volatility, limits, closure: None }))
            }
            _ if form.is_some() => return Err(no_body()),
            Some(CreateFunctionBody::Return(value)) if is_apart => {
                let statements = parse::split(&format!("SELECT {value}"))?;
                Body::Block(Arc::new(procedural::statements(statements, gives)))
            }
            Some(CreateFunctionBody::Return(value)) => Body::Value(Arc::new(value.clone())),
            Some(CreateFunctionBody::AsBeforeOptions { body, .. } | CreateFunctionBody::AsAfterOptions(body)) => {
                let text = text_of(body).ok_or_else(no_body)?;
                let statements = parse::split(text)?;
                match only_query(&statements).filter(|_| !is_procedure && !is_apart) {
                    None => Body::Block(Arc::new(procedural::statements(statements, gives))),
                    Some(query) => match value_of(&query).filter(|_| !gives_rows && !is_record && columns.is_empty()) {
                        Some(value) => Body::Value(Arc::new(value.clone())),
                        None => Body::Rows(Arc::new(query)),
                    },
                }
            }
            _ => return Err(no_body()),
        };
        let body = match body {
            // Of several rows the first counts.
            Body::Rows(query) if !gives_rows => {
                let mut query = query.as_ref().clone();
                if query.limit_clause.is_none() && query.fetch.is_none() {
                    query.limit_clause = parse::query("SELECT 1 LIMIT 1")?.limit_clause;
                }
                if is_record || !columns.is_empty() {
                    Body::Rows(Arc::new(query))
                } else {
                    Body::Value(Arc::new(Expr::Subquery(Box::new(query))))
                }
            }
            other => other,
        };
        let is_strict = matches!(
            create.called_on_null,
            Some(FunctionCalledOnNull::ReturnsNullOnNullInput | FunctionCalledOnNull::Strict)
        );
        let definition = Self {
            name: last(&create.name)?,
            parameters,
            body,
            returns,
            columns,
            is_strict,
            is_macro: false,
            gives_rows,
            is_procedure,
            output,
            is_trigger: is_called_by_tables,
            acts_as: None,
            settings,
            is_record,
        };
        Ok(definition.with_placeholders())
    }

    /// The same with `$1`, `$2`, … in the places of names.
    fn with_placeholders(mut self) -> Self {
        let names = self.parameters.iter().map(|parameter| parameter.name.clone()).collect::<Vec<_>>();
        let mut tables = Tables::default();
        match &self.body {
            Body::Value(value) => drop(walk(value.as_ref(), &mut tables)),
            Body::Rows(query) => drop(walk(query.as_ref(), &mut tables)),
            Body::Program(_) | Body::Block(_) => {}
        }
        let mut places = Places { function: &self.name, names: &names, tables: tables.0, values: None };
        match &mut self.body {
            Body::Value(value) => drop(walk_mut(Arc::make_mut(value), &mut places)),
            Body::Rows(query) => drop(walk_mut(Arc::make_mut(query), &mut places)),
            Body::Program(_) | Body::Block(_) => {}
        }
        self
    }

    /// The body of a macro with these arguments in it.
    pub(crate) fn with_arguments(&self, arguments: &[Expr]) -> Body {
        let mut places = Places { function: "", names: &[], tables: vec![], values: Some(arguments) };
        match &self.body {
            Body::Value(value) => {
                let mut value = value.as_ref().clone();
                let _ = walk_mut(&mut value, &mut places);
                Body::Value(Arc::new(value))
            }
            Body::Rows(query) => {
                let mut query = query.as_ref().clone();
                let _ = walk_mut(&mut query, &mut places);
                Body::Rows(Arc::new(query))
            }
            Body::Program(program) => Body::Program(program.clone()),
            Body::Block(block) => Body::Block(block.clone()),
        }
    }

    /// The arguments of a call, in the order of the parameters, with defaults; `None` if they do not fit.
    pub(crate) fn ordered(&self, call: &[(Option<String>, Expr)]) -> Option<Vec<Expr>> {
        let gathered = self.gathered(call)?;
        let call = gathered.as_deref().unwrap_or(call);
        let mut values = vec![None; self.parameters.len()];
        for (position, (name, value)) in call.iter().enumerate() {
            let place = match name {
                None => position,
                Some(name) => self.parameters.iter().position(|parameter| parameter.name == *name)?,
            };
            let slot = values.get_mut(place)?;
            if slot.replace(value.clone()).is_some() {
                return None;
            }
        }
        let values = values.into_iter().zip(&self.parameters);
        values.map(|(value, parameter)| value.or_else(|| parameter.default.clone())).collect()
    }

    /// The arguments with those in one array that the last parameter takes; nothing inside of a value if none does,
    /// and `None` if it must take one and there is none.
    fn gathered(&self, call: &[(Option<String>, Expr)]) -> Option<Option<Vec<(Option<String>, Expr)>>> {
        let place = match self.parameters.last() {
            Some(last) if last.is_variadic => self.parameters.len() - 1,
            _ => return Some(None),
        };
        if let Some((None, Expr::Function(function))) = call.get(place)
            && function.name.to_string() == format!("\"{}\"", parse::VARIADIC_ARRAY)
            && let ast::FunctionArguments::List(list) = &function.args
            && let [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(array))] = list.args.as_slice()
        {
            let mut call = call.to_vec();
            call[place].1 = array.clone();
            return Some(Some(call));
        }
        let given = call.get(place..).unwrap_or_default();
        if given.is_empty() || given.iter().any(|(name, _)| name.is_some()) {
            return if call.iter().any(|(name, _)| name.is_some()) { Some(None) } else { None };
        }
        let elem = given.iter().map(|(_, value)| value.clone()).collect();
        let array = Expr::Array(ast::Array { elem, named: true });
        Some(Some(call[..place].iter().cloned().chain([(None, array)]).collect()))
    }

    /// Whether the types of its arguments decide those of its parameters: anyelement and its kin.
    pub(crate) fn is_polymorphic(&self) -> bool {
        self.parameters
            .iter()
            .any(|parameter| parameter.data_type.as_ref().is_some_and(|own| polymorphic(own).is_some()))
    }

    /// The same for an element of this type, or the type that all arguments have in common.
    pub(crate) fn of_types(mut self, element: Option<&DataType>, common: Option<&DataType>) -> Self {
        let decided = |data_type: &mut DataType| {
            let Some(kind) = polymorphic(data_type) else { return };
            let Some(found) = (if kind.is_common { common } else { element }) else { return };
            *data_type = match kind.is_array {
                true => DataType::Array(ast::ArrayElemTypeDef::SquareBracket(Box::new(found.clone()), None)),
                false => found.clone(),
            };
        };
        self.parameters.iter_mut().filter_map(|parameter| parameter.data_type.as_mut()).for_each(decided);
        self.returns.iter_mut().for_each(decided);
        self.columns.iter_mut().for_each(|(_, data_type)| decided(data_type));
        self
    }

    /// What tells it from others of its name: the types of its parameters. `None` for a macro.
    pub(crate) fn arguments(&self) -> Option<String> {
        let types = self.parameters.iter().filter_map(|parameter| parameter.data_type.as_ref());
        (!self.is_macro).then(|| types.map(type_name).collect::<Vec<_>>().join(", "))
    }
}

/// Fails with 42723 if two bodies of a macro take the same.
pub(crate) fn refuse_equal_bodies(bodies: &[Definition]) -> Result<()> {
    let types = |body: &Definition| {
        let types = body.parameters.iter().map(|parameter| parameter.data_type.as_ref().map(type_name));
        types.collect::<Vec<_>>()
    };
    let is_twice =
        |(place, body): (usize, &Definition)| bodies[..place].iter().any(|other| types(other) == types(body));
    if !bodies.iter().enumerate().any(is_twice) {
        return Ok(());
    }
    let error = Error::input("two bodies of the macro take the same arguments").with_code("42723");
    Err(error.with_hint("they differ in the number of their parameters, or in the types of these"))
}

/// What a function in another language may take, where that is less than others may. Fails with 0A000 for settings that
/// are no limits, and with 22023 for values that are none.
fn own_limits(settings: &[(String, String)], language: &str) -> Result<FunctionLimits> {
    let mut limits = FunctionLimits::default();
    for (name, value) in settings {
        if !limits.set(name, value)? {
            let error = Error::unsupported(format!("functions in {language} cannot have {name} of their own"));
            let own = FunctionLimits::NAMES.join(", ");
            let hint = format!(
                "they can have {own}; for others, call it from a function in SQL or PL/pgSQL that has the clause"
            );
            return Err(error.with_code("0A000").with_hint(hint));
        }
    }
    Ok(limits)
}

/// A statement that makes a function of a module in a file, with the module's bytes in the place of its name. `None`
/// for any other statement. Fails as `read` does.
pub(crate) fn with_module(
    statement: &Statement,
    read: impl FnOnce(&str) -> Result<Vec<u8>>,
) -> Result<Option<Statement>> {
    let Statement::CreateFunction(create) = statement else { return Ok(None) };
    let language = create.language.as_ref().map(lower).and_then(|language| programs::form_of(&language));
    let is_wasm = language.is_some_and(|form| form.runtime() == Runtime::Wasm);
    let Some(CreateFunctionBody::AsBeforeOptions { body, link_symbol }) = &create.function_body else {
        return Ok(None);
    };
    let Some(path) = text_of(body).filter(|text| is_wasm && programs::is_module_path(text)) else { return Ok(None) };
    if path.trim().is_empty() {
        return Err(no_body());
    }
    let bytes = read(path.trim())?;
    let text = match bytes.starts_with(b"\0asm") {
        true => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        false => String::from_utf8_lossy(&bytes).into_owned(),
    };
    if programs::is_module_path(&text) {
        let error = Error::input(format!("'{path}' is no module of WebAssembly")).with_code("42601");
        return Err(error.with_hint("a module begins with its magic bytes (.wasm), or with '(module' (.wat)"));
    }
    let body = Expr::Value(ast::Value::SingleQuotedString(text).into());
    let mut made = create.clone();
    made.function_body = Some(CreateFunctionBody::AsBeforeOptions { body, link_symbol: link_symbol.clone() });
    Ok(Some(Statement::CreateFunction(made)))
}

/// A type's name as functions are told apart by it.
pub(crate) fn type_name(data_type: &DataType) -> String {
    match diligence_types::SqlType::parse(&data_type.to_string()) {
        Some(known) => known.without_modifier().to_string(),
        None => data_type.to_string().to_lowercase(),
    }
}

/// Puts placeholders in the places of names or, with values, values in the places of placeholders.
struct Places<'a> {
    function: &'a str,
    names: &'a [String],
    /// Tables of the body: `t.a` is a column of theirs rather than a field of a parameter `t`.
    tables: Vec<String>,
    values: Option<&'a [Expr]>,
}

/// What the tables of a body are called there.
#[derive(Default)]
struct Tables(Vec<String>);

impl ast::Visitor for Tables {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &ast::TableFactor) -> ControlFlow<()> {
        use ast::TableFactor::*;
        let (alias, name) = match factor {
            Table { alias, name, .. } | Function { alias, name, .. } => (alias, Some(name)),
            Derived { alias, .. } | TableFunction { alias, .. } | UNNEST { alias, .. } | NestedJoin { alias, .. } => {
                (alias, None)
            }
            _ => return ControlFlow::Continue(()),
        };
        let own = || name.and_then(|name| name.0.last()?.as_ident());
        self.0.extend(alias.as_ref().map(|alias| &alias.name).or_else(own).map(lower));
        ControlFlow::Continue(())
    }
}

impl Places<'_> {
    fn place(&self, name: &Ident) -> Option<usize> {
        let name = lower(name);
        self.names.iter().position(|known| !known.is_empty() && *known == name)
    }
}

impl VisitorMut for Places<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        let placeholder = |place: usize| {
            let value = ast::Value::Placeholder(format!("${}", place + 1));
            Expr::Value(value.into())
        };
        let instead = match (expression as &Expr, self.values) {
            (Expr::Identifier(name), None) => self.place(name).map(placeholder),
            (Expr::CompoundIdentifier(parts), None) => match parts.as_slice() {
                [function, name] if lower(function) == self.function => self.place(name).map(placeholder),
                [row, fields @ ..] if !self.tables.contains(&lower(row)) => self.place(row).map(|place| {
                    let fields = fields.iter().map(|field| ast::AccessExpr::Dot(Expr::Identifier(field.clone())));
                    Expr::CompoundFieldAccess {
                        root: Box::new(Expr::Nested(Box::new(placeholder(place)))),
                        access_chain: fields.collect(),
                    }
                }),
                _ => None,
            },
            (Expr::Value(value), Some(values)) => match &value.value {
                ast::Value::Placeholder(name) => {
                    let place = name.strip_prefix('$').and_then(|place| place.parse::<usize>().ok());
                    let value = place.and_then(|place| values.get(place.checked_sub(1)?)).cloned();
                    value.map(|value| match value {
                        Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_) | Expr::Lambda(_) => value,
                        other => Expr::Nested(Box::new(other)),
                    })
                }
                _ => None,
            },
            _ => None,
        };
        if let Some(instead) = instead {
            *expression = instead;
        }
        ControlFlow::Continue(())
    }
}

fn lower(name: &Ident) -> String {
    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() }
}

fn last(name: &ast::ObjectName) -> Result<String> {
    let last = name.0.last().and_then(|part| part.as_ident()).map(lower);
    last.ok_or_else(|| Error::input(format!("improper function name: {name}")).with_code("42601"))
}

fn no_body() -> Error {
    Error::input("no function body specified").with_code("42P13")
}

/// Fails with 42P13 if two parameters that are given, or two that are given back, have one name.
fn refuse_names_twice(create: &ast::CreateFunction) -> Result<()> {
    let arguments =
        || create.args.iter().flatten().filter_map(|given| Some((given.mode.as_ref(), given.name.as_ref()?)));
    let given = arguments().filter(|(mode, _)| !matches!(mode, Some(ArgMode::Out))).map(|(_, name)| lower(name));
    let given_back = arguments().filter(|(mode, _)| matches!(mode, Some(ArgMode::Out | ArgMode::InOut)));
    let columns = match &create.return_type {
        Some(FunctionReturnType::DataType(DataType::Table(Some(columns)))) => columns.as_slice(),
        _ => &[],
    };
    let given_back = given_back.map(|(_, name)| lower(name)).chain(columns.iter().map(|column| lower(&column.name)));
    for names in [given.collect::<Vec<_>>(), given_back.collect()] {
        let twice = names.iter().enumerate().find(|(place, name)| names[..*place].contains(name));
        if let Some((_, name)) = twice {
            let message = format!("parameter name \"{name}\" used more than once");
            return Err(Error::input(message).with_code("42P13"));
        }
    }
    Ok(())
}

fn is_of_procedure(returns: &FunctionReturnType) -> bool {
    matches!(returns, FunctionReturnType::DataType(DataType::Custom(name, _))
        if matches!(name.0.as_slice(), [part] if part.as_ident().is_some_and(|name| name.value == parse::PROCEDURE
            && name.quote_style.is_some())))
}

/// The query that a body is, if it is one statement, a query, and writes nothing. What is wrong with a statement is
/// found when it is looked at.
fn only_query(statements: &[String]) -> Option<Query> {
    let [only] = statements else { return None };
    let SyntaxTree::Statement(statement) = parse::parse_one(only).ok()?.statement else { return None };
    let Statement::Query(query) = *statement else { return None };
    let is_changing = |query: &Query| {
        matches!(query.body.as_ref(), SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_))
    };
    let with = query.with.iter().flat_map(|with| &with.cte_tables);
    if is_changing(&query) || with.into_iter().any(|cte| is_changing(&cte.query)) {
        return None;
    }
    Some(*query)
}

/// A type that the arguments of a call decide.
pub(crate) struct Polymorphic {
    /// Whether it is an array of the type that is decided.
    pub is_array: bool,
    /// Whether arguments of several types become the one that they have in common.
    pub is_common: bool,
}

/// Which of them a type is, if it is one.
pub(crate) fn polymorphic(data_type: &DataType) -> Option<Polymorphic> {
    let (is_array, is_common) = match data_type.to_string().to_lowercase().as_str() {
        "anyelement" | "anynonarray" | "anyenum" => (false, false),
        "anyarray" => (true, false),
        "anycompatible" | "anycompatiblenonarray" => (false, true),
        "anycompatiblearray" => (true, true),
        _ => return None,
    };
    Some(Polymorphic { is_array, is_common })
}

fn is_record_type(data_type: &DataType) -> bool {
    data_type.to_string().eq_ignore_ascii_case("record")
}

fn is_trigger(data_type: &DataType) -> bool {
    data_type.to_string().eq_ignore_ascii_case("trigger")
}

/// The body of a trigger's function, whose TG_ARGV counts from 0; arrays here count from 1.
fn with_places_from_one(body: &str) -> String {
    const NAME: &str = "tg_argv";
    let (mut made, mut rest) = (String::new(), body);
    // Lower case is as long, letter by letter, where the name can be.
    while let Some(place) = rest.to_ascii_lowercase().find(NAME) {
        let (before, after) = rest.split_at(place + NAME.len());
        made.push_str(before);
        rest = after;
        if let Some(within) = rest.trim_start().strip_prefix('[') {
            made.push_str("[1 + ");
            rest = within;
        }
    }
    made.push_str(rest);
    made
}

fn is_void(data_type: &DataType) -> bool {
    data_type.to_string().eq_ignore_ascii_case("void")
}

/// The text of a literal.
fn text_of(body: &Expr) -> Option<&str> {
    let Expr::Value(value) = body else { return None };
    match &value.value {
        ast::Value::SingleQuotedString(text) | ast::Value::EscapedStringLiteral(text) => Some(text),
        ast::Value::DollarQuotedString(text) => Some(&text.value),
        _ => None,
    }
}

/// What a query selects, if that is one value from nowhere.
fn value_of(query: &Query) -> Option<&Expr> {
    let Query { with: None, body, order_by: None, limit_clause: None, fetch: None, .. } = query else { return None };
    let SetExpr::Select(select) = body.as_ref() else { return None };
    let is_plain = select.from.is_empty() && select.selection.is_none() && select.having.is_none();
    match select.projection.as_slice() {
        [ast::SelectItem::UnnamedExpr(value) | ast::SelectItem::ExprWithAlias { expr: value, .. }] if is_plain => {
            Some(value)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(text: &str) -> Definition {
        let parsed = parse::parse_one(text).unwrap();
        let SyntaxTree::Statement(statement) = parsed.statement else { panic!("{text}") };
        Definition::of(&statement).unwrap()
    }

    fn shown(body: &Body) -> String {
        match body {
            Body::Value(value) => value.to_string(),
            Body::Rows(query) => query.to_string(),
            Body::Program(program) => program.text.clone(),
            Body::Block(block) => format!("{block:?}"),
        }
    }

    #[test]
    fn names_become_places_and_arguments_take_them() {
        let made = definition("CREATE MACRO f(a, b := 2 + 1) AS a * b + t.a");
        assert_eq!(shown(&made.body), "$1 * $2 + t.a");
        let one = parse::expression("1 + 1").unwrap();
        let arguments = made.ordered(&[(None, one.clone())]).unwrap();
        assert_eq!(shown(&made.with_arguments(&arguments)), "(1 + 1) * (2 + 1) + t.a");
        assert!(made.ordered(&[]).is_none());
        assert!(made.ordered(&[(Some("a".to_owned()), one.clone()), (None, one.clone())]).is_some());
        assert!(made.ordered(&[(None, one.clone()), (Some("a".to_owned()), one)]).is_none());
    }

    #[test]
    fn a_macro_has_several_bodies_and_parameters_with_types() {
        let all = |text: &str| {
            let SyntaxTree::Statement(statement) = parse::parse_one(text).unwrap().statement else { panic!("{text}") };
            let again = parse::parse_one(&statement.to_string()).unwrap().statement;
            assert!(matches!(again, SyntaxTree::Statement(again) if again == statement), "{statement}");
            Definition::all_of(&statement).unwrap()
        };
        let bodies = all("CREATE MACRO s.f(a) AS a || 'x', (A, b integer := 2 + 1) AS CASE WHEN a THEN b END;");
        let shown = bodies.iter().map(|body| shown(&body.body)).collect::<Vec<_>>();
        assert_eq!(shown, ["$1 || 'x'", "CASE WHEN $1 THEN $2 END"]);
        let parameter = &bodies[1].parameters[1];
        assert_eq!(parameter.data_type.as_ref().map(ToString::to_string).as_deref(), Some("INTEGER"));
        assert_eq!(parameter.default.as_ref().map(ToString::to_string).as_deref(), Some("2 + 1"));
        assert!(bodies.iter().all(|body| body.name == "f" && body.is_macro));
        let rows =
            all("CREATE OR REPLACE TEMP MACRO g(a) AS TABLE SELECT a AS x, (a, 1) AS y, (a, b) AS TABLE (VALUES (b))");
        assert!(rows.len() == 2 && rows.iter().all(|body| matches!(body.body, Body::Rows(_))));
        assert_eq!(all("CREATE FUNCTION h(a varchar) AS a || '!'").len(), 1);
        assert_eq!(all("CREATE MACRO IF NOT EXISTS i() AS 1")[0].parameters.len(), 0);
        assert_eq!(all("CREATE MACRO j AS [1, (2)]").len(), 1);
        // A function of PostgreSQL's is none.
        let made = definition("CREATE FUNCTION k(a integer, OUT b integer) AS 'SELECT a' LANGUAGE sql");
        assert!(!made.is_macro);
    }

    #[test]
    fn a_function_is_a_value_or_rows_and_told_apart_by_types() {
        let one = definition(
            "CREATE FUNCTION f(a int, numeric(9, 2)) RETURNS bigint LANGUAGE sql STRICT AS $$ SELECT f.a + $2 $$",
        );
        assert_eq!((shown(&one.body).as_str(), one.arguments().as_deref()), ("$1 + $2", Some("integer, numeric")));
        assert!(one.is_strict && one.returns.is_some());
        let rows =
            definition("CREATE FUNCTION g(a int) RETURNS TABLE (x int, y text) LANGUAGE sql AS 'SELECT a, ''b'''");
        assert_eq!((shown(&rows.body).as_str(), rows.columns.len()), ("SELECT $1, 'b'", 2));
        let first = definition("CREATE FUNCTION h() RETURNS int LANGUAGE sql AS 'SELECT a FROM t ORDER BY a'");
        assert_eq!(shown(&first.body), "(SELECT a FROM t ORDER BY a LIMIT 1)");
    }

    #[test]
    fn a_function_in_python_is_its_text() {
        let made = definition(
            "CREATE FUNCTION f(x bigint, text) RETURNS bigint IMMUTABLE STRICT LANGUAGE python AS $$return x + $1$$",
        );
        assert_eq!((shown(&made.body).as_str(), made.arguments().as_deref()), ("return x + $1", Some("bigint, text")));
        let Body::Program(program) = &made.body else { panic!() };
        assert!(made.is_strict && program.volatility == Volatility::Immutable);
        let refused = |text: &str| {
            let parsed = parse::parse_one(text).unwrap();
            let SyntaxTree::Statement(statement) = parsed.statement else { panic!("{text}") };
            Definition::of(&statement).err().and_then(|error| error.code())
        };
        assert_eq!(refused("CREATE FUNCTION f() RETURNS int LANGUAGE cobol AS 'x'"), Some("0A000"));
        assert_eq!(refused("CREATE FUNCTION f() RETURNS SETOF int LANGUAGE python_arrow AS 'x'"), Some("0A000"));
        assert_eq!(refused("CREATE FUNCTION f() RETURNS SETOF int LANGUAGE wasm AS '(module)'"), None);
        assert_eq!(refused("CREATE FUNCTION f() RETURNS int LANGUAGE python RETURN 1"), Some("42P13"));
        assert_eq!(refused("CREATE FUNCTION f() RETURNS int LANGUAGE python"), Some("42P13"));
    }
}
