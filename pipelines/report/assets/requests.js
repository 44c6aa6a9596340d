// The table of requests. Only the rows in sight exist.
const table = { list: new Uint32Array(0), tall: 32, longest: 1 };
const COLUMNS = [["time", "time"], ["API", "api"], ["took", "total", "n"], ["where the time went", "queued"], ["client", "client"], ["broker", "broker"], ["topic", "topic", "c-topic"], ["outcome", "outcome"], ["packet", "packet", "n"]];
const STAGES = [["send", "client sending"], ["queue", "in line"], ["broker", "broker"], ["receive", "transfer"]];
const DOWN_FIRST = new Set(["total", "queued", "outcome"]);
// What a request's time was spent on, ns.
const stagesOf = (row) => {
  const total = Math.max(0, requests.total[row]), send = Math.min(Math.max(0, requests.sent[row]), total), receive = Math.min(Math.max(0, requests.received[row]), total - send), queue = Math.min(Math.max(0, requests.queued[row]), total - send - receive);
  return { total, send, queue, broker: total - send - receive - queue, receive };
};
const outcomeText = (row) => requests.outcome[row] === 2 ? "no answer" : requests.error[row] ? NAMES.error[requests.error[row]] : [isPoll(row) ? "long poll" : "", requests.flags[row] & AGAIN ? "retransmitted" : ""].filter(Boolean).join(", ");

const meaningOf = (row) => { const meaning = requests.error[row] ? meanings[carried.names.error[requests.error[row]]] : undefined; return meaning === undefined ? null : string(meaning); };

