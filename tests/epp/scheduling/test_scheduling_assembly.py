"""What a reload keeps: stateful plugins whose settings are the same."""

import pytest

from modelplane.epp.config.config import load

CONFIG = """apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: approx-prefix-cache-producer
  name: index
- type: session-affinity-scorer
- type: queue-scorer
- type: random-picker
- type: single-profile-handler
"""


EVERYWHERE = """apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: probabilistic-admitter
- type: p2p-source-producer
- type: predicted-latency-producer
- type: session-affinity-scorer
- type: queue-scorer
- type: random-picker
- type: single-profile-handler
"""


@pytest.mark.parametrize(
    ("point", "expected"),
    [
        ("producers", ["approx-prefix-cache-producer", "predicted-latency-producer"]),
        ("admitters", ["probabilistic-admitter"]),
        (
            "pre_request",
            [
                "approx-prefix-cache-producer",
                "inflight-load-producer",
                "p2p-source-producer",
                "predicted-latency-producer",
                "session-affinity-scorer",
            ],
        ),
        ("response_headers", ["session-affinity-scorer"]),
        ("response_received", ["inflight-load-producer"]),
        ("response_complete", ["approx-prefix-cache-producer", "inflight-load-producer", "predicted-latency-producer"]),
        (
            "endpoints_changed",
            ["approx-prefix-cache-producer", "predicted-latency-producer", "session-affinity-scorer"],
        ),
    ],
)
def test_each_plugin_is_asked_at_its_extension_points_and_at_no_other(point, expected):
    assert sorted(plugin.name for plugin in getattr(load(EVERYWHERE).build(), point)) == expected


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        pytest.param(("", ""), ["index", "session-affinity-scorer"], id="nothing changed"),
        pytest.param(("name: index", "name: other"), ["session-affinity-scorer"], id="another name"),
        pytest.param(
            ("name: index", "name: index\n  parameters: {blockSizeTokens: 64}"),
            ["session-affinity-scorer"],
            id="other parameters",
        ),
        pytest.param(("approx-", "precise-"), ["session-affinity-scorer"], id="another type"),
        pytest.param(("- type: session-affinity-scorer\n", ""), ["index"], id="one less"),
    ],
)
def test_a_reload_keeps_stateful_plugins_with_equal_settings(change, kept):
    before = load(CONFIG).build()
    after = load(CONFIG.replace(*change)).build(before)
    assert [name for name, plugin in after.plugins.items() if plugin is before.plugins.get(name)] == kept
