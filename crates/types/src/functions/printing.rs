//! Values printed as a pattern says: the specifiers of C's `printf`, and DuckDB's `format`, whose pattern has braces.

use std::fmt::Write;

use diligence_base::Result;

use super::errors::invalid_argument;

/// Characters that a value may be widened to.
pub(super) const WIDTH_MAX: usize = 10_000;

/// A value as a specifier of `printf` shows it, without its width. `flags` may have `+` and what stands between groups
/// of digits. Fails with 22023 for a value that is no number, and for a specifier that there is not.
pub(super) fn specified(kind: char, value: &str, precision: Option<usize>, flags: &str) -> Result<String> {
    let no_number = || invalid_argument(format!("printf: \"{value}\" is not a number"));
    let whole = || value.trim().parse::<i128>().map_err(|_| no_number());
    let float = || value.trim().parse::<f64>().map_err(|_| no_number());
    let by = flags.chars().find(|flag| matches!(flag, ',' | '\'' | '_' | '.'));
    let grouped = |digits: String| by.map_or_else(|| digits.clone(), |by| in_groups(&digits, by));
    let signed = |text: String| match flags.contains('+') && !text.starts_with('-') {
        true => format!("+{text}"),
        false => text,
    };
    Ok(match kind {
        's' => value.chars().take(precision.unwrap_or(usize::MAX)).collect(),
        'd' | 'i' | 'u' => signed(grouped(whole()?.to_string())),
        'f' | 'F' => signed(grouped(format!("{:.*}", precision.unwrap_or(6), float()?))),
        'e' | 'E' => signed(exponential(float()?, precision.unwrap_or(6), kind)),
        'g' | 'G' => signed(float()?.to_string()),
        'x' => format!("{:x}", whole()?),
        'X' => format!("{:X}", whole()?),
        'o' => format!("{:o}", whole()?),
        'b' => format!("{:b}", whole()?),
        'c' => {
            let code = whole().ok().and_then(|code| u32::try_from(code).ok()).and_then(char::from_u32);
            code.map_or_else(|| value.chars().take(1).collect(), String::from)
        }
        other => return Err(invalid_argument(format!("printf: there is no specifier %{other}"))),
    })
}

/// A number with something between each three digits in front of its point.
fn in_groups(number: &str, by: char) -> String {
    let (sign, digits) = number.split_at(usize::from(number.starts_with(['-', '+'])));
    let (digits, fraction) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    let mut out = sign.to_owned();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(by);
        }
        out.push(digit);
    }
    out + fraction
}

/// C's form: two digits of the exponent at least.
fn exponential(value: f64, precision: usize, kind: char) -> String {
    let text = format!("{value:.precision$e}");
    let Some((digits, exponent)) = text.split_once('e') else { return text };
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
    let mut out = digits.to_owned();
    let _ = write!(out, "{kind}{sign}{exponent:0>2}");
    out
}

/// A part of a pattern with braces.
#[derive(Debug, PartialEq)]
enum Piece<'p> {
    Text(&'p str),
    /// The place of a value among them, and how it is shown.
    Place(usize, Shown),
}

/// How a value is shown: `[[fill]align][+][#][0][width][between][.precision][between][type]`, with `,`, `_`, `'` or `t`
/// and a character between groups of digits.
#[derive(Debug, Default, PartialEq)]
struct Shown {
    fill: Option<char>,
    align: Option<char>,
    plus: bool,
    /// Whether a number of another base has its prefix.
    prefixed: bool,
    zeros: bool,
    width: usize,
    precision: Option<usize>,
    between: Option<char>,
    kind: Option<char>,
}

