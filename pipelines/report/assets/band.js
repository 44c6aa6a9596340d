// The band of time: lanes of requests, p99 and the slowest, failures and events on one axis. Dragging selects.
const band = { left: 0, right: 0, width: 0, bottom: 0, x: null, timeAt: null, hint: null, drag: null, cross: null, columns: null, over: null };
const LANE = { requests: 62, durations: 92, failed: 26, lag: 30, event: 17 };
const LAG_LINES = 6; // of groups, those farthest behind
const SLOWEST = 40, P99_RESTS_ON = 5, LABEL = 14; // pixels between labels of an axis, at least
const roundUp = (least) => { const power = 10 ** Math.floor(Math.log10(least)); return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= least * 0.999999); };

// Counts by column of time. Lane 0 is of the APIs without a colour of their own.
const bandColumns = (scale, pixels) => {
  const { from, to, shown } = scale, wide = Math.max(1, roundUp(shown / Math.max(40, pixels / 6))), n = Math.ceil(shown / wide) + 1, lanes = TOP.apis.length + 1;
  const zeros = () => new Float64Array(n), perLane = (size) => Array.from({ length: lanes }, () => new Float64Array(size));
  const asked = perLane(n), errors = zeros(), unanswered = zeros(), all = zeros(), inBase = new Uint8Array(requests.n), timed = perLane(n);
  const columnOf = (row) => Math.floor(scale.of(requests.time[row]) / wide), isIn = (row) => requests.time[row] >= from && requests.time[row] <= to;
  for (let row = 0; row < requests.n; row++) if (isAsked(row) && isIn(row)) all[columnOf(row)] += requests.weight[row];
  for (const row of selection.base) {
    if (!isIn(row)) continue;
    inBase[row] = 1;
    const column = columnOf(row), lane = TOP.colour[requests.api[row]], weight = requests.weight[row];
    if (isAsked(row)) asked[lane][column] += weight;
    if (requests.outcome[row] === 1) errors[column] += weight; else if (requests.outcome[row] === 2) unanswered[column] += weight;
    if (requests.timed[row]) timed[lane][column] += weight;
  }
  // a p99 rests on wider columns where requests are few
  let merged = 1;
  for (merged of [1, 2, 5, 10]) {
    let some = 0, enough = 0;
    for (let column = 0; column < n; column += merged) {
      let count = 0;
      for (const lane of timed) for (let at = column; at < Math.min(n, column + merged); at++) count += lane[at];
      some += count > 0;
      enough += count >= P99_RESTS_ON;
    }
    if (enough >= some * 0.6) break;
  }
  const steps = Math.ceil(n / merged), counts = perLane(steps);
  timed.forEach((lane, at) => lane.forEach((count, column) => { counts[at][Math.floor(column / merged)] += count; }));
  const found = quantiles((row) => inBase[row] ? TOP.colour[requests.api[row]] * steps + Math.floor(columnOf(row) / merged) : -1, lanes * steps, [0.99]);
  const p99 = counts.map((lane, at) => [...lane].map((count, step) => count >= P99_RESTS_ON ? found[at * steps + step][0] : null));
  const slowest = [], byTotal = order("total");
  for (let at = byTotal.length - 1; at >= 0 && slowest.length < SLOWEST; at--) if (inBase[byTotal[at]] && requests.timed[byTotal[at]] && requests.alone[byTotal[at]]) slowest.push(byTotal[at]);
  return { wide, n, merged, steps, asked, errors, unanswered, all, p99, slowest };
};

