// The base layer: strips, time axis, lanes as heat, and the requests once there is room for them.

const RAMPS = {
  light: ["#f2f5f8", "#b7d4ea", "#5ba3cf", "#1f6cb0", "#08306b"],
  dark: ["#00224e", "#414d6b", "#7c7b78", "#bcae6c", "#fee838"], // cividis
};
const MOST_MARKS = 4000;
const heat = document.createElement("canvas");
const theme = () => document.documentElement.dataset.theme || "light";

function rampColour(share) {
  const stops = RAMPS[theme()], at = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
  const k = Math.min(stops.length - 2, Math.floor(at)), part = at - k;
  const channel = (hex, c) => parseInt(hex.slice(1 + 2 * c, 3 + 2 * c), 16);
  return [0, 1, 2].map((c) => Math.round(channel(stops[k], c) * (1 - part) + channel(stops[k + 1], c) * part));
}

/** One pixel per slice and lane; drawn stretched. */
function paintHeat() {
  heat.width = SLICES; heat.height = LANES;
  const pen = heat.getContext("2d"), image = pen.createImageData(SLICES, LANES);
  const ramp = Array.from({ length: 256 }, (_, k) => rampColour(k / 255));
  const down = [1, 3, 5].map((k) => parseInt(colours.down.slice(k, k + 2), 16));
  for (let lane = 0; lane < LANES; lane++) {
    for (let slice = 0; slice < SLICES; slice++) {
      const value = laneValue(view.measure, slice, lane), at = 4 * (lane * SLICES + slice);
      const rgb = isDown(slice, lane) ? down : Number.isNaN(value) ? null : ramp[Math.min(255, Math.round((255 * value) / view.measure.top))];
      if (rgb) { image.data.set(rgb, at); image.data[at + 3] = 255; }
    }
  }
  pen.putImageData(image, 0, 0);
}

function drawBase() {
  const pen = canvases[0].getContext("2d");
  pen.clearRect(0, 0, place.width, place.height);
  drawOutside(pen);
  drawStrips(pen);
  drawAxis(pen);
  pen.imageSmoothingEnabled = false;
  const sx = (view.from - head.start_s) / SLICE_S, sw = (view.to - view.from) / SLICE_S;
  pen.font = "12px system-ui, sans-serif"; pen.textBaseline = "middle"; pen.textAlign = "right";
  const every = Math.ceil(13 / Math.min(...place.heights));
  for (let i = 0; i < LANES; i++) {
    const top = place.tops[i], height = place.heights[i];
    if (i !== view.open) pen.drawImage(heat, sx, i, sw, 1, LEFT, top, place.plot, height - 1);
    pen.fillStyle = i === view.lane ? colours.ink : colours.pale;
    if (i % every === 0 || i === view.open) pen.fillText(head.lanes[i], LEFT - 6, top + height / 2);
  }
  drawMarks(pen);
  if (view.open >= 0) drawOpen(pen);
  pen.fillStyle = colours.line;
  if (LANES > head.targets) pen.fillRect(LEFT, place.tops[head.targets] - 1.5, place.plot, 1.5);
}

function drawStrips(pen) {
  STRIPS.forEach((strip, k) => {
    const top = k * (STRIP + STRIP_GAP), bottom = top + STRIP, room = STRIP - 17;
    pen.fillStyle = colours.line;
    pen.fillRect(LEFT, bottom, place.plot, 1);
    pen.fillStyle = colours[strip.colour];
    for (let w = 0; w < WINDOWS; w++) {
      const from = Math.max(LEFT, timeX(head.start_s + w * WINDOW_S)), to = Math.min(LEFT + place.plot, timeX(head.start_s + (w + 1) * WINDOW_S));
      const value = strip.values[w];
      if (to > from && value > 0) pen.fillRect(from, bottom - (room * value) / strip.top, Math.max(1, to - from - 0.5), (room * value) / strip.top);
    }
    pen.font = "13px system-ui, sans-serif"; pen.textBaseline = "top"; pen.textAlign = "left";
    pen.fillStyle = colours.ink;
    pen.fillText(strip.words, LEFT, top);
    pen.textAlign = "right"; pen.fillStyle = colours.pale; pen.font = "12px system-ui, sans-serif";
    pen.fillText(`full height ${strip.top >= 1000 ? whole(strip.top) : +strip.top.toPrecision(3)}`, LEFT + place.plot, top + 1);
  });
}

