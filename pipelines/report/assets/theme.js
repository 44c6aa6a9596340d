// Light or dark: what was chosen last, else what the system prefers.
const root = document.documentElement;
const systemDark = matchMedia("(prefers-color-scheme: dark)");
const recalled = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
const paint = () => { root.dataset.theme = recalled() || (systemDark.matches ? "dark" : "light"); };
paint();
systemDark.addEventListener("change", paint);
document.getElementById("theme").addEventListener("click", () => {
  const next = root.dataset.theme === "dark" ? "light" : "dark";
  try { localStorage.setItem("theme", next); } catch { /* a page opened from a file may not store */ }
  root.dataset.theme = next;
});
