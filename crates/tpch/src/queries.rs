//! The 22 queries with the validation parameters of the specification.

/// The query texts; query N is at N - 1.
///
/// Three things differ from the templates of the specification: query 15 uses a common table expression in place of a
/// view, the queries of which only the first rows are wanted end in `LIMIT`, and query 11 keeps the fraction of scale
/// factor 1 at every scale factor.
pub const QUERIES: [&str; 22] = [
    include_str!("../queries/q01.sql"),
    include_str!("../queries/q02.sql"),
    include_str!("../queries/q03.sql"),
    include_str!("../queries/q04.sql"),
    include_str!("../queries/q05.sql"),
    include_str!("../queries/q06.sql"),
    include_str!("../queries/q07.sql"),
    include_str!("../queries/q08.sql"),
    include_str!("../queries/q09.sql"),
    include_str!("../queries/q10.sql"),
    include_str!("../queries/q11.sql"),
    include_str!("../queries/q12.sql"),
    include_str!("../queries/q13.sql"),
    include_str!("../queries/q14.sql"),
    include_str!("../queries/q15.sql"),
    include_str!("../queries/q16.sql"),
    include_str!("../queries/q17.sql"),
    include_str!("../queries/q18.sql"),
    include_str!("../queries/q19.sql"),
    include_str!("../queries/q20.sql"),
    include_str!("../queries/q21.sql"),
    include_str!("../queries/q22.sql"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_is_its_own_query_without_open_parameters() {
        for (position, text) in QUERIES.iter().enumerate() {
            assert!(text.starts_with(&format!("-- Query {}: ", position + 1)), "query {}", position + 1);
            assert!(!text.contains(';') && !text.contains(":1"), "query {}", position + 1);
        }
    }
}
