"""What is remembered, and that it is bounded."""

from modelplane.crossplane.memory import Memory


def test_memory_is_bounded_and_keeps_what_is_used():
    memory = Memory(80)
    for number in range(100):
        memory.put(number, str(number), 10)
        assert memory.get(0) == "0"
    kept = {**memory._old, **memory._young}
    assert {0, 99} <= kept.keys() <= {0, *range(91, 100)}
    assert memory.get(1) is None
