// The selector: one name of each dimension, or all. A verdict is one, and its evidence what it selects. What of the page
// does not follow the selection is marked as of the whole capture.
const selection = {
  chosen: {}, // dimension -> place in names
  listeners: [],
  change() {
    root.toggleAttribute("data-selected", selected().length > 0);
    for (const listener of this.listeners) listener();
  },
};

// What chooses a name as if it were picked in the selector; null for names that it does not hold.
const places = Object.fromEntries(Object.entries(names).map(([dimension, all]) => [dimension, new Map(all.map((name, at) => [name, at]))]));
const choose = (dimension, place) => {
  const select = document.getElementById(`select-${dimension}`);
  select.value = place;
  select.dispatchEvent(new Event("change"));
  return select;
};
const chooser = (dimension, name) => {
  const place = document.getElementById(`select-${dimension}`) && places[dimension].get(name);
  return place === null || place === undefined ? null : (event) => {
    const select = choose(dimension, place);
    if (!event.detail) select.focus({ preventScroll: true }); // by keyboard: the button that was pressed is gone
  };
};

const selected = () => Object.keys(selection.chosen);
const placesIn = (table) => Object.fromEntries(table.columns.map(({ name }, at) => [name, at]));

// Whom a verdict is about: dimension -> places of names in `strings`.
const known = new Map();
const concerned = (verdict) => {
  if (known.has(verdict)) return known.get(verdict);
  const found = Object.fromEntries(["api", ...data.dimensions].map((dimension) => [dimension, new Set(data.verdicts[verdict][dimension])]));
  for (const { columns, size } of ["requests", "topic_requests", "data_time"].map((name) => facts[`verdict_${name}`]))
    for (let row = 0; row < size; row++) if (columns.verdict[row] === verdict)
      for (const [dimension, of] of Object.entries(found)) {
        const place = columns[dimension] && columns[dimension][row];
        if (place !== null && place !== undefined && dimension !== "verdict") of.add(names[dimension][place]);
      }
  known.set(verdict, found);
  return found;
};

// Whether one of some names is among others; clients also by their address, where one side tells no more.
const address = (place) => string(place).split(" ")[0];
const isAmong = (dimension, some, others) => some.some((place) => others.has(place))
  || dimension === "client" && some.some((place) => [...others].some((other) =>
    address(other) === address(place) && (address(other) === string(other) || address(place) === string(place))));

// The table of the requests that the selected verdict counts; undefined where none is selected, or it counts others.
const requestsOfVerdict = () => {
  const verdict = data.verdicts && data.verdicts[selection.chosen.verdict];
  return verdict && verdict.requests ? data.tables[verdict.requests] : undefined;
};

// Of a carried table: what tells rows of a verdict's evidence, or of whom it is about, from others; null where nothing does.
const verdictTest = (table, verdict) => {
  if (table.rows === (requestsOfVerdict() || {}).rows) return { test: () => true, says: "The requests that the selected verdict counts, long polls too" };
  const place = placesIn(table), { first, last } = data.verdicts[verdict];
  if (place.verdicts !== undefined) {
    const name = names.verdict[verdict];
    return { test: (row) => row[place.verdicts] !== null && row[place.verdicts][0].includes(name), says: "" };
  }
  const about = concerned(verdict), tests = [];
  const matched = Object.entries({ ...table.match, ...place.api === undefined ? {} : { api: [place.api, "is"] } });
  for (const [dimension, [at]] of matched) {
    if (!about[dimension].size) continue;
    const namesOf = (row) => Array.isArray(row[at]) ? row[at][0] : [row[at]];
    tests.push((row) => row[at] === null || isAmong(dimension, namesOf(row), about[dimension]));
  }
  const tells = matched.some(([dimension]) => dimension !== "protocol" && about[dimension].size);
  if (!tells) return null;
  if (place.time !== undefined && first !== null)
    tests.push((row) => row[place.time] === null || (row[place.time] >= first - BUCKET && row[place.time] <= last));
  return { test: (row) => tests.every((test) => test(row)), says: "Rows of whom the selected verdict is about" };
};

// Of a carried table: rows that the selection keeps, the selected dimensions that it does not know, and what to say of it.
const selectRows = (table) => {
  const tests = [], unknown = [], notes = [];
  let cut = 0; // rows that name more than the page carries
  for (const [dimension, place] of Object.entries(selection.chosen)) {
    if (dimension === "verdict") {
      const found = verdictTest(table, place);
      if (found === null) unknown.push(dimension);
      else tests.push(found.test), notes.push(found.says);
      continue;
    }
    const wanted = names[dimension][place];
    const [at, how] = table.match[dimension] || [];
    const byAddress = (row) => dimension === "client" && row[at] !== null && string(row[at]) === address(wanted); // of events that know no more
    if (how === "is") {
      tests.push((row) => row[at] === wanted || byAddress(row));
      if (table.rows.some((row) => row[at] !== wanted && byAddress(row))) notes.push("Rows that tell only the client's address are kept");
    } else if (how === "has") {
      tests.push((row) => row[at] !== null && row[at][0].includes(wanted));
      if (table.columns.some(({ unit }) => unit === "count")) notes.push(`Rows that name the ${dimension}, with figures of all their ${dimension}s`);
      cut += table.rows.filter((row) => row[at] !== null && row[at][1] && !row[at][0].includes(wanted)).length;
    } else if (how === "address") {
      tests.push(byAddress);
      notes.push("By the client's address: its name is not known here");
    } else unknown.push(dimension);
  }
  if (unknown.length) notes.push(tests.length ? `Of all ${unknown.map((name) => `${name}s`).join(" and ")}: not told apart here` : `Whole capture: not told apart by ${unknown.join(" and ")}`);
  if (cut) notes.push(`Left out as unsure: ${counted(cut, "row")} with more names than this page carries`);
  return { rows: table.rows.filter((row) => tests.every((test) => test(row))), unknown, notes: notes.filter(Boolean) };
};

const startSelector = (place) => {
  const boxes = data.dimensions.filter((dimension) => names[dimension] && names[dimension].length);
  if (!boxes.length) return;
  const selects = [];
  for (const dimension of boxes) {
    const carried = names[dimension].length, all = data.totals[dimension];
    const title = carried < all ? `the ${whole(carried)} busiest of ${whole(all)}` : `${whole(all)}`;
    const select = el("select", { id: `select-${dimension}` }, el("option", { value: "" }, `all ${dimension}s (${title})`));
    names[dimension].forEach((name, at) => select.append(el("option", { value: at }, string(name))));
    select.addEventListener("change", () => {
      if (select.value === "") delete selection.chosen[dimension];
      else selection.chosen[dimension] = Number(select.value);
      clear.hidden = !selected().length;
      selection.change();
    });
    selects.push(select);
    place.append(el("label", null, el("span", null, dimension), select));
  }
  const clear = button("Clear", { class: "clear", hidden: "" }, (event) => {
    for (const select of selects) select.value = "";
    selection.chosen = {};
    clear.hidden = true;
    selection.change();
    if (!event.detail) selects[0].focus({ preventScroll: true });
  });
  place.append(clear);
};
