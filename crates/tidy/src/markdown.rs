//! Markdown to lines, headings, links and code spans: what the checks of documents look at.
//!
//! Not here: nesting, emphasis, HTML. A block of code between fences is one piece and has no spans or links.

use std::collections::BTreeMap;

/// A Markdown file.
pub struct Document<'a> {
    /// Its lines, in order.
    pub lines: Vec<Line<'a>>,
}

/// A line with its kind.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// Its number, from 1.
    pub number: usize,
    /// Its text.
    pub text: &'a str,
    /// Its kind.
    pub kind: LineKind<'a>,
}

/// The kind of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKind<'a> {
    /// Prose: a paragraph, a list, an empty line.
    Prose,
    /// `## Title`.
    Heading,
    /// A row of a table.
    Row,
    /// A line of code between fences, with the language of its block.
    Code(&'a str),
    /// The beginning or the end of a block of code.
    Fence,
}

/// A piece of a document with the line that it begins in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The line, from 1.
    pub line: usize,
    /// The text.
    pub text: String,
}

impl<'a> Document<'a> {
    /// Reads a file.
    pub fn of(text: &'a str) -> Document<'a> {
        let mut block = None;
        let lines = text.lines().enumerate().map(|(at, text)| {
            let start = text.trim_start();
            let kind = match (start.strip_prefix("```"), block) {
                (Some(_), Some(_)) => {
                    block = None;
                    LineKind::Fence
                }
                (Some(language), None) => {
                    block = Some(language.trim());
                    LineKind::Fence
                }
                (None, Some(language)) => LineKind::Code(language),
                (None, None) if start.starts_with('|') => LineKind::Row,
                (None, None) if text.starts_with('#') => LineKind::Heading,
                (None, None) => LineKind::Prose,
            };
            Line { number: at + 1, text, kind }
        });
        Document { lines: lines.collect() }
    }

    /// Paragraphs and rows: lines of prose that follow one another are one piece, because spans and links may continue
    /// on the next line.
    fn paragraphs(&self) -> Vec<Piece> {
        let mut paragraphs: Vec<Piece> = Vec::new();
        let mut is_open = false;
        for line in &self.lines {
            match line.kind {
                LineKind::Prose if line.text.trim().is_empty() => is_open = false,
                LineKind::Prose if is_open => {
                    if let Some(last) = paragraphs.last_mut() {
                        last.text.push('\n');
                        last.text += line.text;
                    }
                }
                LineKind::Prose | LineKind::Heading | LineKind::Row => {
                    paragraphs.push(Piece { line: line.number, text: line.text.to_string() });
                    is_open = line.kind == LineKind::Prose;
                }
                LineKind::Code(_) | LineKind::Fence => is_open = false,
            }
        }
        paragraphs
    }

    /// Code spans: the texts between backticks.
    pub fn spans(&self) -> Vec<Piece> {
        self.paragraphs().iter().flat_map(|paragraph| cut(paragraph).0).collect()
    }

    /// The targets of links and images: `[text](target)`.
    pub fn links(&self) -> Vec<Piece> {
        let mut links = Vec::new();
        for paragraph in self.paragraphs() {
            let (_, prose) = cut(&paragraph);
            for (at, _) in prose.match_indices("](") {
                if let Some((target, _)) = prose[at + 2..].split_once(')') {
                    let line = paragraph.line + prose[..at].matches('\n').count();
                    links.push(Piece { line, text: target.trim().to_string() });
                }
            }
        }
        links
    }

    /// The anchors of its headings, as GitHub makes them.
    pub fn anchors(&self) -> Vec<String> {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        let headings = self.lines.iter().filter(|line| line.kind == LineKind::Heading);
        let anchors = headings.map(|line| {
            let anchor = anchor(line.text.trim_start_matches('#').trim());
            let count = counts.entry(anchor.clone()).or_default();
            *count += 1;
            if *count == 1 { anchor } else { format!("{anchor}-{}", *count - 1) }
        });
        anchors.collect()
    }

    /// The commands in blocks of shell code: lines that end with a backslash are joined with the next.
    pub fn commands(&self) -> Vec<Piece> {
        let mut commands: Vec<Piece> = Vec::new();
        let mut continues = false;
        for line in &self.lines {
            if line.kind != LineKind::Code("sh") {
                continues = false;
                continue;
            }
            let text = line.text.trim();
            let part = text.strip_suffix('\\').unwrap_or(text);
            match commands.last_mut() {
                Some(last) if continues => last.text += &format!(" {part}"),
                _ => commands.push(Piece { line: line.number, text: part.to_string() }),
            }
            continues = text.ends_with('\\');
        }
        commands
    }
}

/// The code spans of a paragraph, and its text with blanks in their place.
fn cut(paragraph: &Piece) -> (Vec<Piece>, String) {
    let (mut spans, mut prose) = (Vec::new(), String::new());
    for (at, part) in paragraph.text.split('`').enumerate() {
        if at % 2 == 0 {
            prose += part;
            continue;
        }
        let line = paragraph.line + prose.matches('\n').count();
        spans.push(Piece { line, text: part.split_whitespace().collect::<Vec<_>>().join(" ") });
        prose.extend(part.chars().map(|c| if c == '\n' { c } else { ' ' }));
    }
    (spans, prose)
}

fn anchor(title: &str) -> String {
    let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# A `b` c\n\nSee `one` and `two\nwords` [here](a.md#x).\n\n| `row` | [b](c) |\n\n```sh\n\
                        x --y \\\n  --z\n# `no`\n```\n\n## A b, c\n## A b c\n";

    fn texts(pieces: Vec<Piece>) -> Vec<(usize, String)> {
        pieces.into_iter().map(|piece| (piece.line, piece.text)).collect()
    }

    #[test]
    fn spans_and_links_have_their_lines() {
        let document = Document::of(TEXT);
        let expected = [(1, "b"), (3, "one"), (3, "two words"), (6, "row")];
        assert_eq!(texts(document.spans()), expected.map(|(line, text)| (line, text.to_string())));
        let expected = [(4, "a.md#x"), (6, "c")];
        assert_eq!(texts(document.links()), expected.map(|(line, text)| (line, text.to_string())));
    }

    #[test]
    fn anchors_are_those_of_github() {
        assert_eq!(Document::of(TEXT).anchors(), ["a-b-c", "a-b-c-1", "a-b-c-2"]);
        assert_eq!(anchor("PostgreSQL's protocol"), "postgresqls-protocol");
    }

    #[test]
    fn commands_continue_after_a_backslash() {
        let expected = [(9, "x --y  --z"), (11, "# `no`")];
        assert_eq!(texts(Document::of(TEXT).commands()), expected.map(|(line, text)| (line, text.to_string())));
    }
}
