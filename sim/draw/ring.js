// The ring of ranks with the chunks under way, and the grid of what every rank holds.
const ring = { nodes: [], dots: [], cells: [], held: [], next: 0, complete: 0, shown: new Map() };

function buildRing() {
  if (!run.moves.length) { $("stage").hidden = true; return; }
  const ranks = run.starts.length, radius = 168, size = Math.max(3, Math.min(20, 2 * Math.PI * radius / ranks * (ranks > 12 ? 0.3 : 0.36))), svg = $("ring");
  ring.size = size;
  ring.aside = ranks > 12 ? size * 1.8 : 0; // where ranks are close, chunks pass beside them
  ring.nodes = run.starts.map((_, rank) => { const angle = 2 * Math.PI * rank / ranks - Math.PI / 2; return [210 + radius * Math.cos(angle), 210 + radius * Math.sin(angle)]; });
  const pairs = new Set(run.moves.map((move) => move.source + "," + move.to));
  if (pairs.size <= 2000) for (const pair of pairs) { const [a, b] = pair.split(",").map((rank) => ring.nodes[rank]); make("path", svg, { class: "edge", d: "M" + a + "Q" + bend(a, b) + " " + b }); }
  ring.nodes.forEach(([cx, cy], rank) => {
    const node = make("g", svg, { class: "node" });
    make("circle", node, { cx, cy, r: size });
    if (size > 4) make("text", node, { x: cx, y: cy, "font-size": Math.min(14, size * 0.95) }, rank);
    make("title", node, {}, say("rank", { rank }));
  });
  ring.layer = make("g", svg, {});
  buildGrid(ranks);
  rewind();
}
// Messages in opposite directions go around one another.
const bend = ([ax, ay], [bx, by]) => [(ax + bx) / 2 + (by - ay) * 0.12, (ay + by) / 2 - (bx - ax) * 0.12];

function buildGrid(ranks) {
  if (ranks * run.chunks > 20000) { $("filled").textContent = say("replay.grid_large", { ranks, chunks: run.chunks }); return; }
  const cell = Math.max(13, Math.min(44, Math.floor(620 / run.chunks), Math.floor(380 / ranks))), table = $("grid");
  const wide = Math.max(cell, Math.min(52, Math.floor(620 / run.chunks)));
  const head = make("tr", make("thead", table));
  make("th", head, { scope: "col" }, say("grid.chunk"));
  for (let chunk = 0; chunk < run.chunks; chunk++) make("th", head, { scope: "col", style: "font-size:" + Math.min(11, cell * 0.6) + "px" }, chunk);
  const body = make("tbody", table);
  ring.cells = run.starts.map((_, rank) => {
    const line = make("tr", body);
    make("th", line, { scope: "row" }, run.names[rank] || say("rank", { rank }));
    return Array.from({ length: run.chunks }, () => make("td", line, { style: "width:" + wide + "px;min-width:" + wide + "px;height:" + cell + "px;font-size:" + Math.min(14, cell * 0.6) + "px" }));
  });
}

function rewind() {
  ring.held = run.starts.map((row) => [...row]);
  ring.next = 0;
  ring.held.forEach((row, rank) => row.forEach((_, chunk) => paintCell(rank, chunk)));
}

function paintCell(rank, chunk) {
  if (!ring.cells.length) return;
  const cell = ring.cells[rank][chunk], count = ring.held[rank][chunk], most = run.complete[chunk], done = count > 0 && count === most;
  const [colour, ink] = run.colours[chunk], share = most ? Math.round(100 * count / most) : 0;
  cell.className = done ? "done" : "";
  cell.textContent = count || "\u00b7";
  cell.style.background = done ? colour : count ? "linear-gradient(to top, " + colour + "66 " + share + "%, var(--idle) " + share + "%)" : "";
  cell.style.color = done ? ink : "";
}

function drawRing(t) {
  if (!run.moves.length) return;
  if (ring.next && run.arrivals[ring.next - 1].end > t) rewind();
  for (; ring.next < run.arrivals.length && run.arrivals[ring.next].end <= t; ring.next++) {
    const move = run.arrivals[ring.next];
    ring.held[move.to][move.chunk] = move.holds;
    paintCell(move.to, move.chunk);
  }
  const now = [], first = last(run.departures, t - run.longest - 1);
  for (let i = Math.max(0, first); i < run.moves.length && run.moves[i].start <= t; i++) if (run.moves[i].end > t) now.push(run.moves[i]);
  drawDots(now, t);
  for (const cell of document.querySelectorAll("#grid .coming")) cell.classList.remove("coming");
  if (ring.cells.length) for (const move of now) ring.cells[move.to][move.chunk].classList.add("coming");
  let complete = 0;
  ring.held.forEach((row) => row.forEach((count, chunk) => { complete += count > 0 && count === run.complete[chunk]; }));
  const sent = last(run.sendEnds, t);
  const moved = say("replay.moved", { done: ring.next, all: run.moves.length, now: now.length });
  $("moved").textContent = run.sent ? say("replay.sent", { moved, sent: bytesText(sent < 0 ? 0 : run.sends[sent][1]), all: bytesText(run.sent) }) : moved;
  if (ring.cells.length) $("filled").textContent = say("replay.filled", { done: complete, all: ring.held.length * run.chunks });
}

function drawDots(now, t) {
  while (ring.dots.length < now.length) {
    const dot = make("g", ring.layer, { class: "chunk" });
    ring.dots.push([dot, make("circle", dot, {}), make("text", dot, {})]);
  }
  const size = Math.max(5, Math.min(13, ring.size * 0.75)), along = new Map();
  ring.dots.forEach(([dot, circle, text], i) => {
    dot.setAttribute("visibility", i < now.length ? "visible" : "hidden");
    if (i >= now.length) return;
    const move = now[i], key = move.source + "," + move.to + "," + move.start, place = along.get(key) || 0;
    along.set(key, place + 1); // chunks of one message follow one another
    const a = ring.nodes[move.source], b = ring.nodes[move.to], c = bend(a, b);
    const length = Math.hypot(b[0] - a[0], b[1] - a[1]) || 1, aside = [(b[1] - a[1]) / length, (a[0] - b[0]) / length];
    const edge = ring.aside ? 0 : Math.min(0.4, (ring.size + size) / length); // beside the ranks, not on them
    const done = Math.max(0, (t - move.start) / (move.end - move.start || 1) - place * 1.9 * size / length);
    const share = edge + (1 - 2 * edge) * done, rest = 1 - share;
    const [cx, cy] = [0, 1].map((k) => rest * rest * a[k] + 2 * rest * share * c[k] + share * share * b[k] + ring.aside * aside[k]);
    const [colour, ink] = run.colours[move.chunk];
    circle.setAttribute("cx", cx); circle.setAttribute("cy", cy); circle.setAttribute("r", size); circle.setAttribute("fill", colour);
    text.setAttribute("x", cx); text.setAttribute("y", cy); text.setAttribute("fill", ink); text.setAttribute("font-size", size * 0.95);
    text.textContent = move.chunk;
    dot.dataset.chunk = move.chunk; dot.dataset.to = move.to;
  });
}
