// Keys, wherever the focus is: / searches, j k move, Enter chooses, Esc goes back, z zooms, ? tells.
const isInTable = () => {
  const focused = document.activeElement;
  if (focused && focused.closest("#verdicts")) return false;
  return state.row !== null || Boolean(focused && focused.closest("#slow")) || !verdicts.length || $("verdicts").getBoundingClientRect().bottom < 120;
};
const moveVerdict = (by) => {
  const items = verdictItems().filter((item) => item.checkVisibility()), at = items.indexOf(document.activeElement), to = at < 0 ? (by > 0 ? 0 : items.length - 1) : at + by;
  if (to >= items.length) { $("scroll").focus(); $("slow").scrollIntoView({ block: "nearest" }); }
  else if (to >= 0) items[to].focus();
};
const move = (by) => {
  if (!isInTable()) moveVerdict(by);
  else if (by < 0 && state.cursor === 0 && state.row === null && document.activeElement.closest("#scroll") && verdicts.length) moveVerdict(by);
  else step(by);
};
const goBack = () => {
  if (state.row !== null) closePanel();
  else if (isPart()) showEverything();
};
const enter = (event) => {
  const focused = document.activeElement;
  if (focused && focused.matches("#verdicts li[data-rank]")) { event.preventDefault(); pickVerdict(verdictOf(focused)); }
  else if ((focused === $("scroll") || focused === document.body) && table.list.length) { event.preventDefault(); openRow(table.list[state.cursor], true); $("panel-title").focus({ preventScroll: true }); }
};
const KEYS = {
  "/": (event) => { event.preventDefault(); $("find").focus(); },
  "?": (event) => { event.preventDefault(); $("help").showModal(); },
  j: () => move(1), k: () => move(-1), Enter: enter, Escape: goBack, z: () => { if (state.range || state.zoom) zoom(); },
};
const ARROWS = { ArrowDown: 1, ArrowUp: -1 };
const startKeys = () => document.addEventListener("keydown", (event) => {
  if (event.target.id === "find") { searchKey(event); return; }
  if (event.target.closest("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey || $("help").open || opener) return;
  const moves = ARROWS[event.key], focused = document.activeElement;
  if (moves && focused && (focused.matches("#verdicts li[data-rank]") || focused.closest("#scroll, #panel"))) { event.preventDefault(); move(moves); }
  else if (KEYS[event.key]) KEYS[event.key](event);
});
