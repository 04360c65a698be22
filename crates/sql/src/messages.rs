//! What DataFusion says, in words for whoever wrote the statement.
//!
//! Its messages name its own types and functions, list every signature that did not fit, and sometimes contain a whole
//! syntax tree. The ones that people meet are told anew here; of any other, at least the tree is cut off.

use diligence_base::Error;

/// Signatures listed in a hint at most.
const SIGNATURES_LISTED_MAX: usize = 4;

/// Messages that begin so, what they mean, and what helps.
const MEANINGS: [(&str, &str, Option<&str>); 15] = [
    ("TOP", "TOP is not supported", Some("write LIMIT at the end of the query")),
    (
        "Unnest should be rewritten",
        "unnest() cannot stand here",
        Some("it can stand in SELECT and in FROM; a subquery can filter what it gives"),
    ),
    (
        "Substring without for/from",
        "substr() needs a start",
        Some("write substr(text, start) or substr(text, start, length)"),
    ),
    ("Unsupported ast node Pivot", "PIVOT is not supported", Some("aggregates with FILTER (WHERE …) do the same")),
    (
        "Unsupported ast node Unpivot",
        "UNPIVOT is not supported",
        Some("a UNION ALL of one SELECT for each column does the same"),
    ),
    ("Unsupported ast node in sqltorel: Collate", "COLLATE is not supported", None),
    ("Unsupported JOIN operator Semi", "SEMI JOIN needs its side", Some("write LEFT SEMI JOIN, or WHERE EXISTS (…)")),
    (
        "Unsupported JOIN operator Anti",
        "ANTI JOIN needs its side",
        Some("write LEFT ANTI JOIN, or WHERE NOT EXISTS (…)"),
    ),
    ("Dot access not supported", "a field cannot be read with a dot here", Some("write (value)['field']")),
    (
        "Physical plan does not support logical expression WindowFunction",
        "a window function cannot stand here",
        Some("compute it in a subquery, and use its result around that"),
    ),
    (
        "Physical plan does not support logical expression AggregateFunction",
        "an aggregate function cannot stand here",
        Some("filter groups with HAVING, or compute it in a subquery"),
    ),
    (
        "Physical plan does not support logical expression ScalarSubquery",
        "a subquery of this form, with columns of the query around it, is not supported",
        Some("write it as a join with a grouped subquery"),
    ),
    (
        "Physical plan does not support logical expression OuterReferenceColumn",
        "a subquery of this form, with columns of the query around it, is not supported",
        Some("write it as a join with a grouped subquery"),
    ),
    (
        "Physical plan does not support logical expression Exists",
        "EXISTS is not supported here",
        Some("it can stand in WHERE; a LEFT JOIN with SELECT DISTINCT gives a column that tells"),
    ),
    (
        "Physical plan does not support logical expression InSubquery",
        "IN (SELECT …) is not supported here",
        Some("it can stand in WHERE; a LEFT JOIN with SELECT DISTINCT gives a column that tells"),
    ),
];

/// Signs of a printed syntax tree or plan.
const DUMPS: [&str; 5] = ["Span(", "span: ", "DFSchema {", "Field {", "signature: Signature"];

/// The error that a message of DataFusion's planner means; `None` if its own words will do.
pub(crate) fn told(message: &str) -> Option<Error> {
    let message = message.strip_prefix("Internal error: ").unwrap_or(message);
    if let Some((_, meaning, hint)) = MEANINGS.iter().find(|(beginning, ..)| message.starts_with(beginning)) {
        let error = Error::unsupported(*meaning);
        return Some(match hint {
            Some(hint) => error.with_hint(*hint),
            None => error,
        });
    }
    signatures(message)
        .or_else(|| candidates(message))
        .or_else(|| one_signature(message))
        .or_else(|| operands(message))
        .or_else(|| not_grouped(message))
        .or_else(|| same_name(message))
        .or_else(|| option(message))
        .or_else(|| without_dump(message))
}

