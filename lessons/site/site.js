
// The site: its search, and the picture on the first page.
const box = document.querySelector(".search"), field = box.querySelector("input"), found = box.querySelector("#found");
let loading;
const load = () => loading ??= new Promise((done, fail) => {
  const script = document.createElement("script");
  script.src = "search.js";
  script.addEventListener("load", () => done(ENTRIES.map((entry) => ({ entry, plain: entry.slice(1).map(plain) }))));
  script.addEventListener("error", fail);
  document.head.append(script);
});
const plain = (text) => text.toLowerCase().replace(/[-_‐]/g, " "); // as long as the text
const wide = /[\u2e80-\u9fff\uff66-\uff9d]/; // letters between which there are no blanks
// Where a word stands in a text: at the beginning of a word, or anywhere in Chinese.
const pattern = (word) => {
  const exact = word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  return new RegExp(wide.test(word) ? exact : `(?<![a-z0-9])${exact}`, "g");
};
const wordsOf = (query) => plain(query.normalize("NFKC")).split(/\s+/).filter(Boolean).map((word) => /[a-z]{3}s$/.test(word) && !word.endsWith("ss") ? word.slice(0, -1) : word);
const pairs = (word) => wide.test(word) && word.length > 2 ? [...word].slice(1).map((letter, i) => word[i] + letter) : [word];
// A word in the title counts more than in the heading, in the heading more than in the text.
const worth = ([title, heading, text], word) => {
  const times = (within) => within.match(pattern(word))?.length ?? 0;
  return (times(title) ? (title === word ? 80 : 40) : 0) + (times(heading) ? 15 : 0) + Math.min(times(text), 5) * 2;
};
const search = (entries, query) => {
  const all = wordsOf(query), whole = all.join(" ");
  const rank = (words, every) => entries.map(({ entry, plain: texts }) => {
    const each = words.map((word) => worth(texts, word));
    const phrase = all.length > 1 ? worth(texts, whole) : 0;
    return { entry, worth: every && each.includes(0) ? 0 : each.reduce((a, b) => a + b, 0) + phrase };
  }).filter((one) => one.worth);
  let hits = rank(all, true);
  if (!hits.length) hits = rank(all.flatMap(pairs), false);
  const best = new Map(); // of each lesson or term the best place
  for (const hit of hits.sort((a, b) => b.worth - a.worth)) if (!best.has(hit.entry[1])) best.set(hit.entry[1], hit);
  return [...best.values()];
};
const mark = (text, words) => { // the text with what was asked for marked, as nodes
  const spots = words.flatMap((word) => [...plain(text).matchAll(pattern(word))].map((match) => [match.index, match.index + match[0].length])).sort((a, b) => a[0] - b[0]);
  const nodes = [];
  let at = 0;
  for (const [start, end] of spots) if (start >= at) {
    const marked = document.createElement("mark");
    marked.textContent = text.slice(start, end);
    nodes.push(text.slice(at, start), marked);
    at = end;
  }
  return [...nodes, text.slice(at)];
};
const excerpt = (text, words) => {
  const first = Math.min(...words.map((word) => plain(text).search(pattern(word))).filter((at) => at >= 0));
  if (!Number.isFinite(first)) return text.slice(0, 130);
  const start = Math.max(0, text.lastIndexOf(" ", Math.max(0, first - 40)));
  return (start ? "…" : "") + text.slice(start, start + 130) + (start + 130 < text.length ? "…" : "");
};
const item = ([address, title, heading, text], words) => {
  const line = document.createElement("li"), link = document.createElement("a"), what = document.createElement("strong"), where = document.createElement("span"), said = document.createElement("small");
  link.href = address;
  what.append(...mark(title, words));
  where.textContent = heading;
  said.append(...mark(excerpt(text, words), words));
  link.append(what, where, said);
  line.append(link);
  return line;
};
const say = (word, fields = {}) => box.dataset[word].replace(/\{(\w+)\}/g, (_, name) => fields[name]);
const answer = async () => {
  const query = field.value.trim(), status = found.querySelector("p"), list = found.querySelector("ol");
  if (!query) return void (found.hidden = true);
  let hits = [], failed = false;
  try {
    hits = search(await load(), query);
  } catch (error) {
    failed = true;
  }
  if (query !== field.value.trim()) return; // something else is asked for by now
  const words = wordsOf(query).flatMap((word) => [word, ...pairs(word)]);
  status.textContent = failed ? say("failed") : hits.length ? say("some", { count: hits.length }) : say("none");
  list.replaceChildren(...hits.slice(0, 8).map((hit) => item(hit.entry, words)));
  found.hidden = false;
};
field.addEventListener("input", answer);
field.addEventListener("focus", () => { load().catch(() => {}); if (field.value.trim()) answer(); });
const links = () => [...found.querySelectorAll("a")];
box.addEventListener("keydown", (event) => {
  const all = links(), at = all.indexOf(document.activeElement);
  if (event.key === "Escape") {
    found.hidden = true;
    field.focus();
  } else if (event.key === "Enter" && document.activeElement === field) {
    all[0]?.click();
  } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    const to = at + (event.key === "ArrowDown" ? 1 : -1);
    if (to < all.length) (all[to] ?? field).focus();
  } else return;
  event.preventDefault();
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || /^(input|textarea)$/i.test(event.target.tagName)) return;
  event.preventDefault();
  field.focus();
});
document.addEventListener("pointerdown", (event) => { if (!box.contains(event.target)) found.hidden = true; });
box.addEventListener("focusout", (event) => { if (event.relatedTarget && !box.contains(event.relatedTarget)) found.hidden = true; });

