"use strict";
// Tables sort by a click on a column's name; numbers by size, words by the alphabet, what is empty comes last.
function sorted(table, column, ascending) {
  const body = table.tBodies[0];
  const by = (row) => row.cells[column].dataset.by;
  const numeric = table.tHead.rows[0].cells[column].classList.contains("number");
  const order = (left, right) => {
    const a = by(left), b = by(right);
    if (a === undefined || b === undefined) return (a === undefined) - (b === undefined);
    const sign = numeric ? Number(a) - Number(b) : a.localeCompare(b, "en", { numeric: true });
    return ascending ? sign : -sign;
  };
  body.append(...Array.from(body.rows).sort(order));
}
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = Array.from(table.tHead.rows[0].cells);
  heads.forEach((head, column) => {
    head.querySelector("button").addEventListener("click", () => {
      const ascending = head.getAttribute("aria-sort") !== "ascending";
      heads.forEach((each) => each.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
      sorted(table, column, ascending);
    });
  });
}
