// Numbers and elements as the page shows them.

const UNITS = ["B", "kB", "MB", "GB", "TB"];

export function bytes(count) {
  let unit = 0;
  while (count >= 1000 && unit < UNITS.length - 1) { count /= 1000; unit += 1; }
  return `${count.toFixed(unit && count < 100 ? 1 : 0)} ${UNITS[unit]}`;
}

export function count(number) {
  if (number >= 1e6) return `${(number / 1e6).toFixed(1)} M`;
  if (number >= 1e4) return `${(number / 1e3).toFixed(1)} k`;
  return number < 10 && number % 1 ? number.toFixed(1) : Math.round(number).toLocaleString("en");
}

export const milliseconds = (ms) => (ms < 1 ? `${(ms * 1000).toFixed(0)} µs` : `${ms.toFixed(1)} ms`);
export const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString("en-GB");

export function element(tag, content = "", className = "") {
  const made = document.createElement(tag);
  made.textContent = content;
  if (className) made.className = className;
  return made;
}

/** A row of a table; numbers stand right, NULL is gray. */
export function tableRow(values, isNumber) {
  const row = document.createElement("tr");
  values.forEach((value, at) => {
    const shown = value === null ? "NULL" : typeof value === "object" ? JSON.stringify(value) : String(value);
    const cell = element("td", shown, value === null ? "null" : "");
    if (isNumber[at]) cell.classList.add("number");
    row.append(cell);
  });
  return row;
}

export const isNumeric = (type) => /^(u?int|float|double|decimal)/.test(type);

export function tableHead(head, columns) {
  const row = document.createElement("tr");
  columns.forEach((column) => {
    const cell = element("th", column.name, isNumeric(column.type) ? "number" : "");
    cell.title = column.type;
    row.append(cell);
  });
  head.replaceChildren(row);
}
