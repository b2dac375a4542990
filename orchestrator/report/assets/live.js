// Keeps a page of `holdfast watch` current: the state of the run, and the report when cycles commit.
"use strict";

const ASK_MS = 1000;
const strip = document.getElementById("live");
let version = null;

function element(tag, text, kind) {
  const made = document.createElement(tag);
  made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

function showState(state) {
  const top = document.createElement("p");
  top.append(element("b", state.state, `state ${state.state}`), ...state.facts.map((fact) => element("span", fact)));
  const rows = state.arms.map((arm) => {
    const row = document.createElement("tr");
    row.append(...arm.map((text) => element("td", text)));
    return row;
  });
  const table = document.createElement("table");
  const head = document.createElement("tr");
  head.append(...state.columns.map((name) => element("th", name)));
  table.append(head, ...rows);
  const frame = element("div", "", "table");
  frame.append(table);
  strip.replaceChildren(top, ...state.reasons.map((text) => element("p", text, "reason")), frame);
}

/** Puts the parts of a newer page in place; the reader keeps position, zoom and open details. */
async function takeNewPage() {
  const text = await (await fetch("/")).text();
  const page = new DOMParser().parseFromString(text, "text/html");
  const open = [...document.querySelectorAll("details")].map((one) => one.open);
  for (const tag of ["header", "main", "footer"])
    document.querySelector(tag).replaceWith(document.importNode(page.querySelector(tag), true));
  document.getElementById("charts").textContent = page.getElementById("charts").textContent;
  document.querySelectorAll("details").forEach((one, i) => { one.open = open[i] ?? false; });
  tip.hidden = true;
  makeCharts();
  makeSortable();
}

async function ask() {
  try {
    const state = await (await fetch("/state")).json();
    showState(state);
    if (version !== null && state.version !== version) await takeNewPage();
    version = state.version;
    strip.classList.remove("away");
  } catch {
    strip.classList.add("away");
    strip.replaceChildren(element("p", "No answer from holdfast watch. Start it again; this page then goes on by itself."));
  }
  setTimeout(ask, ASK_MS);
}
ask();
