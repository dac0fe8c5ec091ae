"""Plans an engine's steps: continuous batching with chunked prefill, as vLLM's scheduler.

Every step has a token budget. Running sequences come first, in order of admission: one token for each that decodes, and
for others as much of the prompt as the budget has left. Then waiting sequences are admitted in order of arrival while
there is a place, budget, and free cache for the whole prompt (which is taken block by block). So a long prompt is
prefilled in chunks, and every sequence that decodes meanwhile waits for the longer step.

Cache blocks are taken as tokens are computed. When a running sequence finds none, the one admitted last is preempted:
it releases its blocks and returns to the front of the queue; it will recompute its tokens, prompt and output, except
for what is still cached. A waiting sequence is never overtaken, with two exceptions as in vLLM: one whose adapter has
no slot, and one whose cache is being copied from another engine.

Steps that only decode and admit no sequence are planned several at once, up to a horizon that the caller gives: the
result is the same as for single steps, and a simulation that is faster than its GPU needs fewer turns.

The scheduler does not wait: the caller gives the time, and the duration of a step is part of the result.
"""

from collections import deque
from dataclasses import dataclass
from enum import Enum, auto

from modelplane.sim.engine.block_pool import BlockPool
from modelplane.sim.engine.kv_events import AllBlocksClearedEvent, BlockStoredEvent, KvEventLog
from modelplane.sim.engine.sequence import RemoteCache, Sequence, SequencePhase
from modelplane.sim.engine.stats import EngineStats
from modelplane.sim.engine.steps import BatchLimits, BatchStep
from modelplane.sim.engine.timing import Timing


@dataclass(frozen=True, slots=True)
class _Lease:
    """Blocks that an engine keeps for another one to fetch."""

    blocks: list[int]
    until: float


class _Verdict(Enum):
    ADMITTED = auto()
    ELSEWHERE = auto()
    """Taken from the queue without a place in the batch: its cache is being copied, or it failed."""
    PASSED_OVER = auto()
    """Stays where it is and lets others pass."""
    NO_ROOM = auto()


