// Sorts a table by the column whose heading is clicked.
"use strict";

function makeSortable() {
  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    const body = table.tBodies[0];
    heads.forEach((head, column) => {
      head.querySelector("button")?.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") !== "descending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const key = (row) => row.cells[column].dataset.order;
        const compare = (a, b) => (key(a) !== undefined && key(b) !== undefined
          ? Number(key(a)) - Number(key(b))
          : textIn(a, column).localeCompare(textIn(b, column)));
        body.append(...[...body.rows].sort((a, b) => (down ? compare(b, a) : compare(a, b))));
      });
    });
  }
}

function textIn(row, column) { return row.cells[column].textContent; }

makeSortable();
