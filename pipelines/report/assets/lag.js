// Lag along time: messages that a group has yet to read, and the age of the next one, a line for each partition.
const LAGS = { figures: 6, lines: 12, points: 5 };
// [{group, topic, lines: [{partition, points: [[time, messages, lag in ns]]}]}] of those that were behind, the farthest first
const lagsOf = ([from, to]) => {
  const known = data.tables.lag_lines;
  if (!known) return [];
  const at = placesIn(known), found = new Map();
  for (const row of selectRows(known, ["time"]).rows) {
    const time = row[at.bucket] - epoch, key = `${row[at.group]} ${row[at.topic]}`;
    if (time < from || time > to) continue;
    if (!found.has(key)) found.set(key, { group: string(row[at.group]), topic: string(row[at.topic]), lines: new Map() });
    const { lines } = found.get(key);
    if (!lines.has(row[at.partition])) lines.set(row[at.partition], { partition: row[at.partition], points: [] });
    lines.get(row[at.partition]).points.push([time, row[at.messages], row[at.lag_ns]]);
  }
  const most = ({ points }) => Math.max(0, ...points.map(([, messages]) => messages || 0));
  return [...found.values()].map(({ group, topic, lines }) => ({ group, topic, lines: [...lines.values()].filter(({ points }) => points.length >= LAGS.points).sort((a, b) => most(b) - most(a)) }))
    .filter(({ lines }) => lines.length && most(lines[0])).sort((a, b) => most(b.lines[0]) - most(a.lines[0]));
};
const lagLines = (lines, value, top, tall, highest, { x }) => {
  const y = (amount) => top + tall - amount / highest * tall, parts = [];
  lines.slice(0, LAGS.lines).forEach(({ partition, points }, place) => {
    let path = "", last = null;
    for (const point of points) { // lag stands until it is told anew
      const amount = point[value];
      if (amount === null) { last = null; continue; }
      path += last === null ? `M${round(x(point[0]))} ${round(y(amount))}` : `H${round(x(point[0]))}V${round(y(amount))}`;
      last = amount;
    }
    parts.unshift(svg("path", { class: place ? "lag" : "lag first", d: path }, svg("title", null, partition === null ? "the topic" : `partition ${partition}`)));
  });
  return parts;
};
const drawLag = (box) => {
  const window_ = windowOf(), all = lagsOf(window_);
  if (!all.length) return null;
  const width = box.clientWidth, small = width < 480, left = small ? 62 : 92, right = width - 2, tall = small ? 48 : 62, axis = axisOf(window_, [left, right]), shown = all.slice(0, LAGS.figures);
  const points = shown.flatMap(({ lines }) => lines.flatMap((line) => line.points)), most = [1, 2].map((value) => Math.max(...points.map((point) => point[value] || 0)));
  const says = [null, (count) => whole(count), (ns) => units.duration(ns)], names = [null, "messages", "age"];
  const figures = shown.map(({ group, topic, lines }) => {
    const panes = [1, 2].filter((value) => most[value - 1] > 0), bottom = panes.length * (tall + 14), parts = timeAxis(axis, 0, bottom);
    panes.forEach((value, at) => {
      const top = at * (tall + 14) + 6, highest = most[value - 1];
      parts.push(svg("line", { class: "axis", x1: left, x2: right, y1: top + tall, y2: top + tall }), svg("text", { x: left - 8, y: top + 9, "text-anchor": "end" }, says[value](highest)), svg("text", { x: left - 8, y: top + tall, "text-anchor": "end" }, "0"), svg("text", { x: 0, y: top + tall / 2 + 4, class: "ink" }, names[value]),
        ...lagLines(lines, value, top, tall, highest, axis));
    });
    const drawn = lines.slice(0, LAGS.lines), latest = drawn[0].points[drawn[0].points.length - 1];
    return el("figure", null, el("figcaption", null, el("b", null, group), ` on ${shortTopic(topic)}: ${lines.length > LAGS.lines ? `${LAGS.lines} of ${lines.length}` : lines.length} ${lines.length === 1 ? "partition" : "partitions"}; ${counted(latest[1] || 0, "message")} behind at the end${drawn.length > 1 && drawn[0].partition !== null ? `; coloured: partition ${drawn[0].partition}` : ""}`), picture(width, bottom + 20, `Lag of ${group} along time`, parts.flat()));
  });
  return [...figures, all.length > shown.length ? el("p", { class: "note" }, `${shown.length} of ${all.length} groups and topics are drawn, those farthest behind.`) : ""];
};
