// What the places of the page show. A view is made once for its place, and gives a function that draws it anew.
const section = (place) => place.closest("section");
// A picture that is drawn anew; without content its section is hidden, unless it holds a table as well.
const pictureView = (draw) => (place) => () => {
  const around = section(place), hides = around.querySelectorAll("[data-view]").length > 1 ? place : around;
  hides.hidden = false;
  if (state.fold.has(around.id)) return;
  const parts = draw(place);
  hides.hidden = parts === null;
  place.replaceChildren(...(parts || []).filter(Boolean));
};
const pivotView = (few, make) => (place) => {
  const view = new TableView(place, few);
  return () => view.show(make());
};
const VERDICT_COLOURS = { ok: "var(--good)", bad: "var(--mark-critical)", unverifiable: "var(--mark-warning)", absent: "var(--s0)" };
const checksumBars = (place) => () => {
  const carriedTable = data.tables.verdicts, { rows, notes } = selectRows(carriedTable);
  const drawn = rows.map((row) => {
    const counts = carriedTable.columns.map(({ name }, at) => [name, row[at]]).filter(([name, count]) => VERDICT_COLOURS[name] && count), all = counts.reduce((sum, [, count]) => sum + count, 0) || 1, protocol = string(row[0]);
    return el("div", { class: "checksums" }, el("span", { class: `badge ${protocol}` }, protocol), el("b", null, string(row[1])),
      el("span", { class: "proportion" }, counts.map(([name, count]) => el("i", { title: `${name}: ${whole(count)}`, css: { flex: String(count / all), background: VERDICT_COLOURS[name] } }))), el("small", null, counts.map(([name, count]) => `${whole(count)} ${name}`).join(", ")));
  });
  place.replaceChildren(...drawn, el("p", { class: "note" }, [...notes, drawn.length ? "" : "Nothing of this selection"].filter(Boolean).join(". ")));
};
const VIEWS = {
  table(place, { name }) {
    const view = new TableView(place), given = whatIsCarried(data.tables[name]);
    return () => { const { rows, notes } = selectRows(given); view.show({ ...given, rows }, notes); };
  },
  cases(place) {
    const given = data.tables.cases, cards = [...place.querySelectorAll(".case")], says = el("p", { class: "note" });
    place.append(says);
    return () => {
      const { rows, notes } = selectRows(given), kept = new Set(rows);
      cards.forEach((card, at) => { card.hidden = !kept.has(given.rows[at]); });
      says.textContent = [...notes, rows.length ? "" : "No bad checksum of this selection"].filter(Boolean).join(". ");
    };
  },
  packet(place, { at }) {
    const packet = JSON.parse(at);
    if (packet) place.append(packetCell(packet));
    return () => {};
  },
  checksums: checksumBars,
  cost: pivotView(12, costTable),
  brokers: pivotView(12, requestTable("broker")),
  topics: pivotView(12, topicTable),
  topology: pictureView(drawTopology),
  spreads: pictureView(drawSpreads),
  members: pictureView(drawMembers),
  partitions: pictureView(drawPartitions),
  owners: pictureView(drawOwners),
  lag: pictureView(drawLag),
  causes: pictureView(drawCauses),
};
