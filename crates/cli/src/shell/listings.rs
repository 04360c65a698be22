//! The statements behind the commands that list something.

/// Tables and views, also those that keep their rows.
const RELATIONS: &str = "SELECT * FROM (SELECT table_schema, table_name, table_type FROM information_schema.tables \
    UNION ALL SELECT schemaname, matviewname, 'MATERIALIZED VIEW' FROM pg_catalog.pg_matviews) AS relations \
    WHERE true";

/// Domains, with what their values are.
const DOMAINS: &str = "SELECT n.nspname AS schema, t.typname AS name, format_type(t.typbasetype, t.typtypmod) AS type, \
    CASE WHEN t.typnotnull THEN 'not null' END AS nullable, t.typdefault AS default, \
    (SELECT string_agg(pg_get_constraintdef(k.oid), ' ' ORDER BY k.conname) \
    FROM pg_catalog.pg_constraint k WHERE k.contypid = t.oid AND k.contype = 'c') AS check \
    FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace \
    WHERE t.typtype = 'd' AND n.nspname NOT IN ('information_schema', 'pg_catalog', 'system')";

/// Schemas whose tables are listed only where they are named.
const SYSTEM_SCHEMAS: &str = "('information_schema', 'pg_catalog', 'system')";

/// The query for the full names of tables and views that fit a pattern of psql's; `None` for what is no pattern, such
/// as a name or a query.
pub fn fitting(pattern: &str) -> Option<String> {
    let is_pattern = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '"' | '$' | '*' | '?');
    if !pattern.chars().all(is_pattern) || !pattern.contains(['*', '?']) {
        return None;
    }
    let (schema, name) = match pattern.split_once('.') {
        Some((schema, name)) => (format!("LIKE '{}'", like(schema)), name),
        None => (format!("NOT IN {SYSTEM_SCHEMAS}"), pattern),
    };
    Some(format!(
        "SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname) FROM pg_catalog.pg_class c \
         JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         WHERE c.relkind IN ('f', 'm', 'p', 'r', 'v') AND n.nspname {schema} AND c.relname LIKE '{}' ORDER BY 1",
        like(name)
    ))
}

/// The query for what belongs to a table: a heading, the place of the heading, and a line below it. `None` for what is
/// no name of a table, such as a query or a file.
pub fn belongings(table: &str) -> Option<String> {
    let of = regclass(table)?;
    Some(format!(
        "SELECT 'Indexes' AS part, 1 AS place, pg_get_indexdef(i.indexrelid) AS line \
         FROM pg_catalog.pg_index i WHERE i.indrelid = {of} \
         UNION ALL SELECT 'Constraints', 2, k.conname || ': ' || pg_get_constraintdef(k.oid) \
         FROM pg_catalog.pg_constraint k WHERE k.conrelid = {of} AND k.contype IN ('c', 'f', 'p', 'u', 'x') \
         UNION ALL SELECT 'Referenced by', 3, k.conrelid::regclass::text || ', ' || k.conname || ': ' || \
         pg_get_constraintdef(k.oid) FROM pg_catalog.pg_constraint k WHERE k.confrelid = {of} AND k.contype = 'f' \
         UNION ALL SELECT 'Triggers', 4, pg_get_triggerdef(t.oid) \
         FROM pg_catalog.pg_trigger t WHERE t.tgrelid = {of} AND NOT t.tgisinternal \
         UNION ALL SELECT 'Definition', 5, pg_get_viewdef(c.oid) \
         FROM pg_catalog.pg_class c WHERE c.oid = {of} AND c.relkind IN ('m', 'v') ORDER BY 2, 3"
    ))
}

/// The query for what a relation is that is no table, as a letter of `pg_class.relkind`, and for each such letter the
/// query that shows the relation. `None` for what is no name.
pub fn other_kinds(name: &str) -> Option<(String, [(&'static str, String); 2])> {
    let of = regclass(name)?;
    let kind = format!("SELECT relkind::text FROM pg_catalog.pg_class WHERE oid = {of}");
    let index = format!(
        "SELECT i.indrelid::regclass::text AS table, i.indisunique AS is_unique, i.indisprimary AS is_primary, \
         pg_get_indexdef(i.indexrelid) AS definition FROM pg_catalog.pg_index i WHERE i.indexrelid = {of}"
    );
    let sequence = format!(
        "SELECT s.data_type::text AS type, s.start_value, s.min_value, s.max_value, s.increment_by, s.cycle, \
         s.cache_size, s.last_value FROM pg_catalog.pg_sequences s JOIN pg_catalog.pg_class c \
         ON c.relname = s.sequencename JOIN pg_catalog.pg_namespace n \
         ON n.oid = c.relnamespace AND n.nspname = s.schemaname WHERE c.oid = {of}"
    );
    Some((kind, [("i", index), ("S", sequence)]))
}

/// The expression for the oid of a relation; `None` for what is no name, such as a query or a file.
fn regclass(name: &str) -> Option<String> {
    let is_name = name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '"' | '$'));
    is_name.then(|| format!("to_regclass('{name}')"))
}

