// A packet: its place, and the commands that show it.
const PLAIN = /^[\w@%+=:,.\/-]+$/;
const escaped = (sign) => {
  const code = sign.codePointAt(0);
  if (sign === "'" || sign === "\\") return `\\${sign}`;
  if (/^[\p{L}\p{N}\p{P}\p{S} ]$/u.test(sign)) return sign;
  return code > 0xffff ? `\\U${code.toString(16).padStart(8, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`;
};
// A word for a shell. What is not printable is written as an escape, so that a pasted line is one line.
const quoted = (word) => {
  const safe = word.startsWith("-") ? `./${word}` : word;
  if (PLAIN.test(safe)) return safe;
  const signs = [...safe];
  if (signs.every((sign) => sign !== "'" && sign !== "\\" && escaped(sign) === sign)) return `'${safe}'`;
  return `$'${signs.map(escaped).join("")}'`;
};
const commands = (file, packet) => [
  `tshark -r ${quoted(file)} -Y 'frame.number==${packet}'`,
  `brokerscope show ${quoted(`${file}:${packet}`)}`,
];

const copy = async (text) => {
  try { await navigator.clipboard.writeText(text); return true; } catch { /* the old way */ }
  const box = el("textarea", { class: "aside", readonly: "" });
  box.value = text;
  document.body.append(box);
  box.select();
  const done = document.execCommand("copy");
  box.remove();
  return done;
};

const popover = el("div", { class: "popover", role: "dialog", "aria-label": "Commands for this packet", hidden: "" });
document.body.append(popover);
let opener = null;
const closePopover = () => { popover.hidden = true; if (opener) opener.setAttribute("aria-expanded", "false"); opener = null; };
document.addEventListener("click", (event) => { if (opener && !popover.contains(event.target) && !opener.contains(event.target)) closePopover(); });
document.addEventListener("keydown", (event) => {
  if (!opener) return;
  const ends = [popover.querySelector("button"), popover.querySelector("p:last-child button")];
  if (event.key !== "Escape" && !(event.key === "Tab" && document.activeElement === ends[event.shiftKey ? 0 : 1])) return;
  const back = opener;
  closePopover();
  back.focus(); // a Tab goes on from here
});

const openPopover = (from, file, packet) => {
  opener = from;
  from.setAttribute("aria-expanded", "true");
  popover.replaceChildren(...commands(file, packet).map((command) => {
    const act = button("Copy", { class: "copy-line", "data-command": command }, async () => {
      act.textContent = await copy(command) ? "Copied" : "Select it";
    });
    return el("p", null, el("code", null, command), act);
  }));
  popover.hidden = false;
  const at = from.getBoundingClientRect();
  popover.style.top = `${at.bottom + scrollY + 4}px`;
  popover.querySelector("button").focus({ preventScroll: true });
  popover.style.left = `${Math.max(8, Math.min(at.left + scrollX, scrollX + document.documentElement.clientWidth - popover.offsetWidth - 8))}px`;
};

const packetCell = ([file, packet, name]) => {
  const place = `${string(name)}:${packet}`;
  const act = button("", { class: "copy", title: "Commands that show this packet", "aria-label": `Commands for ${place}`, "aria-expanded": "false" }, () => {
    if (opener === act) closePopover(); else openPopover(act, data.files[file], packet);
  });
  act.append(svg("svg", { width: 12, height: 12, viewBox: "0 0 12 12", "aria-hidden": "true" },
    svg("rect", { x: 1, y: 3.5, width: 7, height: 7.5, rx: 1 }), svg("rect", { x: 4, y: 1, width: 7, height: 7.5, rx: 1 })));
  return el("span", { class: "packet" }, place, " ", act);
};
