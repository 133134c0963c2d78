// The rows of one view, a page at a time. What a batch changed is lit.
//
//   view of few rows    its change stream says that it has changed
//   any other           the figures, once a second, say that it has
//
// Then the page is read again and compared with the one before, row by row.

import { json, pathOf } from "./api.js";
import { isNumeric, tableHead, tableRow } from "./format.js";

const PAGE = 100;
const STREAMED = 5000;
const PAUSE = 120;
const byId = (id) => document.getElementById(id);

export class RowsPane {
  constructor() {
    this.table = document.querySelector("#rows table");
    this.view = null;
    this.turn = 0;
    byId("first").onclick = () => this.go(0);
    byId("back").onclick = () => this.go(this.offset - PAGE);
    byId("next").onclick = () => this.go(this.offset + PAGE);
    byId("last").onclick = () => this.go(Math.floor(Math.max(this.total - 1, 0) / PAGE) * PAGE);
    this.table.tHead.onclick = (event) => this.sort(event.target.textContent);
  }

  /** Show a view (its schema); null shows nothing. */
  async show(view) {
    this.turn += 1;
    this.events?.close();
    this.events = null;
    Object.assign(this, { view, offset: 0, order: null, lines: new Map(), total: 0, refreshes: -1 });
    this.table.tHead.replaceChildren();
    this.table.tBodies[0].replaceChildren();
    byId("live").textContent = "";
    if (!view) return;
    await this.read(false);
    if (this.view === view && this.total <= STREAMED) this.listen();
  }

  listen() {
    this.events = new EventSource(`${pathOf(this.view.name)}/events`);
    this.events.addEventListener("changes", () => this.soon());
    this.events.addEventListener("snapshot", () => { byId("live").textContent = "live"; this.soon(); });
    this.events.onerror = () => { byId("live").textContent = "reconnecting"; };
  }

  /** What the figures of this second say of the view. */
  heard(figures) {
    if (!this.view || this.events || !figures) return;
    if (this.refreshes >= 0 && figures.refreshes !== this.refreshes) this.soon();
    this.refreshes = figures.refreshes;
  }

  /** Many changes within a moment are one reading. */
  soon() {
    this.timer ??= setTimeout(async () => {
      try { await this.read(true); } finally { this.timer = null; }
    }, PAUSE);
  }

  go(offset) {
    this.offset = Math.max(0, Math.min(offset, Math.max(this.total - 1, 0)));
    this.lines.clear();
    this.read(false);
  }

  sort(column) {
    this.order = this.order === column ? `-${column}` : column;
    this.go(0);
  }

  async read(isChange) {
    const turn = this.turn;
    const order = this.order ? `&order=${encodeURIComponent(this.order)}` : "";
    const page = await json(`${pathOf(this.view.name)}?limit=${PAGE}&offset=${this.offset}${order}`);
    if (turn !== this.turn) return;
    this.total = page.total;
    if (!this.table.tHead.rows.length) tableHead(this.table.tHead, page.columns);
    this.draw(page, isChange);
    const last = Math.min(this.offset + PAGE, page.total);
    const [from, to, all] = [page.total ? this.offset + 1 : 0, last, page.total].map((n) => n.toLocaleString("en"));
    byId("page-text").textContent = `${from} to ${to} of ${all}`;
    for (const id of ["first", "back"]) byId(id).disabled = this.offset === 0;
    for (const id of ["next", "last"]) byId(id).disabled = last >= page.total;
  }

  /** Rows that stood there already keep their element; new ones are lit. */
  draw(page, isChange) {
    const names = page.columns.map((column) => column.name);
    const isNumber = page.columns.map((column) => isNumeric(column.type));
    const lines = new Map();
    const shown = page.rows.map((row) => {
      const values = names.map((name) => row[name]);
      const copies = JSON.stringify(values);
      let key = copies;
      for (let copy = 2; lines.has(key); copy += 1) key = `${copies}#${copy}`;
      let line = this.lines.get(key);
      if (!line) {
        line = tableRow(values, isNumber);
        if (isChange && this.lines.size) line.className = "new";
      }
      lines.set(key, line);
      return line;
    });
    this.lines = lines;
    this.table.tBodies[0].replaceChildren(...shown);
  }
}
