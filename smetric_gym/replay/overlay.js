// The upper layer: the moment, what every lane holds then, recent decisions, and the path of a session.

const MARKS = { FIRST_TURN: ["square", "ink"], STICK: ["circle", "blue"], OVERLOAD: ["triangle", "red"], EVICTED: ["diamond", "purple"], SCORE: ["circle", "sky"], NONE: ["circle", "grey"] };
const TRAIL = 1 / 60; // share of the shown time in which a decision stays visible behind the moment

function drawOverlay() {
  const pen = canvases[1].getContext("2d");
  pen.clearRect(0, 0, place.width, place.height);
  drawMoments(pen);
  drawNow(pen);
  pen.save();
  pen.beginPath(); pen.rect(LEFT - 8, place.lanes - 8, place.plot + 16, place.height); pen.clip();
  const r = focus();
  if (r >= 0) drawPath(pen, r); else drawRecent(pen);
  pen.restore();
}

function drawMoments(pen) {
  for (const moment of head.moments) {
    const x = timeX(moment.time_s);
    if (x < LEFT || x > LEFT + place.plot) continue;
    pen.strokeStyle = colours.ink; pen.setLineDash([2, 4]); pen.lineWidth = 1;
    pen.beginPath(); pen.moveTo(x, 0); pen.lineTo(x, place.height); pen.stroke(); pen.setLineDash([]);
  }
}

function drawNow(pen) {
  const x = timeX(view.now), slice = sliceAt(view.now);
  if (x >= LEFT - 1 && x <= LEFT + place.plot + 1) {
    pen.fillStyle = colours.paper; pen.fillRect(x - 2, 0, 4, place.height);
    pen.fillStyle = colours.orange; pen.fillRect(x - 1, 0, 2.5, place.height);
    pen.beginPath(); pen.moveTo(x - 7, place.lanes - AXIS + 14); pen.lineTo(x + 7, place.lanes - AXIS + 14); pen.lineTo(x, place.lanes - 2); pen.fill();
  }
  if (view.lane >= 0) {
    pen.strokeStyle = colours.orange; pen.lineWidth = 2;
    pen.strokeRect(LEFT - 1, place.tops[view.lane] - 0.5, place.plot + place.right - 4, place.heights[view.lane]);
  }
  if (!place.right) return;
  const left = LEFT + place.plot + 8, width = place.right - 60, { unit, top } = view.measure;
  pen.font = "12px system-ui, sans-serif"; pen.textBaseline = "middle"; pen.textAlign = "right";
  pen.fillStyle = colours.pale; pen.fillText("at the moment", place.width - 6, place.lanes - AXIS + 8);
  for (let i = 0; i < LANES; i++) {
    const value = laneValue(view.measure, slice, i), y = place.tops[i], height = place.heights[i];
    const thick = Math.min(height - 2, 16), bar = y + (height - thick) / 2;
    pen.fillStyle = colours.track; pen.fillRect(left, bar, width, thick);
    pen.fillStyle = value > top ? colours.red : colours.blue;
    if (value > 0) pen.fillRect(left, bar, width * Math.min(1, value / top), thick);
    pen.fillStyle = colours.ink;
    if (height >= 12) pen.fillText(isDown(slice, i) ? "down" : short(value, unit), place.width - 6, y + height / 2);
  }
}

function drawMark(pen, x, y, reason, size) {
  const [shape, colour] = MARKS[head.reasons[reason]] || MARKS.NONE;
  pen.fillStyle = colours[colour]; pen.strokeStyle = colours.paper; pen.lineWidth = 1.5;
  pen.beginPath();
  if (shape === "square") pen.rect(x - size * 0.85, y - size * 0.85, size * 1.7, size * 1.7);
  else if (shape === "triangle") { pen.moveTo(x, y - size * 1.2); pen.lineTo(x + size * 1.1, y + size * 0.8); pen.lineTo(x - size * 1.1, y + size * 0.8); pen.closePath(); }
  else if (shape === "diamond") { pen.moveTo(x, y - size * 1.3); pen.lineTo(x + size * 1.1, y); pen.lineTo(x, y + size * 1.3); pen.lineTo(x - size * 1.1, y); pen.closePath(); }
  else pen.arc(x, y, size, 0, 7);
  pen.fill(); pen.stroke();
}

/** A line to where the session was before, with a halo so that it shows on any colour. */
function drawLink(pen, x0, y0, x1, y1, colour, width, dashed) {
  for (const [paint, more] of [[colours.paper, 2.5], [colour, 0]]) {
    pen.strokeStyle = paint; pen.lineWidth = width + more; pen.setLineDash(dashed ? [5, 4] : []);
    pen.beginPath(); pen.moveTo(x0, y0); pen.lineTo(x1, y1); pen.stroke();
  }
  pen.setLineDash([]);
}

const leaves = (r) => run.arrival[r] + (Number.isNaN(run.finish[r]) ? 0 : run.finish[r]);

/** Decisions just before the moment; those that moved a session, with the line from where it was. */
function drawRecent(pen) {
  const trail = (view.to - view.from) * TRAIL;
  for (let r = lowerBound(run.arrival, view.now - trail, (t) => t); r < COUNT && run.arrival[r] <= view.now; r++) {
    if (run.instance[r] < 0) continue;
    const x = timeX(run.arrival[r]), y = requestY(r, run.instance[r]), p = before[r];
    if (p >= 0 && run.instance[p] >= 0 && run.instance[p] !== run.instance[r]) drawLink(pen, x, laneMiddle(run.instance[p]), x, y, colours.hold, 1.5, false);
    drawMark(pen, x, y, run.reason[r], 4.5);
  }
}

/** The session of a request over time and instances. */
function drawPath(pen, focused) {
  const turns = turnsOf.get(run.session[focused]).filter((r) => run.instance[r] >= 0);
  const lastLane = (r) => (run.decode_instance[r] >= 0 ? run.decode_instance[r] : run.instance[r]);
  turns.forEach((r, k) => {
    const y = requestY(r, run.instance[r]), x = timeX(run.arrival[r]), end = timeX(leaves(r)), p = turns[k - 1];
    if (k > 0) drawLink(pen, timeX(leaves(p)), requestY(p, lastLane(p)), x, y, colours.hold, 1.5, true);
    if (run.decode_instance[r] >= 0) {
      const middle = timeX(run.arrival[r] + run.handed[r]), below = requestY(r, run.decode_instance[r]);
      drawLink(pen, x, y, middle, y, colours.hold, 3, false);
      drawLink(pen, middle, y, middle, below, colours.green, 1.5, false);
      drawLink(pen, middle, below, end, below, colours.green, 3, false);
    } else drawLink(pen, x, y, end, y, colours.hold, 3, false);
  });
  for (const r of turns) {
    const x = timeX(run.arrival[r]), y = requestY(r, run.instance[r]);
    if (run.verdict[r] !== IN_TIME) { pen.strokeStyle = colours.red; pen.lineWidth = 2; pen.beginPath(); pen.arc(x, y, 10, 0, 7); pen.stroke(); }
    drawMark(pen, x, y, run.reason[r], r === focused ? 7 : 5);
  }
}
