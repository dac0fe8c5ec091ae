"""Other names of plugin types.

The fleet's picker chooses clusters as a pool's picker chooses servers, by the same plugins; and some types have been
renamed.
"""

import msgspec

from modelplane.picker.catalogue import PluginType, plugin_type
from modelplane.picker.flow import types as flow
from modelplane.picker.memory.approx_producer import ApproxPrefixParameters, ApproxPrefixProducer
from modelplane.picker.memory.sessions import SessionAffinityFilter, SessionAffinityParameters


def _renamed(name: str, new: str) -> PluginType:
    found = next(each for each in flow.TYPES if each.name == name)
    return msgspec.structs.replace(found, name=new)


TYPES = (
    _renamed("eviction-sheddable-filter", "sheddable-eviction-filter"),
    _renamed("eviction-priority-then-time-ordering", "priority-then-time-eviction-order-policy"),
    plugin_type("multicluster-session-affinity-filter", SessionAffinityFilter, SessionAffinityParameters),
    plugin_type(
        "multicluster-approx-prefix-cache-producer", ApproxPrefixProducer, ApproxPrefixParameters, gives="prefix"
    ),
)
