//! The text of a path as PostgreSQL shows it: names in quotes, and parentheses where the operators need them.

use super::read::{Node, Path, PathStep, Sign};
use crate::text::json::{Json, write};

/// How tightly what is not an operator holds together.
const TIGHT: u8 = 6;

/// The text of a path.
pub(super) fn shown(path: &Path) -> String {
    let mut out = String::from(if path.is_strict { "strict " } else { "" });
    show(&mut out, &path.node, true);
    out
}

/// How tightly an operator holds its operands together: `||` the least.
fn priority(node: &Node) -> u8 {
    match node {
        Node::Or(..) => 0,
        Node::And(..) => 1,
        Node::Compare(..) | Node::StartsWith(..) | Node::LikeRegex(..) => 2,
        Node::Arithmetic('+' | '-', ..) => 3,
        Node::Arithmetic(..) => 4,
        Node::Signed(..) => 5,
        _ => TIGHT,
    }
}

/// An operand: in parentheses unless it holds together more tightly than the operator around it.
fn operand(out: &mut String, node: &Node, around: u8) {
    show(out, node, priority(node) <= around);
}

fn binary(out: &mut String, (left, sign, right): (&Node, &str, &Node), around: u8) {
    operand(out, left, around);
    out.push(' ');
    out.push_str(sign);
    out.push(' ');
    operand(out, right, around);
}

fn within(out: &mut String, before: &str, node: &Node, behind: &str) {
    out.push_str(before);
    show(out, node, false);
    out.push_str(behind);
}

fn text(out: &mut String, text: &str) {
    write(out, &Json::Text(text.to_owned()));
}

fn show(out: &mut String, node: &Node, in_parentheses: bool) {
    let around = priority(node);
    let in_parentheses = in_parentheses && around < TIGHT;
    if in_parentheses {
        out.push('(');
    }
    match node {
        Node::Root => out.push('$'),
        Node::Current => out.push('@'),
        Node::Last => out.push_str("last"),
        Node::Variable(name) => {
            out.push('$');
            text(out, name);
        }
        Node::Value(value) => write(out, value),
        Node::Steps(from, steps) => {
            show(out, from, true);
            steps.iter().for_each(|step| show_step(out, step));
        }
        Node::Signed(is_negative, inner) => {
            out.push(if *is_negative { '-' } else { '+' });
            operand(out, inner, around);
        }
        Node::Arithmetic(sign, left, right) => binary(out, (left, sign.encode_utf8(&mut [0; 4]), right), around),
        Node::Not(inner) => within(out, "!(", inner, ")"),
        Node::And(left, right) => binary(out, (left, "&&", right), around),
        Node::Or(left, right) => binary(out, (left, "||", right), around),
        Node::Compare(left, sign, right) => binary(out, (left, compared(*sign), right), around),
        Node::StartsWith(left, right) => binary(out, (left, "starts with", right), around),
        Node::Exists(inner) => within(out, "exists (", inner, ")"),
        Node::IsUnknown(inner) => within(out, "(", inner, ") is unknown"),
        Node::LikeRegex(inner, like) => {
            operand(out, inner, around);
            out.push_str(" like_regex ");
            text(out, &like.pattern);
            out.push_str(&flags(&like.flags));
        }
    }
    if in_parentheses {
        out.push(')');
    }
}

/// ` flag "…"`, each flag once and in PostgreSQL's order.
fn flags(given: &str) -> String {
    let flags = ['i', 's', 'm', 'x', 'q'].into_iter().filter(|flag| given.contains(*flag)).collect::<String>();
    if flags.is_empty() { flags } else { format!(" flag \"{flags}\"") }
}

fn compared(sign: Sign) -> &'static str {
    match sign {
        Sign::Equal => "==",
        Sign::NotEqual => "!=",
        Sign::Less => "<",
        Sign::LessOrEqual => "<=",
        Sign::Greater => ">",
        Sign::GreaterOrEqual => ">=",
    }
}

