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
/// What such a setting is here.
const NOTHING: &str = "Means nothing here.";
/// The version that clients are told: they choose their questions by it.
pub const SERVER_VERSION: &str = "16.6";

/// PostgreSQL's settings: names, first values, categories, kinds, and what they are.
#[rustfmt::skip]
pub(crate) const KNOWN: [(&str, &str, &str, SettingKind, &str); 86] = [
    ("application_name", "", "Reporting and Logging / What to Log", Text, "What the client calls itself."),
    ("backslash_quote", "safe_encoding", COMPATIBILITY, Choice, "Whether \\' stands for a quote."),
    ("block_size", "8192", PRESET, Whole, "Bytes of a block."),
    ("bytea_output", "hex", STATEMENTS, Choice, "How bytes are written."),
    ("check_function_bodies", "on", STATEMENTS, Switch, "Whether bodies of functions are read when they are made."),
    ("client_encoding", "UTF8", LOCALE, Text, "The encoding of the client's texts."),
    ("client_min_messages", "notice", STATEMENTS, Choice, "The least level of messages to the client."),
    ("constraint_exclusion", "partition", PLANNER, Choice, NOTHING),
    ("cpu_index_tuple_cost", "0.005", PLANNER, Text, NOTHING),
    ("cpu_operator_cost", "0.0025", PLANNER, Text, NOTHING),
    ("cpu_tuple_cost", "0.01", PLANNER, Text, NOTHING),
    ("cursor_tuple_fraction", "0.1", PLANNER, Text, NOTHING),
    ("datestyle", "ISO, MDY", LOCALE, Text, "How dates are written, and what comes first in them."),
    ("default_statistics_target", "100", PLANNER, Whole, NOTHING),
    ("default_table_access_method", "heap", STATEMENTS, Text, "How new tables are kept."),
    ("default_tablespace", "", STATEMENTS, Text, "Where new tables are kept."),
    ("default_transaction_deferrable", "off", STATEMENTS, Switch, "Whether transactions may be deferred."),
    ("default_transaction_isolation", "read committed", STATEMENTS, Choice, "What transactions see of others."),
    ("default_transaction_read_only", "off", STATEMENTS, Switch, "Whether transactions only read."),
    ("default_with_oids", "off", COMPATIBILITY, Switch, "Whether new tables have a column of oids."),
    ("effective_cache_size", "4GB", PLANNER, Text, NOTHING),
    ("effective_io_concurrency", "1", PLANNER, Whole, NOTHING),
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
    ("hash_mem_multiplier", "2", PLANNER, Text, NOTHING),
    ("idle_in_transaction_session_timeout", "0", STATEMENTS, Time, "How long a transaction may rest."),
    ("idle_session_timeout", "0", STATEMENTS, Time, "How long a session may rest."),
    ("in_hot_standby", "off", PRESET, Switch, "Whether the server only follows another one."),
    ("integer_datetimes", "on", PRESET, Switch, "Whether times are whole numbers."),
    ("intervalstyle", "postgres", LOCALE, Choice, "How intervals are written."),
    ("is_superuser", "off", PRESET, Switch, "Whether the user may do everything."),
    ("jit", "off", "Query Tuning / Other Planner Options", Switch, NOTHING),
    ("jit_above_cost", "100000", PLANNER, Whole, NOTHING),
    ("join_collapse_limit", "8", PLANNER, Whole, NOTHING),
    ("lc_collate", "C", PRESET, Text, "The order of texts."),
    ("lc_ctype", "C", PRESET, Text, "The classes of letters."),
    ("lc_messages", "C", LOCALE, Text, "The language of messages."),
    ("lc_monetary", "C", LOCALE, Text, "How amounts of money are written."),
    ("lc_numeric", "C", LOCALE, Text, "How numbers are written."),
    ("lc_time", "C", LOCALE, Text, "The language of dates."),
    ("maintenance_work_mem", "64MB", PLANNER, Text, NOTHING),
    ("max_identifier_length", "63", PRESET, Whole, "Bytes of a name, at most."),
    ("max_index_keys", "32", PRESET, Whole, "Columns of an index, at most."),
    ("max_parallel_maintenance_workers", "2", PLANNER, Whole, NOTHING),
    ("max_parallel_workers", "8", PLANNER, Whole, NOTHING),
    ("max_parallel_workers_per_gather", "2", PLANNER, Whole, NOTHING),
    ("parallel_setup_cost", "1000", PLANNER, Whole, NOTHING),
    ("parallel_tuple_cost", "0.1", PLANNER, Text, NOTHING),
    ("plan_cache_mode", "auto", PLANNER, Choice, NOTHING),
    ("random_page_cost", "4", PLANNER, Text, NOTHING),
    ("row_security", "on", STATEMENTS, Switch, "Whether policies of rows hold."),
    ("seq_page_cost", "1", PLANNER, Text, NOTHING),
    ("server_encoding", "UTF8", PRESET, Text, "The encoding of the database's texts."),
    ("server_version", SERVER_VERSION, PRESET, Text, "The version of PostgreSQL that clients are told."),
    ("server_version_num", "160006", PRESET, Whole, "The same as a number."),
    ("session_authorization", "", PRESET, Text, "Who the session's user is."),
    ("standard_conforming_strings", "on", COMPATIBILITY, Switch, "Whether backslashes in texts are letters."),
    ("statement_timeout", "0", STATEMENTS, Time, "How long a statement may run."),
    ("synchronous_commit", "on", "Write-Ahead Log / Settings", Choice, "Whether COMMIT waits for the disk."),
    ("temp_buffers", "8MB", PLANNER, Text, NOTHING),
    ("timezone", "UTC", LOCALE, Text, "The zone in which times are read and written."),
    ("transaction_isolation", "read committed", STATEMENTS, Choice, "What the transaction sees of others."),
    ("transaction_read_only", "off", STATEMENTS, Switch, "Whether the transaction only reads."),
    ("transaction_timeout", "0", STATEMENTS, Time, "How long a transaction may take."),
    ("work_mem", "4MB", PLANNER, Text, NOTHING),
    ("xmloption", "content", STATEMENTS, Choice, "Whether XML is a document."),
];

/// The names of PostgreSQL's settings that are shown, with their first values.
pub fn known_settings() -> impl Iterator<Item = (&'static str, &'static str)> {
    KNOWN.iter().map(|(name, first, ..)| (*name, *first))
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
