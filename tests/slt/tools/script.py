"""Reading and writing sqllogictest scripts without losing a byte that is not a result.

A script is a list of parts: comments and blank lines are kept as they are, records (`statement ...`, `query ...`) are
taken apart into header, SQL and results. Nothing here knows about an engine.

While a record is being written its header may be short: `query` alone (or `query nosort`) asks `generate.py` to fill in
the column types and the results, `statement error` alone asks it to say what the error is.
"""

import re
from dataclasses import dataclass, field

SORT_MODES = ("rowsort", "nosort")


@dataclass
class Text:
    """Comments and blank lines between records, verbatim."""

    lines: list


@dataclass
class Record:
    """One `statement` or `query`, with the lines directly above it: comments, and where it is skipped."""

    kind: str  # "ok", "error" or "query"
    sql: str
    line: int  # of the header, counted from 1
    comment: list = field(default_factory=list)
    pattern: str = ""  # of an error: the regular expression after `statement error`
    types: str = ""  # of a query: one letter per column
    sort: str = ""  # of a query: rowsort, nosort, or "" when not yet decided
    rows: list = field(default_factory=list)

    @property
    def known_difference(self):
        """Why DuckDB answers differently, when the comment above the record says so."""
        text = " ".join(line.lstrip("# ") for line in self.comment)
        found = re.search(r"DuckDB differs: *(.*)", text)
        return found.group(1) if found else None

    @property
    def is_mended(self):
        """Whether DataFusion is wrong here, and the answer is DuckDB's."""
        return any("DataFusion differs" in line for line in self.comment)

    @property
    def must_say_more(self):
        """Whether the pattern of an error asks for more than DataFusion's own message tells."""
        return any("DataFusion says less" in line for line in self.comment)


class ScriptError(Exception):
    """The script itself is malformed."""


def parse(path):
    """The parts of the script at `path`, in order."""
    lines = path.read_text(encoding="utf-8").split("\n")
    if lines and lines[-1] == "":
        lines.pop()
    parts = []
    comment = []
    at = 0
    while at < len(lines):
        line = lines[at]
        if line.startswith(("#", "skipif ")):
            comment.append(line)
            at += 1
            continue
        if line.strip() == "":
            parts.append(Text(comment + [""]))
            comment = []
            at += 1
            continue
        record = _header(path, line, at + 1)
        record.comment = comment
        comment = []
        at += 1
        body = []
        while at < len(lines) and lines[at] != "" and lines[at] != "----":
            body.append(lines[at])
            at += 1
        if not body:
            raise ScriptError(f"{path}:{record.line}: a record without SQL")
        record.sql = "\n".join(body)
        if at < len(lines) and lines[at] == "----":
            if record.kind != "query":
                raise ScriptError(f"{path}:{record.line}: only a query has results")
            at += 1
            while at < len(lines) and lines[at] != "":
                record.rows.append(lines[at])
                at += 1
        if at < len(lines):  # the blank line that ends the record
            at += 1
        parts.append(record)
    if comment:
        parts.append(Text(comment))
    return parts


def _header(path, line, number):
    words = line.split()
    if words[:2] == ["statement", "ok"] and len(words) == 2:
        return Record("ok", "", number)
    if words[:2] == ["statement", "error"]:
        return Record("error", "", number, pattern=" ".join(words[2:]))
    if words[:1] == ["query"]:
        record = Record("query", "", number)
        rest = words[1:]
        if rest and rest[0] not in SORT_MODES:
            record.types = rest.pop(0)
        if rest and rest[0] in SORT_MODES:
            record.sort = rest.pop(0)
        if not rest:
            return record
    raise ScriptError(f"{path}:{number}: not a record: {line}")


def render(parts):
    """The text of a script; `parse` of it gives the same parts back."""
    out = []
    for part in parts:
        if isinstance(part, Text):
            out.extend(part.lines)
            continue
        out.extend(part.comment)
        if part.kind == "ok":
            out.append("statement ok")
        elif part.kind == "error":
            out.append(f"statement error {part.pattern}".rstrip())
        else:
            out.append(f"query {part.types} {part.sort}".rstrip())
        out.append(part.sql)
        if part.kind == "query":
            out.append("----")
            out.extend(part.rows)
        out.append("")
    while out and out[-1] == "":
        out.pop()
    return "\n".join(out) + "\n"


def records(parts):
    return [part for part in parts if isinstance(part, Record)]


def without_noise(sql):
    """SQL with string literals, quoted names and comments blanked, of the same length: safe to search for keywords."""

    def blank(match):
        return " " * len(match.group(0))

    return re.sub(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*", blank, sql)


def is_ordered(sql):
    """Whether the outermost query ends in an ORDER BY of its own."""
    text = without_noise(sql).lower()
    depth = 0
    outermost = []
    for character in text:
        if character in ")]":
            depth -= 1
        if depth == 0:
            outermost.append(character)
        if character in "([":
            depth += 1
    return re.search(r"\border\s+by\b", "".join(outermost)) is not None
