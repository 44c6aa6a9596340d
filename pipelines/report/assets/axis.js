// The time axis that all charts share: it runs from the first to the last bucket, also where nothing happened. Where
// captures lie far apart, idle time is left out, and a broken line says how much; a box under the title brings it back.
const LEFT = 74, RIGHT = 6;
const IDLE = 20; // columns without anything that may be left out
const BREAK = 22; // pixels of a broken line
const BUSY = 0.1; // share of columns with something in them, below which idle time is left out at first
const LETTER = 6.2; // pixels of a digit
const DAY = 86400e6; // µs
const STEPS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800].map((s) => s * 1e6);
// µs, and how much of "2026-11-21 23:39:46.600000" tells times apart that are multiples of it
const PRECISIONS = [[DAY, 10], [60e6, 16], [1e6, 19], [1e5, 21], [1e4, 22], [1e3, 23], [1, 26]];

// The texts of the ticks of any axis. ways: functions from all values to their texts, the shortest first; the first that
// writes no two alike is taken. What repeats even so is null: no label stands on an axis twice.
const tickTexts = (values, ways) => {
  const written = ways.map((way) => way(values));
  const texts = written.find((all) => new Set(all).size === all.length) || written[written.length - 1];
  return texts.map((text, at) => texts.indexOf(text) === at ? text : null);
};

// Times in µs, as finely as all of `by` need.
const datedTexts = (times, by = times) => {
  const [, length] = PRECISIONS.find(([precision]) => by.every((time) => time % precision === 0));
  return times.map((time) => `${units.time(time)}${String(time % 1000).padStart(3, "0")}`.slice(0, length));
};
// Times of an axis: round ones as finely as these need, others, where something begins, as finely as all do. Only the
// first of a day has its date, unless a text would repeat.
const timeTexts = (times, isRound) => {
  const fine = datedTexts(times), plain = datedTexts(times, times.filter((_, at) => isRound[at])), days = times.map((time) => Math.floor(time / DAY));
  const dated = times.map((_, at) => isRound[at] ? plain[at] : fine[at]);
  const once = dated.map((text, at) => text.length === 10 || days[at] !== days[at - 1] ? text : text.slice(11));
  return tickTexts(times, [() => once, () => dated]);
};

// Ticks of amounts from 0 to the top, [share of the height, text]; there is no half of one error.
const amountTicks = (top, write) => {
  const shares = top ? [0, 1, 0.5] : [0];
  const texts = tickTexts(shares, [(all) => all.map((share) => share ? write(share * top) : "0")]);
  return shares.map((share, at) => [share, texts[at]]).filter(([, text]) => text !== null).sort(([a], [b]) => a - b);
};

// Ticks at powers of ten, [power, text] of nanoseconds. every: powers a tick
const decadeTicks = (low, high, every = 1) => {
  const powers = [];
  for (let power = low; power <= high; power += every) powers.push(power);
  const texts = tickTexts(powers, [(all) => all.map((power) => units.duration(10 ** power).replace(/\.0+(?= )/, ""))]);
  return powers.map((power, at) => [power, texts[at]]).filter(([, text]) => text !== null);
};

const EVENT_TABLES = ["events", "other_events"].map((name) => data.tables[name]).filter(Boolean);
const bucketsOf = () => {
  const seen = new Set();
  for (const name of ["requests_time", "data_time"]) if (facts[name]) for (const bucket of facts[name].columns.bucket || []) seen.add(bucket);
  for (const table of EVENT_TABLES) for (const row of table.rows) seen.add(bucketAt(row[placesIn(table).time]));
  return [...seen].sort((a, b) => a - b);
};

