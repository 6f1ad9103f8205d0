"use strict";
// Tables: what a cell shows, and the order of the rows. The tables are complete without this script.

const SHOWN = ["ours", "published", "difference", "all"];

class TableView {
  constructor(root) {
    this.table = root.querySelector("table");
    this.body = this.table.tBodies[0];
    this.rows = [...this.body.rows];
    this.rows.forEach((row, i) => (row.dataset.position = i));
    this.shown = this.table.dataset.shown;
    if (this.shown === "all") {
      const labels = ["Ours", "Published", "Difference", "All"];
      choice(root.querySelector(".table-head"), "Shown in each cell", labels, 3, (i) => this.show(SHOWN[i]));
    }
    this.heads = [...this.table.querySelectorAll("th[data-column]")];
    for (const head of this.heads) this.makeButton(head);
  }

  makeButton(head) {
    const button = element("button", "sort", null, head.textContent.trim());
    button.type = "button";
    button.title = `Sort by ${head.dataset.title}`;
    button.setAttribute("aria-label", `${head.dataset.title}: sort`);
    head.replaceChildren(button);
    head.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => this.sort(head));
  }

  show(shown) {
    this.shown = shown;
    this.table.dataset.shown = shown;
    const sorted = this.heads.find((head) => head.getAttribute("aria-sort") !== "none");
    if (sorted) this.order(sorted);
  }

  /** Highest first, then lowest first; the names of the rows go back to the order given, then the reverse. */
  sort(head) {
    const first = head.dataset.column === "-1" ? "ascending" : "descending";
    const second = first === "ascending" ? "descending" : "ascending";
    const next = head.getAttribute("aria-sort") === first ? second : first;
    for (const other of this.heads) other.setAttribute("aria-sort", other === head ? next : "none");
    this.order(head);
  }

  order(head) {
    const column = Number(head.dataset.column);
    const sign = head.getAttribute("aria-sort") === "descending" ? -1 : 1;
    const keyed = this.rows.map((row) => ({ row, key: this.key(row, column) }));
    const position = (item) => Number(item.row.dataset.position);
    keyed.sort((a, b) => {
      if (Number.isNaN(a.key) || Number.isNaN(b.key)) return Number.isNaN(a.key) - Number.isNaN(b.key) || position(a) - position(b);
      return sign * (a.key - b.key) || position(a) - position(b);
    });
    this.body.append(...keyed.map((item) => item.row));
  }

  /** The number a row is sorted by; rows without one come last. */
  key(row, column) {
    if (column < 0) return Number(row.dataset.position);
    const value = row.cells[column + 1].dataset[this.shown === "all" ? "ours" : this.shown];
    return value === "" ? NaN : Number(value);
  }
}

for (const root of document.querySelectorAll(".grid-table")) new TableView(root);
