"""The telemetry of a fleet: one collector a cluster, sent to by nobody's hand.

sinks               where it goes: TelemetryDestinations, checked
metric_names        which metrics of engines, pickers and GPUs have a name of the fleet
metric_mappings     MetricMappings laid over those
statements          mappings as statements of the collector's transform language
collector_config    the configuration of a collector
collector_objects   what runs it on a cluster
monitors            PodMonitors, for whoever has the Prometheus Operator
cluster_telemetry   all of that for one InferenceCluster
"""
