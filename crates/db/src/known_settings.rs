//! The settings of PostgreSQL that clients know, with their first values, and what they are here.

/// What kind of value a setting has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SettingKind {
    Text,
    Choice,
    Switch,
    Whole,
    /// A time, in milliseconds.
    Time,
}

use SettingKind::{Choice, Switch, Text, Time, Whole};

const STATEMENTS: &str = "Client Connection Defaults / Statement Behavior";
const LOCALE: &str = "Client Connection Defaults / Locale and Formatting";
/// The category of what nobody changes.
pub(crate) const PRESET: &str = "Preset Options";
const COMPATIBILITY: &str = "Version and Platform Compatibility";
/// What PostgreSQL's planner and memory are told.
const PLANNER: &str = "Query Tuning";
const VACUUM_COSTS: &str = "Resource Usage / Cost-Based Vacuum Delay";
const LOGGED: &str = "Reporting and Logging / What to Log";
const LOGGED_WHEN: &str = "Reporting and Logging / When to Log";
const MONITORED: &str = "Statistics / Monitoring";
/// What such a setting is here.
const NOTHING: &str = "Means nothing here.";
/// The version that clients are told: they choose their questions by it.
pub const SERVER_VERSION: &str = "16.6";

/// PostgreSQL's settings: names, first values, categories, kinds, and what they are.
#[rustfmt::skip]
pub(crate) const KNOWN: [(&str, &str, &str, SettingKind, &str); 155] = [
    ("application_name", "", LOGGED, Text, "What the client calls itself."),
    ("backslash_quote", "safe_encoding", COMPATIBILITY, Choice, "Whether \\' stands for a quote."),
    ("block_size", "8192", PRESET, Whole, "Bytes of a block."),
    ("bytea_output", "hex", STATEMENTS, Choice, "How bytes are written."),
    ("check_function_bodies", "on", STATEMENTS, Switch, "Whether bodies of functions are read when they are made."),
    ("client_connection_check_interval", "0", "Connections and Authentication / Connection Settings", Text, NOTHING),
    ("client_encoding", "UTF8", LOCALE, Text, "The encoding of the client's texts."),
    ("client_min_messages", "notice", STATEMENTS, Choice, "The least level of messages to the client."),
    ("commit_delay", "0", "Write-Ahead Log / Settings", Whole, NOTHING),
    ("commit_siblings", "5", "Write-Ahead Log / Settings", Whole, NOTHING),
    ("compute_query_id", "auto", MONITORED, Choice, NOTHING),
    ("constraint_exclusion", "partition", PLANNER, Choice, NOTHING),
    ("cpu_index_tuple_cost", "0.005", PLANNER, Text, NOTHING),
    ("cpu_operator_cost", "0.0025", PLANNER, Text, NOTHING),
    ("cpu_tuple_cost", "0.01", PLANNER, Text, NOTHING),
    ("cursor_tuple_fraction", "0.1", PLANNER, Text, NOTHING),
    ("datestyle", "ISO, MDY", LOCALE, Text, "How dates are written, and what comes first in them."),
    ("deadlock_timeout", "1s", "Lock Management", Text, NOTHING),
    ("debug_pretty_print", "on", LOGGED, Switch, NOTHING),
    ("debug_print_parse", "off", LOGGED, Switch, NOTHING),
    ("debug_print_plan", "off", LOGGED, Switch, NOTHING),
    ("debug_print_rewritten", "off", LOGGED, Switch, NOTHING),
    ("default_statistics_target", "100", PLANNER, Whole, NOTHING),
    ("default_table_access_method", "heap", STATEMENTS, Text, "How new tables are kept."),
    ("default_tablespace", "", STATEMENTS, Text, "Where new tables are kept."),
    ("default_toast_compression", "pglz", STATEMENTS, Choice, NOTHING),
    ("default_transaction_deferrable", "off", STATEMENTS, Switch, "Whether transactions may be deferred."),
    ("default_transaction_isolation", "read committed", STATEMENTS, Choice, "What transactions see of others."),
    ("default_transaction_read_only", "off", STATEMENTS, Switch, "Whether transactions only read."),
    ("default_with_oids", "off", COMPATIBILITY, Switch, "Whether new tables have a column of oids."),
    ("effective_cache_size", "4GB", PLANNER, Text, NOTHING),
    ("effective_io_concurrency", "1", PLANNER, Whole, NOTHING),
    ("enable_async_append", "on", PLANNER, Switch, NOTHING),
    ("enable_bitmapscan", "on", PLANNER, Switch, NOTHING),
    ("enable_gathermerge", "on", PLANNER, Switch, NOTHING),
    ("enable_hashagg", "on", PLANNER, Switch, NOTHING),
    ("enable_hashjoin", "on", PLANNER, Switch, NOTHING),
    ("enable_incremental_sort", "on", PLANNER, Switch, NOTHING),
    ("enable_indexonlyscan", "on", PLANNER, Switch, NOTHING),
    ("enable_material", "on", PLANNER, Switch, NOTHING),
    ("enable_memoize", "on", PLANNER, Switch, NOTHING),
    ("enable_mergejoin", "on", PLANNER, Switch, NOTHING),
    ("enable_nestloop", "on", PLANNER, Switch, NOTHING),
    ("enable_parallel_append", "on", PLANNER, Switch, NOTHING),
    ("enable_parallel_hash", "on", PLANNER, Switch, NOTHING),
    ("enable_partition_pruning", "on", PLANNER, Switch, NOTHING),
    ("enable_partitionwise_aggregate", "off", PLANNER, Switch, NOTHING),
    ("enable_partitionwise_join", "off", PLANNER, Switch, NOTHING),
    ("enable_seqscan", "on", PLANNER, Switch, NOTHING),
    ("enable_sort", "on", PLANNER, Switch, NOTHING),
    ("enable_tidscan", "on", PLANNER, Switch, NOTHING),
    ("escape_string_warning", "on", COMPATIBILITY, Switch, "Whether a backslash in a text is warned of."),
    ("extra_float_digits", "1", LOCALE, Whole, "How many digits of floats are written."),
    ("from_collapse_limit", "8", PLANNER, Whole, NOTHING),
    ("geqo", "on", "Query Tuning / Genetic Query Optimizer", Switch, NOTHING),
    ("geqo_effort", "5", PLANNER, Whole, NOTHING),
    ("geqo_generations", "0", PLANNER, Whole, NOTHING),
    ("geqo_pool_size", "0", PLANNER, Whole, NOTHING),
    ("geqo_seed", "0", PLANNER, Text, NOTHING),
    ("geqo_selection_bias", "2", PLANNER, Text, NOTHING),
    ("geqo_threshold", "12", PLANNER, Whole, NOTHING),
    ("gin_fuzzy_search_limit", "0", "Client Connection Defaults / Other Defaults", Whole, NOTHING),
    ("gin_pending_list_limit", "4MB", STATEMENTS, Text, NOTHING),
    ("hash_mem_multiplier", "2", PLANNER, Text, NOTHING),
    ("idle_in_transaction_session_timeout", "0", STATEMENTS, Time, "How long a transaction may rest."),
    ("idle_session_timeout", "0", STATEMENTS, Time, "How long a session may rest."),
    ("in_hot_standby", "off", PRESET, Switch, "Whether the server only follows another one."),
    ("integer_datetimes", "on", PRESET, Switch, "Whether times are whole numbers."),
    ("intervalstyle", "postgres", LOCALE, Choice, "How intervals are written."),
    ("is_superuser", "off", PRESET, Switch, "Whether the user may do everything."),
    ("jit", "off", "Query Tuning / Other Planner Options", Switch, NOTHING),
    ("jit_above_cost", "100000", PLANNER, Whole, NOTHING),
    ("jit_expressions", "on", "Developer Options", Switch, NOTHING),
    ("jit_inline_above_cost", "500000", PLANNER, Text, NOTHING),
    ("jit_optimize_above_cost", "500000", PLANNER, Text, NOTHING),
    ("jit_tuple_deforming", "on", "Developer Options", Switch, NOTHING),
    ("join_collapse_limit", "8", PLANNER, Whole, NOTHING),
    ("lc_collate", "C", PRESET, Text, "The order of texts."),
    ("lc_ctype", "C", PRESET, Text, "The classes of letters."),
    ("lc_messages", "C", LOCALE, Text, "The language of messages."),
    ("lc_monetary", "C", LOCALE, Text, "How amounts of money are written."),
    ("lc_numeric", "C", LOCALE, Text, "How numbers are written."),
    ("lc_time", "C", LOCALE, Text, "The language of dates."),
    ("log_duration", "off", LOGGED, Switch, NOTHING),
    ("log_error_verbosity", "default", LOGGED, Choice, NOTHING),
    ("log_executor_stats", "off", MONITORED, Switch, NOTHING),
    ("log_lock_waits", "off", LOGGED, Switch, NOTHING),
    ("log_min_duration_statement", "-1", LOGGED_WHEN, Text, NOTHING),
    ("log_min_error_statement", "error", LOGGED_WHEN, Choice, NOTHING),
    ("log_min_messages", "warning", LOGGED_WHEN, Choice, NOTHING),
    ("log_parser_stats", "off", MONITORED, Switch, NOTHING),
    ("log_planner_stats", "off", MONITORED, Switch, NOTHING),
    ("log_statement", "none", LOGGED, Choice, NOTHING),
    ("log_statement_stats", "off", MONITORED, Switch, NOTHING),
    ("log_temp_files", "-1", LOGGED, Text, NOTHING),
    ("logical_decoding_work_mem", "64MB", "Resource Usage / Memory", Text, NOTHING),
    ("maintenance_io_concurrency", "10", "Resource Usage / Asynchronous Behavior", Whole, NOTHING),
    ("maintenance_work_mem", "64MB", PLANNER, Text, NOTHING),
    ("max_identifier_length", "63", PRESET, Whole, "Bytes of a name, at most."),
    ("max_index_keys", "32", PRESET, Whole, "Columns of an index, at most."),
    ("max_parallel_maintenance_workers", "2", PLANNER, Whole, NOTHING),
    ("max_parallel_workers", "8", PLANNER, Whole, NOTHING),
    ("max_parallel_workers_per_gather", "2", PLANNER, Whole, NOTHING),
    ("max_stack_depth", "2MB", "Resource Usage / Memory", Text, NOTHING),
    ("min_parallel_index_scan_size", "512kB", PLANNER, Text, NOTHING),
    ("min_parallel_table_scan_size", "8MB", PLANNER, Text, NOTHING),
    ("parallel_leader_participation", "on", "Resource Usage / Asynchronous Behavior", Switch, NOTHING),
    ("parallel_setup_cost", "1000", PLANNER, Whole, NOTHING),
    ("parallel_tuple_cost", "0.1", PLANNER, Text, NOTHING),
    ("plan_cache_mode", "auto", PLANNER, Choice, NOTHING),
    ("random_page_cost", "4", PLANNER, Text, NOTHING),
    ("recursive_worktable_factor", "10", PLANNER, Text, NOTHING),
    ("row_security", "on", STATEMENTS, Switch, "Whether policies of rows hold."),
    ("seq_page_cost", "1", PLANNER, Text, NOTHING),
    ("server_encoding", "UTF8", PRESET, Text, "The encoding of the database's texts."),
    ("server_version", SERVER_VERSION, PRESET, Text, "The version of PostgreSQL that clients are told."),
    ("server_version_num", "160006", PRESET, Whole, "The same as a number."),
    ("session_authorization", "", PRESET, Text, "Who the session's user is."),
    ("session_replication_role", "origin", STATEMENTS, Choice, "Which triggers fire."),
    ("standard_conforming_strings", "on", COMPATIBILITY, Switch, "Whether backslashes in texts are letters."),
    ("statement_timeout", "0", STATEMENTS, Time, "How long a statement may run."),
    ("stats_fetch_consistency", "cache", "Statistics / Cumulative Query and Index Statistics", Choice, NOTHING),
    ("synchronize_seqscans", "on", COMPATIBILITY, Switch, NOTHING),
    ("synchronous_commit", "on", "Write-Ahead Log / Settings", Choice, "Whether COMMIT waits for the disk."),
    ("tcp_keepalives_count", "0", "Connections and Authentication / Connection Settings", Whole, NOTHING),
    ("tcp_keepalives_idle", "0", "Connections and Authentication / Connection Settings", Text, NOTHING),
    ("tcp_keepalives_interval", "0", "Connections and Authentication / Connection Settings", Text, NOTHING),
    ("tcp_user_timeout", "0", "Connections and Authentication / Connection Settings", Text, NOTHING),
    ("temp_buffers", "8MB", PLANNER, Text, NOTHING),
    ("temp_tablespaces", "", STATEMENTS, Text, NOTHING),
    ("timezone", "UTC", LOCALE, Text, "The zone in which times are read and written."),
    ("track_activities", "on", "Statistics / Cumulative Query and Index Statistics", Switch, NOTHING),
    ("track_counts", "on", "Statistics / Cumulative Query and Index Statistics", Switch, NOTHING),
    ("track_functions", "none", "Statistics / Cumulative Query and Index Statistics", Choice, NOTHING),
    ("track_io_timing", "off", "Statistics / Cumulative Query and Index Statistics", Switch, NOTHING),
    ("transaction_deferrable", "off", STATEMENTS, Switch, "Whether the transaction may be deferred."),
    ("transaction_isolation", "read committed", STATEMENTS, Choice, "What the transaction sees of others."),
    ("transaction_read_only", "off", STATEMENTS, Switch, "Whether the transaction only reads."),
    ("transaction_timeout", "0", STATEMENTS, Time, "How long a transaction may take."),
    ("update_process_title", "on", "Reporting and Logging / Process Title", Switch, NOTHING),
    ("vacuum_cost_delay", "0", VACUUM_COSTS, Text, NOTHING),
    ("vacuum_cost_limit", "200", VACUUM_COSTS, Whole, NOTHING),
    ("vacuum_cost_page_dirty", "20", VACUUM_COSTS, Whole, NOTHING),
    ("vacuum_cost_page_hit", "1", VACUUM_COSTS, Whole, NOTHING),
    ("vacuum_cost_page_miss", "2", VACUUM_COSTS, Whole, NOTHING),
    ("vacuum_failsafe_age", "1600000000", STATEMENTS, Whole, NOTHING),
    ("vacuum_freeze_min_age", "50000000", STATEMENTS, Whole, NOTHING),
    ("vacuum_freeze_table_age", "150000000", STATEMENTS, Whole, NOTHING),
    ("vacuum_multixact_failsafe_age", "1600000000", STATEMENTS, Whole, NOTHING),
    ("vacuum_multixact_freeze_min_age", "5000000", STATEMENTS, Whole, NOTHING),
    ("vacuum_multixact_freeze_table_age", "150000000", STATEMENTS, Whole, NOTHING),
    ("wal_compression", "off", "Write-Ahead Log / Settings", Choice, NOTHING),
    ("wal_skip_threshold", "2MB", "Write-Ahead Log / Settings", Text, NOTHING),
    ("work_mem", "4MB", PLANNER, Text, NOTHING),
    ("xmloption", "content", STATEMENTS, Choice, "Whether XML is a document."),
];