class BatchScheduler:
    """The queue, the batch and the cache of one engine."""

    def __init__(self, timing: Timing, limits: BatchLimits, log: KvEventLog, stats: EngineStats) -> None:
        self.limits = limits
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        self.loading: list[tuple[float, Sequence]] = []
        self.pool = BlockPool(limits.blocks, log.removed)
        self._timing = timing
        self._log = log
        self._stats = stats
        self._leases: dict[str, _Lease] = {}
        self._blocked = False
        self._adapters: set[str] = set()

    def add(self, sequence: Sequence, now: float) -> None:
        sequence.arrived = now
        sequence.phase = SequencePhase.WAITING
        self._blocked = False
        self.waiting.append(sequence)

    def abort(self, sequence: Sequence) -> None:
        """The client disconnected: the blocks of the sequence are free at once, even during its step."""
        if sequence.ended:
            return
        if sequence.phase is SequencePhase.WAITING:
            self.waiting.remove(sequence)
        elif sequence.phase is SequencePhase.RUNNING:
            self.running.remove(sequence)
        else:
            self.loading = [entry for entry in self.loading if entry[1] is not sequence]
        self._end(sequence, SequencePhase.ABORTED)
        self._stats.aborted()

    def plan(self, now: float, *, horizon_s: float = 0.0) -> BatchStep | None:
        """The next step, or None when there is nothing to do before something else happens."""
        step = BatchStep([])
        preempted = self._serve_running(step)
        if not preempted or not step.work:
            self._admit(step, now)
        if not step.work:
            return None
        cost_ms = self._timing.step_ms(tokens=step.tokens, pairs=step.pairs, kv_tokens=step.kv_tokens)
        repeats = self._repeats(step, now, int(horizon_s * 1000 / cost_ms))
        step.seconds = cost_ms / 1000
        if repeats > 1:
            self._repeat(step, repeats, cost_ms)
        return step

    def complete(self, step: BatchStep, *, start: float, end: float) -> None:
        """The step has run: emit its tokens and release finished sequences."""
        steady = 0
        for sequence, new in step.work:
            if sequence.phase is not SequencePhase.RUNNING:
                continue
            sequence.computed += new
            if sequence.computed < len(sequence.prompt) + sequence.emitted:
                continue
            if sequence.last_token == start and sequence.emitted:
                steady += 1
            else:
                self._stats.irregular_token(sequence, end)
            sequence.last_token = end
            self._emit(sequence, step.repeats, end)
        self._stats.step(step.tokens, step.repeats, decoded=steady, seconds=end - start)

    def settle(self, now: float) -> None:
        """Complete finished copies and expire leases."""
        arrived = [entry for entry in self.loading if entry[0] <= now]
        if arrived:
            self.loading = [entry for entry in self.loading if entry[0] > now]
            for _, sequence in reversed(arrived):
                self._arrive(sequence)
        for key in [key for key, lease in self._leases.items() if lease.until <= now]:
            self.release_lease(key)

    def next_event(self) -> float | None:
        """When `settle` has something to do."""
        due = [when for when, _ in self.loading]
        if self._leases:
            # All leases are equally long, so the oldest ends first.
            due.append(next(iter(self._leases.values())).until)
        return min(due, default=None)

    def keeps(self, key: str) -> bool:
        return key in self._leases

    def release_lease(self, key: str) -> bool:
        """Another engine has fetched a prompt's cache, or never will; False when it is not kept any more."""
        lease = self._leases.pop(key, None)
        if lease is None:
            return False
        self.pool.release(lease.blocks)
        self._blocked = False
        return True

    def reset_prefix_cache(self) -> bool:
        """Drop the prefix cache; False while it is in use."""
        if not self.pool.forget():
            return False
        self._log.add(AllBlocksClearedEvent())
        return True

    @property
    def cache_usage(self) -> float:
        """The share of the cache that is held, from 0 to 1."""
        return 1 - self.pool.free / self.pool.total

    def _serve_running(self, step: BatchStep) -> bool:
        """Continue running sequences; True if one was preempted for lack of cache."""
        budget, admitted = self.limits.max_num_batched_tokens, len(self.running)
        index = 0
        while index < len(self.running) and budget > 0:
            sequence = self.running[index]
            new = min(sequence.pending, budget)
            if not self._make_room(sequence, new):
                break
            self._cover(sequence, sequence.computed + new)
            step.add(sequence, new)
            budget -= new
            index += 1
        return len(self.running) < admitted

    def _make_room(self, sequence: Sequence, new: int) -> bool:
        """Preempt from the end until the sequence's next tokens fit; False if it was preempted itself."""
        needed = self._blocks_for(sequence.computed + new) - len(sequence.blocks)
        while needed > 0 and not self.pool.can_take(needed):
            victim = self.running.pop()
            self._preempt(victim)
            if victim is sequence:
                return False
        return True

    def _preempt(self, sequence: Sequence) -> None:
        self._strip(sequence)
        sequence.phase = SequencePhase.WAITING
        self.waiting.appendleft(sequence)

    def _strip(self, sequence: Sequence) -> None:
        """Release its cache; it will recompute everything."""
        self.pool.release(sequence.blocks)
        sequence.blocks = []
        sequence.computed = sequence.named = 0
        sequence.preemptions += 1
        self._blocked = False
        self._stats.preempted()

    def _strip_waiting(self) -> bool:
        """If no sequence runs and the first waiting one finds no cache, release the cache of the last copied one."""
        holder = next((other for other in reversed(self.waiting) if other.blocks), None)
        if holder is None or holder is self.waiting[0]:
            return False
        self._strip(holder)
        return True

    def _admit(self, step: BatchStep, now: float) -> None:
        if self._blocked or not self.waiting:
            return
        passed: list[Sequence] = []
        self._adapters = {sequence.adapter for sequence in self.running if sequence.adapter is not None}
        while self.waiting and len(self.running) < self.limits.max_num_seqs and self._budget(step) > 0:
            verdict = self._admit_one(self.waiting[0], step, now)
            if verdict is _Verdict.NO_ROOM:
                if not self.running and self._strip_waiting():
                    continue
                break
            sequence = self.waiting.popleft()
            if verdict is _Verdict.PASSED_OVER:
                passed.append(sequence)
        self.waiting.extendleft(reversed(passed))
        self._blocked = bool(self.waiting) and self._budget(step) > 0

    def _budget(self, step: BatchStep) -> int:
        return self.limits.max_num_batched_tokens - step.tokens

    def _admit_one(self, sequence: Sequence, step: BatchStep, now: float) -> _Verdict:
        if not self._has_slot(sequence):
            return _Verdict.PASSED_OVER
        if sequence.remote is not None:
            return self._fetch(sequence, sequence.remote, step, now)
        found = self._found(sequence)
        computed = sequence.computed if sequence.blocks else len(found) * self.limits.block_size
        fresh = self._blocks_for(sequence.length) - len(sequence.blocks) - len(found)
        if not self.pool.can_take(fresh, found):
            return _Verdict.NO_ROOM
        new = min(sequence.length - computed, self._budget(step))
        self._count_first(sequence, len(found), now)
        self._hold_found(sequence, found)
        self._cover(sequence, computed + new)
        sequence.phase = SequencePhase.RUNNING
        self.running.append(sequence)
        if sequence.adapter is not None:
            self._adapters.add(sequence.adapter)
        step.add(sequence, new)
        return _Verdict.ADMITTED

    def _fetch(self, sequence: Sequence, remote: RemoteCache, step: BatchStep, now: float) -> _Verdict:
        """Take cache for the whole prompt and start copying what another engine has of it."""
        found = self._found(sequence)
        fresh = self._blocks_for(len(sequence.prompt)) - len(found)
        if not self.pool.can_take(fresh, found):
            return _Verdict.NO_ROOM
        if not remote.is_there():
            sequence.remote = None
            if self.limits.recompute_lost_cache:
                return self._admit_one(sequence, step, now)
            self._end(sequence, SequencePhase.FAILED)
            self._stats.failed()
            sequence.notify()
            return _Verdict.ELSEWHERE
        self._count_first(sequence, len(found), now)
        self._hold_found(sequence, found)
        copied = max(0, min(remote.tokens, len(sequence.prompt)) - sequence.computed)
        sequence.blocks += self.pool.take(fresh)
        sequence.phase = SequencePhase.LOADING
        self._stats.fetched(sequence, copied)
        self.loading.append((now + remote.latency_s + remote.seconds_per_token * copied, sequence))
        return _Verdict.ELSEWHERE

    def _arrive(self, sequence: Sequence) -> None:
        """The copy is complete: the last token of the prompt is computed here, which gives the first output token."""
        remote, sequence.remote = sequence.remote, None
        if remote is not None:
            remote.fetched()
            sequence.computed = max(sequence.computed, min(remote.tokens, len(sequence.prompt) - 1))
        self._name_blocks(sequence, sequence.computed)
        sequence.phase = SequencePhase.WAITING
        self.waiting.appendleft(sequence)
        self._blocked = False

    def _has_slot(self, sequence: Sequence) -> bool:
        if sequence.adapter is None:
            return True
        return sequence.adapter in self._adapters or len(self._adapters) < self.limits.max_loras

    def _found(self, sequence: Sequence) -> list[int]:
        """Cached blocks of its prefix; never all of its tokens, for the last one gives the next."""
        if sequence.blocks or not self.limits.prefix_caching:
            return []
        size = self.limits.block_size
        return self.pool.find(sequence.hashes((sequence.length - 1) // size, size))

    def _count_first(self, sequence: Sequence, found: int, now: float) -> None:
        if sequence.scheduled is None:
            sequence.scheduled = now
            sequence.cached = found * self.limits.block_size
            self._stats.admitted(sequence)

    def _hold_found(self, sequence: Sequence, found: list[int]) -> None:
        if found:
            self.pool.share(found)
            sequence.blocks = found
            sequence.named = len(found)
            sequence.computed = len(found) * self.limits.block_size

    def _cover(self, sequence: Sequence, tokens: int) -> None:
        """Hold blocks for this many tokens, and name the full ones."""
        needed = self._blocks_for(tokens) - len(sequence.blocks)
        if needed > 0:
            sequence.blocks += self.pool.take(needed)
        if self.limits.prefix_caching and tokens // self.limits.block_size > sequence.named:
            self._name_blocks(sequence, tokens)

    def _name_blocks(self, sequence: Sequence, tokens: int) -> None:
        size, first = self.limits.block_size, sequence.named
        for index in range(first, tokens // size):
            name = sequence.hash_of(index, size)
            if self.pool.name(sequence.blocks[index], name) and self._log.enabled:
                self._log.add(
                    BlockStoredEvent(
                        (name,),
                        sequence.parent_of(index) if index else None,
                        tuple(sequence.tokens(index * size, (index + 1) * size)),
                        size,
                        sequence.adapter,
                    )
                )
        sequence.named = max(first, tokens // size)

    def _blocks_for(self, tokens: int) -> int:
        return -(-tokens // self.limits.block_size)

    def _repeats(self, step: BatchStep, now: float, most: int) -> int:
        """How many steps like this one can be planned at once: all decode, as they did in the step before."""
        count = len(step.work)
        can_change = step.tokens != count or len(self.running) != count or (self.waiting and not self._blocked)
        if most <= 1 or can_change or any(sequence.last_token != now for sequence, _ in step.work):
            return 1
        shortest = min(sequence.left for sequence, _ in step.work)
        spare = (self.pool.free // count - 1) * self.limits.block_size
        return max(1, min(shortest, spare, most))

    def _repeat(self, step: BatchStep, repeats: int, cost_ms: float) -> None:
        count = len(step.work)
        for sequence, _ in step.work:
            self._cover(sequence, sequence.computed + repeats)
        step.work = [(sequence, repeats) for sequence, _ in step.work]
        step.repeats = repeats
        # Each step reads one token more of every sequence than the previous one.
        longer = self._timing.step_ms(tokens=count, kv_tokens=step.kv_tokens + count) - cost_ms
        step.seconds = (repeats * cost_ms + longer * repeats * (repeats - 1) / 2) / 1000

    def _emit(self, sequence: Sequence, count: int, end: float) -> None:
        if sequence.answer:
            sequence.emitted += count
        if sequence.left:
            if sequence.each:
                sequence.notify()
            return
        self.running.remove(sequence)
        if sequence.hold:
            self._leases[sequence.key] = _Lease(sequence.blocks, end + self.limits.lease_s)
            sequence.phase = SequencePhase.FINISHED
        else:
            self._end(sequence, SequencePhase.FINISHED)
        self._blocked = False
        self._stats.finished(sequence, end)
        sequence.notify()

    def _end(self, sequence: Sequence, phase: SequencePhase) -> None:
        sequence.phase = phase
        if sequence.blocks:
            self.pool.release(sequence.blocks)
            sequence.blocks = []
        self._blocked = False