class Axis {
  // width: pixels; whole: also what is idle
  constructor(buckets, bucketMicroseconds, width, whole) {
    this.width = width;
    const plot = Math.max(80, width - LEFT - RIGHT), most = Math.max(24, Math.floor(plot / 5));
    const first = buckets.length ? buckets[0] : 0, last = buckets.length ? buckets[buckets.length - 1] : 0;
    const divide = (merged) => {
      const steps = [...new Set(buckets.map((bucket) => Math.floor(bucket / merged)))];
      if (whole || !steps.length) return [[Math.floor(first / merged), Math.floor(last / merged)]];
      const pieces = [];
      for (const step of steps) {
        const piece = pieces[pieces.length - 1];
        if (piece && step - piece[1] <= IDLE) piece[1] = step; else pieces.push([step, step]);
      }
      return pieces;
    };
    const length = (pieces) => pieces.reduce((sum, [from, to]) => sum + to - from + 1, 0);
    this.merged = 1;
    while (length(divide(this.merged)) > most) this.merged = Math.ceil(this.merged * 1.25) + (this.merged === 1 ? 1 : 0);
    this.microseconds = bucketMicroseconds * this.merged; // of a column
    this.seconds = this.microseconds / 1e6;
    this.pieces = divide(this.merged);
    this.columns = length(this.pieces);
    const available = plot - BREAK * (this.pieces.length - 1);
    this.step = Math.min(30, Math.max(1.5, available / this.columns));
    this.starts = []; // first column of each piece
    let column = 0;
    for (const [from, to] of this.pieces) { this.starts.push(column); column += to - from + 1; }
  }

  column(bucket) {
    const step = Math.floor(bucket / this.merged);
    const piece = this.pieces.findIndex(([from, to]) => from <= step && step <= to);
    return piece < 0 ? null : this.starts[piece] + step - this.pieces[piece][0];
  }

  pieceOf(column) {
    let piece = this.starts.length - 1;
    while (this.starts[piece] > column) piece--;
    return piece;
  }

  x(column) { return LEFT + column * this.step + this.pieceOf(column) * BREAK; }
  get right() { return this.x(this.columns - 1) + this.step; }
  begin(column) { const piece = this.pieceOf(column); return (this.pieces[piece][0] + column - this.starts[piece]) * this.microseconds; }
  label(column) { return datedTexts([this.begin(column), this.begin(column) + this.microseconds])[0]; }

  // [x of the tick, text, x of the text, its anchor]: where each piece begins, and whole times, as many as have space
  ticks() {
    const roomy = (step) => step / this.microseconds * this.step >= 76;
    let every = STEPS.find(roomy) || STEPS[STEPS.length - 1];
    while (!roomy(every)) every *= 2;
    let marks = this.pieces.flatMap(([from, to], piece) => {
      const begin = from * this.microseconds, end = (to + 1) * this.microseconds, x = this.x(this.starts[piece]), found = [{ time: begin, x, first: true }];
      for (let time = (Math.floor(begin / every) + 1) * every; time < end; time += every)
        found.push({ time, x: x + (time - begin) / this.microseconds * this.step, first: false });
      return found;
    });
    for (;;) { // without the first mark that has no space, until all have
      const texts = timeTexts(marks.map(({ time }) => time), marks.map(({ first }) => !first));
      let free = -Infinity;
      const put = marks.map(({ x, first }, at) => {
        const wide = texts[at].length * LETTER, fits = x + wide <= this.width;
        const [left, at_x, anchor] = !first ? [x - wide / 2, x, "middle"] : fits ? [x, x, "start"] : [this.width - wide, this.width, "end"];
        const has = left > free + (first ? 4 : 8) && left + wide <= this.width + 4;
        if (has) free = left + wide;
        return has && [x, texts[at], at_x, anchor];
      });
      const without = put.indexOf(false);
      if (without < 0) return put;
      marks = marks.filter((_, at) => at !== without);
    }
  }

  // [x, seconds] of what is left out
  breaks() {
    return this.pieces.slice(1).map(([from], at) =>
      [this.x(this.starts[at + 1]) - BREAK / 2, (from - this.pieces[at][1] - 1) * this.seconds]);
  }
}