// --- events ---
const OF_BROKERS = ["broker_lost", "topic_moved", "leader_moved"];
const HARMS = ["lost", "refused", "skipped", "doubled", "stopped", "unreachable", "behind", "late"];
const LANES = { ...Object.fromEntries(HARMS.map((what) => [what, []])), changes: [], leaders: [], brokers: ["broker"], connections: ["reset"], groups: ["rebalance"], quotas: ["throttle"], findings: ["finding"] };
const TOGETHER = 100; // events of one text that are less than this part of the capture apart are one
// Events of one lane that tell the same within a short time, as one. Each has `kind`: what it is called when there are more.
const bundled = (events) => {
  const last = new Map(), made = [];
  for (const event of [...events].sort((a, b) => a.from - b.from)) {
    const before = last.get(event.kind), end = event.to === null ? event.from : event.to;
    if (before && event.from - Math.max(before.from, before.to ?? before.from) < span / TOGETHER) {
      Object.assign(before, { count: before.count + 1, to: Math.max(before.to ?? before.from, end), messages: before.messages + (event.messages || 0) });
      before.text = before.messages ? counted(before.messages, "message") : `${before.kind} × ${whole(before.count)}`;
      if (before.to === before.from) before.to = null;
    } else {
      made.push({ ...event, count: 1, messages: event.messages || 0 });
      last.set(event.kind, made[made.length - 1]);
    }
  }
  return made;
};
// What became of work, who changed what, and who leads from then on: tables that tell each row with its time.
const harmed = (row, at) => {
  const what = string(row[at.what]), cause = string(row[at.cause]), verdict = verdicts.find(({ kind }) => kind === cause), to = row[at.until] === null ? span : row[at.until] - epoch, from = row[at.from] - epoch;
  const of = [at.group, at.topic, at.client_id, at.client_ip].filter((place) => place !== undefined && row[place] !== null).map((place) => shortTopic(string(row[place])))[0];
  if (!HARMS.includes(what)) return null;
  return { lane: what, from, to: to > from ? to : null, severity: verdict ? verdict.severity : "note", kind: what, messages: row[at.messages], text: [row[at.messages] ? counted(row[at.messages], "message") : "", of].filter(Boolean).join(", ") || what };
};
const changed_ = (row, at) => {
  const action = string(row[at.action]), thing = string(row[at.thing]);
  const kind = action === "subscribed" ? action : `${action} ${thing}`, failed = row[at.result] !== null && string(row[at.result]) !== "ok";
  return { lane: "changes", from: row[at.time] - epoch, to: null, severity: "note", kind, text: [kind, row[at.subject] === null ? "" : shortTopic(string(row[at.subject])), failed ? `(${string(row[at.result])})` : ""].filter(Boolean).join(" ") };
};
const ledAnew = (row, at, before) => {
  if (!before || ["protocol", "topic", "partition"].some((name) => row[at[name]] !== before[at[name]]) || row[at.leader] === before[at.leader]) return null;
  const of = [row[at.topic] === null ? "metadata" : shortTopic(string(row[at.topic])), row[at.partition] === null ? "" : `-${row[at.partition]}`].join("");
  return { lane: "leaders", from: row[at.since] - epoch, to: null, severity: "note", kind: "new leader", text: `${of} is led by ${row[at.leader] === null ? "none" : string(row[at.leader])}` };
};
const TOLD = { impacts: harmed, changes: changed_, leaders: ledAnew };
const toldEvents = () => Object.entries(TOLD).flatMap(([name, tell]) => {
  const known = data.tables[name];
  if (!known) return [];
  const at = placesIn(known), rows = selectRows(known, ["time"]).rows;
  return bundled(rows.map((row, place) => tell(row, at, rows[place - 1])).filter((event) => event && Number.isFinite(event.from)));
});
// Events of the selection: {lane, from, to (null for a moment), severity, text}
const eventsOf = () => {
  const found = toldEvents();
  for (const verdict of verdicts) if (OF_BROKERS.includes(verdict.kind) && timesOf(verdict)) {
    const [from, to] = timesOf(verdict);
    found.push({ lane: "brokers", from, to: to > from ? to : null, severity: verdict.severity, text: string(verdict.sentence) });
  }
  const rebalances = data.tables.rebalances, spans = new Set();
  if (rebalances) {
    const at = placesIn(rebalances);
    for (const row of selectRows(rebalances, ["time"]).rows) {
      const from = row[at.time] - epoch, group = row[at.group] === null ? "a group" : string(row[at.group]);
      spans.add(row[at.time]);
      found.push({ lane: "groups", from, to: row[at.duration_ns] ? from + row[at.duration_ns] / 1000 : null, severity: "note", text: `${group} rebalances` });
    }
  }
  for (const name of ["events", "other_events"]) {
    const table = data.tables[name];
    if (!table) continue;
    const at = placesIn(table);
    for (const row of selectRows(table, ["time"]).rows) {
      const kind = string(row[at.kind]), lane = Object.keys(LANES).find((one) => LANES[one].includes(kind));
      if (!lane || (kind === "rebalance" && spans.has(row[at.time]))) continue;
      const what = at.what === undefined || row[at.what] === null ? kind : string(row[at.what]), count = row[at.count];
      found.push({ lane, from: row[at.time] - epoch, to: null, severity: kind === "finding" || kind === "reset" ? "warning" : "note", text: count > 1 ? `${whole(count)} × ${what}` : what });
    }
  }
  return found;
};
const showAround = ({ from, to }) => () => {
  const margin = Math.max(scaleOf(0, span).shown / 50, to === null ? 0 : (to - from) * 0.15);
  state.range = [Math.max(0, from - margin), Math.min(span, (to === null ? from : to) + margin)];
  changed(true);
};
const drawEvents = (lanes, events, [from, to], top, right) => {
  const { x } = band, parts = [], said = new Map(), taken = new Map(lanes.map((lane) => [lane, []]));
  const free = (lane, a, b) => a >= band.left && b <= right && !taken.get(lane).some(([c, d]) => a < d && b > c) && taken.get(lane).push([a, b]);
  const seen = [...events].sort((a, b) => a.from - b.from).filter((event) => event.from <= to && (event.to === null ? event.from : event.to) >= from);
  for (const event of seen) taken.get(event.lane).push(event.to === null ? [x(event.from) - 6, x(event.from) + 6] : [x(Math.max(from, event.from)), x(Math.min(to, event.to))]);
  for (const event of seen) {
    const y = top + lanes.indexOf(event.lane) * LANE.event, isSpan = event.to !== null, a = x(Math.max(from, event.from)), b = isSpan ? Math.max(a + 4, x(Math.min(to, event.to))) : a;
    const label = shortened(event.text, 60), wide = label.length * 6.1 + 10, inside = isSpan && b - a > wide;
    const repeats = said.get(event.lane) === event.text;
    said.set(event.lane, event.text);
    const at = inside ? [a + 6, "start"] : repeats ? null : free(event.lane, b + 7, b + 7 + wide) ? [b + 8, "start"] : free(event.lane, a - 7 - wide, a - 7) ? [a - 8, "end"] : null;
    parts.push(svg("g", { class: "event", onclick: showAround(event) }, svg("title", null, `${clock(event.from)}${isSpan ? ` for ${during(event.to - event.from)}` : ""}: ${event.text}`),
      isSpan ? svg("rect", { class: `span-${event.severity}`, x: round(a) + 0.5, y: y + 2.5, width: round(b - a), height: LANE.event - 5, rx: 3 })
        : [svg("rect", { class: "hit", x: round(a) - 5, y, width: 10, height: LANE.event }), svg("path", { class: `mark-${event.severity}`, d: `M${round(a)} ${y + 3.5}l5 5l-5 5l-5-5z` })],
      at && svg("text", { x: round(at[0]), y: y + 12.5, "text-anchor": at[1], class: inside ? "ink" : "" }, label)));
  }
  return parts;
};

