//! `.import`: the rows of a file in a table, as shells of other systems have it. It is one statement of SQL, which a
//! server runs over its own files.

use super::variables::single_quoted;

/// The usage of the command.
pub const USAGE: &str =
    "usage: .import [--csv] [--skip N] FILE TABLE (add the rows of a file to a table, or make it of them)";

/// What is to be brought where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    file: String,
    /// The table, as SQL has its name.
    table: String,
    is_csv: bool,
    skip: Option<usize>,
}

impl Import {
    /// What the arguments say. Fails with a message if they make no sense.
    pub fn of(argument: &str) -> Result<Self, String> {
        let (mut words, mut is_csv, mut skip) = (words(argument).into_iter(), false, None);
        let mut names = Vec::new();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--csv" | "-csv" => is_csv = true,
                "--skip" | "-skip" => {
                    skip = Some(words.next().and_then(|lines| lines.parse().ok()).ok_or_else(|| USAGE.to_owned())?);
                }
                other if other.starts_with('-') => return Err(format!(".import has no '{other}'; {USAGE}")),
                _ => names.push(word),
            }
        }
        let Ok([file, table]) = <[String; 2]>::try_from(names) else { return Err(USAGE.to_owned()) };
        if file.starts_with('|') {
            return Err(format!(".import reads files; \\copy {table} FROM PROGRAM '…' reads what a command writes"));
        }
        Ok(Self { file, table, is_csv, skip })
    }

    /// The query that tells whether there is such a table: it has a row then.
    pub fn known(&self) -> String {
        format!("SELECT 1 WHERE to_regclass({}) IS NOT NULL", quoted(&self.table))
    }

    /// What brings the rows, into a table that is there or into a new one.
    pub fn statement(&self, is_known: bool) -> String {
        let (file, table) = (quoted(&self.file), &self.table);
        let skip = |before: &str| self.skip.map(|lines| format!("{before}skip {lines}")).unwrap_or_default();
        match (is_known, self.is_csv || self.skip.is_some()) {
            (true, true) => format!("COPY {table} FROM {file} (FORMAT csv{})", skip(", ")),
            (true, false) => format!("COPY {table} FROM {file}"),
            (false, true) => {
                format!(
                    "CREATE TABLE {table} AS SELECT * FROM read_csv({file}{})",
                    skip(", ").replace("skip ", "skip = ")
                )
            }
            (false, false) => format!("CREATE TABLE {table} AS SELECT * FROM {file}"),
        }
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The words of arguments. One in single quotes may have blanks; double quotes around a file's name are none of it.
fn words(argument: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = argument.trim_start();
    while let Some(first) = rest.chars().next() {
        let mut word = String::new();
        let length = match first {
            '\'' => single_quoted(rest, &mut word),
            '"' => rest[1..].find('"').map(|end| end + 2),
            _ => None,
        };
        if length.is_none() {
            word.clear();
        }
        let length = length.unwrap_or_else(|| rest.find(char::is_whitespace).unwrap_or(rest.len()));
        if word.is_empty() {
            word.push_str(&rest[..length]);
        }
        words.push(word);
        rest = rest[length..].trim_start();
    }
    if let Some(file) = words.iter_mut().find(|word| !word.starts_with('-'))
        && let Some(inside) = file.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'))
    {
        *file = inside.to_owned();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_become_statements() {
        for (argument, new, known) in [
            ("a.csv t", "CREATE TABLE t AS SELECT * FROM 'a.csv'", "COPY t FROM 'a.csv'"),
            (
                "--csv --skip 2 'my file.txt' s.t",
                "CREATE TABLE s.t AS SELECT * FROM read_csv('my file.txt', skip = 2)",
                "COPY s.t FROM 'my file.txt' (FORMAT csv, skip 2)",
            ),
            (
                "-csv \"it's.dat\" \"T t\"",
                "CREATE TABLE \"T t\" AS SELECT * FROM read_csv('it''s.dat')",
                "COPY \"T t\" FROM 'it''s.dat' (FORMAT csv)",
            ),
        ] {
            let import = Import::of(argument).unwrap();
            assert_eq!((import.statement(false).as_str(), import.statement(true).as_str()), (new, known), "{argument}");
        }
        let import = Import::of("a.csv \"It's\"").unwrap();
        assert_eq!(import.known(), "SELECT 1 WHERE to_regclass('\"It''s\"') IS NOT NULL");
        for wrong in ["", "a.csv", "a.csv t u", "--skip x a.csv t", "--ascii a.csv t", "|ls t"] {
            assert!(Import::of(wrong).is_err(), "{wrong}");
        }
    }
}
