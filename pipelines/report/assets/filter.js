// The selection: one pass over the columns, and what is counted of it.
const selection = {
  base: new Uint32Array(0), // rows that filters and evidence keep, at any time
  rows: new Uint32Array(0), // those that also begin in the range
  has: new Uint8Array(requests.n), // whether a row is among them
  batches: new Uint32Array(0),
};
// [places of all rows, which places pass] of each dimension that is asked of
const tests = (of, chips) => DIMENSIONS.flatMap((dimension) => {
  const mine = chips.filter((chip) => chip.dimension === dimension);
  if (!mine.length) return [];
  const wanted = mine.filter(({ not }) => !not), isSet = dimension === "topic" && of === requests;
  const pass = (places) => (!wanted.length || wanted.some(({ place }) => places.includes(place))) && !mine.some(({ not, place }) => not && places.includes(place));
  const all = isSet ? carried.topic_sets : NAMES[dimension].map((_, place) => [place]);
  return [[of[isSet ? "topics" : dimension], Uint8Array.from(all, (places) => pass(places) ? 1 : 0)]];
});
const OF_REQUESTS = ["outcome", "error"]; // dimensions that batches have through their request only

const evidenceMask = (verdict) => {
  const mask = new Uint8Array(requests.n);
  for (const row of verdict.rows) mask[row] = 1;
  return mask;
};
const choose = ({ chips, range, verdict }) => {
  const { n, time } = requests, asks = tests(requests, chips), mask = verdict ? evidenceMask(verdict) : null;
  const [from, to] = range || [-Infinity, Infinity], base = new Uint32Array(n), rows = new Uint32Array(n), kept = new Uint8Array(n), has = new Uint8Array(n);
  let bases = 0, chosen = 0;
  next: for (let row = 0; row < n; row++) {
    if (mask && !mask[row]) continue;
    for (const [places, pass] of asks) if (!pass[places[row]]) continue next;
    base[bases++] = row;
    kept[row] = 1;
    if (time[row] >= from && time[row] <= to) { rows[chosen++] = row; has[row] = 1; }
  }
  const some = tests(batches, chips.filter(({ dimension }) => !OF_REQUESTS.includes(dimension)));
  const through = mask || chips.some(({ dimension }) => OF_REQUESTS.includes(dimension)), found = new Uint32Array(batches.n);
  let moved = 0;
  more: for (let at = 0; at < batches.n; at++) {
    if (batches.time[at] < from || batches.time[at] > to) continue;
    if (through && !(batches.request[at] >= 0 && batches.request[at] < n && kept[batches.request[at]])) continue;
    for (const [places, pass] of some) if (!pass[places[at]]) continue more;
    found[moved++] = at;
  }
  return { base: base.subarray(0, bases), rows: rows.subarray(0, chosen), has, batches: found.subarray(0, moved) };
};

// Numbers of rows: counts weigh each row by how many requests it stands for.
const [PRODUCE, CONSUME, REPLICATE] = [0, 1, 2];
const measure = ({ rows, has, batches: some }) => {
  const sum = { requests: 0, silent: 0, pushed: 0, failed: 0, errors: 0, unanswered: 0, timed: 0, p50: null, p99: null, longest: null, produced: 0, consumed: 0, together: 0 };
  for (const row of rows) {
    const weight = requests.weight[row];
    if (isAsked(row)) sum.requests += weight; else sum.pushed += weight;
    if (kindOf(row) === ONEWAY) sum.silent += weight;
    if (requests.outcome[row] === 1) sum.errors += weight;
    if (requests.outcome[row] === 2) sum.unanswered += weight;
    if (requests.timed[row]) sum.timed += weight;
    if (!requests.alone[row] && isListed(row)) sum.together += weight;
  }
  sum.failed = sum.errors + sum.unanswered;
  for (const at of some) if (batches.role[at] === PRODUCE) sum.produced += batches.messages[at]; else if (batches.role[at] === CONSUME) sum.consumed += batches.messages[at];
  [sum.p50, sum.p99, sum.longest] = quantiles((row) => has[row] ? 0 : -1, 1, [0.5, 0.99, 1])[0];
  return sum;
};
// Exact quantiles of the durations of groups of rows: one walk in the order of durations. groupsOf(row): the number of its
// group, a list of them, or -1. A quantile is null where nothing is known.
const quantiles = (groupsOf, groups, shares) => {
  const counts = new Float64Array(groups), seen = new Float64Array(groups), found = Array.from({ length: groups }, () => shares.map(() => null));
  const each = (row, act) => { const group = groupsOf(row); if (typeof group !== "number") group.forEach(act); else if (group >= 0) act(group); };
  for (let row = 0; row < requests.n; row++) if (requests.timed[row]) each(row, (group) => { counts[group] += requests.weight[row]; });
  for (const row of order("total")) {
    if (!requests.timed[row]) continue;
    each(row, (group) => {
      const before = seen[group], after = seen[group] += requests.weight[row];
      for (let at = 0; at < shares.length; at++) { const rank = Math.ceil(counts[group] * shares[at]); if (before < rank && rank <= after) found[group][at] = requests.total[row]; }
    });
  }
  return found;
};
// How many requests may belong to the selection, but are carried without the names that it asks for.
const LOST_NAMES = ["client", "group", "topic"];
const isNameless = (row) => !requests.alone[row] && !requests.client[row];
const hasNameless = requests.client.some((_, row) => isNameless(row));
const countNameless = () => {
  if (!hasNameless || !state.chips.some(({ dimension }) => LOST_NAMES.includes(dimension))) return 0;
  const { rows } = choose({ chips: state.chips.filter(({ dimension }) => !LOST_NAMES.includes(dimension)), range: state.range, verdict: chosenVerdict() });
  return rows.reduce((sum, row) => sum + (isNameless(row) && isAsked(row) ? requests.weight[row] : 0), 0);
};
const windowOf = () => state.range || [0, span];
