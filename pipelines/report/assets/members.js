// Members of groups along time: joining, a member, or gone; dotted lines are rebalances.
const JOINS = new Set(["JoinGroup", "SyncGroup", "SUBSCRIBE", "JOIN_CONSUMER_GROUP"]), LEAVES = new Set(["LeaveGroup", "UNSUBSCRIBE", "CLOSE_CONSUMER", "LEAVE_CONSUMER_GROUP"]);
const BEATS = new Set(["Heartbeat", "ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "StreamsGroupHeartbeat", "OffsetCommit"]);
const MEMBERS = { groups: 6, each: 12 };
// [{group, members: [{client, spans: [[from, to, state, row]]}]}]: what their requests tell, in the whole capture
const memberships = (() => {
  let found = null;
  return () => {
    if (found) return found;
    const groups = new Map();
    for (let row = 0; row < requests.n; row++) {
      const group = requests.group[row], name = NAMES.api[requests.api[row]], kind = JOINS.has(name) ? "join" : LEAVES.has(name) ? "left" : BEATS.has(name) ? "member" : null;
      if (!group || !kind || kindOf(row) > ONEWAY || !requests.alone[row]) continue;
      if (!groups.has(group)) groups.set(group, new Map());
      const members = groups.get(group), client = requests.client[row];
      if (!members.has(client)) members.set(client, []);
      members.get(client).push([requests.time[row], endOf(row), kind, row]);
    }
    found = [...groups].map(([group, members]) => ({ group, members: [...members].map(([client, told]) => ({ client, spans: spansOf(told) })) })).filter(({ members }) => members.length);
    return found;
  };
})();
// From one request to the next a member is what the first one made of it.
const spansOf = (told) => {
  const spans = [], add = (from, to, kind, row) => {
    const last = spans[spans.length - 1];
    if (to <= from) return;
    if (last && last[2] === kind && last[1] >= from - 1) last[1] = to; else spans.push([from, to, kind, row]);
  };
  told.forEach(([from, to, kind, row], at) => {
    const next = at + 1 < told.length ? told[at + 1][0] : null, [state_, bad] = [kind === "member" ? "member" : kind, requests.outcome[row] !== 0];
    if (state_ === "left") { spans.push([from, from, "left", row]); return; }
    if (state_ === "join") add(from, Math.min(to, next === null ? to : Math.max(next, to)), "join", row);
    if (bad) { spans.push([from, from, "refused", row]); return; }
    add(state_ === "join" ? to : from, next === null ? to : next, "member", row);
  });
  return spans;
};
const drawMembers = (box) => {
  const [from, to] = windowOf(), wantedBy = (dimension) => { const chips = state.chips.filter((chip) => chip.dimension === dimension); return (place) => (!chips.some(({ not }) => !not) || chips.some((chip) => !chip.not && chip.place === place)) && !chips.some((chip) => chip.not && chip.place === place); };
  const isClient = wantedBy("client"), isGroup = wantedBy("group"), ofEvidence = state.verdict === null ? null : new Set(Array.from(selection.rows, (row) => requests.group[row]));
  const all = memberships().filter(({ group }) => isGroup(group) && (!ofEvidence || ofEvidence.has(group))).map(({ group, members }) => ({ group, members: members.filter(({ client, spans }) => isClient(client) && spans.some(([a, b]) => a <= to && b >= from)) })).filter(({ members }) => members.length);
  if (!all.length) return null;
  all.sort((a, b) => b.members.length - a.members.length);
  const width = box.clientWidth, small = width < 480, left = small ? 92 : 150, tall = 28, axis = axisOf([from, to], [left, width - 2]), x = axis.clamped;
  const rebalances = data.tables.rebalances, place = rebalances && placesIn(rebalances);
  const figures = all.slice(0, MEMBERS.groups).map(({ group, members }) => {
    const shown = members.slice(0, MEMBERS.each), top = 6, bottom = top + shown.length * tall, parts = timeAxis(axis, top, bottom);
    if (rebalances) for (const row of rebalances.rows) {
      const time = row[place.time] - epoch;
      if (row[place.group] !== null && string(row[place.group]) === NAMES.group[group] && time >= from && time <= to) parts.push(svg("line", { class: "cross", x1: round(x(time)), x2: round(x(time)), y1: top, y2: bottom }, svg("title", null, `${clock(time)}: rebalance${row[place.cause] === null || place.cause === undefined ? "" : `, ${string(row[place.cause])}`}`)));
    }
    shown.forEach(({ client, spans }, at) => {
      const y = top + at * tall;
      parts.push(svg("text", { x: 0, y: y + 18, class: "ink" }, svg("title", null, NAMES.client[client]), shortened(clientName(client), small ? 13 : 22)), at ? svg("line", { class: "grid", x1: 0, x2: width, y1: y, y2: y }) : "");
      for (const [a, b, kind, row] of spans) {
        if (b < from || a > to) continue;
        const says = { join: "joining", member: "a member", left: "left", refused: `refused: ${outcomeText(row)}` }[kind], moment = kind === "left" || kind === "refused", px = round(x(a));
        parts.push(svg("g", { class: "segment", onclick: () => openRow(row, true) }, svg("title", null, `${clock(a)}${moment ? "" : ` for ${during(b - a)}`}: ${says}`),
          kind === "left" ? svg("path", { class: "left", d: `M${px} ${y + 7}v14` }) : kind === "refused" ? svg("path", { class: "refused", d: `M${px - 5} ${y + 9}l10 10m0-10l-10 10` }) : svg("rect", { class: kind, x: px + 0.5, y: y + 5.5, width: round(Math.max(2, x(b) - x(a))), height: tall - 11, rx: 3 })));
      }
    });
    const hidden = members.length - shown.length;
    return el("figure", null, el("figcaption", null, el("b", null, NAMES.group[group]), ` ${counted(members.length, "member")}${hidden ? `, ${MEMBERS.each} are drawn` : ""}`), picture(width, bottom + 20, `Members of ${NAMES.group[group]} along time`, parts.flat(3)));
  });
  const sign = (kind) => svg("svg", { width: 18, height: 10, class: "segment sign" }, svg("rect", { class: kind, x: 0.5, y: 0.5, width: 16, height: 9, rx: 2 }));
  return [...figures, el("p", { class: "legend" }, el("span", null, sign("join"), "joining"), el("span", null, sign("member"), "a member, as its requests tell"), all.length > MEMBERS.groups ? `${MEMBERS.groups} groups of ${all.length} are drawn` : "")];
};
