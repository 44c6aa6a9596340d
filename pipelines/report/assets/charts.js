// Numbers as SVG, as wide as their place. Colours are CSS variables, so a chart follows the page into the dark.
const nice = (value, base = 1000) => {
  if (value <= 0) return 0;
  const unit = base ** Math.floor(Math.log(value) / Math.log(base) + 1e-9);
  for (const power of [0.001, 0.01, 0.1, 1, 10, 100, 1000])
    for (const step of [1, 2, 4, 6, 8]) if (power * step * unit >= value * 0.9999) return power * step * unit;
  return value;
};
const image = (width, height, label, parts) =>
  svg("svg", { viewBox: `0 0 ${round(width)} ${height}`, width: round(width), height, role: "img", "aria-label": label, class: "chart" }, ...parts);
const title = (text) => svg("title", null, text);

// The frame around a chart along time: ticks [share of the height, text], the axis, and what is left out of it.
const frame = (axis, height, ticks) => {
  const bottom = height - 22, inner = bottom - 10, parts = [];
  for (const [share, text] of ticks) {
    const y = round(bottom - share * inner);
    parts.push(svg("line", { x1: LEFT, x2: round(axis.right), y1: y, y2: y, class: "grid" }));
    parts.push(svg("text", { x: LEFT - 6, y: y + 4, "text-anchor": "end" }, text));
  }
  for (const [x, text, at, anchor] of axis.ticks()) {
    parts.push(svg("line", { x1: round(x), x2: round(x), y1: bottom, y2: bottom + 4, class: "axis" }));
    parts.push(svg("text", { x: round(at), y: height - 5, "text-anchor": anchor }, text));
  }
  for (const [x, seconds] of axis.breaks()) {
    parts.push(svg("line", { x1: round(x), x2: round(x), y1: 8, y2: bottom, class: "break" }));
    const text = svg("text", { x: 0, y: 0, transform: `translate(${round(x + 4)} ${bottom - inner / 2}) rotate(-90)`, "text-anchor": "middle", class: "left-out" }, units.duration(seconds * 1e9));
    parts.push(svg("g", null, title(`${units.duration(seconds * 1e9)} without traffic`), text));
  }
  return { bottom, inner, parts };
};

// Stacked bars along time. series: [{name, colour, values: one a column}]
const bars = (axis, series, write, { height = 150, label = "", base = 1000 } = {}) => {
  const total = (column) => series.reduce((sum, one) => sum + (one.values[column] || 0), 0);
  let top = 0;
  for (let column = 0; column < axis.columns; column++) top = Math.max(top, total(column));
  top = nice(top, base);
  const { bottom, inner, parts } = frame(axis, height, amountTicks(top, write));
  const wide = Math.max(1, axis.step - (axis.step > 3 ? 1 : 0));
  for (let column = 0; column < axis.columns; column++) {
    if (!total(column)) continue;
    let below = 0;
    const pieces = [], texts = [axis.label(column)];
    for (const one of series) {
      const value = one.values[column];
      if (!value) continue;
      const tall = value / top * inner;
      pieces.push(svg("rect", { x: round(axis.x(column)), y: round(bottom - below - tall), width: round(wide), height: round(Math.max(tall, 0.6)), fill: one.colour }));
      below += tall;
      texts.push(`${one.name}: ${write(value)}`);
    }
    parts.push(svg("g", { class: "bar" }, title(texts.join("\n")), ...pieces));
  }
  return image(axis.width, height, label, parts);
};

// Durations along time: a field of counts on a logarithmic scale, and lines of percentiles over it.
const PER_DECADE = 5;
const SHORTEST = 3; // power of ten of the ns below which known durations stand in the lowest bin
const range = (from, to) => from <= SHORTEST ? `up to ${units.duration(10 ** to)}` : `${units.duration(10 ** from)} to ${units.duration(10 ** to)}`;
const durations = (axis, columns, lines, label) => {
  const height = 210, field = new Map();
  let low = Infinity, high = -Infinity, most = 0;
  columns.forEach((sum, column) => {
    for (const [bin, count] of sum ? sum.histogram : []) {
      const row = Math.floor(bin * PER_DECADE / BINS), key = `${column},${row}`;
      field.set(key, (field.get(key) || 0) + count);
      low = Math.min(low, row); high = Math.max(high, row + 1); most = Math.max(most, field.get(key));
    }
  });
  if (!field.size) return image(axis.width, height, label, frame(axis, height, []).parts);
  low = Math.floor(low / PER_DECADE) * PER_DECADE; high = Math.ceil(high / PER_DECADE) * PER_DECADE;
  const ticks = decadeTicks(low / PER_DECADE, high / PER_DECADE);
  const { bottom, inner, parts } = frame(axis, height, ticks.map(([power, text]) => [(power * PER_DECADE - low) / (high - low), text]));
  const tall = inner / (high - low), y = (ns) => bottom - (Math.log10(Math.max(10 ** (low / PER_DECADE), ns)) * PER_DECADE - low) * tall;
  for (const [key, count] of field) {
    const [column, row] = key.split(",").map(Number);
    parts.push(svg("rect", {
      x: round(axis.x(column)), y: round(bottom - (row - low + 1) * tall), width: round(Math.max(1, axis.step - 0.5)), height: round(Math.max(1, tall - 0.5)),
      class: "field", opacity: round(100 * (0.18 + 0.82 * Math.log(count + 1) / Math.log(most + 1))) / 100,
    }, title(`${axis.label(column)}\n${range(row / PER_DECADE, (row + 1) / PER_DECADE)}: ${whole(count)}`)));
  }
  for (const { name, kind, values } of lines) {
    let run = [];
    const dots = [];
    const flush = () => {
      if (run.length > 1) parts.push(svg("path", { d: `M${run.join(" L")}`, class: `line ${kind}` }));
      run = [];
    };
    values.forEach((value, column) => {
      const broken = column && axis.pieceOf(column) !== axis.pieceOf(column - 1);
      if (value === null || broken) flush();
      if (value === null) return;
      const x = round(axis.x(column) + axis.step / 2), at = round(y(value));
      run.push(`${x} ${at}`);
      dots.push(svg("circle", { cx: x, cy: at, r: 2.2, class: `dot ${kind}` }, title(`${axis.label(column)}\n${name}: ${units.duration(value)}`)));
    });
    flush();
    parts.push(...dots);
  }
  return image(axis.width, height, label, parts);
};

