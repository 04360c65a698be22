//! Statements of files of cases, one JSON object a line: `setup` and `query`, or `postgres_sql`.

use std::path::Path;

use diligence_base::{Error, Result};
use serde_json::Value as Json;

use crate::findings::Findings;
use crate::order::RowOrder;
use crate::sides::Sides;

/// Judges the cases of a file. Those that have no statement of PostgreSQL's are left out.
///
/// Fails with kind `Input` if the file cannot be read, and with kind `Resource` if a server is lost and does not come
/// back.
pub fn run(sides: &mut Sides, findings: &mut Findings, path: &Path, progress: &mut dyn FnMut(&str)) -> Result<()> {
    let failed = |message: String| Error::input(format!("{}: {message}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    for line in text.lines() {
        let case: Json = serde_json::from_str(line).map_err(|error| failed(error.to_string()))?;
        let text = |key: &str| case[key].as_str();
        let name = text("id").or(text("name")).unwrap_or_default();
        progress(name);
        let mut made: Vec<String> = match &case["setup"] {
            Json::Array(setup) => setup.iter().filter_map(Json::as_str).map(str::to_owned).collect(),
            _ => Vec::new(),
        };
        let query = match (text("query"), text("postgres_sql")) {
            (Some(query), _) => query.to_owned(),
            (None, Some(script)) => {
                // The last statement is the query; what is before it makes what it reads.
                let statements = script.split(";").map(str::trim).filter(|statement| !statement.is_empty());
                made.extend(statements.map(str::to_owned));
                made.pop().unwrap_or_default()
            }
            (None, None) => {
                findings.leave_out();
                continue;
            }
        };
        for statement in &made {
            findings.prepare(sides, statement, name)?;
        }
        findings.judge(sides, &query, &RowOrder::of(&query), name)?;
        made.push(query);
        sides.clean(&made)?;
    }
    Ok(())
}
