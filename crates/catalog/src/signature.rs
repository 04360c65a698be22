//! What a routine takes and gives, as PostgreSQL tells it: `pg_get_function_arguments` and its kin.

use diligence_types::SqlType;
use diligence_types::quoted_name;
use sqlparser::ast::{
    ArgMode, CreateFunction, CreateFunctionBody, DataType, Expr, FunctionParallel, FunctionReturnType, Ident,
    MacroDefinition, OperateFunctionArg, Statement, UnaryOperator, Value,
};

use crate::macros::macro_bodies;
use crate::{RelationName, Routine};

/// How a routine uses an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentMode {
    /// It takes it.
    In,
    /// It gives it.
    Out,
    /// It takes it and gives it.
    InOut,
    /// It takes all further arguments in it.
    Variadic,
    /// It is a column of the rows that it gives.
    Table,
}

impl ArgumentMode {
    /// As `pg_proc.proargmodes` says it.
    pub fn letter(self) -> &'static str {
        match self {
            Self::In => "i",
            Self::Out => "o",
            Self::InOut => "b",
            Self::Variadic => "v",
            Self::Table => "t",
        }
    }

    /// Whether a call gives it a value.
    pub fn is_input(self) -> bool {
        matches!(self, Self::In | Self::InOut | Self::Variadic)
    }

    fn word(self, is_procedure: bool) -> &'static str {
        match self {
            Self::In if is_procedure => "IN ",
            Self::In | Self::Table => "",
            Self::Out => "OUT ",
            Self::InOut => "INOUT ",
            Self::Variadic => "VARIADIC ",
        }
    }
}

/// An argument of a routine.
#[derive(Clone, Debug)]
pub struct Argument {
    /// How it is used.
    pub mode: ArgumentMode,
    /// Its name; empty without one.
    pub name: String,
    /// Its type's name in SQL; `None` for those of a macro, which take any.
    pub type_name: Option<String>,
    /// Its value if it is left out, as text.
    pub default: Option<String>,
}

impl Argument {
    fn of_function(given: &OperateFunctionArg) -> Self {
        let mode = match given.mode {
            Some(ArgMode::Out) => ArgumentMode::Out,
            Some(ArgMode::InOut) => ArgumentMode::InOut,
            Some(ArgMode::Variadic) => ArgumentMode::Variadic,
            Some(ArgMode::In) | None => ArgumentMode::In,
        };
        let type_name = type_name(&given.data_type);
        let default = given.default_expr.as_ref().map(|default| shown_default(default, &type_name));
        let name = given.name.as_ref().map(own_name).unwrap_or_default();
        Self { mode, name, type_name: Some(type_name), default }
    }

    /// As it is declared.
    fn shown(&self, is_procedure: bool, with_default: bool) -> String {
        let mut parts = Vec::new();
        if !self.name.is_empty() {
            parts.push(quoted_name(&self.name).into_owned());
        }
        parts.extend(self.type_name.clone());
        if let Some(default) = self.default.as_ref().filter(|_| with_default) {
            parts.push(format!("DEFAULT {default}"));
        }
        format!("{}{}", self.mode.word(is_procedure), parts.join(" "))
    }
}

/// What a routine takes and gives.
#[derive(Clone, Debug)]
pub struct Signature {
    /// Its arguments and the columns of its rows, in order.
    pub arguments: Vec<Argument>,
    /// The name of the type that it gives; `None` for macros, which give any, and for procedures.
    pub result: Option<String>,
    /// Whether it gives any number of rows.
    pub gives_rows: bool,
    /// Whether CALL runs it.
    pub is_procedure: bool,
}

impl Signature {
    /// What calls give.
    pub fn inputs(&self) -> impl Iterator<Item = &Argument> {
        self.arguments.iter().filter(|argument| argument.mode.is_input())
    }

    /// `pg_get_function_arguments`: what is declared in parentheses.
    pub fn declared(&self, with_defaults: bool) -> String {
        let shown = |argument: &Argument| argument.shown(self.is_procedure, with_defaults);
        let own = self.arguments.iter().filter(|argument| argument.mode != ArgumentMode::Table);
        own.map(shown).collect::<Vec<_>>().join(", ")
    }

    /// `pg_get_function_result`: what stands behind RETURNS.
    pub fn returned(&self) -> Option<String> {
        let columns = self.arguments.iter().filter(|argument| argument.mode == ArgumentMode::Table);
        let columns = columns.map(|argument| argument.shown(false, false)).collect::<Vec<_>>();
        let result = self.result.as_ref()?;
        Some(match (columns.is_empty(), self.gives_rows) {
            (false, _) => format!("TABLE({})", columns.join(", ")),
            (true, true) => format!("SETOF {result}"),
            (true, false) => result.clone(),
        })
    }

