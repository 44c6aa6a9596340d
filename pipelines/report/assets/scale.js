// The axis of time that all pictures share. A stretch in which nothing happens, and that is longer than all else in the
// window, is drawn as a narrow break: what lies around it keeps its width. Times stay real everywhere else.
const IDLE_SHARE = 20; // a break is at least this part of the window
const STRETCH = 20; // requests that a stretch between breaks has on average: fewer are a slow rhythm, not captures apart
const BREAK_SHARE = 0.03; // of the width that is left, which a break takes
// Moments at which something happens that is no request: connections begin and end, rows of tables of events.
const moments = (() => {
  const found = [];
  for (const connection of carried.connections) for (const time of [connection[2], connection[3]]) if (time !== null) found.push(time);
  for (const name of ["rebalances", "events", "other_events"]) {
    const known = data.tables[name], at = known ? known.columns.findIndex((column) => column.name === "time") : -1;
    if (at >= 0) for (const row of known.rows) if (row[at] !== null) found.push(row[at] - epoch);
  }
  for (const verdict of verdicts) for (const time of [verdict.first, verdict.last]) if (time !== null) found.push(time - epoch);
  return Float64Array.from(found).sort();
})();
// [from, to] of each stretch of a window, longer than `least`, in which nothing happens. Requests are in order of time.
const idleIn = (from, to, least) => {
  const idle = [];
  let latest = from, next = 0;
  const pass = (begin, end) => { if (begin - latest > least) idle.push([latest, begin]); latest = Math.max(latest, end); };
  const passMoments = (until) => { for (; next < moments.length && moments[next] <= until; next++) if (moments[next] > from) pass(moments[next], moments[next]); };
  for (let row = 0; row < requests.n && requests.time[row] < to; row++) {
    passMoments(requests.time[row]);
    const end = endOf(row) + (requests.alone[row] ? 0 : carried.grain); // of requests together, `time` is that of their bucket
    if (end > from) pass(Math.max(from, requests.time[row]), Math.min(to, end));
  }
  passMoments(to);
  pass(to, to);
  return idle;
};
const scales = new Map();
// of(time): its place on the axis, in µs of what is drawn; at(place): the time there; shown: places in all; breaks: [from, to].
const scaleOf = (from, to) => {
  const key = `${from} ${to}`;
  if (scales.has(key)) return scales.get(key);
  if (scales.size > 50) scales.clear();
  const idle = idleIn(from, to, (to - from) / IDLE_SHARE), busy = idle.reduce((left, [a, b]) => left - (b - a), to - from), long = idle.filter(([a, b]) => b - a > busy);
  let count = 0;
  for (let row = 0; row < requests.n; row++) if (requests.time[row] >= from && requests.time[row] <= to) count += requests.weight[row];
  const breaks = count >= STRETCH * (long.length + 1) ? long : [];
  const left = breaks.reduce((sum, [a, b]) => sum - (b - a), to - from), narrow = Math.max(1, left * BREAK_SHARE), points = [[from, 0]];
  for (const [a, b] of breaks) {
    const [time, place] = points[points.length - 1];
    points.push([a, place + a - time], [b, place + a - time + narrow]);
  }
  const [time, place] = points[points.length - 1];
  points.push([to, place + to - time]);
  const along = (value, own, other) => {
    let at = 1;
    while (at < points.length - 1 && points[at][own] < value) at++;
    const [p, q] = [points[at - 1], points[at]], long = q[own] - p[own];
    return long ? p[other] + (value - p[own]) / long * (q[other] - p[other]) : q[other];
  };
  const made = { from, to, breaks, shown: points[points.length - 1][1], of: (value) => along(value, 0, 1), at: (value) => along(value, 1, 0) };
  scales.set(key, made);
  return made;
};
// A window on pixels from left to right: x(time), timeAt(pixel).
const axisOf = ([from, to], [left, right]) => {
  const scale = scaleOf(from, to), within = (time) => Math.max(from, Math.min(to, time));
  return { scale, left, right, x: (time) => left + scale.of(time) / scale.shown * (right - left), clamped: (time) => left + scale.of(within(time)) / scale.shown * (right - left), timeAt: (px) => within(scale.at((px - left) / (right - left) * scale.shown)) };
};
// Draws the ticks of an axis and its breaks, and where lines begin and end.
const TICK_ROOM = 130, BREAK_ROOM = 74; // px
const timeAxis = ({ scale, x, left, right }, top, bottom) => {
  const { from, to, breaks, shown } = scale, ends = [from, ...breaks.flat(), to], parts = [], most = Math.max(2, Math.floor((right - left) / TICK_ROOM)), days = day(from) !== day(to);
  let free = -Infinity, before = days ? "" : day(from);
  for (let at = 0; at < ends.length; at += 2) {
    const [a, b] = [ends[at], ends[at + 1]], ticks = timeTicks(a, b, Math.max(1, most * (b - a) / shown), before);
    for (const [time, text] of at && (!ticks.length || x(ticks[0][0]) - x(a) > TICK_ROOM) ? [[a, tickText(a, shown / most, before)], ...ticks] : ticks) {
      const px = x(time);
      if (breaks.length && px - free < BREAK_ROOM) continue;
      before = day(time);
      free = px;
      parts.push(svg("line", { class: "grid", x1: Math.round(px), x2: Math.round(px), y1: top, y2: bottom }), svg("text", { x: round(px), y: bottom + 16, "text-anchor": px > right - 34 ? "end" : px < left + 34 ? "start" : "middle" }, text));
    }
  }
  for (const [a, b] of breaks) {
    const [p, q] = [x(a), x(b)], middle = (p + q) / 2;
    parts.push(svg("g", { class: "break" }, svg("title", null, `${clock(a)} to ${clock(b)}: nothing for ${during(b - a)}`), svg("rect", { x: round(p), y: top, width: round(q - p), height: round(bottom - top) }), svg("path", { d: `M${round(middle - 4)} ${bottom + 4}l3 -8M${round(middle + 1)} ${bottom + 4}l3 -8` })));
  }
  return parts;
};
