//! Whether the texts of a block are SQL. That is asked when a function is made: what it means, when it runs.

use diligence_base::{Error, Result};

use super::{Block, Over, Rows, Sql, Step};
use crate::parse::parse_one;

/// Characters of a text that an error shows, at most.
const SHOWN_MAX: usize = 80;

/// Words that begin statements which no error is reported of: whether they are understood is seen when they run.
const LATER: [&str; 41] = [
    "alter",
    "analyze",
    "begin",
    "call",
    "checkpoint",
    "close",
    "cluster",
    "comment",
    "commit",
    "copy",
    "create",
    "deallocate",
    "declare",
    "discard",
    "do",
    "drop",
    "end",
    "execute",
    "explain",
    "fetch",
    "grant",
    "import",
    "listen",
    "load",
    "lock",
    "merge",
    "move",
    "notify",
    "prepare",
    "reassign",
    "refresh",
    "reindex",
    "release",
    "reset",
    "revoke",
    "rollback",
    "savepoint",
    "set",
    "show",
    "truncate",
    "vacuum",
];

/// Reads the expressions and statements of a block. Fails with 42601 for one that is none.
pub(crate) fn check(block: &Block) -> Result<()> {
    steps(&block.steps)?;
    block.handlers.iter().try_for_each(|handler| steps(&handler.steps))
}

fn steps(all: &[Step]) -> Result<()> {
    all.iter().try_for_each(step)
}

fn step(step: &Step) -> Result<()> {
    match step {
        Step::Assign { value, .. } => expression(value),
        Step::If { arms, otherwise } => {
            for (condition, then) in arms {
                expression(condition)?;
                steps(then)?;
            }
            otherwise.iter().try_for_each(|otherwise| steps(otherwise))
        }
        Step::Loop(looped) => {
            match &looped.over {
                Over::While(condition) => expression(condition)?,
                Over::Range { from, to, by, .. } => {
                    [Some(from), Some(to), by.as_ref()].into_iter().flatten().try_for_each(expression)?;
                }
                Over::Rows { rows, .. } => rows_of(rows)?,
                Over::Elements { array, .. } => expression(array)?,
                Over::Forever => {}
            }
            steps(&looped.steps)
        }
        Step::Leave { when, .. } => when.iter().try_for_each(expression),
        Step::Return(value) | Step::ReturnNext(value) => value.iter().try_for_each(expression),
        Step::ReturnRows(rows) => rows_of(rows),
        Step::Raise(raise) => raise.values.iter().try_for_each(expression),
        Step::Assert(condition, message) => {
            expression(condition)?;
            message.iter().try_for_each(expression)
        }
        Step::Perform(query) | Step::Statement(query, _) => statement(query),
        Step::Block(block) => check(block),
        Step::Execute(computed, _) => {
            expression(&computed.text)?;
            computed.using.iter().try_for_each(expression)
        }
        Step::Nothing | Step::Diagnostics(_) | Step::Cursor(_) | Step::EndTransaction { .. } => Ok(()),
    }
}

fn rows_of(rows: &Rows) -> Result<()> {
    match rows {
        Rows::Of(query) => statement(query),
        Rows::Computed(computed) => {
            expression(&computed.text)?;
            computed.using.iter().try_for_each(expression)
        }
        Rows::Cursor { arguments, .. } => arguments.iter().try_for_each(|(_, value)| expression(value)),
    }
}

fn expression(sql: &Sql) -> Result<()> {
    read(&format!("SELECT {}", sql.text), &sql.text)
}

fn statement(sql: &Sql) -> Result<()> {
    let first = sql.text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_lowercase();
    if LATER.contains(&first.as_str()) { Ok(()) } else { read(&sql.text, &sql.text) }
}

fn read(text: &str, shown: &str) -> Result<()> {
    let Err(error) = parse_one(text) else { return Ok(()) };
    if error.code() != Some("42601") {
        // It is something that there is not: not all branches are taken.
        return Ok(());
    }
    let end = shown.char_indices().nth(SHOWN_MAX).map_or(shown.len(), |(end, _)| end);
    let more = if end < shown.len() { "…" } else { "" };
    // Its place is one in the text.
    let of_body = Error::input(error.message()).with_code("42601");
    Err(of_body.with_detail(format!("It is in \"{}{more}\" of the function's body.", &shown[..end])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::procedural::read as read_body;

    #[test]
    fn texts_that_are_no_sql_are_refused() {
        for body in [
            "BEGIN RETRN 1; END",
            "BEGIN SELEC 1; RETURN 1; END",
            "BEGIN RETURN a b c; END",
            "BEGIN IF a > THEN RETURN 1; END IF; END",
            "BEGIN FOR r IN SELECT 1 FROM LOOP NULL; END LOOP; END",
        ] {
            let error = check(&read_body(body).unwrap()).unwrap_err();
            assert_eq!(error.code(), Some("42601"), "{body}");
        }
    }

    #[test]
    fn texts_that_are_sql_are_not_looked_at_closer() {
        let body = "DECLARE n int; r record; BEGIN n := count(*) FROM t; n := (SELECT 1); \
             SELECT a, b INTO r FROM t WHERE c = n; PERFORM f(n); INSERT INTO t VALUES (n) RETURNING a INTO n; \
             FOR i IN REVERSE 10..1 BY 2 LOOP CONTINUE WHEN i = 2; END LOOP; \
             FOR r IN SELECT * FROM t LOOP RAISE NOTICE '% %', r.a, n; END LOOP; \
             EXECUTE format('DROP TABLE %I', 'x'); IF NOT FOUND THEN RETURN NULL; END IF; \
             CASE n WHEN 1, 2 THEN NULL; ELSE n := 3; END CASE; RETURN NEW; EXCEPTION WHEN others THEN RAISE; END";
        check(&read_body(body).unwrap()).unwrap();
    }
}