/// "Function 'sum' failed to match any signature, errors: Error during planning: …,Error during planning: …".
fn signatures(message: &str) -> Option<Error> {
    let (name, errors) = quoted(message, "Function '")?;
    let errors = errors.strip_prefix(" failed to match any signature")?;
    let mut counts = after(errors, " expects ").filter_map(number).collect::<Vec<_>>();
    counts.sort_unstable();
    counts.dedup();
    if let Some(found) = after(errors, " arguments but received ").next().and_then(number) {
        let counts = counts.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ");
        return Some(Error::input(format!("{name}() takes {counts} arguments, not {found}")));
    }
    let given = after(errors, "(DataType: ").next()?;
    let given = sql_type(until_closed(given)?);
    let mut wanted = after(errors, " requires ").filter_map(|rest| rest.split(',').next()).collect::<Vec<_>>();
    wanted.dedup();
    Some(not_taken(name, &format!("a value of type {given}")).with_hint(format!("it takes {}", join_types(&wanted))))
}

/// "… No function matches the given name and argument types 'f(Utf8)'. … Candidate functions:\n\tf(Numeric(1))".
fn candidates(message: &str) -> Option<Error> {
    let (call, rest) = quoted(message, "argument types '")?;
    let (name, given) = call.split_once('(')?;
    let given = given.strip_suffix(')').unwrap_or(given);
    let given = given.split(", ").map(sql_type).collect::<Vec<_>>().join(", ");
    let mut listed = Vec::new();
    for line in rest.split("Candidate functions:").nth(1).unwrap_or("").lines() {
        let line = line.trim();
        let Some(types) = line.strip_prefix(name).and_then(|rest| rest.strip_prefix('(')) else { continue };
        let types = types.strip_suffix(')').unwrap_or(types);
        let types = types.split(", ").map(sql_type).collect::<Vec<_>>().join(", ");
        let signature = format!("{name}({types})");
        // Many differ only in how text is stored.
        if !types.contains(['(', '{']) && !listed.contains(&signature) {
            listed.push(signature);
        }
    }
    let error = not_taken(name, &format!("({given})"));
    listed.truncate(SIGNATURES_LISTED_MAX);
    Some(if listed.is_empty() { error } else { error.with_hint(format!("it is called as {}", listed.join(", "))) })
}

/// "Function 'abs' expects Numeric but received String."
fn one_signature(message: &str) -> Option<Error> {
    let (name, rest) = quoted(message, "Function '")?;
    if let Some((wanted, found)) = rest.strip_prefix(" expects ").and_then(|rest| rest.split_once(" but received ")) {
        let found = found.split(['.', ' ', ',', '\n']).next().unwrap_or(found);
        return Some(match number(wanted) {
            Some(count) => Error::input(format!("{name}() takes {count} arguments, not {found}")),
            None => not_taken(name, &format!("a value of type {}", sql_type(found)))
                .with_hint(format!("it takes {}", sql_type(wanted))),
        });
    }
    None
}

/// "Cannot coerce arithmetic expression Int64 + Utf8 to valid types".
fn operands(message: &str) -> Option<Error> {
    let rest = message.split_once("Cannot coerce arithmetic expression ")?.1;
    let operation = rest.split(" to valid types").next()?;
    let words = operation.split(' ').collect::<Vec<_>>();
    let [left, operator, right] = words.as_slice() else { return None };
    let error = format!("there is no operator {} {operator} {}", sql_type(left), sql_type(right));
    Some(Error::input(error).with_hint("CAST (… AS …) makes a value of another type"))
}

fn not_taken(name: &str, what: &str) -> Error {
    Error::input(format!("{name}() does not take {what}"))
}

