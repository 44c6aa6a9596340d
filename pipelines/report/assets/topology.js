// Who talks to whom: clients left, brokers right; width is rate, colour the share that failed, label p99.
const DRAWN = { clients: 12, brokers: 12, requests: 5 };
const failedColour = (share) => share === 0 ? "var(--s0)" : `color-mix(in oklab, var(--mark-critical) ${Math.round(25 + 75 * Math.min(1, share / 0.02))}%, var(--mark-warning))`;
const linksOf = () => {
  const brokers = NAMES.broker.length, links = new Map();
  for (const row of selection.rows) {
    if (!isAsked(row)) continue;
    const key = requests.client[row] * brokers + requests.broker[row], weight = requests.weight[row];
    if (!links.has(key)) links.set(key, { key, client: requests.client[row], broker: requests.broker[row], count: 0, failed: 0, timed: 0, at: links.size });
    const link = links.get(key);
    link.count += weight;
    if (requests.outcome[row]) link.failed += weight;
    if (requests.timed[row]) link.timed += weight;
  }
  const found = quantiles((row) => selection.has[row] && isAsked(row) ? links.get(requests.client[row] * brokers + requests.broker[row]).at : -1, links.size, [0.99]);
  return [...links.values()].map((link) => ({ ...link, p99: found[link.at][0] }));
};
const busiest = (links, dimension, most) => {
  const counts = new Map();
  for (const link of links) counts.set(link[dimension], (counts.get(link[dimension]) || 0) + link.count);
  const all = [...counts].sort((a, b) => b[1] - a[1]);
  return { counts, places: all.slice(0, most).map(([place]) => place).sort((a, b) => ranksOf(dimension)[a] - ranksOf(dimension)[b]), left: Math.max(0, all.length - most) };
};
const drawTopology = (box) => {
  const every = linksOf(), clients = busiest(every, "client", DRAWN.clients), ofThese = every.filter(({ client }) => clients.places.includes(client)), brokers = busiest(ofThese, "broker", DRAWN.brokers);
  const links = every.filter((link) => clients.places.includes(link.client) && brokers.places.includes(link.broker)).sort((a, b) => clients.places.indexOf(a.client) - clients.places.indexOf(b.client) || brokers.places.indexOf(a.broker) - brokers.places.indexOf(b.broker));
  if (every.reduce((sum, link) => sum + link.count, 0) < DRAWN.requests || !links.length) return null;
  const width = box.clientWidth, small = width < 480, wide = small ? 104 : 172, tall = 38, [from, to] = windowOf(), long = Math.max(1, to - from) / 1e6, most = Math.max(...links.map((link) => link.count));
  const space = (count) => Math.max(12, Math.min(72, (352 - count * tall) / count)), column = (places) => places.length * (tall + space(places.length)) - space(places.length), height = Math.max(column(clients.places), column(brokers.places), 90) + 16;
  const topOf = (places) => (place) => 8 + (height - 16 - column(places)) / 2 + places.indexOf(place) * (tall + space(places.length));
  const yClient = topOf(clients.places), yBroker = topOf(brokers.places), perSecond = (count) => `${units.shortCount(Number((count / long).toPrecision(3)))}/s`;
  const fans = (dimension, place) => links.filter((link) => link[dimension] === place), taken = [], labels = [], lines = [];
  for (const link of links) {
    const out = fans("client", link.client), into = fans("broker", link.broker), share = link.failed / link.count;
    const y1 = yClient(link.client) + tall * (out.indexOf(link) + 1) / (out.length + 1), y2 = yBroker(link.broker) + tall * (into.indexOf(link) + 1) / (into.length + 1), x1 = wide, x2 = width - wide, bend = (x1 + x2) / 2;
    const path = `M${x1} ${round(y1)}C${bend} ${round(y1)} ${bend} ${round(y2)} ${x2} ${round(y2)}`, kind = link.timed >= P99_NEEDS ? "p99" : "longest";
    const what = `${NAMES.client[link.client]} to ${NAMES.broker[link.broker]}: ${counted(link.count, "request")}, ${perSecond(link.count)}, ${kind} ${link.p99 === null ? "unknown" : units.duration(link.p99)}, ${units.share(share)} failed`;
    const pick = () => {
      const on = chipAt("client", link.client) >= 0 && chipAt("broker", link.broker) >= 0;
      state.chips = state.chips.filter(({ dimension }) => dimension !== "client" && dimension !== "broker");
      if (!on) state.chips.push({ dimension: "client", place: link.client, not: false }, { dimension: "broker", place: link.broker, not: false });
      changed(true);
    };
    lines.push(svg("g", { class: "link", ...pressable(what, pick), onmouseleave: hideTip, onmousemove: (event) => tip(event, [el("b", null, `${hosted(NAMES.client[link.client])} to ${hosted(NAMES.broker[link.broker])}`), pair("requests", whole(link.count)), pair("rate", perSecond(link.count)), pair(kind, link.p99 === null ? "unknown" : units.duration(link.p99)), pair("failed", `${whole(link.failed)}, ${units.share(share)}`)]) },
      svg("path", { class: "hit", d: path }), svg("path", { class: "line", d: path, "stroke-width": round(1.5 + 8.5 * Math.sqrt(link.count / most)), css: { stroke: failedColour(share) } })));
    if (link.timed < MEDIAN_NEEDS && !link.failed) continue;
    const text = [link.timed >= P99_NEEDS ? units.duration(link.p99) : link.timed >= MEDIAN_NEEDS ? `max ${units.duration(link.p99)}` : "", link.failed && !small ? `${whole(link.failed)} failed` : ""].filter(Boolean).join(" · "), half = text.length * 3.3 + 5;
    for (const u of [0.5, 0.6, 0.4, 0.7, 0.3, 0.78, 0.22]) { // a label stands where no other does
      const v = 1 - u, x = v * v * v * x1 + 3 * v * u * bend + u * u * u * x2, y = v * v * (v + 3 * u) * y1 + u * u * (u + 3 * v) * y2;
      if (!text || x - half < x1 + 2 || x + half > x2 - 2 || taken.some(([a, b, c, d]) => x - half < c && x + half > a && y - 9 < d && y + 9 > b)) continue;
      taken.push([x - half, y - 9, x + half, y + 9]);
      labels.push(svg("rect", { class: "plate", x: round(x - half), y: round(y - 9), width: round(half * 2), height: 18, rx: 5 }), svg("text", { x: round(x), y: round(y + 4), "text-anchor": "middle", class: "ink" }, text));
      break;
    }
  }
  const lost = new Map(verdicts.filter(({ kind }) => kind === "broker_lost").flatMap((verdict) => verdict.servers.map((place) => [string(place), verdict])));
  const shorter = shortenedApart([...clients.places.map(clientName), ...brokers.places.map((place) => NAMES.broker[place])], small ? 12 : 22);
  const node = (dimension, place, x, y, name, below, gone) => svg("g", { class: `node${gone ? " gone" : ""}`, ...pressable(null, () => toggle(dimension, place)) }, svg("title", null, `${dimension} ${hosted(NAMES[dimension][place])}, ${below}`), svg("rect", { x: x + 0.5, y: round(y) + 0.5, width: wide - 1, height: tall - 1, rx: 7 }),
    svg("text", { x: x + 11, y: round(y + 16), class: "ink b" }, shorter(name)), svg("text", { x: x + 11, y: round(y + 29) }, shortened([...machines(NAMES[dimension][place]), below].join(" · "), small ? 14 : 26)));
  const clientNames = clients.places.map(clientName), belowOf = (place) => { // clients of one name are told apart by their address
    const count = clients.counts.get(place), repeats = clientNames.filter((name) => name === clientName(place)).length > 1;
    return repeats ? `${addressOf(carried.names.client[place])} · ${whole(count)}` : small ? whole(count) : counted(count, "request");
  };
  const nodes = [
    ...clients.places.map((place) => node("client", place, 0, yClient(place), clientName(place), belowOf(place))),
    ...brokers.places.map((place) => { const gone = lost.get(NAMES.broker[place]); return node("broker", place, width - wide, yBroker(place), small ? port(NAMES.broker[place]) : NAMES.broker[place], gone ? `lost ${clock(timesOf(gone)[0], 0)}` : small ? whole(brokers.counts.get(place)) : counted(brokers.counts.get(place), "request"), gone); }),
  ];
  const left = [clients.left ? `the ${DRAWN.clients} busiest clients of ${whole(clients.left + DRAWN.clients)}` : "", brokers.left ? `the ${DRAWN.brokers} busiest brokers of ${whole(brokers.left + DRAWN.brokers)}${clients.left ? " that these use" : ""}` : ""].filter(Boolean).join(", ");
  return [svg("svg", { width, height: round(height), role: "group", "aria-label": "Clients left, brokers right" }, lines, nodes, svg("g", { "pointer-events": "none" }, labels)), left ? el("p", { class: "note" }, `Drawn: ${left}.`) : ""];
};
