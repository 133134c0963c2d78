// The program of a view as the server draws it; dragging pans, the wheel zooms.

import { pathOf, text } from "./api.js";

export class GraphPane {
  constructor(host) {
    this.host = host;
    this.box = null;
    host.addEventListener("pointerdown", (event) => this.grab(event));
    host.addEventListener("wheel", (event) => this.zoom(event), { passive: false });
    host.addEventListener("dblclick", () => this.fit());
  }

  async show(name) {
    const drawing = await text(`${pathOf(name)}/graph`);
    const parsed = new DOMParser().parseFromString(drawing, "image/svg+xml").documentElement;
    const keep = this.name === name ? this.box : null;
    this.name = name;
    this.whole = parsed.getAttribute("viewBox").split(" ").map(Number);
    parsed.removeAttribute("width");
    parsed.removeAttribute("height");
    this.host.replaceChildren(parsed);
    if (keep) { this.box = keep; this.apply(); } else this.fit();
  }

  fit() { this.box = [...this.whole]; this.apply(); }

  apply() { this.host.firstElementChild?.setAttribute("viewBox", this.box.join(" ")); }

  /** How many units of the drawing a pixel is. */
  scale() {
    const { width, height } = this.host.getBoundingClientRect();
    return Math.max(this.box[2] / width, this.box[3] / height);
  }

  grab(event) {
    if (!this.box) return;
    const [x, y] = [event.clientX, event.clientY], [left, top] = this.box, scale = this.scale();
    const move = (to) => {
      this.box[0] = left - (to.clientX - x) * scale;
      this.box[1] = top - (to.clientY - y) * scale;
      this.apply();
    };
    const end = () => { removeEventListener("pointermove", move); removeEventListener("pointerup", end); };
    addEventListener("pointermove", move);
    addEventListener("pointerup", end);
  }

  zoom(event) {
    if (!this.box) return;
    event.preventDefault();
    const factor = Math.exp(event.deltaY / 600);
    const { left, top, width, height } = this.host.getBoundingClientRect();
    const [atX, atY] = [(event.clientX - left) / width, (event.clientY - top) / height];
    this.box[0] += this.box[2] * atX * (1 - factor);
    this.box[1] += this.box[3] * atY * (1 - factor);
    this.box[2] *= factor;
    this.box[3] *= factor;
    this.apply();
  }
}
