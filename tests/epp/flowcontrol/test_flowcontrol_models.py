"""The order of dispatch against plain models of each policy, which read all queued requests each time."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from modelplane.epp.flowcontrol import BandSettings, FlowControl, FlowSettings
from modelplane.epp.flowcontrol.fairness import RoundRobin, Strict, TokenFair, TokenFairParameters
from modelplane.epp.flowcontrol.ordering import EarliestDeadline, EarliestGoal, FirstCome
from modelplane.epp.scheduling.requests import Request

ORDERINGS = {
    "arrival": (FirstCome("o"), lambda _ticket: 0.0),
    "deadline": (EarliestDeadline("o"), lambda ticket: ticket.arrived_s + 60.0),
    "goal": (
        EarliestGoal("o"),
        lambda ticket: ticket.arrived_s + goal if (goal := ticket.request.ttft_goal_s) else float("inf"),
    ),
}


class StrictModel:
    def __init__(self, key) -> None:
        self.key, self.waiting = key, []

    def add(self, ticket) -> None:
        self.waiting.append(ticket)

    def take(self):
        chosen = min(self.waiting, key=lambda ticket: (-ticket.priority, self.key(ticket), ticket.number))
        self.waiting.remove(chosen)
        return chosen

    def lose(self, ticket) -> None:
        self.waiting.remove(ticket)


class TurnsModel(StrictModel):
    """For each priority a list of tenants in the order of their turns."""

    def __init__(self, key) -> None:
        super().__init__(key)
        self.turns: dict[int, list[str]] = {}

    def add(self, ticket) -> None:
        super().add(ticket)
        turns = self.turns.setdefault(ticket.priority, [])
        if ticket.fairness_id not in turns:
            turns.append(ticket.fairness_id)

    def take(self):
        priority = max(ticket.priority for ticket in self.waiting)
        turns = self.turns[priority]
        while True:
            fairness_id = turns.pop(0)
            own = [each for each in self.waiting if each.priority == priority and each.fairness_id == fairness_id]
            if own:
                chosen = min(own, key=lambda ticket: (self.key(ticket), ticket.number))
                self.waiting.remove(chosen)
                if len(own) > 1:
                    turns.append(fairness_id)
                return chosen


class SharesModel(StrictModel):
    """Virtual times in exact fractions. A tenant is in the row from its first ticket until its turn finds none."""

    def __init__(self, key, weights) -> None:
        super().__init__(key)
        self.weights, self.rows = weights, {}

    def add(self, ticket) -> None:
        super().add(ticket)
        row = self.rows.setdefault(ticket.priority, {"time": Fraction(0), "tags": {}, "in": {}, "entered": 0})
        if ticket.fairness_id not in row["in"]:
            self.enter(row, ticket.fairness_id, max(row["time"], row["tags"].pop(ticket.fairness_id, Fraction(0))))

    @staticmethod
    def enter(row, fairness_id, start) -> None:
        row["entered"] += 1
        row["in"][fairness_id] = (start, row["entered"])

    def leave(self, row, fairness_id, start) -> None:
        del row["in"][fairness_id]
        if not row["in"]:
            row["time"] = max(row["time"], start)
            row["tags"].clear()
        elif start > row["time"]:
            row["tags"][fairness_id] = start

    def take(self):
        priority = max(ticket.priority for ticket in self.waiting)
        row = self.rows[priority]
        while True:
            fairness_id = min(row["in"], key=lambda name: row["in"][name])
            start = row["in"][fairness_id][0]
            own = [each for each in self.waiting if each.priority == priority and each.fairness_id == fairness_id]
            if not own:
                self.leave(row, fairness_id, start)
                continue
            chosen = min(own, key=lambda ticket: (self.key(ticket), ticket.number))
            self.waiting.remove(chosen)
            row["time"] = max(row["time"], start)
            after = start + Fraction(max(1, chosen.tokens)) / self.weights.get(fairness_id, 1)
            if len(own) > 1:
                self.enter(row, fairness_id, after)
            else:
                self.leave(row, fairness_id, after)
            return chosen


steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("offer"),
            st.integers(0, 1),
            st.sampled_from("abcd"),
            st.sampled_from([0, 4, 8, 40]),
            st.integers(0, 3),
        ),
        st.tuples(st.just("take")),
        st.tuples(st.just("lose"), st.integers(0, 20)),
    ),
    max_size=60,
)


def compare(policy, model, ordering, steps) -> None:
    flow = FlowControl(FlowSettings(default_band=BandSettings(0, 0, policy, ordering)))
    for at, (kind, *told) in enumerate(steps):
        if kind == "offer":
            priority, fairness_id, length, goal = told
            request = Request(
                "r", priority=priority, fairness_id=fairness_id, prompts=(b"x" * length,), ttft_goal_s=float(goal)
            )
            model.add(flow.enqueue(request, float(at)))
        elif kind == "lose" and model.waiting:
            ticket = model.waiting[told[0] % len(model.waiting)]
            model.lose(ticket)
            assert flow.abandon(ticket, float(at))
        elif kind == "take":
            expected = model.take() if model.waiting else None
            assert flow.dispatch(float(at), 0.0, 1) is expected
    while model.waiting:
        assert flow.dispatch(1e3, 0.0, 1) is model.take()
    assert flow.dispatch(1e3, 0.0, 1) is None


@given(steps, st.sampled_from(sorted(ORDERINGS)))
def test_one_order_over_all(steps, ordering):
    policy, key = ORDERINGS[ordering]
    compare(Strict("s"), StrictModel(key), policy, steps)


@given(steps, st.sampled_from(sorted(ORDERINGS)))
def test_turns(steps, ordering):
    policy, key = ORDERINGS[ordering]
    compare(RoundRobin("r"), TurnsModel(key), policy, steps)


@given(steps, st.sampled_from(sorted(ORDERINGS)))
def test_shares_of_tokens(steps, ordering):
    policy, key = ORDERINGS[ordering]
    weights = {"a": 2.0, "b": 0.5}
    parameters = TokenFairParameters(weights=weights, output_token_weight=0.0)
    exact = {fairness_id: Fraction(weight) for fairness_id, weight in weights.items()}
    compare(TokenFair("t", parameters), SharesModel(key, exact), policy, steps)
