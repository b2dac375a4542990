// Draws the charts of the page: axes, legend, tooltips, zoom. No library, no network.
"use strict";

const MARGIN = { left: 56, right: 18, top: 8, bottom: 36 };
const tip = document.getElementById("tip");

class Panel {
  constructor(chart, panel, home) {
    Object.assign(this, { chart, panel, home, zoom: null });
    const title = document.createElement("h4");
    title.textContent = panel.title;
    this.reset = document.createElement("button");
    Object.assign(this.reset, { className: "reset", textContent: "reset zoom", hidden: true, type: "button" });
    this.reset.onclick = () => this.chart.zoomTo(this, null);
    this.svg = node("svg", { tabindex: 0, role: "img", "aria-label": `${chart.data.title}. ${panel.title}` });
    home.append(title, this.svg, this.reset);
    this.listen();
  }

  marks() { return this.panel.marks.filter((mark) => !this.chart.hidden.has(mark.name)); }

  draw(width = this.home.clientWidth) {
    const { x, y } = this.panel;
    const named = y.names.length;
    const longest = Math.max(...y.names.map((n) => n.length));
    const left = named ? Math.min(120, (y.label ? 30 : 14) + 6.4 * longest) : MARGIN.left;
    const height = named ? 60 + 34 * named : this.chart.data.wide ? 250 : 230;
    const view = this.zoom ?? { x: [x.low, x.high], y: [y.low, y.high] };
    const box = { x, y, left, right: width - MARGIN.right, top: MARGIN.top, bottom: height - MARGIN.bottom };
    box.sx = scaleOf(x, view.x, box.left, box.right);
    box.sy = named ? scaleOf(y, view.y, box.top, box.bottom) : scaleOf(y, view.y, box.bottom, box.top);
    this.svg.replaceChildren();
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.axes(box, view);
    const clip = `clip-${this.chart.data.key}-${this.chart.panels.indexOf(this)}`;
    const area = { x: box.left, y: box.top, width: Math.max(0, box.right - box.left), height: box.bottom - box.top };
    node("rect", area, node("clipPath", { id: clip }, this.svg));
    box.layer = node("g", { "clip-path": `url(#${clip})` }, this.svg);
    box.group = 0;
    box.groups = this.marks().filter((mark) => mark.kind === "bars").length;
    for (const mark of this.marks()) MARKS[mark.kind](mark, box);
    box.over = node("g", {}, this.svg);
    this.box = box;
    this.reset.hidden = !this.zoom;
  }

