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
