// The page: what there is on the left, one view on the right; once a second the newest figures.

import { json, pathOf, text } from "./api.js";
import { startEditor } from "./editor.js";
import { bytes, clock, count, element, milliseconds, tableRow } from "./format.js";
import { GraphPane } from "./graph.js";
import { drawPlots } from "./plots.js";
import { RowsPane } from "./rows.js";

const SAMPLES = 600;
const byId = (id) => document.getElementById(id);
const rows = new RowsPane();
const graph = new GraphPane(byId("graph"));
const page = { listed: [], figures: {}, samples: [], selected: null, pane: "rows", version: -1, since: 0 };

// --- what there is ------------------------------------------------------------------------------

async function list() {
  const { views, tables } = await json("/views");
  page.listed = [...views, ...tables];
  drawNames();
  if (!page.listed.some((item) => item.name === page.selected?.name)) {
    const named = decodeURIComponent(location.hash.slice(1));
    select(views.find((view) => view.name === named) ?? views[0] ?? null);
  }
}

function drawNames() {
  const pattern = byId("filter").value.toLowerCase();
  byId("names").replaceChildren(...page.listed
    .filter((item) => item.name.toLowerCase().includes(pattern))
    .map((item) => {
      const line = element("li");
      line.dataset.name = item.name;
      line.ariaSelected = item.name === page.selected?.name;
      line.append(element("span", item.name, "name"), element("span", item.kind === "view" ? "" : item.kind, "rate"));
      if (item.kind === "view") line.onclick = () => select(item);
      else line.title = item.sql;
      return line;
    }));
}

function select(view) {
  page.selected = view;
  if (view) location.hash = encodeURIComponent(view.name);
  byId("view-name").textContent = view?.name ?? "no view yet";
  byId("definition-text").textContent = view?.sql ?? "";
  for (const line of byId("names").children) line.ariaSelected = line.dataset.name === view?.name;
  rows.show(view).catch(fail);
  drawView();
  showPane(page.pane);
}

// --- one view -----------------------------------------------------------------------------------

function showPane(pane) {
  page.pane = pane;
  for (const button of byId("panes").children) button.ariaSelected = button.dataset.pane === pane;
  for (const part of document.querySelectorAll(".pane")) part.hidden = part.id !== pane;
  refreshPane();
}

function refreshPane() {
  const name = page.selected?.name;
  if (!name) return;
  if (page.pane === "program") graph.show(name).catch(fail);
  if (page.pane === "maintenance") {
    text(`${pathOf(name)}/explain?stage=maintenance`)
      .then((explained) => { byId("maintenance-text").textContent = explained; }).catch(fail);
  }
}

function drawView() {
  const figures = page.figures[page.selected?.name];
  byId("mode").textContent = figures?.mode ?? "";
  byId("mode").title = figures?.reason ?? "";
  byId("view-figures").textContent = figures
    ? `${count(figures.refreshes)} batches, p50 ${milliseconds(figures.p50_ms)}, p99 ${milliseconds(figures.p99_ms)}, ${bytes(figures.bytes)}` +
      (figures.pending_rows ? `, ${count(figures.pending_rows)} rows wait` : "")
    : "";
  rows.heard(figures);
}

// --- figures ------------------------------------------------------------------------------------

async function tick() {
  const answer = await json(`/figures?since=${Math.floor(page.since)}`);
  const before = page.figures;
  page.figures = answer.views;
  page.samples.push(...answer.samples.filter((sample) => sample.time > page.since));
  page.samples.splice(0, page.samples.length - SAMPLES);
  const newest = page.samples.at(-1);
  if (newest) {
    page.since = newest.time;
    byId("rows-in").textContent = `${count(newest.rows_in_per_s)}/s`;
    byId("rows-out").textContent = `${count(newest.rows_out_per_s)}/s`;
    byId("p50").textContent = milliseconds(newest.p50_ms);
    byId("p99").textContent = milliseconds(newest.p99_ms);
    byId("bytes").textContent = bytes(newest.bytes);
  }
  for (const line of byId("names").children) {
    const figures = page.figures[line.dataset.name];
    if (!figures) continue;
    const rate = figures.refreshes - (before[line.dataset.name]?.refreshes ?? figures.refreshes);
    line.lastElementChild.textContent = rate ? `${count(rate)}/s` : figures.mode === "eager" ? "" : figures.mode;
    line.classList.toggle("changed", rate > 0);
  }
  drawView();
  if (answer.definitions !== page.version) { page.version = answer.definitions; await list(); }
  if (!byId("activity").hidden) await drawActivity();
  if (page.pane === "program" && !byId("views").hidden && page.ticks % 5 === 0) refreshPane();
  page.ticks = (page.ticks ?? 0) + 1;
}

async function drawActivity() {
  drawPlots(byId("plots"), page.samples);
  const { batches, checkpoints } = await json("/history");
  byId("batches").tBodies[0].replaceChildren(...batches.map((batch) =>
    tableRow([batch.version, clock(batch.time), batch.relations.join(", "), batch.rows, batch.ms.toFixed(3)],
      [false, false, false, true, true])));
  byId("checkpoints").tBodies[0].replaceChildren(...checkpoints.map((made) =>
    tableRow([clock(made.time), made.version, made.directory], [])));
}

function fail(failure) {
  byId("live").textContent = failure.message;
}

async function run() {
  for (;;) {
    try {
      await tick();
      byId("connection").className = "";
      byId("connection").title = "connected";
    } catch (failure) {
      byId("connection").className = "lost";
      byId("connection").title = failure.message;
    }
    await new Promise((resolve) => setTimeout(resolve, document.hidden ? 5000 : 1000));
  }
}

// --- the frame ----------------------------------------------------------------------------------

function dress(theme) {
  document.documentElement.dataset.theme = theme;
  localStorage.setItem("viewlet-theme", theme);
}

dress(localStorage.getItem("viewlet-theme") ??
  (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
byId("theme").onclick = () => dress(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
byId("filter").oninput = drawNames;
byId("panes").onclick = (event) => { if (event.target.dataset.pane) showPane(event.target.dataset.pane); };
byId("tabs").onclick = (event) => {
  const tab = event.target.dataset.tab;
  if (!tab) return;
  for (const button of byId("tabs").children) button.ariaSelected = button.dataset.tab === tab;
  for (const part of document.querySelectorAll(".tab")) part.hidden = part.id !== tab;
  if (tab === "activity") drawActivity().catch(fail);
};
startEditor(() => list().catch(fail));
run();
