// What the places of the page show. A view is made once for its place and gives a function that draws it anew: at each
// change of the selection, and, where it is a chart, of the width.
let axis = null;
let idleLeftOut = null; // null: as it fits
const buckets = bucketsOf();
const makeAxis = (width) => {
  const complete = new Axis(buckets, BUCKET, width, true), short = new Axis(buckets, BUCKET, width, false);
  const busy = new Set(buckets.map((bucket) => complete.column(bucket))).size / complete.columns;
  const canLeaveOut = short.pieces.length > 1;
  axis = (idleLeftOut === null ? busy < BUSY : idleLeftOut) ? short : complete;
  axis.canLeaveOut = canLeaveOut;
};

// rows of a fact along time as series: group(row) -> name, value(row) -> number; the largest first
const series = (fact, group, value, colourOf) => {
  const made = new Map();
  for (const row of chosenRows(fact)) {
    const at = axis.column(fact.columns.bucket[row]), key = group(row);
    if (at === null) continue;
    if (!made.has(key)) made.set(key, { name: key, values: new Array(axis.columns).fill(0) });
    made.get(key).values[at] += value(row);
  }
  const found = [...made.values()].filter(({ values }) => values.some((v) => v));
  for (const one of found) one.colour = colourOf(one.name);
  return found;
};
const byProtocol = (measure, perSecond) => {
  const fact = requestsAlongTime();
  if (!fact) return [];
  const amounts = measure.map((name) => fact.columns[name] || []);
  return series(fact, (row) => protocolName(fact.columns.protocol[row]), (row) => amounts.reduce((sum, of) => sum + (of[row] || 0), 0) / (perSecond ? axis.seconds : 1), colour)
    .sort((a, b) => a.name < b.name ? -1 : 1);
};

// draw: gives elements; texts among them are notes
const note = (text) => el("p", { class: "note" }, text);
const chartView = (heading, draw) => (place, options) => {
  const inside = el("div");
  place.append(...(heading ? [el("h3", null, typeof heading === "function" ? heading(options) : heading)] : []), inside);
  return () => inside.replaceChildren(...draw(options, place).filter(Boolean).map((part) => typeof part === "string" ? note(part) : part));
};

const COLOURED = 7; // topics with a colour of their own
const dataChart = ({ role }, place) => {
  const fact = factOf("data_time"), wanted = names.role.findIndex((name) => string(name) === role);
  place.hidden = wanted < 0 || !facts.data_time.columns.role.includes(wanted);
  if (place.hidden) return [];
  const { columns } = fact, totals = new Map();
  for (const row of chosenRows(fact))
    if (columns.role[row] === wanted) totals.set(columns.topic[row], (totals.get(columns.topic[row]) || 0) + columns.stored_bytes[row]);
  const largest = [...totals].filter(([topic]) => topic !== null).sort(([, a], [, b]) => b - a).slice(0, COLOURED).map(([topic]) => topic);
  const named = new Map(largest.map((topic, at) => [topic, { at, name: string(names.topic[topic]) }]));
  const found = series(fact, (row) => named.has(columns.topic[row]) ? columns.topic[row] : -1,
    (row) => columns.role[row] === wanted ? columns.stored_bytes[row] / axis.seconds : 0,
    (topic) => topic < 0 ? "var(--idle)" : `var(--c${named.get(topic).at + 1})`);
  found.sort((a, b) => (a.name < 0) - (b.name < 0) || named.get(a.name).at - named.get(b.name).at);
  for (const one of found) one.name = one.name < 0 ? (largest.length ? "other topics" : "no topic") : named.get(one.name).name;
  const chart = found.length ? [bars(axis, found, units.byteRate, { label: `${role}: bytes per second`, base: 1024 }), legend(found)] : [empty()];
  return [...chart, unnamedNote(fact, ["messages"], "message")];
};