/// What can be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    /// Tables and views.
    Relations,
    /// Tables only.
    Tables,
    /// Views only.
    Views,
    /// Views that keep their rows.
    MaterializedViews,
    /// Indexes.
    Indexes,
    /// Sequences.
    Sequences,
    /// Schemas.
    Schemas,
    /// Functions that statements made.
    Functions,
    /// Roles.
    Roles,
    /// Databases.
    Databases,
    /// Types that statements made.
    Types,
    /// What may be done with tables and views, and by whom.
    Privileges,
    /// Extensions.
    Extensions,
    /// Languages of functions.
    Languages,
    /// Domains.
    Domains,
    /// Settings and their values.
    Settings,
    /// Tablespaces.
    Tablespaces,
}

impl Listing {
    /// The statement, for names that fit psql's pattern: `*` and `?` stand for others, and a schema may be in front.
    pub fn statement(self, pattern: &str) -> String {
        let (query, schema, name) = match self {
            Self::Relations => (RELATIONS.to_owned(), "table_schema", "table_name"),
            Self::Tables => (format!("{RELATIONS} AND table_type NOT LIKE '%VIEW%'"), "table_schema", "table_name"),
            Self::Views => (format!("{RELATIONS} AND table_type LIKE '%VIEW%'"), "table_schema", "table_name"),
            Self::MaterializedViews => {
                (format!("{RELATIONS} AND table_type = 'MATERIALIZED VIEW'"), "table_schema", "table_name")
            }
            Self::Indexes => (
                "SELECT schemaname AS schema, tablename AS table, indexname AS name, indexdef AS definition \
                 FROM pg_catalog.pg_indexes WHERE true"
                    .to_owned(),
                "schemaname",
                "indexname",
            ),
            Self::Sequences => (
                "SELECT sequence_schema AS schema, sequence_name AS name, data_type AS type \
                 FROM information_schema.sequences WHERE true"
                    .to_owned(),
                "sequence_schema",
                "sequence_name",
            ),
            Self::Schemas => {
                ("SELECT nspname AS name FROM pg_catalog.pg_namespace WHERE true".to_owned(), "nspname", "nspname")
            }
            Self::Functions => (
                "SELECT n.nspname AS schema, p.proname AS name, pg_get_function_result(p.oid) AS result, \
                 pg_get_function_arguments(p.oid) AS arguments, \
                 CASE p.prokind WHEN 'p' THEN 'procedure' WHEN 'a' THEN 'aggregate' ELSE 'function' END AS kind \
                 FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace \
                 WHERE n.nspname NOT IN ('information_schema', 'pg_catalog', 'system')"
                    .to_owned(),
                "n.nspname",
                "p.proname",
            ),
            Self::Roles => {
                ("SELECT rolname AS name FROM pg_catalog.pg_roles WHERE true".to_owned(), "rolname", "rolname")
            }
            Self::Databases => {
                ("SELECT datname AS name FROM pg_catalog.pg_database WHERE true".to_owned(), "datname", "datname")
            }
            Self::Types => (
                "SELECT n.nspname AS schema, t.typname AS name, CASE t.typtype WHEN 'e' THEN 'enum' \
                 WHEN 'd' THEN 'domain' WHEN 'r' THEN 'range' ELSE 'composite' END AS kind \
                 FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace \
                 LEFT JOIN pg_catalog.pg_class k ON k.oid = t.typrelid \
                 WHERE t.typtype IN ('c', 'd', 'e', 'r') AND coalesce(k.relkind, 'c') = 'c' \
                 AND n.nspname NOT IN ('information_schema', 'pg_catalog', 'system')"
                    .to_owned(),
                "n.nspname",
                "t.typname",
            ),
            Self::Privileges => (
                "SELECT * FROM (SELECT table_schema AS schema, table_name AS name, grantee, \
                 string_agg(privilege_type, ', ' ORDER BY privilege_type) AS privileges \
                 FROM information_schema.table_privileges GROUP BY 1, 2, 3) AS granted \
                 WHERE schema NOT IN ('information_schema', 'pg_catalog', 'system')"
                    .to_owned(),
                "schema",
                "name",
            ),
            Self::Extensions => (
                "SELECT extname AS name, extversion AS version FROM pg_catalog.pg_extension WHERE true".to_owned(),
                "extname",
                "extname",
            ),
            Self::Languages => (
                "SELECT lanname AS name, lanpltrusted AS trusted FROM pg_catalog.pg_language WHERE true".to_owned(),
                "lanname",
                "lanname",
            ),
            Self::Domains => (DOMAINS.to_owned(), "n.nspname", "t.typname"),
            Self::Settings => {
                ("SELECT name, setting AS value FROM pg_catalog.pg_settings WHERE true".to_owned(), "name", "name")
            }
            Self::Tablespaces => {
                ("SELECT spcname AS name FROM pg_catalog.pg_tablespace WHERE true".to_owned(), "spcname", "spcname")
            }
        };
        let fits = |column: &str, pattern: &str| match pattern {
            "" => String::new(),
            pattern => format!(" AND {column} LIKE '{}'", like(pattern)),
        };
        let is_of_relations = matches!(self, Self::Relations | Self::Tables | Self::Views | Self::MaterializedViews);
        // Points in names of settings stand behind no schema.
        let conditions = match pattern.split_once('.').filter(|_| self != Self::Settings) {
            Some((of_schema, of_name)) => format!("{}{}", fits(schema, of_schema), fits(name, of_name)),
            None if is_of_relations => format!(" AND table_schema NOT IN {SYSTEM_SCHEMAS}{}", fits(name, pattern)),
            None => fits(name, pattern),
        };
        let order = if schema == name { "1" } else { "1, 2" };
        format!("{query}{conditions} ORDER BY {order}")
    }
}