// One spread of durations. marks: [name, ns]
const BARS = 10; // in a decade
const spread = (sum, marks, paintWith, width) => {
  const height = 118, foot = 18, head = 16, inner = height - foot - head, edge = 4;
  const bars = new Map();
  for (const [bin, count] of sum.histogram) {
    const bar = Math.floor(bin * BARS / BINS);
    bars.set(bar, (bars.get(bar) || 0) + count);
  }
  const places = [...bars.keys()], most = Math.max(...bars.values());
  const low = Math.floor(Math.min(...places) / BARS), high = Math.max(low + 1, Math.ceil((Math.max(...places) + 1) / BARS - 1e-9));
  const x = (log) => edge + (log - low) / (high - low) * (width - 2 * edge), parts = [];
  const room = high > 11 ? 80 : 52; // of a label: those of minutes and more are longer
  const every = Math.ceil((high - low) * room / width); // decades a label
  for (let decade = low; decade <= high; decade++)
    parts.push(svg("line", { x1: round(x(decade)), x2: round(x(decade)), y1: head, y2: height - foot, class: "grid" }));
  for (const [decade, text] of decadeTicks(low, high, every))
    parts.push(svg("text", { x: round(x(decade)), y: height - 4, "text-anchor": decade === low ? "start" : decade === high ? "end" : "middle" }, text));
  for (const [bar, count] of bars) {
    const left = x(bar / BARS), right = x((bar + 1) / BARS), tall = Math.max(1, count / most * inner);
    parts.push(svg("rect", { x: round(left + 0.5), width: round(Math.max(1, right - left - 1)), y: round(height - foot - tall), height: round(tall), fill: paintWith, class: "bar" },
      title(`${range(bar / BARS, (bar + 1) / BARS)}: ${whole(count)}`)));
  }
  let taken = -Infinity;
  for (const [name, ns] of marks) {
    if (ns === null) continue;
    const at = Math.min(width - edge, x(Math.log10(Math.max(10 ** low, ns)))), text = Math.max(12, Math.min(width - 14, at));
    parts.push(svg("line", { x1: round(at), x2: round(at), y1: head - 3, y2: height - foot, class: "mark" }));
    if (text - taken > 30) { parts.push(svg("text", { x: round(text), y: 9, "text-anchor": "middle", class: "name" }, name)); taken = text; }
  }
  return image(width, height, "spread of durations", parts);
};

// Kinds of events as rows, time as columns. rows: [{name, columns: column -> {count, grey, texts: the most frequent}}]
const timeline = (axis, rows) => {
  const tall = 26, height = rows.length * tall + 32, { bottom, inner, parts } = frame(axis, height, []);
  let most = 1;
  for (const { columns } of rows) for (const { count } of columns.values()) most = Math.max(most, count);
  rows.forEach(({ name, columns }, at) => {
    const y = round(10 + (at + 0.5) * (inner / rows.length));
    parts.push(svg("line", { x1: LEFT, x2: round(axis.right), y1: y, y2: y, class: "grid" }));
    parts.push(svg("text", { x: LEFT - 6, y: y + 4, "text-anchor": "end" }, name));
    for (const [column, { count, grey, texts }] of columns)
      parts.push(svg("circle", { cx: round(axis.x(column) + axis.step / 2), cy: y, r: round(3 + 7 * Math.sqrt(count / most)), class: `event ${grey ? "grey" : name.replace(" ", "-")}` },
        title(`${axis.label(column)}\n${texts.slice(0, 8).join("\n")}${texts.length > 8 ? `\n… +${texts.length - 8}` : ""}`)));
  });
  parts.push(svg("line", { x1: LEFT, x2: round(axis.right), y1: bottom, y2: bottom, class: "grid" }));
  return image(axis.width, height, "events along time", parts);
};

const legend = (series) => el("p", { class: "legend" }, ...series.map(({ name, colour: paintWith, kind }) => {
  const sign = el("i", { class: kind ? `sign ${kind}` : null });
  if (paintWith) sign.style.background = paintWith;
  return el("span", null, sign, name);
}));
