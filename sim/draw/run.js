"use strict";
// The run, decoded: times are whole ticks; run.tick is one of them in the replay's unit.
const run = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const say = (id, fields) => run.words[id].replace(/\{(\w+)\}/g, (_, name) => fields[name]); // html.py looks for these calls
const make = (tag, parent, attributes, text) => {
  const node = tag === "svg" || parent.namespaceURI.endsWith("svg") ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const key in attributes) node.setAttribute(key, attributes[key]);
  if (text !== undefined) node.textContent = text;
  return parent.appendChild(node);
};

// rows: [rank, stream, main, [label, gap, length, ...]] becomes arrays of starts, ends and labels.
run.boxes = 0;
run.whole = run.end || 1; // a run in which nothing happens has no length, but a view has
run.rows = run.rows.map(([rank, stream, main, code]) => {
  const count = code.length / 3, row = { rank, stream, main, labels: new Int32Array(count), starts: new Float64Array(count), ends: new Float64Array(count) };
  for (let i = 0, at = 0; i < count; i++) {
    row.labels[i] = code[3 * i];
    row.starts[i] = at + code[3 * i + 1];
    at = row.ends[i] = row.starts[i] + code[3 * i + 2];
  }
  run.boxes += count;
  return row;
});

// moves: chunk, source, to, start after the one before, length, reduces, holds; sorted by start.
{
  const code = run.moves, moves = [];
  for (let i = 0, at = 0; i < code.length; i += 7) {
    at += code[i + 3];
    moves.push({ chunk: code[i], source: code[i + 1], to: code[i + 2], start: at, end: at + code[i + 4], reduces: code[i + 5], holds: code[i + 6] });
  }
  run.moves = moves;
  run.departures = moves.map((move) => move.start);
  run.arrivals = [...moves].sort((a, b) => a.end - b.end);
  run.longest = moves.reduce((most, move) => Math.max(most, move.end - move.start), 0);
}
// curves: [name, unit, limit, mean, [time after the one before, ...], [value, ...]]
const curve = ([name, unit, limit, mean, gaps, values]) => {
  let at = 0;
  return { name, unit, limit, mean, values, times: gaps.map((gap) => (at += gap)) };
};
run.links = run.links.map(curve);
run.memory = run.memory.map(curve);

// The sends by their end, with the bytes until then; and all moments at which something begins or ends.
run.sends = [];
{
  const moments = new Set([0, run.end]);
  for (const row of run.rows) for (let i = 0; i < row.labels.length; i++) {
    moments.add(row.starts[i]).add(row.ends[i]);
    const label = run.labels[row.labels[i]];
    if (label[2] && run.styles[label[0]][0] === "send") run.sends.push([row.ends[i], label[2]]);
  }
  for (const move of run.moves) moments.add(move.start).add(move.end);
  run.moments = Float64Array.from(moments).sort();
  run.sends.sort((a, b) => a[0] - b[0]);
  run.sendEnds = run.sends.map((send) => send[0]);
  run.sent = 0;
  for (const send of run.sends) send[1] = run.sent += send[1];
}

// The index of the last of `times` that is not after `t`; -1 before the first.
const last = (times, t) => {
  let low = 0, high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] <= t) low = middle + 1; else high = middle;
  }
  return low - 1;
};
const digits = (x) => String(+x.toPrecision(4));
const counted = (number, unit) => (number === "1" && run.ones[unit]) || number + " " + unit; // 1 slot, 2 slots
const timeText = (t) => counted(digits(t * run.tick * run.scale[0]), run.scale[1]);
const bytesText = (n) => {
  for (const unit of ["B", "KiB", "MiB", "GiB"]) { if (n < 1024) return digits(n) + " " + unit; n /= 1024; }
  return digits(n) + " TiB";
};
const valueText = (value, unit, short = false) => (unit === "B" || unit === "bytes" ? bytesText(value) : short ? digits(value) : counted(digits(value), unit));
const boxAt = (row, t) => { const i = last(row.starts, t); return i >= 0 && t < row.ends[i] ? i : -1; };
