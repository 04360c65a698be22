//! What a session knows of its client: the answers of `current_user`, `current_setting('…')` and their like.
//!
//! They are put into a statement as constants before it is planned, so that planning and running know nothing of
//! clients.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{CaseWhen, Expr, Value, ValueWithSpan, VisitMut, VisitorMut};
use diligence_catalog::{CATALOG_NAME, DEFAULT_SCHEMA};

use super::postgres::{arguments, bare, filled, string};

/// The facts of one session.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Who is there.
    pub user: String,
    /// The number that a cancel request names.
    pub process_id: i32,
    /// The client's settings by name, as SHOW has them.
    pub settings: BTreeMap<String, String>,
}

impl Default for Facts {
    fn default() -> Self {
        Self { user: "diligence".into(), process_id: 0, settings: BTreeMap::new() }
    }
}

/// Functions about the session.
const NAMES: [&str; 13] = [
    "current_catalog",
    "current_role",
    "current_schema",
    "current_setting",
    "current_user",
    "getpgusername",
    "inet_client_addr",
    "inet_server_addr",
    "pg_backend_pid",
    "session_user",
    "set_config",
    "user",
    "version",
];

/// Whether a function is about the session.
pub(crate) fn is_fact(name: &str) -> bool {
    NAMES.contains(&name)
}

/// Puts the facts into a statement; true if it asked for any.
pub(crate) fn put(statement: &mut Statement, facts: &Facts) -> bool {
    struct Put<'a>(&'a Facts, bool);
    impl VisitorMut for Put<'_> {
        type Break = ();
        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Expr::Function(function) = expr
                && let Some(name) = bare(&function.name)
                && is_fact(&name)
                && let Some(arguments) = arguments(&function.args)
                && let Some(answer) = answer(self.0, &name, &arguments)
            {
                *expr = answer;
                self.1 = true;
            }
            ControlFlow::Continue(())
        }
    }
    let mut put = Put(facts, false);
    if let Statement::Statement(statement) = statement {
        let _ = statement.visit(&mut put);
    }
    put.1
}

/// What a function answers. `None` leaves it to the planner, which says that there is no such function.
fn answer(facts: &Facts, name: &str, arguments: &[Expr]) -> Option<Expr> {
    let text = |argument: &Expr| match argument {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => Some(text.clone()),
        _ => None,
    };
    let null = || Expr::Value(Value::Null.into());
    Some(match (name, arguments) {
        ("current_user" | "session_user" | "user" | "current_role" | "getpgusername", []) => string(&facts.user),
        ("current_catalog", []) => string(CATALOG_NAME),
        ("current_schema", []) => string(DEFAULT_SCHEMA),
        ("version", []) => string(&version()),
        ("pg_backend_pid", []) => Expr::Value(Value::Number(facts.process_id.to_string(), false).into()),
        ("inet_client_addr" | "inet_server_addr", []) => null(),
        ("current_setting", [setting, ..]) => match text(setting) {
            Some(name) => match facts.settings.get(&name.to_lowercase()) {
                Some(value) => string(value),
                None if arguments.len() > 1 => null(),
                None => return None,
            },
            None => setting_named(facts, setting),
        },
        // Clients ask for it to clear the search path. The setting stays as it is: names are looked up in one schema
        // only.
        ("set_config", [_, value, _]) => value.clone(),
        _ => return None,
    })
}

/// What `version()` answers.
pub(crate) fn version() -> String {
    let (version, processor, system) = (env!("CARGO_PKG_VERSION"), std::env::consts::ARCH, std::env::consts::OS);
    format!("PostgreSQL 16.6 compatible, Diligence {version}, {processor}-{system}")
}

/// The setting whose name comes with the query, as a parameter; NULL if there is none of that name.
fn setting_named(facts: &Facts, name: &Expr) -> Expr {
    let conditions =
        facts.settings.iter().map(|(name, value)| CaseWhen { condition: string(name), result: string(value) });
    let mut answer = filled("CASE lower(CAST($1 AS TEXT)) WHEN '' THEN NULL END", std::slice::from_ref(name));
    if let Expr::Case { conditions: answers, .. } = &mut answer {
        answers.extend(conditions);
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse_one;

    #[test]
    fn questions_about_the_session_become_their_answers() {
        let facts = Facts {
            user: "ann".into(),
            process_id: 7,
            settings: BTreeMap::from([("jit".to_owned(), "off".to_owned())]),
        };
        let answered = |sql: &str| {
            let mut statement = parse_one(sql, "generic").unwrap().statement;
            (put(&mut statement, &facts), statement.to_string())
        };
        assert_eq!(answered("SELECT current_user"), (true, "SELECT 'ann' AS current_user".into()));
        assert_eq!(answered("SELECT pg_catalog.pg_backend_pid()"), (true, "SELECT 7 AS pg_backend_pid".into()));
        assert_eq!(answered("SELECT current_setting('JIT')"), (true, "SELECT 'off' AS current_setting".into()));
        assert_eq!(answered("SELECT 1 WHERE current_setting('x', true) IS NULL").1, "SELECT 1 WHERE NULL IS NULL");
        assert_eq!(
            answered("SELECT 1 WHERE a <> current_setting($1)").1,
            "SELECT 1 WHERE a <> CASE lower(CAST($1 AS TEXT)) WHEN '' THEN NULL WHEN 'jit' THEN 'off' END"
        );
        assert_eq!(answered("SELECT a FROM t"), (false, "SELECT a FROM t".into()));
    }
}
