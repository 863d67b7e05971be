"""One serving instance and how it schedules a step (RULES.md section 5, vLLM's ``Scheduler.schedule``)."""

from reference.pool import BlockPool
from reference.request import LOADING, RUNNING, WAITING
from reference.step import Step


class Instance:
    """Queues, KV blocks and the present step of an instance.

    Args:
        index: 0..P-1 take new requests, the others decode.
        capacity: KV blocks.
        times: its ``StepTime``.
        config: the cluster.
        tier: the global tier that it reads and writes, or None.
        links: to load over.
        evict: of its pool.
    """

    def __init__(self, index, capacity, times, config, tier, links, evict):
        self.index, self.capacity, self.times, self.config = index, capacity, times, config
        self.tier, self.links, self.evict = tier, links, evict
        self.decodes = index >= config.instances
        self.epoch = 0  # counts its failures
        self.alive = True
        self.members = set()  # requests routed or handed over to it, and neither complete nor handed on
        self.outgoing = set()  # requests that left it, and whose transfer has not ended
        self.lose_all()

    def lose_all(self):
        """Empty queues and caches, as at the start."""
        self.pool = BlockPool(self.capacity, self.evict)
        self.running, self.waiting = [], []
        self.blocked = False
        self.step = None

    def schedule(self, now):
        """Begin the next ``step`` (None: nothing to do); return what loads beside it: (request, end)."""
        self.began = []
        step = Step(now, self.config.max_batched_tokens)
        for _attempt in range(2):
            preempted = self._running(step)
            if not preempted:
                self._waiting(step, now)
            if step.entries or not preempted:
                break
        self.step = step if step.entries else None
        return self.began

    def _running(self, step):
        preempted, k = False, 0
        while k < len(self.running) and step.budget > 0:
            request = self.running[k]
            n = min(request.known - request.computed, step.budget)
            need = self._blocks(request.computed + n) - len(request.blocks)
            while need > self.pool.free:
                if self.running[-1] is request and self._yield():
                    continue
                last = self.running.pop()
                self._preempt(last)
                preempted = True
                if last is request:
                    return preempted
            request.blocks += self.pool.take(need)
            self._compute(step, request, n)
            k += 1
        return preempted

    def _waiting(self, step, now):
        if self.blocked:
            return
        for request in list(self.waiting):
            if step.budget == 0 or len(self.running) == self.config.max_seqs:
                return
            if request.state == LOADING:
                continue
            if not self._admit(step, request, now):
                self.blocked = True
                return

    def _admit(self, step, request, now):
        """Admit a waiting request, or return False where it does not fit."""
        hits, found, target = [], 0, 0
        transfer = request.source is not None
        start = request.computed
        if not request.keeps:
            hits = self.pool.hit(request.keys[: (request.known - 1) // self.config.block_tokens])
            local = len(hits) * self.config.block_tokens
            if transfer:
                target = request.prompt
                load = target - local
            else:
                found, target, load = self._look_up(request, local)
            start = local + load
        aside = not request.keeps and (transfer or (load > 0 and self.config.loads == "async"))
        n = 0 if aside else min(request.known - start, step.budget)
        new = self._blocks(start + n) - len(hits) - len(request.blocks)
        while new + sum(block.uses == 0 for block in hits) > self.pool.free:
            if self.running or not self._yield(behind=request):
                return False

        if not request.keeps:
            assert not request.blocks
            self.pool.use(hits)
            request.blocks, request.filled, request.to_come = hits, len(hits), False
            self._first_admission(request, now, local, load)
            request.todo = max(0, request.prompt - start)
            if found:
                self.tier.touch(request.path, found)
        request.blocks += self.pool.take(new)

        arrived = now
        if not request.keeps and load > 0:
            if transfer:
                arrived = self.links.transfer(now, request.source.index, self.index, load)
            else:
                tokens = target - local // self.config.chunk_tokens * self.config.chunk_tokens
                request.read_tokens += tokens
                arrived = self.links.load(now, self.index, tokens)
        if aside:
            request.state = LOADING
            request.loaded = start
            self.began.append((request, arrived))
            return True
        request.computed, request.keeps, request.state = start, False, RUNNING
        self.waiting.remove(request)
        self.running.append(request)
        self._compute(step, request, n)
        step.begin = max(step.begin, arrived)
        return True

    def _look_up(self, request, local):
        """Chunks found in the global tier, tokens to have after a load, and tokens that it brings."""
        if self.tier is None:
            return 0, 0, 0
        chunk = self.config.chunk_tokens
        found = self.tier.found(request.path, request.known // chunk)
        target = min(found * chunk, request.known - 1)
        load = target - local if target - local >= self.config.min_load_tokens else 0
        return found, target, load

    def _first_admission(self, request, now, local, load):
        if request.admitted is None:
            request.admitted, request.local_hit, request.global_hit = now, local, load

    def _compute(self, step, request, n):
        step.entries.append((request, n, request.computed))
        step.budget -= n
        self.fill(request, request.computed + n)

    def fill(self, request, tokens):
        """The full blocks of its first ``tokens`` tokens get their content."""
        full = tokens // self.config.block_tokens
        for b in range(request.filled, full):
            self.pool.fill(request.blocks[b], request.keys[b])
        request.filled = max(request.filled, full)

    def _preempt(self, request):
        self._drop(request)
        request.state = WAITING
        self.waiting.insert(0, request)

    def _yield(self, behind=None):
        """The last waiting request that keeps blocks of an ended load gives them up; False: there is none."""
        after = self.waiting[self.waiting.index(behind) + 1 :] if behind else self.waiting
        kept = [r for r in after if r.keeps]
        if not kept:
            return False
        self._drop(kept[-1])
        kept[-1].keeps = False
        return True

    def _drop(self, request):
        self.give_up(request.blocks)
        request.blocks, request.filled, request.computed = [], 0, 0
        request.todo, request.to_come = request.prompt, True
        request.preemptions += 1

    def give_up(self, blocks):
        """Blocks are given up, so whoever waits for blocks may try again."""
        self.pool.release(blocks)
        self.blocked = False

    def _blocks(self, tokens):
        return -(-tokens // self.config.block_tokens)

    def view(self, request):
        """What the router sees of it when it decides about ``request`` (section 9)."""
        todo = [(r.todo, r.prompt) for r in self.members]
        hits = self.pool.hit(request.keys[: (request.prompt - 1) // self.config.block_tokens])
        return {
            "local_hit": len(hits) * self.config.block_tokens,
            "in_flight": len(self.members),
            "running": len(self.running),
            "waiting": len(self.waiting),
            "in_flight_tokens": sum(prompt for _, prompt in todo),
            "unprefilled": sum(left for left, _ in todo),
            "unprefilled_pairs": sum(left * (2 * prompt - left) for left, prompt in todo),
            "blocks_used": len(self.pool.used),
            "alive": self.alive,
        }

    def check(self):
        """Every invariant of the instance."""
        assert len(self.running) <= self.config.max_seqs
        assert len(set(self.running) | set(self.waiting)) == len(self.running) + len(self.waiting)
        assert set(self.running) | set(self.waiting) <= self.members
        holders = [r.blocks for r in self.running + self.waiting]
        self.pool.check(holders + [r.source_blocks for r in self.outgoing])
        for r in self.running:
            assert r.state == RUNNING and r.known <= r.prompt + r.output
            assert r.computed <= len(r.blocks) * self.config.block_tokens
            assert r.filled * self.config.block_tokens <= len(r.blocks) * self.config.block_tokens
        if not self.alive:
            assert not (self.members or self.outgoing or self.pool.used or self.pool.idle or self.step)
