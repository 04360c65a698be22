//! What PostgreSQL's clients write when they look at the catalog: its type names, its operators with their schema, and
//! functions about things that we have under another name, or do not have.
//!
//! Functions become expressions of what there is: `pg_table_is_visible(c.oid)` a comparison, `'t'::regclass` a look
//! into `pg_class`. Nothing here changes what a statement means in SQL's own words.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, BinaryOperator, DataType, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    ObjectName, Query, Select, SelectItem, SetExpr, TableFactor, TableWithJoins, Value, ValueWithSpan, Visit, VisitMut,
    Visitor, VisitorMut,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;
use diligence_catalog::POSTGRES_SCHEMA;

use crate::privileges;

/// Functions as expressions of their arguments. What is not here is never there (descriptions, sizes of tables), or
/// always so.
#[rustfmt::skip]
const FUNCTIONS: [(&str, &str); 50] = [
    ("array_lower", "CASE WHEN array_length($1, $2) > 0 THEN CAST(1 AS BIGINT) END"),
    ("array_upper", "nullif(CAST(array_length($1, $2) AS BIGINT), 0)"),
    ("col_description", "CAST(NULL AS TEXT)"),
    ("current_database", "'diligence'"),
    ("current_schemas", "CASE WHEN $1 THEN ['pg_catalog', 'public'] ELSE ['public'] END"),
    ("format_type", "(SELECT max(_t.type_sql_name) FROM pg_catalog.pg_type_names _t WHERE _t.type_oid = $1)"),
    ("mod", "($1 % $2)"),
    ("obj_description", "CAST(NULL AS TEXT)"),
    // Dots within quotes are not looked for.
    ("parse_ident", "CASE WHEN strpos($1, '\"') > 0 THEN string_to_array(replace($1, '\"', ''), '.') ELSE string_to_array(lower($1), '.') END"),
    ("pg_char_to_encoding", "6"),
    ("pg_collation_is_visible", "true"),
    ("pg_conf_load_time", "now()"),
    ("pg_database_size", "CAST(0 AS BIGINT)"),
    ("pg_encoding_to_char", "'UTF8'"),
    ("pg_function_is_visible", "true"),
    ("pg_get_constraintdef", "CAST(NULL AS TEXT)"),
    ("pg_get_expr", "CAST(NULL AS TEXT)"),
    ("pg_get_function_arguments", "CAST(NULL AS TEXT)"),
    ("pg_get_function_identity_arguments", "CAST(NULL AS TEXT)"),
    ("pg_get_function_result", "CAST(NULL AS TEXT)"),
    ("pg_get_functiondef", "CAST(NULL AS TEXT)"),
    ("pg_get_indexdef", "CAST(NULL AS TEXT)"),
    ("pg_get_partkeydef", "CAST(NULL AS TEXT)"),
    ("pg_get_ruledef", "CAST(NULL AS TEXT)"),
    ("pg_get_serial_sequence", "CAST(NULL AS TEXT)"),
    ("pg_get_statisticsobjdef_columns", "CAST(NULL AS TEXT)"),
    ("pg_get_triggerdef", "CAST(NULL AS TEXT)"),
    ("pg_get_userbyid", "'diligence'"),
    ("pg_get_viewdef", "(SELECT max(_v.definition) FROM pg_catalog.pg_views _v WHERE _v.viewoid = $1)"),
    ("pg_indexes_size", "CAST(0 AS BIGINT)"),
    ("pg_is_in_recovery", "false"),
    ("pg_is_other_temp_schema", "false"),
    ("pg_my_temp_schema", "CAST(0 AS BIGINT)"),
    ("pg_opclass_is_visible", "true"),
    ("pg_operator_is_visible", "true"),
    ("pg_postmaster_start_time", "now()"),
    ("pg_relation_is_publishable", "false"),
    ("pg_relation_size", "CAST(0 AS BIGINT)"),
    ("pg_size_pretty", "concat(CAST($1 AS TEXT), ' bytes')"),
    ("pg_table_is_visible", "($1 < 1000000000)"),
    ("pg_table_size", "CAST(0 AS BIGINT)"),
    ("pg_tablespace_location", "CAST(NULL AS TEXT)"),
    ("pg_total_relation_size", "CAST(0 AS BIGINT)"),
    ("pg_type_is_visible", "true"),
    ("quote_ident", "CASE WHEN $1 ~ '^[a-z_][a-z0-9_]*$' THEN $1 ELSE concat('\"', replace($1, '\"', '\"\"'), '\"') END"),
    ("shobj_description", "CAST(NULL AS TEXT)"),
    ("sign", "signum($1)"),
    ("to_regclass", "(SELECT max(_c.class_oid) FROM pg_catalog.pg_class_names _c WHERE _c.class_name = $1)"),
    ("to_regtype", "(SELECT max(_t.type_oid) FROM pg_catalog.pg_type_names _t WHERE _t.type_sql_name = $1 OR _t.type_name = $1)"),
    ("txid_current", "CAST(1 AS BIGINT)"),
];

