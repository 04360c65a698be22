// Reads the answer of `POST /v1/sql` while it arrives: `{"query":7,"columns":[…],"rows":[[…],…],"row_count":2}`, perhaps
// with `"notices":[…]` at its end.
//
// Rows are given as soon as they are whole, so that the first ones are shown while others are on their way, and reading can
// stop when there are enough.

/** A number that JavaScript would round or write differently stays the text that the server sent. */
function exact(_key, value, context) {
  if (typeof value !== "number" || !context || String(value) === context.source) return value;
  return context.source;
}

export class RowReader {
  #text = "";
  #at = 0;
  #depth = 0;
  #string = false;
  #start = 0;
  /** The object without its rows; null until the columns are there. */
  head = null;
  /** Whether the rows have ended. */
  ended = false;

  /** Takes a piece of the text and gives the rows that are whole now. */
  feed(piece) {
    this.#text = this.#text.slice(this.#start) + piece;
    this.#at -= this.#start;
    this.#start = 0;
    const rows = [];
    const text = this.#text;
    for (; this.#at < text.length; this.#at++) {
      const character = text[this.#at];
      if (this.#string) {
        if (character === "\\") this.#at++;
        else if (character === '"') this.#string = false;
      } else if (character === '"') this.#string = true;
      else if (character === "[" || character === "{") {
        if (this.#depth === 1 && !this.head && /"rows"\s*:\s*$/.test(text.slice(0, this.#at))) {
          this.head = JSON.parse(`${text.slice(0, this.#at)}[]}`);
        } else if (this.#depth === 2 && this.head && !this.ended) this.#start = this.#at;
        this.#depth++;
      } else if (character === "]" || character === "}") {
        this.#depth--;
        if (this.#depth === 2 && this.head && !this.ended) {
          rows.push(JSON.parse(text.slice(this.#start, this.#at + 1), exact));
          this.#start = this.#at + 1;
        }
        if (this.#depth === 1 && this.head && !this.ended) {
          this.ended = true;
          this.#start = this.#at + 1;
        }
      }
    }
    return rows;
  }

  /** The object behind its rows, once all of it is there. */
  tail() {
    return this.ended ? JSON.parse(`{${this.#text.slice(this.#start).replace(/^\s*,/, "")}`) : {};
  }

  /** What is left at the end: the whole text, if it had no rows. */
  rest() {
    return this.#text;
  }
}
