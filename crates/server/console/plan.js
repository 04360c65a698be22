// EXPLAIN drawn: the plan's nodes as cards, root on top, and between them the rows that went up.
//
// The server gives the tree and, apart from it, what each pipeline's sources, operators and sinks did; a name connects the two.

import { bytes, count, counted, duration, short } from "./format.js";
import { h, svg } from "./dom.js";

const CARD = { width: 212, height: 88 };
const GAP = { across: 22, down: 42 };
/** An estimate that is so many times too high or too low is marked. */
const FAR_OFF = 10;

/** The node's kind and the rest of its description. */
function titled(operator) {
  const match = /^([A-Z]\w*(?: (?:Inner|Left|Right|Full)\w*)?)\s*([\s\S]*)$/.exec(operator);
  return match ? [match[1], match[2]] : [operator, ""];
}

/**
 * The tree with what was measured: each node gets `rows` and `worked_us` where they are known. What is read of kept rows (`Groups`,
 * `Sorted`) and what was spilled counts for the node that kept them.
 */
export function measured({ plan, pipelines }) {
  const nodes = [];
  const copy = (node) => {
    const own = { ...node, inputs: node.inputs.map(copy), rows: null, worked_us: pipelines ? 0 : null, spilled_bytes: 0 };
    nodes.push(own);
    return own;
  };
  const root = copy(plan);
  if (!pipelines) return { root, nodes };
  const seen = new Map();
  const nodeOf = (name) => {
    const all = nodes.filter((node) => node.operator === name);
    if (all.length < 2) return all[0] ?? null;
    const at = seen.get(name) ?? 0;
    seen.set(name, at + 1);
    return all[Math.min(at, all.length - 1)];
  };
  const sinks = new Map();
  const above = (node, rows) => node && (node.above = (node.above ?? 0) + rows);
  for (const { operators } of pipelines) {
    // From the sink to the source, so that each knows what it feeds.
    let fed = root;
    for (const operator of operators.toReversed()) {
      const isSink = operator.name.startsWith("=> ");
      const isBuild = operator.name.startsWith("=> Build of ");
      const name = operator.name.replace(/^=> (Build of )?/, "");
      if (isSink) {
        const node = name === "Result" ? null : sinks.get(operator.name) ?? nodeOf(name);
        if (node && !sinks.has(operator.name)) {
          // A sink that several pipelines feed is listed with each, with the same totals.
          sinks.set(operator.name, node);
          node.worked_us += operator.worked_us;
          node.spilled_bytes += operator.spilled_bytes;
        }
        if (node) fed = isBuild ? node.inputs[0] : node.inputs.length > 1 && !isBuild ? null : node.inputs[0];
        continue;
      }
      const node = nodeOf(name);
      if (node) {
        node.rows = (node.rows ?? 0) + operator.rows;
        node.worked_us += operator.worked_us;
        node.spilled_bytes += operator.spilled_bytes;
        fed = node.inputs.length > 1 ? node.inputs.at(-1) : node.inputs[0];
      } else if (fed) {
        fed.worked_us += operator.worked_us;
        above(fed, operator.rows);
      }
    }
  }
  for (const node of nodes) node.rows ??= node.above ?? null;
  return { root, nodes };
}

/** Draws it all; `text` is the statement that was explained. */
export function drawn(document) {
  const { root, nodes } = measured(document);
  const worked = nodes.reduce((sum, node) => sum + (node.worked_us ?? 0), 0);
  const width = place(root, 0, 0);
  const depth = Math.max(...nodes.map((node) => node.depth));
  const size = { width: width * (CARD.width + GAP.across), height: (depth + 1) * (CARD.height + GAP.down) };
  const edges = svg("svg", { width: size.width, height: size.height, "aria-hidden": "true" });
  const most = Math.max(1, ...nodes.map((node) => node.rows ?? node.rows_estimate ?? 0));
  const cards = [];
  for (const node of nodes) {
    cards.push(card(node, worked));
    for (const input of node.inputs) edges.append(...edge(node, input, most));
  }
  const tree = h("div", { class: "tree", role: "tree", "aria-label": "Plan", style: { width: `${size.width}px`, height: `${size.height - GAP.down}px` } }, edges, cards.toReversed());
  return [summary(document, worked), h("div", { class: "treeScroll", tabindex: 0 }, tree), pipelineList(document)];
}

/** Gives every node its column and depth; the number of columns below it is the answer. */
function place(node, left, depth) {
  node.depth = depth;
  let wide = 0;
  for (const input of node.inputs) wide += place(input, left + wide, depth + 1);
  node.column = node.inputs.length ? (node.inputs[0].column + node.inputs.at(-1).column) / 2 : left;
  return Math.max(wide, 1);
}

