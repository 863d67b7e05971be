// Controls, keys and the mouse; the only place that changes `view`.

const SPEEDS = [1, 5, 20, 60, 120, 300];
const by = (id) => document.getElementById(id);
let momentAt = -1, momentWords = "", drawn = false, stale = true;

/** Redraw in the next frame; `all` also the base layer. */
function refresh(all = true) {
  stale ||= all;
  if (drawn) return;
  drawn = true;
  requestAnimationFrame(() => {
    drawn = false;
    if (stale) drawBase();
    stale = false;
    drawOverlay();
    showCard();
    by("now").value = view.now;
    by("clock").textContent = `${view.now.toLocaleString("en-US", { minimumFractionDigits: 1, maximumFractionDigits: 1 })} s${view.now < head.warm_up_s ? " warm-up" : ""}`;
    by("sentence").textContent = momentWords || sentence();
  });
}

function setNow(t) {
  const before = [view.from, view.to];
  view.now = Math.min(head.end_s, Math.max(head.start_s, t));
  momentWords = "";
  if (view.to - view.from < SPAN_S) follow();
  refresh(before[0] !== view.from || before[1] !== view.to);
}

function setPlaying(on) {
  if (on && view.now >= head.end_s) view.now = head.start_s;
  if (on) view.held = view.hover = -1;
  view.playing = on;
  by("play").textContent = on ? "⏸ Pause" : "▶ Play";
  by("sentence").setAttribute("aria-live", on ? "off" : "polite");
  if (!on) return;
  let last = performance.now();
  const tick = (at) => {
    if (!view.playing) return;
    setNow(view.now + (view.speed * (at - last)) / 1000);
    last = at;
    if (view.now >= head.end_s) setPlaying(false); else requestAnimationFrame(tick);
  };
  requestAnimationFrame(tick);
}

function jump(k) {
  if (!head.moments.length) return;
  setPlaying(false);
  momentAt = k % head.moments.length;
  const moment = head.moments[momentAt], length = Math.min(SPAN_S, Math.max(SPAN_S / 8, 10 * SLICE_S));
  view.lane = moment.lane; view.held = view.hover = -1;
  showTime(moment.time_s - length / 2, moment.time_s + length / 2);
  setNow(moment.time_s);
  momentWords = `Worst ${moment.label}: ${moment.words}`;
  refresh();
}

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  by("theme").textContent = name === "dark" ? "Light" : "Dark";
  readColours(); paintHeat(); showLegend(); refresh();
}

function setMeasure(name) {
  view.measure = head.measures.find((measure) => measure.name === name);
  by("measure").value = name;
  paintHeat(); showLegend(); refresh();
}

function openLane(lane) {
  view.open = lane === view.open ? -1 : lane;
  if (view.open >= 0) openRows = packRows(view.open);
  layOut(); refresh();
}

/** Hold a request: the card stays, and the moment goes to its arrival. */
function hold(r) {
  if (r === undefined || r < 0) return;
  setPlaying(false);
  view.held = r; view.hover = -1;
  if (run.instance[r] >= 0) view.lane = run.instance[r];
  setNow(run.arrival[r]);
  refresh();
}

/** The request before (-1) or after (1) the held one on the chosen lane, or anywhere. */
function walk(step) {
  const stays = view.lane >= 0 ? staysOf[view.lane].map((stay) => stay.r) : null;
  const at = view.held >= 0 && stays ? stays.indexOf(view.held) : -1;
  if (!stays) return hold(view.held < 0 ? lowerBound(run.arrival, view.now, (t) => t) : Math.min(COUNT - 1, Math.max(0, view.held + step)));
  if (at >= 0) return hold(stays[Math.min(stays.length - 1, Math.max(0, at + step))]);
  const next = lowerBound(staysOf[view.lane], view.now, (stay) => stay.from);
  hold(stays[Math.max(0, Math.min(stays.length - 1, step > 0 ? next : next - 1))]);
}

function turn(step) {
  if (view.held < 0) return;
  const turns = turnsOf.get(run.session[view.held]);
  hold(turns[turns.indexOf(view.held) + step]);
}

/** Show all of the held session. */
function showSession() {
  if (view.held < 0) return;
  const turns = turnsOf.get(run.session[view.held]), from = run.arrival[turns[0]], to = leaves(turns.at(-1));
  showTime(from - 0.05 * (to - from), to + 0.05 * (to - from));
  refresh();
}