const durationChart = () => {
  const fact = requestsAlongTime(), columns = new Array(axis.columns).fill(null);
  for (const row of chosenRows(fact)) {
    const at = axis.column(fact.columns.bucket[row]);
    if (at !== null) (columns[at] ||= new Sum()).add(fact.columns, row);
  }
  const line = (name) => ({ name, kind: name, values: columns.map((sum) => sum && sum.quantile(name)) });
  const lines = [line("p50"), line("p99")], untimed = columns.reduce((all, sum) => all + (sum ? sum.untimed : 0), 0);
  return [
    durations(axis, columns, lines, "durations along time"),
    legend([{ name: "requests: the stronger, the more", kind: "field" }, { name: `p50, from ${data.enough.p50} requests in a column on`, kind: "p50" },
      { name: `p99, from ${data.enough.p99} on`, kind: "p99" }]),
    untimed ? `${counted(untimed, "request")} without a duration, of which the capture lacks bytes, ${untimed === 1 ? "is" : "are"} not drawn.` : "",
    unnamedNote(fact, REQUESTS, "request"),
  ];
};

const EVENT_KINDS = ["error", "finding", "rebalance", "broker", "reset", "throttle", "no answer"];
const eventChart = () => {
  const found = new Map(EVENT_KINDS.map((kind) => [kind, new Map()]));
  let unsure = 0;
  for (const table of EVENT_TABLES) {
    const place = placesIn(table), { rows, unknown } = selectRows(table);
    for (const row of rows) {
      if (unknown.length) { unsure += row[place.count]; continue; }
      const columns = found.get(string(row[place.kind])), at = axis.column(bucketAt(row[place.time]));
      if (!columns.has(at)) columns.set(at, { count: 0, grey: true, whats: new Map() });
      const one = columns.get(at), what = row[place.what] === null ? "others" : string(row[place.what]);
      one.count += row[place.count];
      one.grey &&= string(row[place.expected]) === "yes";
      one.whats.set(what, (one.whats.get(what) || 0) + row[place.count]);
    }
  }
  for (const columns of found.values()) for (const one of columns.values())
    one.texts = [...one.whats].sort(([, a], [, b]) => b - a).map(([what, count]) => `${whole(count)} × ${what}`);
  const rows = [...found].filter(([, columns]) => columns.size).map(([name, columns]) => ({ name, columns }));
  return [
    rows.length ? timeline(axis, rows) : empty(),
    unsure ? `Up to ${counted(unsure, "event")} more may belong to this selection: this page does not carry all names.` : "",
  ];
};

const SPREADS = 9;
const spreadCards = (_, place) => {
  const found = sums(requestsBy("api"), ["protocol", "api"]).filter(({ keys, sum }) => keys[1] !== null && sum.histogram.size);
  found.sort((a, b) => b.sum.service_ns - a.sum.service_ns);
  const across = Math.max(1, Math.floor((place.clientWidth + 26) / 346)), width = Math.floor((place.clientWidth - 26 * (across - 1)) / across);
  const cards = found.slice(0, SPREADS).map(({ keys, sum }) => {
    const protocol = protocolName(keys[0]), median = sum.quantile("p50");
    const parts = [counted(sum.n, "request"), sum.untimed ? `${whole(sum.untimed)} without a duration` : "", median === null ? "" : `median ≈ ${units.duration(median)}`];
    const note = parts.filter(Boolean).join(", ");
    return el("figure", null,
      el("figcaption", null, el("span", { class: `badge ${protocol}` }, protocol), " ", el("b", null, string(names.api[keys[1]])), el("small", null, note)),
      spread(sum, [["p50", median], ["p99", sum.quantile("p99")]], colour(protocol), width));
  });
  return [
    cards.length ? el("div", { class: "cards" }, ...cards) : empty(),
    found.length > SPREADS ? `The ${SPREADS} APIs of ${found.length} that cost most are drawn.` : "",
    unnamedNote(requestsBy("api"), REQUESTS, "request"),
  ];
};

