// What tests ask of a page from inside.
const all = (what, within = document) => [...within.querySelectorAll(what)];
const wait = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
const said = (form) => all("[data-said]", form).filter((one) => !one.hidden).map((one) => one.dataset.said).join();

function guesses(texts) {
  const form = document.querySelector("form.predict"), input = form.querySelector("input"), details = form.querySelector("details");
  const before = details.open;
  const verdicts = texts.map((text) => { input.value = text; form.requestSubmit(); return said(form); });
  return [before, ...verdicts, details.open];
}
function choices(letters) {
  const form = document.querySelector("form.question"), seen = [];
  const now = () => seen.push(said(form) + (form.querySelector("details").open ? " open" : ""));
  form.requestSubmit();
  now();
  for (const letter of letters) {
    form.querySelector(`[value=${letter}]`).click();
    now();
    form.requestSubmit();
    now();
  }
  return seen;
}
async function copies() {
  const copied = [], button = document.querySelector("button.copy"), marked = () => button.classList.contains("done");
  Object.defineProperty(navigator, "clipboard", { value: { writeText: async (text) => { copied.push(text); } } });
  button.click();
  await wait(50);
  const before = marked();
  await wait(2500);
  return [copied, before, marked(), button.hidden];
}
// What is wider than the window and cannot be moved in a box of its own.
async function loose() {
  for (const one of all("details")) one.open = true;
  await wait(200);
  const out = all("main *").filter((one) => !one.closest(".scroll, pre, li, .command") && one.getBoundingClientRect().right > innerWidth + 1);
  return [innerWidth, document.documentElement.scrollWidth <= innerWidth, out.map((one) => one.outerHTML.slice(0, 80))];
}
// Texts whose contrast to what lies behind them is below 4.5, which is WCAG's AA.
function faint() {
  const context = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
    return [...context.getImageData(0, 0, 1, 1).data];
  };
  const linear = (c) => (c /= 255) <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => .2126 * linear(r) + .7152 * linear(g) + .0722 * linear(b);
  const behind = (one) => {
    for (; one; one = one.parentElement) {
      const back = rgba(getComputedStyle(one).backgroundColor);
      if (back[3] > 250) return back;
    }
    return [255, 255, 255, 255];
  };
  for (const one of all("details")) one.open = true;
  for (const one of all("[hidden]")) one.hidden = false;
  const found = new Set(), walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const one = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || one.closest("svg, script, style, .skip, td.none")) continue;
    const [a, b] = [light(rgba(getComputedStyle(one).color)), light(behind(one))];
    const contrast = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (contrast < 4.5) found.add(`${one.tagName}.${one.className} ${contrast.toFixed(2)}`);
  }
  return [...found];
}
function reached() {
  const can = all("a[href], button, input, summary, [tabindex='0']").filter((one) => one.checkVisibility());
  return can.map((one) => { one.focus(); return document.activeElement === one; });
}
async function replay() {
  const details = document.querySelector("details.replay"), frame = details.querySelector("iframe");
  details.open = true;
  details.scrollIntoView();
  await new Promise((done) => { frame.addEventListener("load", done); setTimeout(done, 3000); });
  return frame;
}
async function plays() {
  const inside = (await replay()).contentWindow, before = inside.__state().t;
  inside.document.getElementById("play").click();
  const playing = inside.__state().playing;
  inside.document.getElementById("step").click(); // frames come when the browser has time; a step comes at once
  return [inside.__ready, inside.__errors, before, playing, inside.__state().t > 0];
}
// Letters of pictures that cannot be read: too small, or too faint on the box or the paper that lies behind them.
function unread(dark) {
  const linear = (c) => (c /= 255) <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => .2126 * linear(r) + .7152 * linear(g) + .0722 * linear(b);
  const rgb = (one) => getComputedStyle(one).fill.match(/[\d.]+/g).slice(0, 3).map(Number);
  const rows = [[-.574, 1.43, .144], [.426, .43, .144], [.426, 1.43, -.856]]; // hue-rotate(180deg)
  const turned = (colour) => rows.map((row) => Math.min(255, Math.max(0, row.reduce((sum, m, i) => sum + m * (255 - colour[i]), 0))));
  const seen = (one) => dark && !one.classList.contains("same") ? turned(rgb(one)) : rgb(one);
  const found = new Set();
  for (const svg of all(".paper svg")) {
    const boxes = [], title = svg.querySelector("title").textContent;
    for (const one of all("rect, circle, text", svg).filter((one) => !one.closest("defs"))) {
      const place = one.getBoundingClientRect(), fill = one.getAttribute("fill");
      if (one.tagName !== "text") {
        if (!fill.startsWith("url")) boxes.push([place, seen(one)]);
        continue;
      }
      const [x, y] = [(place.left + place.right) / 2, (place.top + place.bottom) / 2];
      const under = boxes.findLast(([box]) => box.left <= x && x <= box.right && box.top <= y && y <= box.bottom);
      const [a, b] = [light(seen(one)), under ? light(under[1]) : dark ? 0 : 1];
      const contrast = (Math.max(a, b) + .05) / (Math.min(a, b) + .05), size = parseFloat(getComputedStyle(one).fontSize) * one.getScreenCTM().a;
      if (contrast < 4.5 || size < 8.4) found.add(`${title}: ${one.textContent}: ${contrast.toFixed(2)}, ${size.toFixed(1)} px`);
    }
  }
  return [...found];
}