for (const hero of document.querySelectorAll("figure.hero")) {
  const steps = JSON.parse(hero.dataset.steps), ranks = Number(hero.dataset.ranks), full = Number(hero.dataset.full), PACE = 900, TRAVEL = 540;
  const cards = [...hero.querySelectorAll(".rank")], layer = hero.querySelector(".on-the-way"), play = hero.querySelector(".play");
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const bar = (rank, chunk) => cards[rank].querySelectorAll(".bar")[chunk];
  const fill = (rank, chunk, count) => {
    const one = bar(rank, chunk), height = full * count / ranks;
    one.style.height = `${height}px`;
    one.style.y = `${Number(one.getAttribute("y")) + full - height}px`;
    one.classList.toggle("whole", count === ranks);
  };
  const centre = (rank, chunk) => {
    const at = cards[rank].transform.baseVal.consolidate().matrix, one = bar(rank, chunk);
    return [at.e + Number(one.getAttribute("x")) + Number(one.getAttribute("width")) / 2, at.f + Number(one.getAttribute("y")) + full / 2];
  };
  let at = 0, timer;
  const tell = () => { hero.querySelector(".at").textContent = hero.dataset.at.replace("#", at); };
  const start = () => {
    at = 0;
    for (let rank = 0; rank < ranks; rank++) for (let chunk = 0; chunk < ranks; chunk++) fill(rank, chunk, 1);
    tell();
  };
  const step = () => {
    if (at === steps.length) return start();
    for (const [source, to, chunk, count] of steps[at]) {
      if (still.matches) {
        fill(to, chunk, count);
        continue;
      }
      const dot = document.createElementNS("http://www.w3.org/2000/svg", "circle"), [a, b] = centre(source, chunk), [c, d] = centre(to, chunk);
      dot.setAttribute("r", 7);
      dot.style.fill = bar(source, chunk).getAttribute("fill");
      layer.append(dot);
      dot.animate([{ transform: `translate(${a}px, ${b}px)` }, { transform: `translate(${c}px, ${d}px)` }], { duration: TRAVEL, easing: "ease-in-out", fill: "both" });
      setTimeout(() => { dot.remove(); fill(to, chunk, count); }, TRAVEL);
    }
    at++;
    tell();
  };
  const run = (on) => {
    clearInterval(timer);
    timer = on ? setInterval(step, PACE) : undefined;
    play.textContent = on ? play.dataset.pause : play.dataset.play;
  };
  play.addEventListener("click", () => run(!timer));
  hero.querySelector(".step").addEventListener("click", () => { run(false); step(); });
  start();
  run(!still.matches);
}
