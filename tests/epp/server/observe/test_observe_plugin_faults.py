"""A plugin that fails shows: one log line an interval with its traceback, and a count."""

from modelplane.epp.server.observe.plugin_faults import PluginFaults
from modelplane.framework import PluginFault
from modelplane.framework.faults import raised


def breaks():
    raise RuntimeError("boom")


def fault(plugin):
    try:
        breaks()
    except RuntimeError as error:
        return raised(plugin, error)


def test_the_first_fault_of_an_interval_is_logged_with_its_traceback(caplog):
    now = [0.0]
    faults = PluginFaults(lambda: now[0], every_s=60.0)
    for at, plugin in ((0.0, "a"), (1.0, "a"), (2.0, "b"), (59.9, "a"), (60.0, "a")):
        now[0] = at
        faults.report(fault(plugin))
    assert [record.getMessage() for record in caplog.records] == [
        "plugin a: raised RuntimeError: boom",
        "plugin b: raised RuntimeError: boom",
        "plugin a: raised RuntimeError: boom (3 faults since 60 s ago)",
    ]
    assert faults.counts == {"a": 4, "b": 1}
    assert 'raise RuntimeError("boom")' in caplog.text


def test_a_broken_contract_has_no_cause_and_is_logged_too(caplog):
    PluginFaults(lambda: 0.0).report(PluginFault("a", "scored 2, which is not in [0, 1]"))
    assert [record.getMessage() for record in caplog.records] == ["plugin a: scored 2, which is not in [0, 1]"]


def test_a_line_names_the_plugin(caplog):
    PluginFaults(lambda: 0.0).report(fault("a"))
    assert [record.fields for record in caplog.records] == [{"reason": "PluginFault", "plugin": "a"}]