    /// The types by which it is told apart from others of its name.
    pub fn types(&self) -> String {
        self.inputs().filter_map(|argument| argument.type_name.as_deref()).collect::<Vec<_>>().join(",")
    }
}

impl Routine {
    /// What it takes and gives.
    pub fn signature(&self) -> Signature {
        match self.source.as_ref() {
            Statement::CreateFunction(create) => self.of_function(create),
            Statement::CreateMacro { args, definition, .. } => {
                // Of several bodies, the last one takes most.
                if let Some(body) = macro_bodies(&self.source).and_then(|mut bodies| bodies.pop()) {
                    let gives_rows = body.gives_rows();
                    let argument = |given: crate::MacroParameter| Argument {
                        mode: ArgumentMode::In,
                        name: given.name,
                        type_name: given.type_name,
                        default: given.default,
                    };
                    let arguments = body.parameters.into_iter().map(argument).collect();
                    return Signature { arguments, result: None, gives_rows, is_procedure: false };
                }
                let argument = |given: &sqlparser::ast::MacroArg| Argument {
                    mode: ArgumentMode::In,
                    name: own_name(&given.name),
                    type_name: None,
                    default: given.default_expr.as_ref().map(ToString::to_string),
                };
                let gives_rows = matches!(definition, MacroDefinition::Table(_));
                let arguments = args.iter().flatten().map(argument).collect();
                Signature { arguments, result: None, gives_rows, is_procedure: false }
            }
            _ => Signature { arguments: vec![], result: None, gives_rows: false, is_procedure: false },
        }
    }

    fn of_function(&self, create: &CreateFunction) -> Signature {
        let is_procedure = self.is_procedure();
        let mut arguments = create.args.iter().flatten().map(Argument::of_function).collect::<Vec<_>>();
        let outputs = arguments.iter().filter(|argument| !matches!(argument.mode, ArgumentMode::In));
        let outputs = outputs.filter(|argument| argument.mode != ArgumentMode::Variadic);
        let outputs = outputs.filter_map(|argument| argument.type_name.clone()).collect::<Vec<_>>();
        let of_outputs = match outputs.as_slice() {
            [only] => only.clone(),
            _ => "record".to_owned(),
        };
        let (result, gives_rows) = match &create.return_type {
            _ if is_procedure => (None, false),
            Some(FunctionReturnType::DataType(DataType::Table(columns))) => {
                arguments.extend(columns.iter().flatten().map(|column| Argument {
                    mode: ArgumentMode::Table,
                    name: own_name(&column.name),
                    type_name: Some(type_name(&column.data_type)),
                    default: None,
                }));
                let only = columns.iter().flatten().map(|column| type_name(&column.data_type)).collect::<Vec<_>>();
                let result = if let [only] = only.as_slice() { only.clone() } else { "record".to_owned() };
                (Some(result), true)
            }
            Some(FunctionReturnType::SetOf(given)) => (Some(type_name(given)), true),
            Some(FunctionReturnType::DataType(given)) => (Some(type_name(given)), false),
            None => (Some(of_outputs), false),
        };
        Signature { arguments, result, gives_rows, is_procedure }
    }

    /// The text of its body as it was written: `pg_proc.prosrc`.
    pub fn body(&self) -> String {
        match self.source.as_ref() {
            Statement::CreateFunction(create) => match &create.function_body {
                Some(CreateFunctionBody::AsBeforeOptions { body, .. } | CreateFunctionBody::AsAfterOptions(body)) => {
                    text_of(body).map_or_else(|| body.to_string(), str::to_owned)
                }
                _ => String::new(),
            },
            Statement::CreateMacro { .. } if let Some(bodies) = macro_bodies(&self.source) => {
                bodies.iter().map(|body| body.shown()).collect::<Vec<_>>().join(", ")
            }
            Statement::CreateMacro { definition, .. } => match definition {
                MacroDefinition::Expr(value) => value.to_string(),
                MacroDefinition::Table(query) => query.to_string(),
            },
            _ => String::new(),
        }
    }

    /// `RETURN …`, of a function whose body is an expression.
    pub fn returned_expression(&self) -> Option<String> {
        match self.source.as_ref() {
            Statement::CreateFunction(create) => match &create.function_body {
                Some(CreateFunctionBody::Return(value)) => Some(format!("RETURN {value}")),
                _ => None,
            },
            _ => None,
        }
    }

