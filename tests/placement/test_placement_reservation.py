"""Engines, gangs and DeviceClasses together: every answer against an independent search through all of them."""

import itertools
from functools import cache

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelplane.framework import Refusal, RefusalCode
from modelplane.placement import reservation
from modelplane.placement.cluster_info import make_cluster_info
from modelplane.placement.filters import fit_engine
from modelplane.placement.offers import first_fit
from modelplane.placement.pool_usage import is_safe
from modelplane.placement.request import EngineRequest, MemberRequest, ScoreWeights
from modelplane.placement.reservation import Unassignable, assign_engines
from modelplane.placement.schedule import schedule, survey
from modelplane.placement.snapshot import Fleet
from modelplane.placement.values import Packing, Price
from modelplane.testing.fleets import (
    assignment,
    claim,
    cluster,
    engine,
    hardware,
    kind,
    place,
    pool,
    product_is,
    replica,
    request,
)

TWO_CLASSES = hardware(kind("a", 1, product="A", device_class="a.class"), kind("b", 4, product="B", device_class="b"))


def gang(name="main", *members):
    return EngineRequest(name, 1, tuple(MemberRequest(nodes, requests) for nodes, requests in members))


def pools_of(decided):
    return [[found.pool for found in p.replica.assignments] for p in decided.placements]


def classes_of(placed):
    return [
        [found.device_class for member in engine_.members for found in member.claims]
        for engine_ in placed.replica.assignments
    ]


def test_an_engine_leaves_another_the_only_device_that_suits_it():
    wanted = engine(request(1), name="x"), engine(request(1, product_is("A")), name="y")
    (placed,) = schedule(place(1, *wanted), Fleet.of([cluster("c", pool("p", 1, TWO_CLASSES))])).placements
    assert classes_of(placed) == [["b"], ["a.class"]]


def test_all_members_of_a_gang_may_take_another_class_than_the_first():
    held = replica("c", 0, assignment("p", claim(1, device_class="a.class")), name="other", serving=True)
    wanted = gang("main", (1, (request(1),)), (1, (request(1),)))
    fleet = Fleet.of([cluster("c", pool("p", 1, TWO_CLASSES))], [held])
    (placed,) = schedule(place(1, wanted), fleet).placements
    assert classes_of(placed) == [["b", "b"]]


def test_a_search_that_ran_out_of_budget_says_that_nothing_is_proven(monkeypatch):
    monkeypatch.setattr(reservation, "ASSIGNMENT_BUDGET", 2)
    wanted = [engine(request(1, product_is("A")), name=f"e{at}") for at in range(3)]
    crowded = Fleet.of([cluster("c", pool("p", 1, TWO_CLASSES), pool("q", 1, TWO_CLASSES))])
    found = schedule(place(1, *wanted), crowded).trace.candidates()
    assert [(c.filter, c.reason) for c in found if c.pool is None] == [
        ("Pools", "each of the 3 engines fits alone, together not proven: search budget of 2 steps reached")
    ]
    monkeypatch.undo()
    found = schedule(place(1, *wanted), crowded).trace.candidates()
    assert [c.reason for c in found if c.pool is None] == [
        "each of the 3 engines fits alone, but they do not fit together"
    ]


def assigned(pools, sizes, refused=None):
    """Where engines that request so many devices go on pools of so many nodes: a letter for each, in every way."""
    info = make_cluster_info(cluster("c", *(pool(name, nodes) for name, (nodes, _) in pools.items())))
    kinds = [
        msgspec.structs.replace(kind, price=price and Price(*price))
        for kind, (_, price) in zip(info.kinds, pools.values(), strict=True)
    ]
    engines = [engine(request(size), name=f"e{size}") for size in sizes]
    found = assign_engines(
        engines, kinds, info.usages, lambda *asked: (refused or {}).get(asked[0].name) or first_fit(*asked)
    )
    return (
        found
        if isinstance(found, Unassignable)
        else ["".join(list(pools)[each.position] for each in one) for one in found]
    )


