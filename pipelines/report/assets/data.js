// The data block, and the columns of requests and batches.
const inflated = async (text) => {
  const bytes = Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"))).arrayBuffer();
};
// A packed table, see packed.py: {n, column: typed array}. What is not known is -1.
const unpack = async (table) => {
  const flat = new Uint8Array(await inflated(table.data)), n = table.rows, columns = { n };
  let at = 0;
  for (const [name, size, delta, unknown, scale] of table.columns) {
    const column = delta || unknown || scale > 1 || size > 4 ? new Float64Array(n) : size === 1 ? new Uint8Array(n) : size === 2 ? new Uint16Array(n) : new Uint32Array(n);
    let sum = 0;
    for (let row = 0; row < n; row++) {
      let value = 0;
      for (let byte = size - 1; byte >= 0; byte--) value = value * 256 + flat[at + byte * n + row];
      if (delta) value = sum += value % 2 ? -(value + 1) / 2 : value / 2;
      column[row] = unknown ? (value ? (value - 1) * scale : -1) : value * scale;
    }
    at += size * n;
    columns[name] = column;
  }
  return columns;
};

const data = JSON.parse(new TextDecoder().decode(await inflated($("data").textContent)));
const string = (place) => data.strings[place];
// The names of the machines whose addresses stand in a text.
const machines = (text) => [...new Set(String(text).match(/\d{1,3}(?:\.\d{1,3}){3}|[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){2,7}/gi) || [])].map((address) => data.hosts[address]).filter(Boolean);
// An address with the name of its machine beside, where that is known: "10.0.0.7:9092 (broker-1)".
const hosted = (text) => {
  const found = machines(text);
  return found.length ? `${text} (${found.join(" > ")})` : text;
};
const meanings = data.meanings; // of errors, by the place of their name
const none = { rows: 0, columns: [], data: "" };
const EMPTY = { epoch: 0, span: 0, grain: 0, names: {}, topic_sets: [[]], connections: [], requests: none, batches: none, partitions: [] };
const carried = data.requests || EMPTY;
const epoch = carried.epoch, span = Math.max(1, carried.span); // µs
const [requests, batches] = data.requests ? await Promise.all([unpack(carried.requests), unpack(carried.batches)]) : [{ n: 0 }, { n: 0 }];
for (const name of ["time", "total", "sent", "queued", "wait", "received", "flags", "weight", "api", "client", "broker", "group", "protocol", "error", "file", "topics", "connection", "packet", "answer_file", "answer_packet", "site", "request_bytes", "answer_bytes", "messages", "throttled"]) requests[name] ||= new Uint8Array(0);
for (const name of ["time", "request", "api", "client", "broker", "topic", "group", "protocol", "site", "part", "role", "messages", "refused", "stored", "uncompressed", "sized"]) batches[name] ||= new Uint8Array(0);

// The bytes of batches whose size before compression is known: not told where that is so of all.
batches.sized = Float64Array.from(batches.sized, (bytes, at) => bytes < 0 ? batches.stored[at] : bytes);
const evidence = data.evidence ? await unpack(data.evidence) : { n: 0 }; // rank of a verdict, and row of a request that it counts

// Whether a row is one request; others stand for `weight` of them.
requests.alone = Uint8Array.from(requests.weight, (weight) => weight ? 0 : 1);
const stalled = carried.stalled ? await unpack(carried.stalled) : { n: 0 }; // parts of the time of requests that were held back
const stalledAt = new Map(Array.from({ length: stalled.n }, (_, at) => [stalled.row[at], at])); // row of requests -> of these
requests.weight = Float64Array.from(requests.weight, (weight) => weight || 1);

const [CALL, UNANSWERED, ONEWAY, PUSH] = [0, 1, 2, 3], POLL = 8, AGAIN = 16, FAILED = 32, BARRIER = 64, UNHEARD = 256;
const kindOf = (row) => requests.flags[row] & 7;
const isAsked = (row) => kindOf(row) <= ONEWAY; // a request: answered, unanswered, or one that expects no answer
const isPoll = (row) => (requests.flags[row] & POLL) > 0;
// Durations of calls that no long poll and no barrier stretched.
const isTimed = (row) => kindOf(row) === CALL && !(requests.flags[row] & (POLL | BARRIER)) && requests.total[row] >= 0;
const OUTCOMES = ["ok", "error", "no answer"];
const outcomeOf = (row) => requests.flags[row] & FAILED ? 1 : kindOf(row) === UNANSWERED && !(requests.flags[row] & UNHEARD) ? 2 : 0;
const endOf = (row) => requests.time[row] + Math.max(0, requests.total[row]) / 1000; // µs
requests.outcome = Uint8Array.from({ length: requests.n }, (_, row) => outcomeOf(row));
requests.timed = Uint8Array.from({ length: requests.n }, (_, row) => isTimed(row) ? 1 : 0);