/// "Column in SELECT must be in GROUP BY …: While expanding wildcard, column "c" must appear …".
fn not_grouped(message: &str) -> Option<Error> {
    let (_, rest) = message.split_once("must be in GROUP BY or an aggregate function")?;
    let column = rest.split_once("column \"")?.1.split('"').next()?;
    Some(
        Error::input(format!("the column '{column}' is neither in GROUP BY nor in an aggregate function"))
            .with_hint(format!("add it to GROUP BY, or take any of its values: any_value({column})")),
    )
}

/// "Projections require unique expression names but the expression "e" at position 0 and …".
fn same_name(message: &str) -> Option<Error> {
    let rest = message.split_once("require unique expression names but the expression \"")?.1;
    let (name, rest) = rest.split_once("\" at position ")?;
    let first = number(rest)?;
    let second = rest.split_once("\" at position ").and_then(|(_, rest)| number(rest))?;
    let error = format!("the columns {} and {} have the same name: {name}", first + 1, second + 1);
    Some(Error::input(error).with_hint("give one of them another name with AS"))
}

/// "Config value "x" not found on CsvOptions".
fn option(message: &str) -> Option<Error> {
    let rest = message.split_once("Config value \"")?.1;
    let (name, rest) = rest.split_once("\" not found on ")?;
    let of = rest.split(|c: char| !c.is_alphanumeric()).next()?;
    Some(Error::input(match of {
        "TableParquetOptions" | "ParquetOptions" | "ParquetColumnOptions" => format!("Parquet has no option '{name}'"),
        "CsvOptions" => format!("CSV has no option '{name}'"),
        "JsonOptions" => format!("JSON has no option '{name}'"),
        _ => format!("there is no option '{name}'"),
    }))
}

/// The message up to where a syntax tree begins.
fn without_dump(message: &str) -> Option<Error> {
    let dump = DUMPS.iter().filter_map(|sign| message.find(sign)).min()?;
    let end = message[..dump].find(['{', '(', '[']).unwrap_or(dump);
    let text = message[..end].trim_end_matches([' ', ':', ',']);
    let text = text.replace("ast node in sqltorel:", "").replace("ast node", "").replace("  ", " ");
    Some(Error::unsupported(if text.is_empty() { "this form is not supported".to_owned() } else { text }))
}

/// What follows each occurrence of `sign`.
fn after<'a>(text: &'a str, sign: &'a str) -> impl Iterator<Item = &'a str> {
    text.match_indices(sign).map(move |(index, sign)| &text[index + sign.len()..])
}

/// The text between `before` and the next quote, and the rest.
fn quoted<'a>(text: &'a str, before: &str) -> Option<(&'a str, &'a str)> {
    text.split_once(before)?.1.split_once('\'')
}

fn number(text: &str) -> Option<usize> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

/// The text before the parenthesis that closes what was opened before it.
fn until_closed(text: &str) -> Option<&str> {
    let mut open = 0;
    for (index, character) in text.char_indices() {
        match character {
            '(' => open += 1,
            ')' if open == 0 => return Some(&text[..index]),
            ')' => open -= 1,
            _ => {}
        }
    }
    None
}

fn join_types(types: &[&str]) -> String {
    let mut names = types.iter().map(|name| sql_type(name)).collect::<Vec<_>>();
    names.dedup();
    names.join(", ")
}

