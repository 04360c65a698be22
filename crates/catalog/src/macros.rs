//! Macros that keep their bodies as texts: those with several bodies, and those whose parameters have types.
//!
//! The tree of their statement is `CREATE MACRO f() AS "macro bodies"(false, "macro body"('a + b', 'a', '', '', 'b',
//! 'integer', '2'), …)`: whether it is IF NOT EXISTS, then for each body its text and three texts for each parameter.

use diligence_types::quoted_name;
use sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, MacroDefinition, ObjectName, Statement, Value,
};

/// The function that stands for the bodies of a macro.
pub const MACRO_BODIES: &str = "macro bodies";

/// The function that stands for one of them.
pub const MACRO_BODY: &str = "macro body";

/// One body of a macro.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MacroBody {
    /// What it takes, in order.
    pub parameters: Vec<MacroParameter>,
    /// An expression, or TABLE and a query.
    pub text: String,
}

/// What a body takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MacroParameter {
    /// Its name, as names are compared.
    pub name: String,
    /// Its type in SQL; any, if that is not said.
    pub type_name: Option<String>,
    /// Its value in SQL where a call leaves it out.
    pub default: Option<String>,
}

impl MacroBody {
    /// Whether it gives rows.
    pub fn gives_rows(&self) -> bool {
        self.text.get(..5).is_some_and(|word| word.eq_ignore_ascii_case("TABLE"))
    }

    /// The text of the body as a statement has it: `(a, b integer := 2) AS a + b`.
    pub fn shown(&self) -> String {
        let parameter = |parameter: &MacroParameter| {
            let mut text = quoted_name(&parameter.name).into_owned();
            text.extend(parameter.type_name.iter().map(|type_name| format!(" {type_name}")));
            text.extend(parameter.default.iter().map(|default| format!(" := {default}")));
            text
        };
        let parameters = self.parameters.iter().map(parameter).collect::<Vec<_>>().join(", ");
        format!("({parameters}) AS {}", self.text)
    }
}

/// The bodies of a macro that has them as texts; `None` of any other statement.
pub fn macro_bodies(statement: &Statement) -> Option<Vec<MacroBody>> {
    let arguments = arguments_of(statement)?;
    let (_, bodies) = arguments.split_first()?;
    bodies.iter().map(|body| body_of(body)).collect()
}

/// Whether such a macro is made only if there is none of its name: IF NOT EXISTS.
pub fn is_macro_unless_there(statement: &Statement) -> bool {
    let first = arguments_of(statement).and_then(|arguments| arguments.first().copied());
    matches!(first, Some(Expr::Value(value)) if value.value == Value::Boolean(true))
}

fn arguments_of(statement: &Statement) -> Option<Vec<&Expr>> {
    let Statement::CreateMacro { definition: MacroDefinition::Expr(Expr::Function(bodies)), .. } = statement else {
        return None;
    };
    arguments_named(bodies, MACRO_BODIES)
}

/// The arguments of a call of this name.
fn arguments_named<'a>(call: &'a Function, name: &str) -> Option<Vec<&'a Expr>> {
    let FunctionArguments::List(list) = &call.args else { return None };
    if !is_named(&call.name, name) {
        return None;
    }
    let expression = |argument: &'a FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value),
        _ => None,
    };
    list.args.iter().map(expression).collect()
}

fn is_named(name: &ObjectName, wanted: &str) -> bool {
    matches!(name.0.as_slice(), [part] if part.as_ident().is_some_and(|name| name.value == wanted))
}

fn body_of(expression: &Expr) -> Option<MacroBody> {
    let Expr::Function(call) = expression else { return None };
    let texts = arguments_named(call, MACRO_BODY)?.into_iter().map(text_of).collect::<Option<Vec<_>>>()?;
    let (text, parameters) = texts.split_first()?;
    let said = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    let parameter = |parts: &[String]| match parts {
        [name, type_name, default] => {
            Some(MacroParameter { name: name.clone(), type_name: said(type_name), default: said(default) })
        }
        _ => None,
    };
    let parameters = parameters.chunks(3).map(parameter).collect::<Option<Vec<_>>>()?;
    Some(MacroBody { parameters, text: text.clone() })
}

fn text_of(value: &Expr) -> Option<String> {
    let Expr::Value(value) = value else { return None };
    value.value.clone().into_string()
}

#[cfg(test)]
mod tests {
    use sqlparser::dialect::GenericDialect;
    use sqlparser::parser::Parser;

    use super::*;

    fn statement(text: &str) -> Statement {
        Parser::parse_sql(&GenericDialect {}, text).unwrap().remove(0)
    }

    #[test]
    fn bodies_are_read_from_the_tree_and_shown_as_they_were_written() {
        let made = statement(
            "CREATE MACRO f() AS \"macro bodies\"(false, \"macro body\"('a || ''x''', 'a', '', ''), \
             \"macro body\"('TABLE SELECT 1', 'a', '', '', 'B', 'integer', '2'))",
        );
        let bodies = macro_bodies(&made).unwrap();
        let shown = bodies.iter().map(MacroBody::shown).collect::<Vec<_>>();
        assert_eq!(shown, ["(a) AS a || 'x'", "(a, \"B\" integer := 2) AS TABLE SELECT 1"]);
        assert_eq!(bodies.iter().map(MacroBody::gives_rows).collect::<Vec<_>>(), [false, true]);
        assert!(!is_macro_unless_there(&made));
        assert!(is_macro_unless_there(&statement("CREATE MACRO f() AS \"macro bodies\"(true, \"macro body\"('1'))")));
        assert_eq!(macro_bodies(&statement("CREATE MACRO f(a) AS g(a)")), None);
        assert_eq!(macro_bodies(&statement("CREATE MACRO f() AS \"macro bodies\"(false, g('1'))")), None);
    }
}
