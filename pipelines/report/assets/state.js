// What is selected, and its twin in the address: filters, time range, zoom, order, verdict, open request, folded sections.
const SORTS = /^-?(time|total|queued|api|client|broker|topic|outcome|packet)$/;
const fresh = () => ({ chips: [], range: null, zoom: null, sort: "-total", row: null, verdict: null, polls: false, fold: new Set() });
const state = { ...fresh(), cursor: 0 };
const verdicts = (data.verdicts || []).map((verdict) => ({ ...verdict, rows: [] }));
const rowsOfRank = new Map(verdicts.map(({ rank, rows }) => [rank, rows]));
for (let at = 0; at < evidence.n; at++) rowsOfRank.get(evidence.rank[at])?.push(evidence.row[at]);
const chosenVerdict = () => verdicts.find((verdict) => verdict.rank === state.verdict) || null;
const isPart = () => state.chips.length > 0 || state.range !== null || state.verdict !== null;

const escape_ = (text) => encodeURIComponent(text).replace(/%3A/g, ":").replace(/%2F/g, "/").replace(/~/g, "%7E");
const seconds = (range) => range.map((time) => (time / 1e6).toFixed(6).replace(/\.?0+$/, "")).join("..");
const address = () => {
  const parts = [];
  if (state.chips.length) parts.push(`q=${state.chips.map(({ dimension, place, not }) => `${not ? "-" : ""}${dimension}:${escape_(NAMES[dimension][place])}`).join("~")}`);
  if (state.range) parts.push(`t=${seconds(state.range)}`);
  if (state.zoom) parts.push(`z=${seconds(state.zoom)}`);
  if (state.sort !== "-total") parts.push(`s=${state.sort}`);
  if (state.polls) parts.push("polls=1");
  if (state.verdict !== null) parts.push(`v=${chosenVerdict().name}`);
  if (state.row !== null) parts.push(`row=${state.row}`);
  if (state.fold.size) parts.push(`fold=${[...state.fold].join(",")}`);
  return `#${parts.join("&")}`;
};

const unescape_ = (text) => { try { return decodeURIComponent(text); } catch { return ""; } };
const chipOf = (text) => {
  const not = text.startsWith("-"), rest = not ? text.slice(1) : text, at = rest.indexOf(":"), dimension = rest.slice(0, at);
  const place = DIMENSIONS.includes(dimension) ? NAMES[dimension].indexOf(unescape_(rest.slice(at + 1))) : -1;
  return place < 0 || (place === 0 && dimension !== "outcome") ? null : { dimension, place, not };
};
const rangeOf = (text) => {
  const ends = (text || "").split("..").map((part) => part === "" ? NaN : Number(part) * 1e6);
  if (ends.length !== 2 || !ends.every(Number.isFinite)) return null;
  const [from, to] = ends.map((time) => Math.max(0, Math.min(span, time)));
  return from < to ? [from, to] : null;
};
// Take the state from an address. What makes no sense in it is left out.
const readAddress = () => {
  const given = Object.fromEntries(location.hash.slice(1).split("&").map((part) => { const at = part.indexOf("="); return at < 0 ? [part, ""] : [part.slice(0, at), part.slice(at + 1)]; }));
  const row = /^\d+$/.test(given.row || "") ? Number(given.row) : -1, verdict = verdicts.find(({ name }) => name === given.v);
  Object.assign(state, fresh(), {
    chips: (given.q || "").split("~").map(chipOf).filter(Boolean), range: rangeOf(given.t), zoom: rangeOf(given.z),
    sort: SORTS.test(given.s || "") ? given.s : "-total", polls: given.polls === "1", verdict: verdict ? verdict.rank : null,
    row: row >= 0 && row < requests.n && requests.alone[row] ? row : null,
    fold: new Set((given.fold || "").split(",").filter((id) => /^[a-z-]+$/.test(id) && $(id))),
  });
};
// step: whether Back comes to what was before
const remember = (step) => {
  const to = address();
  if (to !== (location.hash || "#")) history[step ? "pushState" : "replaceState"](null, "", to);
};

const chipAt = (dimension, place) => state.chips.findIndex((chip) => chip.dimension === dimension && chip.place === place);
const toggle = (dimension, place, not = false) => {
  const at = chipAt(dimension, place);
  if (at >= 0) state.chips.splice(at, 1); else state.chips.push({ dimension, place, not });
  changed(true);
};
const showEverything = () => { Object.assign(state, fresh(), { row: state.row, fold: state.fold, polls: state.polls }); changed(true); };
