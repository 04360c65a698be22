// The tables and views of the database: which there are, and what one of them is.
//
// Everything is asked in SQL, under the rights of whoever looks: what they may not read is not listed, and where they may not
// read a system table, its numbers are missing.

import { Table } from "./table.js";
import { byId, h } from "./dom.js";
import { bytes, count, counted } from "./format.js";
import { quoted } from "./sql.js";
import { run } from "./client.js";

/** Tables of a page. */
const PAGE = 50;
/** Columns, indexes, constraints or fragments that are drawn of one table. */
const PARTS_MAX = 500;
/** First rows that are shown, and those that the statement in the editor asks for. */
const ROWS_SHOWN = 20;
const ROWS_ASKED = 100;
/** How long typing rests before the list is asked for, in milliseconds. */
const REST = 200;

const KINDS = { r: "table", p: "table", v: "view", m: "materialized view", f: "external table" };
const CONSTRAINTS = { p: "primary key", u: "unique", f: "foreign key", c: "check", x: "exclusion" };

/** Columns of the list: what they are called, and what puts the list into their order. */
const COLUMNS = [
  { name: "Name", order: "schema, name", direction: "ascending" },
  { name: "Rows", order: "rows DESC NULLS LAST, schema, name", title: "Rows that are there" },
  { name: "In memory", order: "memory_bytes DESC NULLS LAST, schema, name", title: "Bytes of rows in memory" },
  { name: "On disk", order: "disk_bytes DESC NULLS LAST, schema, name", title: "Bytes of segments" },
  { name: "Segments", order: "segments DESC NULLS LAST, schema, name", title: "Files with rows" },
  { name: "Deleted rows", order: "rows_gone DESC NULLS LAST, schema, name", title: "Rows in segments that are marked as gone" },
  { name: "Indexes", order: "indexes DESC NULLS LAST, schema, name", title: "Keys and indexes, with their bytes in memory and in files" },
];

/** What the lookers may read, with its numbers as far as they may read these. */
function listing(may) {
  const numbers = may.tables
    ? "t.rows, t.bytes_in_memory AS memory_bytes, t.segments, t.rows_gone"
    : "NULL::bigint AS rows, NULL::bigint AS memory_bytes, NULL::bigint AS segments, NULL::bigint AS rows_gone";
  const disk = may.tables && may.fragments ? "f.all_bytes - t.bytes_in_memory" : "NULL::bigint";
  const indexes = may.indexes ? "i.indexes, i.index_bytes" : "NULL::bigint AS indexes, NULL::bigint AS index_bytes";
  const joined = [
    may.tables && "LEFT JOIN system.tables t ON t.schema = n.nspname AND t.name = c.relname",
    may.tables && may.fragments && `LEFT JOIN (SELECT schema, "table", sum(bytes)::bigint AS all_bytes FROM system.fragments GROUP BY 1, 2) f
       ON f.schema = n.nspname AND f."table" = c.relname`,
    may.indexes && `LEFT JOIN (SELECT schema, "table", count(*) AS indexes, sum(bytes + file_bytes)::bigint AS index_bytes FROM system.indexes GROUP BY 1, 2) i
       ON i.schema = n.nspname AND i."table" = c.relname`,
  ];
  // Tables of files are not in system.tables.
  const kind = may.tables ? "CASE WHEN c.relkind = 'r' AND t.name IS NULL THEN 'f' ELSE c.relkind::text END" : "c.relkind::text";
  // Tables that may be read as a whole are in information_schema, which is faster than to ask for each of them.
  const mayAs = (privilege) => `CASE WHEN x.table_name IS NOT NULL THEN true
    ELSE has_schema_privilege(n.oid, 'USAGE') AND ${privilege}(c.oid, 'SELECT') END`;
  return `SELECT n.nspname AS schema, c.relname AS name, ${kind} AS kind, c.oid::bigint AS oid, ${numbers}, ${disk} AS disk_bytes, ${indexes},
      ${mayAs("has_table_privilege")} AS whole
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    LEFT JOIN information_schema.tables x ON x.table_schema = n.nspname AND x.table_name = c.relname
    ${joined.filter(Boolean).join("\n")}
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname NOT IN ('information_schema', 'system') AND left(n.nspname, 3) <> 'pg_'
      AND ${mayAs("has_any_column_privilege")}`;
}

