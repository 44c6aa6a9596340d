// Tables: sorted by a click on a heading, filtered by a text, over all rows that the page carries; few are shown at first.
const FEW = 12;
const STEP = 100;
const NAMED = 3; // names of a list that are shown before "… +17"
const FADE = 48; // pixels, as in page.css
const WIDE = 44; // characters; longer texts may break anywhere
const SAYS_ERROR = new Set(["name", "status", "what"]); // columns that name errors
const NUMBER = new Set(["ns", "bytes", "bytes/s", "1/s", "share", "ratio", "count", "code", "bar"]);

const cellText = (value, column) => {
  if (value === null || value === undefined) return "";
  if (column.day) return WRITE.time(value).slice(column.day.length + 1);
  if (WRITE[column.unit]) return WRITE[column.unit](value);
  if (column.unit === "packet") return `${string(value[2])}:${value[1]}`;
  return Array.isArray(value) ? value[0].map(string).join(", ") : string(value);
};

// A list breaks between its names, not at the hyphens inside them.
const apart = (texts) => texts.flatMap((text, i) => [i ? ", " : "", text.length > WIDE ? text : el("span", { class: "whole" }, text)]);
const listCell = ([listed, more]) => {
  const texts = listed.map(string), hidden = texts.length - NAMED + more;
  if (hidden <= 0) return el("span", null, ...apart(texts));
  const rest = button(`… +${whole(hidden)}`, { class: "more-names", title: texts.slice(NAMED).join("\n") }, () => {
    rest.replaceWith(", ", ...apart(texts.slice(NAMED)), more ? ` and ${whole(more)} more` : "");
    focusOn(list);
  });
  const list = el("span", null, ...apart(texts.slice(0, NAMED)), " ", rest);
  return list;
};

const colour = (protocol) => /^[a-z]+$/.test(protocol) ? `var(--${protocol}, var(--s0))` : "var(--s0)";
const barCell = (value, row, table) => {
  const bar = el("i"), protocol = table.columns.findIndex((column) => column.name === "protocol");
  bar.style.width = `${Math.max(0.4, value * 100)}%`;
  bar.style.background = protocol < 0 ? "var(--s0)" : colour(string(row[protocol]));
  return el("span", { class: "bar-cell" }, el("span", { class: "share" }, bar), units.share(value));
};

// What filters by a name in a table; null for names that no request has.
const DIMENSION_OF = { server: "broker", ...Object.fromEntries(DIMENSIONS.map((name) => [name, name])) };
const chooser = (columnName, value) => {
  const dimension = DIMENSION_OF[columnName], place = dimension && carried.names[dimension] ? carried.names[dimension].indexOf(value) : -1;
  return place < 1 ? null : () => toggle(dimension, place);
};
const ADDRESSED = new Set(["client", "server", "broker", "connection", "client_ip", "server_ip", "leader"]); // columns whose texts have addresses
const cell = (value, column, row, table) => {
  const text = cellText(value, column);
  const classes = [];
  if (column.mark && value && !(Array.isArray(value) && !value[0].length)) classes.push(column.mark);
  if (column.unit === "packet") classes.push("to-packet", ...(text.length > WIDE ? ["long"] : []));
  else if (NUMBER.has(column.unit)) classes.push(column.unit === "bar" ? "w" : "n");
  else if (text.length > WIDE) classes.push("long");
  else if (column.unit !== "list") classes.push("name");
  let inside = ADDRESSED.has(column.name) ? hosted(text) : text;
  if (value === null || value === undefined) inside = "";
  else if (column.unit === "packet") inside = packetCell(value);
  else if (column.unit === "bar") inside = barCell(value, row, table);
  else if (column.name === "protocol") inside = el("span", { class: `badge ${/^[a-z]+$/.test(text) ? text : ""}` }, text);
  else if (Array.isArray(value)) inside = listCell(value);
  else if (chooser(column.name, value)) inside = button(inside, { class: "pick", title: `Only this ${column.name}` }, chooser(column.name, value));
  const meaning = SAYS_ERROR.has(column.name) ? meanings[value] : undefined;
  return el("td", { class: classes.join(" ") || null, title: meaning === undefined ? null : string(meaning) }, inside);
};

const ordered = (a, b) => typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), undefined, { numeric: true });
const sortKey = (value, column) => {
  if (value === null || value === undefined) return null;
  if (column.unit === "packet") return value[0] * 2 ** 40 + value[1];
  return WRITE[column.unit] ? value : cellText(value, column);
};

// The day of all times of a column; null where there are several.
const oneDay = (rows, at) => {
  const days = new Set(rows.filter((row) => row[at] !== null).map((row) => WRITE.time(row[at]).slice(0, 10)));
  return days.size === 1 ? [...days][0] : null;
};