// Dimensions: names by place, of which 0 is none; `all` are those that are there. A row names several topics.
const named = (dimension) => (carried.names[dimension] || [""]).map((place) => place === "" ? "" : place === null ? "(all others)" : string(place));
const NAMES = { api: named("api"), client: named("client"), broker: named("broker"), topic: named("topic"), group: named("group"), outcome: OUTCOMES, error: named("error"), protocol: named("protocol"), site: named("site") };
const hasSites = NAMES.site.length > 2; // one alone is no choice
const DIMENSIONS = Object.keys(NAMES).filter((dimension) => dimension !== "site" || hasSites);
const topicsOf = (row) => carried.topic_sets[requests.topics[row]] || [];
const connectionOf = (row) => carried.connections[requests.connection[row] - 1] || null;
const protocolOf = (row) => NAMES.protocol[requests.protocol[row]];
const NICE = { kafka: "Kafka", pulsar: "Pulsar", iggy: "Iggy" };
// "10.0.0.9 payer" is payer where that is told; the address is in the title.
const clientName = (place) => { const [address, ...name] = NAMES.client[place].split(" "); return name.join(" ") || address || "unknown"; };
const port = (address) => address.slice(address.lastIndexOf(":"));
const shortTopic = (name) => name.split("/").pop();

// Rows in the order of a column, made when it is first asked for.
const ORDERS = {
  time: (row) => requests.time[row], total: (row) => requests.total[row], queued: (row) => requests.queued[row], packet: (row) => requests.file[row] * 2 ** 40 + requests.packet[row],
  ...Object.fromEntries(["api", "client", "broker"].map((dimension) => [dimension, (row) => ranksOf(dimension)[requests[dimension][row]]])),
  topic: (row) => topicsOf(row).length ? ranksOf("topic")[topicsOf(row)[0]] : -1,
  outcome: (row) => requests.outcome[row] ? 100000 * requests.outcome[row] + requests.error[row] : 0,
};
const ranks = new Map(), orders = new Map();
const ranksOf = (dimension) => {
  if (!ranks.has(dimension)) {
    const places = NAMES[dimension].map((_, place) => place).sort((a, b) => NAMES[dimension][a].localeCompare(NAMES[dimension][b], "en", { numeric: true })), found = new Uint32Array(places.length);
    places.forEach((place, rank) => { found[place] = rank; });
    ranks.set(dimension, found);
  }
  return ranks.get(dimension);
};
const order = (name) => {
  if (!orders.has(name)) {
    const keys = Float64Array.from({ length: requests.n }, (_, row) => ORDERS[name](row));
    orders.set(name, Uint32Array.from({ length: requests.n }, (_, row) => row).sort((a, b) => keys[a] - keys[b] || a - b));
  }
  return orders.get(name);
};

// The three APIs that take most time have a colour of their own; brokers by their place.
const TOP = (() => {
  const cost = new Float64Array(NAMES.api.length), many = new Float64Array(NAMES.api.length);
  for (let row = 0; row < requests.n; row++) {
    if (!isAsked(row)) continue;
    many[requests.api[row]] += requests.weight[row];
    if (requests.timed[row]) cost[requests.api[row]] += requests.total[row] * requests.weight[row];
  }
  const enough = [...many.keys()].filter((api) => many[api] >= (requests.n < 100 ? 1 : 20)).sort((a, b) => cost[b] - cost[a]).slice(0, 3);
  enough.sort((a, b) => many[b] - many[a]);
  return { apis: enough, colour: Uint8Array.from(NAMES.api, (_, api) => enough.indexOf(api) + 1) };
})();
const brokerColour = (place) => (place - 1) % 4 + 1;