const leftOf = (node) => node.column * (CARD.width + GAP.across) + GAP.across / 2;
const topOf = (node) => node.depth * (CARD.height + GAP.down);

function card(node, worked) {
  const [title, rest] = titled(node.operator);
  const share = worked ? node.worked_us / worked : 0;
  const wrong = node.rows !== null && node.rows_estimate !== null ? Math.max((node.rows + 1) / (node.rows_estimate + 1), (node.rows_estimate + 1) / (node.rows + 1)) : 1;
  const heat = share > 0.4 ? "hot" : share > 0.15 ? "warm" : "";
  const foot = node.worked_us === null ? [] : [
    h("div", { class: "share", title: `${Math.round(share * 100)} % of the time on workers` }, h("i", { style: { width: `${Math.max(1, share * 100)}%` } })),
    h("footer", {}, h("span", {}, duration(node.worked_us)), node.spilled_bytes ? h("em", { title: "written to temp space" }, `spilled ${bytes(node.spilled_bytes)}`) : null, h("span", {}, `${Math.round(share * 100)} %`)),
  ];
  return h(
    "div",
    { class: `node ${heat}`, role: "treeitem", "aria-level": node.depth + 1, "aria-selected": "false", title: node.operator, style: { left: `${leftOf(node)}px`, top: `${topOf(node)}px` } },
    h("strong", {}, title, wrong >= FAR_OFF ? h("em", { title: `about ${count(node.rows_estimate)} were expected` }, `×${short(Math.round(wrong))} off`) : null),
    h("p", {}, rest),
    foot,
  );
}

function edge(parent, child, most) {
  const rows = child.rows ?? child.rows_estimate;
  const thick = rows === null ? 1.5 : 1.5 + 8 * (Math.log1p(rows) / Math.log1p(most));
  const [x1, y1, x2, y2] = [leftOf(parent) + CARD.width / 2, topOf(parent) + CARD.height, leftOf(child) + CARD.width / 2, topOf(child)];
  const middle = (y1 + y2) / 2;
  const label = child.rows !== null ? counted(child.rows, "row") : rows === null ? "" : `about ${count(rows)} rows`;
  return [
    svg("path", { class: "edge", d: `M${x2},${y2}C${x2},${middle} ${x1},${middle} ${x1},${y1}`, "stroke-width": thick.toFixed(1) }),
    svg("text", { class: "edgeLabel", x: x2, y: y2 - 9, "text-anchor": "middle" }, label),
  ];
}

function summary({ query, pipelines }, worked) {
  if (!query) return h("p", { class: "facts" }, "The plan as it would run. ", h("b", {}, "Explain"), " runs it and measures.");
  const fact = (value, name) => h("span", {}, h("b", {}, value), ` ${name}`);
  return h(
    "p",
    { class: "facts" },
    fact(duration(query.elapsed_us), "elapsed"),
    fact(duration(worked), `on workers, in ${counted(pipelines.length, "pipeline")}`),
    fact(bytes(query.memory_peak_bytes), "memory at most"),
    fact(count(query.clusters_read), `clusters read${query.clusters_pruned ? `, ${count(query.clusters_pruned)} left out` : ""}`),
    fact(bytes(query.bytes_fetched), "fetched"),
    query.sharing.length ? fact("Shared", query.sharing.join("; ")) : null,
  );
}

function pipelineList({ pipelines }) {
  if (!pipelines) return "";
  const used = pipelines.filter((pipeline) => pipeline.packets > 0);
  const most = Math.max(1, ...used.map((pipeline) => pipeline.worked_us + pipeline.queued_us));
  const row = (pipeline) => {
    const bar = (us, kind) => h("i", { class: kind, style: { width: `${(100 * us) / most}%` } });
    return h(
      "tr",
      {},
      h("td", { class: "right" }, String(pipeline.index)),
      h("td", {}, pipeline.stage),
      h("td", { class: "right" }, String(pipeline.packets)),
      h("td", { class: "right" }, duration(pipeline.worked_us)),
      h("td", { class: "right" }, duration(pipeline.queued_us)),
      h("td", { class: "bars" }, bar(pipeline.worked_us, "worked"), bar(pipeline.queued_us, "queued")),
      h("td", { class: "what" }, pipeline.operators.map((operator) => titled(operator.name.replace(/^=> /, ""))[0]).join(" → ")),
    );
  };
  const heads = ["Pipeline", "Stage", "Packets", "Worked", "Queued", "", "What it does"];
  return h(
    "details",
    { class: "pipelines" },
    h("summary", {}, `Pipelines: ${used.length} ran`, h("span", { class: "legend" }, h("i", { class: "worked" }), "on workers ", h("i", { class: "queued" }), "in queues")),
    h("table", { class: "plain" }, h("thead", {}, h("tr", {}, heads.map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, used.map(row))),
  );
}
