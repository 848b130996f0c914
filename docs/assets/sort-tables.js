// Tables inside <div class="sortable"> are sorted by the column whose heading is clicked. A column with a number in each
// filled cell, such as "SNC 0.35", is sorted by these numbers, others by their text: "clevr6" has no number.
document.querySelectorAll(".sortable table").forEach((table) => {
  const body = table.tBodies[0];
  const texts = (column) => Array.from(body.rows, (row) => row.cells[column].innerText.trim().toLowerCase());
  const number = (text) => text.replace(/,(?=\d{3})/g, "").match(/(?<![^\s])-?\d+(\.\d+)?(?=[\s,]|$)/);
  Array.from(table.tHead.rows[0].cells).forEach((head, column) => {
    let up = false;
    const sort = () => {
      up = !up;
      const found = texts(column);
      const numeric = found.every((text) => text === "" || number(text));
      const rows = Array.from(body.rows, (row, index) => [row, found[index]]);
      rows.sort(([, a], [, b]) => {
        if (a === "" || b === "") return (a === "") - (b === "");
        const order = numeric ? Number(number(a)[0]) - Number(number(b)[0]) : a.localeCompare(b);
        return up ? order : -order;
      });
      rows.forEach(([row]) => body.append(row));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
    };
    head.tabIndex = 0;
    head.style.cursor = "pointer";
    head.title = "Sort";
    head.addEventListener("click", sort);
    head.addEventListener("keydown", (event) => event.key === "Enter" && sort());
  });
});
