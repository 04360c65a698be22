// The page: what is connected to what.

import { Board, pulse } from "./board.js";
import { Chart } from "./chart.js";
import { QueryError, queries, run, status } from "./client.js";
import { Editor } from "./editor.js";
import { Inspector } from "./inspect.js";
import { Table, csv, tabbed } from "./table.js";
import { ago, count, counted, duration, text } from "./format.js";
import { byId, h, tabs } from "./dom.js";
import { catalog, drawn as drawnCatalog } from "./catalog.js";
import { drawn as drawnPlan } from "./plan.js";
import { entries, forget, keep, kept, remember } from "./history.js";
import { offsetOf, pieceAt, statementAt, statements } from "./sql.js";

/** Rows that are read; the query is cancelled then, and the page says so. */
const ROWS_MAX = 10_000;
/** How often the board looks, and how often while nobody looks at it, in milliseconds. */
const LOOK_EVERY = 1000;
const GLANCE_EVERY = 4000;
/** SQLSTATE of a statement that somebody has ended. */
const CANCELLED = "57014";
const EXPLAIN = "EXPLAIN (ANALYZE, FORMAT JSON)\n";
const FIRST_TEXT = "-- Ctrl+Enter runs the statement at the cursor\nSELECT * FROM system.settings LIMIT 20;\n";

const editor = new Editor(byId("editor"), { catalog, changed: edited });
const table = new Table(byId("table"), showValue);
const chart = new Chart(byId("chart"));
const board = new Board((statement) => {
  chooseView("query");
  editor.append(statement);
});
const inspector = new Inspector((statement) => {
  chooseView("query");
  editor.append(statement);
}, showValue);
const chooseView = tabs(byId("views"), (view) => {
  keep("diligence.view", view);
  if (view === "inspect") inspector.open();
  else inspector.leave();
  look();
});
const chooseSide = tabs(byId("sideTabs"), (side) => side === "history" && drawHistory());
const chooseResult = tabs(byId("resultTabs"), drawResult);

/** The statement that runs: `{abort, began, at, sql, progress}`. */
let active = null;
let shown = null;
let plan = null;

// ---- running ----

/** The text that is to run: what is selected, or the statement at the cursor. */
function wanted() {
  const { start, end } = editor.selection;
  if (start !== end && editor.text.slice(start, end).trim()) {
    const first = statements(editor.text.slice(start, end))[0];
    return first && { start: start + first.start, text: first.text };
  }
  return statementAt(editor.text, start);
}

async function start(explain) {
  if (active) return;
  const statement = wanted();
  if (!statement) return editor.focus();
  clearMessage();
  editor.clearError();
  const abort = new AbortController();
  const head = explain && !/^explain\b/i.test(statement.text) ? EXPLAIN : "";
  active = { abort, began: performance.now(), at: Date.now(), sql: head + statement.text };
  const before = byId("summary").textContent;
  byId("summary").textContent = "";
  byId("cancel").hidden = false;
  byId("run").disabled = byId("explain").disabled = true;
  const clock = setInterval(tick, 100);
  const watch = setInterval(follow, 500);
  const begun = active;
  let failed = null;
  let rows = null;
  try {
    const result = await run(begun.sql, { signal: abort.signal, rowsMax: ROWS_MAX, arrived: throttled((result) => preview(result, begun)) });
    rows = planOf(result) ? null : (result.rows?.length ?? result.rows ?? null);
    finish(result, begun, explain);
  } catch (error) {
    const cancelled = abort.signal.aborted || error.code === CANCELLED;
    failed = cancelled ? "cancelled" : error.message;
    fail(error, statement, head, cancelled);
    // What was shown before is still there.
    if (cancelled) byId("summary").textContent = before;
  }
  clearInterval(clock);
  clearInterval(watch);
  active = null;
  byId("cancel").hidden = byId("running").hidden = true;
  byId("run").disabled = byId("explain").disabled = false;
  remember({ sql: statement.text, at: begun.at, ms: Math.round(performance.now() - begun.began), rows, failed });
  if (!byId("history").hidden) drawHistory();
  if (!failed && /^\s*(create|drop|copy|alter|insert)\b/i.test(statement.text)) readCatalog();
  look();
}

