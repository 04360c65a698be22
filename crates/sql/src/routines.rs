//! What functions that statements made are: parameters, a body with `$1`, `$2`, … in their places, and what comes out.

mod created;

use std::ops::ControlFlow;
use std::sync::Arc;

use diligence_base::{Error, Result};
use diligence_catalog::{MacroBody, MacroParameter, macro_bodies};
use diligence_pool::Runtime;
use sqlparser::ast::{
    self, CastKind, CreateFunctionBody, DataType, Expr, Ident, MacroDefinition, Query, Statement, VisitorMut,
};

use crate::parse::{self, SyntaxTree};
use crate::procedural::Block;
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

/// The text of a literal.
fn text_of(body: &Expr) -> Option<&str> {
    let Expr::Value(value) = body else { return None };
    match &value.value {
        ast::Value::SingleQuotedString(text) | ast::Value::EscapedStringLiteral(text) => Some(text),
        ast::Value::DollarQuotedString(text) => Some(&text.value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use datafusion_expr::Volatility;

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