// Whether a row is of those that the table is of: evidence is shown whole, pushes and long polls too.
const isListed = (row) => state.verdict !== null || (kindOf(row) < PUSH && (state.polls || !isPoll(row)));
const rowsInOrder = () => {
  const sort = state.sort.replace("-", ""), down = state.sort.startsWith("-"), all = order(sort), list = new Uint32Array(selection.rows.length);
  let count = 0;
  for (let at = 0; at < all.length; at++) {
    const row = all[down ? all.length - 1 - at : at];
    if (selection.has[row] && requests.alone[row] && isListed(row)) list[count++] = row;
  }
  return list.subarray(0, count);
};
const drawTable = (sum) => {
  table.list = rowsInOrder();
  table.tall = innerWidth <= 700 ? 56 : 32;
  table.longest = 1;
  for (const row of table.list) table.longest = Math.max(table.longest, requests.total[row]);
  const polls = selection.rows.reduce((count, row) => count + (isPoll(row) ? requests.weight[row] : 0), 0), sort = state.sort.replace("-", ""), down = state.sort.startsWith("-");
  const silent = table.list.reduce((count, row) => count + (kindOf(row) === ONEWAY), 0), pushed = table.list.reduce((count, row) => count + !isAsked(row), 0), asked = table.list.length - pushed;
  $("slow-note").textContent = [`${counted(asked, "request")}${silent ? `, ${whole(silent)} of which expect no answer` : ""}${pushed ? ` and ${whole(pushed)} without a request` : ""}`, polls && !state.polls && state.verdict === null ? `without ${counted(polls, "long poll")}` : "", sum.together ? `${whole(sum.together)} more are counted but not listed` : ""].filter(Boolean).join(", ");
  const nameless = countNameless();
  if (nameless) $("slow-note").append(`. Up to ${whole(nameless)} more may belong to this selection: this page does not carry all names`);
  $("polls-box").hidden = !polls && !state.polls;
  $("polls").checked = state.polls;
  $("columns").replaceChildren(...COLUMNS.map(([head, name, kind]) => el("div", { class: kind, role: "columnheader", "aria-sort": name === sort ? (down ? "descending" : "ascending") : null },
    button(`${head}${name === sort ? (down ? " ↓" : " ↑") : ""}`, null, () => {
      state.sort = (name === sort ? (down ? "" : "-") : DOWN_FIRST.has(name) ? "-" : "") + name;
      changed(true);
      $("columns").children[COLUMNS.findIndex((column) => column[1] === name)].firstChild.focus();
    }))));
  const box = $("scroll"), count = table.list.length;
  box.style.height = `${Math.min(Math.max(1, count), table.tall > 40 ? 8 : 12) * table.tall + 1}px`;
  box.hidden = !count;
  $("none").hidden = count > 0;
  $("fill").style.height = `${count * table.tall}px`;
  box.setAttribute("aria-rowcount", count);
  box.scrollTop = 0;
  state.cursor = Math.min(state.cursor, Math.max(0, count - 1));
  const open = state.row === null ? -1 : table.list.indexOf(state.row);
  if (open >= 0) { state.cursor = open; reveal(open); }
  paintRows();
};
const partitionsOf = (() => { // row -> batches of it
  let found = null;
  return (row) => {
    if (!found) { found = new Map(); for (let at = 0; at < batches.n; at++) { const of = batches.request[at]; if (of >= 0) found.get(of) ? found.get(of).push(at) : found.set(of, [at]); } }
    return found.get(row) || [];
  };
})();
const numbersOfPartitions = (row) => [...new Set(partitionsOf(row).map((at) => carried.partitions[batches.part[at]][1]).filter((number) => number !== null && number >= 0))].sort((a, b) => a - b);
const topicText = (row) => { const topics = topicsOf(row).map((place) => NAMES.topic[place]); return topics.length > 1 ? `${shortTopic(topics[0])} and ${whole(topics.length - 1)} more` : topics.length ? shortTopic(topics[0]) : ""; };
const cellsOf = (row) => {
  const stages = stagesOf(row), time = clock(requests.time[row], 6), parts = numbersOfPartitions(row), client = NAMES.client[requests.client[row]], broker = NAMES.broker[requests.broker[row]];
  const bar = stages.total ? el("span", { class: "parts", css: { width: `${Math.max(0.6, stages.total / table.longest * 100)}%` } }, STAGES.map(([name]) => stages[name] ? el("i", { class: `w-${name}`, css: { width: `${stages[name] / stages.total * 100}%` } }) : "")) : "";
  const [number, ...unit] = requests.total[row] < 0 ? ["–"] : units.duration(requests.total[row]).split(" "), gridcell = (kind, ...inside) => el("span", { role: "gridcell", class: kind }, inside);
  return [
    gridcell("", el("span", { class: "soft" }, time.slice(0, 6)), time.slice(6)), gridcell("c-api", NAMES.api[requests.api[row]]), gridcell("n took c-took", number, el("span", { class: "u" }, unit.join(" "))), gridcell("c-bar", bar),
    gridcell("c-client", el("span", { title: client }, clientName(requests.client[row])), el("span", { class: "m" }, ` to ${port(broker)} at ${time.slice(0, 8)}`)), gridcell("c-broker", broker),
    gridcell("c-topic", el("span", { title: topicsOf(row).map((place) => NAMES.topic[place]).join("\n") }, topicText(row)), parts.length ? el("span", { class: "soft" }, ` ${parts.slice(0, 8).join(", ")}${parts.length > 8 ? " …" : ""}`) : ""),
    el("span", { role: "gridcell", class: `c-out ${requests.outcome[row] ? "err" : "soft"}`, title: meaningOf(row) }, outcomeText(row)), gridcell("n mono", requests.packet[row] < 0 ? "" : String(requests.packet[row])),
  ];
};
const rowElement = (row, at) => el("div", { class: `tr${at === state.cursor ? " cursor" : ""}${row === state.row ? " open" : ""}`, role: "row", id: `row-${at}`, "aria-rowindex": at + 1, "data-row": row, css: { top: `${at * table.tall}px`, height: `${table.tall}px` }, onclick: () => { state.cursor = at; openRow(row, true); } }, cellsOf(row));
const paintRows = () => {
  const box = $("scroll"), from = Math.max(0, Math.floor(box.scrollTop / table.tall) - 4), to = Math.min(table.list.length, Math.ceil((box.scrollTop + box.clientHeight) / table.tall) + 4);
  $("rows").replaceChildren(...Array.from(table.list.subarray(from, to), (row, at) => rowElement(row, from + at)));
  if (table.list.length) box.setAttribute("aria-activedescendant", `row-${state.cursor}`); else box.removeAttribute("aria-activedescendant");
};
const reveal = (at) => {
  const box = $("scroll"), y = at * table.tall;
  if (y < box.scrollTop) box.scrollTop = y; else if (y + table.tall > box.scrollTop + box.clientHeight) box.scrollTop = y + table.tall - box.clientHeight;
};
const step = (by) => {
  if (!table.list.length) return;
  state.cursor = Math.max(0, Math.min(table.list.length - 1, state.cursor + by));
  reveal(state.cursor);
  if (state.row !== null) openRow(table.list[state.cursor], false); else paintRows();
};
const PRINTED = 25;
const startTable = () => {
  $("scroll").addEventListener("scroll", paintRows, { passive: true });
  $("polls").addEventListener("change", (event) => { state.polls = event.target.checked; changed(true); });
  $("stages").replaceChildren(...STAGES.map(([name, text]) => el("span", null, dot(`w-${name}`), text)));
  addEventListener("beforeprint", () => $("rows").replaceChildren(...Array.from(table.list.subarray(0, PRINTED), rowElement)));
  addEventListener("afterprint", paintRows);
};
