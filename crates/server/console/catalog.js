// The tables and columns that the server has: for completion and for the list at the side.

import { counted } from "./format.js";
import { h } from "./dom.js";
import { quoted } from "./sql.js";
import { run } from "./client.js";

const HIDDEN = new Set(["information_schema", "pg_catalog"]);
const OWN = "public";

/** Functions that complete when the server does not list its own. */
const FUNCTIONS = `abs avg ceil coalesce concat count date_part date_trunc floor greatest length lower max median min now nullif
  rank replace round row_number split_part stddev string_agg substr sum trim upper`.split(/\s+/);

export const catalog = {
  /** `{schema, name, path, kind, isOwn, columns: [{name, type}]}`, ours first. */
  relations: [],
  functions: FUNCTIONS,

  /** The relation that a statement calls so. */
  relation(name) {
    const lower = name.toLowerCase();
    return this.relations.find((relation) => [relation.name, `${relation.schema}.${relation.name}`].some((own) => own.toLowerCase() === lower)) ?? null;
  },

  /** Asks the server anew. */
  async read() {
    const columns = await run(
      "SELECT table_schema, table_name, column_name, data_type FROM information_schema.columns ORDER BY table_schema, table_name, ordinal_position",
    );
    const kinds = await run("SELECT table_schema, table_name, table_type FROM information_schema.tables");
    const kind = new Map(kinds.rows.map(([schema, name, type]) => [`${schema}.${name}`, type === "VIEW" && schema !== "system" ? "view" : "table"]));
    const relations = new Map();
    for (const [schema, name, column, type] of columns.rows) {
      if (HIDDEN.has(schema)) continue;
      const key = `${schema}.${name}`;
      if (!relations.has(key)) {
        const isOwn = schema === OWN;
        const path = isOwn ? quoted(name) : `${quoted(schema)}.${quoted(name)}`;
        relations.set(key, { schema, name, path, kind: kind.get(key) ?? "table", isOwn, columns: [] });
      }
      relations.get(key).columns.push({ name: column, type: told(type) });
    }
    this.relations = [...relations.values()].sort((left, right) => right.isOwn - left.isOwn || left.path.localeCompare(right.path));
    const functions = await run("SELECT DISTINCT routine_name FROM information_schema.routines ORDER BY 1").catch(() => null);
    if (functions?.rows.length) this.functions = functions.rows.map(([name]) => name).filter((name) => /^[a-z_]\w*$/.test(name));
  },
};

/** A type as people call it. */
function told(type) {
  const names = { Utf8: "text", Utf8View: "text", LargeUtf8: "text", Int64: "bigint", Int32: "integer", Int16: "smallint", Int8: "smallint", Float64: "double", Float32: "real", Boolean: "boolean", Date32: "date" };
  return names[type] ?? type.replace(/^Decimal\d+\((\d+), (\d+)\)$/, "decimal($1,$2)").replace(/^Timestamp.*/, "timestamp");
}

/** The list at the side. `use` gets the text to put into the editor. */
export function drawn(filter, use) {
  const wanted = filter.trim().toLowerCase();
  const fits = (name) => name.toLowerCase().includes(wanted);
  const shown = catalog.relations.filter((relation) => fits(relation.path) || (wanted && relation.columns.some((column) => fits(column.name))));
  if (!shown.length) return [h("p", { class: "quiet" }, catalog.relations.length ? "Nothing is called so." : "There are no tables yet.")];
  const groups = new Map();
  for (const relation of shown) groups.set(relation.schema, [...(groups.get(relation.schema) ?? []), relation]);
  return [...groups].map(([schema, relations]) =>
    h("section", {}, h("h3", {}, schema === OWN ? "Tables" : schema), relations.map((relation) => item(relation, wanted, fits, use))),
  );
}

function item(relation, wanted, fits, use) {
  const open = Boolean(wanted) && !fits(relation.path);
  const select = (event) => {
    event.preventDefault();
    use(`SELECT * FROM ${relation.path} LIMIT 100;`, true);
  };
  return h(
    "details",
    { class: "relation", open },
    h(
      "summary",
      { title: counted(relation.columns.length, "column") },
      h("span", { class: `kind ${relation.kind}`, "aria-hidden": "true" }),
      h("span", { class: "name" }, relation.isOwn ? relation.name : relation.name),
      h("button", { class: "peek", title: `Show the first rows of ${relation.path}`, "aria-label": `Show the first rows of ${relation.path}`, on: { click: select } }, "▸"),
    ),
    h("ul", {}, relation.columns.map((column) =>
      h("li", {}, h("button", { title: `Put ${column.name} into the statement`, on: { click: () => use(quoted(column.name), false) } }, h("span", {}, column.name), h("small", {}, column.type))),
    )),
  );
}