fn show_step(out: &mut String, step: &PathStep) {
    match step {
        PathStep::Member(name) => {
            out.push('.');
            text(out, name);
        }
        PathStep::Members => out.push_str(".*"),
        PathStep::Elements => out.push_str("[*]"),
        PathStep::Places(places) => {
            out.push('[');
            for (index, (from, to)) in places.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                show(out, from, false);
                if let Some(to) = to {
                    within(out, " to ", to, "");
                }
            }
            out.push(']');
        }
        PathStep::Levels(from, to) => {
            let level = |level: &Option<u32>| level.map_or_else(|| "last".to_owned(), |level| level.to_string());
            out.push_str(&match (from, to) {
                (Some(0), None) => ".**".to_owned(),
                _ if from == to => format!(".**{{{}}}", level(from)),
                _ => format!(".**{{{} to {}}}", level(from), level(to)),
            });
        }
        PathStep::Filter(test) => within(out, "?(", test, ")"),
        PathStep::Method(name) => {
            out.push('.');
            out.push_str(name);
            out.push_str("()");
        }
        PathStep::Datetime(template) => {
            out.push_str(".datetime(");
            text(out, template);
            out.push(')');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::read::read_path;
    use super::shown;

    #[test]
    fn what_is_no_path_is_an_error() {
        for (path, code) in [
            ("", "22P02"),
            ("$.", "42601"),
            ("$ ? (@.a)", "42601"),
            ("$ ? ((@ == 1) == true)", "42601"),
            ("$[1 == 1]", "42601"),
            ("1 + (2 == 2)", "42601"),
            ("exists ($) && $", "42601"),
            ("!($)", "42601"),
            ("$ ? (@ like_regex \"a\" flag \"x\")", "0A000"),
            ("$ ? (@ like_regex \"(\")", "2201B"),
        ] {
            assert_eq!(read_path(path).unwrap_err().code(), Some(code), "{path}");
        }
    }

    /// Each path as PostgreSQL 15 shows it.
    #[test]
    fn paths_are_shown_as_postgresql_shows_them() {
        for (path, expected) in [
            ("$.a", "$.\"a\""),
            (" strict $ . a [ * ] ", "strict $.\"a\"[*]"),
            ("lax $.a[0, 2 to last - 1].*", "$.\"a\"[0,2 to last - 1].*"),
            ("$.a ? (@.b == 1 && @.c > 2 || @ < 3)", "$.\"a\"?(@.\"b\" == 1 && @.\"c\" > 2 || @ < 3)"),
            ("$ ? ((@ > 1 || @ < 0) && @ <> 5)", "$?((@ > 1 || @ < 0) && @ != 5)"),
            ("1 + 2 * -$.x", "(1 + 2 * -$.\"x\")"),
            ("1 - 2 - 3", "((1 - 2) - 3)"),
            ("-(1 + 2)", "(-(1 + 2))"),
            ("-1", "-1"),
            ("($.a + 1).abs()", "($.\"a\" + 1).abs()"),
            ("$.**{2 to last}.a.**.b.**{3}", "$.**{2 to last}.\"a\".**.\"b\".**{3}"),
            ("$ ? (@ like_regex \"^a\\\\d\" flag \"mi\")", "$?(@ like_regex \"^a\\\\d\" flag \"im\")"),
            ("$ ? (!(@ starts with \"a\") && exists (@.b))", "$?(!(@ starts with \"a\") && exists (@.\"b\"))"),
            ("$ ? ((@ > $v) is unknown)", "$?((@ > $\"v\") is unknown)"),
            ("$.t.datetime(\"HH24:MI\").size()", "$.\"t\".datetime(\"HH24:MI\").size()"),
            ("$.a == null", "($.\"a\" == null)"),
        ] {
            assert_eq!(shown(&read_path(path).unwrap()), expected, "{path}");
        }
    }
}
