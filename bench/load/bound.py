"""A bound on routing: no policy has a first token sooner, or finds more of a prompt in a cache.

It is of the simulated engines (`modelplane.sim.engine`), all alike, that take requests in the order in which they left,
a fixed time on the way. Nothing is assumed of the policy: it may know every later request. Why none can beat it:

- **Steps.** An engine runs one step at a time, and a request's last step ends with its first token. Steps that compute
  `n` tokens after `p` known ones are at least `n / budget` in number, rounded up. For `c` steps the parts of `Timing`
  add up to `c · overhead`, the pairs (`(p + n)² - p²` however the tokens are cut) and the sum of blends of weights and
  tokens. A blend is a norm, and a sum of norms is no less than the norm of the sum. Other tokens in the same steps only
  make them longer. A piece of one token counts as decode; the cheaper of the two prices is taken for every pair.
- **Caches.** An engine finds a block only if a request before it had the same beginning, for queues are not overtaken:
  so no hit is longer than the longest beginning that any earlier request had, prompt and answer. They are never evicted
  here, and every engine has them.
- **Who computes the beginning.** A block that is found was computed on the same engine, no sooner than the first
  request that had it arrived. The steps that computed it ended before the request's own, or are the same. So all that
  comes after `j` blocks, found or not, was computed there, one step after the other, since block `j + 1` was first
  requested. To find less than there can be is no way out: then there is more to compute, and later.
- **Load.** Take the `i` requests with the shortest TTFT. They arrive after the first of all requests, and begin within
  the `i`-th TTFT after the last has left. In that time engines together spend no more than it, times their number, and
  the requests need no less than the `i` cheapest would: tokens and pairs alone, without the weights, which a batch
  shares. All but those that hold a place at the end (one that is preempted is admitted before any new one, so these are
  no more than there are places) have their whole answers, too. An answer's token costs its own part of a step, and a
  place for a step. So `i`-th TTFT ≥ what they need / what there is - the time in which all arrive. This is of sorted
  times and of no single request, and more than the rest only where more is requested than engines can do.

Left out, so that the bound is below what is possible: that a request waits for the end of the step in which its engine
is, that the answers of a batch make its own step longer, and that caches are small.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

import msgspec

from modelplane.sim.engine.sequence import Sequence as Prompt
from modelplane.sim.engine.timing import Timing


class PoolLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What engines can do at best."""

    timing: Timing
    block: int
    budget: int
    """Tokens of a step."""
    way_s: float
    """From leaving to arriving at an engine."""
    capacity: float
    """How many times the work of one engine alone they do together."""
    batch: int
    """Places of an engine."""
    places: int
    """Of all."""
    host_ms: float = 0.0
    """A step is no shorter than this."""
    added_ms: float = 0.0
    """What is added to every step."""

    def compute_s(self, known: int, length: int) -> float:
        """The least in which one engine computes a prompt of this length after `known` tokens of it."""
        steps = -(-(length - known) // self.budget)
        return self._steps_s(steps, length - known, self._pairs_ms(known, length))

    def answer_s(self, length: int, answer: int) -> float:
        """The least for which all but the first token of an answer hold a place."""
        return (answer - 1) * self._steps_s(1, 1, self.timing.per_kv_token * length)

    def compute_work_s(self, known: int, length: int) -> float:
        """The part of `compute_s` that no batch shares."""
        return (self.timing.per_token * (length - known) + self._pairs_ms(known, length)) / 1e3

    def answer_work_s(self, length: int, answer: int) -> float:
        """What all but the first token of an answer cost in batches that are full."""
        timing = self.timing
        own_ms = timing.per_token + timing.per_kv_token * length + timing.overhead / self.batch
        return (answer - 1) * own_ms / 1e3

    def _steps_s(self, steps: int, tokens: int, other_ms: float) -> float:
        timing = self.timing
        blend = (steps * timing.weights) ** timing.blend + (tokens * timing.per_token) ** timing.blend
        computing = steps * timing.overhead + float(blend ** (1 / timing.blend)) + other_ms
        return (max(steps * self.host_ms, computing) + steps * self.added_ms) / 1e3

    def _pairs_ms(self, known: int, length: int) -> float:
        return min(self.timing.per_pair, self.timing.per_kv_token / 2) * (length**2 - known**2)


class BestCase(msgspec.Struct, frozen=True, kw_only=True):
    """One request at its best."""

    at_s: float
    first_s: float
    """From leaving to the first token: no less."""
    prompt: int
    cached: int
    """Tokens: no more."""
    work_s: float
    """Of an engine, until the first token: no less."""
    answer_work_s: float
    """Of an engine, after it: no less."""
    held_s: float
    """A place in a batch: no less."""


def best_cases(arrivals: Iterable[tuple[float, Prompt]], pool: PoolLimits) -> Iterator[BestCase]:
    """Of each request, in the order in which they leave."""
    since: dict[int, float] = {}
    for at_s, prompt in arrivals:
        length, size = len(prompt.prompt), pool.block
        yield _best_case(at_s, prompt, _found(prompt.hashes((length - 1) // size, size), since), pool)
        for name in prompt.hashes((length + len(prompt.answer)) // size, size):
            since.setdefault(name, at_s)


def best_firsts_s(requests: Sequence[BestCase], pool: PoolLimits) -> list[float]:
    """Sorted times to the first token: in no policy is the n-th shortest less than the n-th of these."""
    span_s = requests[-1].at_s - requests[0].at_s
    waits_s = (needed_s + pool.way_s - span_s for needed_s in _needed_s(requests, pool))
    return list(map(max, sorted(request.first_s for request in requests), waits_s))


def _needed_s(requests: Sequence[BestCase], pool: PoolLimits) -> Iterator[float]:
    """The least time in which engines begin one, two, … of them."""
    works_s = accumulate(sorted(request.work_s for request in requests))
    unfinished = [0.0] * pool.places
    answers_s = [*unfinished, *accumulate(sorted(request.answer_work_s for request in requests))]
    places_s = [*unfinished, *accumulate(sorted(request.held_s for request in requests))]
    for work_s, answer_s, held_s in zip(works_s, answers_s, places_s, strict=False):
        yield max((work_s + answer_s) / pool.capacity, held_s / pool.places)


def _best_case(at_s: float, prompt: Prompt, found: Sequence[float], pool: PoolLimits) -> BestCase:
    length, answer, known = len(prompt.prompt), len(prompt.answer), pool.block * len(found)
    return BestCase(
        at_s=at_s,
        first_s=pool.way_s + _soonest_s(at_s, length, found, pool) - at_s,
        prompt=length,
        cached=known,
        work_s=pool.compute_work_s(known, length),
        answer_work_s=pool.answer_work_s(length, answer),
        held_s=pool.compute_s(known, length) + pool.answer_s(length, answer),
    )


def _found(names: Sequence[int], since: dict[int, float]) -> list[float]:
    """Since when each block of the longest beginning that an earlier request had can be there."""
    found: list[float] = []
    for name in names:
        if name not in since:
            break
        found.append(since[name])
    return found


def _beginnings(found: Sequence[float]) -> Iterator[tuple[int, float]]:
    """How many blocks come before those that can be there since then."""
    for at, since_s in enumerate(found):
        if at == 0 or since_s > found[at - 1]:
            yield at, since_s


def _soonest_s(at_s: float, length: int, found: Sequence[float], pool: PoolLimits) -> float:
    rests = ((pool.block * before, since_s) for before, since_s in (*_beginnings(found), (len(found), at_s)))
    return max(since_s + pool.compute_s(known, length) for known, since_s in rests)
