// Tables: a click on a heading sorts, the field above filters.
for (const table of document.querySelectorAll("table[data-table]")) {
  const body = table.tBodies[0];
  table.querySelectorAll("th").forEach((th, column) => {
    th.dataset.sort = "";
    th.addEventListener("click", () => {
      const up = th.dataset.sort !== "up";
      table.querySelectorAll("th").forEach(other => { other.dataset.sort = ""; });
      th.dataset.sort = up ? "up" : "down";
      const key = row => { const c = row.cells[column]; return c.dataset.v ?? c.textContent.trim(); };
      const rows = [...body.rows].sort((a, b) => {
        const x = key(a), y = key(b), n = Number(x) - Number(y);
        return (Number.isNaN(n) ? x.localeCompare(y) : n) * (up ? 1 : -1);
      });
      body.append(...rows);
    });
  });
  const search = document.querySelector(`input[data-for="${table.id}"]`);
  search?.addEventListener("input", () => {
    const want = search.value.toLowerCase();
    for (const row of body.rows) row.hidden = !row.textContent.toLowerCase().includes(want);
  });
}
