// The time axis that all charts share: it runs from the first to the last bucket, also where nothing happened. Where
// captures lie far apart, idle time is left out, and a broken line says how much; a box under the title brings it back.
const LEFT = 74, RIGHT = 6;
const IDLE = 20; // columns without anything that may be left out
const BREAK = 22; // pixels of a broken line
const BUSY = 0.1; // share of columns with something in them, below which idle time is left out at first
const STEPS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];

const bucketsOf = () => {
  const seen = new Set();
  for (const name of ["requests_time", "data_time"]) if (facts[name]) for (const bucket of facts[name].columns.bucket || []) seen.add(bucket);
  return [...seen].sort((a, b) => a - b);
};

class Axis {
  // width: pixels; whole: also what is idle
  constructor(buckets, bucketSeconds, width, whole) {
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
    this.seconds = bucketSeconds * this.merged;
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
  seconds_at(column) { const piece = this.pieceOf(column); return (this.pieces[piece][0] + column - this.starts[piece]) * this.seconds; }
  label(column) { return clock(this.seconds_at(column), this.seconds, true); }

  // [x of the tick, text, x of the text, its anchor]: whole times, as many as have space; the first of a day has its date
  ticks() {
    const made = [];
    let free = -Infinity, day = null;
    const text = (seconds, every) => clock(seconds, every, Math.floor(seconds / 86400) !== day);
    this.pieces.forEach(([from, to], piece) => {
      const begin = from * this.seconds, end = (to + 1) * this.seconds, at = (seconds) => this.x(this.starts[piece]) + (seconds - begin) / this.seconds * this.step;
      const every = STEPS.find((step) => step / this.seconds * this.step >= 76) || STEPS[STEPS.length - 1];
      const fine = Math.min(every, this.seconds);
      const put = (seconds, every) => {
        const x = at(seconds), shown = text(seconds, every), half = shown.length * 3.1;
        if (x - half < free + 8 || x + half > this.width + 4) return;
        made.push([x, shown, x, "middle"]);
        free = x + half;
        day = Math.floor(seconds / 86400);
      };
      const start = at(begin);
      const first = text(begin, fine), wide = first.length * 6.2;
      if (start - 4 > free) {
        const fits = start + wide <= this.width;
        if (fits || this.width - wide > free) {
          made.push([start, first, fits ? start : this.width, fits ? "start" : "end"]);
          day = Math.floor(begin / 86400);
        }
        free = fits ? start + wide : this.width;
      }
      for (let seconds = Math.ceil(begin / every) * every; seconds < end; seconds += every) put(seconds, Math.max(fine, every % 60 ? 1 : 60));
    });
    return made;
  }

  // [x, seconds] of what is left out
  breaks() {
    return this.pieces.slice(1).map(([from], at) =>
      [this.x(this.starts[at + 1]) - BREAK / 2, (from - this.pieces[at][1] - 1) * this.seconds]);
  }
}

const clock = (seconds, fine, date) => {
  const text = units.time(Math.round(seconds * 1e6));
  const time = fine < 1 ? text.slice(11, 23) : fine < 60 ? text.slice(11, 19) : fine < 86400 ? text.slice(11, 16) : "";
  return date || fine >= 86400 ? `${text.slice(0, 10)} ${time}`.trim() : time;
};
