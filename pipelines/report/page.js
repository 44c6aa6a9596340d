"use strict";
// Light or dark: what was chosen last, else what the system prefers.
const root = document.documentElement;
const recall = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
const dark = matchMedia("(prefers-color-scheme: dark)");
const paint = () => { root.dataset.theme = recall() || (dark.matches ? "dark" : "light"); };
paint();
dark.addEventListener("change", paint);
document.getElementById("theme").addEventListener("click", () => {
  const next = root.dataset.theme === "dark" ? "light" : "dark";
  try { localStorage.setItem("theme", next); } catch { /* a page opened from a file may not store */ }
  root.dataset.theme = next;
});

// Tables: a click on a heading sorts, a second one turns the order; long ones begin short and get a filter.
const SHORT = 12; // as in page.css
for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0];
  const key = (row, at) => {
    const cell = row.cells[at];
    return cell.dataset.sort === undefined ? cell.textContent : cell.dataset.sort === "" ? -Infinity : Number(cell.dataset.sort);
  };
  table.tHead.addEventListener("click", (event) => {
    const head = event.target.closest("th");
    if (!head) return;
    const at = head.cellIndex;
    const up = head.getAttribute("aria-sort") === "descending" || (!head.hasAttribute("aria-sort") && !head.classList.contains("n"));
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const rows = [...body.rows].map((row) => [key(row, at), row]);
    rows.sort(([a], [b]) => {
      const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), undefined, { numeric: true });
      return up ? order : -order;
    });
    body.append(...rows.map(([, row]) => row));
  });
  if (body.rows.length > SHORT + 3 && !table.classList.contains("rank")) {
    const all = Object.assign(document.createElement("button"), { type: "button", className: "all" });
    all.textContent = `Show all ${body.rows.length} rows`;
    table.classList.add("short");
    const open = () => { table.classList.remove("short"); all.remove(); };
    all.addEventListener("click", open);
    table.parentElement.after(all);
    const filter = Object.assign(document.createElement("input"), { type: "search", placeholder: "Filter", className: "filter" });
    filter.setAttribute("aria-label", "Filter rows");
    filter.addEventListener("input", () => {
      open();
      const wanted = filter.value.toLowerCase();
      for (const row of body.rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
    });
    table.parentElement.before(filter);
  }
}
