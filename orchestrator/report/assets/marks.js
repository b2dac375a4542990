// How each kind of mark is drawn, and the text it shows under the pointer.
"use strict";

function node(name, attributes, parent, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  if (parent) parent.append(made);
  return made;
}

const toneClass = (tone) => (typeof tone === "number" ? `tone-${tone % 8}${tone >= 8 ? " again" : ""}` : `tone-${tone}`);
const clamp = (v, low, high) => Math.min(Math.max(v, low), high);

/** A small triangle at the upper or lower edge, for a point outside the axis. */
function edge(box, px, up, tone) {
  const place = up ? `M${px} ${box.top + 1}l-3.5 5h7z` : `M${px} ${box.bottom - 1}l-3.5 -5h7z`;
  node("path", { class: `solid beyond ${toneClass(tone)}`, d: place }, box.layer);
}

const MARKS = {
  line(mark, box) {
    let path = "";
    let pen = false;
    let beyond = 0;
    mark.x.forEach((x, i) => {
      const y = mark.y[i];
      if (y === null || (box.y.log && y <= 0)) { pen = false; return; }
      const px = box.sx(x);
      const raw = box.sy(y);
      const py = clamp(raw, box.top - 40, box.bottom + 40);
      path += `${pen ? "L" : "M"}${px.toFixed(1)} ${py.toFixed(1)}`;
      pen = true;
      const out = raw < box.top - 1 ? 1 : raw > box.bottom + 1 ? -1 : 0;
      if (out && px >= box.left && px <= box.right && beyond++ < 80) edge(box, px, out > 0, mark.tone);
      if (mark.dots && !out) node("circle", { class: `solid ${toneClass(mark.tone)}`, cx: px, cy: py, r: 3.5 }, box.layer);
    });
    node("path", { class: `curve ${mark.faint ? "faint" : ""} ${toneClass(mark.tone)}`, d: path }, box.layer);
  },
  dots(mark, box) {
    const r = mark.x.length < 20 ? 5 : 2.6;
    mark.x.forEach((x, i) => {
      const px = clamp(box.sx(x), box.left, box.right - 3);
      const py = clamp(box.sy(mark.y[i]), box.top + 3, box.bottom);
      node("circle", { class: `dot ${toneClass(mark.tone)}`, cx: px.toFixed(1), cy: py.toFixed(1), r }, box.layer);
    });
  },
  cells(mark, box) {
    mark.bounds.forEach(([x0, x1, y0, y1], i) => {
      const [left, right] = [box.sx(x0), box.sx(x1)];
      const [top, bottom] = [box.sy(y1), box.sy(y0)];
      node("rect", { class: "cell", x: left, y: top, width: right - left, height: bottom - top,
        "fill-opacity": (0.04 + 0.96 * mark.shade[i]).toFixed(2) }, box.layer);
      const lines = mark.labels.length ? mark.labels[i].split("\n") : [];
      lines.forEach((line, n) => {
        const y = (top + bottom) / 2 + 4 + 14 * (n - (lines.length - 1) / 2);
        node("text", { class: n ? "label" : "label first", x: left + 6, y }, box.layer, line);
      });
    });
  },
  bars(mark, box) {
    const size = 0.8 / box.groups;
    mark.values.forEach((value, i) => {
      const top = box.sy(i - 0.4 + size * box.group);
      const bottom = box.sy(i - 0.4 + size * (box.group + 1));
      node("rect", { class: `solid ${toneClass(mark.tone)}`, x: box.sx(0), y: Math.min(top, bottom),
        width: Math.max(0, box.sx(value) - box.sx(0)), height: Math.abs(bottom - top) * 0.92 }, box.layer);
    });
    box.group += 1;
  },
  level(mark, box) {
    const across = mark.along === "x";
    const p = across ? box.sy(mark.at) : box.sx(mark.at);
    const ends = across ? { x1: box.left, x2: box.right, y1: p, y2: p } : { x1: p, x2: p, y1: box.top, y2: box.bottom };
    node("line", { class: "level", ...ends }, box.layer);
    const place = across ? { x: box.right - 4, y: p - 4, "text-anchor": "end" } : { x: p - 4, y: box.top + 12, "text-anchor": "end" };
    node("text", place, box.layer, mark.text);
  },
  span(mark, box) {
    const left = Math.max(box.sx(mark.low), box.left);
    const right = Math.min(box.sx(mark.high), box.right);
    if (right <= left) return;
    node("rect", { class: "span", x: left, y: box.top, width: right - left, height: box.bottom - box.top }, box.layer);
    node("text", { x: left + 4, y: box.top + 12 }, box.layer, mark.text);
  },
};

/** The text of the dot, cell or bar under the pointer; null if there is none. */
function textUnder(marks, box, px, py) {
  let best = null;
  let nearest = 14 ** 2;
  let group = 0;
  for (const mark of marks) {
    if (mark.kind === "dots") {
      mark.x.forEach((x, i) => {
        const dx = clamp(box.sx(x), box.left, box.right) - px;
        const dy = clamp(box.sy(mark.y[i]), box.top, box.bottom) - py;
        if (dx * dx + dy * dy < nearest) { nearest = dx * dx + dy * dy; best = mark.texts[i] ?? mark.name; }
      });
    } else if (mark.kind === "cells" && nearest === 14 ** 2) {
      const i = mark.bounds.findIndex(([x0, x1, y0, y1]) =>
        px >= box.sx(x0) && px < box.sx(x1) && py >= box.sy(y1) && py < box.sy(y0));
      if (i >= 0) best = mark.texts[i];
    } else if (mark.kind === "bars") {
      const place = box.sy.back(py);
      const i = Math.round(place);
      const within = Math.floor((place - i + 0.4) / (0.8 / box.groups));
      if (within === group && mark.texts[i]) best = mark.texts[i];
      group += 1;
    }
  }
  return best;
}
