//! Tables of `pg_catalog` about what does not exist here. They never have rows; clients join them.

use std::collections::BTreeMap;
use std::sync::Arc;

use diligence_catalog::ComputedTable;

use super::rows::CatalogTable;

/// Names and columns.
#[rustfmt::skip]
const EMPTY: [(&str, &str); 42] = [
    ("pg_aggregate", "aggfnoid:o aggkind aggnumdirectargs:s aggtransfn aggfinalfn aggsortop:o aggtranstype:o agginitval"),
    ("pg_amop", "oid:o amopfamily:o amoplefttype:o amoprighttype:o amopstrategy:s amoppurpose amopopr:o amopmethod:o amopsortfamily:o"),
    ("pg_amproc", "oid:o amprocfamily:o amproclefttype:o amprocrighttype:o amprocnum:s amproc"),
    ("pg_config", "name setting"),
    ("pg_conversion", "oid:o conname connamespace:o conowner:o conforencoding:i contoencoding:i conproc condefault:b"),
    ("pg_event_trigger", "oid:o evtname evtevent evtowner:o evtfoid:o evtenabled evttags:T"),
    ("pg_file_settings", "sourcefile sourceline:i seqno:i name setting applied:b error"),
    ("pg_foreign_data_wrapper", "oid:o fdwname fdwowner:o fdwhandler:o fdwvalidator:o fdwacl:T fdwoptions:T"),
    ("pg_foreign_server", "oid:o srvname srvowner:o srvfdw:o srvtype srvversion srvacl:T srvoptions:T"),
    ("pg_foreign_table", "ftrelid:o ftserver:o ftoptions:T"),
    ("pg_hba_file_rules", "line_number:i type database:T user_name:T address netmask auth_method options:T error"),
    ("pg_inherits", "inhrelid:o inhparent:o inhseqno:i inhdetachpending:b"),
    ("pg_init_privs", "objoid:o classoid:o objsubid:i privtype initprivs:T"),
    ("pg_largeobject_metadata", "oid:o lomowner:o lomacl:T"),
    ("pg_partitioned_table", "partrelid:o partstrat partnatts:s partdefid:o partattrs:S partclass:O partcollation:O partexprs"),
    ("pg_policies", "schemaname tablename policyname permissive roles:T cmd qual with_check"),
    ("pg_policy", "oid:o polname polrelid:o polcmd polpermissive:b polroles:O polqual polwithcheck"),
    ("pg_publication", "oid:o pubname pubowner:o puballtables:b pubinsert:b pubupdate:b pubdelete:b pubtruncate:b pubviaroot:b"),
    ("pg_publication_namespace", "oid:o pnpubid:o pnnspid:o"),
    ("pg_publication_rel", "oid:o prpubid:o prrelid:o prqual prattrs:S"),
    ("pg_publication_tables", "pubname schemaname tablename attnames:T rowfilter"),
    ("pg_replication_origin", "roident:o roname"),
    ("pg_replication_slots", "slot_name plugin slot_type datoid:o database temporary:b active:b active_pid:i xmin:o catalog_xmin:o \
      restart_lsn confirmed_flush_lsn wal_status safe_wal_size:o two_phase:b"),
    ("pg_rewrite", "oid:o rulename ev_class:o ev_type ev_enabled is_instead:b ev_qual ev_action"),
    ("pg_rules", "schemaname tablename rulename definition"),
    ("pg_seclabel", "objoid:o classoid:o objsubid:i provider label"),
    ("pg_seclabels", "objoid:o classoid:o objsubid:i objtype objnamespace:o objname provider label"),
    ("pg_shdepend", "dbid:o classid:o objid:o objsubid:i refclassid:o refobjid:o deptype"),
    ("pg_shseclabel", "objoid:o classoid:o provider label"),
    ("pg_stat_bgwriter", "checkpoints_timed:o checkpoints_req:o checkpoint_write_time:f checkpoint_sync_time:f buffers_checkpoint:o \
      buffers_clean:o maxwritten_clean:o buffers_backend:o buffers_backend_fsync:o buffers_alloc:o stats_reset:z"),
    ("pg_stat_database", "datid:o datname numbackends:i xact_commit:o xact_rollback:o blks_read:o blks_hit:o tup_returned:o \
      tup_fetched:o tup_inserted:o tup_updated:o tup_deleted:o conflicts:o temp_files:o temp_bytes:o deadlocks:o checksum_failures:o \
      checksum_last_failure:z blk_read_time:f blk_write_time:f session_time:f active_time:f idle_in_transaction_time:f sessions:o \
      sessions_abandoned:o sessions_fatal:o sessions_killed:o stats_reset:z"),
    ("pg_stat_replication", "pid:i usesysid:o usename application_name client_addr client_hostname client_port:i backend_start:z \
      backend_xmin:o state sent_lsn write_lsn flush_lsn replay_lsn write_lag flush_lag replay_lag sync_priority:i sync_state reply_time:z"),
    ("pg_stat_ssl", "pid:i ssl:b version cipher bits:i client_dn client_serial issuer_dn"),
    ("pg_stat_user_functions", "funcid:o schemaname funcname calls:o total_time:f self_time:f"),
    ("pg_statistic_ext", "oid:o stxrelid:o stxname stxnamespace:o stxowner:o stxstattarget:i stxkeys:S stxkind:T stxexprs"),
    ("pg_statistic_ext_data", "stxoid:o stxdinherit:b stxdndistinct stxddependencies stxdmcv stxdexpr"),
    ("pg_stats", "schemaname tablename attname inherited:b null_frac:f avg_width:i n_distinct:f most_common_vals most_common_freqs \
      histogram_bounds correlation:f most_common_elems most_common_elem_freqs elem_count_histogram"),
    ("pg_subscription", "oid:o subdbid:o subname subowner:o subenabled:b"),
    ("pg_subscription_rel", "srsubid:o srrelid:o srsubstate srsublsn"),
    ("pg_transform", "oid:o trftype:o trflang:o trffromsql trftosql"),
    ("pg_user_mapping", "oid:o umuser:o umserver:o umoptions:T"),
    ("pg_user_mappings", "umid:o srvid:o srvname umuser:o usename umoptions:T"),
];

/// The tables.
pub(super) fn tables() -> BTreeMap<String, Arc<dyn ComputedTable>> {
    EMPTY.iter().map(|(name, line)| ((*name).to_owned(), CatalogTable::empty(line))).collect()
}