/** Calls at most five times a second. */
function throttled(work) {
  let last = -Infinity;
  return (value) => {
    if (performance.now() - last < 200) return;
    last = performance.now();
    work(value);
  };
}

/** Rows that are there while others are on their way. */
function preview(result, begun) {
  if (!result.rows.length || begun.sql.startsWith(EXPLAIN) || begun.abort.signal.aborted) return;
  byId("summary").textContent = `${counted(result.rows.length, "row")} so far`;
  if (begun.previewed) return;
  begun.previewed = true;
  table.show({ ...result, rows: result.rows.slice(0, 100) });
}

function finish(result, begun, explain) {
  const took = duration((performance.now() - begun.began) * 1000);
  plan = null;
  if (result.notices.length) say("quiet lines", result.notices.map(({ severity, message }) => `${severity.toLowerCase()}: ${message}`).join("\n"));
  const document = planOf(result);
  if (document) {
    plan = document.text ? h("pre", { class: "planText", tabindex: 0 }, document.text) : drawnPlan(document.json);
    shown = null;
    byId("summary").textContent = document.json?.query ? `ran in ${duration(document.json.query.elapsed_us)}` : `planned in ${took}`;
    chooseResult("plan");
  } else if (result.command) {
    shown = null;
    byId("summary").textContent = `${result.command}${result.rows === null ? "" : ` ${count(result.rows)}`} in ${took}`;
    chooseResult("table");
  } else {
    shown = result;
    const number = result.more ? `the first ${count(result.rows.length)} rows; there are more` : counted(result.rows.length, "row");
    byId("summary").textContent = `${number} in ${took}`;
    chooseResult(!byId("chart").hidden && Chart.fits(result) ? "chart" : "table");
  }
}

/** A result that is a plan: drawn if it is JSON, as lines otherwise. */
function planOf({ columns, rows, command }) {
  if (command || columns.length !== 1 || columns[0].name !== "plan" || !rows.length) return null;
  if (rows.length === 1 && rows[0][0].startsWith("{")) {
    try {
      return { json: JSON.parse(rows[0][0]) };
    } catch {
      return null;
    }
  }
  return { text: rows.map(([line]) => line).join("\n") };
}

function drawResult(panel) {
  const rows = shown?.rows.length ? shown : null;
  byId("copy").hidden = byId("save").hidden = !rows || panel === "plan";
  byId("tab-chart").disabled = !shown || !Chart.fits(shown);
  byId("tab-plan").disabled = !plan;
  if (panel === "table") shown ? table.show(shown) : table.clear();
  if (panel === "chart" && shown && Chart.fits(shown)) chart.show(shown);
  if (panel === "plan") byId("plan").replaceChildren(...(plan ? [plan].flat() : [h("p", { class: "quiet empty" }, "Explain draws a statement’s plan here.")]));
}

function fail(error, statement, head, cancelled) {
  if (cancelled) return say("quiet", "Cancelled.");
  const told = error instanceof QueryError ? error : new QueryError(String(error));
  let where = null;
  if (told.place) {
    // The place is in what was sent: the statement, below one line that asks for its plan.
    const place = { ...told.place, line: told.place.line - (head ? 1 : 0) };
    const offset = offsetOf(statement.text, place);
    const piece = pieceAt(statement.text, offset);
    editor.markError({ start: statement.start + piece.start, end: statement.start + piece.end });
    const lines = editor.text.slice(0, statement.start + offset).split("\n");
    where = `line ${lines.length}, column ${lines.at(-1).length + 1}`;
    editor.focus();
  }
  byId("summary").textContent = "";
  shown = plan = null;
  chooseResult("table");
  say("error", told.message, told.hint, [where, told.code && `SQLSTATE ${told.code}`].filter(Boolean).join(" · "));
}