/// Tables of `pg_catalog` that never have rows here.
const NEVER_ROWS: [&str; 22] = [
    "pg_attrdef",
    "pg_auth_members",
    "pg_collation",
    "pg_constraint",
    "pg_db_role_setting",
    "pg_depend",
    "pg_description",
    "pg_enum",
    "pg_foreign_server",
    "pg_foreign_table",
    "pg_index",
    "pg_inherits",
    "pg_partitioned_table",
    "pg_policy",
    "pg_proc",
    "pg_publication",
    "pg_publication_namespace",
    "pg_publication_rel",
    "pg_range",
    "pg_sequence",
    "pg_statistic_ext",
    "pg_trigger",
];

/// What drivers number the columns of keys with, and what it gives: nothing is read of it, since there are no keys.
const EXPAND_ARRAY: &str = "information_schema._pg_expandarray";
const EXPANDED_ARRAY: &str = "named_struct('x', CAST(NULL AS BIGINT), 'n', CAST(NULL AS BIGINT))";

/// Gives columns the names that PostgreSQL gives them where an expression is about to be replaced; and of a SELECT over
/// nothing leaves out what could not be planned.
pub(super) fn select(select: &mut Select) {
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) = item
            && let Some(alias) = name_of(expr)
        {
            let expr = std::mem::replace(expr, Expr::Value(Value::Null.into()));
            *item = SelectItem::ExprWithAlias { expr, alias: Ident::new(alias) };
        }
    }
    // Without rows nobody sees what subqueries would give.
    if never_has_rows(&select.from) {
        for item in &mut select.projection {
            let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else { continue };
            let is_subscripts = |name: &ObjectName| bare(name).as_deref() == Some("generate_subscripts");
            if has_query(expr) {
                *expr = parsed("CAST(NULL AS TEXT)");
            } else if matches!(expr, Expr::Function(function) if is_subscripts(&function.name)) {
                *expr = parsed("CAST(NULL AS BIGINT)");
            }
        }
    }
}

/// The name that PostgreSQL gives a column, if the expression is one that is replaced.
fn name_of(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Function(function) => {
            let name = bare(&function.name)?;
            let known = FUNCTIONS.iter().any(|(known, _)| *known == name)
                || super::facts::is_fact(&name)
                || privileges::is_one(&name);
            known.then_some(name)
        }
        Expr::Cast { expr, data_type, .. } if replaced_type(data_type).is_some() => match expr.as_ref() {
            Expr::Identifier(name) => Some(name.value.clone()),
            Expr::CompoundIdentifier(names) => names.last().map(|name| name.value.clone()),
            Expr::Cast { .. } => name_of(expr),
            _ => None,
        },
        _ => None,
    }
}

/// The name of a function of PostgreSQL's: without a schema or with its own.
pub(crate) fn bare(name: &ObjectName) -> Option<String> {
    let parts = name.0.iter().map(|part| part.as_ident()).collect::<Option<Vec<_>>>()?;
    match parts.as_slice() {
        [name] => Some(name.value.to_lowercase()),
        [schema, name] if schema.value.eq_ignore_ascii_case(POSTGRES_SCHEMA) => Some(name.value.to_lowercase()),
        _ => None,
    }
}

