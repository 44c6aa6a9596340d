// Where the time of slow requests went: a bar for each broker, client and topic, as long as their time, in its parts.
const CAUSES = { of: ["broker", "client", "topic"], names: 8 };
const nameOf = { broker: (place) => NAMES.broker[place], client: clientName, topic: (place) => shortTopic(NAMES.topic[place]) };
// Of each dimension the sums of slow requests by name, the largest first. A request counts for each topic that it names.
const slowBy = (slow) => {
  const found = CAUSES.of.map(() => new Map());
  for (const row of slow) {
    const told = partsOf(row, stagesOf(row)), parts = PARTS.map(([, , name]) => Math.max(0, told[name] || 0)), weight = requests.weight[row];
    CAUSES.of.forEach((dimension, of) => {
      for (const place of dimension === "topic" ? topicsOf(row) : [requests[dimension][row]]) {
        if (!place) continue;
        if (!found[of].has(place)) found[of].set(place, { place, count: 0, total: 0, parts: PARTS.map(() => 0) });
        const sum = found[of].get(place);
        sum.count += weight;
        sum.total += requests.total[row] * weight;
        parts.forEach((ns, at) => { sum.parts[at] += ns * weight; });
      }
    });
  }
  return found.map((sums, of) => [CAUSES.of[of], [...sums.values()].sort((a, b) => b.total - a.total)]);
};
const drawCauses = (box) => {
  const slow = selection.rows.filter((row) => requests.timed[row] && requests.total[row] >= Number(box.dataset.least));
  if (slow.reduce((sum, row) => sum + requests.weight[row], 0) < DRAWN.requests) return null;
  const groups = slowBy(slow).filter(([dimension, sums]) => sums.length > (dimension === "broker" ? 0 : 1)); // one bar of all is enough
  const width = box.clientWidth, small = width < 480, left = small ? 96 : 200, right = small ? 66 : 236, tall = 25, most = Math.max(...groups.map(([, sums]) => sums[0].total)), drawn = [], said = [];
  let y = 0;
  for (const [dimension, sums] of groups) {
    drawn.push(svg("text", { x: 0, y: y + 12 }, `by ${dimension}${sums.length > CAUSES.names ? `, ${CAUSES.names} of ${whole(sums.length)}` : ""}`));
    y += 18;
    for (const { place, count, total, parts } of sums.slice(0, CAUSES.names)) {
      const name = nameOf[dimension](place), full = NAMES[dimension][place], largest = parts.indexOf(Math.max(...parts)), says = `${PARTS[largest][1]} ${units.share(parts[largest] / total)}`;
      let from = left;
      const bars = parts.map((ns, at) => {
        const wide = ns / most * (width - left - right), x = from;
        from += wide;
        return wide < 0.2 ? "" : svg("rect", { class: `w-${PARTS[at][0]}`, x: round(x), y: y + 5, width: round(Math.max(0.5, wide - 0.5)), height: 14 }, svg("title", null, `${full}: ${PARTS[at][1]} ${units.duration(ns)}, ${units.share(ns / total)}`));
      });
      drawn.push(svg("g", { class: "event", onclick: () => toggle(dimension, place) }, svg("text", { x: 0, y: y + 16, class: "ink" }, svg("title", null, full), name.length > (small ? 13 : 30) ? `…${name.slice(-(small ? 12 : 29))}` : name), bars,
        svg("text", { x: small ? width : width - 168, y: y + 16, "text-anchor": "end", class: "ink" }, svg("title", null, counted(count, "slow request")), units.duration(total)), small ? "" : svg("text", { x: width, y: y + 16, "text-anchor": "end" }, says)));
      said.push(`${dimension} ${full} ${units.duration(total)}, most of it ${says}`);
      y += tall;
    }
    y += 8;
  }
  const there = PARTS.filter((_, at) => groups.some(([, sums]) => sums.some(({ parts }) => parts[at])));
  return [picture(width, y, said.join("; "), drawn), el("p", { class: "legend" }, there.map(([kind, text]) => el("span", null, dot(`w-${kind}`), text)))];
};
