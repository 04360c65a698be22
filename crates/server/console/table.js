// A result as a table. Only the rows that can be seen are in the page, so ten thousand are as quick as ten.

import { isNumber, text } from "./format.js";
import { h } from "./dom.js";

const ROW_HEIGHT = 28;
/** Rows drawn above and below those that are seen. */
const MARGIN = 12;
/** Rows that widths are made from. */
const MEASURED = 200;
const WIDTH_MAX = 48;
/** Characters of a value that are drawn; a click shows all. */
const SHOWN_MAX = 400;

export class Table {
  #host;
  #body;
  #result = null;
  #drawn = "";
  #details;

  /** `details` is called with a column and a value that was clicked. */
  constructor(host, details) {
    this.#host = host;
    this.#details = details;
    host.addEventListener("scroll", () => this.#draw(false), { passive: true });
    new ResizeObserver(() => this.#draw(true)).observe(host);
  }

  show(result) {
    const same = this.#result === result;
    this.#result = result;
    if (same) return this.#draw(true);
    const { columns, rows } = result;
    const digits = Math.max(2, String(rows.length).length);
    const widths = columns.map((column, index) => {
      const longest = rows.slice(0, MEASURED).reduce((most, row) => Math.max(most, width(row[index])), 0);
      return Math.min(WIDTH_MAX, Math.max(longest, column.name.length, column.type.length * 0.9, 4));
    });
    this.#body = h("tbody", {});
    const table = h(
      "table",
      { "aria-rowcount": rows.length + 1 },
      h("colgroup", {}, h("col", { style: { width: `calc(${digits}ch + 22px)` } }), widths.map((wide) => h("col", { style: { width: `calc(${wide}ch + 26px)` } })), h("col", {})),
      h("thead", {}, h("tr", {}, h("th", { class: "number", "aria-label": "Row" }), columns.map((column) =>
        h("th", { scope: "col", class: isNumber(column) ? "right" : null, title: `${column.name} ${column.type}` }, column.name, h("small", {}, column.type))), h("th", { class: "rest", "aria-hidden": "true" }))),
      this.#body,
    );
    table.style.setProperty("width", `calc(${widths.reduce((sum, wide) => sum + wide, digits)}ch + ${22 + 26 * columns.length}px)`);
    this.#body.addEventListener("click", (event) => {
      const cell = event.target.closest("td[data-column]");
      if (!cell || getSelection().toString()) return;
      const [row, column] = [Number(cell.parentElement.dataset.row), Number(cell.dataset.column)];
      this.#details(columns[column], this.#result.rows[row][column]);
    });
    this.#host.replaceChildren(table);
    this.#host.scrollTo(0, 0);
    this.#draw(true);
  }

  clear() {
    this.#result = null;
    this.#host.replaceChildren();
  }

  #draw(anew) {
    if (!this.#result || !this.#body) return;
    const { columns, rows } = this.#result;
    const first = Math.max(0, Math.floor(this.#host.scrollTop / ROW_HEIGHT) - MARGIN);
    const last = Math.min(rows.length, Math.ceil((this.#host.scrollTop + this.#host.clientHeight) / ROW_HEIGHT) + MARGIN);
    const drawn = `${first}-${last}`;
    if (!anew && drawn === this.#drawn) return;
    this.#drawn = drawn;
    const space = (count) => h("tr", { class: "space", "aria-hidden": "true" }, h("td", { colspan: columns.length + 2, style: { height: `${count * ROW_HEIGHT}px` } }));
    const shown = [];
    if (first > 0) shown.push(space(first));
    for (let row = first; row < last; row++) {
      const cells = columns.map((column, index) => cell(column, rows[row][index], index));
      shown.push(h("tr", { "data-row": row, "aria-rowindex": row + 2, class: row % 2 ? "odd" : null }, h("td", { class: "number" }, String(row + 1)), cells, h("td", { "aria-hidden": "true" })));
    }
    if (last < rows.length) shown.push(space(rows.length - last));
    this.#body.replaceChildren(...shown);
  }
}

function cell(column, value, index) {
  if (value === null) return h("td", { class: `null${isNumber(column) ? " right" : ""}`, "data-column": index }, "NULL");
  const whole = text(value);
  const kind = isNumber(column) ? "right" : typeof value === "boolean" ? "flag" : null;
  return h("td", { class: kind, "data-column": index }, whole.length > SHOWN_MAX ? `${whole.slice(0, SHOWN_MAX)}…` : whole);
}

function width(value) {
  if (value === null) return 4;
  const whole = text(value);
  return Math.min(WIDTH_MAX, /^[\x20-\x7e]*$/.test(whole) ? whole.length : [...whole].reduce((sum, letter) => sum + (letter > "\u2e7f" ? 2 : 1), 0));
}

/** The rows as text that spreadsheets read: tabs between values, a line each. */
export function tabbed({ columns, rows }) {
  const plain = (value) => (value === null ? "" : text(value).replace(/[\t\r\n]+/g, " "));
  return [columns.map((column) => column.name), ...rows].map((row) => row.map(plain).join("\t")).join("\n");
}

/** The rows as CSV. NULL is empty, an empty text is "". */
export function csv({ columns, rows }) {
  const field = (value) => {
    if (value === null) return "";
    const whole = text(value);
    return whole === "" || /[",\r\n]/.test(whole) ? `"${whole.replaceAll('"', '""')}"` : whole;
  };
  return [columns.map((column) => column.name), ...rows].map((row) => `${row.map(field).join(",")}\r\n`).join("");
}
