// The verdicts: choosing one selects the requests that are its evidence; a second time shows everything again.
const verdictItems = () => [...document.querySelectorAll("#verdicts li[data-rank]")];
const verdictOf = (item) => verdicts.find(({ rank }) => rank === Number(item.dataset.rank));
const timesOf = ({ first, last }) => first === null ? null : [first - epoch, Math.max(last === null ? first : last, first) - epoch];
const pickVerdict = (verdict) => {
  if (state.verdict === verdict.rank) { showEverything(); return; }
  Object.assign(state, { verdict: verdict.rank, chips: [], range: null, zoom: null, cursor: 0 });
  changed(true);
};
const evidenceViews = new Map(), EVIDENCE_AT_FIRST = 5;
const drawVerdicts = () => {
  $("verdicts").classList.toggle("one", state.verdict !== null);
  for (const item of verdictItems()) {
    const verdict = verdictOf(item), on = state.verdict === verdict.rank, act = item.querySelector(".show button");
    item.setAttribute("aria-current", String(on));
    act.setAttribute("aria-pressed", String(on));
    act.textContent = on ? "Show all again" : act.dataset.counted;
    item.querySelector(".more").hidden = !on;
    if (on && item.closest("details")) item.closest("details").open = true;
    const place = item.querySelector(".rows");
    if (on && place && !evidenceViews.has(verdict.rank)) {
      evidenceViews.set(verdict.rank, new TableView(place, EVIDENCE_AT_FIRST));
      evidenceViews.get(verdict.rank).show(whatIsCarried(data.tables[place.dataset.name]));
    }
  }
};
const startVerdicts = () => {
  for (const item of verdictItems()) {
    const verdict = verdictOf(item), act = item.querySelector(".show button"), times = timesOf(verdict);
    act.dataset.counted = act.textContent;
    item.tabIndex = -1;
    item.addEventListener("click", (event) => {
      const inside = event.composedPath().some((node) => node.matches && node.matches(".more, .packet")); // also of what is drawn anew
      if (!inside && String(getSelection()) === "") { pickVerdict(verdict); item.focus({ preventScroll: true }); }
    });
    for (const name of ["mouseenter", "focus"]) item.addEventListener(name, () => hint(times));
    for (const name of ["mouseleave", "blur"]) item.addEventListener(name, () => hint(null));
  }
};
