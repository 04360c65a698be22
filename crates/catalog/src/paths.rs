//! Table names that are paths: `SELECT … FROM 'data/lineitem.parquet'`, patterns and URLs.

/// Endings of file names that are tables by themselves, without compression's ending.
const ENDINGS: [&str; 15] = [
    "parquet", "parq", "pq", "csv", "tsv", "psv", "json", "jsonl", "ndjson", "arrow", "arrows", "feather", "ipc",
    "xlsx", "xlsm",
];
/// Endings that compression adds.
const COMPRESSIONS: [&str; 6] = ["gz", "gzip", "zst", "zstd", "bz2", "xz"];

/// True if a name looks like a path, a pattern or a URL of files rather than the name of a table.
pub fn looks_like_path(name: &str) -> bool {
    if name.contains("://") || name.contains('/') || name.contains('\\') {
        return true;
    }
    let lower = name.to_ascii_lowercase();
    let stem = match lower.rsplit_once('.') {
        Some((stem, ending)) if COMPRESSIONS.contains(&ending) => stem,
        _ => &lower,
    };
    stem.rsplit_once('.').is_some_and(|(_, ending)| ENDINGS.contains(&ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_told_from_names() {
        for path in ["a.parquet", "x/*.csv", "s3://bucket/t.parquet", "./t", "A.CSV.GZ", "dir/", "*.parquet"] {
            assert!(looks_like_path(path), "{path}");
        }
        for name in ["lineitem", "main.t", "a b", "t.", "v1.2", "gz"] {
            assert!(!looks_like_path(name), "{name}");
        }
    }
}