/** The rows of an answer as objects. */
async function asked(sql, parameters, signal) {
  const { columns, rows } = await run(sql, { parameters, signal });
  return rows.map((row) => Object.fromEntries(row.map((value, index) => [columns[index].name, value])));
}

/** Which system tables may be read. */
async function readable(signal) {
  const names = ["tables", "fragments", "indexes"];
  const [may] = await asked(`SELECT ${names.map((name) => `has_table_privilege('system.${name}', 'SELECT') AS ${name}`).join(", ")}`, [], signal);
  return may;
}

export class Inspector {
  #use;
  #details;
  #order = 0;
  #page = 0;
  #all = 0;
  /** What is looked at: `{schema, name}`; null for the list. */
  #chosen = null;
  #asking = new AbortController();
  #rest = null;

  /** `use` puts a statement into the editor; `details` shows a column's value that was clicked. */
  constructor(use, details) {
    this.#use = use;
    this.#details = details;
    byId("inspectFilter").addEventListener("input", () => {
      clearTimeout(this.#rest);
      this.#rest = setTimeout(() => this.#turn(0), REST);
    });
    byId("inspectReload").addEventListener("click", () => this.open());
    byId("inspectBefore").addEventListener("click", () => this.#turn(this.#page - 1));
    byId("inspectAfter").addEventListener("click", () => this.#turn(this.#page + 1));
    byId("inspectBack").addEventListener("click", () => this.close());
    byId("inspectHead").replaceChildren(...COLUMNS.map((column, index) => this.#head(column, index)));
  }

  /** Asks anew for what is looked at. */
  async open() {
    this.#asking.abort();
    this.#asking = new AbortController();
    const { signal } = this.#asking;
    try {
      const may = await readable(signal);
      await (this.#chosen ? this.#showOne(may, signal) : this.#showAll(may, signal));
    } catch (error) {
      if (!signal.aborted) this.#fail(error);
    }
  }

  /** Goes back to the list, if one table is looked at. */
  async close() {
    if (!this.#chosen) return;
    const { schema, name } = this.#chosen;
    this.#chosen = null;
    byId("inspectOne").hidden = true;
    byId("inspectAll").hidden = false;
    await this.open();
    const buttons = [...byId("inspectRows").querySelectorAll("button")];
    (buttons.find((button) => button.dataset.schema === schema && button.dataset.name === name) ?? byId("inspectFilter")).focus();
  }

  /** Ends what is asked for: nobody looks any more. */
  leave() {
    clearTimeout(this.#rest);
    this.#asking.abort();
  }

  #fail(error) {
    const message = h("p", { class: "message error", role: "alert" }, h("span", {}, error.message), error.hint ? h("span", { class: "hint" }, ` ${error.hint}`) : "");
    if (this.#chosen) byId("inspectParts").replaceChildren(message);
    else byId("inspectRows").replaceChildren(h("tr", {}, h("td", { colspan: COLUMNS.length }, message)));
  }

  // ---- the list ----

  #head(column, index) {
    const sort = () => {
      this.#order = index;
      this.#turn(0);
    };
    return h("th", { scope: "col", class: index ? "right" : null, title: column.title }, h("button", { class: "text sort", on: { click: sort } }, column.name));
  }

  #turn(page) {
    this.#page = Math.max(0, page);
    return this.open();
  }

  async #showAll(may, signal) {
    const wanted = byId("inspectFilter").value.trim();
    const of = (page) =>
      asked(
        `SELECT *, count(*) OVER () AS found FROM (${listing(may)}) listed
         WHERE $1 = '' OR strpos(lower(schema || '.' || name), lower($1)) > 0
         ORDER BY ${COLUMNS[this.#order].order} LIMIT ${PAGE} OFFSET ${page * PAGE}`,
        [wanted],
        signal,
      );
    let rows = await of(this.#page);
    // Tables may be gone since.
    if (!rows.length && this.#page > 0) rows = await of((this.#page = 0));
    // Another answer is on its way.
    if (signal.aborted) return;
    this.#all = Number(rows[0]?.found ?? 0);
    this.#drawAll(rows, wanted);
  }

  #drawAll(rows, wanted) {
    const first = this.#page * PAGE;
    const isMore = first + rows.length < this.#all;
    const none = wanted ? "Nothing is called so." : "There are no tables yet, or none that you may read.";
    byId("inspectCount").textContent = rows.length < this.#all ? `${count(first + 1)}–${count(first + rows.length)} of ${count(this.#all)}` : rows.length ? count(rows.length) : none;
    [...byId("inspectHead").children].forEach((head, index) => {
      if (index === this.#order) head.setAttribute("aria-sort", COLUMNS[index].direction ?? "descending");
      else head.removeAttribute("aria-sort");
    });
    byId("inspectRows").replaceChildren(...(rows.length ? rows.map((row) => this.#row(row)) : [h("tr", {}, h("td", { colspan: COLUMNS.length, class: "quiet" }, none))]));
    byId("inspectPages").hidden = this.#page === 0 && !isMore;
    byId("inspectBefore").disabled = this.#page === 0;
    byId("inspectAfter").disabled = !isMore;
  }

  #row(row) {
    const choose = () => this.#choose(row);
    const cell = (value) => h("td", { class: "right" }, value);
    return h(
      "tr",
      {},
      h("th", { scope: "row", class: "inspectName" },
        h("span", { class: `kind${row.kind === "v" || row.kind === "m" ? " view" : ""}`, "aria-hidden": "true" }),
        h("button", { class: "text", "data-schema": row.schema, "data-name": row.name, title: `${told(row)}, ${KINDS[row.kind] ?? row.kind}`, on: { click: choose } }, told(row)),
        row.kind === "r" ? null : h("small", {}, KINDS[row.kind] ?? row.kind)),
      cell(number(row.rows)),
      cell(size(row.memory_bytes)),
      cell(size(row.disk_bytes)),
      cell(number(row.segments)),
      cell(number(row.rows_gone)),
      cell(row.indexes ? `${count(row.indexes)} · ${bytes(row.index_bytes)}` : number(row.indexes)),
    );
  }

  #choose({ schema, name }) {
    this.#chosen = { schema, name };
    byId("inspectAll").hidden = true;
    byId("inspectOne").hidden = false;
    byId("inspectName").textContent = told(this.#chosen);
    byId("inspectFacts").replaceChildren();
    byId("inspectParts").replaceChildren(h("p", { class: "quiet" }, "…"));
    byId("inspectName").focus();
    return this.open();
  }

  // ---- one of them ----

  async #showOne(may, signal) {
    const { schema, name } = this.#chosen;
    const [one] = await asked(`SELECT * FROM (${listing(may)}) listed WHERE schema = $1 AND name = $2`, [schema, name], signal);
    if (signal.aborted) return;
    if (!one) throw new Error(`${told(this.#chosen)} is gone, or you may not read it.`);
    byId("inspectFacts").replaceChildren(...facts(one));
    const parts = await Promise.all(PARTS.map((part) => part(one, may, signal).catch((error) => failed(error, signal))));
    if (signal.aborted) return;
    const columns = parts[0].columns ?? [];
    byId("inspectParts").replaceChildren(...parts.flatMap((part) => part.drawn ?? []), this.#firstRows(one, columns, signal));
  }

  /** The first rows, and a way to the editor. Those of a view may take long: they are read when somebody asks. */
  #firstRows(one, columns, signal) {
    const names = one.whole ? "*" : columns.map(quoted).join(", ");
    const statement = `SELECT ${names} FROM ${quoted(one.schema)}.${quoted(one.name)} LIMIT`;
    const host = h("div", { class: "tableScroll firstRows", tabindex: 0, role: "region", "aria-label": `First rows of ${told(one)}`, hidden: true });
    const said = h("p", { class: "quiet", role: "status" });
    const table = new Table(host, this.#details);
    const read = async () => {
      said.textContent = "…";
      try {
        const result = await run(`${statement} ${ROWS_SHOWN}`, { signal });
        host.hidden = !result.rows.length;
        said.textContent = result.rows.length ? "" : "There are no rows.";
        if (result.rows.length) table.show(result);
      } catch (error) {
        if (!signal.aborted) said.textContent = error.message;
      }
    };
    const peek = h("button", { class: "text", on: { click: () => (peek.remove(), read()) } }, "Read the first rows");
    const use = h("button", { class: "text", on: { click: () => this.#use(`${statement} ${ROWS_ASKED};`) } }, "SELECT in the editor");
    if (one.kind !== "v") read();
    return h("section", {}, h("header", {}, h("h3", {}, "First rows"), one.kind === "v" ? peek : null, use), said, host);
  }
}

/** A name for people. */
const told = ({ schema, name }) => (schema === "public" ? name : `${schema}.${name}`);
const number = (value) => (value === null || value === undefined ? "–" : count(value));
const size = (value) => (value === null || value === undefined ? "–" : bytes(value));
const yes = (value) => (value ? "yes" : "");

function failed(error, signal) {
  return { drawn: signal.aborted ? null : h("p", { class: "message error" }, error.message) };
}

/** The numbers of a table. */
function facts(one) {
  const fact = (name, value) => h("div", {}, h("dt", {}, name), h("dd", {}, value));
  const kind = fact("What it is", KINDS[one.kind] ?? one.kind);
  if (one.rows === null) return [kind];
  return [
    kind,
    fact("Rows", number(one.rows)),
    fact("In memory", size(one.memory_bytes)),
    fact("On disk", size(one.disk_bytes)),
    fact("Segments", number(one.segments)),
    fact("Deleted rows", number(one.rows_gone)),
    fact("Indexes", one.indexes ? `${count(one.indexes)} · ${bytes(one.index_bytes)}` : number(one.indexes)),
  ];
}

/** A part of a table as a table; nothing if it has no rows. `heads` are names, those of numbers with `>` in front. */
function section(title, heads, rows) {
  if (!rows.length) return null;
  const isRight = heads.map((head) => head.startsWith(">"));
  const drawn = rows.slice(0, PARTS_MAX).map((row) =>
    h("tr", {}, row.map((value, index) => (index ? h("td", { class: isRight[index] ? "right" : "words" }, value) : h("th", { scope: "row", class: isRight[index] ? "right" : "words" }, value)))));
  return h(
    "section",
    {},
    h("h3", {}, title, h("small", {}, ` ${rows.length > PARTS_MAX ? `the first ${count(PARTS_MAX)}` : count(rows.length)}`)),
    h("div", { class: "across", tabindex: 0, role: "region", "aria-label": title }, h("table", { class: "plain" },
      h("thead", {}, h("tr", {}, heads.map((head, index) => h("th", { scope: "col", class: isRight[index] ? "right" : null }, head.replace(">", ""))))),
      h("tbody", {}, drawn))),
  );
}

async function columns(one, _may, signal) {
  const rows = await asked(
    `SELECT a.attname::text AS name, format_type(a.atttypid, a.atttypmod) AS type, a.attnotnull AS filled, pg_get_expr(d.adbin, d.adrelid) AS value,
       a.attidentity::text AS identity, a.attgenerated::text AS generated, col_description(a.attrelid, a.attnum) AS comment
     FROM pg_catalog.pg_attribute a LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
     WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped AND has_column_privilege(a.attrelid, a.attnum, 'SELECT')
     ORDER BY a.attnum LIMIT ${PARTS_MAX + 1}`,
    [one.oid],
    signal,
  );
  const value = (row) => {
    if (row.identity) return `GENERATED ${row.identity === "a" ? "ALWAYS" : "BY DEFAULT"} AS IDENTITY`;
    return row.generated ? `GENERATED ALWAYS AS (${row.value})` : (row.value ?? "");
  };
  const drawn = section("Columns", ["Column", "Type", "NOT NULL", "Default", "Comment"], rows.map((row) => [row.name, row.type, yes(row.filled), value(row), row.comment ?? ""]));
  return { columns: rows.map((row) => row.name), drawn };
}

async function definition(one, _may, signal) {
  if (one.kind !== "v" && one.kind !== "m") return {};
  const [{ text }] = await asked("SELECT pg_get_viewdef($1) AS text", [one.oid], signal);
  return { drawn: text && h("section", {}, h("h3", {}, "Definition"), h("pre", { class: "planText", tabindex: 0, role: "region", "aria-label": "Definition" }, text)) };
}

async function indexes(one, may, signal) {
  const rows = await asked(
    `SELECT k.relname::text AS name, pg_get_indexdef(x.indexrelid) AS text, ${may.indexes ? "s.entries, s.bytes, s.file_bytes, s.scans, s.rows_found" : "NULL AS entries, NULL AS bytes, NULL AS file_bytes, NULL AS scans, NULL AS rows_found"}
     FROM pg_catalog.pg_index x JOIN pg_catalog.pg_class k ON k.oid = x.indexrelid
     ${may.indexes ? 'LEFT JOIN system.indexes s ON s.name = k.relname AND s.schema = $2 AND s."table" = $3' : ""}
     WHERE x.indrelid = $1${may.indexes ? "" : " AND $2 <> '' AND $3 <> ''"} ORDER BY 1 LIMIT ${PARTS_MAX + 1}`,
    [one.oid, one.schema, one.name],
    signal,
  );
  const heads = ["Index", "Definition", ">Entries", ">In memory", ">In files", ">Scans", ">Rows found"];
  const drawn = rows.map((row) => [row.name, row.text ?? "", number(row.entries), size(row.bytes), size(row.file_bytes), number(row.scans), number(row.rows_found)]);
  return { drawn: section("Keys and indexes", heads, drawn) };
}

async function constraints(one, _may, signal) {
  const rows = await asked(
    `SELECT conname::text AS name, contype::text AS kind, pg_get_constraintdef(oid) AS text FROM pg_catalog.pg_constraint
     WHERE conrelid = $1 AND contype <> 'n' ORDER BY contype <> 'p', contype, conname LIMIT ${PARTS_MAX + 1}`,
    [one.oid],
    signal,
  );
  return { drawn: section("Constraints", ["Constraint", "Kind", "Definition"], rows.map((row) => [row.name, CONSTRAINTS[row.kind] ?? row.kind, row.text ?? ""])) };
}

/** Foreign keys of tables that may be read. */
async function references(one, _may, signal) {
  const rows = await asked(
    `SELECT n.nspname::text AS schema, c.relname::text AS name, k.conname::text AS foreign_key, pg_get_constraintdef(k.oid) AS text
     FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_class c ON c.oid = k.conrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
     WHERE k.confrelid = $1 AND k.contype = 'f' AND has_schema_privilege(n.oid, 'USAGE') AND has_any_column_privilege(c.oid, 'SELECT')
     ORDER BY 1, 2, 3 LIMIT ${PARTS_MAX + 1}`,
    [one.oid],
    signal,
  );
  return { drawn: section("Referenced by", ["Table", "Constraint", "Definition"], rows.map((row) => [told(row), row.foreign_key, row.text ?? ""])) };
}

async function fragments(one, may, signal) {
  if (!may.fragments) return {};
  const rows = await asked(
    `SELECT fragment, strategy, "columns", bounds, clustered_by, rows, segments, bytes FROM system.fragments WHERE schema = $1 AND "table" = $2
     ORDER BY fragment LIMIT ${PARTS_MAX + 1}`,
    [one.schema, one.name],
    signal,
  );
  const strategy = (row) => [row.strategy, row.columns && `(${row.columns})`].filter(Boolean).join(" ");
  const heads = ["Fragment", "Strategy", "Bounds", "Clustered by", ">Rows", ">Segments", ">Bytes"];
  const drawn = rows.map((row) => [number(row.fragment), strategy(row), row.bounds ?? "", row.clustered_by ?? "", number(row.rows), number(row.segments), size(row.bytes)]);
  return { drawn: section("Fragments", heads, drawn) };
}

/** What is drawn of a table, in order; the columns are first. */
const PARTS = [columns, definition, indexes, constraints, references, fragments];
