// Words: the sentence of the moment, and the card of a request with the path of its session.

/** An element with attributes and children; text is always text, never markup. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** What happens at the moment, in one sentence. */
function sentence() {
  const slice = sliceAt(view.now), tokens = head.measures[0], waiting = head.measures.find((m) => m.name === "waiting");
  let total = 0, most = 0, queue = 0, longest = 0, down = 0;
  for (let i = 0; i < head.targets; i++) {
    const load = laneValue(tokens, slice, i), waits = laneValue(waiting, slice, i);
    total += load; queue += waits; down += isDown(slice, i);
    if (load > laneValue(tokens, slice, most)) most = i;
    if (waits > laneValue(waiting, slice, longest)) longest = i;
  }
  if (total < 1) return "Nothing is in flight.";
  const load = laneValue(tokens, slice, most), times = (load * head.targets) / total;
  const who = `Instance ${head.lanes[most]} holds ${Math.round((100 * load) / total)} % of the ${whole(total)} prompt tokens in flight, ${times.toFixed(1)} times the mean`;
  const waits = laneValue(waiting, slice, longest);
  const where = `on instance ${head.lanes[longest]}`;
  const queues = queue < 0.5 ? "no request waits" : queue < 1.5 ? `one request waits, ${where}` : `${whole(queue)} requests wait, ${whole(waits)} of them ${where}`;
  return `${who}; ${queues}${down ? `; ${down} of ${head.targets} instances ${down === 1 ? "is" : "are"} down` : ""}.`;
}

/** Why a request went where it went, with what the router saw. */
function why(r) {
  const name = (i) => `instance ${head.lanes[i]}`;
  const kind = head.disaggregated ? "unprefilled" : "requests";
  const many = (what) => count(run[`${what}_${kind}`][r], head.disaggregated ? "un-prefilled token" : "request") + (head.disaggregated ? "" : " in flight");
  const mean = head.disaggregated ? whole(run.mean_unprefilled[r]) : run.mean_requests[r].toFixed(1);
  const chosen = `${many("chosen")} there, ${mean} on average`;
  const best = run.best[r], there = best < 0 ? "no instance had any of the prompt" : `${name(best)} had most of the prompt (${whole(run.best_hit_tokens[r])} tokens) and ${many("best")}`;
  switch (head.reasons[run.reason[r]]) {
    case "STICK": return `It stays where its session is cached: ${there}; ${mean} on average.`;
    case "FIRST_TURN": return `A first turn, so load decides: ${chosen}.`;
    case "OVERLOAD": return `${there}: overloaded, with ${mean} on average. So load decides: ${chosen}.`;
    case "EVICTED": return `Too little of the session is cached anywhere: ${there}, and the history is ${whole(run.history[r])} tokens. So load decides: ${chosen}.`;
    case "SCORE": return `The best score of the policy: ${chosen}; ${best === run.instance[r] ? "it had most of the prompt" : there}.`;
    default: return `The policy gives no reason: ${chosen}; ${there}.`;
  }
}

function meter(parts, mark) {
  const bar = make("div", { class: "meter" });
  for (const [colour, share] of parts) bar.append(make("i", { style: `width:${100 * Math.min(1, Math.max(0, share))}%;background:var(--${colour})` }));
  if (mark !== undefined) bar.append(make("b", { style: `left:${100 * mark}%` }));
  return bar;
}

/** A duration beside its limit: the black line in the bar is the limit. */
function limited(words, value, limit, text) {
  if (limit === Infinity) return [make("p", {}, `${words} ${text(value)}, without a limit`)];
  const scale = Math.max(value || 0, limit) * 1.1, late = !(value <= limit);
  return [make("p", {}, `${words} `, make("span", late ? { class: "late" } : {}, text(value)), ` of ${text(limit)} allowed`),
    meter([[late ? "red" : "green", (value || 0) / scale]], limit / scale)];
}

