// Partitions: how many messages were produced to each, and through which broker.
const PARTITIONS = 24;
const partitionName = ([topic, number]) => `${shortTopic(NAMES.topic[topic]) || "no topic"}${number === null || number < 0 ? "" : ` ${number}`}`;
const drawPartitions = (box) => {
  const sums = new Map();
  for (const at of selection.batches) {
    if (batches.role[at] !== PRODUCE || !batches.messages[at]) continue;
    if (!sums.has(batches.part[at])) sums.set(batches.part[at], { part: batches.part[at], count: 0, by: new Map() });
    const sum = sums.get(batches.part[at]);
    sum.count += batches.messages[at];
    sum.by.set(batches.broker[at], (sum.by.get(batches.broker[at]) || 0) + batches.messages[at]);
  }
  const all = [...sums.values()], total = all.reduce((sum, { count }) => sum + count, 0);
  if (all.length < 2 || total < DRAWN.requests) return null;
  const shown = all.sort((a, b) => b.count - a.count).slice(0, PARTITIONS).sort((a, b) => partitionName(carried.partitions[a.part]).localeCompare(partitionName(carried.partitions[b.part]), "en", { numeric: true }));
  const width = box.clientWidth, small = width < 480, left = small ? 96 : 200, right = 132, tall = 25, most = Math.max(...shown.map(({ count }) => count)), mean = total / all.length, x = (count) => count / most * (width - left - right), bottom = shown.length * tall, parts = [];
  shown.forEach(({ part, count, by }, line) => {
    const y = line * tall, name = partitionName(carried.partitions[part]);
    let from = left;
    parts.push(svg("text", { x: 0, y: y + 16, class: "ink" }, svg("title", null, `${NAMES.topic[carried.partitions[part][0]]} ${carried.partitions[part][1]}`), name.length > (small ? 14 : 30) ? `…${name.slice(-(small ? 13 : 29))}` : name));
    for (const [broker, some] of [...by].sort((a, b) => a[0] - b[0])) {
      parts.push(svg("g", { class: "event", onclick: () => toggle("broker", broker) }, svg("title", null, `${whole(some)} to ${NAMES.broker[broker]}`), svg("rect", { class: `k${brokerColour(broker)}`, x: round(from), y: y + 5, width: round(Math.max(1, x(some) - 1)), height: 14, rx: 2 })));
      from += x(some);
    }
    parts.push(svg("text", { x: width - 62, y: y + 16, "text-anchor": "end", class: "ink" }, whole(count)), svg("text", { x: width, y: y + 16, "text-anchor": "end" }, units.share(count / total)));
  });
  parts.push(svg("line", { class: "cross", x1: round(left + x(mean)), x2: round(left + x(mean)), y1: 0, y2: bottom }), svg("text", { x: round(left + x(mean)), y: bottom + 14, "text-anchor": "middle" }, `mean ${whole(mean)}`));
  const brokers = [...new Set(shown.flatMap(({ by }) => [...by.keys()]))].sort((a, b) => a - b);
  return [picture(width, bottom + 22, "Messages produced to each partition", parts), el("p", { class: "legend" }, brokers.slice(0, 12).map((broker) => el("span", null, dot(`k${brokerColour(broker)}`), NAMES.broker[broker])),
    el("span", null, `the busiest has ${units.ratio(most / mean)} times the mean${all.length > PARTITIONS ? `; ${PARTITIONS} of ${whole(all.length)} partitions are drawn` : ""}`))];
};
