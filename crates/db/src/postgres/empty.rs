//! Tables of `pg_catalog` about what does not exist here. They never have rows; clients join them.

use std::collections::BTreeMap;
use std::sync::Arc;

use diligence_catalog::ComputedTable;

use super::rows::CatalogTable;

/// Names and columns.
#[rustfmt::skip]
const EMPTY: [(&str, &str); 45] = [
    ("pg_aggregate", "aggfnoid:p aggkind:c aggnumdirectargs:s aggtransfn aggfinalfn aggsortop:p aggtranstype:p agginitval"),
    ("pg_amop", "oid:p amopfamily:p amoplefttype:p amoprighttype:p amopstrategy:s amoppurpose:c amopopr:p amopmethod:p amopsortfamily:p"),
    ("pg_amproc", "oid:p amprocfamily:p amproclefttype:p amprocrighttype:p amprocnum:s amproc:p"),
    ("pg_config", "name setting"),
    ("pg_conversion", "oid:p conname:n connamespace:p conowner:p conforencoding:i contoencoding:i conproc condefault:b"),
    ("pg_event_trigger", "oid:p evtname:n evtevent:n evtowner:p evtfoid:p evtenabled:c evttags:T"),
    ("pg_file_settings", "sourcefile sourceline:i seqno:i name setting applied:b error"),
    ("pg_foreign_data_wrapper", "oid:p fdwname:n fdwowner:p fdwhandler:p fdwvalidator:p fdwacl:T fdwoptions:T"),
    ("pg_foreign_server", "oid:p srvname:n srvowner:p srvfdw:p srvtype srvversion srvacl:T srvoptions:T"),
    ("pg_foreign_table", "ftrelid:p ftserver:p ftoptions:T"),
    ("pg_hba_file_rules", "line_number:i type database:T user_name:T address netmask auth_method options:T error"),
    ("pg_inherits", "inhrelid:p inhparent:p inhseqno:i inhdetachpending:b"),
    ("pg_init_privs", "objoid:p classoid:p objsubid:i privtype:c initprivs:T"),
    ("pg_largeobject_metadata", "oid:p lomowner:p lomacl:T"),
    ("pg_parameter_acl", "oid:p parname paracl:T"),
    ("pg_partitioned_table", "partrelid:p partstrat:c partnatts:s partdefid:p partattrs:S partclass:O partcollation:O partexprs"),
    ("pg_policies", "schemaname:n tablename:n policyname:n permissive roles:T cmd qual with_check"),
    ("pg_policy", "oid:p polname:n polrelid:p polcmd:c polpermissive:b polroles:P polqual polwithcheck"),
    ("pg_publication", "oid:p pubname:n pubowner:p puballtables:b pubinsert:b pubupdate:b pubdelete:b pubtruncate:b pubviaroot:b"),
    ("pg_publication_namespace", "oid:p pnpubid:p pnnspid:p"),
    ("pg_publication_rel", "oid:p prpubid:p prrelid:p prqual prattrs:S"),
    ("pg_publication_tables", "pubname:n schemaname:n tablename:n attnames:T rowfilter"),
    ("pg_replication_origin", "roident:p roname"),
    ("pg_replication_slots", "slot_name:n plugin:n slot_type datoid:p database:n temporary:b active:b active_pid:i xmin:x catalog_xmin:x \
      restart_lsn confirmed_flush_lsn wal_status safe_wal_size:o two_phase:b"),
    ("pg_rewrite", "oid:p rulename:n ev_class:p ev_type:c ev_enabled:c is_instead:b ev_qual ev_action"),
    ("pg_rules", "schemaname:n tablename:n rulename:n definition"),
    ("pg_seclabel", "objoid:p classoid:p objsubid:i provider label"),
    ("pg_seclabels", "objoid:p classoid:p objsubid:i objtype objnamespace:p objname provider label"),
    ("pg_shdepend", "dbid:p classid:p objid:p objsubid:i refclassid:p refobjid:p deptype:c"),
    ("pg_shseclabel", "objoid:p classoid:p provider label"),
    ("pg_stat_bgwriter", "checkpoints_timed:o checkpoints_req:o checkpoint_write_time:f checkpoint_sync_time:f buffers_checkpoint:o \
      buffers_clean:o maxwritten_clean:o buffers_backend:o buffers_backend_fsync:o buffers_alloc:o stats_reset:z"),
    ("pg_stat_database", "datid:p datname:n numbackends:i xact_commit:o xact_rollback:o blks_read:o blks_hit:o tup_returned:o \
      tup_fetched:o tup_inserted:o tup_updated:o tup_deleted:o conflicts:o temp_files:o temp_bytes:o deadlocks:o checksum_failures:o \
      checksum_last_failure:z blk_read_time:f blk_write_time:f session_time:f active_time:f idle_in_transaction_time:f sessions:o \
      sessions_abandoned:o sessions_fatal:o sessions_killed:o stats_reset:z"),
    ("pg_stat_replication", "pid:i usesysid:p usename:n application_name client_addr client_hostname client_port:i backend_start:z \
      backend_xmin:x state sent_lsn write_lsn flush_lsn replay_lsn write_lag flush_lag replay_lag sync_priority:i sync_state reply_time:z"),
    ("pg_stat_ssl", "pid:i ssl:b version cipher bits:i client_dn client_serial issuer_dn"),
    ("pg_stat_user_functions", "funcid:p schemaname:n funcname:n calls:o total_time:f self_time:f"),
    ("pg_statio_all_indexes", "relid:p indexrelid:p schemaname:n relname:n indexrelname:n idx_blks_read:o idx_blks_hit:o"),
    ("pg_statio_all_tables", "relid:p schemaname:n relname:n heap_blks_read:o heap_blks_hit:o idx_blks_read:o idx_blks_hit:o \
      toast_blks_read:o toast_blks_hit:o tidx_blks_read:o tidx_blks_hit:o"),
    ("pg_statio_user_indexes", "relid:p indexrelid:p schemaname:n relname:n indexrelname:n idx_blks_read:o idx_blks_hit:o"),
    ("pg_statio_user_tables", "relid:p schemaname:n relname:n heap_blks_read:o heap_blks_hit:o idx_blks_read:o idx_blks_hit:o \
      toast_blks_read:o toast_blks_hit:o tidx_blks_read:o tidx_blks_hit:o"),
    ("pg_statistic_ext_data", "stxoid:p stxdinherit:b stxdndistinct stxddependencies stxdmcv stxdexpr"),
    ("pg_subscription", "oid:p subdbid:p subskiplsn subname:n subowner:p subenabled:b subbinary:b substream:b subtwophasestate:c \
      subdisableonerr:b subconninfo subslotname:n subsynccommit subpublications:T"),
    ("pg_subscription_rel", "srsubid:p srrelid:p srsubstate:c srsublsn"),
    ("pg_transform", "oid:p trftype:p trflang:p trffromsql trftosql"),
    ("pg_user_mapping", "oid:p umuser:p umserver:p umoptions:T"),
    ("pg_user_mappings", "umid:p srvid:p srvname:n umuser:p usename:n umoptions:T"),
];

/// The tables.
pub(super) fn tables() -> BTreeMap<String, Arc<dyn ComputedTable>> {
    EMPTY.iter().map(|(name, line)| ((*name).to_owned(), CatalogTable::empty(line))).collect()
}