/// The pattern of LIKE for a pattern of psql's: names in quotes keep their case, others have small letters.
fn like(pattern: &str) -> String {
    let mut quoted = false;
    let mut text = String::new();
    for character in pattern.chars() {
        match character {
            '"' => quoted = !quoted,
            '*' if !quoted => text.push('%'),
            '?' if !quoted => text.push('_'),
            '_' | '%' => text.extend(['\\', character]),
            '\'' => text.push_str("''"),
            other if quoted => text.push(other),
            other => text.extend(other.to_lowercase()),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_those_of_psql() {
        assert_eq!(like("Line*"), "line%");
        assert_eq!(like("\"Odd Name\"?"), "Odd Name_");
        assert_eq!(like("a_b'c"), "a\\_b''c");
        let statement = Listing::Relations.statement("sales.o*");
        assert!(statement.contains(" AND table_schema LIKE 'sales' AND table_name LIKE 'o%' ORDER BY"), "{statement}");
        assert!(!Listing::Schemas.statement("").contains("LIKE"));
        assert!(Listing::Settings.statement("a.b*").ends_with(" AND name LIKE 'a.b%' ORDER BY 1"));
        let of_system = "NOT IN ('information_schema', 'pg_catalog', 'system')";
        assert!(Listing::Relations.statement("o*").contains(of_system) && !statement.contains(of_system));
        let described = fitting("system.*").unwrap();
        assert!(described.contains("n.nspname LIKE 'system' AND c.relname LIKE '%' ORDER BY"), "{described}");
        assert!(fitting("ord?rs").is_some_and(|query| query.contains(of_system) && query.contains("LIKE 'ord_rs'")));
        for no_pattern in ["orders", "a_b", "system.pool", "'*.csv'", "SELECT 1", "\"a b\""] {
            assert_eq!(fitting(no_pattern), None, "{no_pattern}");
        }
        assert!(belongings("s.\"Odd\"").is_some_and(|query| query.contains("to_regclass('s.\"Odd\"')")));
        assert!(other_kinds("s.i").is_some_and(|(kind, _)| kind.ends_with("WHERE oid = to_regclass('s.i')")));
        assert!(belongings("'a.csv'").is_none() && belongings("SELECT 1").is_none());
    }
}
