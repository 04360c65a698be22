// SQL as text: words for colours, where statements begin and end, and what may come next.
//
// This only knows strings, names, comments and words; what a statement means is the server's to say.

const KEYWORDS = new Set(
  `ALL ANALYZE AND ANTI ANY AS ASC BETWEEN BY CASE CAST COLUMN COPY CREATE CROSS CUBE CURRENT DELETE DESC DESCRIBE DISTINCT
  DROP ELSE END EXCEPT EXCLUDE EXECUTE EXISTS EXPLAIN EXTERNAL EXTRACT FALSE FETCH FILTER FIRST FOLLOWING FOR FORMAT FROM FULL
  GROUP GROUPING HAVING IF IN INNER INSERT INTERSECT INTERVAL INTO IS JOIN JSON LAST LATERAL LEFT LIKE LIMIT LOCATION NATURAL
  NOT NULL NULLS OFFSET ON OR ORDER OUTER OVER PARTITION PRECEDING PREPARE QUALIFY RANGE RECURSIVE REPLACE RESET RIGHT ROLLUP
  ROW ROWS SELECT SEMI SET SETS SHOW SIMILAR SOME STORED TABLE THEN TO TRUE UNBOUNDED UNION UNNEST UPDATE USING VALUES VERBOSE
  VIEW WHEN WHERE WINDOW WITH WITHIN`.split(/\s+/),
);
/** Other words that are no names, unless they are quoted. */
const RESERVED = new Set(
  `ANALYSE ARRAY ASYMMETRIC AUTHORIZATION BIGINT BINARY BIT BOOLEAN BOTH CHAR CHARACTER CHECK COALESCE COLLATE COLLATION
  CONCURRENTLY CONSTRAINT CURRENT_CATALOG CURRENT_DATE CURRENT_ROLE CURRENT_SCHEMA CURRENT_TIME CURRENT_TIMESTAMP
  CURRENT_USER DEC DECIMAL DEFAULT DEFERRABLE DO FLOAT FOREIGN FREEZE GRANT GREATEST ILIKE INITIALLY INOUT INT INTEGER
  ISNULL LEADING LEAST LOCALTIME LOCALTIMESTAMP NATIONAL NCHAR NONE NORMALIZE NOTNULL NULLIF NUMERIC ONLY OUT OVERLAPS
  OVERLAY PIVOT PLACING POSITION PRECISION PRIMARY REAL REFERENCES RETURNING SESSION_USER SETOF SMALLINT STRUCT SUBSTRING
  SUMMARIZE SYMMETRIC TABLESAMPLE TIME TIMESTAMP TRAILING TREAT TRIM UNIQUE UNPIVOT USER VARCHAR VARIADIC XMLATTRIBUTES
  XMLCONCAT XMLELEMENT XMLEXISTS XMLFOREST XMLNAMESPACES XMLPARSE XMLPI XMLROOT XMLSERIALIZE XMLTABLE`.split(/\s+/),
);
/** Words that complete as keywords, in the order in which people need them. */
export const keywords = () => [...KEYWORDS];

