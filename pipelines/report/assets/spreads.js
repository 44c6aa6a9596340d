// Durations by broker: histograms on one logarithmic axis, a row an API, a column a broker.
const SPREAD = { apis: 4, brokers: 6, bins: 8, wide: 112 }; // bins in a decade, pixels of a broker at least
const drawSpreads = (box) => {
  const perApi = new Map(), perBroker = new Map();
  for (const row of selection.rows) if (requests.timed[row]) {
    perApi.set(requests.api[row], (perApi.get(requests.api[row]) || 0) + requests.weight[row]);
    perBroker.set(requests.broker[row], (perBroker.get(requests.broker[row]) || 0) + requests.weight[row]);
  }
  const ranked = (counts) => [...counts].sort((a, b) => b[1] - a[1]), many = ranked(perApi).filter(([, count]) => count >= DRAWN.requests), apis = many.slice(0, SPREAD.apis).map(([api]) => api);
  const brokers = ranked(perBroker).slice(0, Math.max(2, Math.min(SPREAD.brokers, Math.floor((box.clientWidth - (box.clientWidth < 480 ? 0 : 128)) / SPREAD.wide)))).map(([broker]) => broker).sort((a, b) => ranksOf("broker")[a] - ranksOf("broker")[b]);
  if (!apis.length) return null;
  const groupOf = (row) => { const api = apis.indexOf(requests.api[row]), broker = brokers.indexOf(requests.broker[row]); return !selection.has[row] || api < 0 || broker < 0 ? -1 : api * brokers.length + broker; };
  const groups = Array.from({ length: apis.length * brokers.length }, () => ({ count: 0, bins: new Map() })), log = (ns) => Math.log10(Math.max(1000, ns));
  let low = Infinity, high = 0;
  for (const row of selection.rows) {
    if (!requests.timed[row] || groupOf(row) < 0) continue;
    const group = groups[groupOf(row)], bin = Math.floor(log(requests.total[row]) * SPREAD.bins);
    group.count += requests.weight[row];
    group.bins.set(bin, (group.bins.get(bin) || 0) + requests.weight[row]);
    low = Math.min(low, log(requests.total[row]));
    high = Math.max(high, log(requests.total[row]));
  }
  low = Math.floor(low);
  high = Math.max(low + 1, Math.ceil(high + 1e-9));
  const found = quantiles(groupOf, groups.length, [0.5, 0.99, 1]);
  const width = box.clientWidth, small = width < 480, left = small ? 0 : 128, gap = small ? 10 : 18, wide = (width - left - gap * (brokers.length - 1)) / brokers.length, rowTall = small ? 80 : 74, top = 22, height = top + apis.length * rowTall + 20;
  const xOf = (broker) => left + broker * (wide + gap), x = (broker, ns) => xOf(broker) + (log(ns) - low) / (high - low) * wide, parts = [];
  const places = brokers.map((broker) => NAMES.broker[broker]), fits = Math.floor(wide / 7), arePorts = new Set(places.map(port)).size === places.length;
  const headOf = (name) => name.length <= fits ? name : arePorts ? port(name) : `…${name.slice(-Math.max(5, fits - 1))}`;
  places.forEach((name, at) => parts.push(svg("text", { x: round(xOf(at)), y: 10, class: "ink b" }, svg("title", null, name), headOf(name))));
  apis.forEach((api, line) => {
    const y = top + line * rowTall, floor = y + rowTall - 6, tall = rowTall - (small ? 38 : 30), mine = brokers.map((_, at) => groups[line * brokers.length + at]);
    if (small) parts.push(svg("text", { x: 0, y: y + 8, class: "ink" }, NAMES.api[api])); else parts.push(svg("text", { x: 0, y: floor - 15, class: "ink b" }, svg("title", null, NAMES.api[api]), shortened(NAMES.api[api], 18)), svg("text", { x: 0, y: floor }, counted(perApi.get(api), "request")));
    const peak = Math.max(...mine.filter(({ count }) => count >= DRAWN.requests).flatMap(({ count, bins }) => [...bins.values()].map((one) => one / count)), 0);
    mine.forEach(({ count, bins }, at) => {
      parts.push(svg("line", { class: "axis", x1: Math.round(xOf(at)), x2: Math.round(xOf(at) + wide), y1: floor, y2: floor }));
      for (let power = low; power <= high; power++) parts.push(svg("line", { class: "grid", x1: Math.round(x(at, 10 ** power)), x2: Math.round(x(at, 10 ** power)), y1: floor - tall, y2: floor }));
      if (count < DRAWN.requests) { parts.push(svg("text", { x: round(xOf(at) + 4), y: floor - 6 }, count ? `${count} only` : "none")); return; }
      const [p50, p99, longest] = found[line * brokers.length + at], bar = wide / ((high - low) * SPREAD.bins);
      let path = "";
      for (const [bin, one] of bins) { const up = Math.max(1.5, one / count / peak * tall), thick = Math.max(1, bar - 0.8); path += `M${round(xOf(at) + (bin - low * SPREAD.bins) * bar)} ${round(floor - up)}h${round(thick)}v${round(up)}h-${round(thick)}z`; }
      const says = [`p50 ${units.duration(p50)}`, ...(wide > 170 ? [count >= P99_NEEDS ? `p99 ${units.duration(p99)}` : `max ${units.duration(longest)}`] : [])].join(" · ");
      parts.push(svg("path", { d: path, class: `c${TOP.colour[api]}` }, svg("title", null, `${NAMES.api[api]} of ${NAMES.broker[brokers[at]]}: ${counted(count, "request")}, ${says}`)), svg("path", { class: "q50", d: `M${round(x(at, p50))} ${floor - tall - 2}V${floor}` }), svg("path", { class: "q99", d: `M${round(x(at, count >= P99_NEEDS ? p99 : longest))} ${floor - tall - 2}V${floor}` }),
        svg("text", { x: round(xOf(at) + wide), y: floor - tall - 5, "text-anchor": "end" }, says));
    });
  });
  const every = powersApart(high - low, wide, 56);
  brokers.forEach((_, at) => { for (let power = low; power <= high; power += every) parts.push(svg("text", { x: round(x(at, 10 ** power)), y: height - 4, "text-anchor": power === low ? "start" : power === high ? "end" : "middle" }, powerText(power))); });
  const cut = [many.length > apis.length ? `the ${apis.length} busiest APIs of ${many.length}` : "", perBroker.size > brokers.length ? `the ${brokers.length} busiest brokers of ${perBroker.size}` : ""].filter(Boolean).join(", ");
  return [picture(width, height, "Histograms of durations, a row an API, a column a broker, one logarithmic axis", parts), cut ? el("p", { class: "note" }, `Drawn: ${cut}.`) : ""];
};
