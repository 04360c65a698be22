// The board: what the server does at this moment. Stages with their queues, workers, memory, and queries with a way to end them.

import { bytes, count, counted, duration, short } from "./format.js";
import { byId, h, svg } from "./dom.js";
import { cancel } from "./client.js";

/** The time that a curve shows, in milliseconds. */
const CURVE_TIME = 60_000;
/** A look that comes sooner after the one before takes its place: rates of shorter times say nothing. */
const APART_MIN = 500;
/** Queries that have ended and are still listed. */
const ENDED_SHOWN = 12;

const WHAT = {
  parse: "makes syntax trees",
  optimize: "plans",
  cheap: "lets cheap queries run",
  heavy: "lets heavy queries run",
  execute: "starts queries, writes rows",
  write: "waits for changes",
  disconnect: "frees what was held",
};

export class Board {
  #looks = [];
  #use;

  /** `use` puts a statement into the editor. */
  constructor(use) {
    this.#use = use;
  }

  /** Takes a look at the server, and shows it. */
  take(status, queries) {
    const at = performance.now();
    if (this.#looks.length > 1 && at - this.#looks.at(-1).at < APART_MIN) this.#looks.pop();
    this.#looks.push({ at, status });
    while (this.#looks[0].at < at - CURVE_TIME) this.#looks.shift();
    if (byId("board").hidden) return;
    this.#drawFront(status);
    this.#drawStages(status);
    this.#drawMachine(status);
    this.#drawQueries(queries);
  }

  /** How much a counter has grown per second, look by look; a look too soon after the first says nothing. */
  #rates(counter) {
    const rates = [];
    for (let index = 1; index < this.#looks.length; index++) {
      const [before, after] = [this.#looks[index - 1], this.#looks[index]];
      if (after.at - before.at < APART_MIN) continue;
      const [from, to] = [counter(before.status), counter(after.status)];
      rates.push(from === undefined || to === undefined ? 0 : Math.max(0, ((to - from) * 1000) / (after.at - before.at)));
    }
    return rates;
  }

  #drawFront(status) {
    const { admission } = status;
    const stages = status.front.map((stage) => ({ ...stage }));
    const lanes = ["cheap", "heavy"];
    const gates = lanes.map((name) => ({ ...admission[name], name, queued: admission[name].waiting, waiting: 0, done_total: admission[name].admitted_total }));
    stages.splice(2, 0, ...gates);
    const of = (name) => (look) => (lanes.includes(name) ? look.admission[name].admitted_total : look.front.find((stage) => stage.name === name)?.done_total);
    const cards = stages.map((stage) => {
      const rates = this.#rates(of(stage.name));
      return h(
        "li",
        { class: `stage${stage.running ? " busy" : ""}${stage.queued >= stage.queue_max ? " full" : ""}` },
        h("header", {}, h("h3", {}, stage.name), h("small", {}, WHAT[stage.name] ?? "")),
        slots(stage.running, stage.running_max),
        gauge("queue", stage.queued, stage.queue_max),
        stage.waiting ? h("p", { class: "held" }, `${counted(stage.waiting, "asker")} held back`) : null,
        curve(rates, this.#looks.slice(-rates.length).map((look) => this.#looks.at(-1).at - look.at)),
        h("footer", {}, h("span", {}, h("b", {}, short(rates.at(-1) ?? 0)), " /s"), h("span", { title: "average wait in its queue" }, `waits ${average(stage.wait_us_total, stage.done_total)}`)),
        stage.refused_total ? h("p", { class: "held" }, `${count(stage.refused_total)} refused so far`) : null,
      );
    });
    byId("front").replaceChildren(...cards);
  }

  #drawStages(status) {
    const share = new Map(status.stages.map((stage) => [stage.name, this.#rates((look) => look.stages.find((other) => other.name === stage.name)?.service_us_total)]));
    // What was never used only takes room.
    const used = status.stages.filter((stage) => stage.turns_total + stage.queued + stage.running > 0);
    const rows = used.map((stage) => {
      const busy = (share.get(stage.name).at(-1) ?? 0) / 1e6;
      const part = Math.min(1, busy / Math.max(1, status.workers.filter((worker) => !worker.is_express).length));
      return h(
        "tr",
        { class: stage.running ? "busy" : null },
        h("th", { scope: "row" }, stage.name),
        h("td", { class: "right" }, count(stage.running)),
        h("td", { class: "right" }, count(stage.queued)),
        h("td", { class: "right wide" }, short(stage.turns_total)),
        h("td", { class: "right wide" }, average(stage.wait_us_total, stage.turns_total)),
        h("td", { class: "load" }, h("i", { style: { width: `${part * 100}%` } }), h("span", {}, `${Math.round(part * 100)} %`)),
      );
    });
    byId("stages").replaceChildren(...(rows.length ? rows : [h("tr", {}, h("td", { colspan: 6, class: "quiet" }, "Nothing has run yet."))]));
  }

  #drawMachine(status) {
    const workers = status.workers.map((worker) => {
      const busy = Math.min(1, (this.#rates((look) => look.workers.find((other) => other.id === worker.id)?.busy_us_total).at(-1) ?? 0) / 1e6);
      const title = `${worker.is_express ? "express worker" : `worker ${worker.id}`}: ${worker.stage ? `in stage ${worker.stage}, query ${worker.query}` : "at rest"}, ${Math.round(busy * 100)} % busy`;
      return h("li", { title, class: worker.stage ? "busy" : null }, h("i", { style: { height: `${Math.max(2, busy * 100)}%` } }), h("span", {}, worker.stage ?? (worker.is_express ? "express" : "–")));
    });
    byId("workers").replaceChildren(...workers);
    const { memory, sessions, plan_cache: cache, temp } = status;
    const asked = cache.hits_total + cache.misses_total;
    const fact = (name, value, more, part) =>
      h("div", {}, h("dt", {}, name), h("dd", {}, value, h("small", {}, more), part === undefined ? null : h("span", { class: "meter" }, h("i", { style: { width: `${Math.min(100, part * 100)}%` } }))));
    byId("machine").replaceChildren(
      fact("Memory", bytes(memory.reserved_bytes), ` of ${bytes(memory.budget_bytes)}`, memory.reserved_bytes / memory.budget_bytes),
      fact("Temp space", bytes(temp.used_bytes), ` ${bytes(temp.written_bytes_total)} written so far`),
      fact("Sessions", count(sessions.open), ` ${count(sessions.opened_total)} so far${sessions.refused_total ? `, ${count(sessions.refused_total)} refused` : ""}`),
      ...(status.latches ? [fact("Latches", `${duration(this.#rates((look) => look.latches?.wait_us_total).at(-1) ?? 0)}/s`, ` waited${status.latches.contended_total ? `, for ${status.latches.waited_for_longest} most` : ""}`)] : []),
      ...(status.tuning ? [fact("Tuning", status.tuning.mode, tuned(status.tuning))] : []),
      ...(status.pool ?? []).filter((one) => one.started_total + one.refused_total > 0).map((one) => fact(`Functions in ${one.language}`, `${count(one.total)} ${one.total === 1 ? "process" : "processes"}`, primed(one), one.total / one.maximum)),
      fact("Remembered plans", count(cache.plans), asked ? ` ${Math.round((100 * cache.hits_total) / asked)} % of statements found theirs` : " none asked for yet"),
    );
  }

  #drawQueries(queries) {
    const isRunning = (query) => !["finished", "failed", "cancelled"].includes(query.state);
    const running = queries.filter(isRunning).sort((left, right) => (left.position ?? 0) - (right.position ?? 0) || left.id - right.id);
    const ended = queries.filter((query) => !isRunning(query)).sort((left, right) => right.id - left.id).slice(0, ENDED_SHOWN);
    byId("inFlight").textContent = running.length ? counted(running.length, "query").replace("querys", "queries") : "No queries run";
    const focused = document.activeElement?.dataset?.cancel;
    byId("queries").replaceChildren(...[...running, ...ended].map((query) => this.#row(query, isRunning(query))));
    if (focused) document.querySelector(`[data-cancel="${focused}"]`)?.focus();
  }

  #row(query, isRunning) {
    const part = query.clusters_total ? query.clusters_done / query.clusters_total : null;
    const end = async (event) => {
      event.target.disabled = true;
      event.target.textContent = "Cancelling…";
      await cancel(query.id);
    };
    const isWaiting = query.state === "waiting";
    const progress = isWaiting ? h("small", { title: query.reason }, `number ${query.position} ${query.reason}`) : query.state !== "running" ? null : part === null
      ? h("span", { class: "meter moving" }, h("i", {}))
      : h("span", { class: "meter", role: "progressbar", "aria-valuenow": Math.round(part * 100), "aria-label": `Query ${query.id}`, title: `${count(query.clusters_done)} of ${count(query.clusters_total)} clusters read` }, h("i", { style: { width: `${part * 100}%` } }));
    return h(
      "tr",
      { class: isRunning ? "busy" : "ended" },
      h("td", { class: "right id" }, String(query.id)),
      h("td", {}, h("span", { class: `state ${query.state}` }, query.state)),
      h("td", { class: "right" }, duration(query.elapsed_us)),
      h("td", { class: "progress" }, progress, isRunning && part !== null ? h("small", {}, `${Math.round(part * 100)} %`) : null),
      h("td", { class: "right wide", title: `${bytes(query.memory_peak_bytes)} at most` }, bytes(isRunning ? query.memory_bytes : query.memory_peak_bytes)),
      h("td", { class: "statement" }, h("button", { class: "text", title: "Put it into the editor", on: { click: () => this.#use(query.statement) } }, query.statement.replace(/\s+/g, " ")), query.sharing ? h("small", { class: "sharing", title: "What it shares with other queries" }, query.sharing) : null, query.error ? h("small", {}, query.error) : null),
      h("td", {}, isRunning ? h("button", { class: "danger", "data-cancel": query.id, "aria-label": `Cancel query ${query.id}`, on: { click: end } }, "Cancel") : null),
    );
  }
}

/** Places on threads, as small squares; as a number where they are many. */
function slots(used, all) {
  if (all > 8) return gauge("running", used, all);
  const squares = Array.from({ length: all }, (_, index) => h("i", { class: index < used ? "on" : null }));
  return h("p", { class: "slots", title: `${used} of ${all} threads at work` }, h("span", {}, "running"), h("span", { class: "squares" }, squares), h("b", {}, String(used)));
}

function gauge(name, used, all) {
  const part = all ? Math.min(1, used / all) : 0;
  return h("p", { class: "gauge", title: `${count(used)} of at most ${count(all)}` }, h("span", {}, name), h("span", { class: `meter${part > 0.8 ? " high" : ""}` }, h("i", { style: { width: `${part * 100}%` } })), h("b", {}, short(used)));
}

function average(us, done) {
  return done ? duration(us / done) : "–";
}

/** What was done per second, the last minute; `ages` says how long ago, in milliseconds. */
function curve(rates, ages) {
  const [width, height] = [120, 26];
  const most = Math.max(1, ...rates);
  const x = (index) => width * (1 - ages[index] / CURVE_TIME);
  const points = rates.map((rate, index) => `${x(index).toFixed(1)},${(height - 1 - (height - 3) * (rate / most)).toFixed(1)}`);
  const picture = svg("svg", { class: "curve", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" });
  if (points.length > 1) picture.append(svg("path", { class: "area", d: `M${x(0)},${height}L${points.join("L")}L${width},${height}Z` }), svg("path", { class: "line", d: `M${points.join("L")}` }));
  return picture;
}

/** The small state at the top of the page. */
export function pulse(status, queries) {
  const running = queries.filter((query) => !["finished", "failed", "cancelled"].includes(query.state)).length;
  const waiting = status.admission.cheap.waiting + status.admission.heavy.waiting;
  return [
    h("span", { class: `dot${running ? " busy" : ""}`, "aria-hidden": "true" }),
    h("span", {}, running ? `${running} running` : "at rest"),
    waiting ? h("span", { class: "extra" }, `${count(waiting)} waiting`) : null,
    h("span", { class: "extra" }, `${bytes(status.memory.reserved_bytes)} in use`),
  ].filter(Boolean);
}

/** What the tuner has done last, in words. */
/** What else there is to say of the processes that compute functions. */
function primed(one) {
  const gone = [[one.killed_total, "killed"], [one.died_total, "died"], [one.refused_total, "could not start"]].filter(([number]) => number > 0);
  return ` ${[`${count(one.active)} at work`, `at most ${count(one.maximum)}`, ...gone.map(([number, what]) => `${count(number)} ${what}`)].join(", ")}`;
}

function tuned({ last, decisions_total: totals }) {
  if (!last) return " nothing changed yet";
  return ` ${last.knob} ${last.from} → ${last.to} ${last.outcome}; ${count(totals.kept)} kept`;
}
