// Numbers as people read them: the same texts as pipelines/formats/units.py and cells.py write.
const three = (number) => number.toFixed(Math.abs(number) < 10 ? 2 : Math.abs(number) < 100 ? 1 : 0);
const whole = (number) => Math.round(number).toLocaleString("en-US");
const counted = (number, noun) => `${whole(number)} ${noun}${number === 1 ? "" : "s"}`;
const two = (number) => String(number).padStart(2, "0");
const scaled = (number, scale, rest) => {
  for (const [limit, name] of scale) if (Math.abs(number) >= limit) return `${three(number / limit)} ${name}`;
  return rest(number);
};
const units = {
  duration(ns) {
    if (ns < 0) return `-${units.duration(-ns)}`;
    if (ns >= 120e9) {
      const seconds = Math.round(ns / 1e9), minutes = Math.floor(seconds / 60), hours = Math.floor(minutes / 60);
      if (hours >= 48) return `${Math.floor(hours / 24)} d ${two(hours % 24)} h`;
      return hours ? `${hours} h ${two(minutes % 60)} min` : `${minutes} min ${two(seconds % 60)} s`;
    }
    return scaled(ns, [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]], (n) => `${n.toFixed(0)} ns`);
  },
  size: (bytes) => scaled(bytes, [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]], (n) => `${n.toFixed(0)} B`),
  count: whole,
  shortCount(number) {
    for (const [limit, by, name] of [[1e9, 1e9, "G"], [1e6, 1e6, "M"], [1e4, 1e3, "k"]])
      if (Math.abs(number) >= limit) return `${three(number / by)}${name}`;
    return Number.isInteger(number) ? String(number) : three(number);
  },
  share(part) {
    const percent = part * 100;
    if (percent > 0 && percent < 0.01) return "<0.01 %";
    if (percent > 99.99 && percent < 100) return ">99.99 %";
    if (percent >= 99.5 && percent < 100) return `${percent.toFixed(2)} %`;
    return Number.isInteger(percent) ? `${percent} %` : `${three(percent)} %`;
  },
  ratio: (value) => value.toFixed(2).replace(/\.?0+$/, ""),
  rate: (value) => `${units.shortCount(value)}/s`,
  byteRate: (value) => `${units.size(value)}/s`,
  time: (microseconds) => new Date(microseconds / 1000).toISOString().replace("T", " ").slice(0, -1),
};
// unit of a column -> how its numbers are written
const WRITE = {
  ns: units.duration, bytes: units.size, "bytes/s": units.byteRate, "1/s": units.rate, share: units.share,
  ratio: units.ratio, count: units.count, code: String, time: units.time, bar: units.share,
};
