// What was run before, kept in the browser.

const KEY = "diligence.history";
const ENTRIES_MAX = 300;

/** What is kept under a key, or a default; a browser that keeps nothing works, too. */
export function kept(key, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(key)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

/** Keeps a value. */
export function keep(key, value) {
  try {
    localStorage.setItem(key, JSON.stringify(value));
  } catch {
    // Private windows and full stores: nothing is remembered.
  }
}

/** All entries, the last one first: `{sql, at, ms, rows, failed}`. */
export const entries = () => kept(KEY, []);

/** Adds what was run. The same statement again takes the place of the one before. */
export function remember(entry) {
  const others = entries().filter((other) => other.sql !== entry.sql);
  keep(KEY, [entry, ...others].slice(0, ENTRIES_MAX));
}

/** Forgets everything. */
export const forget = () => keep(KEY, []);
