// Tables whose rows are sums of the selection: by API, broker and topic.
const column = (name, head, unit, doc = "", mark = undefined) => ({ name, head, unit, doc, mark });
const REQUEST_COLUMNS = [
  column("n", "requests", "count", "calls that were answered, and those that were not; long polls too"),
  column("errors", "errors", "count", "answers that hold an error, expected ones apart", "warn"),
  column("unanswered", "unanswered", "count", "requests whose answer is not in the capture", "warn"),
  column("p50", "p50", "ns", "of the whole duration, without long polls: half are at most this; blank where too few requests stand behind it"),
  column("p99", "p99", "ns", "of the whole duration, without long polls: 99 % are at most this; blank where too few requests stand behind it"),
  column("longest", "longest", "ns", "the longest whole duration, without long polls"),
  column("mean", "mean service", "ns", "time that a request waited for its own answer, on average"),
  column("service", "service time", "ns", "time that these requests waited for their own answer, all together"),
  column("untimed", "without a duration", "count", "calls of which bytes are not in the capture", "warn"),
];
const serviceOf = (row) => Math.max(0, requests.wait[row] - Math.max(0, requests.queued[row]));
// place of a name -> sums over the selection. A request counts for each topic that it names.
const sumsBy = (dimension) => {
  const sums = new Map(), placesOf = dimension === "topic" ? (row) => topicsOf(row) : (row) => [requests[dimension][row]];
  const at = (place) => { if (!sums.has(place)) sums.set(place, { at: sums.size, n: 0, errors: 0, unanswered: 0, timed: 0, untimed: 0, waits: 0, service: 0, protocol: 0 }); return sums.get(place); };
  for (const row of selection.rows) {
    if (!isAsked(row)) continue;
    const weight = requests.weight[row];
    for (const place of placesOf(row)) {
      if (!place) continue;
      const sum = at(place);
      sum.n += weight;
      sum.protocol = requests.protocol[row];
      if (requests.outcome[row] === 1) sum.errors += weight; else if (requests.outcome[row] === 2) sum.unanswered += weight;
      if (requests.timed[row]) sum.timed += weight;
      else if (kindOf(row) === CALL && requests.total[row] < 0 && !isPoll(row)) sum.untimed += weight;
      if (kindOf(row) === CALL && !(requests.flags[row] & (POLL | BARRIER)) && requests.wait[row] >= 0) { sum.waits += weight; sum.service += serviceOf(row) * weight; }
    }
  }
  const found = quantiles((row) => !selection.has[row] || !isAsked(row) ? [] : placesOf(row).filter((place) => place).map((place) => sums.get(place).at), sums.size, [0.5, 0.99, 1]);
  for (const sum of sums.values()) [sum.p50, sum.p99, sum.longest] = found[sum.at];
  return sums;
};
const requestCells = (sum) => [
  sum.n, sum.errors, sum.unanswered, sum.timed >= MEDIAN_NEEDS ? sum.p50 : null, sum.timed >= P99_NEEDS ? sum.p99 : null, sum.longest,
  sum.waits ? sum.service / sum.waits : null, sum.waits ? sum.service : null, sum.untimed || null,
];
const pivot = (columns, rows) => ({ columns, rows, total: rows.length, carried: rows.length, more: "records" });
const largestFirst = (at) => (a, b) => (b[at] ?? -1) - (a[at] ?? -1); // what is not known comes last
const PROTOCOL = column("protocol", "protocol", "", "kafka, pulsar or iggy");
const nameIn = (dimension, place) => place ? carried.names[dimension][place] : null;
const requestTable = (dimension) => () => {
  const rows = [...sumsBy(dimension)].map(([place, sum]) => [nameIn("protocol", sum.protocol), nameIn(dimension, place), ...requestCells(sum)]);
  return pivot([PROTOCOL, column(dimension, dimension === "api" ? "API" : dimension, ""), ...REQUEST_COLUMNS], rows.sort(largestFirst(9)));
};
const costTable = () => {
  const made = requestTable("api")(), at = 9, all = made.rows.reduce((sum, row) => sum + (row[at] || 0), 0);
  made.columns.splice(2, 0, column("share", "share of service time", "bar", "share of the service time of all APIs"));
  for (const row of made.rows) row.splice(2, 0, all && row[at] !== null ? row[at] / all : null);
  return made;
};
const topicTable = () => {
  const sums = sumsBy("topic"), moved = new Map(), nothing = { n: 0, errors: 0, unanswered: 0, timed: 0, longest: null, waits: 0, untimed: 0, protocol: 0 };
  for (const at of selection.batches) {
    const topic = batches.topic[at];
    if (!topic) continue;
    if (!moved.has(topic)) moved.set(topic, { protocol: batches.protocol[at], messages: [0, 0, 0], bytes: [0, 0, 0], refused: 0, sized: 0, uncompressed: 0 });
    const sum = moved.get(topic);
    sum.messages[batches.role[at]] += batches.messages[at];
    sum.bytes[batches.role[at]] += batches.stored[at];
    sum.refused += batches.refused[at];
    sum.sized += batches.sized[at];
    sum.uncompressed += Math.max(0, batches.uncompressed[at]);
  }
  const rows = [...new Set([...moved.keys(), ...sums.keys()])].map((topic) => {
    const data_ = moved.get(topic), sum = sums.get(topic) || nothing, of = (values, role) => data_ && values[role] ? values[role] : null;
    return [nameIn("protocol", data_ ? data_.protocol : sum.protocol), nameIn("topic", topic), ...[PRODUCE, CONSUME].flatMap((role) => data_ ? [of(data_.messages, role), of(data_.bytes, role)] : [null, null]),
      data_ ? of(data_.bytes, REPLICATE) : null, data_ && data_.refused ? data_.refused : null, data_ && data_.sized ? data_.uncompressed / data_.sized : null, ...requestCells(sum)];
  });
  const bytes = (row) => (row[3] || 0) + (row[5] || 0) + (row[6] || 0);
  return pivot([
    PROTOCOL, column("topic", "topic", ""), column("produced", "produced", "count", "messages"), column("produced_bytes", "bytes", "bytes", "produced, on the wire"),
    column("consumed", "consumed", "count", "messages; each consumer counts"), column("consumed_bytes", "bytes", "bytes", "consumed, on the wire"), column("replicated_bytes", "replicated", "bytes", "between brokers"),
    column("refused", "refused", "count", "messages that the broker did not take", "warn"), column("ratio", "compression", "ratio", "uncompressed to stored bytes"), ...REQUEST_COLUMNS,
  ], rows.sort((a, b) => bytes(b) - bytes(a) || b[9] - a[9]));
};
