// The header: what is selected, as chips that can be turned and removed, and the search that adds them.
const drawChips = () => {
  const remove = (what, act) => button("×", { class: "x", "aria-label": `Remove ${what}` }, act), verdict = chosenVerdict();
  const chips = state.chips.map((chip) => {
    const { dimension, place, not } = chip, name = NAMES[dimension][place], turn = () => { chip.not = !chip.not; changed(true); };
    return el("span", { class: `chip${not ? " not" : ""}` },
      button(`${dimension}${not ? " ≠" : ""}`, { class: "dim", title: not ? "Excluded; a click requires it" : "Required; a click excludes it", "aria-label": `${dimension} ${not ? "is not" : "is"}` }, turn),
      button(shortened(name, 60), { class: "value", title: name }, turn),
      remove(`${dimension} ${name}`, () => { state.chips.splice(state.chips.indexOf(chip), 1); changed(true); }));
  });
  if (verdict) chips.unshift(el("span", { class: "chip" }, el("span", { class: "dim" }, "evidence of"), button(verdict.kind, { class: "value" }, () => scrollTo({ top: 0 })), remove("the evidence", () => { state.verdict = null; changed(true); })));
  if (state.range) chips.push(el("span", { class: "chip range" }, button(`${clock(state.range[0], 2)} for ${during(state.range[1] - state.range[0])}`, { class: "value", title: "To the band of time" }, () => $("band").scrollIntoView({ block: "center" })), remove("the time range", () => { state.range = null; changed(true); })));
  $("chips").replaceChildren(...chips);
  $("chips").scrollLeft = $("chips").scrollWidth;
  $("find").placeholder = isPart() ? "" : innerWidth < 700 ? "Filter" : `Filter by API, client, broker, topic, group, outcome${hasSites ? ", site" : ""}`;
};
const drawCount = (sum, all) => $("count").replaceChildren(el("b", null, whole(sum.requests)), isPart() ? ` of ${whole(all.requests)}` : "", innerWidth < 700 ? "" : " requests");

// --- search ---
const menu = { at: 0, items: [] };
const LISTED = 8, LISTED_AT_FIRST = 4;
const tallies = new Map();
const tally = (dimension) => { // requests by name
  if (!tallies.has(dimension)) {
    const counts = new Float64Array(NAMES[dimension].length);
    for (let row = 0; row < requests.n; row++) {
      if (dimension === "topic") for (const place of topicsOf(row)) counts[place] += requests.weight[row];
      else counts[requests[dimension][row]] += requests.weight[row];
    }
    tallies.set(dimension, counts);
  }
  return tallies.get(dimension);
};
const suggestionsFor = (text) => DIMENSIONS.flatMap((dimension) => {
  const at = text.indexOf(":"), one = at > 0 && DIMENSIONS.some((name) => name.startsWith(text.slice(0, at)));
  if (one && !dimension.startsWith(text.slice(0, at))) return [];
  const wanted = one ? text.slice(at + 1) : text, counts = tally(dimension), first = dimension === "outcome" ? 0 : 1;
  return NAMES[dimension].map((name, place) => ({ dimension, name, place, wanted, count: counts[place] }))
    .filter(({ name, place, count }) => place >= first && count && (name.toLowerCase().includes(wanted) || (!one && dimension.startsWith(wanted))))
    .sort((a, b) => b.count - a.count).slice(0, text ? LISTED : LISTED_AT_FIRST);
});
const drawMenu = () => {
  const text = $("find").value.trim().toLowerCase(), list = [];
  menu.items = suggestionsFor(text);
  menu.at = Math.max(0, Math.min(menu.at, menu.items.length - 1));
  let before = "";
  menu.items.forEach(({ dimension, name, place, wanted, count }, at) => {
    if (dimension !== before) list.push(el("li", { class: "head", role: "presentation" }, before = dimension));
    const found = wanted ? name.toLowerCase().indexOf(wanted) : -1;
    const label = found < 0 ? name : [name.slice(0, found), el("mark", null, name.slice(found, found + wanted.length)), name.slice(found + wanted.length)];
    list.push(el("li", { role: "option", id: `option-${at}`, "aria-selected": String(at === menu.at), title: name, onmousedown: (event) => { event.preventDefault(); take(at, event.altKey); } },
      el("span", null, label), el("small", null, chipAt(dimension, place) >= 0 ? "selected" : whole(count))));
  });
  $("menu").replaceChildren(...(list.length ? list : [el("li", { class: "head", role: "presentation" }, "Nothing of that name in this capture")]));
  $("menu").hidden = false;
  $("find").setAttribute("aria-expanded", "true");
  $("find").setAttribute("aria-activedescendant", menu.items.length ? `option-${menu.at}` : "");
  const chosen = $("menu").querySelector('[aria-selected="true"]');
  if (chosen) chosen.scrollIntoView({ block: "nearest" });
};
const take = (at, not) => {
  const item = menu.items[at];
  if (!item) return;
  $("find").value = "";
  menu.at = 0;
  toggle(item.dimension, item.place, not);
  drawMenu();
};
const closeMenu = () => { $("menu").hidden = true; $("find").setAttribute("aria-expanded", "false"); };
const searchKey = (event) => {
  if (event.key === "ArrowDown" || event.key === "ArrowUp") { event.preventDefault(); menu.at += event.key === "ArrowDown" ? 1 : -1; drawMenu(); }
  else if (event.key === "Enter") { event.preventDefault(); take(menu.at, event.altKey); }
  else if (event.key === "Backspace" && !event.target.value && isPart()) { if (state.range) state.range = null; else if (state.chips.length) state.chips.pop(); else state.verdict = null; changed(true); }
  else if (event.key === "Escape") { if ($("menu").hidden) event.target.blur(); closeMenu(); event.target.value = ""; }
};
const startSearch = () => {
  $("find").addEventListener("focus", drawMenu);
  $("find").addEventListener("input", () => { menu.at = 0; drawMenu(); });
  $("find").addEventListener("blur", closeMenu);
};
