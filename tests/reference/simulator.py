"""The event loop of the reference cluster (RULES.md sections 2, 3 and 7): every step is an event."""

import heapq
import math

from reference import eviction, failures
from reference.events import ARRIVAL, DELIVER, LOAD_END, SCHEDULE, STEP_END
from reference.instance import Instance
from reference.links import Links
from reference.request import DONE, PARKED, ROUTED, UNISSUED, WAITING, Request
from reference.tier import GlobalTier, chunk_capacity


class ReferenceCluster:
    """A cluster that serves a trace by the letter of RULES.md, slowly.

    Args:
        trace: what arrives.
        config: what serves it.
        step_times: one per instance, prefill or colocated ones first.
        arrival_mode: "open", "causal" or "closed".
        window_s: s; nothing arrives from then on.
        trace_events: keep ``events`` and ``steps``.

    Attributes:
        outcome: one dict per request, times in ticks (None: it did not happen).
        decisions: (view, request, chosen instance) of every decision; a request may have several.
        events: (time, kind, id) in the order of processing.
        steps: (time scheduled, instance, ((request, n), ...), time of its end).
    """

    def __init__(self, trace, config, step_times, *, arrival_mode, window_s, trace_events=False):
        self.config, self.mode, self.trace_events = config, arrival_mode, trace_events
        self.window = window_s if math.isinf(window_s) else round(window_s * 10**12)
        self.requests = [Request(trace, r, config) for r in range(len(trace))]
        for request in self.requests:
            if request.parent >= 0:
                self.requests[request.parent].children.append(request)
        capacities = [
            config.kv_blocks or int(t.kv_capacity_tokens) // config.block_tokens for t in step_times
        ]
        size = chunk_capacity(config, capacities[: config.instances])
        self.tier = GlobalTier(size) if size else None
        self.links = Links(config, step_times)
        evict = eviction.policy(config.eviction, self.requests)
        self.instances = [
            Instance(i, capacity, times, config, self.tier if i < config.instances else None, self.links, evict)
            for i, (capacity, times) in enumerate(zip(capacities, step_times, strict=True))
        ]
        self.routed, self.decoding = self.instances[: config.instances], self.instances[config.instances :]
        self.last_decode = -1
        self.parked, self.unmatched = [], []  # requests that no instance could take: new ones, transfers
        self.woken = []
        self.now, self.heap = 0, []
        self.decisions, self.events, self.steps, self.outcome = [], [], [], []

    def run(self, policy):
        """Serve the whole trace; ``policy(view, request)`` names an instance at every decision."""
        self.policy = policy
        for request in self.requests:
            if self.mode == "open" or request.parent < 0:
                self._issue(request, request.recorded)
        for row, (time_s, _instance, _up) in enumerate(self.config.schedule):
            self.push(round(time_s * 10**12), SCHEDULE, row, 0)
        handlers = {
            STEP_END: self._step_end,
            LOAD_END: self._load_end,
            SCHEDULE: self._change,
            DELIVER: self._deliver,
            ARRIVAL: self._arrive,
        }
        while self.heap:
            time, kind, index, epoch = heapq.heappop(self.heap)
            owner = {STEP_END: self.instances, SCHEDULE: None}.get(kind, self.requests)
            if owner is not None and owner[index].epoch != epoch:
                continue  # its instance went down meanwhile
            assert time >= self.now, "time goes back"
            self.now = time
            if self.trace_events:
                self.events.append((time, kind, index))
            handlers[kind](index)
            touched, self.woken = self.woken, []
            self._schedule_steps(touched)
            self.check(self.instances if kind == SCHEDULE else touched)
        self.check(self.instances)
        stuck = [r.id for r in self.requests if r.state not in (DONE, UNISSUED)]
        self.outcome = [r.outcome() for r in self.requests]
        assert not stuck, f"requests {stuck} never end"

    def push(self, time, kind, index, epoch):
        """Queue an event; ``epoch`` is that of its instance or request, so that failures void it."""
        heapq.heappush(self.heap, (time, kind, index, epoch))

    def _issue(self, request, time):
        if time < self.window:
            self.push(time, ARRIVAL, request.id, request.epoch)
        else:
            self._withhold(request)

    def _withhold(self, request):
        request.state = UNISSUED
        if self.mode != "open":
            for child in request.children:
                self._withhold(child)

    def wake(self, instance):
        """It may have something to schedule once the present event is over."""
        instance.blocked = False
        if instance not in self.woken:
            self.woken.append(instance)

    def _schedule_steps(self, instances):
        for instance in instances:
            if instance.step or not instance.alive:
                continue
            for request, arrived in instance.schedule(self.now):
                self.push(arrived, LOAD_END, request.id, request.epoch)
            step = instance.step
            if step:
                end = step.begin + step.duration(instance.times, instance.tier is not None)
                self.push(end, STEP_END, instance.index, instance.epoch)
                if self.trace_events:
                    planned = tuple((r.id, n) for r, n, _ in step.entries)
                    self.steps.append((self.now, instance.index, planned, end))

    # Router

    def _arrive(self, index):
        request = self.requests[index]
        if request.arrival is None:
            request.arrival = self.now
        if not any(i.alive for i in self.routed):
            request.state = PARKED
            self.parked.append(request)
            return
        view = [i.view(request) for i in self.routed]
        seen = {"id": request.id, "retries": request.retries, "prompt": request.prompt, "global_hit": 0}
        if self.tier:
            chunk = self.config.chunk_tokens
            found = self.tier.found(request.path, request.prompt // chunk) * chunk
            seen["global_hit"] = min(found, request.prompt - 1)
        choice = int(self.policy(view, seen))
        self.decisions.append((view, seen, choice))
        instance = self.instances[choice]
        assert choice < len(self.routed) and instance.alive, f"the policy chose instance {choice}"
        request.state, request.instance = ROUTED, instance
        request.todo = request.prompt - view[choice]["local_hit"]
        instance.members.add(request)
        delay = int(instance.times.api_ticks) + request.prompt * int(instance.times.api_token_ticks)
        self.push(self.now + delay, DELIVER, index, request.epoch)

    def _deliver(self, index):
        request = self.requests[index]
        request.state = WAITING
        request.instance.waiting.append(request)
        self.wake(request.instance)

    # Steps

    def _step_end(self, index):
        instance = self.instances[index]
        entries, instance.step = instance.step.entries, None
        for request, n, _start in entries:
            request.computed += n
            request.todo = max(0, request.prompt - request.computed)
            if request.computed == request.known:
                request.generated += 1
                if request.generated == 1 and request.first_token is None:
                    request.first_token = self.now
        if instance.tier and self.config.write != "none":
            for request, n, start in entries:
                if n > 1 or start < request.prompt <= start + n:
                    self._write(instance, request, min(request.computed, request.prompt))
        for request, _n, _start in entries:
            prefilled = self.decoding and not instance.decodes and request.generated == 1
            if prefilled:
                request.handed_over = self.now
            if request.generated == request.output:
                self._complete(instance, request)
            elif prefilled:
                self._leave(instance, request)
        self._wake_last(instance)

    def _wake_last(self, instance):
        # The end of a step is no wake-up in the sense of section 5: a blocked instance stays blocked.
        self.woken = [i for i in self.woken if i is not instance] + [instance]

    def _write(self, instance, request, tokens):
        instance.tier.write(request.path, tokens // self.config.chunk_tokens)

    def _complete(self, instance, request):
        assert request.finish is None and request.computed == request.prompt + request.output - 1
        if instance.tier and self.config.write == "all":
            self._write(instance, request, request.computed)
        request.state, request.finish = DONE, self.now
        instance.running.remove(request)
        instance.members.remove(request)
        instance.give_up(request.blocks)
        request.blocks = []
        if self.mode != "open":
            for child in request.children:
                self._issue(
                    child, self.now + child.gap if self.mode == "closed" else max(self.now, child.recorded)
                )

    # Prefill to decode

    def _leave(self, instance, request):
        request.source, request.source_blocks = instance, request.blocks
        request.blocks, request.filled, request.computed = [], 0, 0
        request.state, request.to_come = WAITING, True
        instance.running.remove(request)
        instance.members.remove(request)
        instance.outgoing.add(request)
        self.hand_over(request)

    def hand_over(self, request):
        """Choose a decode instance, or let the request wait for one."""
        count = len(self.decoding)
        order = [self.decoding[(self.last_decode + 1 + k) % count] for k in range(count)]
        alive = [i for i in order if i.alive]
        if not alive:
            self.unmatched.append(request)
            return
        chosen = min(alive, key=lambda i: sum(r.prompt + 1 for r in i.members))
        self.last_decode = self.decoding.index(chosen)
        request.decode = chosen
        chosen.members.add(request)
        chosen.waiting.append(request)
        self.wake(chosen)

    def _load_end(self, index):
        request = self.requests[index]
        request.computed, request.keeps, request.state = request.loaded, True, WAITING
        request.home.fill(request, request.computed)
        self.wake(request.home)
        if request.source:
            source, blocks = request.source, request.source_blocks
            request.source, request.source_blocks = None, []
            source.outgoing.remove(request)
            source.give_up(blocks)
            self.wake(source)

    def _change(self, row):
        failures.change(self, row)

    def check(self, instances):
        """Every invariant, after an event, of the instances that it touched."""
        for instance in instances:
            instance.check()
        if self.tier:
            self.tier.check()
        for request in (r for r in self.requests if r.state == DONE):
            assert not request.blocks and not request.source_blocks and request.generated == request.output