    /// Where it may run, as `pg_proc.proparallel` says it.
    pub fn parallel(&self) -> &'static str {
        match self.source.as_ref() {
            Statement::CreateFunction(create) => match create.parallel {
                Some(FunctionParallel::Safe) => "s",
                Some(FunctionParallel::Restricted) => "r",
                Some(FunctionParallel::Unsafe) | None => "u",
            },
            _ => "u",
        }
    }

    /// The statement that makes a macro again.
    fn shown_macro(&self, name: &RelationName) -> String {
        let Some(bodies) = macro_bodies(&self.source) else { return self.definition() };
        let own = name.routine().unwrap_or(&name.name);
        let bodies = bodies.iter().map(|body| body.shown()).collect::<Vec<_>>().join(", ");
        format!("CREATE OR REPLACE MACRO {}.{}{bodies}", quoted_name(&name.schema), quoted_name(own))
    }

    /// `pg_get_functiondef`: a statement that makes it again.
    pub fn shown_definition(&self, name: &RelationName) -> String {
        let Statement::CreateFunction(create) = self.source.as_ref() else { return self.shown_macro(name) };
        let signature = self.signature();
        let kind = if signature.is_procedure { "PROCEDURE" } else { "FUNCTION" };
        let own = name.routine().and_then(|shown| shown.split('(').next()).unwrap_or(&name.name);
        let mut text = format!("CREATE OR REPLACE {kind} {}.{}", quoted_name(&name.schema), quoted_name(own));
        text += &format!("({})\n", signature.declared(true));
        if let Some(result) = signature.returned() {
            text += &format!(" RETURNS {result}\n");
        }
        text += &format!(" LANGUAGE {}\n", quoted_name(&self.language()));
        let mut marks = String::new();
        match self.volatility() {
            "i" => marks += " IMMUTABLE",
            "s" => marks += " STABLE",
            _ => {}
        }
        match self.parallel() {
            "s" => marks += " PARALLEL SAFE",
            "r" => marks += " PARALLEL RESTRICTED",
            _ => {}
        }
        if self.is_strict() {
            marks += " STRICT";
        }
        if self.acts_as_owner() {
            marks += " SECURITY DEFINER";
        }
        if !marks.is_empty() {
            text += &format!("{marks}\n");
        }
        for (setting, value) in self.settings() {
            let value: Vec<String> = match setting.as_str() {
                "search_path" => value.split(',').map(|part| literal(part.trim().trim_matches('"'))).collect(),
                _ => vec![literal(&value)],
            };
            text += &format!(" SET {setting} TO {}\n", value.join(", "));
        }
        match self.returned_expression() {
            Some(body) => text += &format!("{body}\n"),
            None => {
                let symbol = match &create.function_body {
                    Some(CreateFunctionBody::AsBeforeOptions { link_symbol: Some(symbol), .. }) => {
                        format!(", {symbol}")
                    }
                    _ => String::new(),
                };
                text += &format!("AS {}{symbol}\n", in_dollars(&self.body(), &kind.to_lowercase()));
            }
        }
        text
    }
}

/// A body between marks that it does not have.
fn in_dollars(body: &str, word: &str) -> String {
    let mut mark = format!("${word}");
    while body.contains(&mark) {
        mark.push('x');
    }
    format!("{mark}${body}{mark}$")
}

/// A type's name in SQL, without its digits and lengths, which routines leave out.
fn type_name(data_type: &DataType) -> String {
    let written = data_type.to_string();
    match SqlType::parse(&written) {
        Some(known) => known.without_modifier().to_string(),
        None if written.contains('"') => written,
        None => written.to_lowercase(),
    }
}

/// A default as PostgreSQL shows it: texts, NULLs and negative numbers with their type.
fn shown_default(default: &Expr, type_name: &str) -> String {
    match default {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(_) | Value::Null => format!("{value}::{type_name}"),
            _ => value.to_string(),
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match expr.as_ref() {
            Expr::Value(value) if matches!(value.value, Value::Number(..)) => {
                let number = value.to_string();
                let own = match number.parse::<i64>() {
                    Ok(number) if i32::try_from(number).is_ok() => "integer",
                    Ok(_) => "bigint",
                    Err(_) => "numeric",
                };
                format!("'-{number}'::{own}")
            }
            _ => default.to_string(),
        },
        _ => default.to_string(),
    }
}

fn text_of(body: &Expr) -> Option<&str> {
    let Expr::Value(value) = body else { return None };
    match &value.value {
        Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => Some(text),
        Value::DollarQuotedString(text) => Some(&text.value),
        _ => None,
    }
}

fn own_name(name: &Ident) -> String {
    // Names of arguments come from the parser as they are written, quotes included.
    let inside = name.value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    match (name.quote_style, inside) {
        (None, Some(inside)) => inside.replace("\"\"", "\""),
        (None, None) => name.value.to_lowercase(),
        (Some(_), _) => name.value.clone(),
    }
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
