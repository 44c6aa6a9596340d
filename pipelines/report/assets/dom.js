// Elements. Every text enters as a text node or an attribute: nothing is ever parsed as markup.
const SVG = "http://www.w3.org/2000/svg";
const fill = (element, attributes, inside) => {
  for (const [name, value] of Object.entries(attributes || {}))
    if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  element.append(...inside.filter((part) => part !== null && part !== undefined));
  return element;
};
const el = (name, attributes, ...inside) => fill(document.createElement(name), attributes, inside);
const svg = (name, attributes, ...inside) => fill(document.createElementNS(SVG, name), attributes, inside);
const button = (text, attributes, act) => {
  const made = el("button", { type: "button", ...attributes }, text);
  made.addEventListener("click", act);
  return made;
};
// Where a button was that is gone: the next Tab goes on from there.
const focusOn = (element) => { element.tabIndex = -1; element.focus({ preventScroll: true }); };
const round = (number) => Math.round(number * 10) / 10;
