//! The words of SQL, and how reserved each is: those of PostgreSQL 15, which are read as there.

/// Words of a category, and whether they may name a column without AS.
const WORDS: [(&str, bool, &str); 8] = [
    ("C", false, "char character precision"),
    (
        "C",
        true,
        "between bigint bit boolean coalesce dec decimal exists extract float greatest grouping inout int \
     integer interval least national nchar none normalize nullif numeric out overlay position real row \
     setof smallint substring time timestamp treat trim values varchar xmlattributes xmlconcat xmlelement \
     xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable",
    ),
    (
        "R",
        false,
        "array as create except fetch for from grant group having intersect into limit offset on order \
     returning to union where window with",
    ),
    (
        "R",
        true,
        "all analyse analyze and any asc asymmetric both case cast check collate column constraint \
     current_catalog current_date current_role current_time current_timestamp current_user default \
     deferrable desc distinct do else end false foreign in initially lateral leading localtime \
     localtimestamp not null only or placing primary references select session_user some symmetric table \
     then trailing true unique user using variadic when",
    ),
    ("T", false, "isnull notnull overlaps"),
    (
        "T",
        true,
        "authorization binary collation concurrently cross current_schema freeze full ilike inner is join \
     left like natural outer right similar tablesample verbose",
    ),
    ("U", false, "day filter hour minute month over second varying within without year"),
    (
        "U",
        true,
        "abort absolute access action add admin after aggregate also alter always asensitive assertion \
     assignment at atomic attach attribute backward before begin breadth by cache call called cascade \
     cascaded catalog chain characteristics checkpoint class close cluster columns comment comments \
     commit committed compression configuration conflict connection constraints content continue \
     conversion copy cost csv cube current cursor cycle data database deallocate declare defaults \
     deferred definer delete delimiter delimiters depends depth detach dictionary disable discard \
     document domain double drop each enable encoding encrypted enum escape event exclude excluding \
     exclusive execute explain expression extension external family finalize first following force \
     forward function functions generated global granted groups handler header hold identity if immediate \
     immutable implicit import include including increment index indexes inherit inherits inline input \
     insensitive insert instead invoker isolation key label language large last leakproof level listen \
     load local location lock locked logged mapping match matched materialized maxvalue merge method \
     minvalue mode move name names new next nfc nfd nfkc nfkd no normalized nothing notify nowait nulls \
     object of off oids old operator option options ordinality others overriding owned owner parallel \
     parameter parser partial partition passing password plans policy preceding prepare prepared preserve \
     prior privileges procedural procedure procedures program publication quote range read reassign \
     recheck recursive ref referencing refresh reindex relative release rename repeatable replace replica \
     reset restart restrict return returns revoke role rollback rollup routine routines rows rule \
     savepoint schema schemas scroll search security sequence sequences serializable server session set \
     sets share show simple skip snapshot sql stable standalone start statement statistics stdin stdout \
     storage stored strict strip subscription support sysid system tables tablespace temp template \
     temporary text ties transaction transform trigger truncate trusted type types uescape unbounded \
     uncommitted unencrypted unknown unlisten unlogged until update vacuum valid validate validator value \
     version view views volatile whitespace work wrapper write xml yes zone",
    ),
];

/// What a category is called, by PostgreSQL and by DuckDB.
const CATEGORIES: [(&str, &str, &str); 4] = [
    ("U", "unreserved", "unreserved"),
    ("C", "unreserved (cannot be function or type name)", "column_name"),
    ("T", "reserved (can be function or type name)", "type_function"),
    ("R", "reserved", "reserved"),
];

/// The query that `pg_get_keywords()` or `duckdb_keywords()` stands for; `None` for another name.
pub(super) fn of(name: &str) -> Option<String> {
    let is_duckdb = match name {
        "pg_get_keywords" => false,
        "duckdb_keywords" => true,
        _ => return None,
    };
    let parts = WORDS.iter().map(|(category, is_label, words)| {
        let names = CATEGORIES.iter().find(|(known, _, _)| known == category);
        let (_, described, called) = names.copied().unwrap_or((*category, "", ""));
        let word = format!("unnest(string_to_array('{words}', ' '))");
        if is_duckdb {
            return format!("SELECT {word} AS keyword_name, '{called}'::text AS keyword_category");
        }
        let label = if *is_label { "can be bare label" } else { "requires AS" };
        format!(
            "SELECT {word} AS word, '{category}'::\"char\" AS catcode, {is_label} AS barelabel, \
             '{described}'::text AS catdesc, '{label}'::text AS baredesc"
        )
    });
    Some(format!("{} ORDER BY 1 ASC", parts.collect::<Vec<_>>().join(" UNION ALL ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_is_there_once() {
        let mut words = WORDS.iter().flat_map(|(_, _, words)| words.split(' ')).collect::<Vec<_>>();
        assert_eq!(words.len(), 460);
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), 460);
        for name in ["pg_get_keywords", "duckdb_keywords"] {
            assert!(crate::parse::query(&of(name).unwrap()).is_ok());
        }
        assert!(WORDS.iter().all(|(category, _, _)| CATEGORIES.iter().any(|(known, _, _)| known == category)));
    }
}