fn never_has_rows(from: &[TableWithJoins]) -> bool {
    let empty = |factor: &TableFactor| match factor {
        TableFactor::Table { name, .. } => {
            bare(name).is_some_and(|name| NEVER_ROWS.contains(&name.as_str())) && name.0.len() == 2
        }
        _ => false,
    };
    // Whatever is joined to the first table from its left has no rows either.
    let from_left = |table: &TableWithJoins| {
        table.joins.iter().all(|join| {
            use datafusion::sql::sqlparser::ast::JoinOperator::{Inner, Join, Left, LeftOuter};
            matches!(join.join_operator, Inner(_) | Join(_) | Left(_) | LeftOuter(_))
        })
    };
    from.iter().any(|table| empty(&table.relation) && from_left(table))
}

/// Whether a query never gives a row: it selects, without grouping or computing over all rows, from nothing.
fn gives_nothing(query: &Query) -> bool {
    let SetExpr::Select(select) = query.body.as_ref() else { return false };
    let computes = select.projection.iter().any(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => aggregates(expr),
        _ => false,
    });
    if computes || select.having.is_some() {
        return false;
    }
    // The options of tables are NULL, always.
    let of_options = select.from.iter().any(|table| match &table.relation {
        TableFactor::Table { name, args: Some(args), .. } => {
            bare(name).as_deref() == Some("unnest")
                && args.args.iter().all(|argument| argument.to_string().ends_with(".reloptions"))
        }
        _ => false,
    });
    of_options || never_has_rows(&select.from)
}

/// Whether a subquery lists the columns of a row type, as drivers do that ask for types: tables have none here.
fn lists_row_type(query: &Query) -> bool {
    let SetExpr::Select(select) = query.body.as_ref() else { return false };
    let [SelectItem::UnnamedExpr(Expr::Function(function))] = select.projection.as_slice() else { return false };
    let of_row_type = |selection: &Expr| selection.to_string().contains(".reltype = ");
    bare(&function.name).as_deref() == Some("array_agg") && select.selection.as_ref().is_some_and(of_row_type)
}

/// Whether a subquery asks step by step for the type that a domain is made of: there are no domains.
fn climbs_domains(query: &Query) -> bool {
    query.with.as_ref().is_some_and(|with| with.recursive && with.to_string().contains(".typbasetype"))
}

/// Whether an expression may have an aggregate in it: every function whose name is not known not to be one.
fn aggregates(expr: &Expr) -> bool {
    struct Finder;
    impl Visitor for Finder {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
            let name = bare(&function.name).unwrap_or_default();
            let known = name == "json_build_object"
                || name.starts_with("pg_get_")
                || privileges::is_one(&name)
                || FUNCTIONS.iter().any(|(known, _)| *known == name);
            if known { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        }
    }
    Visit::visit(expr, &mut Finder).is_break()
}

/// A subquery over nothing, before its own parts are looked at.
pub(super) fn subquery(expr: &mut Expr) {
    match expr {
        Expr::Subquery(query) if gives_nothing(query) => *expr = parsed("CAST(NULL AS TEXT)"),
        Expr::Subquery(query) if climbs_domains(query) => *expr = parsed("CAST(NULL AS BIGINT)"),
        Expr::Subquery(query) if lists_row_type(query) => *expr = parsed("CAST(NULL AS TEXT[])"),
        Expr::Exists { subquery, negated } if gives_nothing(subquery) => {
            *expr = Expr::Value(Value::Boolean(*negated).into());
        }
        Expr::Function(function) if bare(&function.name).as_deref() == Some("array") => {
            let FunctionArguments::Subquery(query) = &function.args else { return };
            if gives_nothing(query) {
                *expr = parsed("CAST(NULL AS TEXT[])");
                return;
            }
            // ARRAY(SELECT x …) has the query's one column as a list.
            let text = "(SELECT array_agg(_array._value) FROM (SELECT 1) AS _array(_value))";
            let mut list = parsed(text);
            if let Expr::Subquery(outer) = &mut list
                && let SetExpr::Select(select) = outer.body.as_mut()
                && let Some(TableWithJoins { relation: TableFactor::Derived { subquery, .. }, .. }) =
                    select.from.first_mut()
            {
                subquery.clone_from(query);
                *expr = list;
            }
        }
        _ => {}
    }
}

fn has_query(expr: &Expr) -> bool {
    struct Finder;
    impl Visitor for Finder {
        type Break = ();
        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            ControlFlow::Break(())
        }
    }
    Visit::visit(expr, &mut Finder).is_break()
}