// --- the whole ---
const drawBand = () => {
  const width = $("plot").clientWidth, small = width < 640, left = small ? 14 : 148, right = small ? 14 : 92, plot = width - left - right;
  const [from, to] = band.window = state.zoom || [0, span], edge = width - right, axis = axisOf(band.window, [left, edge]), { x, scale } = axis;
  Object.assign(band, { left, right, width, x, scale, timeAt: axis.timeAt });
  const columns = band.columns = bandColumns(scale, plot), { wide, n } = columns, placed = (place) => left + place / scale.shown * plot;
  const events = band.events = eventsOf(), lanes = Object.keys(LANES).filter((lane) => events.some((event) => event.lane === lane));
  const gap = small ? 26 : 14, top = small ? 20 : 8, y1 = top, y2 = y1 + LANE.requests + gap, y3 = y2 + LANE.durations + gap, yLag = y3 + LANE.failed + gap;
  const lags = lagsOf(band.window).flatMap(({ group, topic, lines }) => lines.map((line) => ({ ...line, group, topic, most: Math.max(...line.points.map(([, messages]) => messages || 0)) }))).sort((a, b) => b.most - a.most).slice(0, LAG_LINES);
  const y4 = yLag + (lags.length ? LANE.lag + gap : 0);
  const bottom = band.bottom = y4 + (lanes.length ? lanes.length * LANE.event + 4 : -gap + 4), height = bottom + 24;
  const at = (column) => placed(column * wide), parts = timeAxis(axis, top, bottom);
  const text = (px, py, inside, kind = "", anchor = "start") => svg("text", { x: round(px), y: round(py), class: kind, "text-anchor": anchor }, inside);
  const lane = (y, tall, name, note) => parts.push(svg("line", { class: "axis", x1: left, x2: edge, y1: Math.round(y + tall), y2: Math.round(y + tall) }),
    small ? [text(left, y - 6, name, "ink b"), text(left + name.length * 7.6 + 10, y - 6, note)] : [text(16, y + 11, name, "ink b"), text(16, y + 26, note)]);

  // requests per second; pale: the whole capture, on a scale of its own
  const drawing = [...TOP.apis.keys()].map((place) => place + 1).concat(0), apiNames = ["other", ...TOP.apis.map((api) => NAMES.api[api])];
  const isLess = selection.base.length < requests.n, most = Math.max(1, ...columns.all), base = new Float64Array(n), floor = y1 + LANE.requests;
  if (isLess) {
    let path = `M${left} ${floor}`;
    for (let column = 0; column < n; column++) path += `L${round(at(column))} ${round(floor - columns.all[column] / most * LANE.requests)}H${round(Math.min(edge, at(column + 1)))}`;
    parts.push(svg("path", { class: "ghost", d: `${path}V${floor}z` }));
  }
  let peak = 0;
  for (let column = 0; column < n; column++) peak = Math.max(peak, columns.asked.reduce((sum, counts) => sum + counts[column], 0));
  const bar = Math.max(1, wide / scale.shown * plot - (plot / n > 4 ? 1 : 0));
  for (const colour of drawing) {
    let path = "";
    columns.asked[colour].forEach((count, column) => {
      if (!count) return;
      const tall = count / peak * LANE.requests, y = floor - (base[column] + count) / peak * LANE.requests;
      path += `M${round(at(column))} ${round(y)}h${round(Math.max(0.5, Math.min(bar, edge - at(column))))}v${round(Math.max(tall, 0.6))}H${round(at(column))}z`;
      base[column] += count;
    });
    parts.push(svg("path", { d: path, class: `c${colour}` }));
  }
  const perSecond = (count) => units.shortCount(Number((count / (wide / 1e6)).toPrecision(3)));
  lane(y1, LANE.requests, "Requests", peak ? (small ? `peak ${perSecond(peak)}/s` : "per second") : "none");
  if (!small && peak) parts.push(text(left - 8, y1 + 9, perSecond(peak), "", "end"), text(left - 8, floor + 1, "0", "", "end"));

  // p99 by API on a logarithmic scale, and the slowest requests from their begin to their end
  const values = [...columns.p99.flat().filter((ns) => ns !== null), ...columns.slowest.map((row) => requests.total[row])].map((ns) => Math.max(1000, ns));
  if (values.length) {
    const low = Math.floor(Math.log10(Math.min(...values))), high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(...values)) * 4 - 1e-9) / 4), y = (ns) => y2 + LANE.durations - (Math.log10(Math.max(1000, ns)) - low) / (high - low) * LANE.durations;
    const every = powersApart(high - low, LANE.durations, LABEL);
    for (let power = low; power <= high; power += every) parts.push(svg("line", { class: "grid", x1: left, x2: edge, y1: Math.round(y(10 ** power)), y2: Math.round(y(10 ** power)) }), small ? text(edge, y(10 ** power) - 3, powerText(power), "halo", "end") : text(left - 8, y(10 ** power) + 4, powerText(power), "", "end"));
    const ends = [];
    for (const colour of [...drawing].reverse()) {
      let line = "", dots = "", before = false, last = null;
      columns.p99[colour].forEach((ns, step) => {
        if (ns === null) { before = false; return; }
        const px = round(placed(Math.min(scale.shown, (step + 0.5) * wide * columns.merged))), py = round(y(ns));
        line += `${before ? "L" : "M"}${px} ${py}`;
        if (!before && !(columns.p99[colour][step + 1] > 0)) dots += `M${px - 2} ${py}a2 2 0 1 0 4 0a2 2 0 1 0-4 0`;
        before = true;
        last = py;
      });
      if (last === null) continue;
      parts.push(svg("path", { d: line, class: `l${colour}` }), svg("path", { d: dots, class: `c${colour}` }));
      ends.push([last, colour]);
    }
    for (const row of columns.slowest) {
      const colour = TOP.colour[requests.api[row]], px = x(requests.time[row]), pe = x(Math.min(to, endOf(row))), py = round(y(requests.total[row]));
      parts.push(svg("g", { class: "event", "data-row": row, onclick: (event) => { event.stopPropagation(); openRow(row, true); } }, svg("title", null, `${NAMES.api[requests.api[row]]} took ${units.duration(requests.total[row])}, packet ${requests.packet[row]}`),
        pe - px > 4 && svg("path", { d: `M${round(px)} ${py}H${round(pe)}`, class: `l${colour} thin` }), svg("circle", { cx: round(px), cy: py, r: 2.6, class: `c${colour}` })));
    }
    if (!small) {
      let lowest = -99;
      ends.sort((a, b) => a[0] - b[0]);
      const labels = ends.map(([py, colour]) => [lowest = Math.max(py + 4, lowest + 14), colour]), over = Math.max(0, lowest - (y2 + LANE.durations));
      for (const [py, colour] of labels) parts.push(text(edge + 8, py - over, shortened(apiNames[colour], 13), `t${colour}`));
    }
  }
  lane(y2, LANE.durations, "p99", columns.merged > 1 && columns.p99.flat().some((ns) => ns) ? `per ${roundDuring(wide * columns.merged)}` : "dots: slowest");

  // failures
  let worst = 0, failures = 0, silent = 0;
  for (let column = 0; column < n; column++) { worst = Math.max(worst, columns.errors[column] + columns.unanswered[column]); failures += columns.errors[column]; silent += columns.unanswered[column]; }
  for (let column = 0; column < n; column++) {
    const [failed, lost] = [columns.errors[column], columns.unanswered[column]], tall = (count) => Math.max(3, count / worst * LANE.failed), box = { x: round(at(column)), width: round(Math.max(3, bar)) }, ground = y3 + LANE.failed;
    if (failed) parts.push(svg("rect", { class: "mark-critical", ...box, y: round(ground - tall(failed)), height: round(tall(failed)) }));
    if (lost) parts.push(svg("rect", { class: "unanswered", ...box, y: round(ground - (failed ? tall(failed) : 0) - tall(lost)) + 0.5, height: round(tall(lost)) }));
  }
  lane(y3, LANE.failed, "Failed", failures + silent ? counted(failures + silent, "request") : "none");

  // lag
  if (lags.length) {
    lane(yLag, LANE.lag, "Lag", `${units.shortCount(lags[0].most)} ${lags[0].most === 1 ? "message" : "messages"}`);
    parts.push(...lagLines(lags, 1, yLag, LANE.lag, lags[0].most, axis));
    if (!small) parts.push(text(edge + 8, yLag + 11, shortened(lags[0].group, 13)));
  }

  // events
  lanes.forEach((name, place) => {
    const y = y4 + place * LANE.event;
    if (!small) parts.push(text(left - 8, y + 12, name, "", "end"), place ? null : text(16, y + 12, "Events", "ink b"));
    if (place) parts.push(svg("line", { class: "grid", x1: left, x2: edge, y1: y, y2: y }));
  });
  if (small && lanes.length) parts.push(text(left, y4 - 6, "Events", "ink b"));
  parts.push(...drawEvents(lanes, events, [from, to], y4, small ? edge : edge + 84));
  band.over = svg("g");
  $("plot").replaceChildren(picture(width, height, "Requests per second, p99, failures, lag and events along time", parts.flat(3).filter(Boolean), band.over));
  drawRange();

  const button_ = (name, title, act) => button(name, { class: "btn", title }, act);
  $("caption").replaceChildren(
    el("div", { class: "legend" }, drawing.filter((colour) => columns.asked[colour].some((count) => count)).map((colour) => el("span", null, dot(`c${colour}`), apiNames[colour])),
      failures ? el("span", null, dot("mark-critical"), "error") : "", silent ? el("span", null, dot("unanswered"), "no answer") : "", isLess ? el("span", null, dot("ghost"), "whole capture, own scale") : "", scale.breaks.length ? el("span", { class: "breaks" }, el("b", null, "//"), ` ${during(scale.breaks.reduce((sum, [a, b]) => sum + b - a, 0))} without any event`) : ""),
    el("span", { class: "right" }, state.range ? [el("b", null, `${clock(state.range[0])} to ${clock(state.range[1])}`), ` · ${during(state.range[1] - state.range[0])}`] : `one column is ${roundDuring(wide)}${small ? "" : " · drag to select, double click to reset"}`),
    state.zoom ? button_("Zoom out", "z", zoom) : state.range ? button_("Zoom in", "z", zoom) : "",
    state.range ? button_("Whole capture", "double click", wholeTime) : "");
};
const wholeTime = () => { state.range = null; state.zoom = null; changed(true); };
const zoom = () => { state.zoom = state.zoom ? null : state.range && [...state.range]; changed(true); };
const hint = (range) => { band.hint = range; drawRange(); };
// What lies over the lanes: the veil outside of the range, its handles, the time of a verdict, the line under the pointer.
const drawRange = () => {
  const { over, x, left, right, width, bottom } = band;
  if (!over) return;
  const parts = [], [from, to] = band.window, range = (band.drag && band.drag.range) || state.range, within = (time) => Math.max(from, Math.min(to, time));
  if (range && !(range[0] <= from && range[1] >= to)) {
    const [a, b] = range.map((time) => round(x(within(time))));
    parts.push(svg("rect", { class: "veil", x: left, y: 0, width: Math.max(0, a - left), height: bottom }), svg("rect", { class: "veil", x: b, y: 0, width: Math.max(0, width - right - b), height: bottom }), svg("path", { class: "edge", d: `M${a} 0V${bottom}M${b} 0V${bottom}` }),
      [a, b].map((at) => svg("rect", { class: "handle", x: at - 3, y: bottom / 2 - 14, width: 6, height: 28, rx: 3 })));
  }
  if (band.hint && band.hint[0] <= to && band.hint[1] >= from) parts.push(svg("rect", { class: "hint", x: round(x(within(band.hint[0]))), y: 0, width: round(Math.max(3, x(within(band.hint[1])) - x(within(band.hint[0])))), height: bottom }));
  if (band.cross !== null && !band.drag) parts.push(svg("path", { class: "cross", d: `M${round(band.cross)} 0V${bottom}` }));
  over.replaceChildren(...parts.flat());
};
const bandTip = (event, time) => {
  const { columns, scale } = band, column = Math.floor(scale.of(time) / columns.wide), step = Math.floor(column / columns.merged), lines = [];
  ["other", ...TOP.apis.map((api) => NAMES.api[api])].forEach((name, colour) => {
    const count = columns.asked[colour][column], p99 = columns.p99[colour][step];
    if (count) lines.push(pair(name, `${units.shortCount(Number((count / columns.wide * 1e6).toPrecision(3)))}/s${p99 ? `, p99 ${units.duration(p99)}` : ""}`));
  });
  if (columns.errors[column]) lines.push(pair("errors", whole(columns.errors[column])));
  if (columns.unanswered[column]) lines.push(pair("no answer", whole(columns.unanswered[column])));
  const near = band.events.filter(({ from, to }) => to === null ? Math.abs(from - time) < columns.wide : from <= time + columns.wide && to >= time).slice(0, 5);
  tip(event, [el("b", null, clock(scale.at(column * columns.wide), columns.wide < 1e4 ? 4 : columns.wide < 1e6 ? 2 : 0)), lines.length ? lines : pair("no requests", ""), near.map(({ text }) => pair(shortened(text, 60), ""))]);
};
const startBand = () => {
  const box = $("plot"), at = (event) => event.clientX - box.getBoundingClientRect().left;
  box.addEventListener("pointerdown", (event) => {
    if (event.button || event.target.closest(".event")) return;
    const px = at(event), ends = state.range ? state.range.map(band.x) : [], near = ends.findIndex((end) => Math.abs(px - end) < 7);
    band.drag = { anchor: near < 0 ? band.timeAt(px) : state.range[1 - near], from: px, range: near < 0 ? null : state.range };
    box.setPointerCapture(event.pointerId);
  });
  box.addEventListener("pointermove", (event) => {
    const px = at(event);
    if (band.drag) {
      hideTip();
      if (Math.abs(px - band.drag.from) <= 3) return;
      const time = band.timeAt(px);
      state.range = band.drag.range = [Math.min(band.drag.anchor, time), Math.max(band.drag.anchor, time)];
      soon();
      return;
    }
    const inside = px >= band.left && px <= band.width - band.right;
    band.cross = inside ? px : null;
    drawRange();
    if (inside) bandTip(event, band.timeAt(px)); else hideTip();
  });
  const stop = () => {
    if (!band.drag) return;
    const { range } = band.drag, { scale } = band;
    band.drag = null;
    if (range) state.range = scale.of(range[1]) - scale.of(range[0]) > scale.shown / 2000 ? range : null;
    if (range) changed(true); else drawRange();
  };
  box.addEventListener("pointerup", stop);
  box.addEventListener("pointercancel", stop);
  box.addEventListener("pointerleave", () => { band.cross = null; hideTip(); drawRange(); });
  box.addEventListener("dblclick", () => { if (state.range || state.zoom) wholeTime(); });
  box.addEventListener("keydown", (event) => { // for hands without a mouse
    const move = { ArrowLeft: [-0.1, -0.1], ArrowRight: [0.1, 0.1], "+": [0.2, -0.2], "=": [0.2, -0.2], "-": [-0.33, 0.33] }[event.key];
    if (!move) return;
    event.preventDefault();
    const scale = scaleOf(0, span), [begin, end] = windowOf().map(scale.of), long = end - begin, shift = Math.max(-begin, Math.min(scale.shown - end, move[0] * long)), moves = move[0] === move[1];
    const [from, to] = (moves ? [begin + shift, end + shift] : [Math.max(0, begin + move[0] * long), Math.min(scale.shown, end + move[1] * long)]).map(scale.at);
    if (to - from < 1) return;
    state.range = from <= 0 && to >= span ? null : [from, to];
    if (state.zoom && (from < state.zoom[0] || to > state.zoom[1])) state.zoom = null;
    changed(false);
    say(state.range ? `${clock(from)} to ${clock(to)}, ${counted(selection.rows.length, "request")}` : "whole capture");
  });
};
// The whole capture as a small copy in the header, once the band is out of sight.
const drawMini = () => {
  const width = 168, height = 30, n = 84, counts = new Float64Array(n), failed = new Uint8Array(n), scale = scaleOf(0, span), column = (row) => Math.min(n - 1, Math.floor(scale.of(requests.time[row]) / scale.shown * n));
  for (const row of selection.base) {
    if (isAsked(row)) counts[column(row)] += requests.weight[row];
    if (requests.outcome[row]) failed[column(row)] = 1;
  }
  const peak = Math.max(1, ...counts), x = (time) => scale.of(time) / scale.shown * width;
  let path = `M0 ${height - 3}`;
  counts.forEach((count, at) => { path += `L${at * 2 + 1} ${round(height - 3 - count / peak * (height - 9))}`; });
  $("mini").replaceChildren(svg("svg", { width, height, "aria-hidden": "true" }, svg("path", { d: `${path}L${width} ${height - 3}z` }), [...failed].map((bad, at) => bad ? svg("rect", { class: "failed", x: at * 2, y: height - 3, width: 2, height: 3 }) : ""),
    state.range && svg("rect", { class: "selected", x: round(x(state.range[0])), y: 0, width: round(Math.max(2, x(state.range[1]) - x(state.range[0]))), height })));
};
