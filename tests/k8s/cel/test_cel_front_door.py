from modelplane.k8s import cel


def test_the_front_door_is_exact():
    assert sorted(cel.__all__) == [
        *("ABSENT", "CompileError", "Evaluation", "Gates", "Outcome", "Rule", "Selector"),
        *("compile_rule", "compile_selector"),
    ]
    assert all(getattr(cel, name).__doc__ for name in cel.__all__)
