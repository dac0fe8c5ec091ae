"""`modelplane catalog`: its table is that of the other commands."""

import json

import yaml

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
    said = "modelplane catalog: no node of the catalogue has all these words; `modelplane catalog list` shows all\n"
    assert capsys.readouterr().err == said


def test_nodes_are_data(capsys):
    found = {}
    for form in ("json", "yaml", "name"):
        assert main(["catalog", "search", "h200", "efa", "-o", form]) == 0
        found[form] = capsys.readouterr().out
    rows = json.loads(found["json"])
    assert rows == yaml.safe_load(found["yaml"])
    assert found["name"].split() == [f"inferenceclass.modelplane.ai/{row['class']}" for row in rows]
    assert {row["gpus"] for row in rows} == {"8 h200"}


def test_without_a_verb_all_nodes_are_listed(capsys):
    assert main(["catalog"]) == main(["catalog", "list"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[: len(shown) // 2] == shown[len(shown) // 2 :]
    assert len(shown) > 40