const RULES = [
  ["space", /\s+/y],
  ["comment", /--[^\n]*|\/\*(?:[^*]|\*(?!\/))*(?:\*\/|$)/y],
  ["string", /'(?:[^']|'')*(?:'|$)/y],
  ["string", /\$([A-Za-z_]\w*)?\$[\s\S]*?(?:\$\1\$|$)/y],
  ["name", /"(?:[^"]|"")*(?:"|$)/y],
  ["parameter", /\$\d+/y],
  ["number", /(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?/y],
  ["word", /[\p{L}_][\p{L}\p{N}_]*/uy],
  ["sign", /[\s\S]/y],
];

/** The text in pieces: `{kind, start, end, text}`, without gaps. A kind is one of the above, or `keyword`, or `function`. */
export function tokens(text) {
  const found = [];
  for (let at = 0; at < text.length; ) {
    for (const [kind, rule] of RULES) {
      rule.lastIndex = at;
      const match = rule.exec(text);
      if (!match) continue;
      const piece = match[0];
      const token = { kind, start: at, end: at + piece.length, text: piece };
      if (kind === "word" && KEYWORDS.has(piece.toUpperCase())) token.kind = "keyword";
      found.push(token);
      at = token.end;
      break;
    }
  }
  found.forEach((token, index) => {
    if (token.kind === "word" && found[index + 1]?.text === "(") token.kind = "function";
  });
  return found;
}

/** The statements of a script: `{start, end, text}`, without the blanks around them. Empty ones are left out. */
export function statements(text) {
  const found = [];
  let start = null;
  let end = 0;
  const close = () => {
    if (start !== null) found.push({ start, end, text: text.slice(start, end) });
    start = null;
  };
  for (const token of tokens(text)) {
    if (token.text === ";") close();
    else if (token.kind !== "space" && token.kind !== "comment") {
      start ??= token.start;
      end = token.end;
    }
  }
  close();
  return found;
}

/** The statement at a place: the one around it, or else the one before it, or else the first. */
export function statementAt(text, place) {
  const all = statements(text);
  return all.findLast((statement) => statement.start <= place) ?? all[0] ?? null;
}

/** The offset of a line and column, which count characters from 1. */
export function offsetOf(text, { line, column }) {
  const lines = text.split("\n");
  const before = lines.slice(0, line - 1).reduce((length, other) => length + other.length + 1, 0);
  const characters = [...(lines[line - 1] ?? "")].slice(0, column - 1).join("");
  return Math.min(text.length, before + characters.length);
}

/** The piece of text that an error at an offset is about: the token there, or the last one if nothing is there. */
export function pieceAt(text, offset) {
  const meant = tokens(text).filter((token) => token.kind !== "space" && token.kind !== "comment");
  const token = meant.find((token) => token.start <= offset && offset < token.end) ?? meant.findLast((token) => token.end <= offset);
  return token ? { start: token.start, end: token.end } : { start: 0, end: Math.min(1, text.length) };
}

const BEFORE_RELATIONS = new Set(["FROM", "JOIN", "INTO", "TABLE", "VIEW", "DESCRIBE", "UPDATE", "COPY"]);
const SUGGESTIONS_MAX = 60;

/** Whether a text or a quoted name has its end. */
function isClosed(piece) {
  const mark = piece[0] === "$" ? /^\$\w*\$/.exec(piece)[0] : piece[0];
  return piece.length >= 2 * mark.length && piece.endsWith(mark);
}

/** The relations that a statement names, by the names that its columns may be called with. */
function named(pieces, catalog) {
  const words = pieces.filter((token) => !["space", "comment"].includes(token.kind));
  const found = new Map();
  for (let index = 0; index < words.length; index++) {
    let name = unquoted(words[index]);
    if (name === null || words[index - 1]?.text === ".") continue;
    let next = index + 1;
    while (words[next]?.text === "." && unquoted(words[next + 1]) !== null) {
      name += `.${unquoted(words[next + 1])}`;
      next += 2;
    }
    const relation = catalog.relation(name);
    if (!relation) continue;
    found.set(name.split(".").at(-1), relation);
    if (words[next]?.text.toUpperCase() === "AS") next++;
    const alias = unquoted(words[next]);
    if (alias !== null) found.set(alias, relation);
  }
  return found;
}

function unquoted(token) {
  if (token?.kind === "word") return token.text;
  return token?.kind === "name" ? token.text.slice(1, -1).replaceAll('""', '"') : null;
}

/** A name as a statement has to write it. */
export function quoted(name) {
  const isPlain = /^[a-z_][a-z0-9_]*$/.test(name) && ![KEYWORDS, RESERVED].some((words) => words.has(name.toUpperCase()));
  return isPlain ? name : `"${name.replaceAll('"', '""')}"`;
}

/**
 * What may stand at a place: `{start, end, items}`, where an item is `{text, kind, detail}` and replaces the text between. `catalog`
 * knows `relations`, `functions` and `relation(name)`. Unless `asked`, nothing is suggested where nothing was begun.
 */
export function complete(text, place, catalog, asked) {
  const all = tokens(text);
  const inside = all.find((token) => token.start < place && place <= token.end);
  const none = { start: place, end: place, items: [] };
  if (["comment", "number", "parameter"].includes(inside?.kind)) return none;
  if (["string", "name"].includes(inside?.kind) && (place < inside.end || !isClosed(inside.text))) return none;
  const isWord = inside && ["word", "keyword", "function"].includes(inside.kind);
  const typed = isWord ? text.slice(inside.start, place) : "";
  const start = isWord ? inside.start : place;
  const before = all.filter((token) => token.end <= start && token.kind !== "space" && token.kind !== "comment");
  const last = before.at(-1);
  const items = [];
  const add = (text, kind, detail, rank) => items.push({ text, kind, detail, rank });
  const statement = statementAt(text, place);
  const near = statement && place <= statement.end + 1 ? statement.text : "";
  if (last?.text === "." && last.end === start) {
    const owner = unquoted(before.at(-2));
    if (owner === null) return none;
    const relation = named(tokens(near), catalog).get(owner) ?? catalog.relation(owner);
    for (const column of relation?.columns ?? []) add(quoted(column.name), "column", column.type, 0);
    for (const relation of catalog.relations) if (relation.schema === owner) add(quoted(relation.name), "table", relation.schema, 1);
  } else if (last && BEFORE_RELATIONS.has(last.text.toUpperCase())) {
    for (const relation of catalog.relations) add(relation.path, "table", relation.kind, relation.isOwn ? 0 : 1);
    if (last.text.toUpperCase() === "FROM") add("generate_series", "function", "rows", 2);
  } else {
    if (!typed && !asked) return none;
    for (const [alias, relation] of named(tokens(near), catalog)) {
      for (const column of relation.columns) add(quoted(column.name), "column", `${alias} · ${column.type}`, 0);
      add(quoted(alias), "table", relation.name === alias ? relation.kind : relation.path, 2);
    }
    for (const word of KEYWORDS) add(/[a-z]/.test(typed) && !/[A-Z]/.test(typed) ? word.toLowerCase() : word, "keyword", "", 1);
    for (const name of catalog.functions) add(name, "function", "", 3);
    for (const relation of catalog.relations) add(relation.path, "table", relation.kind, 4);
  }
  const lower = typed.toLowerCase();
  const seen = new Set();
  const fitting = items.filter((item) => {
    const name = item.text.toLowerCase().replace(/^"/, "");
    const fits = name.startsWith(lower) && !seen.has(item.text);
    if (fits) seen.add(item.text);
    return fits;
  });
  fitting.sort((left, right) => left.rank - right.rank || left.text.localeCompare(right.text));
  if (fitting.length === 1 && fitting[0].text === typed) return none;
  return { start, end: place, items: fitting.slice(0, SUGGESTIONS_MAX) };
}
