//! Functions that PostgreSQL's clients call when they look at the catalog, as expressions of what there is:
//! `pg_get_viewdef(oid)` is a look into `pg_views`. What there is not (rules, partitions) is NULL.

use sqlparser::ast::Expr;
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;

use crate::formulas;

/// Functions as expressions of their arguments. What is not here is never there, or always so. `@PATH@` and `@HIDDEN@`
/// stand for what [`Visible`] says.
#[rustfmt::skip]
const FUNCTIONS: [(&str, &str); 91] = [
    ("col_description", "(SELECT max(_d.description) FROM pg_catalog.pg_description _d WHERE _d.objoid = $1 AND _d.objsubid = $2)"),
    ("current_database", "CAST('diligence' AS NAME)"),
    ("current_query", "(SELECT max(_a.query) FROM pg_catalog.pg_stat_activity _a WHERE _a.pid = pg_backend_pid())"),
    ("getdatabaseencoding", "CAST('UTF8' AS NAME)"),
    ("inet_client_addr", "CAST(NULL AS INET)"),
    ("inet_client_port", "CAST(NULL AS INTEGER)"),
    ("inet_server_addr", "CAST(NULL AS INET)"),
    ("inet_server_port", "CAST(NULL AS INTEGER)"),
    ("name of regclass", "COALESCE(CASE WHEN $1 = 0 THEN '-' END, (SELECT max(CASE WHEN _c.class_schema IN (@PATH@) AND _c.class_oid NOT IN (@HIDDEN@) \
      THEN _c.class_shown ELSE _c.class_whole END) FROM pg_catalog.pg_class_names _c WHERE _c.class_oid = $1), \
      CAST(CAST($1 AS BIGINT) AS TEXT))"),
    ("name of regnamespace", "COALESCE((SELECT max(_n.schema_name) FROM pg_catalog.pg_namespace_names _n WHERE _n.schema_oid = $1), \
      CAST(CAST($1 AS BIGINT) AS TEXT))"),
    ("name of regproc", "COALESCE(CASE WHEN $1 = 0 THEN '-' END, (SELECT max(CASE WHEN _r.routine_schema IN (@PATH@) AND _r.routine_oid NOT IN (@HIDDEN@) \
      THEN _r.routine_name ELSE _r.routine_whole END) FROM pg_catalog.pg_routine_texts _r WHERE _r.routine_oid = $1), \
      CAST(CAST($1 AS BIGINT) AS TEXT))"),
    ("name of regprocedure", "COALESCE(CASE WHEN $1 = 0 THEN '-' END, (SELECT max(concat(CASE WHEN _r.routine_schema IN (@PATH@) \
      AND _r.routine_oid NOT IN (@HIDDEN@) THEN _r.routine_name ELSE _r.routine_whole END, '(', _r.routine_types, ')')) \
      FROM pg_catalog.pg_routine_texts _r WHERE _r.routine_oid = $1), CAST(CAST($1 AS BIGINT) AS TEXT))"),
    ("name of regrole", "COALESCE(CASE WHEN $1 = 0 THEN '-' END, (SELECT max(_r.role_name) FROM pg_catalog.pg_role_names _r \
      WHERE _r.role_oid = $1), CAST(CAST($1 AS BIGINT) AS TEXT))"),
    ("name of regtype", "COALESCE(CASE WHEN $1 = 0 THEN '-' END, (SELECT max(CASE WHEN _t.type_schema IN (@PATH@) \
      AND _t.type_element NOT IN (@HIDDEN@) THEN _t.type_short ELSE _t.type_sql_name END) FROM pg_catalog.pg_type_names _t WHERE _t.type_oid = $1), \
      CAST(CAST($1 AS BIGINT) AS TEXT))"),
    ("obj_description", "(SELECT max(_d.description) FROM pg_catalog.pg_description _d WHERE _d.objoid = $1 AND _d.objsubid = 0)"),
    ("pg_blocking_pids", "COALESCE((SELECT array_agg(_w.blocking_pid) FROM pg_catalog.pg_lock_waits _w WHERE _w.waiting_pid = $1), \
      CAST('{}' AS INTEGER[]))"),
    ("pg_char_to_encoding", "6"),
    ("pg_client_encoding", "CAST('UTF8' AS NAME)"),
    ("pg_collation_is_visible", "true"),
    ("pg_column_compression", "CAST(NULL AS TEXT)"),
    ("pg_conf_load_time", "now()"),
    ("pg_conversion_is_visible", "true"),
    ("pg_current_wal_insert_lsn", "'0/0'"),
    ("pg_current_wal_lsn", "'0/0'"),
    ("pg_current_xact_id", "CAST(1 AS BIGINT)"),
    ("pg_current_xact_id_if_assigned", "CAST(NULL AS BIGINT)"),
    ("pg_database_size", "COALESCE((SELECT CAST(sum(_s.size_bytes) AS BIGINT) FROM pg_catalog.pg_relation_sizes _s), CAST(0 AS BIGINT))"),
    ("pg_encoding_to_char", "CAST('UTF8' AS NAME)"),
    ("pg_function_is_visible", "COALESCE((SELECT bool_or(_r.routine_schema IN (@PATH@) AND _r.routine_oid NOT IN (@HIDDEN@)) \
      FROM pg_catalog.pg_routine_texts _r WHERE _r.routine_oid = $1), true)"),
    ("pg_get_constraintdef", "(SELECT max(CASE WHEN _c.referred_schema IN (@PATH@) AND _c.referred_oid NOT IN (@HIDDEN@) \
      THEN _c.constraint_short ELSE _c.constraint_text END) FROM pg_catalog.pg_constraint_texts _c WHERE _c.constraint_oid = $1)"),
    ("pg_get_expr", "CAST($1 AS TEXT)"),
    ("pg_get_function_arguments", "(SELECT max(_r.routine_arguments) FROM pg_catalog.pg_routine_texts _r WHERE _r.routine_oid = $1)"),
    ("pg_get_function_identity_arguments", "(SELECT max(_r.routine_identity) FROM pg_catalog.pg_routine_texts _r WHERE _r.routine_oid = $1)"),
    ("pg_get_function_result", "(SELECT max(_r.routine_result) FROM pg_catalog.pg_routine_texts _r WHERE _r.routine_oid = $1)"),
    ("pg_get_function_sqlbody", "(SELECT max(_r.routine_body) FROM pg_catalog.pg_routine_texts _r WHERE _r.routine_oid = $1)"),
    ("pg_get_functiondef", "(SELECT max(_r.routine_text) FROM pg_catalog.pg_routine_texts _r WHERE _r.routine_oid = $1)"),
    ("pg_get_indexdef", "(SELECT max(_i.index_text) FROM pg_catalog.pg_index_texts _i WHERE _i.index_oid = $1 AND _i.index_part = 0)"),
    ("pg_get_partition_constraintdef", "CAST(NULL AS TEXT)"),
    ("pg_get_partkeydef", "CAST(NULL AS TEXT)"),
    ("pg_get_ruledef", "CAST(NULL AS TEXT)"),
    ("pg_get_serial_sequence", "(SELECT max(_s.serial_sequence) FROM pg_catalog.pg_serials _s WHERE _s.serial_table = CAST($1 AS REGCLASS) AND _s.serial_column = $2)"),
    ("pg_get_statisticsobjdef", "(SELECT max(CASE WHEN _s.table_schema IN (@PATH@) AND _s.table_oid NOT IN (@HIDDEN@) \
      THEN _s.statistics_short ELSE _s.statistics_text END) FROM pg_catalog.pg_statistic_ext_texts _s WHERE _s.statistics_oid = $1)"),
    ("pg_get_statisticsobjdef_columns", "(SELECT max(_s.statistics_list) FROM pg_catalog.pg_statistic_ext_texts _s \
      WHERE _s.statistics_oid = $1)"),
    ("pg_get_statisticsobjdef_expressions", "(SELECT max(_s.statistics_expressions) FROM pg_catalog.pg_statistic_ext_texts _s \
      WHERE _s.statistics_oid = $1)"),
    ("pg_get_triggerdef", "(SELECT max(CASE WHEN _t.function_schema IN (@PATH@) AND _t.function_oid NOT IN (@HIDDEN@) \
      THEN _t.trigger_of_table ELSE _t.trigger_text END) FROM pg_catalog.pg_trigger_texts _t WHERE _t.trigger_oid = $1)"),
    ("pg_get_userbyid", "COALESCE((SELECT max(_r.role_name) FROM pg_catalog.pg_role_names _r WHERE _r.role_oid = $1), \
      'unknown (OID=' || $1 || ')')"),
    ("pg_get_viewdef", "COALESCE((SELECT max(_v.definition) FROM pg_catalog.pg_views _v WHERE _v.viewoid = CAST($1 AS REGCLASS)), \
      (SELECT max(_m.definition) FROM pg_catalog.pg_matviews _m WHERE _m.matviewoid = CAST($1 AS REGCLASS)))"),
    ("pg_indexes_size", "(SELECT CAST(sum(CASE WHEN _s.size_of = _s.size_table THEN 0 ELSE _s.size_bytes END) AS BIGINT) \
      FROM pg_catalog.pg_relation_sizes _s WHERE _s.size_table = CAST($1 AS REGCLASS))"),
    ("pg_is_in_recovery", "false"),
    ("pg_is_other_temp_schema", "false"),
    ("pg_jit_available", "false"),
    ("pg_last_wal_receive_lsn", "CAST(NULL AS TEXT)"),
    ("pg_last_wal_replay_lsn", "CAST(NULL AS TEXT)"),
    ("pg_last_xact_replay_timestamp", "CAST(NULL AS TIMESTAMPTZ)"),
    ("pg_my_temp_schema", "CAST(0 AS BIGINT)"),
    ("pg_opclass_is_visible", "true"),
    ("pg_operator_is_visible", "true"),
    ("pg_opfamily_is_visible", "true"),
    ("pg_partition_ancestors", "CAST(NULL AS BIGINT)"),
    ("pg_partition_root", "CAST(NULL AS REGCLASS)"),
    ("pg_postmaster_start_time", "now()"),
    ("pg_relation_filenode", "CAST(CAST($1 AS REGCLASS) AS OID)"),
    ("pg_relation_filepath", "'base/1/' || CAST(CAST(CAST($1 AS REGCLASS) AS OID) AS TEXT)"),
    ("pg_relation_is_publishable", "false"),
    ("pg_relation_size", "(SELECT CAST(sum(_s.size_bytes) AS BIGINT) FROM pg_catalog.pg_relation_sizes _s WHERE _s.size_of = CAST($1 AS REGCLASS))"),
    ("pg_reload_conf", "true"),
    ("pg_statistics_obj_is_visible", "true"),
    ("pg_table_is_visible", "(SELECT bool_or(_c.class_schema IN (@PATH@) AND _c.class_oid NOT IN (@HIDDEN@)) \
      FROM pg_catalog.pg_class_names _c WHERE _c.class_oid = $1)"),
    ("pg_table_size", "(SELECT CAST(sum(_s.size_bytes) AS BIGINT) FROM pg_catalog.pg_relation_sizes _s WHERE _s.size_of = CAST($1 AS REGCLASS))"),
    ("pg_tablespace_location", "CAST(NULL AS TEXT)"),
    ("pg_tablespace_size", "COALESCE((SELECT CAST(sum(_s.size_bytes) AS BIGINT) FROM pg_catalog.pg_relation_sizes _s), CAST(0 AS BIGINT))"),
    ("pg_total_relation_size", "(SELECT CAST(sum(_s.size_bytes) AS BIGINT) FROM pg_catalog.pg_relation_sizes _s \
      WHERE CAST($1 AS REGCLASS) IN (_s.size_of, _s.size_table))"),
    ("pg_ts_config_is_visible", "true"),
    ("pg_ts_dict_is_visible", "true"),
    ("pg_ts_parser_is_visible", "true"),
    ("pg_ts_template_is_visible", "true"),
    ("pg_type_is_visible", "(SELECT bool_or(_t.type_schema IN (@PATH@) AND _t.type_element NOT IN (@HIDDEN@)) \
      FROM pg_catalog.pg_type_names _t WHERE _t.type_oid = $1)"),
    ("regnamespace of name", "CAST((SELECT max(_n.schema_oid) FROM pg_catalog.pg_namespace_names _n \
      WHERE _n.schema_name = $1) AS REGNAMESPACE)"),
    ("regrole of name", "CAST((SELECT max(_r.role_oid) FROM pg_catalog.pg_role_names _r WHERE _r.role_name = $1) AS REGROLE)"),
    ("row_security_active", "false"),
    ("shobj_description", "(SELECT max(_d.description) FROM pg_catalog.pg_shdescription _d WHERE _d.objoid = $1)"),
    ("to_regclass", "CAST((SELECT max(_c.class_oid) FROM pg_catalog.pg_class_names _c WHERE _c.class_whole = $1 \
      OR _c.class_shown = $1 AND _c.class_schema IN (@PATH@) AND _c.class_oid NOT IN (@HIDDEN@) \
      OR _c.class_whole = lower($1) \
      OR _c.class_shown = lower($1) AND _c.class_schema IN (@PATH@) AND _c.class_oid NOT IN (@HIDDEN@)) AS REGCLASS)"),
    ("to_regproc", "CAST((SELECT CASE WHEN count(*) = 1 THEN max(_r.routine_oid) END FROM pg_catalog.pg_routine_texts _r \
      WHERE _r.routine_whole = $1 OR _r.routine_name = $1 AND _r.routine_schema IN (@PATH@) AND _r.routine_oid NOT IN (@HIDDEN@)) AS REGPROC)"),
    ("to_regtype", "(SELECT max(_t.type_oid) FROM pg_catalog.pg_type_names _t WHERE _t.type_whole = lower($1) \
      OR _t.type_schema IN (@PATH@) AND _t.type_oid NOT IN (@HIDDEN@) AND _t.type_name = lower($1) OR _t.type_sql_name = CASE lower($1) WHEN 'int' THEN 'integer' WHEN 'decimal' THEN 'numeric' WHEN 'float' THEN 'double precision' WHEN 'char' THEN 'character' ELSE $1 END)"),
    ("txid_current", "CAST(1 AS BIGINT)"),
    ("txid_current_if_assigned", "CAST(NULL AS BIGINT)"),
    ("uuid_nil", "CAST('00000000-0000-0000-0000-000000000000' AS UUID)"),
    ("uuid_ns_dns", "CAST('6ba7b810-9dad-11d1-80b4-00c04fd430c8' AS UUID)"),
    ("uuid_ns_oid", "CAST('6ba7b812-9dad-11d1-80b4-00c04fd430c8' AS UUID)"),
    ("uuid_ns_url", "CAST('6ba7b811-9dad-11d1-80b4-00c04fd430c8' AS UUID)"),
    ("uuid_ns_x500", "CAST('6ba7b814-9dad-11d1-80b4-00c04fd430c8' AS UUID)"),
];

