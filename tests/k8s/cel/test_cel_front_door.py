from modelplane.k8s import cel


def test_the_front_door_is_exact():
    assert sorted(cel.__all__) == [
        *("ABSENT", "CompileError", "CompiledSelector", "Evaluation", "Gates", "MAX_SELECTORS_LENGTH"),
        *("SelectorOutcome", "ValidationRule"),
        *("compile_rule", "compile_selector"),
    ]
    assert all(getattr(cel, name).__doc__ for name in cel.__all__)