impl Shown {
    /// What stands behind the colon; `None` if it makes no sense.
    fn parse(text: &str) -> Option<Self> {
        let mut shown = Self::default();
        let is_align = |letter: &char| matches!(letter, '<' | '>' | '^');
        let mut rest = text.chars().peekable();
        if text.chars().nth(1).as_ref().is_some_and(is_align) {
            (shown.fill, shown.align) = (rest.next(), rest.next());
        } else {
            shown.align = rest.next_if(is_align);
        }
        shown.plus = rest.next_if_eq(&'+').is_some();
        shown.prefixed = rest.next_if_eq(&'#').is_some();
        shown.zeros = rest.next_if_eq(&'0').is_some();
        let number = |rest: &mut std::iter::Peekable<std::str::Chars<'_>>| {
            let digits = std::iter::from_fn(|| rest.next_if(char::is_ascii_digit)).collect::<String>();
            digits.parse::<usize>().ok().filter(|number| *number <= WIDTH_MAX)
        };
        if rest.peek().is_some_and(char::is_ascii_digit) {
            shown.width = number(&mut rest)?;
        }
        let between = |rest: &mut std::iter::Peekable<std::str::Chars<'_>>| {
            let letter = rest.next_if(|letter| matches!(letter, ',' | '_' | '\'' | 't'));
            if letter == Some('t') { rest.next() } else { letter }
        };
        shown.between = between(&mut rest);
        if rest.next_if_eq(&'.').is_some() {
            shown.precision = Some(number(&mut rest)?);
        }
        shown.between = shown.between.or_else(|| between(&mut rest));
        shown.kind = rest.next_if(|letter| "sdxXobeEfFgG".contains(*letter));
        rest.next().is_none().then_some(shown)
    }

    fn write(&self, value: &str, is_number: bool) -> Result<String> {
        let flags = if self.plus { "+" } else { "" };
        if self.kind.is_none() && self.precision.is_some() && is_number {
            return Err(invalid_argument("the digits of a number want a type, as in {:.2f}"));
        }
        let kind = self.kind.or(self.precision.map(|_| 's'));
        let mut shown = match kind {
            Some(kind) => specified(kind, value, self.precision, flags)?,
            None if self.plus && is_number && !value.starts_with('-') => format!("+{value}"),
            None => value.to_owned(),
        };
        if let Some(by) = self.between {
            shown = in_groups(&shown, by);
        }
        let prefix = match kind.filter(|_| self.prefixed) {
            Some('x') => "0x",
            Some('X') => "0X",
            Some('b') => "0b",
            Some('o') => "0",
            _ => "",
        };
        if !prefix.is_empty() {
            shown.insert_str(usize::from(shown.starts_with(['-', '+'])), prefix);
        }
        let missing = self.width.saturating_sub(shown.chars().count());
        if self.zeros && self.align.is_none() && is_number {
            let (sign, digits) = shown.split_at(usize::from(shown.starts_with(['-', '+'])));
            return Ok(format!("{sign}{}{digits}", "0".repeat(missing)));
        }
        let before = match self.align.unwrap_or(if is_number { '>' } else { '<' }) {
            '>' => missing,
            '^' => missing / 2,
            _ => 0,
        };
        let fill = |count: usize| std::iter::repeat_n(self.fill.unwrap_or(' '), count).collect::<String>();
        Ok(format!("{}{shown}{}", fill(before), fill(missing - before)))
    }
}

/// Whether a pattern has a specifier of PostgreSQL's `format`: `%s`, `%2$-10I`, `%*L` or `%%`.
fn has_specifier(pattern: &str) -> bool {
    let is_between = |letter: char| letter.is_ascii_digit() || matches!(letter, '$' | '-' | '*');
    let begins = |behind: &str| behind.trim_start_matches(is_between).starts_with(['s', 'I', 'L']);
    pattern.contains("%%") || pattern.split('%').skip(1).any(begins)
}

