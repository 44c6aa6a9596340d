// Times of the capture, in µs from its first request, as people read them.
const clock = (time, digits = 3) => {
  const at = epoch + Math.round(time), fraction = String(((at % 1e6) + 1e6) % 1e6).padStart(6, "0").slice(0, digits);
  return new Date(Math.floor(at / 1000)).toISOString().slice(11, 19) + (digits ? `.${fraction}` : "");
};
const day = (time) => new Date(Math.floor((epoch + time) / 1000)).toISOString().slice(0, 10);
const during = (time) => units.duration(time * 1000);
const roundDuring = (time) => during(time).replace(/\.0+ /, " ");
const DAY = 86400e6; // µs
const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6, 5e6, 1e7, 15e6, 3e7, 6e7, 12e7, 3e8, 6e8, 18e8, 36e8, 72e8, 108e8, 216e8, 432e8, DAY, 2 * DAY, 7 * DAY, 14 * DAY, 28 * DAY];
const digitsOf = (step) => step >= 1e6 ? 0 : Math.min(6, Math.ceil(6 - Math.log10(step) - 1e-9));
const tickText = (time, step, before) => `${day(time) === before ? "" : `${day(time).slice(5)} `}${clock(time, digitsOf(step))}`;
// [time, text] of at most `most` ticks. Texts are as fine as the step, and have their date where it is not that of the
// tick before, so that none stands on an axis twice. before: the date that is known there.
const timeTicks = (from, to, most, before = day(from) === day(to) ? day(from) : "") => {
  let step = STEPS.find((one) => (to - from) / one <= most) || STEPS[STEPS.length - 1];
  while ((to - from) / step > most) step *= 2;
  const ticks = [];
  for (let time = Math.ceil((epoch + from) / step) * step - epoch; time <= to; time += step) {
    ticks.push([time, step % DAY === 0 ? day(time) : tickText(time, step, before)]);
    before = day(time);
  }
  return ticks;
};
// Powers of ten from one label of a logarithmic axis to the next. room: pixels that a label takes.
const powersApart = (powers, pixels, room) => Math.max(1, Math.ceil(room * powers / pixels));
const powerText = (power) => units.duration(10 ** power).replace(/\.0+(?= )/, "");
const tip = (event, lines) => {
  const box = $("tip");
  box.replaceChildren(...lines.flat());
  box.hidden = false;
  box.style.left = `${Math.max(8, event.clientX + 16 + box.offsetWidth > innerWidth ? event.clientX - box.offsetWidth - 14 : event.clientX + 16)}px`;
  box.style.top = `${Math.max(8, Math.min(innerHeight - box.offsetHeight - 8, event.clientY + 14))}px`;
};
const hideTip = () => { $("tip").hidden = true; };
const pair = (name, value) => el("div", null, el("span", null, name), el("span", null, value));
const dot = (kind) => svg("svg", { width: 10, height: 10, class: "sign" }, svg("rect", { class: kind, x: 0.5, y: 0.5, width: 9, height: 9, rx: 2 }));
const picture = (width, height, label, ...inside) => svg("svg", { width: round(width), height: round(height), viewBox: `0 0 ${round(width)} ${round(height)}`, role: "img", "aria-label": label }, ...inside);
