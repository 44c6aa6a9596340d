// Owners along time: which broker led each partition, as answers told it. Nothing is drawn where none changed.
const OWNED = 24; // partitions
// Leader -> the broker that took most of what was produced to its partitions while it led them: a node's id says no address.
const brokersOf = (spans) => {
  const led = new Map(), sums = new Map(), most = new Map();
  for (const span of spans) led.set(span.key, [...(led.get(span.key) || []), span]);
  const keys = carried.partitions.map(([topic, number]) => `${NAMES.topic[topic]} ${number}`);
  for (let at = 0; at < batches.n; at++) {
    if (batches.role[at] !== PRODUCE || !batches.messages[at]) continue;
    const span = (led.get(keys[batches.part[at]]) || []).find(({ since, until }) => since <= batches.time[at] && batches.time[at] <= until);
    if (!span || span.leader === null) continue;
    if (!sums.has(span.leader)) sums.set(span.leader, new Map());
    const sum = sums.get(span.leader);
    sum.set(batches.broker[at], (sum.get(batches.broker[at]) || 0) + batches.messages[at]);
  }
  for (const [leader, sum] of sums) most.set(leader, [...sum].reduce((a, b) => b[1] > a[1] ? b : a)[0]);
  return most;
};
const drawOwners = (box) => {
  const known = data.tables.leaders;
  if (!known) return null;
  const at = placesIn(known), [from, to] = windowOf(), partitions = new Map(), leaders = new Map();
  for (const row of known.rows) if (row[at.leader] !== null && !leaders.has(row[at.leader])) leaders.set(row[at.leader], leaders.size + 1);
  const topicOf = (row) => row[at.topic] === null ? "metadata" : string(row[at.topic]); // what is led of no topic
  for (const row of selectRows(known, ["time"]).rows) {
    const since = row[at.since] - epoch, until = (row[at.until] === null ? row[at.since] : row[at.until]) - epoch, key = `${topicOf(row)} ${row[at.partition]}`;
    if (since > to || until < from) continue;
    if (!partitions.has(key)) partitions.set(key, { name: `${shortTopic(topicOf(row))}${row[at.partition] === null ? "" : ` ${row[at.partition]}`}`, whole: topicOf(row), spans: [] });
    partitions.get(key).spans.push({ since, until, leader: row[at.leader], isr: row[at.isr_least], packet: row[at.packet] });
  }
  const served = brokersOf([...partitions].flatMap(([key, { spans }]) => spans.map((span) => ({ ...span, key }))));
  const colourOf = (leader) => served.has(leader) ? brokerColour(served.get(leader)) : (leaders.get(leader) - 1) % 4 + 1;
  const nameOf = (leader) => { const name = string(leader), broker = served.has(leader) ? NAMES.broker[served.get(leader)] : ""; return /^\d+$/.test(name) ? `node ${name}${broker && ` (${broker})`}` : name; };
  const moved = [...partitions.values()].filter(({ spans }) => new Set(spans.map(({ leader }) => leader)).size > 1 || spans.some(({ leader }) => leader === null));
  if (!moved.length) return null;
  const all = [...partitions.values()].sort((a, b) => b.spans.length - a.spans.length), shown = all.slice(0, OWNED).sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
  const width = box.clientWidth, small = width < 480, left = small ? 96 : 200, tall = 25, bottom = shown.length * tall, axis = axisOf([from, to], [left, width - 2]), x = axis.clamped;
  const parts = timeAxis(axis, 0, bottom);
  shown.forEach(({ name, whole: topic, spans }, line) => {
    const y = line * tall, most = Math.max(...spans.map(({ isr }) => isr || 0));
    parts.push(svg("text", { x: 0, y: y + 16, class: "ink" }, svg("title", null, topic), name.length > (small ? 14 : 30) ? `…${name.slice(-(small ? 13 : 29))}` : name));
    for (const { since, until, leader, isr } of spans) {
      const a = round(x(since)), wide = round(Math.max(2, x(until) - x(since) - 1)), text = leader === null ? "no leader" : nameOf(leader), says = `${clock(since)} for ${during(until - since)}: ${text}${isr ? `, ${isr} in sync at least` : ""}`;
      parts.push(svg("g", null, svg("title", null, says), svg("rect", { class: leader === null ? "span-critical" : `k${colourOf(leader)}`, x: a, y: y + 5, width: wide, height: 14, rx: 2 }),
        isr && isr < most ? svg("path", { class: "thin-sync", d: `M${a} ${y + 21.5}h${wide}` }) : ""));
    }
  });
  const note = [`${counted(moved.length, "partition")} changed hands`, all.length > OWNED ? `${OWNED} of ${whole(all.length)} are drawn` : ""].filter(Boolean).join("; ");
  return [picture(width, bottom + 20, "Owner of each partition along time", parts.flat(2)), el("p", { class: "legend" }, [...leaders.keys()].slice(0, 12).map((leader) => el("span", null, dot(`k${colourOf(leader)}`), nameOf(leader))), all.some(({ spans }) => spans.some(({ leader }) => leader === null)) ? el("span", null, dot("span-critical"), "no leader") : "",
    parts.flat(3).some((part) => part.querySelector && part.querySelector(".thin-sync")) ? el("span", null, svg("svg", { width: 14, height: 10, class: "sign" }, svg("path", { class: "thin-sync", d: "M0 6h14" })), "fewer replicas in sync") : "", el("span", null, note))];
};
