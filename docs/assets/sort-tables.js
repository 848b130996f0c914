// Tables inside <div class="sortable"> are sorted by the column whose heading is clicked; numbers by their first number.
document.querySelectorAll(".sortable table").forEach((table) => {
  const body = table.tBodies[0];
  const value = (row, column) => {
    const text = row.cells[column].innerText.trim();
    const number = text.replace(/,/g, "").match(/-?\d+(\.\d+)?/);
    return number ? Number(number[0]) : text.toLowerCase();
  };
  Array.from(table.tHead.rows[0].cells).forEach((head, column) => {
    let up = false;
    const sort = () => {
      up = !up;
      const rows = Array.from(body.rows);
      rows.sort((one, other) => {
        const [a, b] = [value(one, column), value(other, column)];
        if (a === "" || b === "") return (a === "") - (b === "");
        const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
        return up ? order : -order;
      });
      rows.forEach((row) => body.append(row));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
    };
    head.tabIndex = 0;
    head.style.cursor = "pointer";
    head.title = "Sort";
    head.addEventListener("click", sort);
    head.addEventListener("keydown", (event) => event.key === "Enter" && sort());
  });
});
