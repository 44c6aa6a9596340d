// The whole: what is drawn when, and what every change of the selection does.
const views = [...document.querySelectorAll("[data-view]")].map((place) => ({ place, draw: VIEWS[place.dataset.view](place, place.dataset) }));
const whatIsAll = choose({ chips: [], range: null, verdict: null }), ofAll = measure(whatIsAll);
const drawFirst = () => {
  const sum = measure(selection);
  drawChips();
  drawCount(sum, ofAll);
  drawVerdicts();
  if (band.drag) drawRange(); else drawBand();
  drawTiles(sum, ofAll);
  drawTable(sum);
  drawMini();
};
const drawFolds = () => document.querySelectorAll("main section").forEach((one) => {
  const open = !state.fold.has(one.id), act = one.querySelector("h2 button"), body = one.querySelector(".body");
  if (act) act.setAttribute("aria-expanded", String(open));
  if (body) body.hidden = !open;
});
// Pictures side by side have the whole width where the other one has nothing to show: then they are drawn once more.
const hiddenPairs = () => [...document.querySelectorAll(".pair > section")].map((one) => one.hidden).join();
const drawView = ({ place, draw }) => {
  try { draw(); } catch (error) { // the other parts of the page are drawn all the same
    console.error(error);
    place.replaceChildren(el("p", { class: "note" }, "This part could not be drawn."));
  }
};
const drawRest = () => {
  closePopover();
  drawFolds();
  const before = hiddenPairs();
  views.forEach(drawView);
  if (hiddenPairs() !== before) for (const view of views) if (view.place.closest(".pair")) drawView(view);
  drawPanel();
};
const compute = () => Object.assign(selection, choose({ ...state, verdict: chosenVerdict() }));
// step: whether Back comes to what was before
const changed = (step_) => {
  if (!state.range) state.zoom = null;
  compute();
  drawFirst();
  if (!band.drag) { // the address stays as it was until the drag ends, so that Back comes to what was before
    drawRest();
    remember(step_);
  }
  if (step_) say(`${counted(selection.rows.length, "request")} selected`);
};
let waiting = 0;
const soon = () => { if (!waiting) waiting = requestAnimationFrame(() => { waiting = 0; if (band.drag) changed(false); }); };
const fromAddress = () => { readAddress(); compute(); drawFirst(); };

startSearch();
startVerdicts();
startBand();
startTable();
startPanel();
startKeys();
for (const act of document.querySelectorAll("section h2 button")) act.addEventListener("click", () => {
  const { id } = section(act);
  if (state.fold.has(id)) state.fold.delete(id); else state.fold.add(id);
  changed(true);
});
$("help-button").addEventListener("click", () => $("help").showModal());
$("help").addEventListener("click", (event) => { if (event.target === $("help")) $("help").close(); });
$("mini").addEventListener("click", () => $("band").scrollIntoView({ block: "center" }));
document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); $("scroll").focus(); });
new IntersectionObserver(([seen]) => { $("mini").hidden = seen.isIntersecting; }, { rootMargin: "-60px 0px 0px 0px" }).observe($("band"));
addEventListener("popstate", () => { fromAddress(); drawRest(); });
let drawnAt = document.documentElement.clientWidth;
new ResizeObserver(() => {
  if (Math.abs(document.documentElement.clientWidth - drawnAt) < 2) return;
  drawnAt = document.documentElement.clientWidth;
  drawFirst();
  drawRest();
}).observe(document.querySelector("main"));
fromAddress();
// the first screen is painted before the rest is drawn
setTimeout(() => { drawRest(); document.documentElement.dataset.drawn = ""; });
