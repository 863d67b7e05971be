// What is shown: the stretch of time, the moment, the lane and request in focus; and where things are on the canvas.

const view = {
  from: head.start_s, to: head.end_s, now: head.start_s,
  measure: head.measures[0], lane: -1, open: -1, hover: -1, held: -1, playing: false, speed: 60,
};
const LEFT = 46, STRIP = 46, STRIP_GAP = 8, AXIS = 24, OPEN_HEIGHT = 210, SHORTEST_S = Math.max(SLICE_S / 4, SPAN_S * 1e-5);
const place = { width: 0, right: 0, plot: 0, lanes: 0, height: 0, tops: [], heights: [] };
const stage = document.getElementById("stage");
const canvases = ["base", "overlay"].map((id) => document.getElementById(id));
const STRIPS = [
  { name: "tps_within_slo", words: "TPS within SLO (tokens/s, by arrival)", colour: "green" },
  { name: "late", words: "first tokens late (requests, by arrival)", colour: "red" },
  { name: "imbalance", words: "imbalance (max/mean of prompt tokens in flight)", colour: "blue" },
];
for (const strip of STRIPS) {
  strip.values = run["strip_" + strip.name];
  strip.top = strip.values.reduce((top, value) => (value > top ? value : top), 0) || 1;
}

const colours = {};
function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["paper", "ink", "pale", "line", "track", "down", "hold", "blue", "sky", "green", "red", "orange", "purple", "grey"]) {
    colours[name] = style.getPropertyValue("--" + name).trim();
  }
}

const timeX = (t) => LEFT + ((t - view.from) / (view.to - view.from)) * place.plot;
const xTime = (x) => view.from + ((x - LEFT) / place.plot) * (view.to - view.from);
const laneAt = (y) => place.tops.findIndex((top, i) => y >= top && y < top + place.heights[i]);
const laneMiddle = (i) => place.tops[i] + place.heights[i] / 2;

/** Work out where everything goes, and size the canvases. */
function layOut() {
  place.width = stage.clientWidth;
  place.right = place.width > 560 ? 112 : 0;
  place.plot = Math.max(100, place.width - LEFT - place.right);
  place.lanes = STRIPS.length * (STRIP + STRIP_GAP) + AXIS;
  const around = stage.getBoundingClientRect().top + window.scrollY + document.getElementById("legend").offsetHeight + 30;
  const room = Math.max(300, window.innerHeight - around) - place.lanes - (view.open >= 0 ? OPEN_HEIGHT : 0);
  const each = Math.max(6, Math.min(34, Math.floor(room / LANES)));
  place.tops = []; place.heights = [];
  let y = place.lanes;
  for (let i = 0; i < LANES; i++) {
    place.tops.push(y);
    place.heights.push(i === view.open ? OPEN_HEIGHT : each);
    y += place.heights[i];
  }
  place.height = y + 4;
  stage.style.height = `${place.height}px`;
  const dense = window.devicePixelRatio || 1;
  for (const canvas of canvases) {
    canvas.width = Math.round(place.width * dense); canvas.height = Math.round(place.height * dense);
    canvas.style.width = `${place.width}px`; canvas.style.height = `${place.height}px`;
    canvas.getContext("2d").setTransform(dense, 0, 0, dense, 0, 0);
  }
}

/** Show [from, to), moved and cut so that it lies inside the run. */
function showTime(from, to) {
  const length = Math.min(SPAN_S, Math.max(SHORTEST_S, to - from));
  view.from = Math.min(Math.max(head.start_s, from), head.end_s - length);
  view.to = view.from + length;
}

/** Zoom by a factor (below 1: nearer) about a moment that stays where it is. */
function zoom(factor, about) {
  const share = (about - view.from) / (view.to - view.from);
  const length = Math.min(SPAN_S, Math.max(SHORTEST_S, (view.to - view.from) * factor));
  showTime(about - share * length, about + (1 - share) * length);
}

/** Bring the moment into sight. */
function follow() {
  const length = view.to - view.from;
  if (view.now < view.from || view.now > view.to - 0.02 * length) showTime(view.now - 0.1 * length, view.now + 0.9 * length);
}

/** The request in focus: the one under the mouse, or the one that is held. */
const focus = () => (view.hover >= 0 ? view.hover : view.held);