const VERDICT_COLOURS = { ok: "var(--good)", bad: "var(--bad)", unverifiable: "var(--warn)", absent: "var(--idle)" };
const verdictBars = () => {
  const table = data.tables.verdicts, { rows, notes } = selectRows(table);
  const drawn = rows.map((row) => {
    const counts = table.columns.map(({ name }, at) => [name, row[at]]).filter(([name, count]) => VERDICT_COLOURS[name] && count);
    const all = counts.reduce((sum, [, count]) => sum + count, 0) || 1;
    const pieces = counts.map(([name, count]) => {
      const piece = el("i", { title: `${name}: ${whole(count)}` });
      piece.style.flex = String(count / all);
      piece.style.background = VERDICT_COLOURS[name];
      return piece;
    });
    const protocol = string(row[0]);
    return el("div", { class: "verdict" }, el("span", { class: `badge ${protocol}` }, protocol), el("b", null, string(row[1])),
      el("span", { class: "proportion" }, ...pieces), el("small", null, counts.map(([name, count]) => `${whole(count)} ${name}`).join(", ")));
  });
  return [...drawn, drawn.length ? notes.join(". ") : empty()];
};

// What a tile says of a selection: [value, note]; null where only the whole capture's figure is known.
const rowsIfExact = (name) => {
  const table = data.tables[name], found = table && table.rows.length === table.total && selectRows(table);
  return found && !found.notes.length ? found.rows.map((row) => Object.fromEntries(table.columns.map(({ name: column }, at) => [column, row[at]]))) : null;
};
const sumOf = (fact) => { const sum = new Sum(); for (const row of chosenRows(fact)) sum.add(fact.columns, row); return sum; };
const addUp = (rows, name) => rows.reduce((sum, row) => sum + (row[name] || 0), 0);
const requestSum = () => { const fact = requestsBy(""); return unnamed(fact, REQUESTS) ? null : sumOf(fact); };
const TILES = {
  connections() { const rows = rowsIfExact("health"); return rows && [whole(rows.length), ""]; },
  requests() { const sum = requestSum(); return sum && [whole(sum.n + sum.polls + sum.unanswered), `${whole(sum.unanswered)} unanswered`]; },
  errors() { const sum = requestSum(), answers = sum && sum.n + sum.polls; return sum && [whole(sum.errors), answers ? `${units.share(sum.errors / answers)} of answers` : ""]; },
  messages() {
    const fact = dataByTopic(), role = (name) => names.role.findIndex((place) => string(place) === name);
    if (!fact || unnamed(fact, ["batches"])) return null;
    const of = (name) => { let sum = 0; for (const row of chosenRows(fact)) if (fact.columns.role[row] === role(name)) sum += fact.columns.messages[row] || 0; return whole(sum); };
    return [of("produce"), `produced; ${of("consume")} consumed`];
  },
  checksums() { const rows = rowsIfExact("integrity"); return rows && [whole(addUp(rows, "bad")), `of ${whole(addUp(rows, "bad") + addUp(rows, "ok"))} verified`]; },
  findings() { const rows = rowsIfExact("findings"); return rows && [whole(addUp(rows.filter((row) => string(row.severity) === "error"), "count")), "of severity error"]; },
};