/// What kind of value a setting of PostgreSQL's has; `None` if it is none of these.
pub(crate) fn kind_of_setting(name: &str) -> Option<SettingKind> {
    KNOWN.iter().find(|(known, ..)| *known == name).map(|(.., kind, _)| *kind)
}

/// The names of PostgreSQL's settings that are shown, with their first values.
pub fn known_settings() -> impl Iterator<Item = (&'static str, &'static str)> {
    KNOWN.iter().map(|(name, first, ..)| (*name, *first))
}

/// Whether a setting is one of sessions on a server, and of no database in this process.
pub(crate) fn is_of_servers(name: &str) -> bool {
    const OTHERS: [&str; 3] = ["client_encoding", "server_version", "standard_conforming_strings"];
    name.ends_with("_timeout") && KNOWN.iter().any(|(known, ..)| *known == name) || OTHERS.contains(&name)
}

/// The first value of a setting that a session without a client may change, too: it means nothing here, or is the
/// client's alone.
pub(crate) fn meaningless(name: &str) -> Option<&'static str> {
    const OF_CLIENTS: [&str; 7] = [
        "application_name",
        "backslash_quote",
        "check_function_bodies",
        "default_tablespace",
        "escape_string_warning",
        "row_security",
        "xmloption",
    ];
    let (_, first, ..) = KNOWN
        .iter()
        .find(|(known, .., description)| *known == name && (*description == NOTHING || OF_CLIENTS.contains(known)))?;
    Some(*first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_servers_are_told_from_those_of_every_database() {
        for name in ["statement_timeout", "idle_session_timeout", "server_version"] {
            assert!(is_of_servers(name), "{name}");
        }
        for name in ["timezone", "function_time", "my_own_timeout", "statement_timeouts"] {
            assert!(!is_of_servers(name), "{name}");
        }
    }
}