const KEYS = {
  " ": () => setPlaying(!view.playing), "+": () => { zoom(0.5, view.now); refresh(); }, "=": () => KEYS["+"](),
  "-": () => { zoom(2, view.now); refresh(); }, "0": () => { showTime(head.start_s, head.end_s); refresh(); },
  ArrowLeft: (e) => setNow(view.now - SLICE_S * (e.shiftKey ? 10 : 1)), ArrowRight: (e) => setNow(view.now + SLICE_S * (e.shiftKey ? 10 : 1)),
  ArrowUp: () => { view.lane = view.lane <= 0 ? LANES - 1 : view.lane - 1; refresh(); }, ArrowDown: () => { view.lane = (view.lane + 1) % LANES; refresh(); },
  Home: () => setNow(head.start_s), End: () => setNow(head.end_s), Enter: () => { if (view.lane >= 0) openLane(view.lane); },
  n: () => walk(1), p: () => walk(-1), "]": () => turn(1), "[": () => turn(-1), s: showSession, w: () => jump(momentAt + 1),
  m: () => setMeasure(head.measures[(head.measures.indexOf(view.measure) + 1) % head.measures.length].name),
  t: () => by("theme").click(), "?": () => by("help").click(), Escape: () => { view.held = view.hover = -1; refresh(); },
};
document.addEventListener("keydown", (e) => {
  const tag = e.target.tagName, action = KEYS[e.key.length === 1 ? e.key.toLowerCase() : e.key];
  if (!action || e.ctrlKey || e.metaKey || e.altKey || tag === "SELECT") return;
  if (tag === "BUTTON" && (e.key === " " || e.key === "Enter")) return; // the button's own
  e.preventDefault();
  action(e);
});

/** The request under a point of the stage, or -1. */
function requestAt(x, y) {
  const lane = laneAt(y), t = xTime(x);
  if (lane < 0 || x < LEFT || x > LEFT + place.plot) return -1;
  const stays = staysOf[lane];
  if (lane === view.open) {
    const row = Math.floor((y - place.tops[lane] - 2) / rowHeight());
    return stays.find((stay) => stay.row === row && t >= stay.from && t <= stay.to)?.r ?? -1;
  }
  const k = lowerBound(stays, t, (stay) => stay.from);
  const near = [stays[k - 1], stays[k]].filter(Boolean).sort((a, b) => Math.abs(a.from - t) - Math.abs(b.from - t))[0];
  return near && Math.abs(timeX(near.from) - x) <= 12 ? near.r : -1;
}

let pressed = null; // {x, from, moved} while a button is down
stage.addEventListener("pointerdown", (e) => { pressed = { x: e.offsetX, from: view.from, moved: false }; stage.setPointerCapture(e.pointerId); });
stage.addEventListener("pointermove", (e) => {
  const x = e.clientX - stage.getBoundingClientRect().left, y = e.clientY - stage.getBoundingClientRect().top;
  if (pressed && Math.abs(x - pressed.x) > 3) pressed.moved = true;
  if (pressed?.moved) {
    stage.classList.add("dragging");
    const from = pressed.from - ((x - pressed.x) / place.plot) * (view.to - view.from);
    showTime(from, from + view.to - view.from);
    refresh();
  } else if (!pressed && !view.playing) {
    const r = requestAt(x, y);
    if (r !== view.hover) { view.hover = r; refresh(false); }
  }
});
stage.addEventListener("pointerup", (e) => {
  const x = e.clientX - stage.getBoundingClientRect().left, y = e.clientY - stage.getBoundingClientRect().top;
  stage.classList.remove("dragging");
  const click = pressed && !pressed.moved;
  pressed = null;
  if (!click) return;
  const r = requestAt(x, y), lane = laneAt(y);
  if (lane >= 0) view.lane = lane;
  if (r >= 0) hold(r); else { view.held = -1; if (x >= LEFT && x <= LEFT + place.plot) setNow(xTime(x)); refresh(); }
});
stage.addEventListener("pointerleave", () => { if (view.hover >= 0) { view.hover = -1; refresh(false); } });
stage.addEventListener("dblclick", (e) => {
  const lane = laneAt(e.clientY - stage.getBoundingClientRect().top);
  if (lane >= 0) openLane(lane); else KEYS["0"]();
});
stage.addEventListener("wheel", (e) => {
  if (!e.ctrlKey && document.documentElement.scrollHeight > window.innerHeight + 4) return; // the page scrolls
  e.preventDefault();
  zoom(Math.exp(Math.sign(e.deltaY) * Math.min(0.4, Math.abs(e.deltaY) / 300)), xTime(e.clientX - stage.getBoundingClientRect().left));
  refresh();
}, { passive: false });

