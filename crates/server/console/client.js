// What the console asks of the server.

import { RowReader } from "./rows.js";

/** An error as the server tells it; `place` is a line and a column, from 1, or null. */
export class QueryError extends Error {
  constructor(message, { code = null, hint = null, place = null } = {}) {
    super(message);
    Object.assign(this, { code, hint, place });
  }
}

/**
 * Runs one statement, with values for `$1` and so on. Gives `{columns, rows, more, query, notices}`, or `{command, rows, notices}` for one that does
 * something; stops reading, which cancels the query, at `rowsMax` rows. `arrived` is called with what is there each time some
 * rows are.
 */
export async function run(sql, { parameters, signal, rowsMax, arrived } = {}) {
  const response = await asked("/v1/sql", {
    method: "POST",
    headers: { "Content-Type": "application/json", Accept: "application/json" },
    body: JSON.stringify({ sql, parameters }),
    signal,
  });
  const stream = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const reader = new RowReader();
  const query = Number(response.headers.get("X-Query-Id")) || null;
  const result = { columns: [], rows: [], more: false, query, notices: [] };
  for (;;) {
    const { done, value } = await stream.read().catch((error) => {
      if (signal?.aborted) throw error;
      throw new QueryError("the answer broke off: the query failed while its rows were on their way");
    });
    if (done) break;
    result.rows.push(...reader.feed(value));
    result.columns = reader.head?.columns ?? [];
    if (result.rows.length > rowsMax) {
      result.rows.length = rowsMax;
      result.more = true;
      await stream.cancel();
      break;
    }
    arrived?.(result);
  }
  if (!reader.head) {
    const { command, rows, notices = [] } = JSON.parse(reader.rest());
    return { command, rows, notices };
  }
  if (!result.more) result.notices = reader.tail().notices ?? [];
  return result;
}

/** What runs, and what has ended lately. */
export const queries = async () => (await (await asked("/v1/queries")).json()).queries;

/** The stages, workers and memory. */
export const status = async () => (await asked("/v1/status")).json();

/** Ends a query; true if it still ran. */
export async function cancel(id) {
  return (await fetch(`/v1/queries/${id}`, { method: "DELETE" })).ok;
}

async function asked(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (options?.signal?.aborted) throw error;
    throw new QueryError("the server does not answer", { hint: "it may have been stopped; try again when it runs" });
  }
  if (response.ok) return response;
  let told;
  try {
    told = (await response.json()).error;
  } catch {
    told = { message: `the server answered ${response.status} ${response.statusText}` };
  }
  throw new QueryError(told.message, told);
}
