// A view that is followed: `contents` comes from widget.py whenever the view has changed.

const COLORS = ["#3b82c4", "#d97b34", "#4b9b4b", "#9a6bbf", "#b58a2a", "#2a9c9c"];
const SVG = "http://www.w3.org/2000/svg";

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children.filter((child) => child !== null));
  return made;
}

function drawn(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function count(total, shown) {
  const rows = `${total.toLocaleString("en")} row${total === 1 ? "" : "s"}`;
  return shown < total ? `${rows}, the first ${shown}` : rows;
}

function titled(title, contents, shown, inside) {
  const small = element("small", {}, `${count(contents.total, shown)}, version ${contents.version}`);
  return [element("div", { class: "title" }, title, small), inside];
}

// Rows are known again by their key; without one by their place.
function identity(contents, row, position) {
  return contents.key.length ? JSON.stringify(contents.key.map((at) => row[at])) : String(position);
}

function table(title, contents, before) {
  const head = contents.columns.map((column) =>
    element("th", column.is_number ? { class: "number" } : {}, column.name,
      element("small", {}, column.type)));
  const seen = new Map();
  const rows = contents.rows.map((row, position) => {
    const key = identity(contents, row, position);
    const texts = contents.texts[position];
    const earlier = before === null ? texts : before.get(key);
    seen.set(key, texts);
    return element("tr", {}, ...texts.map((text, at) => {
      const marks = [];
      if (contents.columns[at].is_number) marks.push("number");
      if (text === null) marks.push("null");
      if (earlier === undefined || earlier[at] !== text) marks.push("lit");
      return element("td", { class: marks.join(" ") }, text === null ? "NULL" : text);
    }));
  });
  const made = element("table", {}, element("thead", {}, element("tr", {}, ...head)),
    element("tbody", {}, ...rows));
  return [titled(title, contents, rows.length, element("div", { class: "scroll" }, made)), seen];
}

function steps(low, high) {
  const rough = (high - low) / 4;
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((f) => f * size).find((s) => s >= rough);
  const marks = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step / 1e6; at += step) marks.push(at);
  return marks;
}

function plot(title, contents) {
  const [width, height, left, right, top, bottom] = [760, 280, 80, 16, 12, 34];
  const svg = drawn("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
  const values = contents.series.flatMap((one) => one.values.filter((value) => value !== null));
  const labels = contents.x.labels;
  if (values.length) {
    let [low, high] = [Math.min(...values), Math.max(...values)];
    if (contents.kind === "bar") [low, high] = [Math.min(low, 0), Math.max(high, 0)];
    if (low === high) [low, high] = [low - 1, high + 1];
    const y = (value) => top + ((high - value) / (high - low)) * (height - top - bottom);
    for (const mark of steps(low, high)) {
      svg.append(drawn("line", { class: "axis", x1: left, x2: width - right, y1: y(mark), y2: y(mark) }));
      svg.append(drawn("text", { x: left - 8, y: y(mark) + 4, "text-anchor": "end" },
        Number(mark.toPrecision(10)).toLocaleString("en")));
    }
    const inner = width - left - right;
    const spots = contents.kind === "bar" ? labels.map((_, i) => i) : contents.positions;
    const [first, last] = [Math.min(...spots), Math.max(...spots)];
    const band = inner / Math.max(1, labels.length);
    const x = contents.kind === "bar"
      ? (spot) => left + (spot + 0.5) * band
      : (spot) => left + (last === first ? 0.5 : (spot - first) / (last - first)) * inner;
    contents.series.forEach((one, number) => {
      const color = COLORS[number % COLORS.length];
      if (contents.kind === "bar") {
        const wide = (band * 0.8) / contents.series.length;
        one.values.forEach((value, i) => {
          if (value === null) return;
          const bar = drawn("rect", { x: x(i) - band * 0.4 + number * wide, width: wide,
            y: Math.min(y(value), y(0)), height: Math.abs(y(value) - y(0)), fill: color });
          bar.append(drawn("title", {}, `${labels[i]}: ${one.texts[i]}`));
          svg.append(bar);
        });
      } else {
        let path = "";
        let pen = "M";
        one.values.forEach((value, i) => {
          if (value === null) { pen = "M"; return; }
          path += `${pen}${x(spots[i]).toFixed(1)},${y(value).toFixed(1)}`;
          pen = "L";
        });
        svg.append(drawn("path", { d: path, fill: "none", stroke: color, "stroke-width": 2 }));
        if (one.values.length <= 60) one.values.forEach((value, i) => {
          if (value === null) return;
          const dot = drawn("circle", { cx: x(spots[i]), cy: y(value), r: 3, fill: color });
          dot.append(drawn("title", {}, `${labels[i]}: ${one.texts[i]}`));
          svg.append(dot);
        });
      }
    });
    const most = Math.max(1, Math.floor(inner / (10 + 7 * Math.max(...labels.map((l) => l.length)))));
    const every = Math.ceil(labels.length / most);
    let end = -Infinity;
    labels.forEach((label, i) => {
      const half = 3.5 * label.length;
      const at = Math.min(Math.max(x(spots[i]), half), width - half);
      if (i % every || at - half < end + 8) return;
      end = at + half;
      svg.append(drawn("text", { x: at, y: height - 12, "text-anchor": "middle" }, label));
    });
  }
  const names = contents.series.flatMap((one, number) => [
    element("span", {},
      element("i", { style: `background: ${COLORS[number % COLORS.length]}` }), one.name), " "]);
  const legend = element("div", { class: "legend" }, ...names, `by ${contents.x.name}`);
  return titled(title, contents, labels.length, element("div", {}, svg, legend));
}

function render({ model, el }) {
  const root = element("div", { class: "viewlet-live" });
  el.append(root);
  let before = null;
  function show() {
    const contents = model.get("contents");
    if (!contents || contents.version === undefined) return;
    if (contents.series) {
      root.replaceChildren(...plot(model.get("title"), contents));
    } else {
      const [parts, seen] = table(model.get("title"), contents, before);
      before = seen;
      root.replaceChildren(...parts);
    }
  }
  show();
  model.on("change:contents", show);
  model.on("change:title", show);
  return () => {
    model.off("change:contents", show);
    model.off("change:title", show);
  };
}

export default { render };
