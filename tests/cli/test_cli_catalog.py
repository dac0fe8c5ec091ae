"""`modelplane catalog`: its table is that of the other commands."""

from modelplane.cli import main


def test_nodes_are_a_table(capsys):
    assert main(["catalog", "search", "h200", "efa"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["NODE", "GPUS", "MEMORY", "NETWORK", "FABRIC", "PRICE/H", "CLASS"]
    assert rows
    starts = [head.index(name) for name in ("GPUS", "MEMORY", "CLASS")]
    assert all(row[at - 2 : at] == "  " and row[at] != " " for row in rows for at in starts)


def test_what_is_not_there_is_said(capsys):
    assert main(["catalog", "search", "no-such-gpu"]) == 1
    assert capsys.readouterr().err == "no node of the catalogue has all these words\n"


def test_without_a_verb_all_nodes_are_listed(capsys):
    assert main(["catalog"]) == main(["catalog", "list"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[: len(shown) // 2] == shown[len(shown) // 2 :]
    assert len(shown) > 40
