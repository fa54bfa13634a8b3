"use strict";
// Predictions and questions answer in the page; commands can be copied. All words are in the markup, hidden or shown.
const show = (form, verdict) => {
  for (const said of form.querySelectorAll("[data-said]")) said.hidden = said.dataset.said !== verdict;
  if (verdict === "right" || verdict === "wrong") form.querySelector("details").open = true;
};
// A guess as people write it: 0.75, 3/4, 75%, 1,048,576, 12 ms or 1.5 MiB; what it may mean in the unit of the answer.
const TIMES = { s: 1, ms: 1e-3, us: 1e-6, "µs": 1e-6, "μs": 1e-6, ns: 1e-9 }, PREFIXES = ["", "k", "m", "g", "t"];
const bytes = (unit) => {
  const size = /^([kmgt])(i?)b$/i.exec(unit);
  return size ? (size[2] ? 1024 : 1000) ** PREFIXES.indexOf(size[1].toLowerCase()) : 1;
};
const readings = (text, unit) => {
  const clean = text.trim().replace(/[_\u2009]|,(?=\d{3}(?!\d))/g, "").replaceAll("−", "-");
  const match = /^([-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d{1,3})?)(?:\s*\/\s*(\d+\.?\d*))?\s*(\D*)$/i.exec(clean);
  if (!match) return [];
  const value = Number(match[1]) / Number(match[2] ?? 1), suffix = match[3].trim();
  if (!suffix || suffix === unit) return [value];
  if (/^[%％]$/.test(suffix)) return [value / 100];
  if (suffix in TIMES && unit in TIMES) return [value * TIMES[suffix] / TIMES[unit]];
  const size = /^([kmgt]?)(i?)(?:b|bytes?)$/i.exec(suffix);
  if (!size) return [value];
  const power = PREFIXES.indexOf(size[1].toLowerCase()); // M may be 2²⁰ or 10⁶: both are in use
  return (size[2] ? [1024] : [1024, 1000]).map((base) => value * base ** power / bytes(unit));
};
for (const form of document.querySelectorAll("form.predict")) form.addEventListener("submit", (event) => {
  event.preventDefault();
  const answer = Number(form.dataset.answer), allowed = Number(form.dataset.tolerance) * Math.abs(answer) + 1e-9 * Math.max(1, Math.abs(answer));
  const guesses = readings(form.querySelector("input").value, form.dataset.unit).filter(Number.isFinite);
  const near = guesses.some((guess) => Math.abs(guess - answer) <= allowed);
  show(form, guesses.length ? (near ? "right" : "wrong") : "number");
});
for (const form of document.querySelectorAll("form.question")) form.addEventListener("submit", (event) => {
  event.preventDefault();
  const chosen = form.querySelector("input:checked");
  show(form, !chosen ? "choose" : chosen.value === form.dataset.right ? "right" : "again");
});
for (const form of document.querySelectorAll("form")) form.addEventListener("input", () => show(form, ""));
const copied = async (code) => {
  try {
    await navigator.clipboard.writeText(code.textContent);
    return true;
  } catch (refused) { // no clipboard for files in some browsers: select it, and the keys for copying work
    getSelection().selectAllChildren(code);
    return document.execCommand("copy");
  }
};
for (const button of document.querySelectorAll("button.copy")) button.addEventListener("click", async () => {
  button.classList.toggle("done", await copied(button.parentElement.querySelector("code")));
  setTimeout(() => button.classList.remove("done"), 2000);
});
for (const button of document.querySelectorAll("[data-script]")) button.hidden = false;
