// The editor: a text area over a coloured copy of its text, with completion, line numbers and the place of an error.
//
// The text area is the truth; the copy behind it has the same letters at the same places, so it also tells where on the screen a
// letter is. Tab takes a suggestion if there is a list of them and otherwise leaves the editor, so the keyboard is never caught.

import { h } from "./dom.js";
import { complete, tokens } from "./sql.js";

/** Texts that are larger than this are not coloured: each key would take too long. */
const COLOURED_MAX = 100_000;

export class Editor {
  #area;
  #copy;
  #numbers;
  #list;
  #host;
  #error = null;
  #suggested = null;
  #chosen = 0;

  /** `changed` is called when the text is another. */
  constructor(host, { catalog, changed }) {
    this.#area = host.querySelector("textarea");
    this.#copy = host.querySelector("pre");
    this.#numbers = host.querySelector(".numbers");
    this.#list = host.querySelector("[role=listbox]");
    this.#host = host;
    this.catalog = catalog;
    const area = this.#area;
    area.addEventListener("input", (event) => {
      this.clearError();
      this.#draw();
      changed?.();
      const typed = event.inputType?.startsWith("insert") && event.inputType !== "insertFromPaste";
      if (typed || this.#suggested) this.#suggest(false);
    });
    area.addEventListener("keydown", (event) => this.#key(event));
    area.addEventListener("blur", () => this.#close());
    area.addEventListener("click", () => this.#close());
    host.querySelector(".scroll").addEventListener("scroll", () => this.#close());
    this.#list.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      const option = event.target.closest("[role=option]");
      if (option) this.#take(Number(option.dataset.index));
    });
    this.#draw();
  }

  get text() {
    return this.#area.value;
  }

  set text(text) {
    this.#area.value = text;
    this.clearError();
    this.#draw();
  }

  /** Where the cursor is, or where what is selected begins and ends. */
  get selection() {
    return { start: this.#area.selectionStart, end: this.#area.selectionEnd };
  }

  focus() {
    this.#area.focus();
  }

  /** Whether suggestions are shown. */
  get isSuggesting() {
    return this.#suggested !== null;
  }

  /** Puts a text where the cursor is, so that it can be undone. */
  insert(text) {
    this.#area.focus();
    // The only way that keeps the browser's undo.
    if (!document.execCommand("insertText", false, text)) {
      this.#area.setRangeText(text, this.#area.selectionStart, this.#area.selectionEnd, "end");
      this.#area.dispatchEvent(new Event("input"));
    }
  }

  /** Adds a statement behind the others, with the cursor on it. */
  append(text) {
    const before = this.text.trimEnd();
    const separator = before === "" ? "" : `${before.endsWith(";") ? "" : ";"}\n\n`;
    this.#area.focus();
    this.#area.setSelectionRange(before.length, this.text.length);
    this.insert(separator + text);
  }

  /** Underlines a piece of the text. */
  markError({ start, end }) {
    this.#error = { start, end };
    this.#draw();
    this.#area.setAttribute("aria-invalid", "true");
    this.#area.setSelectionRange(start, start);
    const place = this.#placeOf(start);
    if (place) this.#host.querySelector(".scroll").scrollTo({ top: Math.max(0, place.top - 60), behavior: "instant" });
  }

  clearError() {
    if (!this.#error) return;
    this.#error = null;
    this.#area.removeAttribute("aria-invalid");
    this.#draw();
  }

  #draw() {
    const text = this.#area.value;
    const pieces = text.length > COLOURED_MAX ? [{ kind: "word", start: 0, end: text.length, text }] : tokens(text);
    this.#copy.replaceChildren(...pieces.flatMap((piece) => this.#coloured(piece)), "\n");
    const lines = text.split("\n").length;
    const bad = this.#error ? text.slice(0, this.#error.start).split("\n").length : 0;
    this.#numbers.replaceChildren(
      ...Array.from({ length: lines }, (_, index) => h("span", { class: index + 1 === bad ? "bad" : null }, String(index + 1))),
    );
  }

  #coloured({ kind, start, end, text }) {
    const error = this.#error;
    if (!error || end <= error.start || start >= error.end) {
      return kind === "space" || kind === "word" || kind === "sign" ? text : h("span", { class: kind }, text);
    }
    return h("span", { class: `${kind} error` }, text);
  }

  /** Where a letter is, within what scrolls. */
  #placeOf(offset) {
    const walk = document.createTreeWalker(this.#copy, NodeFilter.SHOW_TEXT);
    for (let left = offset, node = walk.nextNode(); node; left -= node.length, node = walk.nextNode()) {
      if (left > node.length) continue;
      const range = document.createRange();
      range.setStart(node, left);
      range.setEnd(node, left);
      const at = range.getClientRects()[0] ?? range.getBoundingClientRect();
      const origin = this.#copy.getBoundingClientRect();
      return { left: at.left - origin.left, top: at.top - origin.top, bottom: at.bottom - origin.top, screen: at };
    }
    return null;
  }

  #key(event) {
    const shown = this.#suggested;
    if (event.key === " " && event.ctrlKey) {
      event.preventDefault();
      this.#suggest(true);
    } else if (shown && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      event.preventDefault();
      const step = event.key === "ArrowDown" ? 1 : -1;
      this.#choose((this.#chosen + step + shown.items.length) % shown.items.length);
    } else if (shown && (event.key === "Tab" || event.key === "Enter") && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
      event.preventDefault();
      this.#take(this.#chosen);
    } else if (shown && event.key === "Escape") {
      event.preventDefault();
      event.stopPropagation();
      this.#close();
    } else if (event.key === "Enter" && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      const line = this.text.slice(0, this.selection.start).split("\n").at(-1);
      this.insert(`\n${/^\s*/.exec(line)[0]}`);
      this.#close();
    } else if (["ArrowLeft", "ArrowRight", "Home", "End"].includes(event.key)) this.#close();
  }

  #suggest(asked) {
    const { start, end } = this.selection;
    if (start !== end) return this.#close();
    const suggested = complete(this.text, start, this.catalog, asked);
    if (!suggested.items.length) return this.#close();
    this.#suggested = suggested;
    this.#list.replaceChildren(
      ...suggested.items.map((item, index) =>
        h("li", { role: "option", id: `suggestion-${index}`, "data-index": index }, h("i", { class: item.kind, "aria-hidden": "true" }), h("span", {}, item.text), h("small", {}, item.detail)),
      ),
    );
    this.#list.hidden = false;
    const place = this.#placeOf(suggested.start)?.screen;
    if (place) {
      const { offsetWidth: width, offsetHeight: height } = this.#list;
      const below = place.bottom + 4 + height < innerHeight || place.top - height - 4 < 0;
      this.#list.style.setProperty("left", `${Math.max(4, Math.min(place.left - 28, innerWidth - width - 8))}px`);
      this.#list.style.setProperty("top", `${below ? place.bottom + 4 : place.top - height - 4}px`);
    }
    this.#choose(0);
  }

  #choose(index) {
    this.#chosen = index;
    [...this.#list.children].forEach((option, at) => option.setAttribute("aria-selected", String(at === index)));
    this.#list.children[index].scrollIntoView({ block: "nearest" });
    this.#area.setAttribute("aria-activedescendant", `suggestion-${index}`);
  }

  #take(index) {
    const { start, end, items } = this.#suggested;
    const { text, kind } = items[index];
    this.#close();
    this.#area.setSelectionRange(start, end);
    this.insert(kind === "function" ? `${text}(` : text);
    this.#close();
  }

  #close() {
    this.#suggested = null;
    this.#list.hidden = true;
    this.#area.removeAttribute("aria-activedescendant");
  }
}