/// `pg_get_triggerdef` with a second argument: whether schemas are left out where names are found without them.
const TRIGGER_SHORT: &str = "(SELECT max(CASE \
    WHEN $2 AND _t.table_schema IN (@PATH@) AND _t.table_oid NOT IN (@HIDDEN@) THEN \
    CASE WHEN _t.function_schema IN (@PATH@) AND _t.function_oid NOT IN (@HIDDEN@) \
    THEN _t.trigger_short ELSE _t.trigger_of_function END \
    WHEN _t.function_schema IN (@PATH@) AND _t.function_oid NOT IN (@HIDDEN@) \
    THEN _t.trigger_of_table ELSE _t.trigger_text END) \
    FROM pg_catalog.pg_trigger_texts _t WHERE _t.trigger_oid = $1)";

/// `pg_get_indexdef` with a column's place: the whole index for 0.
const INDEX_PART: &str = "(SELECT max(CASE WHEN $3 THEN _i.index_short ELSE _i.index_text END) FROM pg_catalog.pg_index_texts _i \
                          WHERE _i.index_oid = $1 AND _i.index_part = $2)";

/// Which objects a name without a schema finds.
#[derive(Debug, Default)]
pub(crate) struct Visible {
    /// The numbers of the schemas that are looked through.
    pub(crate) path: Vec<u32>,
    /// The numbers of objects in them that others of their names come before.
    pub(crate) hidden: Vec<u32>,
}

