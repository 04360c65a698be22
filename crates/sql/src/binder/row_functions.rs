//! Functions that give several rows, by name.

/// The function that gives the channels to which the session listens.
pub(crate) const LISTENING: &str = "pg_listening_channels";

/// Functions that give a row per element of the array that the catalog's function of that name gives.
pub(super) const ROW_FUNCTIONS: [&str; 25] = [
    "generate_series",
    "generate_subscripts",
    "json_array_elements",
    "json_array_elements_text",
    "json_each",
    "json_each_text",
    "json_object_keys",
    "json_tree",
    "jsonb_array_elements",
    "jsonb_array_elements_text",
    "jsonb_each",
    "jsonb_each_text",
    "jsonb_object_keys",
    "jsonb_path_query",
    "pg_expandarray",
    "_pg_expandarray",
    LISTENING,
    "pg_timezone_names",
    "regexp_matches",
    "regexp_split_to_table",
    "string_to_table",
    "ts_debug",
    "ts_parse",
    "ts_token_type",
    "unnest",
];
