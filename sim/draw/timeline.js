// The timeline: boxes, links and memory on one axis. `base` is drawn anew for another view, `over` for another moment.
const view = { from: 0, to: run.whole };
const chart = { left: 0, right: 96, width: 0, height: 0, lanes: [] };
const FONT = getComputedStyle(document.body).fontFamily;
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const dark = () => document.documentElement.dataset.theme === "dark";
const x = (t) => chart.left + (t - view.from) / (view.to - view.from) * (chart.width - chart.left - chart.right);
const timeAt = (px) => Math.min(Math.max(view.from + (px - chart.left) / (chart.width - chart.left - chart.right) * (view.to - view.from), 0), run.end);

function arrange() { // where each lane is: boxes of a row, a link, or a rank's memory
  const many = run.rows.filter((row) => row.main).length, streams = new Set(run.rows.map((row) => row.stream)).size > 1;
  const allMain = many === run.rows.length;
  const tall = Math.max(11, Math.min(streams && allMain ? 17 : 30, 560 / many));
  let y = 24, before = null;
  chart.lanes = [];
  for (const row of run.rows) {
    const height = row.main ? tall : Math.min(9, tall * 0.5);
    if (before && before.rank !== row.rank) y += streams ? 6 : tall < 16 ? 1 : 3;
    const stream = streams && (!before || before.rank !== row.rank || before.stream !== row.stream) ? row.stream : "";
    chart.lanes.push({ kind: "row", row, y, height, name: before && before.rank === row.rank ? "" : run.names[row.rank], stream });
    y += height + 1;
    before = row;
  }
  for (const [kind, curves, most] of [["links", run.links, 15], ["memory", run.memory, 24]]) {
    if (!curves.length) continue;
    y += 14;
    chart.lanes.push({ kind: "heading", name: kind === "links" ? say("replay.links") : say("replay.memory", { value: valueText(run.full, curves[0].unit) }), y, height: 18 });
    y += 22;
    const height = Math.max(9, Math.min(most, 320 / curves.length));
    for (const curve of curves) { chart.lanes.push({ kind, curve, y, height, name: curve.name }); y += height + 2; }
  }
  chart.height = y + 24;
  const context = $("base").getContext("2d");
  context.font = "12px " + FONT;
  const widest = (texts) => Math.max(0, ...texts.map((text) => context.measureText(text || "").width));
  const [rows, curves] = [true, false].map((row) => Math.min(180, widest(chart.lanes.filter((lane) => lane.kind !== "heading" && (lane.kind === "row") === row).map((lane) => lane.name))));
  chart.left = Math.ceil(Math.max(rows + (streams ? widest(chart.lanes.map((lane) => lane.stream)) + 12 : 0), curves) + 10);
  chart.width = $("chart").clientWidth;
  chart.right = chart.width < 480 ? 60 : 96; // a phone has room for the number alone; its unit stands in the heading
  const inset = $("chart").getBoundingClientRect().left - 20; // the slider's thumb is above the cursor, as far as it is half its own width
  $("slide").style.padding = chart.width < 480 ? "" : "0 " + (inset + chart.right - 8) + "px 0 " + (inset + chart.left - 8) + "px"; // on a phone that would be too short for a finger
  for (const id of ["base", "over"]) {
    const canvas = $(id), ratio = window.devicePixelRatio || 1;
    canvas.width = chart.width * ratio; canvas.height = chart.height * ratio;
    canvas.style.height = chart.height + "px";
    canvas.getContext("2d").setTransform(ratio, 0, 0, ratio, 0, 0);
  }
}

const patterns = {};
function pattern(context, kind) {
  if (patterns[kind]) return patterns[kind];
  const tile = document.createElement("canvas"), pen = tile.getContext("2d");
  tile.width = tile.height = 6;
  pen.strokeStyle = pen.fillStyle = kind === "dots" ? "rgba(255,255,255,.5)" : "rgba(255,255,255,.4)";
  if (kind === "dots") { pen.beginPath(); pen.arc(2, 2, 1, 0, 7); pen.fill(); }
  else { pen.lineWidth = 1.4; for (const d of [-6, 0, 6]) { pen.beginPath(); pen.moveTo(d - 1, 7); pen.lineTo(d + 7, -1); pen.stroke(); } }
  return (patterns[kind] = context.createPattern(tile, "repeat"));
}

