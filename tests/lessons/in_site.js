// What tests ask of the site from inside.
async function searched(query) {
  const field = document.querySelector("#search"), found = document.querySelector("#found");
  field.value = query;
  field.dispatchEvent(new Event("input"));
  for (let i = 0; i < 100 && (found.hidden); i++) await wait(20);
  await wait(100);
  return [all("a", found).map((link) => link.getAttribute("href")), found.querySelector("p").textContent, found.hidden];
}
async function searches(queries) {
  const answers = [];
  for (const query of queries) answers.push(await searched(query));
  return answers;
}
const press = (key, on = document.activeElement) => on.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
async function keyboard() {
  const field = document.querySelector("#search"), found = document.querySelector("#found"), seen = [];
  press("/", document.body);
  seen.push(document.activeElement === field);
  await searched("ring");
  press("ArrowDown");
  seen.push(document.activeElement === all("a", found)[0]);
  press("ArrowDown");
  seen.push(document.activeElement === all("a", found)[1]);
  press("ArrowUp");
  press("ArrowUp");
  seen.push(document.activeElement === field);
  press("Escape");
  seen.push(found.hidden);
  let clicked = "";
  await searched("deadlock");
  document.addEventListener("click", (event) => { event.preventDefault(); clicked = event.target.closest("a").getAttribute("href"); }, { once: true });
  press("Enter", field);
  return [...seen, clicked];
}
// The picture on the first page: how high the bars are at first, after one step, and at the end.
async function walks() {
  const hero = document.querySelector("figure.hero"), step = hero.querySelector(".step"), at = hero.querySelector(".at");
  const heights = () => all(".bar", hero).map((one) => Math.round(parseFloat(one.style.height)));
  if (hero.querySelector(".play").textContent === hero.querySelector(".play").dataset.pause) hero.querySelector(".play").click();
  const steps = JSON.parse(hero.dataset.steps).length;
  while (!at.textContent.includes(` 0 `)) { step.click(); await wait(10); }
  await wait(800);
  const before = heights();
  step.click();
  await wait(900);
  const one = heights(), said = at.textContent;
  for (let i = 1; i < steps; i++) { step.click(); await wait(20); }
  await wait(900);
  return [before, one, said, heights(), at.textContent, all(".on-the-way *", hero).length];
}
// Links in running text that only a colour tells from it.
function colourOnly() {
  const links = all("main p a, main li a, main dd a, main td a").filter((one) => !one.closest(".lessons, .hero") && !one.matches(".button"));
  return links.filter((one) => one.checkVisibility() && getComputedStyle(one).textDecorationLine === "none").map((one) => one.outerHTML.slice(0, 80));
}
function calculated(field, texts) {
  const input = document.querySelector(field), form = input.closest("form");
  return texts.map((text) => { input.value = text; form.requestSubmit(); return said(form); });
}
