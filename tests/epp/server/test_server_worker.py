"""The program of a worker, by itself."""

from modelplane.epp.server.worker import main


def test_it_says_what_it_is_a_part_of(capsys):
    assert main(["worker"]) == 2
    assert capsys.readouterr().err == "this is a part of `modelplane picker serve --workers N`\n"
