// A result as a chart: bars or lines, drawn as SVG.
//
// It starts with what the columns suggest: the first one that is no number along the bottom, numbers upwards, lines for times.

import { count, isNumber, isTime, short, text } from "./format.js";
import { h, svg } from "./dom.js";

const BARS_MAX = 60;
const POINTS_MAX = 2000;
const SERIES_MAX = 4;
const MARGIN = { left: 56, right: 16, top: 16, bottom: 34 };
/** What slanted labels need. */
const SLANTED_BOTTOM = 78;
/** At first only columns are drawn together whose values are not further apart. */
const APART_MAX = 20;

export class Chart {
  #host;
  #picture;
  #controls;
  #tip;
  #result = null;
  #choice = null;

  constructor(host) {
    this.#host = host;
    this.#controls = h("div", { class: "controls" });
    this.#tip = h("div", { class: "tip", hidden: true });
    this.#picture = h("div", { class: "picture" }, this.#tip);
    host.append(this.#controls, this.#picture);
    new ResizeObserver(() => this.#draw()).observe(this.#picture);
  }

  /** Whether there is anything to draw. */
  static fits({ columns, rows }) {
    return rows.length > 0 && columns.some(isNumber);
  }

  show(result) {
    if (this.#result === result) return this.#draw();
    this.#result = result;
    const { columns } = result;
    let along = columns.findIndex((column) => !isNumber(column));
    const numbers = columns.flatMap((column, index) => (isNumber(column) && index !== along ? [index] : []));
    if (along < 0 && numbers.length > 1) along = numbers.shift();
    const line = along >= 0 && (isTime(columns[along]) || isNumber(columns[along]));
    const most = new Map(numbers.map((index) => [index, Math.max(...result.rows.slice(0, POINTS_MAX).map((row) => Math.abs(Number(row[index]) || 0)))]));
    const alike = numbers.filter((index) => most.get(index) * APART_MAX >= most.get(numbers[0]) && most.get(index) <= most.get(numbers[0]) * APART_MAX);
    this.#choice = { kind: line ? "line" : "bar", along, series: new Set(alike.slice(0, SERIES_MAX)) };
    this.#drawControls();
    this.#draw();
  }

  #drawControls() {
    const { columns } = this.#result;
    const choice = this.#choice;
    const redraw = () => (this.#drawControls(), this.#draw());
    const kind = (name, label) =>
      h("button", { class: "choice", "aria-pressed": String(choice.kind === name), on: { click: () => ((choice.kind = name), redraw()) } }, label);
    const along = h(
      "select",
      { id: "chart-along", on: { change: (event) => ((choice.along = Number(event.target.value)), choice.series.delete(choice.along), redraw()) } },
      h("option", { value: -1, selected: choice.along < 0 }, "row number"),
      columns.map((column, index) => h("option", { value: index, selected: index === choice.along }, column.name)),
    );
    const series = columns.flatMap((column, index) => {
      if (!isNumber(column) || index === choice.along) return [];
      const toggle = () => {
        if (!choice.series.delete(index) && choice.series.size < SERIES_MAX) choice.series.add(index);
        redraw();
      };
      const at = [...choice.series].sort((a, b) => a - b).indexOf(index);
      return [h("button", { class: `choice series s${at}`, "aria-pressed": String(at >= 0), on: { click: toggle } }, column.name)];
    });
    this.#controls.replaceChildren(
      h("div", { class: "segments", role: "group", "aria-label": "Kind of chart" }, kind("bar", "Bars"), kind("line", "Lines")),
      h("label", { for: "chart-along" }, "over ", along),
      h("div", { class: "seriesList", role: "group", "aria-label": "Columns drawn" }, series),
    );
  }

  #draw() {
    if (!this.#result || !this.#choice || this.#host.hidden) return;
    this.#tip.hidden = true;
    const { columns, rows } = this.#result;
    const { kind, along, series } = this.#choice;
    const shown = [...series].sort((a, b) => a - b);
    const { clientWidth: width, clientHeight: height } = this.#picture;
    if (width < 80 || height < 80) return;
    this.#picture.querySelectorAll("svg, .quiet").forEach((old) => old.remove());
    if (!shown.length) return this.#picture.append(h("p", { class: "quiet" }, "Choose a column to draw."));
    const taken = rows.slice(0, kind === "bar" ? BARS_MAX : POINTS_MAX);
    const values = shown.map((index) => taken.map((row) => (row[index] === null ? null : Number(row[index]))));
    const labels = taken.map((row, index) => (along < 0 ? String(index + 1) : row[along] === null ? "NULL" : text(row[along])));
    const there = values.flat().filter(Number.isFinite);
    const scale = ticks(Math.min(0, ...there), Math.max(0, ...there), Math.max(2, Math.floor(height / 60)));
    const step = (width - MARGIN.left - MARGIN.right) / Math.max(1, kind === "line" ? taken.length - 1 : taken.length);
    const slanted = isSlanted(labels, step);
    const foot = slanted ? SLANTED_BOTTOM : MARGIN.bottom;
    const inner = { width: width - MARGIN.left - MARGIN.right, height: height - MARGIN.top - foot };
    const y = (value) => MARGIN.top + inner.height * (1 - (value - scale.low) / (scale.high - scale.low));
    const x = (index) => MARGIN.left + step * (kind === "line" ? index : index + 0.5);
    const picture = svg("svg", { width, height, role: "img", "aria-label": `${kind === "bar" ? "Bars" : "Lines"} of ${shown.map((index) => columns[index].name).join(", ")}` });
    for (const value of scale.all) {
      picture.append(
        svg("line", { class: value === 0 ? "axis" : "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: y(value), y2: y(value) }),
        svg("text", { class: "label", x: MARGIN.left - 8, y: y(value) + 4, "text-anchor": "end" }, short(value)),
      );
    }
    picture.append(...bottom(labels, x, step, slanted, height - foot + 18, width));
    values.forEach((own, at) => picture.append(kind === "bar" ? bars(own, at, shown.length, x, y, step) : lines(own, at, x, y)));
    const mark = svg("line", { class: "mark", y1: MARGIN.top, y2: MARGIN.top + inner.height, visibility: "hidden" });
    picture.append(mark);
    picture.addEventListener("pointermove", (event) => {
      const at = event.offsetX - MARGIN.left;
      const index = Math.max(0, Math.min(taken.length - 1, kind === "line" ? Math.round(at / step) : Math.floor(at / step)));
      mark.setAttribute("x1", x(index));
      mark.setAttribute("x2", x(index));
      mark.setAttribute("visibility", "visible");
      this.#tell(labels[index], shown.map((column, at) => [columns[column].name, taken[index][column], at]), x(index), width);
    });
    picture.addEventListener("pointerleave", () => {
      mark.setAttribute("visibility", "hidden");
      this.#tip.hidden = true;
    });
    this.#picture.prepend(picture);
    if (taken.length < rows.length) this.#picture.append(h("p", { class: "quiet note" }, `The first ${count(taken.length)} of ${count(rows.length)} rows are drawn.`));
  }

  #tell(label, values, at, width) {
    this.#tip.replaceChildren(
      h("strong", {}, label),
      ...values.map(([name, value, index]) => h("div", {}, h("i", { class: `s${index}` }), h("span", {}, name), h("b", {}, value === null ? "NULL" : text(value)))),
    );
    this.#tip.hidden = false;
    const left = at + 12 + this.#tip.offsetWidth > width ? at - 12 - this.#tip.offsetWidth : at + 12;
    this.#tip.style.setProperty("left", `${Math.max(0, left)}px`);
  }
}

function bars(values, at, of, x, y, step) {
  const wide = Math.max(1, Math.min(56, step * 0.72) / of);
  const group = svg("g", { class: `bars s${at}` });
  values.forEach((value, index) => {
    if (!Number.isFinite(value)) return;
    const [top, foot] = [Math.min(y(value), y(0)), Math.max(y(value), y(0))];
    group.append(svg("rect", { x: x(index) + wide * (at - of / 2) + 0.5, y: top, width: Math.max(1, wide - 1), height: Math.max(0.5, foot - top), rx: Math.min(3, wide / 4) }));
  });
  return group;
}

/** A line is broken where there is no value. */
function lines(values, at, x, y) {
  let path = "";
  let pen = false;
  values.forEach((value, index) => {
    if (Number.isFinite(value)) path += `${pen ? "L" : "M"}${x(index).toFixed(1)},${y(value).toFixed(1)}`;
    pen = Number.isFinite(value);
  });
  const group = svg("g", { class: `lines s${at}` }, svg("path", { d: path }));
  if (values.length <= 60) {
    values.forEach((value, index) => Number.isFinite(value) && group.append(svg("circle", { cx: x(index), cy: y(value), r: 3 })));
  }
  return group;
}

/** The room that a label needs when it is not slanted. */
const flatWidth = (labels) => Math.min(Math.max(...labels.map((label) => label.length)), 14) * 7 + 10;

/** Labels are slanted if they are long and there is no room for each: numbers and dates are rather left out. */
const isSlanted = (labels, step) => labels.length > 1 && labels.length <= BARS_MAX && flatWidth(labels) > step && labels.some((label) => !/^[\d.:-]*$/.test(label));

/** The labels along the bottom: as many as have room. */
function bottom(labels, x, step, slanted, top, width) {
  const flat = flatWidth(labels);
  const every = Math.ceil((slanted ? 22 : flat) / Math.max(step, 0.01));
  return labels.flatMap((label, index) => {
    if (index % every) return [];
    const short = label.length > 14 ? `${label.slice(0, 13)}…` : label;
    const half = slanted ? 10 : short.length * 3.4;
    const at = Math.max(half, Math.min(width - half, x(index)));
    const slant = slanted ? { transform: `rotate(-32 ${at} ${top})`, "text-anchor": "end" } : { "text-anchor": "middle" };
    return [svg("text", { class: "label", x: at, y: top, ...slant }, short)];
  });
}

/** Round numbers from below the lowest value to above the highest. */
export function ticks(low, high, wanted) {
  if (low === high) high = low + 1;
  const rough = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 2.5, 5, 10].find((factor) => factor * power >= rough) ?? 10);
  const [first, last] = [Math.floor(low / step + 1e-9), Math.ceil(high / step - 1e-9)];
  const all = Array.from({ length: last - first + 1 }, (_, index) => Number(((first + index) * step).toPrecision(12)));
  return { low: all[0], high: all.at(-1), all };
}