function say(kind, message, hint, small) {
  const box = byId("message");
  box.className = `message ${kind}`;
  box.replaceChildren(h("p", {}, message), hint ? h("p", { class: "hint" }, hint) : "", small ? h("small", {}, small) : "");
  box.hidden = false;
}

function clearMessage() {
  byId("message").hidden = true;
}

/** The clock of what runs. What is quick shows none. */
function tick() {
  const us = (performance.now() - active.began) * 1000;
  if (us < 400_000) return;
  byId("running").hidden = false;
  const part = active.progress;
  const meter = byId("running").querySelector(".meter");
  meter.classList.toggle("moving", part === undefined);
  meter.firstElementChild.style.setProperty("width", part === undefined ? "30%" : `${part * 100}%`);
  byId("runningText").textContent = duration(us) + (part === undefined ? "" : ` · ${Math.round(part * 100)} % read`);
}

/** How far the statement is. */
async function follow() {
  const own = active;
  const all = await queries().catch(() => []);
  if (own !== active) return;
  const query = all.findLast((query) => query.state === "running" && own.sql.startsWith(query.statement.slice(0, 200)));
  if (!query) return;
  own.progress = query.clusters_total ? query.clusters_done / query.clusters_total : undefined;
}

/** Ends what runs: the server cancels a query whose client leaves. */
function stop() {
  active?.abort.abort();
}

// ---- the side ----

async function readCatalog() {
  try {
    await catalog.read();
  } catch (error) {
    return byId("relations").replaceChildren(h("p", { class: "quiet" }, `The tables cannot be read: ${error.message}.`));
  }
  drawCatalog();
}

function drawCatalog() {
  byId("relations").replaceChildren(
    ...drawnCatalog(byId("filter").value, (text, whole) => {
      closeSide();
      if (!whole) return editor.insert(text);
      editor.append(text);
      start(false);
    }),
  );
}

function drawHistory() {
  const all = entries();
  const items = all.map((entry) =>
    h("li", { class: entry.failed ? "failed" : null },
      h("button", { title: entry.sql, on: { click: () => (closeSide(), editor.append(entry.sql.endsWith(";") ? entry.sql : `${entry.sql};`)) } },
        h("code", {}, entry.sql.replace(/\s+/g, " ").slice(0, 160)),
        h("small", {}, [ago(entry.at), entry.failed ? (entry.failed === "cancelled" ? "cancelled" : "failed") : entry.rows === null ? null : counted(entry.rows, "row"), duration(entry.ms * 1000)].filter(Boolean).join(" · ")))),
  );
  byId("entries").replaceChildren(
    all.length ? h("ol", { class: "history" }, items) : h("p", { class: "quiet" }, "What you run is kept here, in this browser."),
    all.length ? h("button", { class: "text forget", on: { click: () => (forget(), drawHistory()) } }, "Forget all") : "",
  );
}

function closeSide() {
  byId("side").classList.remove("open");
}

// ---- what is around it ----

function edited() {
  keep("diligence.text", editor.text);
  clearMessage();
  scope();
}

/** Says which statement would run, if there are several. */
function scope() {
  const all = statements(editor.text);
  const at = all.findIndex((statement) => statement.start === statementAt(editor.text, editor.selection.start)?.start);
  byId("scope").textContent = all.length > 1 ? `statement ${at + 1} of ${all.length}` : "";
}

let looking = null;
async function look() {
  clearTimeout(looking);
  const seen = byId("board").hidden ? GLANCE_EVERY : LOOK_EVERY;
  if (document.visibilityState === "visible") {
    try {
      const [now, all] = await Promise.all([status(), queries()]);
      board.take(now, all);
      byId("pulse").replaceChildren(...pulse(now, all));
      byId("pulse").classList.remove("lost");
    } catch {
      byId("pulse").replaceChildren(h("span", { class: "dot" }), "the server does not answer");
      byId("pulse").classList.add("lost");
    }
  }
  clearTimeout(looking);
  looking = setTimeout(look, seen);
}