@pytest.mark.parametrize(
    ("pools", "sizes", "expected"),
    [
        pytest.param(
            {"a": (1, (16.0, "USD")), "b": (3, (2.0, "USD")), "c": (2, (1.0, "USD"))},
            *((1, 2), ["bb", "bc", "ba", "cb", "cc"]),
            id="the cheapest come last where others are roomier",
        ),
        pytest.param(
            {"a": (1, (16.0, "USD")), "b": (1, (8.0, "USD")), "c": (3, (1.0, "USD"))},
            *((2, 8), ["cc", "ca", "cb", "ac", "bc"]),
            id="the roomiest is the cheapest",
        ),
        pytest.param(
            {"a": (2, (2.0, "EUR")), "b": (1, None), "c": (1, None)},
            *((4, 1), ["aa", "ab", "ba", "bb", "bc"]),
            id="two have no price",
        ),
        pytest.param({"a": (1, (16.0, "USD")), "b": (1, None)}, (8, 8), ["ab"], id="each takes a pool"),
        pytest.param(
            {"a": (2, (16.0, "USD")), "b": (1, (8.0, "EUR")), "c": (2, (1.0, "USD"))},
            *((8, 8), ["aa", "ac", "ab", "cc", "cb"]),
            id="two currencies",
        ),
    ],
)
def test_the_emptiest_pools_come_first_and_then_cheaper_ones(pools, sizes, expected):
    assert assigned(pools, sizes) == expected


@pytest.mark.parametrize(("steps", "found"), [(0, 2), (1, 2), (2, 3), (256, 4)])
def test_a_search_that_has_found_something_ends_soon(monkeypatch, steps, found):
    monkeypatch.setattr(reservation, "_STEPS_TO_IMPROVE", steps)
    assert assigned({"a": (3, None), "b": (2, None)}, (1, 2)) == ["aa", "ab", "ba", "bb"][:found]


TWO_WHOLE = [engine(request(8), name=name) for name in "xy"]


@pytest.mark.parametrize(
    ("other", "may_pass"),
    [
        pytest.param({"nodes": 0}, False, id="there is no more"),
        pytest.param({"nodes": 1}, True, id="another holds a node"),
        pytest.param({"nodes": 0, "desired_nodes": 1}, True, id="a node is missing"),
    ],
)
def test_engines_that_do_not_fit_together_may_do_so_once_all_nodes_are_there_and_free(other, may_pass):
    pools = pool("p", 1), msgspec.structs.replace(pool("q", 0), **other)
    held = [replica("c", 0, assignment("q", claim(8)), name="other")] if other["nodes"] else []
    info = make_cluster_info(cluster("c", *pools), held)
    found = assign_engines(TWO_WHOLE, info.kinds, info.usages, fit_engine)
    code = RefusalCode.UNSCHEDULABLE if may_pass else RefusalCode.UNRESOLVABLE
    text = "each of the {} engines fits alone, but they do not fit together"
    assert found.refusal == Refusal("Pools", code, text, (2,))


def test_what_was_tried_in_part_only_is_no_proof():
    """One engine has more allocations than are tried. Both fit alone, and not on one node."""
    both = hardware(kind("a", 9, product="A", device_class="a"), kind("b", 9, product="B", device_class="b"))
    many = gang("many", *((1, (request(1),)) for _ in range(9)))
    all_ = engine(request(9, product_is("A"), name="a"), request(9, product_is("B"), name="b"), name="all")
    info = make_cluster_info(cluster("c", pool("p", 1, both)))
    found = assign_engines([many, all_], info.kinds, info.usages, fit_engine)
    text = "each of the {} engines fits alone, together not proven: search budget of {} steps reached"
    assert found.refusal == Refusal("Pools", RefusalCode.UNSCHEDULABLE, text, (2, reservation.ASSIGNMENT_BUDGET))


