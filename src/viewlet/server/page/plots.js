// Figures over the last minutes as lines. Each plot names its series, its newest and greatest value.

import { bytes, count, element, milliseconds } from "./format.js";

const PLOTS = [
  { title: "rows in, a second", shown: count, series: ["rows_in_per_s"] },
  { title: "rows out, a second", shown: count, series: ["rows_out_per_s"] },
  { title: "batches a second", shown: count, series: ["batches_per_s"] },
  { title: "a batch", shown: milliseconds, series: ["p50_ms", "p99_ms"], names: ["p50", "p99"] },
  { title: "state", shown: bytes, series: ["bytes"] },
];
const WIDTH = 300, HEIGHT = 100;
const GRID = [0, 0.5, 1].map((part) => (2 + (HEIGHT - 4) * part).toFixed(0)).map((y) =>
  `<path d="M0 ${y}H${WIDTH}" stroke="var(--line)" vector-effect="non-scaling-stroke"/>`).join("");
const COLORS = ["var(--accent)", "var(--bad)"];

export function drawPlots(host, samples) {
  host.replaceChildren(...PLOTS.map((plot) => drawn(plot, samples)));
}

const ago = (seconds) => (seconds < 90 ? `${Math.round(seconds)} s ago` : `${Math.round(seconds / 60)} min ago`);

function drawn({ title, shown, series, names }, samples) {
  const values = series.map((name) => samples.map((sample) => sample[name]));
  const top = Math.max(...values.flat(), 1e-9);
  const figure = element("figure");
  const caption = element("figcaption");
  caption.append(element("span", title));
  values.forEach((line, at) => {
    const newest = element("b", `${names ? `${names[at]} ` : ""}${shown(line.at(-1) ?? 0)}`);
    newest.style.color = COLORS[at];
    caption.append(newest);
  });
  const first = samples[0]?.time ?? 0;
  const span = Math.max((samples.at(-1)?.time ?? 0) - first, 1);
  const path = (line) => line.map((value, at) =>
    `${at ? "L" : "M"}${(WIDTH * (samples[at].time - first) / span).toFixed(1)} ` +
    `${(HEIGHT - 2 - (HEIGHT - 6) * value / top).toFixed(1)}`).join("");
  const lines = values.map((line, at) =>
    `<path d="${path(line)}" fill="none" stroke="${COLORS[at]}" stroke-width="1.5" vector-effect="non-scaling-stroke"/>`);
  const axis = element("div", "", "axis");
  axis.append(element("span", ago((samples.at(-1)?.time ?? 0) - first)), element("span", `at most ${shown(top)}`));
  figure.append(caption);
  figure.insertAdjacentHTML("beforeend",
    `<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" role="img">${GRID}${lines.join("")}</svg>`);
  figure.append(axis);
  return figure;
}