/// A function in FROM under its own name.
pub(super) fn table(factor: &mut TableFactor) {
    let TableFactor::Table { name, args: arguments @ Some(_), .. } = factor else { return };
    let Some(bare) = bare(name) else { return };
    if bare == "pg_get_keywords" {
        *name = ObjectName::from(vec![Ident::new(POSTGRES_SCHEMA), Ident::new("pg_keywords")]);
        *arguments = None;
    } else if name.0.len() == 2 {
        *name = ObjectName::from(vec![Ident::new(bare)]);
    }
}

/// An expression as we write it.
pub(super) fn expression(expr: &mut Expr) {
    match expr {
        Expr::Function(function) => {
            if function.name.to_string().eq_ignore_ascii_case(EXPAND_ARRAY) {
                *expr = parsed(EXPANDED_ARRAY);
                return;
            }
            // How long ago a transaction was: without the schema it is a function of dates.
            if function.name.to_string().eq_ignore_ascii_case("pg_catalog.age") {
                *expr = parsed("CAST(NULL AS BIGINT)");
                return;
            }
            let Some(name) = bare(&function.name) else { return };
            if let Some((_, template)) = FUNCTIONS.iter().find(|(known, _)| *known == name)
                && let Some(arguments) = arguments(&function.args)
            {
                *expr = filled(template, &arguments);
            } else if function.name.0.len() == 2 {
                function.name = ObjectName::from(vec![Ident::new(name)]);
            }
        }
        Expr::BinaryOp { op, .. } => {
            if let BinaryOperator::PGCustomBinaryOperator(names) = op
                && let Some(plain) = plain_operator(names)
            {
                *op = plain;
            }
        }
        Expr::Collate { expr: inner, collation } => {
            // The only order that there is.
            let known = ["default", "c", "posix", "ucs_basic"];
            if bare(collation).is_some_and(|name| known.contains(&name.as_str())) {
                *expr = std::mem::replace(inner, Expr::Value(Value::Null.into()));
            }
        }
        Expr::Cast { expr: inner, data_type, .. } => match replaced_type(data_type) {
            Some(Replaced::By(other)) => *data_type = other,
            Some(Replaced::Nothing) => *expr = std::mem::replace(inner, Expr::Value(Value::Null.into())),
            Some(Replaced::Lookup(of_text, of_number)) => {
                let inner = std::mem::replace(inner.as_mut(), Expr::Value(Value::Null.into()));
                let is_parameter = matches!(&inner, Expr::Value(value) if matches!(value.value, Value::Placeholder(_)));
                *expr = match text_of(&inner) {
                    Some(text) => filled(of_text, &[string(&unquoted(text))]),
                    None if is_parameter => filled(of_text, &[filled(WITHOUT_SCHEMA, &[inner])]),
                    None => filled(of_number, &[inner]),
                };
            }
            None => {}
        },
        _ => {}
    }
}

/// The name that a parameter names, without the schemas that are looked into anyhow.
const WITHOUT_SCHEMA: &str = "replace(replace(CAST($1 AS TEXT), 'public.', ''), 'pg_catalog.', '')";

fn plain_operator(names: &[String]) -> Option<BinaryOperator> {
    let [schema, operator] = names else { return None };
    if !schema.eq_ignore_ascii_case(POSTGRES_SCHEMA) {
        return None;
    }
    Some(match operator.as_str() {
        "=" => BinaryOperator::Eq,
        "<>" => BinaryOperator::NotEq,
        "~" => BinaryOperator::PGRegexMatch,
        "~*" => BinaryOperator::PGRegexIMatch,
        "!~" => BinaryOperator::PGRegexNotMatch,
        "!~*" => BinaryOperator::PGRegexNotIMatch,
        "||" => BinaryOperator::StringConcat,
        "~~" => BinaryOperator::PGLikeMatch,
        "+" => BinaryOperator::Plus,
        "-" => BinaryOperator::Minus,
        _ => return None,
    })
}

/// What a cast to a type of PostgreSQL's becomes.
enum Replaced {
    /// A cast to another type.
    By(DataType),
    /// Its argument.
    Nothing,
    /// A look into the catalog: of a text, and of a number.
    Lookup(&'static str, &'static str),
}