function drawBox(context, style, left, top, width, height) {
  const shade = dark() ? 3 : 1;
  context.fillStyle = style[shade];
  context.fillRect(left, top, width, height);
  if (width < 3) return;
  if (style[5] === "bar") { context.fillStyle = "rgba(0,0,0,.38)"; context.fillRect(left, top + height - 2.5, width, 2.5); }
  else if (style[5]) { context.fillStyle = pattern(context, style[5]); context.fillRect(left, top, width, height); }
}

const widths = new Map();
function fits(context, text, size, room) {
  const key = text + size;
  if (!widths.has(key)) { context.font = size + "px " + FONT; widths.set(key, context.measureText(text).width); }
  return widths.get(key) <= room;
}
function write(context, label, style, left, top, width, height) { // the longest text that fits, else letter over number
  context.fillStyle = style[dark() ? 4 : 2];
  const texts = label.slice(4), room = width - 2, middle = top + height / 2 + 0.5, size = Math.min(11, Math.floor(height) - 2);
  const text = texts.find((text) => fits(context, text, size, room));
  const short = texts[texts.length - 1], letter = short[0], number = short.slice(1);
  const put = (text, size, y) => { context.font = size + "px " + FONT; context.fillText(text, left + width / 2, y); };
  if (text) put(text, size, middle);
  else if (number && style[0].length === 1 && height >= 20 && fits(context, number, 7, width)) { put(letter, 8.5, middle - 5); put(number, fits(context, number, 8, width) ? 8 : 7, middle + 4.5); }
  else if (style[0].length === 1 && fits(context, letter, Math.min(8.5, size), width)) put(letter, Math.min(8.5, size), middle);
}

function drawBase() {
  const context = $("base").getContext("2d"), ink = css("--ink"), muted = css("--muted"), idle = css("--idle"), line = css("--line");
  const right = chart.width - chart.right, plot = right - chart.left;
  context.clearRect(0, 0, chart.width, chart.height);
  context.textBaseline = "middle";
  drawAxis(context, muted, line);
  for (const lane of chart.lanes) {
    context.textAlign = "left";
    context.fillStyle = ink;
    const middle = lane.y + lane.height / 2 + 0.5;
    if (lane.kind === "heading") {
      context.font = "600 12px " + FONT;
      context.clearRect(0, lane.y, context.measureText(lane.name).width + 8, lane.height);
      context.fillText(lane.name, 0, middle, chart.width); // narrower letters where it is too long
      continue;
    }
    context.font = Math.min(12, lane.height + 1) + "px " + FONT;
    context.fillText(lane.name, 0, middle);
    if (lane.stream) { context.fillStyle = muted; context.textAlign = "right"; context.font = Math.min(11, lane.height + 1) + "px " + FONT; context.fillText(lane.stream, chart.left - 8, middle); }
    context.fillStyle = idle;
    context.fillRect(chart.left, lane.y, plot, lane.height);
    context.save();
    context.beginPath(); context.rect(chart.left, lane.y, plot, lane.height); context.clip();
    context.textAlign = "center";
    if (lane.kind === "row") drawRow(context, lane);
    else drawCurve(context, lane);
    context.restore();
  }
}

