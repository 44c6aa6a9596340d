// One request in the side panel: where its time went, and the ladder of its connection around it.
let cameFrom = null;
const openRow = (row, step_) => {
  if (state.row === null) cameFrom = document.activeElement;
  state.row = row;
  const at = table.list.indexOf(row);
  if (at >= 0) { state.cursor = at; reveal(at); }
  remember(step_);
  drawPanel();
  paintRows();
};
const closePanel = () => {
  state.row = null;
  drawPanel();
  remember(true);
  paintRows();
  if (cameFrom && cameFrom.isConnected) cameFrom.focus({ preventScroll: true });
  cameFrom = null;
};
const ONE_BEHIND = 30e6; // µs before a request within which the one that it stood behind began
const sameConnection = (row) => { // rows of its connection, in order of time
  const connection = requests.connection[row], rows = [];
  if (connection) for (let other = 0; other < requests.n; other++) if (requests.connection[other] === connection) rows.push(other);
  return connection ? rows : [row];
};
// What a request stood behind: the last answer on its connection before its own.
const aheadOf = (row) => {
  let found = null, latest = requests.time[row];
  for (const other of sameConnection(row)) {
    if (other >= row || requests.total[other] < 0 || requests.time[row] - requests.time[other] > ONE_BEHIND) continue;
    const end = endOf(other);
    if (end > latest && end <= endOf(row)) { latest = end; found = other; }
  }
  return found;
};
const linkTo = (row) => button(`#${requests.packet[row]}`, { class: "pk", title: "This request" }, (event) => { event.stopPropagation(); openRow(row, true); });
const explained = (row) => {
  const stages = stagesOf(row), share = (ns) => units.share(ns / stages.total), connection = connectionOf(row);
  if (requests.outcome[row] === 2) return ["bad", [el("b", null, "No answer"), connection && connection[3] !== null && connection[4] !== "open" ? ` before the connection ended ${during(Math.max(0, connection[3] - requests.time[row]))} later (${connection[4]}).` : " in this capture."]];
  if (kindOf(row) === UNANSWERED) return ["", ["Of this connection no packet of the broker was captured, so neither was an answer."]];
  if (kindOf(row) === PUSH) return ["", ["The broker sent this unasked."]];
  if (kindOf(row) === ONEWAY) return ["", ["A request of this kind has no answer."]];
  if (requests.total[row] < 0) return ["", ["Its duration is not known: the capture lacks bytes of it."]];
  if (requests.outcome[row] === 1) return ["bad", [el("b", null, NAMES.error[requests.error[row]] || "An error"), meaningOf(row) ? ` (${meaningOf(row)})` : "", ` after ${units.duration(stages.total)}.`, stages.total ? ` The broker held the request for ${share(stages.broker)} of that time.` : ""]];
  if (requests.flags[row] & BARRIER) return ["", ["The broker answers this when the other members of the group have sent theirs."]];
  if (isPoll(row)) return ["", [`A long poll: the broker was allowed to wait, and answered after ${units.duration(stages.total)}.`]];
  if (stages.total && stages.queue / stages.total > 0.5) {
    const before = aheadOf(row);
    return ["slow", [el("b", null, `${share(stages.queue)} of its time it stood in line`), before === null ? "" : [" behind ", NAMES.api[requests.api[before]], isPoll(before) ? " (a long poll) " : " ", linkTo(before)], ` on its own connection; the broker needed ${units.duration(stages.broker)}.`]];
  }
  return ["", [`The broker took ${units.duration(stages.broker)}${stages.total ? `, ${share(stages.broker)} of the time` : ""}.`, stages.queue ? ` It stood in line for ${units.duration(stages.queue)}.` : ""]];
};
const terminalLine = (command) => {
  const act = button("Copy", { class: "btn copy-line", "data-command": command }, async () => { act.textContent = await copy(command) ? "Copied" : "Select it"; });
  return el("div", { class: "cmd" }, el("code", null, command), act);
};
const fileOf = (places, row) => carried.names.file[places[row]] || null; // [place in files, short name]
const commandsOf = (row) => {
  const file = fileOf(requests.file, row), answer = fileOf(requests.answer_file, row), connection = connectionOf(row);
  if (!file || requests.packet[row] < 0) return [];
  const path = data.files[file[0]], both = answer && answer[0] === file[0] && requests.answer_packet[row] >= 0;
  return [
    `brokerscope show ${quoted(`${path}:${requests.packet[row]}`)}`,
    ...(connection ? [`brokerscope follow ${quoted(path)} ${quoted(port(connection[0]))}`] : []),
    `tshark -r ${quoted(path)} -V -Y 'frame.number==${requests.packet[row]}${both ? ` || frame.number==${requests.answer_packet[row]}` : ""}'`,
  ];
};
// The bytes of a request and its answer beside what they decode to, where the page carries them.
const BYTES_A_LINE = 8;
const hexLines = (bytes) => {
  const lines = [];
  for (let at = 0; at < bytes.length; at += BYTES_A_LINE) {
    const some = [...bytes.subarray(at, at + BYTES_A_LINE)], hex = some.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    lines.push(`${at.toString(16).padStart(4, "0")}  ${hex.padEnd(BYTES_A_LINE * 3 - 1)}  ${some.map((byte) => byte > 31 && byte < 127 ? String.fromCharCode(byte) : ".").join("")}`);
  }
  return lines.join("\n");
};
const framesOf = (row) => {
  const isAsked_ = requests.packet[row] >= 0, file = fileOf(isAsked_ ? requests.file : requests.answer_file, row);
  return (file && data.frames[`${file[0]}:${isAsked_ ? requests.packet[row] : requests.answer_packet[row]}`]) || [];
};
const bytesOf = (row) => framesOf(row).map(([side, packet, text, base64, note]) => {
  const bytes = Uint8Array.from(atob(base64), (sign) => sign.charCodeAt(0));
  return [el("h3", null, side === "request" ? "Request in bytes " : "Answer in bytes ", el("small", null, `payload of packet ${packet}${note ? `; ${note}` : ""}`)),
    el("div", { class: "frame", tabindex: "0", role: "group", "aria-label": `${side}, decoded and in bytes` }, el("pre", null, text || "not decoded"), bytes.length ? el("pre", { class: "soft" }, hexLines(bytes)) : "")];
}).flat();
const drawPanel = () => {
  const row = state.row, panel = $("panel");
  panel.hidden = row === null;
  if (row === null) return;
  const at = table.list.indexOf(row), connection = connectionOf(row), [kind, why] = explained(row), topics = topicsOf(row).map((place) => NAMES.topic[place]), parts = numbersOfPartitions(row), file = fileOf(requests.file, row);
  $("panel-title").replaceChildren(NAMES.api[requests.api[row]], requests.total[row] < 0 ? "" : ` took ${units.duration(requests.total[row])}`, el("small", null, `${clientName(requests.client[row])} to ${NAMES.broker[requests.broker[row]]} · ${day(requests.time[row])} ${clock(requests.time[row], 6)} UTC`));
  $("previous").disabled = at <= 0;
  $("next").disabled = at < 0 || at >= table.list.length - 1;
  const answered = requests.answer_packet[row] >= 0, facts = [
    ["file", file && string(file[1])], ["packets", requests.packet[row] < 0 ? null : `${requests.packet[row]}${answered ? ` → ${requests.answer_packet[row]}` : ""}`],
    ["size", `${units.size(requests.request_bytes[row])} → ${answered ? units.size(requests.answer_bytes[row]) : "–"}`], [topics.length > 1 ? "topics" : "topic", topics.join(", ")],
    ["messages", requests.messages[row] ? whole(requests.messages[row]) : null], ["partitions", parts.join(", ")], ["group", NAMES.group[requests.group[row]]],
    ["client", NAMES.client[requests.client[row]]], ["software", connection && connection[9]], ["round trip", connection && connection[8] !== null && units.duration(connection[8])],
    ["TLS handshake", connection && connection[11] !== null && `${units.duration(connection[11])}${connection[12] ? ", session resumed" : ""}`],
    ["site", hasSites && NAMES.site[requests.site[row]]],
    ["throttled", requests.throttled[row] ? units.duration(requests.throttled[row] * 1e6) : null],
  ].filter(([, value]) => value);
  const body = $("panel-body"), scrolled = body.scrollTop;
  const lines = commandsOf(row).map(terminalLine);
  body.replaceChildren(el("p", { class: `why ${kind}` }, why), el("h3", null, "Where the time went"), waterfall(row),
    el("h3", null, "The request"), el("dl", null, facts.map(([name, value]) => [el("dt", null, name), el("dd", null, value)])), ...bytesOf(row),
    el("h3", null, "Its connection around that time ", el("small", null, `0 is ${clock(requests.time[row], 6)}`)), ladder(row), ...(lines.length ? [el("h3", null, "In your terminal"), ...lines] : []));
  body.scrollTop = scrolled;
};
const panelWidth = () => $("panel-body").clientWidth - (innerWidth <= 700 ? 28 : 40);
// Parts of a request's time in order: class of the bar, text, name, and whether the line stands there without it.
const PARTS = [["send", "client sending", "sending", true], ["again", "lost, sent again", "resent"], ["window", "window closed", "window"], ["ack", "delayed ACK", "delayed_ack"], ["queue", "in line", "queued", true], ["throttle", "throttled", "throttled"], ["broker", "broker", "broker", true], ["receive", "transfer", "transfer", true]];
const partsOf = (row, stages) => {
  const at = stalledAt.get(row);
  if (at === undefined) return { sending: stages.send, queued: stages.queue, broker: stages.broker, transfer: stages.receive };
  return Object.fromEntries(PARTS.map(([, , name]) => [name, stalled[name][at]]));
};
const waterfall = (row) => {
  const stages = stagesOf(row), { total } = stages;
  if (!total) return el("p", { class: "soft" }, "It has no known duration, so nothing can be divided.");
  const width = panelWidth(), left = 116, right = 124, plot = width - left - right, parts = partsOf(row, stages), lines = [];
  let from = 0;
  for (const [kind, text, name, always] of PARTS) {
    const ns = parts[name] || 0;
    if (ns || always) lines.push([text, kind, from, ns, ns ? units.duration(ns) : "none"]);
    from += ns;
  }
  if (requests.throttled[row] && !parts.throttled) lines.push(["throttled", "throttle", total, 0, `${units.duration(requests.throttled[row] * 1e6)} after it`]);
  if (requests.flags[row] & AGAIN && !parts.resent) lines.push(["retransmitted", "again", 0, 0, "some bytes"]);
  const height = lines.length * 24 + 20;
  const drawn = (plot < 180 ? [0, 1] : [0, 0.5, 1]).map((share) => [svg("line", { class: "grid", x1: round(left + share * plot), x2: round(left + share * plot), y1: 0, y2: height - 18 }), svg("text", { x: round(left + share * plot), y: height - 4, "text-anchor": share === 0 ? "start" : share === 1 ? "end" : "middle" }, share ? units.duration(total * share) : "0")]);
  lines.forEach(([text, kind, start, ns, number], at) => {
    const y = at * 24 + 4, ink = number === "none" ? "" : "ink";
    drawn.push(svg("text", { x: 0, y: y + 12, class: ink }, text), ns ? svg("rect", { class: `w-${kind}`, x: round(left + start / total * plot), y: y + 2, width: round(Math.max(1.5, ns / total * plot)), height: 13, rx: 2 }) : "",
      svg("text", { x: ns || number === "none" ? width - right + 70 : width, y: y + 12, "text-anchor": "end", class: ink }, number), svg("text", { x: width, y: y + 12, "text-anchor": "end" }, ns ? units.share(ns / total) : ""));
  });
  return picture(width, height, lines.filter(([, , , , number]) => number !== "none").map(([text, , , , number]) => `${text} ${number}`).join(", "), drawn.flat());
};