const carried = (table) => ({ ...table, carried: table.rows.length });
const VIEWS = {
  table(place, { name }) {
    const view = new TableView(place, name === "slowest" ? 20 : FEW), table = carried(data.tables[name]);
    return () => {
      const requests = name === "slowest" && requestsOfVerdict(), shown = requests ? carried(requests) : table;
      const { rows, notes } = selectRows(shown), at = placesIn(shown).total_ns;
      view.show({ ...shown, rows: requests ? [...rows].sort(largestFirst(at)) : rows }, notes);
    };
  },
  // The rows that a verdict counts: open while it is selected.
  evidence(place, { name, verdict }) {
    const box = place.closest("details"), table = carried(data.tables[name]), at = Number(verdict);
    let view = null;
    box.querySelector("summary").addEventListener("click", (event) => {
      event.preventDefault();
      choose("verdict", box.open ? "" : at);
    });
    return () => {
      box.open = selection.chosen.verdict === at;
      if (!box.open) return;
      for (let around = box.parentElement.closest("details"); around; around = around.parentElement.closest("details")) around.open = true;
      if (view === null) (view = new TableView(place)).show(table);
    };
  },
  latency(place) {
    const view = new TableView(place), table = carried(data.tables.latency);
    return () => {
      const { rows, unknown } = selectRows(table);
      if (unknown.length || selection.chosen.verdict !== undefined) view.show(tableOf("api")(), [
        "Of a selection percentiles are close, and errors that are part of normal work are not counted", unnamedNote(requestsBy("api"), REQUESTS, "request"),
      ]);
      else view.show({ ...table, rows });
    };
  },
  tile(place, { figure }) {
    const [value, says] = ["b", "small"].map((part) => place.querySelector(part)), kept = [value.textContent, says.textContent, place.className];
    return () => {
      const found = selected().length && TILES[figure] ? TILES[figure]() : null;
      value.textContent = found ? found[0] : kept[0];
      says.textContent = found ? [found[1], `${kept[0]} in the whole capture`].filter(Boolean).join("; ") : selected().length ? `${kept[1]}; whole capture` : kept[1];
      place.className = found ? "tile" : kept[2]; // its colour judges the whole capture
    };
  },
  cases(place) {
    const table = data.tables.cases, cards = [...place.querySelectorAll(".case")], says = note("");
    place.append(says);
    return () => {
      const { rows, notes } = selectRows(table), kept = new Set(rows);
      cards.forEach((card, at) => { card.hidden = !kept.has(table.rows[at]); });
      says.textContent = [...notes, rows.length ? "" : "No bad checksum of this selection"].filter(Boolean).join(". ");
    };
  },
  packet(place, { at }) {
    const packet = JSON.parse(at);
    if (packet) place.append(packetCell(packet));
    return () => {};
  },
  cost: pivotView(15, costTable, () => requestsBy("api")),
  brokers: pivotView(FEW, tableOf("broker"), () => requestsBy("broker")),
  topics: pivotView(FEW, topicTable, () => requestsBy("topic")),
  axis(place) {
    const box = el("input", { type: "checkbox" }), says = note("");
    const label = el("label", { class: "check" }, box, " leave idle time out");
    box.addEventListener("change", () => { idleLeftOut = box.checked; drawAll(); });
    place.append(says, label);
    return () => {
      label.hidden = !axis.canLeaveOut;
      box.checked = axis.pieces.length > 1;
      says.textContent = `One column is ${units.duration(axis.seconds * 1e9)}. Long polls are not among the durations.`;
    };
  },
  requests_time: chartView("Requests per second", () => {
    const found = byProtocol(REQUESTS, true);
    return [...found.length ? [bars(axis, found, units.rate, { label: "requests per second" }), legend(found)] : [empty()],
      unnamedNote(requestsAlongTime(), REQUESTS, "request")];
  }),
  durations_time: chartView("Durations", durationChart),
  errors_time: chartView("Errors", () => {
    const found = byProtocol(["errors"], false);
    return [...found.length ? [bars(axis, found, units.count, { height: 110, label: "errors" }), legend(found)] : [el("p", { class: "empty" }, "No errors but expected ones.")],
      unnamedNote(requestsAlongTime(), ["errors"], "error")];
  }),
  data_time: chartView(({ role }) => `${role[0].toUpperCase()}${role.slice(1)}: bytes per second on the wire`, dataChart),
  events: chartView(null, eventChart),
  spread: chartView(null, spreadCards),
  verdicts: chartView(null, verdictBars),
};
const FOLLOWS_WIDTH = new Set(["requests_time", "durations_time", "errors_time", "data_time", "events", "spread", "axis"]);
