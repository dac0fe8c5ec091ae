"""The router's default profile, an `EndpointPickerConfig`: the picker's scheduler over the router's plugins.

A configuration of one's own may use any plugin of the picker beside those of the router.
"""

from functools import cache
from typing import Final

from modelplane.epp.config.config import Config, load
from modelplane.epp.scheduling.scheduler import Scheduler
from modelplane.epp.server.third_party import full_registry
from modelplane.framework.registry import Registry
from modelplane.router import choosing, filters

DEFAULT: Final = """\
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- {type: ready-endpoint-filter}
- {type: residency-filter}
- {type: held-adapter-filter}
- {type: untried-endpoint-filter}
- {type: endpoint-health-filter}
- {type: priority-tier-filter}
- {type: group-share-filter}
- {type: approx-prefix-cache-producer, parameters: {autoTune: false, blockSizeTokens: 64, lruCapacityPerServer: 65536}}
- {type: prefix-cache-scorer, parameters: {matchLengthWeight: 1.0, matchLengthScaleTokens: 2048}}
- {type: session-affinity-scorer, parameters: {strategy: session_id, sessionIdConfig: {evictionTtlSeconds: 600}}}
- {type: group-load-scorer}
- {type: group-share-picker}
schedulingProfiles:
- name: service
  plugins:
  - {pluginRef: ready-endpoint-filter}
  - {pluginRef: residency-filter}
  - {pluginRef: held-adapter-filter}
  - {pluginRef: untried-endpoint-filter}
  - {pluginRef: endpoint-health-filter}
  - {pluginRef: priority-tier-filter}
  - {pluginRef: group-share-filter}
  - {pluginRef: prefix-cache-scorer, weight: 3}
  - {pluginRef: session-affinity-scorer, weight: 4}
  - {pluginRef: group-load-scorer, weight: 1}
  - {pluginRef: group-share-picker}
"""


@cache
def router_registry() -> Registry:
    """Every plugin type that a router's configuration may name."""
    return full_registry().extended([*filters.TYPES, *choosing.TYPES])


def load_profile(text: str | bytes = DEFAULT, source: str = "the default profile") -> Config:
    """A configuration for the router. InputError where it is none."""
    return load(text, source, router_registry())


def make_scheduler(config: Config) -> Scheduler:
    return Scheduler(config.build())