/// The parts of a pattern that has places in braces and no specifier of PostgreSQL's; `None` for any other.
fn pieces(pattern: &str) -> Option<Vec<Piece<'_>>> {
    if !pattern.contains('{') || has_specifier(pattern) {
        return None;
    }
    let (mut pieces, mut rest, mut next, mut places) = (Vec::new(), pattern, 0, 0);
    while let Some(at) = rest.find(['{', '}']) {
        let (text, brace) = rest.split_at(at);
        pieces.push(Piece::Text(text));
        if let Some(more) = brace.strip_prefix("{{").or_else(|| brace.strip_prefix("}}")) {
            pieces.push(Piece::Text(&brace[..1]));
            rest = more;
            continue;
        }
        let (inside, more) = brace.strip_prefix('{')?.split_once('}')?;
        let (place, shown) = inside.split_once(':').unwrap_or((inside, ""));
        let place = match place {
            "" => {
                next += 1;
                next - 1
            }
            place => place.parse().ok()?,
        };
        pieces.push(Piece::Place(place, Shown::parse(shown)?));
        places += 1;
        rest = more;
    }
    pieces.push(Piece::Text(rest));
    (places > 0).then_some(pieces)
}

/// The value of a place, and whether it is a number: `None` for NULL.
type Value<'v> = Option<(&'v str, bool)>;

/// What a pattern with places in braces makes of values: NULL if one of them is. `None` for a pattern that has none.
/// Fails with 22023 if it has more places than there are values.
pub(super) fn braced<'v>(
    pattern: &str,
    count: usize,
    value: impl Fn(usize) -> Value<'v>,
) -> Option<Result<Option<String>>> {
    let pieces = pieces(pattern)?;
    let mut out = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Place(place, _) if place >= count => {
                return Some(Err(invalid_argument("too few arguments for format()")));
            }
            Piece::Place(place, shown) => match value(place) {
                None => return Some(Ok(None)),
                Some((value, is_number)) => match shown.write(value, is_number) {
                    Ok(text) => out.push_str(&text),
                    Err(error) => return Some(Err(error)),
                },
            },
        }
    }
    Some(Ok(Some(out)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(pattern: &str, values: &[&str]) -> Option<String> {
        let value = |place: usize| Some((values[place], values[place].parse::<f64>().is_ok()));
        braced(pattern, values.len(), value).map(|printed| printed.unwrap().unwrap_or_default())
    }

    #[test]
    fn braces_have_values() {
        for (pattern, values, wanted) in [
            ("{} and {}", &["a", "b"][..], "a and b"),
            ("{0} {1} {0}", &["a", "b"], "a b a"),
            ("{{}} {}", &["1"], "{} 1"),
            ("{:05d} {:.2f} {:,}", &["42", "3.14159", "1234567"], "00042 3.14 1,234,567"),
            ("{:x} {:b} {:o} {:e}", &["255", "5", "8", "1234.5"], "ff 101 10 1.234500e+03"),
            (
                "{:>5}|{:5}|{:5}|{:<5}|{:^6}|{:*>5}",
                &["x", "42", "y", "3", "ab", "7"],
                "    x|   42|y    |3    |  ab  |****7",
            ),
            ("{:_} {:t.} {:,.2f}", &["1234567", "1234567", "1234567.891"], "1_234_567 1.234.567 1,234,567.89"),
            ("{:+d} {:.3}", &["5", "abcdef"], "+5 abc"),
            ("{:#x} {:#X} {:#b} {:#o}", &["255", "255", "5", "8"], "0xff 0XFF 0b101 010"),
            ("{}% {:.1f}% of {}", &["5", "12.34", "x"], "5% 12.3% of x"),
        ] {
            assert_eq!(printed(pattern, values).as_deref(), Some(wanted), "{pattern}");
        }
    }

    #[test]
    fn other_patterns_are_those_of_postgres() {
        for pattern in ["{} %s", "{}%%", "{} %2$-5I", "plain", "{\"a\": 1}", "{", "}", "{:q}", "{{}}"] {
            assert_eq!(printed(pattern, &["1"]), None, "{pattern}");
        }
        assert!(braced("{} {}", 1, |_| Some(("a", false))).unwrap().is_err());
        assert_eq!(braced("{}", 1, |_| None).unwrap().unwrap(), None);
    }
}
