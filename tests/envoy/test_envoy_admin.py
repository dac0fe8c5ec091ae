import pytest

from modelplane.envoy.admin import Report, XdsState, last_log_lines, read_report, refusal_reason

STATS = """\
cluster_manager.cds.version_text: "c1"
http.gateway.rds.routes.version_text: "r1"
cluster_manager.cds.update_failure: 1
cluster_manager.cds.update_rejected: 2
http.gateway.rds.routes.update_failure: 0
http.gateway.rds.routes.update_rejected: 0
listener_manager.lds.update_rejected: 0
listener_manager.total_listeners_warming: 0
server.state: 0
listener_manager.lds.update_duration: No recorded values
"""


def test_a_report_has_versions_and_refusals():
    tables = {"cds": XdsState("c1", 3), "rds": XdsState("r1", 0), "lds": XdsState("", 0)}
    assert read_report(STATS) == Report(tables, ready=True)


@pytest.mark.parametrize(
    "stats",
    ["", STATS.replace("server.state: 0", "server.state: 2"), STATS.replace("warming: 0", "warming: 1")],
)
def test_envoy_is_not_ready_while_it_starts_or_a_listener_waits(stats):
    assert not read_report(stats).ready


def test_a_table_without_subscribers_has_no_version():
    assert (Report().version("rds"), Report().refusals("rds")) == ("", 0)


REFUSED = "[2026-11-15 16:43:20.443][warning][config] Filesystem config update rejected: "
WITH_RESOURCE = f"""{REFUSED}goo.gle/debugproto
name: "gw"
routes {{
}}
: Proto constraint validation failed (X: value does not match)
[2026-11-15 16:43:20.114][info][upstream] lds: remove listener 'gw'
"""


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ("", "Envoy gave no reason"),
        (f"{REFUSED}malformed IP address: x\n", "malformed IP address: x"),
        (WITH_RESOURCE, "Proto constraint validation failed (X: value does not match)"),
        (f"{REFUSED}the first\n{REFUSED}the second\n", "the second"),
    ],
)
def test_the_reason_for_a_refusal_is_found_in_the_log(log, reason):
    assert refusal_reason(log) == reason


CRITICAL = """\
[2026-11-15 16:43:20.443][critical][main] error initializing configuration: bad
[2026-11-15 16:43:20.444][info][main] exiting
"""


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("", "its log is empty"),
        ("python: cannot open file\n", "python: cannot open file"),
        (CRITICAL, "error initializing configuration: bad"),
    ],
)
def test_the_last_words_of_an_envoy_that_ended(log, words):
    assert last_log_lines(log) == words