def test_the_engine_that_no_pool_will_ever_take_is_named():
    full, small = (Refusal("F", code, code) for code in (RefusalCode.UNSCHEDULABLE, RefusalCode.UNRESOLVABLE))
    found = assigned({"a": (1, None)}, (8, 9), {"e8": full, "e9": small})
    whole = Refusal("Pools", RefusalCode.UNRESOLVABLE, "0 of {} pools can take engine {}", (1, "e9"))
    assert (found.refusal, found.pools) == (whole, (("e8", 0, full), ("e9", 0, small)))


DISAGGREGATED = engine(request(2), name="decode"), engine(request(2), name="prefill")


def priced(*, dear=800.0, cheap=8.0, nodes=2):
    return cluster("c", pool("a-dear", nodes, price=dear), pool("b-cheap", 2, price=cheap))


def test_several_engines_go_where_the_price_is_lower():
    fleet = Fleet.of([priced()])
    assert pools_of(schedule(place(1, *DISAGGREGATED), fleet)) == [["b-cheap", "b-cheap"]]


@pytest.mark.parametrize(
    ("weights", "pools"),
    [
        (ScoreWeights(price=100, spread=0, headroom=0), ["b-cheap", "b-cheap"]),
        (ScoreWeights(price=0, spread=0, headroom=1), ["a-dear", "a-dear"]),
    ],
)
def test_weights_decide_between_price_and_headroom(weights, pools):
    fleet = Fleet.of([priced(nodes=20)])
    assert pools_of(schedule(place(1, *DISAGGREGATED, weights=weights), fleet)) == [pools]


def test_an_explanation_shows_what_other_pools_would_cost():
    found = survey(place(1, *DISAGGREGATED), Fleet.of([priced()])).trace.candidates()
    assert {c.reason for c in found if c.pool is None} == {
        "pools a-dear, b-cheap; 202 USD per hour",
        "pools b-cheap, a-dear; 202 USD per hour",
        "pools a-dear, a-dear; 400 USD per hour",
        "pools b-cheap, b-cheap; 4 USD per hour",
    }


# An independent search: every pool for each engine, every class for each request, every node for each pod.

KINDS = (("a", "A", "one"), ("c", "C", "one"), ("b", "B", "two"))
SUITS = {None: "ABC", "A": "A", "B": "B", "AB": "AB"}
SELECTORS = {
    None: (),
    "A": (product_is("A"),),
    "B": (product_is("B"),),
    "AB": (f"{product_is('A')} || {product_is('B')}",),
}


def suitable(selector, device_class):
    """The products of a class that a selector matches, in order."""
    return "".join(product for _, product, known in KINDS if known == device_class and product in SUITS[selector])


@cache
def node_takes(pods, counts):
    """Whether one node can serve the demands of some pods: each (count, products), by handing out devices."""
    demands = [demand for pod in pods for demand in pod]

    def serve(at, free):
        if at == len(demands):
            return True
        count, products = demands[at]
        usable = [p for p in products if free.get(p)]
        for taken in itertools.product(*(range(min(count, free[p]) + 1) for p in usable)):
            if sum(taken) == count:
                less = {**free, **{p: free[p] - n for p, n in zip(usable, taken, strict=True)}}
                if serve(at + 1, less):
                    return True
        return False

    return size_of(pods) <= sum(dict(counts).values()) and serve(0, dict(counts))


def size_of(pods):
    return sum(count for pod in pods for count, _ in pod)


@cache
def packs(pods, counts, nodes):
    """Whether the pods can be put on the nodes: every node is tried for every pod."""

    def put(at, filled):
        if at == len(pods):
            return True
        for node in {held: node for node, held in enumerate(filled)}.values():
            more = tuple(sorted((*filled[node], pods[at])))
            if node_takes(more, counts) and put(at + 1, (*filled[:node], more, *filled[node + 1 :])):
                return True
        return False

    return size_of(pods) <= nodes * sum(dict(counts).values()) and put(0, ((),) * nodes)


