// The selector: one name of each dimension, or all. Views that changed what they show listen to it.
const selection = {
  chosen: {}, // dimension -> place in names
  listeners: [],
  change() { for (const listener of this.listeners) listener(); },
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

// Rows of a carried table that the selection keeps, and the dimensions that the table does not know.
const selectRows = (table) => {
  const tests = [], unknown = [];
  for (const [dimension, place] of Object.entries(selection.chosen)) {
    const wanted = names[dimension][place];
    const [at, how] = table.match[dimension] || [];
    const address = dimension === "client" ? string(wanted).split(" ")[0] : null; // of events that know no more
    if (how === "is") tests.push((row) => row[at] === wanted || address !== null && row[at] !== null && string(row[at]) === address);
    else if (how === "has") tests.push((row) => row[at] !== null && row[at][0].includes(wanted));
    else if (how === "address") tests.push((row) => row[at] !== null && string(row[at]) === address);
    else unknown.push(dimension);
  }
  return { rows: tests.length ? table.rows.filter((row) => tests.every((test) => test(row))) : table.rows, unknown };
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
      clear.hidden = !Object.keys(selection.chosen).length;
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