function drawAxis(pen) {
  const y = STRIPS.length * (STRIP + STRIP_GAP), rough = ((view.to - view.from) * 90) / place.plot;
  const power = 10 ** Math.floor(Math.log10(rough)), step = [1, 2, 5, 10].map((k) => k * power).find((s) => s >= rough);
  const digits = Math.max(0, -Math.floor(Math.log10(step)));
  pen.font = "12px system-ui, sans-serif"; pen.textBaseline = "middle"; pen.textAlign = "center";
  for (let k = Math.ceil(view.from / step); k * step <= view.to; k++) {
    const t = k * step, x = timeX(t);
    pen.fillStyle = colours.line; pen.fillRect(x, y + 17, 1, 6);
    const words = `${t.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits })} s`;
    pen.fillStyle = colours.pale; pen.fillText(words, Math.min(Math.max(x, LEFT + 12), LEFT + place.plot - 20), y + 8);
  }
}

/** Grey behind the strips where requests are not scored. */
function drawOutside(pen) {
  for (const [from, to] of [[head.start_s, head.warm_up_s], [head.scored_end_s, head.end_s]]) {
    const a = Math.max(LEFT, timeX(from)), b = Math.min(LEFT + place.plot, timeX(to));
    if (b > a) { pen.fillStyle = colours.track; pen.fillRect(a, 0, b - a, place.lanes - 2); }
  }
}

/** Arrivals on the lanes, when few enough are in sight. */
function drawMarks(pen) {
  const key = (stay) => stay.from;
  const sights = staysOf.map((stays) => [lowerBound(stays, view.from, key), lowerBound(stays, view.to, key)]);
  const crowded = sights.reduce((sum, [a, b]) => sum + b - a, 0) > MOST_MARKS;
  staysOf.forEach((stays, lane) => {
    if (lane === view.open) return;
    const y = laneMiddle(lane), size = Math.min(5, place.heights[lane] / 3);
    for (let k = sights[lane][0]; k < sights[lane][1] && !crowded; k++) {
      const { r, from } = stays[k];
      drawVerdict(pen, timeX(from), y, size, run.verdict[r]);
    }
  });
}

function drawVerdict(pen, x, y, size, verdict) {
  pen.beginPath();
  if (verdict === IN_TIME) {
    pen.arc(x, y, size * 0.45, 0, 7);
    pen.strokeStyle = colours.paper; pen.lineWidth = 1; pen.fillStyle = colours.hold;
    pen.fill(); pen.stroke();
    return;
  }
  const d = size * 0.85; // a cross stands for late, a plus for slow
  if (verdict === SLOW) { pen.moveTo(x - size, y); pen.lineTo(x + size, y); pen.moveTo(x, y - size); pen.lineTo(x, y + size); }
  else { pen.moveTo(x - d, y - d); pen.lineTo(x + d, y + d); pen.moveTo(x - d, y + d); pen.lineTo(x + d, y - d); }
  for (const [colour, width] of [[colours.paper, 4.5], [verdict === SLOW ? colours.purple : colours.red, 2.2]]) {
    pen.strokeStyle = colour; pen.lineWidth = width; pen.stroke();
  }
}

/** Rows of the open lane: a stay gets the first row that is free. */
function packRows(lane) {
  const free = [];
  for (const stay of staysOf[lane]) {
    let row = free.findIndex((until) => until <= stay.from);
    if (row < 0) row = free.push(0) - 1;
    free[row] = stay.to; stay.row = row;
  }
  return Math.max(1, free.length);
}

let openRows = 1;
const rowHeight = () => (OPEN_HEIGHT - 4) / openRows;

/** Height at which a request is drawn on a lane: its row if the lane is open. */
function requestY(r, lane) {
  const stay = lane === view.open && staysOf[lane].find((one) => one.r === r);
  return stay ? place.tops[lane] + 2 + (stay.row + 0.5) * rowHeight() : laneMiddle(lane);
}

function drawOpen(pen) {
  const top = place.tops[view.open], height = rowHeight(), decode = view.open >= head.targets;
  pen.fillStyle = colours.track; pen.fillRect(LEFT, top, place.plot, OPEN_HEIGHT - 2);
  for (const stay of staysOf[view.open]) {
    if (stay.to < view.from || stay.from > view.to) continue;
    const r = stay.r, y = top + 2 + stay.row * height, thick = Math.max(1, height - 1), at = run.arrival[r];
    const parts = decode ? [["green", stay.from, stay.to]] : [
      ["orange", stay.from, at + run.admitted[r]], ["blue", at + run.admitted[r], at + run.first[r]], ["green", at + run.first[r], stay.to],
    ];
    for (const [colour, from, to] of parts) {
      const a = Math.max(LEFT, timeX(from)), b = Math.min(LEFT + place.plot, timeX(Number.isNaN(to) ? stay.to : to));
      if (b > a) { pen.fillStyle = colours[colour]; pen.fillRect(a, y, Math.max(1, b - a), thick); }
    }
    const late = run.verdict[r] === LATE || run.verdict[r] === UNFINISHED;
    if (late && !decode && stay.from >= view.from) { pen.fillStyle = colours.red; pen.fillRect(timeX(stay.from) - 2, y, 3, thick); }
  }
}