  axes(box, view) {
    const { x, y } = this.panel;
    for (const v of ticksOf(y, view.y, 5)) {
      const p = box.sy(v);
      if (!y.names.length) node("line", { class: "grid", x1: box.left, x2: box.right, y1: p, y2: p }, this.svg);
      const text = y.names.length ? y.names[v].slice(0, 18) : textOf(y, v);
      node("text", { x: box.left - 6, y: p + 4, "text-anchor": "end" }, this.svg, text);
    }
    for (const v of ticksOf(x, view.x, (box.right - box.left) / 80)) {
      const p = box.sx(v);
      node("line", { class: "axis", x1: p, x2: p, y1: box.bottom, y2: box.bottom + 4 }, this.svg);
      node("text", { x: p, y: box.bottom + 16, "text-anchor": "middle" }, this.svg, textOf(x, v));
    }
    node("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }, this.svg);
    node("text", { x: box.right, y: box.bottom + 31, "text-anchor": "end" }, this.svg, x.label);
    const side = { x: 11, y: box.top, "text-anchor": "end", transform: `rotate(-90 11 ${box.top})` };
    if (y.label) node("text", side, this.svg, y.label);
  }

  at(event) {
    const frame = this.svg.getBoundingClientRect();
    const ratio = this.svg.viewBox.baseVal.width / frame.width;
    return [(event.clientX - frame.left) * ratio, (event.clientY - frame.top) * ratio];
  }

  listen() {
    this.svg.addEventListener("pointerdown", (event) => { this.from = this.at(event); });
    this.svg.addEventListener("pointermove", (event) => {
      const here = this.at(event);
      if (this.from && event.buttons) { this.frame(here); this.svg.setPointerCapture(event.pointerId); }
      else this.point(here, event);
    });
    this.svg.addEventListener("pointerup", (event) => {
      const [from, here] = [this.from, this.at(event)];
      this.from = null;
      this.chosen?.remove();
      if (from) this.zoomBetween(from, here);
      this.point(here, event);
    });
    this.svg.addEventListener("pointercancel", () => { this.from = null; this.chosen?.remove(); });
    this.svg.addEventListener("pointerleave", (event) => {
      if (event.pointerType !== "touch") this.leave(); // a finger leaves when it is lifted
    });
    this.svg.addEventListener("blur", () => this.leave());
    this.svg.addEventListener("dblclick", () => this.chart.zoomTo(this, null));
    this.svg.addEventListener("keydown", (event) => this.key(event));
  }

  /** The rectangle of a drag; a nearly straight drag selects the full range of the other axis. */
  dragged([x0, y0], [x1, y1]) {
    const { left, right, top, bottom } = this.box;
    const xs = [x0, x1].map((v) => clamp(v, left, right)).sort((a, b) => a - b);
    const ys = [y0, y1].map((v) => clamp(v, top, bottom)).sort((a, b) => a - b);
    const flat = ys[1] - ys[0] < 24 || this.panel.y.names.length;
    return { xs: xs[1] - xs[0] < 12 ? [left, right] : xs, ys: flat ? [top, bottom] : ys };
  }

  frame(here) {
    const { xs, ys } = this.dragged(this.from, here);
    this.chosen?.remove();
    const area = { x: xs[0], y: ys[0], width: xs[1] - xs[0], height: ys[1] - ys[0] };
    this.chosen = node("rect", { class: "chosen", ...area }, this.box.over);
    tip.hidden = true;
  }

  zoomBetween(from, here) {
    if (Math.abs(from[0] - here[0]) < 12 && Math.abs(from[1] - here[1]) < 24) return;
    const { xs, ys } = this.dragged(from, here);
    const x = xs.map(this.box.sx.back);
    const y = (this.panel.y.names.length ? ys : [...ys].reverse()).map(this.box.sy.back);
    if (x[1] > x[0] && y[1] > y[0]) this.chart.zoomTo(this, { x, y });
  }

  key(event) {
    const lines = this.marks().filter((mark) => mark.kind === "line" && mark.x.length);
    if (event.key === "Escape") this.chart.zoomTo(this, null);
    if (!lines.length || !["ArrowLeft", "ArrowRight"].includes(event.key)) return;
    event.preventDefault();
    const xs = lines[0].x;
    this.index = clamp((this.index ?? -1) + (event.key === "ArrowRight" ? 1 : -1), 0, xs.length - 1);
    const frame = this.svg.getBoundingClientRect();
    const px = this.box.sx(xs[this.index]);
    this.point([px, this.box.top + 10], { clientX: frame.left + px, clientY: frame.top + 20 });
  }

  point([px, py], event) {
    const box = this.box;
    box.over.replaceChildren();
    if (px < box.left - 2 || px > box.right + 2 || py < box.top || py > box.bottom) { tip.hidden = true; return; }
    const text = textUnder(this.marks(), box, px, py) ?? this.valuesAt(px);
    if (!text) { tip.hidden = true; return; }
    showTip(text, event);
    tip.panel = this;
  }

  /** The raw and smoothed value of every curve at the x nearest to the pointer. */
  valuesAt(px) {
    const box = this.box;
    const lines = this.marks().filter((mark) => mark.kind === "line" && mark.x.length);
    if (!lines.length) return null;
    const x = lines.map((m) => m.x[nearestIndex(m.x, box.sx.back(px))])
      .reduce((a, b) => (Math.abs(box.sx(a) - px) <= Math.abs(box.sx(b) - px) ? a : b));
    node("line", { class: "cursor", x1: box.sx(x), x2: box.sx(x), y1: box.top, y2: box.bottom }, box.over);
    const rows = new Map();
    for (const mark of lines) {
      const i = nearestIndex(mark.x, x);
      if (mark.x[i] !== x && this.panel.x.unit === "cycle") continue;
      const value = mark.y[i];
      const text = textOf(this.panel.y, value, true);
      if (mark.faint) rows.set(mark.name, text);
      else rows.set(mark.name, rows.has(mark.name) ? `${rows.get(mark.name)} (smoothed ${text})` : text);
      if (value === null || mark.faint) continue;
      const cy = clamp(box.sy(value), box.top, box.bottom);
      node("circle", { class: `solid ${toneClass(mark.tone)}`, cx: box.sx(x), cy, r: 3.5 }, box.over);
    }
    const head = `${this.panel.x.label} ${textOf(this.panel.x, x, true)}`;
    return [head, ...[...rows].map(([name, text]) => `${name}: ${text}`)].join("\n");
  }

  leave() {
    this.box?.over.replaceChildren();
    if (tip.panel === this) tip.hidden = true; // otherwise another panel owns it by now
  }
}

function showTip(text, event) {
  const content = document.createElement("div");
  content.textContent = text;
  tip.replaceChildren(content);
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  tip.style.left = `${clamp(event.clientX + 14, 4, Math.max(4, innerWidth - width - 4))}px`;
  const above = event.clientY - height - 12;
  tip.style.top = `${above > 4 ? above : event.clientY + 18}px`;
}

class Chart {
  constructor(data, before) {
    this.data = data;
    this.hidden = before?.hidden ?? new Set();
    this.home = document.getElementById(`chart-${data.key}`);
    this.panels = data.panels.map((panel) => {
      const home = document.createElement("div");
      home.className = "panel";
      this.home.querySelector(".panels").append(home);
      return new Panel(this, panel, home);
    });
    if (before?.panels.length === this.panels.length)
      this.panels.forEach((panel, i) => { panel.zoom = before.panels[i].zoom; });
    this.legend();
  }

