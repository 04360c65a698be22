//! CREATE FUNCTION and CREATE PROCEDURE: what they take and give, and a body in one of several languages.

use std::sync::Arc;

use datafusion_expr::Volatility;
use diligence_base::function_limits::FunctionLimits;
use diligence_base::{Error, Result};
use diligence_catalog::settings_of;
use diligence_pool::{Form, Runtime};
use sqlparser::ast::{
    self, ArgMode, CreateFunctionBody, DataType, Expr, FunctionBehavior, FunctionCalledOnNull, FunctionReturnType,
    Query, SetExpr, Statement,
};

use super::{Body, Definition, RoutineParameter, last, lower, no_body, text_of};
use crate::parse::{self, SyntaxTree};
use crate::procedural;
use crate::programs::{self, Program};

impl Definition {
    /// What CREATE FUNCTION defines. Fails as [`Self::of`] does.
    pub(super) fn of_function(create: &ast::CreateFunction) -> Result<Self> {
        let language = create.language.as_ref().map_or_else(|| "sql".to_owned(), lower);
        let form = form_of(&language)?;
        refuse_names_twice(create)?;
        let settings = settings_of(create);
        let (settings, limits) = match form.is_some() {
            true => (vec![], own_limits(&settings, &language)?),
            false => (settings, FunctionLimits::default()),
        };
        let signature = Signature::of(create)?;
        // What runs as somebody else, or under other settings, does not stand in the place of the call.
        let is_apart = !settings.is_empty() || matches!(create.security, Some(ast::FunctionSecurity::Definer));
        let source = Source { create, language: &language, signature: &signature, is_apart };
        let body = source.body(form, limits)?;
        let is_strict = matches!(
            create.called_on_null,
            Some(FunctionCalledOnNull::ReturnsNullOnNullInput | FunctionCalledOnNull::Strict)
        );
        let definition = Self {
            name: last(&create.name)?,
            parameters: signature.parameters,
            body,
            returns: signature.returns,
            columns: signature.columns,
            is_strict,
            is_macro: false,
            gives_rows: signature.gives_rows,
            is_procedure: signature.is_procedure,
            output: signature.output,
            is_trigger: signature.is_trigger,
            acts_as: None,
            settings,
            is_record: signature.is_record,
        };
        Ok(definition.with_placeholders())
    }
}

/// How programs in a language run; `None` for SQL and PL/pgSQL. Fails with 0A000 for others.
fn form_of(language: &str) -> Result<Option<Form>> {
    let form = programs::form_of(language);
    if matches!(language, "sql" | "plpgsql") || form.is_some() {
        return Ok(form);
    }
    let error = Error::unsupported(format!("language \"{language}\" is not supported")).with_code("0A000");
    Err(error.with_hint(
        "functions are written in SQL, PL/pgSQL, Python or WebAssembly: LANGUAGE sql, plpgsql, python, python_arrow, \
         python_aggregate, wasm, wasm_arrow",
    ))
}

/// What a function takes and gives; the fields are those of [`Definition`].
#[derive(Default)]
struct Signature {
    parameters: Vec<RoutineParameter>,
    returns: Option<DataType>,
    columns: Vec<(String, DataType)>,
    output: Option<String>,
    gives_rows: bool,
    is_procedure: bool,
    is_trigger: bool,
    is_record: bool,
}

impl Signature {
    fn of(create: &ast::CreateFunction) -> Result<Self> {
        let is_procedure = create.return_type.as_ref().is_some_and(is_of_procedure);
        let mut signature = Self { is_procedure, ..Self::default() };
        signature.set_parameters(create);
        signature.set_return_type(create)?;
        signature.settle_output();
        Ok(signature)
    }

