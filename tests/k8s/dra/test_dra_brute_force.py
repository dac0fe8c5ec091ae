"""Partitions and shares against every assignment of devices to requests, worked out without the allocator."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from modelplane.k8s.dra import Allocated, NoFit
from modelplane.testing.devices import (
    DRIVER,
    a_claim,
    a_device,
    a_pool,
    a_request,
    a_slice,
    allocated_by,
    in_use,
    shareable,
)

PROFILES = {"1g": 1, "3g": 3, "7g": 7}
SLICES = 7


@st.composite
def partitioned(draw):
    """GPUs of seven slices, partitions of which some are held, and requests for partitions of a profile or any."""
    gpus = draw(st.integers(1, 2))
    offered = draw(
        st.lists(st.tuples(st.integers(0, gpus - 1), st.sampled_from(sorted(PROFILES))), min_size=1, max_size=6)
    )
    held = draw(st.lists(st.sampled_from([False, False, True]), min_size=len(offered), max_size=len(offered)))
    wanted = draw(st.lists(st.tuples(st.sampled_from(["", *PROFILES]), st.integers(1, 2)), min_size=1, max_size=3))
    return gpus, offered, held, wanted


def partition(name, gpu, profile):
    consumed = [{"counterSet": f"gpu-{gpu}", "counters": {"slices": {"value": str(PROFILES[profile])}}}]
    return {**a_device(name, profile=profile), "consumesCounters": consumed}


def of_profile(profile):
    return [f'device.attributes["{DRIVER}"].profile == "{profile}"'] if profile else []


def drawn(gpus, offered, chosen):
    """The slices of each GPU that some partitions draw."""
    return [sum(PROFILES[offered[at][1]] for at in chosen if offered[at][0] == gpu) for gpu in range(gpus)]


def can_serve(gpus, offered, held, wanted):
    taken = [at for at, is_held in enumerate(held) if is_held]
    # With more held than there is, upstream gives out nothing of the pool.
    if any(slices > SLICES for slices in drawn(gpus, offered, taken)):
        return False
    free = [at for at in range(len(offered)) if at not in taken]

    def serve(position, used):
        if position == len(wanted):
            return all(slices <= SLICES for slices in drawn(gpus, offered, used))
        profile, count = wanted[position]
        fitting = [at for at in free if at not in used and (not profile or offered[at][1] == profile)]
        return any(serve(position + 1, [*used, *chosen]) for chosen in itertools.combinations(fitting, count))

    return serve(0, taken)


@settings(max_examples=80)
@given(partitioned())
def test_partitions_are_allocated_exactly_when_their_counters_allow_it(problem):
    gpus, offered, held, wanted = problem
    counters = [{"name": f"gpu-{gpu}", "counters": {"slices": {"value": str(SLICES)}}} for gpu in range(gpus)]
    devices = [partition(f"d{at}", *each) for at, each in enumerate(offered)]
    slices = [
        a_slice(devices, "devices", pool=a_pool(slices=2)),
        a_slice(None, "counters", sharedCounters=counters, pool=a_pool(slices=2)),
    ]
    claim = a_claim(*(a_request(f"r{at}", *of_profile(p), count=count) for at, (p, count) in enumerate(wanted)))
    taken = [at for at, is_held in enumerate(held) if is_held]
    outcome = allocated_by([claim], slices, allocated=[in_use(f"d{at}") for at in taken])
    assert isinstance(outcome, Allocated if can_serve(*problem) else NoFit), outcome
    if isinstance(outcome, Allocated):
        everything = [*taken, *(int(device.device.device[1:]) for device in outcome.claims[0].devices)]
        assert len(everything) == len(set(everything))
        assert all(each <= SLICES for each in drawn(gpus, offered, everything))


@st.composite
def shared(draw):
    """Devices of 80Gi of which shares are held, and requests for shares, rounded up to steps perhaps."""
    held = draw(st.lists(st.sampled_from([0, 10, 50, 80]), min_size=1, max_size=3))
    wanted = draw(st.lists(st.tuples(st.sampled_from([5, 10, 30, 50, 90]), st.integers(1, 2)), min_size=1, max_size=3))
    return held, wanted, draw(st.sampled_from([None, 20]))


def rounded(amount, step):
    return amount if step is None else max(-(-amount // step) * step, step)


def can_share(held, wanted, step):
    def serve(position, left):
        if position == len(wanted):
            return True
        amount, count = rounded(wanted[position][0], step), wanted[position][1]
        fitting = [at for at, free in enumerate(left) if free >= amount]
        return any(
            serve(position + 1, [free - amount * (at in chosen) for at, free in enumerate(left)])
            for chosen in itertools.combinations(fitting, count)
        )

    return serve(0, [80 - amount for amount in held])


@settings(max_examples=80)
@given(shared())
def test_shares_are_allocated_exactly_when_the_capacity_allows_it(problem):
    held, wanted, step = problem
    policy = {"validRange": {"min": f"{step}Gi", "step": f"{step}Gi"}, "default": f"{step}Gi"} if step else None
    devices = [shareable(a_device(f"d{at}"), policy) for at in range(len(held))]
    requests = [
        a_request(f"r{at}", count=count, capacity={"requests": {"memory": f"{amount}Gi"}})
        for at, (amount, count) in enumerate(wanted)
    ]
    taken = [
        in_use(f"d{at}", shareID=f"s{at}", consumedCapacity={"memory": f"{amount}Gi"})
        for at, amount in enumerate(held)
        if amount
    ]
    outcome = allocated_by([a_claim(*requests)], [a_slice(devices)], allocated=taken)
    assert isinstance(outcome, Allocated if can_share(*problem) else NoFit), outcome