function drawAxis(context, muted, line) {
  const factor = run.tick * run.scale[0], span = (view.to - view.from) * factor;
  const rough = span / Math.max(2, (chart.width - chart.left - chart.right) / 90), power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((times) => times * power).find((size) => size >= rough * (1 - 1e-9));
  context.font = "11px " + FONT; context.textAlign = "center"; context.lineWidth = 1;
  for (let i = Math.ceil(view.from * factor / step - 1e-9); i * step <= Math.min(view.to, run.end) * factor * (1 + 1e-9); i++) {
    const at = Math.round(x(i * step / factor)) + 0.5;
    context.strokeStyle = line; context.beginPath(); context.moveTo(at, 18); context.lineTo(at, chart.height - 20); context.stroke();
    context.fillStyle = muted;
    for (const y of [9, chart.height - 9]) context.fillText(String(+(i * step).toPrecision(6)), at, y);
  }
  context.textAlign = "left";
  for (const y of [9, chart.height - 9]) context.fillText(run.scale[1], chart.width - chart.right + 12, y);
}

function drawRow(context, { row, y, height }) {
  let covered = -1; // boxes of less than a pixel on one another would only cost time
  for (let i = Math.max(0, last(row.starts, view.from)); i < row.starts.length && row.starts[i] < view.to; i++) {
    const left = x(row.starts[i]), right = x(row.ends[i]), width = Math.max(right - left - (right - left > 4 ? 1 : 0), 0.7);
    if (right < covered) continue;
    if (width < 1) covered = left + 0.7;
    const label = run.labels[row.labels[i]], style = run.styles[label[0]];
    drawBox(context, style, left, y, width, height);
    if (row.main && width > 5) write(context, label, style, left, y, width, height);
  }
}

function drawCurve(context, { kind, curve, y, height }) {
  const bottom = y + height, accent = css("--accent");
  const limit = kind === "links" ? curve.limit || Math.max(...curve.values) || 1 : run.full;
  context.beginPath(); context.moveTo(x(0), bottom);
  for (let i = 0; i < curve.times.length; i++) {
    const left = x(curve.times[i]), right = x(i + 1 < curve.times.length ? curve.times[i + 1] : run.end), share = Math.min(1, curve.values[i] / limit);
    if (kind === "memory") { context.lineTo(left, bottom - share * height); context.lineTo(right, bottom - share * height); }
    else if (share > 0) { context.fillStyle = heat(share); context.fillRect(left, y, right - left, height); }
  }
  if (kind === "links") return;
  context.lineTo(x(run.end), bottom);
  context.globalAlpha = 0.28; context.fillStyle = accent; context.fill();
  context.globalAlpha = 1; context.strokeStyle = accent; context.lineWidth = 1.2; context.stroke();
  if (curve.limit) {
    const level = bottom - curve.limit / run.full * height + 0.5;
    context.strokeStyle = css("--active"); context.setLineDash([4, 3]); context.beginPath(); context.moveTo(x(0), level); context.lineTo(x(run.end), level); context.stroke(); context.setLineDash([]);
  }
}
function heat(share) {
  const [low, high] = dark() ? [[58, 44, 28], [255, 176, 84]] : [[255, 243, 214], [154, 61, 0]];
  return "rgb(" + low.map((from, i) => Math.round(from + (high[i] - from) * share)).join() + ")";
}