function requestCard(r) {
  const computed = run.prompt[r] - run.local_hit_tokens[r] - run.global_hit_tokens[r], turns = turnsOf.get(run.session[r]);
  const share = (tokens) => tokens / run.prompt[r], bad = run.verdict[r] !== IN_TIME;
  const where = run.decode_instance[r] >= 0 ? `instance ${head.lanes[run.instance[r]]}, decoded on ${head.lanes[run.decode_instance[r]]}` : `instance ${head.lanes[run.instance[r]]}`;
  const parts = [
    make("h2", {}, `Turn ${run.turn[r]} of session ${run.session[r]}`),
    make("p", {}, `Request ${whole(run.request[r])}, ${seconds(run.arrival[r])}, ${run.instance[r] < 0 ? "not routed" : where}`),
    make("p", { class: bad ? "verdict late" : "verdict" }, VERDICTS[run.verdict[r]] + (run.scored[r] ? "" : " (not scored)")),
    make("h3", {}, "Decision"), make("p", {}, make("b", {}, head.reasons[run.reason[r]].replace("_", " ")), `. ${why(r)}`),
    make("h3", {}, `Prompt of ${whole(run.prompt[r])} tokens, at its first step`),
    meter([["blue", share(run.local_hit_tokens[r])], ["orange", share(run.global_hit_tokens[r])], ["grey", share(computed)]]),
    make("p", {}, key("blue"), `local ${whole(run.local_hit_tokens[r])}`, key("orange"), `global ${whole(run.global_hit_tokens[r])}`, key("grey"), `computed ${whole(computed)}`),
    make("h3", {}, "Times"), make("p", {}, `Waited ${seconds(run.admitted[r])} before its first step`),
    ...limited("First token after", ttft(r), run.limit[r], seconds),
  ];
  if (run.output[r] > 1) parts.push(...limited(`${whole(run.output[r])} output tokens, each`, tpot(r), head.tpot_limit_s ?? Infinity, (t) => (Number.isNaN(t) ? "-" : `${(1000 * t).toFixed(1)} ms`)));
  if (run.preemptions[r]) parts.push(make("p", {}, `Preempted ${count(run.preemptions[r], "time")}`));
  if (run.retries[r]) parts.push(make("p", {}, `Its instance went away ${count(run.retries[r], "time")}`));
  parts.push(make("h3", {}, `Path of the session: ${count(turns.length, "request")} on ${count(new Set(turns.map((q) => run.instance[q])).size, "instance")}`), pathTable(turns, r));
  return parts;
}

const key = (colour) => make("span", { class: "key", style: `background:var(--${colour})` });

function pathTable(turns, focused) {
  const table = make("table", {}, make("tr", {}, ...["turn", "at", "inst.", "why", "hit", "TTFT / limit"].map((name) => make("th", { scope: "col" }, name))));
  for (const r of turns) {
    const hit = (run.local_hit_tokens[r] + run.global_hit_tokens[r]) / run.prompt[r], part = ttft(r) / run.limit[r];
    const cells = [run.turn[r], `${whole(run.arrival[r])} s`, run.instance[r] < 0 ? "-" : head.lanes[run.instance[r]], head.reasons[run.reason[r]].replace("_TURN", "").toLowerCase(), `${Math.round(100 * hit)} %`];
    const row = make("tr", { "data-row": r }, ...cells.map((cell) => make("td", {}, String(cell))));
    row.append(make("td", part <= 1 ? {} : { class: "late" }, Number.isNaN(part) ? "-" : part.toFixed(2)));
    if (r === focused) row.setAttribute("aria-current", "true");
    table.append(row);
  }
  return make("div", { class: "path" }, table);
}

let cardOf = -2;
function showCard() {
  const r = focus();
  if (r === cardOf) return;
  cardOf = r;
  const card = document.getElementById("card");
  if (r >= 0) card.replaceChildren(...requestCard(r));
  else card.replaceChildren(make("h2", {}, "Hover a request"), make("p", {}, "Its session's path over the instances, why it went there, what was cached and its times against the limits appear here. Zoom in until single requests show, or choose an instance with ↑ ↓ and walk its requests with P and N."));
  const row = card.querySelector("[aria-current]");
  if (row) row.closest(".path").scrollTop = row.offsetTop - 80; // not scrollIntoView, which would move the page as well
}
