//! `WINDOW w AS (…)`: what a name stands for is put in its place.
//!
//! DataFusion does that for `OVER w` in the SELECT list; it forgets `w` in `OVER (w ORDER BY x)`, in ORDER BY and in
//! QUALIFY.

use datafusion::sql::sqlparser::ast::{Ident, NamedWindowDefinition, NamedWindowExpr, Select, WindowSpec, WindowType};
use diligence_base::{Error, Result, Span};

use crate::errors;

/// The named windows of one SELECT.
#[derive(Default)]
pub(super) struct Definitions(Vec<NamedWindowDefinition>);

impl Definitions {
    pub(super) fn of(select: &Select) -> Self {
        Self(select.named_window.clone())
    }

    /// Puts a window's definition in the place of its name. A name that is not defined stays where it stands alone: the
    /// planner complains about it.
    pub(super) fn put_into(&self, over: &mut WindowType) -> Result<()> {
        match over {
            WindowType::NamedWindow(name) => {
                if let Some(found) = self.resolve(name, self.0.len())? {
                    *over = WindowType::WindowSpec(found);
                }
            }
            WindowType::WindowSpec(spec) => *spec = self.refined(spec.clone(), self.0.len())?,
        }
        Ok(())
    }

    /// The full definition of a name among the first `before` ones: a definition sees those in front of it.
    fn resolve(&self, name: &Ident, before: usize) -> Result<Option<WindowSpec>> {
        let same = |definition: &NamedWindowDefinition| normalized(&definition.0) == normalized(name);
        let Some(index) = self.0[..before].iter().position(same) else { return Ok(None) };
        match &self.0[index].1 {
            NamedWindowExpr::NamedWindow(other) => match self.resolve(other, index)? {
                Some(found) => Ok(Some(found)),
                None => Err(unknown(other)),
            },
            NamedWindowExpr::WindowSpec(spec) => self.refined(spec.clone(), index).map(Some),
        }
    }

    /// A window that may build upon a named one, in full.
    fn refined(&self, mut spec: WindowSpec, before: usize) -> Result<WindowSpec> {
        let Some(name) = spec.window_name.take() else { return Ok(spec) };
        let base = self.resolve(&name, before)?.ok_or_else(|| unknown(&name))?;
        if !spec.partition_by.is_empty() {
            return Err(fixed(&name, "PARTITION BY"));
        }
        if !spec.order_by.is_empty() && !base.order_by.is_empty() {
            return Err(fixed(&name, "ORDER BY"));
        }
        let order_by = if spec.order_by.is_empty() { base.order_by } else { spec.order_by };
        Ok(WindowSpec {
            window_name: None,
            partition_by: base.partition_by,
            order_by,
            window_frame: spec.window_frame.or(base.window_frame),
        })
    }
}

fn normalized(name: &Ident) -> String {
    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() }
}

fn unknown(name: &Ident) -> Error {
    let error = Error::input(format!("no window is named '{}'", name.value));
    at(name, error.with_hint("name it before it is used: WINDOW name AS (…)"))
}

fn fixed(name: &Ident, clause: &str) -> Error {
    let error = Error::input(format!("the window '{}' has its {clause} from its definition", name.value));
    at(name, error.with_hint("write the whole window in OVER (…) instead of its name"))
}

fn at(name: &Ident, error: Error) -> Error {
    let start = name.span.start;
    errors::at(error, (start.line > 0).then_some(Span { line: start.line, column: start.column }))
}

#[cfg(test)]
mod tests {
    use crate::parse::parse_one;

    /// The statement as it is planned.
    fn rewritten(sql: &str) -> String {
        parse_one(sql, "generic").map_or_else(|error| error.message().to_owned(), |parsed| parsed.statement.to_string())
    }

    #[test]
    fn a_window_that_builds_upon_another_has_all_its_clauses() {
        for (over, expected) in [
            ("w", "(PARTITION BY a ORDER BY b)"),
            ("(w)", "(PARTITION BY a ORDER BY b)"),
            ("(w ROWS 1 PRECEDING)", "(PARTITION BY a ORDER BY b ROWS 1 PRECEDING)"),
            ("(p ORDER BY c)", "(PARTITION BY a ORDER BY c)"),
            ("same", "(PARTITION BY a ORDER BY b)"),
            ("(PARTITION BY c)", "(PARTITION BY c)"),
        ] {
            let sql = format!(
                "SELECT sum(x) OVER {over} FROM t WINDOW p AS (PARTITION BY a), W AS (p ORDER BY b), same AS w ORDER BY 1"
            );
            let seen = rewritten(&sql);
            assert!(seen.starts_with(&format!("SELECT sum(x) OVER {expected} FROM")), "{over}: {seen}");
        }
    }

    #[test]
    fn what_a_definition_says_is_not_said_again() {
        let over = |over: &str| {
            rewritten(&format!("SELECT sum(x) OVER {over} FROM t WINDOW w AS (PARTITION BY a ORDER BY b)"))
        };
        assert!(over("(w PARTITION BY c)").contains("has its PARTITION BY"));
        assert!(over("(w ORDER BY c)").contains("has its ORDER BY"));
        assert!(over("(v ORDER BY c)").contains("no window is named 'v'"));
    }

    #[test]
    fn a_subquery_does_not_see_the_windows_around_it() {
        let sql = "SELECT (SELECT sum(x) OVER w FROM u), sum(x) OVER w FROM t WINDOW w AS (ORDER BY b) ORDER BY max(x) OVER w";
        let seen = rewritten(sql);
        assert!(seen.starts_with("SELECT (SELECT sum(x) OVER w FROM u), sum(x) OVER (ORDER BY b) FROM t"), "{seen}");
        assert!(seen.ends_with("ORDER BY max(x) OVER (ORDER BY b)"), "{seen}");
    }
}