    /// The parameters, and the columns that OUT parameters are.
    fn set_parameters(&mut self, create: &ast::CreateFunction) {
        for given in create.args.iter().flatten() {
            let name = given.name.as_ref().map(lower).unwrap_or_default();
            let is_variadic = matches!(given.mode, Some(ArgMode::Variadic));
            if matches!(given.mode, Some(ArgMode::Out | ArgMode::InOut)) {
                self.columns.push((name.clone(), given.data_type.clone()));
            }
            // CALL names those that are given back, too.
            if self.is_procedure || !matches!(given.mode, Some(ArgMode::Out)) {
                let (data_type, default) = (Some(given.data_type.clone()), given.default_expr.clone());
                self.parameters.push(RoutineParameter { name, data_type, default, is_variadic });
            }
        }
    }

    fn set_return_type(&mut self, create: &ast::CreateFunction) -> Result<()> {
        match &create.return_type {
            // Of what OUT parameters name, this says nothing more.
            Some(FunctionReturnType::SetOf(given)) if is_record_type(given) => {
                self.gives_rows = true;
                self.is_record = self.columns.is_empty();
            }
            Some(FunctionReturnType::DataType(given)) if is_record_type(given) => {
                self.is_record = self.columns.is_empty();
            }
            Some(FunctionReturnType::SetOf(given)) => {
                self.gives_rows = true;
                self.columns = vec![(last(&create.name)?, given.clone())];
            }
            Some(FunctionReturnType::DataType(DataType::Table(Some(given)))) => {
                self.gives_rows = true;
                self.columns = given.iter().map(|column| (lower(&column.name), column.data_type.clone())).collect();
            }
            Some(FunctionReturnType::DataType(given)) if is_void(given) || self.is_procedure => {}
            Some(FunctionReturnType::DataType(given)) if is_trigger(given) => self.is_trigger = true,
            Some(FunctionReturnType::DataType(given)) => self.returns = Some(given.clone()),
            None if self.columns.is_empty() => {
                return Err(Error::input("function result type must be specified").with_code("42P13"));
            }
            None => {}
        }
        Ok(())
    }

    /// The value of a function with one OUT parameter is that parameter's.
    fn settle_output(&mut self) {
        if self.gives_rows || self.is_procedure || self.columns.len() != 1 {
            return;
        }
        if let Some((name, only)) = self.columns.pop() {
            self.returns = Some(only);
            self.output = Some(name);
        }
    }

    /// Whether it gives one value.
    fn is_value(&self) -> bool {
        !self.gives_rows && self.columns.is_empty() && self.returns.is_some()
    }

    /// Whether it gives anything.
    fn gives(&self) -> bool {
        self.gives_rows || self.is_record || !self.columns.is_empty() || self.returns.is_some()
    }
}

/// What a function's body is read from.
struct Source<'c> {
    create: &'c ast::CreateFunction,
    language: &'c str,
    signature: &'c Signature,
    /// Whether the body does not stand in the place of the call.
    is_apart: bool,
}

impl<'c> Source<'c> {
    fn body(&self, form: Option<Form>, limits: FunctionLimits) -> Result<Body> {
        let signature = self.signature;
        if let ("plpgsql", Some(text)) = (self.language, self.text()) {
            let text = text_of(text).ok_or_else(no_body)?;
            return Ok(Body::Block(Arc::new(match signature.is_trigger {
                true => procedural::read(&with_places_from_one(text))?,
                false => procedural::read(text)?,
            })));
        }
        if signature.is_trigger {
            let error = Error::input(format!("{} functions cannot return type trigger", self.language));
            return Err(error.with_code("42P13").with_hint("write trigger functions in PL/pgSQL"));
        }
        match form {
            Some(form) => self.program(form, limits),
            None => self.statements(),
        }
    }

