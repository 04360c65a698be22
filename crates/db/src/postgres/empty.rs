//! Tables of `pg_catalog` about what does not exist here. They never have rows; clients join them.

use std::collections::BTreeMap;
use std::sync::Arc;

use diligence_catalog::ComputedTable;

use super::rows::CatalogTable;

/// Names and columns.
#[rustfmt::skip]
const EMPTY: [(&str, &str); 41] = [
    ("pg_aggregate", "aggfnoid:o aggkind aggnumdirectargs:s aggtransfn aggfinalfn aggsortop:o aggtranstype:o agginitval"),
    ("pg_auth_members", "oid:o roleid:o member:o grantor:o admin_option:b inherit_option:b set_option:b"),
    ("pg_cast", "oid:o castsource:o casttarget:o castfunc:o castcontext castmethod"),
    ("pg_collation", "oid:o collname collnamespace:o collowner:o collprovider collisdeterministic:b"),
    ("pg_conversion", "oid:o conname connamespace:o conowner:o conforencoding:i contoencoding:i conproc condefault:b"),
    ("pg_cursors", "name statement is_holdable:b is_binary:b is_scrollable:b creation_time"),
    ("pg_db_role_setting", "setdatabase:o setrole:o setconfig:T"),
    ("pg_depend", "classid:o objid:o objsubid:i refclassid:o refobjid:o refobjsubid:i deptype"),
    ("pg_enum", "oid:o enumtypid:o enumsortorder:f enumlabel"),
    ("pg_event_trigger", "oid:o evtname evtevent evtowner:o evtfoid:o evtenabled evttags:T"),
    ("pg_foreign_data_wrapper", "oid:o fdwname fdwowner:o fdwhandler:o fdwvalidator:o fdwacl:T fdwoptions:T"),
    ("pg_foreign_server", "oid:o srvname srvowner:o srvfdw:o srvtype srvversion srvacl:T srvoptions:T"),
    ("pg_foreign_table", "ftrelid:o ftserver:o ftoptions:T"),
    ("pg_inherits", "inhrelid:o inhparent:o inhseqno:i inhdetachpending:b"),
    ("pg_largeobject_metadata", "oid:o lomowner:o lomacl:T"),
    ("pg_keywords", "word catcode barelabel:b catdesc baredesc"),
    ("pg_matviews", "schemaname matviewname matviewowner tablespace hasindexes:b ispopulated:b definition"),
    ("pg_opclass", "oid:o opcmethod:o opcname opcnamespace:o opcowner:o opcfamily:o opcintype:o opcdefault:b opckeytype:o"),
    ("pg_operator", "oid:o oprname oprnamespace:o oprowner:o oprkind oprcanmerge:b oprcanhash:b oprleft:o oprright:o oprresult:o oprcode"),
    ("pg_partitioned_table", "partrelid:o partstrat partnatts:s partdefid:o partattrs:S partclass:O partcollation:O partexprs"),
    ("pg_policy", "oid:o polname polrelid:o polcmd polpermissive:b polroles:O polqual polwithcheck"),
    ("pg_prepared_statements", "name statement prepare_time parameter_types:T from_sql:b"),
    ("pg_publication", "oid:o pubname pubowner:o puballtables:b pubinsert:b pubupdate:b pubdelete:b pubtruncate:b pubviaroot:b"),
    ("pg_publication_namespace", "oid:o pnpubid:o pnnspid:o"),
    ("pg_publication_rel", "oid:o prpubid:o prrelid:o prqual prattrs:S"),
    ("pg_publication_tables", "pubname schemaname tablename attnames:T rowfilter"),
    ("pg_range", "rngtypid:o rngsubtype:o rngmultitypid:o rngcollation:o rngsubopc:o"),
    ("pg_rewrite", "oid:o rulename ev_class:o ev_type ev_enabled is_instead:b ev_qual ev_action"),
    ("pg_seclabel", "objoid:o classoid:o objsubid:i provider label"),
    ("pg_shdepend", "dbid:o classid:o objid:o objsubid:i refclassid:o refobjid:o deptype"),
    ("pg_shdescription", "objoid:o classoid:o description"),
    ("pg_stat_all_tables", "relid:o schemaname relname seq_scan:o n_live_tup:o n_dead_tup:o"),
    ("pg_stat_ssl", "pid:i ssl:b version cipher bits:i client_dn client_serial issuer_dn"),
    ("pg_stat_user_tables", "relid:o schemaname relname seq_scan:o n_live_tup:o n_dead_tup:o"),
    ("pg_statistic_ext", "oid:o stxrelid:o stxname stxnamespace:o stxowner:o stxstattarget:i stxkeys:S stxkind:T stxexprs"),
    ("pg_subscription", "oid:o subdbid:o subname subowner:o subenabled:b"),
    ("pg_timezone_abbrevs", "abbrev utc_offset is_dst:b"),
    ("pg_timezone_names", "name abbrev utc_offset is_dst:b"),
    ("pg_trigger", "oid:o tgrelid:o tgparentid:o tgname tgfoid:o tgtype:s tgenabled tgisinternal:b tgconstrrelid:o tgconstrindid:o \
      tgconstraint:o tgdeferrable:b tginitdeferred:b tgnargs:s tgattr:S tgargs tgqual tgoldtable tgnewtable"),
    ("pg_ts_config", "oid:o cfgname cfgnamespace:o cfgowner:o cfgparser:o"),
    ("pg_user_mapping", "oid:o umuser:o umserver:o umoptions:T"),
];

/// The tables.
pub(super) fn tables() -> BTreeMap<String, Arc<dyn ComputedTable>> {
    EMPTY.iter().map(|(name, line)| ((*name).to_owned(), CatalogTable::empty(line))).collect()
}
