// Numbers, times and sizes for people.

const GROUPED = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

/** `12,345`. */
export const count = (number) => GROUPED.format(number);

/** `1 row`, `2 rows`. */
export const counted = (number, what) => `${count(number)} ${what}${number === 1 ? "" : "s"}`;

/** `1.2k`, for tight places. */
export function short(number) {
  const size = Math.abs(number);
  if (size < 1e3) return Number.isInteger(number) ? String(number) : number.toPrecision(3).replace(/\.?0+$/, "");
  const [factor, unit] = size < 1e6 ? [1e3, "k"] : size < 1e9 ? [1e6, "M"] : size < 1e12 ? [1e9, "G"] : [1e12, "T"];
  const value = number / factor;
  return `${Math.abs(value) < 10 ? value.toFixed(1).replace(/\.0$/, "") : Math.round(value)}${unit}`;
}

/** Microseconds as `870 µs`, `12.3 ms`, `4.56 s`, `2 min 5 s`. */
export function duration(us) {
  if (us < 1e3) return `${Math.round(us)} µs`;
  if (us < 1e6) return `${(us / 1e3).toFixed(us < 1e5 ? 1 : 0)} ms`;
  if (us < 6e7) return `${(us / 1e6).toFixed(us < 1e7 ? 2 : 1)} s`;
  return `${Math.floor(us / 6e7)} min ${Math.floor((us % 6e7) / 1e6)} s`;
}

/** `1.5 MiB`. */
export function bytes(number) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (number >= 1024 && unit < units.length - 1) (number /= 1024), unit++;
  return `${unit === 0 || number >= 100 ? Math.round(number) : number.toFixed(1)} ${units[unit]}`;
}

/** How long ago, from milliseconds since 1970. */
export function ago(at) {
  const seconds = Math.max(0, (Date.now() - at) / 1000);
  if (seconds < 60) return "just now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  return new Date(at).toLocaleDateString(undefined, { day: "numeric", month: "short" });
}

const NUMBERS = /^(smallint|integer|bigint|numeric|real|double precision)[^[]*$/;
const TIMES = /^(date|timestamp)[^[]*$/;

/** Whether a column's values are numbers. */
export const isNumber = (column) => NUMBERS.test(column.type);
/** Whether they are dates or timestamps. */
export const isTime = (column) => TIMES.test(column.type);

/** A value as text; NULL is for the caller. */
export const text = (value) => (typeof value === "object" ? JSON.stringify(value) : String(value));