class TableView {
  // few: rows shown at first
  constructor(place, few = FEW) {
    this.few = few;
    this.shown = few;
    this.wanted = "";
    this.sorted = null; // [column, up]
    this.note = el("p", { class: "note" });
    this.filter = el("input", { type: "search", placeholder: "Filter", class: "filter", "aria-label": "Filter rows" });
    this.filter.addEventListener("input", () => { this.wanted = this.filter.value.toLowerCase(); this.draw(); });
    this.head = el("tr");
    this.body = el("tbody");
    this.buttons = el("p", { class: "buttons" });
    this.table = el("table", null, el("thead", null, this.head), this.body);
    this.scroll = el("div", { class: "scroll" }, this.table);
    this.sideways = button("", { class: "sideways", hidden: "" }, () => {
      this.scroll.scrollLeft = this.goesOn() ? this.scroll.scrollLeft + this.scroll.clientWidth / 2 : 0;
    });
    this.tools = el("div", { class: "tools" }, this.note, this.sideways, this.filter);
    place.append(this.tools, this.scroll, this.buttons);
    this.scroll.addEventListener("scroll", () => this.edge());
    this.scroll.addEventListener("focusin", (event) => this.uncover(event.target));
    const size = new ResizeObserver(() => this.edge());
    size.observe(this.scroll);
    size.observe(this.table);
  }

  goesOn() { return this.scroll.scrollWidth - this.scroll.clientWidth - this.scroll.scrollLeft > 1; }

  // Say whether columns lie farther to the right.
  edge() {
    const { scroll, sideways } = this;
    scroll.classList.toggle("goes-on", this.goesOn());
    sideways.hidden = scroll.scrollWidth - scroll.clientWidth <= 1;
    sideways.textContent = this.goesOn() ? "More columns →" : "← First columns";
  }

  // Bring what got the focus by keyboard out from under the column of packets.
  uncover(focused) {
    const stays = this.head.querySelector(".to-packet");
    if (!stays || !focused.matches("button:focus-visible") || focused.closest(".to-packet")) return;
    const covered = focused.getBoundingClientRect().right + FADE - stays.getBoundingClientRect().left;
    if (covered > 0) this.scroll.scrollLeft += covered;
  }

  // table: columns, rows, total, more, match, grey; said: what else is to be said of it
  show(table, said = []) {
    this.data = table;
    this.texts = new Map();
    const days = table.columns.map((column, at) => column.unit === "time" ? oneDay(table.rows, at) : null);
    this.columns = table.columns.map((column, at) => [days[at] ? { ...column, day: days[at] } : column, at])
      .filter(([column, at]) => !column.hidden && (!table.rows.length || table.rows.some((row) => row[at] !== null)));
    if (this.sorted && !this.columns.some(([, at]) => at === this.sorted[0])) this.sorted = null;
    const notes = [...new Set(days.filter(Boolean))].map((day) => `Times are of ${day}, UTC`);
    if (table.carried < table.total) notes.push(`${whole(table.carried)} of ${whole(table.total)} rows are on this page; all of them: ${table.more}`);
    this.note.textContent = [...notes, ...said.filter(Boolean)].join(". ");
    this.filter.hidden = table.rows.length <= this.few && !this.wanted;
    this.draw();
  }

  rowText(row) {
    if (!this.texts.has(row))
      this.texts.set(row, this.columns.map(([column, at]) => cellText(row[at], column)).join("\n").toLowerCase());
    return this.texts.get(row);
  }

  draw() {
    this.head.replaceChildren(...this.columns.map(([column, at]) => this.heading(column, at)));
    let rows = this.wanted ? this.data.rows.filter((row) => this.rowText(row).includes(this.wanted)) : this.data.rows;
    if (this.sorted) {
      const [at, up] = this.sorted, column = this.data.columns[at];
      const keyed = rows.map((row) => [sortKey(row[at], column), row]);
      keyed.sort(([a], [b]) => a === null || b === null ? (a === null) - (b === null) : up ? ordered(a, b) : ordered(b, a));
      rows = keyed.map(([, row]) => row);
    }
    const grey = this.data.grey;
    this.body.replaceChildren(...rows.slice(0, this.shown).map((row) =>
      el("tr", { class: grey !== undefined && grey !== null && row[grey] !== null && string(row[grey]) === "yes" ? "grey" : null },
        ...this.columns.map(([column, at]) => cell(row[at], column, row, this.data)))));
    if (!rows.length) this.body.append(el("tr", null, el("td", { class: "empty", colspan: this.columns.length }, "No rows of this selection.")));
    const left = rows.length - this.shown;
    const more = (count) => () => {
      const first = this.shown;
      this.shown += count;
      this.draw();
      focusOn(this.body.rows[first]);
    };
    const fewer = () => { this.shown = this.few; this.draw(); this.buttons.firstChild.focus(); };
    this.buttons.dataset.printed = left > 0 ? `${whole(this.shown)} of ${whole(rows.length)} rows are shown.` : "";
    this.buttons.replaceChildren(...[
      left > STEP ? button(`Show ${STEP} more`, { class: "all" }, more(STEP)) : null,
      left > 0 ? button(`Show all ${whole(rows.length)} rows`, { class: "all" }, more(left)) : null,
      this.shown > this.few && rows.length > this.few ? button("Show fewer", { class: "all" }, fewer) : null,
    ].filter(Boolean));
  }

  heading(column, at) {
    const order = this.sorted && this.sorted[0] === at ? (this.sorted[1] ? "ascending" : "descending") : null;
    const act = button(column.head, { title: column.doc }, () => {
      const up = order ? order === "descending" : !NUMBER.has(column.unit) && column.unit !== "time";
      this.sorted = [at, up];
      this.draw();
      this.head.children[this.columns.findIndex(([, other]) => other === at)].firstChild.focus();
    });
    return el("th", { scope: "col", class: column.unit === "packet" ? "to-packet" : NUMBER.has(column.unit) && column.unit !== "bar" ? "n" : null, "aria-sort": order }, act);
  }
}
