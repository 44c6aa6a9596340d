// The selector: one name of each dimension, or all. What of the page does not follow it is marked as of the whole capture.
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
const chooser = (dimension, name) => {
  const select = document.getElementById(`select-${dimension}`), place = select && places[dimension].get(name);
  return select === null || place === undefined ? null : (event) => {
    select.value = place;
    select.dispatchEvent(new Event("change"));
    if (!event.detail) select.focus({ preventScroll: true }); // by keyboard: the button that was pressed is gone
  };
};

const selected = () => Object.keys(selection.chosen);
const placesIn = (table) => Object.fromEntries(table.columns.map(({ name }, at) => [name, at]));

// Of a carried table: rows that the selection keeps, the selected dimensions that it does not know, and what to say of it.
const selectRows = (table) => {
  const tests = [], unknown = [], notes = [];
  let cut = 0; // rows that name more than the page carries
  for (const [dimension, place] of Object.entries(selection.chosen)) {
    const wanted = names[dimension][place];
    const [at, how] = table.match[dimension] || [];
    const address = dimension === "client" ? string(wanted).split(" ")[0] : null; // of events that know no more
    const byAddress = (row) => address !== null && row[at] !== null && string(row[at]) === address;
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
  return { rows: table.rows.filter((row) => tests.every((test) => test(row))), unknown, notes };
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