function showLegend() {
  const picture = (draw) => { const c = make("canvas", { width: 32, height: 32, style: "width:16px;height:16px;vertical-align:-3px;margin-right:3px" }); const pen = c.getContext("2d"); pen.scale(2, 2); draw(pen); return c; };
  const { words, unit, top, name } = view.measure, stops = RAMPS[theme()].join(",");
  const exact = name === "tokens" ? "" : head.view_lag_s > 0 ? `, as the router saw it ${head.view_lag_s} s late` : ", at decisions";
  const items = [make("span", {}, `Colour of a lane: ${words}${exact}, 0`, make("span", { class: "ramp", style: `background:linear-gradient(90deg,${stops})` }), `${short(top, unit)} or more`)];
  if (run.lane_alive.includes(0)) items.push(make("span", {}, key("down"), "down"));
  items.push(make("b", {}, "Arrivals:"));
  for (const [verdict, text] of [[IN_TIME, "in time"], [LATE, "first token late"], [SLOW, "output too slow"]]) items.push(make("span", {}, picture((pen) => drawVerdict(pen, 8, 8, 6, verdict)), text));
  const used = new Set(run.reason);
  items.push(make("b", {}, "Decisions:"));
  for (const reason of head.reasons) if (used.has(REASONS[reason])) items.push(make("span", {}, picture((pen) => drawMark(pen, 8, 8, REASONS[reason], 5)), reason === "NONE" ? "no reason given" : reason.replace("_", " ").toLowerCase()));
  items.push(make("b", {}, "Open instance:"), make("span", {}, key("orange"), "queue", key("blue"), "prefill", key("green"), "decode"), make("span", {}, "Grey above: outside the scored window. Dotted: the worst moments."));
  by("legend").replaceChildren(...items);
}

by("title").textContent = head.title;
const parameters = Object.entries(head.parameters).map(([name, value]) => `${name} ${value}`).join(", ");
by("subtitle").textContent = head.subtitle + (parameters ? ` · ${parameters}` : "");
for (const [name, value, unit, definition] of head.scores) by("scores").append(make("div", { title: definition }, make("dt", {}, name), make("dd", {}, value, make("small", {}, unit ? ` ${unit}` : ""))));
for (const speed of SPEEDS) by("speed").append(make("option", { value: speed }, `${speed} ×`));
for (const measure of head.measures) by("measure").append(make("option", { value: measure.name }, measure.words));
head.moments.forEach((moment, k) => { const button = make("button", { title: `${moment.words} (W)` }, moment.label); button.onclick = () => jump(k); by("moments").append(button); });
Object.assign(by("now"), { min: head.start_s, max: head.end_s, step: SLICE_S / 10 });
by("speed").value = view.speed;
by("play").onclick = () => setPlaying(!view.playing);
by("speed").onchange = (e) => { view.speed = Number(e.target.value); };
by("now").oninput = (e) => { setPlaying(false); setNow(Number(e.target.value)); };
by("measure").onchange = (e) => setMeasure(e.target.value);
for (const [id, k] of [["in", "+"], ["out", "-"], ["all", "0"]]) by(id).onclick = KEYS[k];
by("theme").onclick = () => setTheme(theme() === "dark" ? "light" : "dark");
by("help").onclick = () => { by("keys").hidden = !by("keys").hidden; by("help").setAttribute("aria-expanded", String(!by("keys").hidden)); };
by("card").onclick = (e) => { const row = e.target.closest("[data-row]"); if (row) hold(Number(row.dataset.row)); };
new ResizeObserver(() => { if (stage.clientWidth !== place.width) { layOut(); refresh(); } }).observe(stage);
window.addEventListener("resize", () => { layOut(); refresh(); });
setTheme(window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
layOut();
document.body.dataset.ready = "true";
