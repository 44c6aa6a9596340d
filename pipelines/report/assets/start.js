// Every place of the page gets its view; the selection and the width draw them anew.
const views = [];
const width = () => { const first = document.querySelector(".view"); return first ? first.clientWidth : 0; };
let drawnAt = width();
const drawAll = (only = () => true) => {
  makeAxis(drawnAt);
  for (const { name, draw } of views) if (only(name)) draw();
};
startSelector(document.getElementById("selector"));
for (const place of document.querySelectorAll("[data-view]")) {
  const name = place.dataset.view;
  views.push({ name, draw: VIEWS[name](place, place.dataset) });
}
drawAll();
selection.listeners.push(() => { closePopover(); drawAll(); });
new ResizeObserver(() => {
  if (Math.abs(width() - drawnAt) < 2) return;
  drawnAt = width();
  closePopover();
  drawAll((name) => FOLLOWS_WIDTH.has(name));
}).observe(document.querySelector("main"));
