// Tables whose rows are sums over facts: what costs most, brokers, topics.
const column = (name, head, unit, doc = "", mark = undefined) => ({ name, head, unit, doc, mark });
const FROM_HISTOGRAM = `from a histogram with ${BINS} bins a decade; blank where too few requests stand behind it`;
const pivot = (columns, rows) => ({ columns, rows, total: rows.length, carried: rows.length, more: "records" });
const least = (number) => number || null;
const largestFirst = (at) => (a, b) => (b[at] ?? -1) - (a[at] ?? -1); // what is not known comes last
const empty = () => el("p", { class: "empty" }, "Nothing of this selection.");

// A view that is a table of rows made from facts. used: gives the fact of its requests
const pivotView = (few, make, used) => (place) => {
  const view = new TableView(place, few);
  return () => view.show(make(), [unnamedNote(used(), REQUESTS, "request")]);
};

const PROTOCOL = column("protocol", "protocol", "", "kafka, pulsar or iggy");
const nameOf = (dimension, place) => place === null ? null : names[dimension][place];
const requestColumns = [
  column("n", "requests", "count", "answered requests that were no long polls"),
  column("errors", "errors", "count", "answers that hold an error, expected ones apart", "warn"),
  column("p50", "p50 ≈", "ns", `of the whole duration: half are at most this; ${FROM_HISTOGRAM}`),
  column("p99", "p99 ≈", "ns", `of the whole duration: 99 % are at most this; ${FROM_HISTOGRAM}`),
  column("longest", "longest", "ns", "the longest whole duration"),
  column("mean", "mean service", "ns", "time that a request waited for its own answer, on average"),
  column("service", "service time", "ns", "time that these requests waited for their own answer, all together"),
  column("untimed", "without a duration", "count", "of the answered requests: bytes of them are not in the capture", "warn"),
  column("unanswered", "unanswered", "count", "requests whose answer is not in the capture", "warn"),
];
const requestCells = (sum) => [
  sum.n, sum.errors, sum.quantile("p50"), sum.quantile("p99"), sum.longest_ns, sum.mean, sum.service, least(sum.untimed),
  sum.unanswered,
];
const requestColumn = (name) => requestColumns.find((one) => one.name === name);
const tableOf = (dimension) => () => {
  const rows = sums(requestsBy(dimension), ["protocol", dimension]).filter(({ keys }) => keys[1] !== null)
    .map(({ keys, sum }) => [nameOf("protocol", keys[0]), nameOf(dimension, keys[1]), ...requestCells(sum)]);
  rows.sort(largestFirst(8));
  const made = pivot([PROTOCOL, column(dimension, dimension, ""), ...requestColumns], rows);
  if (!selected().length) made.total = Math.max(rows.length, data.totals[dimension]);
  return made;
};

const costTable = () => {
  const found = sums(requestsBy("api"), ["protocol", "api"]).filter(({ keys, sum }) => keys[1] !== null && (sum.n || sum.unanswered));
  const all = found.reduce((sum, one) => sum + one.sum.service_ns, 0);
  const rows = found.map(({ keys, sum }) => [
    nameOf("protocol", keys[0]), nameOf("api", keys[1]), all && sum.waits ? sum.service_ns / all : null, sum.service, sum.total, sum.n,
    sum.mean, sum.longest_ns, least(sum.untimed), sum.errors,
  ]);
  rows.sort(largestFirst(3));
  return pivot([
    PROTOCOL, column("api", "api", ""), column("share", "share of service time", "bar", "share of the service time of all APIs"),
    column("service", "service time", "ns", "the wait, less the time behind other requests; all requests together"),
    column("total", "whole duration", "ns", "first byte of the request to last byte of the answer; all requests together"),
    ...["n", "mean", "longest", "untimed", "errors"].map(requestColumn),
  ], rows);
};

const TOPIC_ROLES = ["produce", "consume"];
const topicTable = () => {
  const made = new Map();
  const at = ([protocol, topic]) => {
    const key = `${protocol},${topic}`;
    if (!made.has(key)) made.set(key, { protocol, topic, requests: new Sum(), all: new Sum() });
    return made.get(key);
  };
  for (const { keys, sum } of sums(requestsBy("topic"), ["protocol", "topic"])) at(keys).requests = sum;
  const fact = dataByTopic();
  for (const row of chosenRows(fact)) {
    const { columns } = fact, one = at([columns.protocol[row], columns.topic[row]]);
    const role = columns.role[row] === null ? "" : string(names.role[columns.role[row]]);
    one.all.add(columns, row);
    (one[role] ||= new Sum()).add(columns, row);
  }
  const rows = [...made.values()].filter(({ topic }) => topic !== null).map((one) => [
    nameOf("protocol", one.protocol), nameOf("topic", one.topic),
    ...TOPIC_ROLES.flatMap((role) => one[role] ? [least(one[role].messages), least(one[role].stored_bytes)] : [null, null]),
    one.replicate ? least(one.replicate.stored_bytes) : null, one.all.refused,
    one.all.sized_bytes ? one.all.uncompressed_bytes / one.all.sized_bytes : null, ...requestCells(one.requests),
  ]);
  const bytes = (row) => (row[3] || 0) + (row[5] || 0) + (row[6] || 0);
  rows.sort((a, b) => bytes(b) - bytes(a));
  const replicated = rows.some((row) => row[6] !== null);
  const columns = [
    PROTOCOL, column("topic", "topic", ""),
    column("produced", "produced", "count", "messages"), column("produced_bytes", "bytes", "bytes", "produced, on the wire"),
    column("consumed", "consumed", "count", "messages; each consumer counts"), column("consumed_bytes", "bytes", "bytes", "consumed, on the wire"),
    column("replicated_bytes", "replicated", "bytes", "between brokers"),
    column("refused", "refused", "count", "messages that the broker did not take", "warn"),
    column("ratio", "compression", "ratio", "uncompressed to stored bytes"), ...requestColumns,
  ];
  if (!replicated) columns[6].hidden = true;
  const table = pivot(columns, rows);
  if (!selected().length) table.total = Math.max(rows.length, data.totals.topic);
  return table;
};