function drawOver(t) {
  const context = $("over").getContext("2d"), right = chart.width - chart.right, active = css("--active");
  context.clearRect(0, 0, chart.width, chart.height);
  if (t > 0 && t < run.end) { // what is still to come is pale
    context.globalAlpha = 0.4; context.fillStyle = css("--panel");
    for (const lane of chart.lanes) {
      if (lane.kind === "heading") continue;
      const i = lane.kind === "row" ? boxAt(lane.row, t) : -1, at = Math.max(chart.left, x(i < 0 ? t : lane.row.ends[i]));
      if (at < right) context.fillRect(at, lane.y, right - at, lane.height);
    }
    context.globalAlpha = 1;
  }
  context.textBaseline = "middle"; context.fillStyle = css("--ink"); context.strokeStyle = active;
  for (const lane of chart.lanes) {
    const middle = lane.y + lane.height / 2 + 0.5;
    context.font = Math.min(11, lane.height + 1) + "px " + FONT;
    if (lane.kind === "row") {
      const i = boxAt(lane.row, t);
      if (i < 0) continue;
      const from = Math.max(chart.left, x(lane.row.starts[i])), to = Math.min(right, x(lane.row.ends[i]));
      context.lineWidth = 2;
      if (to - from > 3) context.strokeRect(from + 0.5, lane.y + 1, to - from - 2, lane.height - 2);
      if (lane.row.main) context.fillText(run.labels[lane.row.labels[i]][1], right + 12, middle, chart.right - 12);
    } else if (lane.kind !== "heading") {
      const i = last(lane.curve.times, t), value = i < 0 ? 0 : lane.curve.values[i], limit = lane.curve.limit;
      const text = lane.kind === "links" && limit ? digits(value) + " (" + Math.round(100 * value / limit) + "%)" : valueText(value, lane.curve.unit, chart.right < 96);
      context.fillText(text, right + 12, middle, chart.right - 12);
    }
  }
  if (t < view.from || t > view.to) return;
  const at = Math.round(x(t)) + 0.5;
  context.strokeStyle = context.fillStyle = active; context.lineWidth = 1.5;
  context.beginPath(); context.moveTo(at, 18);
  for (const lane of chart.lanes) if (lane.kind === "heading") { context.lineTo(at, lane.y - 2); context.moveTo(at, lane.y + lane.height + 2); }
  context.lineTo(at, chart.height - 20); context.stroke();
  context.beginPath(); context.moveTo(at - 5, 16); context.lineTo(at + 5, 16); context.lineTo(at, 23); context.fill();
}

function tipAt(px, py) {
  const lane = chart.lanes.find((lane) => lane.kind !== "heading" && py >= lane.y && py < lane.y + lane.height + 1);
  if (!lane || px < chart.left || px > chart.width - chart.right) return "";
  const t = timeAt(px);
  if (lane.kind === "row") {
    const { row } = lane, i = boxAt(row, t), rank = run.names[row.rank];
    if (i < 0) return say("replay.idle", { rank, time: timeText(t) });
    const label = run.labels[row.labels[i]], style = run.styles[label[0]];
    const [start, end, length] = [row.starts[i], row.ends[i], row.ends[i] - row.starts[i]].map(timeText);
    const what = say("replay.box", { rank, stream: row.stream, name: label[1], kind: style[6] });
    const cargo = [label[3], label[2] ? bytesText(label[2]) : ""].filter(Boolean).join(say("comma"));
    return [what, say("box.when", { start, end, length }), cargo].filter(Boolean).join("\n");
  }
  const { curve } = lane, i = last(curve.times, t), value = i < 0 ? 0 : curve.values[i];
  const shown = valueText(value, curve.unit), share = Math.round(100 * value / curve.limit) + "%";
  const part = curve.limit ? say("replay.share", { value: shown, limit: valueText(curve.limit, curve.unit), share }) : shown;
  const average = lane.kind === "links" ? say("replay.average", { value: valueText(curve.mean, curve.unit) }) : "";
  return [say("replay.curve", { name: curve.name, time: timeText(t) }), part, average].filter(Boolean).join("\n");
}

function drawLegend() {
  const list = $("legend"), seen = new Map();
  list.textContent = "";
  for (const style of run.styles) if (!seen.has(style[0])) seen.set(style[0], style);
  for (const [words, style] of [...[...seen.values()].map((style) => [(style[0].length === 1 ? style[0] + " " : "") + style[6], style]), [say("legend.idle"), null]]) {
    const canvas = make("canvas", make("li", list), { width: 44, height: 28, "aria-hidden": "true" }), context = canvas.getContext("2d");
    context.scale(2, 2);
    if (style) drawBox(context, style, 0, 0, 22, 14); else { context.fillStyle = css("--idle"); context.fillRect(0, 0, 22, 14); context.strokeStyle = css("--line"); context.strokeRect(0.5, 0.5, 21, 13); }
    canvas.parentNode.append(words);
  }
  if (run.shades > 1) make("li", list, {}, say("legend.chunks", { last: run.shades - 1 }));
}