fn replaced_type(data_type: &DataType) -> Option<Replaced> {
    let name = match data_type {
        DataType::Regclass => "regclass".to_owned(),
        DataType::JSON | DataType::JSONB => "json".to_owned(),
        DataType::Custom(name, modifiers) if modifiers.is_empty() => bare(name)?,
        DataType::Array(ArrayElemTypeDef::SquareBracket(element, size)) => {
            return match replaced_type(element)? {
                Replaced::By(other) => {
                    let element = ArrayElemTypeDef::SquareBracket(Box::new(other), *size);
                    Some(Replaced::By(DataType::Array(element)))
                }
                Replaced::Nothing | Replaced::Lookup(..) => Some(Replaced::Nothing),
            };
        }
        _ => return None,
    };
    let by = |data_type| Some(Replaced::By(data_type));
    match name.as_str() {
        "oid" | "xid" | "cid" | "int8" => by(DataType::BigInt(None)),
        "int2" => by(DataType::SmallInt(None)),
        "int4" => by(DataType::Int(None)),
        "float8" => by(DataType::DoublePrecision),
        "float4" => by(DataType::Real),
        "bool" => by(DataType::Boolean),
        "text" | "name" | "char" | "bpchar" | "varchar" | "cstring" | "json" | "jsonb" | "inet" | "unknown"
        | "regrole" | "pg_node_tree" | "uuid" => by(DataType::Text),
        "regclass" => Some(Replaced::Lookup(
            "(SELECT max(_c.class_oid) FROM pg_catalog.pg_class_names _c WHERE _c.class_name = $1)",
            "(SELECT max(_c.class_name) FROM pg_catalog.pg_class_names _c WHERE _c.class_oid = $1)",
        )),
        "regtype" => Some(Replaced::Lookup(
            "(SELECT max(_t.type_oid) FROM pg_catalog.pg_type_names _t WHERE _t.type_sql_name = $1 OR _t.type_name = $1)",
            "(SELECT max(_t.type_sql_name) FROM pg_catalog.pg_type_names _t WHERE _t.type_oid = $1)",
        )),
        "regnamespace" => Some(Replaced::Lookup(
            "(SELECT max(_n.schema_oid) FROM pg_catalog.pg_namespace_names _n WHERE _n.schema_name = $1)",
            "(SELECT max(_n.schema_name) FROM pg_catalog.pg_namespace_names _n WHERE _n.schema_oid = $1)",
        )),
        "int2vector" | "oidvector" | "regproc" | "regprocedure" => Some(Replaced::Nothing),
        _ => None,
    }
}

fn text_of(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => Some(text),
        Expr::Cast { expr, .. } | Expr::Nested(expr) => text_of(expr),
        _ => None,
    }
}

/// `public."T"` to `T`: the last part without its quotes.
fn unquoted(text: &str) -> String {
    if let Some(inside) = text.strip_suffix('"') {
        let start = inside.rfind("\".\"").map(|at| at + 3).or_else(|| inside.rfind(".\"").map(|at| at + 2));
        return inside[start.unwrap_or(usize::from(inside.starts_with('"')))..].replace("\"\"", "\"");
    }
    text.rsplit('.').next().unwrap_or(text).to_lowercase()
}

pub(crate) fn string(text: &str) -> Expr {
    Expr::Value(Value::SingleQuotedString(text.to_owned()).into())
}

pub(crate) fn arguments(arguments: &FunctionArguments) -> Option<Vec<Expr>> {
    let FunctionArguments::List(list) = arguments else { return Some(Vec::new()) };
    let one = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    };
    list.args.iter().map(one).collect()
}

/// A template of this file with its `$1`, `$2`, … filled in. What is missing is NULL.
pub(crate) fn filled(template: &str, arguments: &[Expr]) -> Expr {
    struct Fill<'a>(&'a [Expr]);
    impl VisitorMut for Fill<'_> {
        type Break = ();
        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Expr::Value(ValueWithSpan { value: Value::Placeholder(name), .. }) = expr
                && let Ok(number) = name[1..].parse::<usize>()
            {
                *expr = self.0.get(number - 1).cloned().unwrap_or(Expr::Value(Value::Null.into()));
            }
            ControlFlow::Continue(())
        }
    }
    let mut expr = parsed(template);
    let _ = VisitMut::visit(&mut expr, &mut Fill(arguments));
    expr
}

