// The data block, and sums over facts.
const data = JSON.parse(document.getElementById("data").textContent);
const string = (place) => data.strings[place];
const meanings = data.meanings || {}; // of errors, by the place of their name
const facts = data.facts || {};
const names = data.names || {};
const BINS = 30; // of a histogram, in a decade
const BUCKET = data.bucket || 1e6; // width of a time bucket, µs
const bucketAt = (time) => Math.floor(time / BUCKET);
const colour = (protocol) => /^[a-z]+$/.test(protocol) ? `var(--${protocol}, var(--idle))` : "var(--idle)";
const protocolName = (place) => place === null ? "other" : string(names.protocol[place]);

const ADDED = [
  "n", "polls", "errors", "unanswered", "waits", "total_ns", "service_ns", "batches", "messages", "refused", "stored_bytes",
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

  // Requests whose duration is known, and those whose duration is not; sums and means are null where none is known.
  get timed() { return [...this.histogram.values()].reduce((a, b) => a + b, 0); }
  get untimed() { return this.n - this.timed; }
  get total() { return this.timed ? this.total_ns : null; }
  get service() { return this.waits ? this.service_ns : null; }
  get mean() { return this.waits ? this.service_ns / this.waits : null; }

  // A percentile of the known durations, between the edges of its bin; null where too few stand behind it.
  quantile(name) {
    const share = Number(`0.${name.slice(1)}`), all = this.timed;
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
function* chosenRows(fact, keeps = (value, place) => value === place) {
  const wanted = Object.entries(selection.chosen);
  if (!fact || wanted.some(([dimension]) => !fact.columns[dimension])) return;
  for (let row = 0; row < fact.size; row++)
    if (wanted.every(([dimension, place]) => keeps(fact.columns[dimension][row], place, row))) yield row;
}

// How many may belong to the selection, but stand under names that the page does not carry. measures: what is counted
const unnamed = (fact, measures) => {
  const may = (value, place, row) => value === place || value === null && fact.columns.unnamed[row] === 1;
  const count = (rows) => [...rows].reduce((sum, row) => measures.reduce((all, name) => all + (fact.columns[name][row] || 0), sum), 0);
  return count(chosenRows(fact, may)) - count(chosenRows(fact));
};
const REQUESTS = ["n", "polls", "unanswered"];
const unnamedNote = (fact, measures, noun) => {
  const count = unnamed(fact, measures);
  return count ? `Up to ${counted(count, noun)} more may belong to this selection: this page does not carry all names.` : "";
};

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

// The fact that can answer: by one dimension it is complete, by all of them it serves every selection; of a verdict's
// evidence there are some of their own.
const factOf = (name) => facts[selection.chosen.verdict === undefined ? name : `verdict_${name}`];
const requestsBy = (dimension) => {
  const others = Object.keys(selection.chosen).filter((name) => name !== "protocol" && name !== dimension);
  if (!others.length && facts[dimension]) return facts[dimension];
  return factOf(selection.chosen.topic !== undefined || dimension === "topic" ? "topic_requests" : "requests");
};
const requestsAlongTime = () => factOf(selection.chosen.topic === undefined ? "requests_time" : "topic_requests_time");
const dataByTopic = () => {
  const others = Object.keys(selection.chosen).filter((name) => name !== "protocol" && name !== "topic");
  return others.length ? factOf("data_time") : facts.topic_role;
};
