"use strict";
// Predictions and questions answer in the page; commands can be copied. All words are in the markup, hidden or shown.
const show = (form, verdict) => {
  for (const said of form.querySelectorAll("[data-said]")) said.hidden = said.dataset.said !== verdict;
  if (verdict === "right" || verdict === "wrong") form.querySelector("details").open = true;
};
// A guess as people write it: 0.75, 3/4, 75%, 1,048,576 or 12 ms; in the unit of the answer.
const TIMES = { s: 1, ms: 1e-3, us: 1e-6, "µs": 1e-6, "μs": 1e-6, ns: 1e-9 };
const number = (text, unit) => {
  const clean = text.trim().replace(/[_\u2009]|,(?=\d{3}(?!\d))/g, "").replaceAll("−", "-");
  const match = /^([-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d{1,3})?)(?:\s*\/\s*(\d+\.?\d*))?\s*(\D*)$/i.exec(clean);
  if (!match) return NaN;
  const value = Number(match[1]) / Number(match[2] ?? 1), suffix = match[3].trim();
  if (suffix === unit) return value;
  if (/^[%％]$/.test(suffix)) return value / 100;
  return suffix in TIMES && unit in TIMES ? value * TIMES[suffix] / TIMES[unit] : value;
};
for (const form of document.querySelectorAll("form.predict")) form.addEventListener("submit", (event) => {
  event.preventDefault();
  const guess = number(form.querySelector("input").value, form.dataset.unit), answer = Number(form.dataset.answer);
  const near = Math.abs(guess - answer) <= Number(form.dataset.tolerance) * Math.abs(answer) + 1e-9 * Math.max(1, Math.abs(answer));
  show(form, Number.isFinite(guess) ? (near ? "right" : "wrong") : "number");
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