def safe(pods, counts, nodes):
    """The rule of design 0003 for the pods, written as the ledger writes them."""
    if not all(node_takes((pod,), tuple(sorted(counts.items()))) for pod in pods):
        return False
    names = [product for _, product, _ in sorted(KINDS) if counts.get(product)]
    shapes = {}
    for pod in pods:
        merged = {}
        for count, products in pod:
            mask = sum(1 << at for at, product in enumerate(names) if product in products)
            merged[mask] = merged.get(mask, 0) + count
        shape = tuple(sorted((count, mask) for mask, count in merged.items()))
        shapes[shape] = shapes.get(shape, 0) + 1
    return is_safe(tuple(counts[name] for name in names), nodes, tuple(sorted(shapes.items())))


class SmallPool(msgspec.Struct, frozen=True):
    counts: dict[str, int]
    nodes: int

    def made(self, name):
        kinds = [kind(k, self.counts[p], product=p, device_class=c) for k, p, c in KINDS if self.counts.get(p)]
        return pool(name, self.nodes, hardware(*kinds))

    def admits(self, pods, *, bin_pack):
        if bin_pack:
            return packs(tuple(sorted(pods)), tuple(sorted(self.counts.items())), self.nodes)
        return safe(pods, self.counts, self.nodes)


class SmallEngine(msgspec.Struct, frozen=True):
    members: tuple[tuple[int, tuple[tuple[int, str | None], ...]], ...]
    """Pods and requests of each member; a request is a count and a selector."""

    def made(self, name):
        return EngineRequest(
            name,
            1,
            tuple(
                MemberRequest(nodes, tuple(request(c, *SELECTORS[s], name=f"r{at}") for at, (c, s) in enumerate(asked)))
                for nodes, asked in self.members
            ),
        )

    def ways(self):
        """Every choice of a class for each request of each member, as lists of pods."""
        per_member = []
        for nodes, asked in self.members:
            choices = itertools.product(*([(c, suitable(s, cls)) for cls in ("one", "two")] for c, s in asked))
            pods = {tuple(sorted(pod)) for pod in choices if all(products for _, products in pod)}
            per_member.append([[pod] * nodes for pod in sorted(pods)])
        return [list(itertools.chain(*chosen)) for chosen in itertools.product(*per_member)]


def pods_on(fleet_info):
    """The pods of each pool as the placed replicas claim them."""
    found = {p.name: [] for p in fleet_info.pools}
    for placed in fleet_info.held.values():
        for where in placed.assignments:
            for member in where.members:
                pod = tuple((c.count, suitable(_selector(c), c.device_class)) for c in member.claims)
                found[where.pool] += [pod] * member.pods
    return found


def _selector(found):
    return next(name for name, selectors in SELECTORS.items() if selectors == found.selectors)


def can_take(pools, held, engines, *, bin_pack):
    """Whether some cluster state can take one more replica, by trying everything."""
    if not engines:
        return True
    first, *rest = engines
    for name, way in itertools.product(pools, first.ways()):
        more = [*held[name], *way]
        if pools[name].admits(more, bin_pack=bin_pack) and can_take(
            pools, {**held, name: more}, rest, bin_pack=bin_pack
        ):
            return True
    return False


small_pools = st.builds(
    SmallPool,
    st.fixed_dictionaries({"A": st.integers(0, 2), "C": st.integers(0, 1), "B": st.integers(1, 3)}).map(
        lambda counts: {product: count for product, count in counts.items() if count}
    ),
    st.integers(1, 2),
)
small_requests = st.lists(
    st.tuples(st.integers(1, 2), st.sampled_from([None, None, "A", "B", "AB"])), min_size=1, max_size=2
).map(tuple)
small_engines = st.builds(
    SmallEngine, st.lists(st.tuples(st.integers(1, 2), small_requests), min_size=1, max_size=2).map(tuple)
)
held_claims = st.lists(
    st.tuples(st.integers(1, 2), st.sampled_from([None, "A", "B", "AB"]), st.sampled_from(["one", "two"])), max_size=2
)


