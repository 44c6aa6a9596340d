// Elements. Every text enters as a text node or an attribute: nothing is ever parsed as markup.
const SVG = "http://www.w3.org/2000/svg";
const $ = (id) => document.getElementById(id);
// Attributes by name; `on…` are listeners, `css` are properties of the style. What is null or false is left out.
const fill = (element, attributes, inside) => {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "css") for (const [property, text] of Object.entries(value)) element.style.setProperty(property, text);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...inside.flat(4).filter((part) => part !== null && part !== undefined && part !== false && part !== ""));
  return element;
};
const el = (name, attributes, ...inside) => fill(document.createElement(name), attributes, inside);
const svg = (name, attributes, ...inside) => fill(document.createElementNS(SVG, name), attributes, inside);
const button = (text, attributes, act) => el("button", { type: "button", ...attributes, onclick: act }, text);
const icon = (path, size = 16) => svg("svg", { width: size, height: size, viewBox: "0 0 16 16", fill: "none", stroke: "currentColor", "stroke-width": 1.6, "stroke-linecap": "round", "stroke-linejoin": "round", "aria-hidden": "true" }, svg("path", { d: path }));
// What a click does, Enter and the space bar do as well.
const pressable = (label, act) => ({ tabindex: 0, role: "button", "aria-label": label, onclick: act, onkeydown: (event) => {
  if (event.key === "Enter" || event.key === " ") { event.preventDefault(); event.stopPropagation(); act(event); }
} });
// Where a button was that is gone: the next Tab goes on from there.
const focusOn = (element) => { element.tabIndex = -1; element.focus({ preventScroll: true }); };
const round = (number) => Math.round(number * 10) / 10;
const say = (text) => { $("live").textContent = text; };
// Names of one picture are cut where they do not differ: the beginning that two of them share goes before their ends do.
const shortenedApart = (names, length) => {
  const common = (a, b) => { let n = 0; while (n < a.length && a[n] === b[n]) n++; return n; };
  return (name) => {
    if (name.length <= length) return name;
    const shared = Math.max(0, ...names.map((other) => other === name ? 0 : common(name, other)));
    if (shared < length - 1) return shortened(name, length);
    const end = Math.ceil((length - 1) * 2 / 3), from = Math.min(Math.max(shared - 2, 0), name.length - end);
    const rest = name.slice(from, from + end);
    return `${name.slice(0, length - 1 - rest.length)}…${rest}`;
  };
};
const shortened = (text, length) => text.length > length ? `${text.slice(0, length - 1)}…` : text;
