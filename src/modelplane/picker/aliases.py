"""Other names of plugin types: the fleet's picker chooses clusters as a pool's picker chooses servers."""

from modelplane.picker.catalogue import plugin_type
from modelplane.picker.memory.approx_producer import ApproxPrefixParameters, ApproxPrefixProducer
from modelplane.picker.memory.sessions import SessionAffinityFilter, SessionAffinityParameters

TYPES = (
    plugin_type("multicluster-session-affinity-filter", SessionAffinityFilter, SessionAffinityParameters),
    plugin_type(
        "multicluster-approx-prefix-cache-producer", ApproxPrefixProducer, ApproxPrefixParameters, gives="prefix"
    ),
)