@st.composite
def small_worlds(draw):
    pools = {f"p{at}": found for at, found in enumerate(draw(st.lists(small_pools, min_size=1, max_size=2)))}
    bin_pack = draw(st.booleans())
    held = []
    for at, (count, selector, device_class) in enumerate(draw(held_claims)):
        name = draw(st.sampled_from(sorted(pools)))
        pod = ((count, suitable(selector, device_class)),)
        others = [h.pod for h in held if h.pool == name]
        if pod[0][1] and pools[name].admits([*others, pod], bin_pack=bin_pack):
            held.append(_Held(name, at, claim(count, *SELECTORS[selector], device_class=device_class), pod))
    engines = draw(st.lists(small_engines, min_size=1, max_size=2))
    return pools, held, engines, bin_pack, draw(st.integers(1, 3))


class _Held(msgspec.Struct, frozen=True):
    pool: str
    index: int
    claim: object
    pod: tuple[tuple[int, str], ...]


@pytest.mark.slow
@settings(max_examples=300)
@given(small_worlds())
def test_nothing_waits_that_fits_and_nothing_is_promised_twice(world):
    pools, held, engines, bin_pack, wanted = world
    packing = Packing.BIN_PACK if bin_pack else Packing.ANY
    where = cluster("c", *(found.made(name) for name, found in pools.items()), packing=packing)
    fleet = Fleet.of(
        [where], [replica("c", h.index, assignment(h.pool, h.claim), name="other", serving=True) for h in held]
    )
    asked = place(wanted, *(found.made(f"e{at}") for at, found in enumerate(engines)))
    decided = schedule(asked, fleet)
    after = fleet.with_replicas([p.replica for p in decided.placements])
    pods = pods_on(after.infos["c"])
    assert all(pools[name].admits(found, bin_pack=bin_pack) for name, found in pods.items())
    if decided.pending:
        assert not can_take(pools, pods, engines, bin_pack=bin_pack)


def test_the_oracle_packs_as_one_would_by_hand():
    counts = (("A", 1), ("B", 2))
    assert packs((((1, "A"),), ((2, "B"),)), counts, 1)
    assert not packs((((1, "A"),), ((1, "A"),)), counts, 1)


@pytest.mark.parametrize(
    ("room", "cost", "expected"),
    [
        pytest.param(0.5, (2.0, 0.0), True, id="the same"),
        pytest.param(0.4, (3.0, 1.0), True, id="roomier and cheaper"),
        pytest.param(0.6, (2.0, 0.0), False, id="as cheap, with less room"),
        pytest.param(0.6, (3.0, 1.0), False, id="cheaper, with less room"),
        pytest.param(0.4, (1.0, 0.0), False, id="roomier, and dearer"),
        pytest.param(0.4, (3.0, -1.0), False, id="cheaper in one currency only"),
        pytest.param(0.5 + 5e-10, (2.0 - 5e-10, 0.0), True, id="the same but for rounding"),
        pytest.param(0.5, (2.0, -1e-9), True, id="as much as rounding may be"),
    ],
)
def test_a_branch_beats_what_is_neither_roomier_nor_cheaper(room, cost, expected):
    known = reservation._Branch((), (), 0.5, (2.0, 0.0))
    assert reservation._beats(known, room, cost) is expected


def test_a_known_branch_may_have_less_room_by_as_much_as_rounding_may_be():
    known = reservation._Branch((), (), 0.0, (2.0,))
    assert [reservation._beats(known, room, (2.0,)) for room in (1e-9, 2e-9)] == [True, False]
