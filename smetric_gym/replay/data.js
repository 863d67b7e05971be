// The run as typed arrays, and who was where. `run.COLUMN[r]` is a value of request r, in order of arrival.

async function unpacked(base64) {
  const packed = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const content = await new Response(stream).arrayBuffer();
  const size = new DataView(content).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(content, 4, size)));
  const begin = Math.ceil((4 + size) / 8) * 8;
  const types = { Uint8Array, Uint16Array, Int16Array, Uint32Array, Int32Array, Float32Array, Float64Array };
  const columns = {};
  for (const [name, type, offset, length] of header.arrays) columns[name] = new types[type](content, begin + offset, length);
  return [header, columns];
}

if (!("DecompressionStream" in window)) {
  document.getElementById("subtitle").textContent = "This browser is too old for the page: it cannot unpack gzip (DecompressionStream).";
}
const [head, run] = await unpacked(document.getElementById("data").textContent);
const UNKNOWN = 65535;
const REASONS = Object.fromEntries(head.reasons.map((name, k) => [name, k]));
const VERDICTS = ["both limits met", "first token late", "output too slow", "not finished"];
const [IN_TIME, LATE, SLOW, UNFINISHED] = [0, 1, 2, 3];
const LANES = head.lanes.length, COUNT = run.request.length;
const SLICES = run.lane_tokens.length / LANES, WINDOWS = run.strip_late.length;
const SPAN_S = head.end_s - head.start_s, SLICE_S = SPAN_S / SLICES, WINDOW_S = SPAN_S / WINDOWS;

const turnsOf = new Map(); // session to its requests in order of arrival
const before = new Int32Array(COUNT).fill(-1); // the request before it in its session
for (let r = 0; r < COUNT; r++) {
  const turns = turnsOf.get(run.session[r]);
  if (turns) { before[r] = turns.at(-1); turns.push(r); } else turnsOf.set(run.session[r], [r]);
}

// Stays of requests on lanes: {r, from, to} in s; a disaggregated request stays on two lanes.
const staysOf = Array.from({ length: LANES }, () => []);
for (let r = 0; r < COUNT; r++) {
  const handed = run.handed[r], finish = Number.isNaN(run.finish[r]) ? Infinity : run.finish[r];
  const leaves = Number.isNaN(handed) ? finish : handed;
  if (run.instance[r] >= 0) staysOf[run.instance[r]].push({ r, from: run.arrival[r], to: run.arrival[r] + leaves });
  if (run.decode_instance[r] >= 0) staysOf[run.decode_instance[r]].push({ r, from: run.arrival[r] + handed, to: run.arrival[r] + finish });
}
for (const stays of staysOf) stays.sort((a, b) => a.from - b.from);

/** Index of the first item whose key is not below the value; `items` ascend by key. */
function lowerBound(items, value, key) {
  let low = 0, high = items.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (key(items[middle]) < value) low = middle + 1; else high = middle;
  }
  return low;
}

const sliceAt = (t) => Math.min(SLICES - 1, Math.max(0, Math.floor((t - head.start_s) / SLICE_S)));

/** Value of a measure on a lane in a slice, NaN where nobody knows it. */
function laneValue(measure, slice, lane) {
  const steps = run["lane_" + measure.name][slice * LANES + lane];
  return steps === UNKNOWN ? NaN : steps * measure.step;
}

const isDown = (slice, lane) => run.lane_alive[slice * LANES + lane] === 0;
const ttft = (r) => run.first[r];
const tpot = (r) => (run.output[r] > 1 ? (run.finish[r] - run.first[r]) / (run.output[r] - 1) : NaN);

const count = (number, word) => `${whole(number)} ${word}${number === 1 ? "" : "s"}`;
function whole(value) { return Math.round(value).toLocaleString("en-US"); }
function short(value, unit) {
  if (Number.isNaN(value)) return "";
  if (unit === "share") return `${Math.round(100 * value)} %`;
  if (unit === "s") return `${value.toFixed(1)} s`;
  return value >= 9950 ? `${(value / 1000).toFixed(0)}k` : value >= 1000 ? `${(value / 1000).toFixed(1)}k` : whole(value);
}
const seconds = (value) => (Number.isNaN(value) ? "-" : value >= 100 ? `${whole(value)} s` : `${value.toFixed(2)} s`);
