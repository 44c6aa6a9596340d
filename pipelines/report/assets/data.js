// The data block, and sums over facts.
const data = JSON.parse(document.getElementById("data").textContent);
const string = (place) => data.strings[place];
const facts = data.facts || {};
const names = data.names || {};
const BINS = 30; // of a histogram, in a decade
const colour = (protocol) => /^[a-z]+$/.test(protocol) ? `var(--${protocol}, var(--idle))` : "var(--idle)";
const protocolName = (place) => place === null ? "other" : string(names.protocol[place]);

const ADDED = [
  "n", "polls", "errors", "unanswered", "total_ns", "service_ns", "batches", "messages", "refused", "stored_bytes",
  "uncompressed_bytes", "sized_bytes",
];

class Sum {
  constructor() { this.longest_ns = null; this.histogram = new Map(); for (const name of ADDED) this[name] = 0; }

  add(columns, row) {
    for (const name of ADDED) if (columns[name]) this[name] += columns[name][row] || 0;
    const longest = columns.longest_ns && columns.longest_ns[row];
    if (longest !== null && longest !== undefined) this.longest_ns = Math.max(this.longest_ns || 0, longest);
    const pairs = columns.histogram ? columns.histogram[row] : [];
    for (let i = 0; i < pairs.length; i += 2) this.histogram.set(pairs[i], (this.histogram.get(pairs[i]) || 0) + pairs[i + 1]);
    return this;
  }

  // A percentile, between the edges of its bin; null where too few requests stand behind it.
  quantile(name) {
    const share = Number(`0.${name.slice(1)}`), all = [...this.histogram.values()].reduce((a, b) => a + b, 0);
    if (all < data.enough[name]) return null;
    let before = 0;
    for (const [bin, count] of [...this.histogram].sort(([a], [b]) => a - b)) {
      if (before + count >= share * all)
        return Math.min(10 ** ((bin + (share * all - before) / count) / BINS), this.longest_ns);
      before += count;
    }
    return this.longest_ns;
  }
}

// Rows of a fact that the selection keeps; a fact without a selected dimension has none to say.
function* chosenRows(fact) {
  const wanted = Object.entries(selection.chosen);
  if (!fact || wanted.some(([dimension]) => !fact.columns[dimension])) return;
  for (let row = 0; row < fact.size; row++)
    if (wanted.every(([dimension, place]) => fact.columns[dimension][row] === place)) yield row;
}

// Sums by some columns: [{keys, sum}], in the order of the fact.
const sums = (fact, by) => {
  const made = new Map();
  for (const row of chosenRows(fact)) {
    const keys = by.map((name) => fact.columns[name][row]), key = keys.join();
    if (!made.has(key)) made.set(key, { keys, sum: new Sum() });
    made.get(key).sum.add(fact.columns, row);
  }
  return [...made.values()];
};

// The fact that can answer: by one dimension it is complete, by all of them it serves every selection.
const requestsBy = (dimension) => {
  const others = Object.keys(selection.chosen).filter((name) => name !== "protocol" && name !== dimension);
  if (!others.length && facts[dimension]) return facts[dimension];
  return selection.chosen.topic !== undefined || dimension === "topic" ? facts.topic_requests : facts.requests;
};
const requestsAlongTime = () => selection.chosen.topic === undefined ? facts.requests_time : facts.topic_requests_time;
const dataByTopic = () => {
  const others = Object.keys(selection.chosen).filter((name) => name !== "protocol" && name !== "topic");
  return others.length ? facts.data_time : facts.topic_role;
};
