// Time, and everything that moves it.
const state = { t: 0, playing: false, before: 0 };
const root = document.documentElement;

function go(t, keep) { // keep: write the moment into the address
  state.t = Math.min(Math.max(t, 0), run.end);
  if (state.t < view.from || state.t > view.to) { const half = (view.to - view.from) / 2; look(state.t - half, state.t + half); }
  $("slider").value = state.t;
  $("slider").setAttribute("aria-valuetext", timeText(state.t));
  $("clock").textContent = say("replay.clock", { time: timeText(state.t), end: timeText(run.end) });
  drawOver(state.t);
  drawRing(state.t);
  root.dataset.t = state.t * run.tick;
  root.dataset.done = ring.next;
  if (!keep) return;
  tell();
  try { history.replaceState(null, "", "#t=" + +(state.t * run.tick).toPrecision(9)); } catch (refused) { /* some viewers have no history */ }
}
function tell() { // for those who listen
  const now = run.rows.filter((row) => row.main && boxAt(row, state.t) >= 0).slice(0, 16).map((row) => run.names[row.rank] + " " + run.labels[row.labels[boxAt(row, state.t)]][1]);
  $("now").textContent = say("replay.now", { time: timeText(state.t), running: now.join(say("comma")) || say("replay.nothing") });
}
function look(from, to) {
  const span = Math.min(to - from, run.whole);
  view.from = Math.min(Math.max(from, 0), run.whole - span);
  view.to = view.from + span;
  drawBase();
}
function zoom(factor) {
  const span = Math.max((view.to - view.from) * factor, run.whole / 2000);
  const share = (state.t - view.from) / (view.to - view.from);
  look(state.t - share * span, state.t + (1 - share) * span);
  drawOver(state.t);
}
function play(on) {
  state.playing = on;
  document.body.classList.toggle("playing", on);
  $("play").setAttribute("aria-label", on ? say("replay.pause") : say("replay.play"));
  if (!on) return go(state.t, true);
  if (state.t >= run.end) state.t = 0;
  state.before = performance.now();
  requestAnimationFrame(frame);
}
function frame(now) {
  if (!state.playing) return;
  const seconds = Math.max(0, now - state.before) / 1000; // at speed 1 a run takes 20 seconds
  state.before = now;
  go(state.t + seconds / 20 * run.end * $("speed").value);
  if (state.t >= run.end) play(false); else requestAnimationFrame(frame);
}
function pauseAt(t) { if (state.playing) play(false); go(t, true); }
const forth = () => { const i = last(run.moments, state.t); pauseAt(run.moments[Math.min(i + 1, run.moments.length - 1)]); };
const back = () => { let i = last(run.moments, state.t); if (run.moments[i] >= state.t) i--; pauseAt(run.moments[Math.max(i, 0)]); };
const home = () => pauseAt(0), end = () => pauseAt(run.end), toggle = () => play(!state.playing), fit = () => { look(0, run.whole); drawOver(state.t); };
function theme(name) { root.dataset.theme = name; drawBase(); drawLegend(); drawOver(state.t); }
const flip = () => theme(dark() ? "light" : "dark");
function fromAddress() {
  const match = /[#&]t=([^&]+)/.exec(location.hash), t = match ? parseFloat(match[1]) / run.tick : 0;
  // A moment that was rounded in the address is meant to be the event that is next to it.
  const i = last(run.moments, t), near = [run.moments[i], run.moments[i + 1]].find((moment) => Math.abs(moment - t) <= run.end * 1e-8);
  go(near === undefined ? t || 0 : near);
}

const actions = { home, back, play: toggle, step: forth, end, out: () => zoom(1.6), in: () => zoom(1 / 1.6), fit, theme: flip };
for (const id in actions) $(id).onclick = actions[id];
const keys = { " ": toggle, ArrowLeft: back, ArrowRight: forth, Home: home, End: end, "+": actions.in, "=": actions.in, "-": actions.out, 0: fit, d: flip };
document.addEventListener("keydown", (event) => {
  const action = keys[event.key], target = event.target.tagName;
  if (!action || event.ctrlKey || event.metaKey || event.altKey || target === "SELECT" || (event.key === " " && target === "BUTTON")) return;
  event.preventDefault();
  action();
});
$("slider").max = run.end;
$("slider").oninput = (event) => pauseAt(+event.target.value);
const over = $("over"), tip = $("tip");
let dragging = false;
const place = (event) => { const box = over.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
over.onpointerdown = (event) => { dragging = true; over.setPointerCapture(event.pointerId); pauseAt(timeAt(place(event)[0])); };
over.onpointerup = () => { dragging = false; };
over.onpointerleave = () => { tip.hidden = true; };
over.onpointermove = (event) => {
  const [px, py] = place(event);
  if (dragging) go(timeAt(px), true);
  tip.textContent = tipAt(px, py);
  tip.hidden = !tip.textContent;
  tip.style.left = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8) + "px";
  tip.style.top = Math.min(event.clientY + 16, window.innerHeight - tip.offsetHeight - 8) + "px";
};
over.addEventListener("wheel", (event) => { if (event.ctrlKey) { event.preventDefault(); zoom(event.deltaY > 0 ? 1.25 : 0.8); } }, { passive: false });
window.addEventListener("resize", () => { arrange(); drawBase(); drawOver(state.t); });
window.addEventListener("hashchange", fromAddress);
const wish = matchMedia("(prefers-color-scheme: dark)");
wish.addEventListener("change", () => theme(wish.matches ? "dark" : "light"));

window.__state = () => ({ t: state.t * run.tick, playing: state.playing, boxes: run.boxes, done: ring.next, grid: ring.held.map((row) => [...row]) });
root.dataset.theme = wish.matches ? "dark" : "light";
buildRing();
arrange();
drawBase();
drawLegend();
fromAddress();
tell();
$("base").setAttribute("aria-label", say("replay.timeline_label", {
  boxes: run.boxes, rows: run.rows.length, time: timeText(run.end),
  links: run.links.length ? say("replay.timeline_links", { count: run.links.length }) : "",
  memory: run.memory.length ? say("replay.timeline_memory", { count: run.memory.length }) : "",
}));
root.dataset.boxes = run.boxes;
window.__ready = true;
root.dataset.ready = "1";