/// A type as SQL calls it, from Arrow's or DataFusion's name for it.
fn sql_type(name: &str) -> String {
    let name = name.trim();
    match name.split('(').next().unwrap_or(name) {
        "Utf8" | "Utf8View" | "LargeUtf8" | "String" => "VARCHAR",
        "Int8" => "TINYINT",
        "Int16" => "SMALLINT",
        "Int32" => "INTEGER",
        "Int64" | "Integer" => "BIGINT",
        "UInt8" => "TINYINT UNSIGNED",
        "UInt16" => "SMALLINT UNSIGNED",
        "UInt32" => "INTEGER UNSIGNED",
        "UInt64" => "BIGINT UNSIGNED",
        "Float32" => "REAL",
        "Float64" | "Float" => "DOUBLE",
        "Boolean" => "BOOLEAN",
        "Date32" | "Date64" | "Date" => "DATE",
        "Timestamp" => "TIMESTAMP",
        "Time32" | "Time64" | "Time" => "TIME",
        "Binary" | "BinaryView" | "LargeBinary" => "BYTEA",
        "Interval" => "INTERVAL",
        "Decimal" | "Decimal32" | "Decimal64" | "Decimal128" | "Decimal256" => "DECIMAL",
        "Numeric" => "a number",
        "Null" => "NULL",
        _ => return name.to_owned(),
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(message: &str) -> (String, String) {
        let error = told(message).unwrap_or_else(|| panic!("{message}"));
        (error.message().to_owned(), error.hint().unwrap_or_default().to_owned())
    }

    #[test]
    fn a_function_says_what_it_takes() {
        let (message, hint) = both(
            "Internal error: Function 'sum' failed to match any signature, errors: Error during planning: Function 'sum' \
             requires Decimal, but received String (DataType: Utf8View).,Error during planning: Function 'sum' requires \
             Int64, but received String (DataType: Utf8View).",
        );
        assert_eq!(message, "sum() does not take a value of type VARCHAR");
        assert_eq!(hint, "it takes DECIMAL, BIGINT");
        let (message, _) = both(
            "Function 'substr' failed to match any signature, errors: Error during planning: Function 'substr' expects 2 \
             arguments but received 4,Error during planning: Function 'substr' expects 3 arguments but received 4",
        );
        assert_eq!(message, "substr() takes 2 or 3 arguments, not 4");
        let (message, hint) = both(
            "Failed to coerce arguments to satisfy a call to 'string_agg' function: coercion from Utf8View to the signature \
             OneOf(…) failed. No function matches the given name and argument types 'string_agg(Utf8View)'. You might need \
             to add explicit type casts.\n\tCandidate functions:\n\tstring_agg(LargeUtf8, Utf8)\n\tstring_agg(Utf8, Utf8)",
        );
        assert_eq!(message, "string_agg() does not take (VARCHAR)");
        assert_eq!(hint, "it is called as string_agg(VARCHAR, VARCHAR)");
        let (message, _) = both("Function 'abs' expects Numeric but received String.");
        assert_eq!(message, "abs() does not take a value of type VARCHAR");
    }

    #[test]
    fn an_operator_names_its_types() {
        let (message, _) = both("Cannot coerce arithmetic expression Int64 + Utf8 to valid types");
        assert_eq!(message, "there is no operator BIGINT + VARCHAR");
    }

    #[test]
    fn syntax_trees_are_left_out() {
        let tree = "Derived { span: Span(Location(1,16)..Location(1,22)) }";
        assert_eq!(both(&format!("Unsupported ast node Pivot {{ table: {tree} }}")).0, "PIVOT is not supported");
        assert_eq!(both(&format!("Unsupported ast node Novelty {{ table: {tree} }}")).0, "Unsupported Novelty");
        assert_eq!(both(&format!("Unsupported JOIN operator Semi(On({tree}))")).0, "SEMI JOIN needs its side");
        assert!(told("division by zero").is_none());
    }

    #[test]
    fn columns_that_clash_are_told_by_their_places() {
        let (message, _) = both(
            "Projections require unique expression names but the expression \"Int64(1)\" at position 0 and \"Int64(1)\" at \
             position 1 have the same name. Consider aliasing (\"AS\") one of them",
        );
        assert_eq!(message, "the columns 1 and 2 have the same name: Int64(1)");
        let (message, _) = both(
            "Column in SELECT must be in GROUP BY or an aggregate function: While expanding wildcard, column \"n.a\" must \
             appear in the GROUP BY clause or must be part of an aggregate function",
        );
        assert_eq!(message, "the column 'n.a' is neither in GROUP BY nor in an aggregate function");
        assert_eq!(both("Config value \"nonsense\" not found on CsvOptions").0, "CSV has no option 'nonsense'");
    }
}
