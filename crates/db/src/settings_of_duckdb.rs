//! Names that DuckDB has for settings.

use diligence_base::Error;

/// Settings that scripts for DuckDB make and that change no answer: they are kept as an application's.
const NOTHING_HERE: [&str; 6] = [
    "enable_progress_bar",
    "enable_progress_bar_print",
    "progress_bar_time",
    "enable_object_cache",
    "autoinstall_known_extensions",
    "autoload_known_extensions",
];

/// The name that a setting has here.
pub(crate) fn own_name(name: &str) -> &str {
    match name {
        "threads" | "worker_threads" => "packets",
        "memory_limit" | "max_memory" => "memory",
        "preserve_insertion_order" => "preserve_order",
        other => other,
    }
}

/// Whether a setting says how DuckDB itself runs or looks.
pub(crate) fn changes_nothing(name: &str) -> bool {
    NOTHING_HERE.contains(&name)
}

/// The error for settings that are said when the program starts; `None` for others.
pub(crate) fn said_at_the_start(name: &str) -> Option<Error> {
    (name == "temp_directory").then(|| {
        let error = Error::input("parameter \"temp_directory\" cannot be changed now").with_code("55P02");
        error.with_hint("start the program with --temp-dir DIRECTORY")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_duckdb_are_known() {
        assert_eq!(own_name("threads"), "packets");
        assert_eq!(own_name("timezone"), "timezone");
        assert!(changes_nothing("enable_progress_bar") && !changes_nothing("threads"));
        assert_eq!(said_at_the_start("temp_directory").unwrap().code(), Some("55P02"));
        assert!(said_at_the_start("threads").is_none());
    }
}
