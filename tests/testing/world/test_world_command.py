import pytest

from modelplane.compose import model_deployment
from modelplane.testing.world.command import main, required_probes
from modelplane.testing.world.faults import FAULTS


def test_a_seed_is_told_as_a_story(capsys):
    assert main(["--seed", "1"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "world 1:"
    assert "the faults end" in told[-2]
    assert told[-1].startswith("  quiet after ")


def test_a_world_that_fails_says_what_was_violated_and_how_to_see_it_again(capsys, monkeypatch):
    def broken(*_, **__):
        raise KeyError("x")

    monkeypatch.setattr(model_deployment, "schedule", broken)
    assert main(["--seed", "1", "--fault", "scale"]) == 1
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "  violated raised: KeyError: 'x'",
        "replay: python -m modelplane.testing.world --seed 1 --fault scale",
    ]


@pytest.mark.slow
def test_many_worlds_end_with_the_probes_that_were_never_hit(capsys):
    assert main(["--worlds", "4", "--processes", "1"]) == 1
    told = capsys.readouterr().out
    assert "4 worlds, " in told
    assert "never happened: " in told


def test_what_is_rare_is_asked_of_many_worlds_only():
    few, many = set(required_probes(500)), set(required_probes(20_000))
    assert few == {f"fault {fault.name}" for fault in FAULTS} - {"fault volume-deleted"}
    assert many - few >= {"fault volume-deleted", "serving replica deleted: enough others serve"}
