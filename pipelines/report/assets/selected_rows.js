// Rows of a carried table that the selection keeps, and what of the selection the table does not know.
const placesIn = (table) => Object.fromEntries(table.columns.map(({ name }, at) => [name, at]));
const whatIsCarried = (table) => ({ ...table, carried: table.rows.length });
const addressOf = (place) => string(place).split(" ")[0];
// Whom the requests of the chosen verdict are about: dimension -> places of names in `strings`.
const concerned = () => Object.fromEntries(["api", "client", "broker", "topic", "group"].map((dimension) => {
  const names = new Set();
  for (const row of selection.base) for (const place of dimension === "topic" ? topicsOf(row) : [requests[dimension][row]]) if (place) names.add(carried.names[dimension][place]);
  return [dimension, names];
}));
// How the value of a cell holds a name: true, false, or null where a list is cut before it.
const holds = (value, how, name, dimension) => {
  if (value === null) return false;
  if (how === "has") return value[0].includes(name) || (value[1] ? null : false);
  if (how === "address") return string(value) === addressOf(name);
  return value === name || (dimension === "client" && string(value) === addressOf(name)); // some rows know no more than the address
};
// ignored: parts of the selection that do not count here
const selectRows = (table, ignored = []) => {
  const checks = [], unknown = [], notes = new Set(), place = placesIn(table);
  let cut = 0;
  for (const dimension of DIMENSIONS) {
    const mine = state.chips.filter((chip) => chip.dimension === dimension);
    if (!mine.length) continue;
    const [at, how] = table.match[dimension] || [];
    if (at === undefined) { unknown.push(dimension); continue; }
    if (how === "has" && table.columns.some(({ unit }) => unit === "count")) notes.add(`Rows that name the ${dimension}, with figures of all their ${dimension}s`);
    if (how === "address") notes.add("By the client's address: its name is not known here");
    const wanted = mine.filter(({ not }) => !not), nameOf = (chip) => carried.names[dimension][chip.place];
    checks.push((row) => {
      const held = wanted.map((chip) => holds(row[at], how, nameOf(chip), dimension)), has = !wanted.length || held.includes(true);
      if (!has && held.includes(null)) cut++;
      if (has && how === "is" && dimension === "client" && wanted.length && !wanted.some((chip) => row[at] === nameOf(chip))) notes.add("Rows that tell only the client's address are kept");
      return has && !mine.some((chip) => chip.not && holds(row[at], how, nameOf(chip), dimension) === true);
    });
  }
  if (state.range && !ignored.includes("time")) {
    const [from, to] = state.range.map((time) => time + epoch);
    const when = place.time ?? place.bucket ?? place.from ?? place.since;
    if (when !== undefined) checks.push((row) => row[when] === null || (row[when] >= from && row[when] <= to)); else unknown.push("time");
  }
  if (state.verdict !== null) {
    const about = concerned(), matched = Object.entries(table.match).filter(([dimension]) => about[dimension] && about[dimension].size);
    if (!matched.length) unknown.push("verdict");
    else notes.add("Rows of whom the chosen verdict is about");
    for (const [dimension, [at, how]] of matched) checks.push((row) => row[at] === null || [...about[dimension]].some((name) => holds(row[at], how, name, dimension) !== false));
  }
  const rows = table.rows.filter((row) => checks.every((check) => check(row)));
  if (unknown.length) notes.add(checks.length ? `Not told apart here by ${unknown.join(" and ")}` : `Whole capture: not told apart by ${unknown.join(" and ")}`);
  if (cut) notes.add(`Left out as unsure: ${counted(cut, "row")} with more names than this page carries`);
  return { rows, notes: [...notes] };
};