/// An expression of this file.
/// A function of PostgreSQL's as an expression of its arguments `$1`, `$2`, …, if it is one that is written so.
pub(crate) fn template(name: &str) -> Option<Expr> {
    FUNCTIONS.iter().find(|(known, _)| *known == name).map(|(_, text)| parsed(text))
}

fn parsed(text: &str) -> Expr {
    let dialect = GenericDialect {};
    let expr = Parser::new(&dialect).try_with_sql(text).and_then(|mut parser| parser.parse_expr());
    expr.expect("an expression of this file parses: a test reads all of them")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse_one;

    fn rewritten(sql: &str) -> String {
        parse_one(sql, "generic").unwrap().statement.to_string()
    }

    #[test]
    fn every_template_parses() {
        for (_, template) in FUNCTIONS {
            parsed(template);
        }
        parsed(EXPANDED_ARRAY);
        let mut names = FUNCTIONS.map(|(name, _)| name).to_vec();
        names.dedup();
        assert!(names.is_sorted() && names.len() == FUNCTIONS.len());
    }

    #[test]
    fn catalog_words_become_ours() {
        for (sql, expected) in [
            (
                "SELECT c.relname OPERATOR(pg_catalog.~) '^(t)$' COLLATE pg_catalog.default",
                "SELECT c.relname ~ '^(t)$'",
            ),
            ("SELECT a::pg_catalog.text, '3'::oid", "SELECT a::TEXT AS a, '3'::BIGINT"),
            ("SELECT pg_catalog.upper(a)", "SELECT upper(a)"),
            ("SELECT pg_catalog.pg_table_is_visible(c.oid)", "SELECT (c.oid < 1000000000) AS pg_table_is_visible"),
            (
                "SELECT 1 WHERE oid = 'public.\"T\"'::regclass",
                "SELECT 1 WHERE oid = (SELECT max(_c.class_oid) FROM pg_catalog.pg_class_names _c \
                 WHERE _c.class_name = 'T')",
            ),
        ] {
            assert_eq!(rewritten(sql), expected, "{sql}");
        }
    }

    #[test]
    fn a_select_over_nothing_needs_no_subqueries() {
        let sql = "SELECT polname, array(SELECT rolname FROM pg_roles) FROM pg_catalog.pg_policy pol";
        assert_eq!(rewritten(sql), "SELECT polname, CAST(NULL AS TEXT) FROM pg_catalog.pg_policy pol");
        let kept = "SELECT (SELECT 1) FROM pg_policy";
        assert_eq!(rewritten(kept), kept, "the name may be a user's table");
        let sql = "SELECT (SELECT pg_catalog.pg_get_expr(d.adbin, d.adrelid) FROM pg_catalog.pg_attrdef d WHERE d.adnum = a.b) FROM a";
        assert_eq!(rewritten(sql), "SELECT CAST(NULL AS TEXT) FROM a");
        let kept = "SELECT (SELECT count(*) FROM pg_catalog.pg_index) FROM a";
        assert_eq!(rewritten(kept), kept, "no rows are counted as one row with 0");
        let sql = "SELECT (SELECT array_agg(a.atttypid ORDER BY a.attnum) FROM pg_attribute a JOIN pg_class c ON a.attrelid = c.oid WHERE c.reltype = t.oid) FROM a";
        assert_eq!(rewritten(sql), "SELECT CAST(NULL AS TEXT[]) FROM a");
        let sql = "SELECT (WITH RECURSIVE b(oid) AS (SELECT t.typbasetype FROM pg_type t UNION ALL SELECT t.typbasetype FROM pg_type t, b WHERE b.oid = t.oid) SELECT oid FROM b) FROM a";
        assert_eq!(rewritten(sql), "SELECT CAST(NULL AS BIGINT) FROM a");
        let sql = "SELECT ARRAY(SELECT rolname FROM pg_catalog.pg_roles)";
        assert!(rewritten(sql).contains("array_agg"), "{}", rewritten(sql));
    }

    #[test]
    fn names_in_texts_lose_schema_and_quotes() {
        for (text, expected) in
            [("T", "t"), ("public.t", "t"), ("\"T\"", "T"), ("public.\"a.b\"", "a.b"), ("\"p\".\"T\"", "T")]
        {
            assert_eq!(unquoted(text), expected, "{text}");
        }
    }
}