    /// What stands behind AS.
    fn text(&self) -> Option<&'c Expr> {
        match &self.create.function_body {
            Some(CreateFunctionBody::AsBeforeOptions { body, .. } | CreateFunctionBody::AsAfterOptions(body)) => {
                Some(body)
            }
            _ => None,
        }
    }

    /// The body of a function that a process computes.
    fn program(&self, form: Form, limits: FunctionLimits) -> Result<Body> {
        let form = if form == Form::Rows && self.signature.gives_rows { Form::RowSets } else { form };
        self.check_form(form)?;
        let Some(CreateFunctionBody::AsBeforeOptions { body, link_symbol }) = &self.create.function_body else {
            return Err(no_body());
        };
        if link_symbol.is_some() && form.runtime() != Runtime::Wasm {
            return Err(no_body());
        }
        let text = text_of(body).ok_or_else(no_body)?.to_owned();
        let export = link_symbol.as_ref().map(|name| text_of(name).ok_or_else(no_body)).transpose()?;
        let export = export.map(str::to_owned);
        let volatility = match self.create.behavior {
            Some(FunctionBehavior::Immutable) => Volatility::Immutable,
            Some(FunctionBehavior::Stable) => Volatility::Stable,
            Some(FunctionBehavior::Volatile) | None => Volatility::Volatile,
        };
        Ok(Body::Program(Arc::new(Program { form, text, export, volatility, limits, closure: None })))
    }

    /// Fails with 0A000 if a program of a form cannot give what the function gives.
    fn check_form(&self, form: Form) -> Result<()> {
        let (signature, language) = (self.signature, self.language);
        if signature.is_procedure {
            let error = Error::unsupported(format!("procedures in {language} are not supported"));
            return Err(error.with_code("0A000").with_hint("make a function that RETURNS void, and SELECT it"));
        }
        let is_void = matches!(&self.create.return_type, Some(FunctionReturnType::DataType(given)) if is_void(given));
        // Of OUT parameters a row; or nothing.
        let is_row_or_nothing =
            !signature.gives_rows && !signature.is_record && (is_void || !signature.columns.is_empty());
        let may_give_rows = form == Form::RowSets || form.runtime() == Runtime::Wasm;
        if signature.is_value() || form == Form::Rows && is_row_or_nothing || signature.gives_rows && may_give_rows {
            return Ok(());
        }
        let error = Error::unsupported(format!("functions in {language} return one value")).with_code("0A000");
        Err(error.with_hint(
            "RETURNS text, or another type; LANGUAGE python and wasm may return rows, and python also void and OUT \
             parameters",
        ))
    }

    /// The body of a function in SQL.
    fn statements(&self) -> Result<Body> {
        let signature = self.signature;
        if let Some(CreateFunctionBody::Return(value)) = &self.create.function_body {
            if !self.is_apart {
                return Ok(Body::Value(Arc::new(value.clone())));
            }
            let statements = parse::split(&format!("SELECT {value}"))?;
            return Ok(Body::Block(Arc::new(procedural::statements(statements, signature.gives()))));
        }
        let text = self.text().and_then(text_of).ok_or_else(no_body)?;
        let statements = parse::split(text)?;
        let query = only_query(&statements).filter(|_| !signature.is_procedure && !self.is_apart);
        let Some(query) = query else {
            return Ok(Body::Block(Arc::new(procedural::statements(statements, signature.gives()))));
        };
        let is_one = !signature.gives_rows && !signature.is_record && signature.columns.is_empty();
        match value_of(&query).filter(|_| is_one) {
            Some(value) => Ok(Body::Value(Arc::new(value.clone()))),
            None if signature.gives_rows => Ok(Body::Rows(Arc::new(query))),
            None if is_one => Ok(Body::Value(Arc::new(Expr::Subquery(Box::new(first_row(query)?))))),
            None => Ok(Body::Rows(Arc::new(first_row(query)?))),
        }
    }
}

/// Of several rows the first counts.
fn first_row(mut query: Query) -> Result<Query> {
    if query.limit_clause.is_none() && query.fetch.is_none() {
        query.limit_clause = parse::query("SELECT 1 LIMIT 1")?.limit_clause;
    }
    Ok(query)
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