impl Visible {
    fn put_into(&self, text: &str) -> String {
        let listed = |numbers: &[u32]| match numbers {
            [] => "0".to_owned(),
            numbers => numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(", "),
        };
        text.replace("@PATH@", &listed(&self.path)).replace("@HIDDEN@", &listed(&self.hidden))
    }
}

/// A function of the catalog as an expression of its arguments `$1`, `$2`, …, if it is one that is written so.
pub(crate) fn template(name: &str, arguments: usize, visible: impl FnOnce() -> Visible) -> Option<Expr> {
    if name == "pg_get_indexdef" && arguments > 2 {
        return Some(parsed(INDEX_PART));
    }
    if name == "pg_get_triggerdef" && arguments > 1 {
        return Some(parsed(&visible().put_into(TRIGGER_SHORT)));
    }
    let Some((_, text)) = FUNCTIONS.iter().find(|(known, _)| *known == name) else {
        return formulas::formula(name, arguments).and_then(Result::ok);
    };
    Some(match text.contains("@PATH@") {
        true => parsed(&visible().put_into(text)),
        false => parsed(text),
    })
}

/// Names of the functions.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.iter().map(|(name, _)| *name).filter(|name| !name.contains(' ')).chain(formulas::names())
}

fn parsed(text: &str) -> Expr {
    let dialect = GenericDialect {};
    let expr = Parser::new(&dialect).try_with_sql(text).and_then(|mut parser| parser.parse_expr());
    expr.expect("an expression of this file parses: a test reads all of them")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_template_parses() {
        for (_, template) in FUNCTIONS {
            parsed(&Visible::default().put_into(template));
        }
        let mut names = FUNCTIONS.map(|(name, _)| name).to_vec();
        names.dedup();
        assert!(names.is_sorted() && names.len() == FUNCTIONS.len());
        let shadowed = names.iter().filter(|name| diligence_types::functions::has_function(name)).collect::<Vec<_>>();
        assert!(shadowed.is_empty(), "functions that are there go before these: {shadowed:?}");
    }
}