function showValue(column, value) {
  byId("valueName").textContent = column.name;
  byId("valueText").textContent = value === null ? "NULL" : typeof value === "object" ? JSON.stringify(value, null, 2) : text(value);
  byId("value").showModal();
}

const THEMES = ["auto", "light", "dark"];
function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  byId("theme").title = { auto: "As the system: dark or light", light: "Light", dark: "Dark" }[theme];
  keep("diligence.theme", theme);
}

function save() {
  const link = h("a", { download: "result.csv", href: URL.createObjectURL(new Blob([csv(shown)], { type: "text/csv" })) });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

async function copy() {
  const was = byId("copy").textContent;
  byId("copy").textContent = await navigator.clipboard.writeText(tabbed(shown)).then(() => "Copied", () => "Not allowed");
  setTimeout(() => (byId("copy").textContent = was), 1500);
}

/** The editor's height, in pixels. */
function setHeight(height) {
  const most = byId("query").clientHeight - 160;
  const chosen = Math.max(120, Math.min(most, height));
  byId("editor").style.setProperty("height", `${chosen}px`);
  byId("splitter").setAttribute("aria-valuenow", String(Math.round(chosen)));
  return chosen;
}

const splitter = byId("splitter");
splitter.addEventListener("pointerdown", (event) => {
  splitter.setPointerCapture(event.pointerId);
  const top = byId("editor").getBoundingClientRect().top;
  const move = (event) => keep("diligence.height", setHeight(event.clientY - top));
  splitter.addEventListener("pointermove", move);
  splitter.addEventListener("pointerup", () => splitter.removeEventListener("pointermove", move), { once: true });
});
splitter.addEventListener("keydown", (event) => {
  const step = { ArrowUp: -24, ArrowDown: 24 }[event.key];
  if (!step) return;
  event.preventDefault();
  keep("diligence.height", setHeight(byId("editor").clientHeight + step));
});

document.addEventListener("keydown", (event) => {
  const isChord = event.ctrlKey || event.metaKey;
  if (isChord && event.key === "Enter" && !byId("query").hidden) {
    event.preventDefault();
    start(event.shiftKey);
  } else if (event.key === "Escape" && !document.querySelector("dialog[open]")) {
    if (byId("side").classList.contains("open")) closeSide();
    else if (!byId("inspect").hidden) inspector.close();
    else stop();
  } else if (event.altKey && ["1", "2", "3"].includes(event.key)) {
    event.preventDefault();
    chooseView(["query", "board", "inspect"][event.key - 1]);
  }
});
byId("run").addEventListener("click", () => start(false));
byId("explain").addEventListener("click", () => start(true));
byId("cancel").addEventListener("click", stop);
byId("copy").addEventListener("click", copy);
byId("save").addEventListener("click", save);
byId("reload").addEventListener("click", readCatalog);
byId("filter").addEventListener("input", drawCatalog);
byId("help").addEventListener("click", () => byId("keys").showModal());
byId("theme").addEventListener("click", () => setTheme(THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % THEMES.length]));
byId("showSide").addEventListener("click", () => (byId("side").classList.add("open"), byId("filter").focus()));
byId("closeSide").addEventListener("click", closeSide);
document.addEventListener("selectionchange", () => document.activeElement === byId("sql") && scope());
document.addEventListener("visibilitychange", look);

setTheme(kept("diligence.theme", "auto"));
const height = kept("diligence.height", null);
if (height) setHeight(height);
editor.text = kept("diligence.text", FIRST_TEXT);
scope();
chooseSide("tables");
chooseResult("table");
chooseView(kept("diligence.view", "query"));
if (!byId("query").hidden) editor.focus();
readCatalog();