// --- the ladder ---
const [BEFORE, AFTER, MANY] = [5, 6, 22]; // steps around a request; more between its packets are left out
const ENDS = { reset: "connection reset", fin: "connection closed", open: "end of the capture" };
const stepsOf = (row) => {
  const steps = [], connection = connectionOf(row);
  for (const other of sameConnection(row)) {
    const name = NAMES.api[requests.api[other]], again = requests.flags[other] & AGAIN ? ", retransmitted" : "";
    if (kindOf(other) === PUSH) steps.push({ time: requests.time[other], row: other, side: 1, packet: requests.packet[other], text: name + again });
    else {
      steps.push({ time: requests.time[other], row: other, side: 0, packet: requests.packet[other], text: name + again });
      if (requests.total[other] >= 0) steps.push({ time: endOf(other), row: other, side: 1, packet: requests.answer_packet[other], text: requests.error[other] ? NAMES.error[requests.error[other]] : `${name} answer`, bad: requests.outcome[other] === 1 });
    }
  }
  if (connection && connection[2] !== null && connection[10] === "full") steps.push({ time: connection[2], side: 0, packet: connection[7], text: "connect" });
  if (connection && connection[3] !== null) steps.push({ time: connection[3], text: `${ENDS[connection[4]] || connection[4]}${connection[5] ? ` by ${connection[5]}` : ""}`, end: true, bad: connection[4] === "reset" });
  return steps.sort((a, b) => a.time - b.time || (a.end ? 1 : 0) - (b.end ? 1 : 0) || (a.side || 0) - (b.side || 0));
};
const around = (row, steps) => {
  const own = steps.map((one, at) => one.row === row ? at : -1).filter((at) => at >= 0), first = own[0], last = own[own.length - 1], shown = [];
  let left = 0;
  for (let at = Math.max(0, first - BEFORE); at < Math.min(steps.length, last + AFTER); at++) {
    if (last - first > MANY && at > first + 10 && at < last - 8) { left++; continue; }
    if (left) { shown.push({ skipped: left }); left = 0; }
    shown.push(steps[at]);
  }
  return shown;
};
const ladder = (row) => {
  const shown = around(row, stepsOf(row)), width = panelWidth(), small = width < 420, [left, right] = small ? [112, width - 50] : [140, width - 74], tall = 26, height = 34 + shown.length * tall + 8, connection = connectionOf(row), zero = requests.time[row];
  const y = (at) => 34 + at * tall + 16, hits = svg("g"), open = svg("g"), arrows = svg("g"), broker = NAMES.broker[requests.broker[row]], middle = (left + right) / 2;
  const text = (x, top, kind, anchor, inside) => svg("text", { x, y: top, class: kind, "text-anchor": anchor }, inside);
  const begins = new Map(), ends = new Map(), slots = [];
  shown.forEach((one, at) => { if (one.row !== undefined) (one.side === 0 ? begins : ends).set(one.row, at); });
  for (const [other, from] of begins) { // bars at the right: requests that are open
    const to = ends.has(other) ? ends.get(other) : other === row ? shown.length - 1 : -1;
    if (to < 0) continue;
    let slot = 0;
    while (slots[slot] > from) slot++;
    slots[slot] = to;
    if (slot < (small ? 4 : 7)) open.append(svg("rect", { class: `open-bar${other === row ? " me" : ""}`, x: right + 4 + slot * 6, y: y(from), width: 5, height: Math.max(4, y(to) - y(from)), rx: 2 }));
  }
  let before = null;
  const far = Math.max(100e3, Math.max(0, requests.total[row]) / 1000 * 0.2); // µs without a packet that are worth a colour
  shown.forEach((one, at) => {
    const top = y(at);
    if (one.skipped) { arrows.append(text(middle, top + 4, "", "middle", `… ${whole(one.skipped)} more …`)); before = null; return; }
    const me = one.row === row, kind = me ? " me" : one.bad ? " bad" : "", apart = one.time - zero, late = before !== null && one.time - before > far;
    if (one.row !== undefined) hits.append(svg("rect", { class: `row-hit${me ? " me" : ""}`, x: 0, y: top - 16, width, height: tall, ...(requests.alone[one.row] ? { onclick: () => openRow(one.row, true) } : {}) }));
    arrows.append(text(70, top + 4, late ? "gap" : me ? "ink" : "", "end", Math.abs(apart) < 0.5 ? "0" : `${apart < 0 ? "−" : "+"}${during(Math.abs(apart))}`));
    const label = text(middle, top - 4, me || one.end ? "ink b" : one.bad ? "ink" : "", "middle", shortened(one.text, small ? 22 : 40));
    if (one.end) arrows.append(svg("path", { class: `arrow dotted${kind}`, d: `M${left} ${top}H${right}` }), label);
    else {
      const [x1, x2] = one.side ? [right, left] : [left, right], way = one.side ? -1 : 1;
      arrows.append(svg("path", { class: `arrow${kind}`, d: `M${x1} ${top}L${x2 - way * 3} ${top + 5}` }), svg("path", { class: `arrow-head${kind}`, d: `M${x2} ${top + 5}l${-way * 7} -4l0 7z` }), label, one.packet >= 0 && one.packet !== null ? text(left - 8, top + 4, `number${me ? " ink" : ""}`, "end", `#${one.packet}`) : "");
    }
    before = one.time;
  });
  return svg("svg", { class: "ladder", width, height, role: "group", "aria-label": "Packets of the connection in order of time" }, hits, open,
    [left, right].map((x) => svg("line", { class: "life", x1: x, x2: x, y1: 26, y2: height })),
    text(left, 10, "ink b", "middle", shortened(clientName(requests.client[row]), small ? 14 : 30)), text(left, 23, "", "middle", connection ? port(connection[0]) : ""), text(right, 10, "ink b", small ? "end" : "middle", "broker"), text(right, 23, "", small ? "end" : "middle", port(broker)), arrows);
};
const startPanel = () => {
  $("close").addEventListener("click", closePanel);
  $("previous").addEventListener("click", () => step(-1));
  $("next").addEventListener("click", () => step(1));
};
