// SQL: run it, show the last answer, and mark the position of an error in the text.

import { json } from "./api.js";
import { isNumeric, tableHead, tableRow } from "./format.js";

const byId = (id) => document.getElementById(id);

export function startEditor(changed) {
  const text = byId("text");
  text.addEventListener("input", unmark);
  text.addEventListener("scroll", () => { byId("marks").scrollTop = text.scrollTop; });
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run(changed);
  });
  byId("run").onclick = () => run(changed);
}

async function run(changed) {
  unmark();
  byId("run").disabled = true;
  const began = performance.now();
  try {
    const sql = byId("text").value;
    const answer = await json("/query", {
      method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ sql }),
    });
    show(answer, performance.now() - began);
    changed();
  } catch (failure) {
    const problem = byId("problem");
    problem.hidden = false;
    problem.textContent = failure.line ? `line ${failure.line}, column ${failure.column}: ${failure.message}` : failure.message;
    if (failure.line) mark(failure.line, failure.column);
  } finally {
    byId("run").disabled = false;
  }
}

function show(answer, ms) {
  const table = byId("answer");
  const columns = answer.columns ?? [];
  tableHead(table.tHead, columns);
  const isNumber = columns.map((column) => isNumeric(column.type));
  const rows = (answer.rows ?? []).map((row) => tableRow(columns.map((c) => row[c.name]), isNumber));
  table.tBodies[0].replaceChildren(...rows);
  const what = answer.rows ? `${rows.length} rows` : answer.count === undefined ? "done" : `${answer.count} rows changed`;
  byId("answer-text").textContent = `${what}, ${ms.toFixed(0)} ms`;
}

function unmark() {
  byId("problem").hidden = true;
  byId("marks").replaceChildren();
}

/** The word at a position stands out behind the text. */
function mark(line, column) {
  const value = byId("text").value;
  const lines = value.split("\n");
  const start = lines.slice(0, line - 1).reduce((sum, text) => sum + text.length + 1, 0) + column - 1;
  const length = Math.max(1, /^[\w"']+|^./.exec(value.slice(start))?.[0].length ?? 1);
  const marked = document.createElement("mark");
  marked.textContent = value.slice(start, start + length) || " ";
  byId("marks").replaceChildren(value.slice(0, start), marked, value.slice(start + length));
}