  legend() {
    const tones = new Map();
    for (const { marks } of this.data.panels)
      for (const mark of marks) if (mark.tone !== undefined) tones.set(mark.name, mark.tone);
    if (tones.size < 2) return;
    for (const [name, tone] of tones) {
      const button = document.createElement("button");
      const swatch = document.createElement("span");
      swatch.className = `swatch ${toneClass(tone)}`;
      Object.assign(button, { type: "button", title: "show or hide" });
      button.setAttribute("aria-pressed", String(!this.hidden.has(name)));
      button.append(swatch, name);
      button.onclick = () => {
        const shown = this.hidden.has(name);
        this.hidden[shown ? "delete" : "add"](name);
        button.setAttribute("aria-pressed", String(shown));
        this.draw();
      };
      this.home.querySelector(".legend").append(button);
    }
  }

  /** Panels over cycles zoom to the same x range together; the y axes of the others keep their full range. */
  zoomTo(source, view) {
    for (const panel of this.panels) {
      const linked = source.panel.x.unit === "cycle" && panel.panel.x.unit === "cycle";
      const { low, high } = panel.panel.y;
      if (panel === source) panel.zoom = view;
      else if (linked) panel.zoom = view && { x: view.x, y: [low, high] };
    }
    this.draw();
  }

  draw(width) { for (const panel of this.panels) panel.draw(width); }
}

let charts = [];

/** Makes the charts of the page; those that were there before keep their zoom and what is hidden. */
function makeCharts() {
  const before = new Map(charts.map((chart) => [chart.data.key, chart]));
  charts = JSON.parse(document.getElementById("charts").textContent)
    .map((data) => new Chart(data, before.get(data.key)));
  drawAll();
}

const drawAll = (width) => charts.forEach((chart) => chart.draw(width));
let due;
addEventListener("pointerdown", (event) => charts.forEach((chart) => chart.panels.forEach((panel) => {
  if (!panel.svg.contains(event.target)) panel.leave();
})));
addEventListener("resize", () => { cancelAnimationFrame(due); due = requestAnimationFrame(() => drawAll()); });
addEventListener("beforeprint", () => charts.forEach((chart) => {
  const aside = !chart.data.wide && chart.panels.length > 1;
  chart.draw(aside ? 350 : 700);
}));
addEventListener("afterprint", () => drawAll());
makeCharts();
