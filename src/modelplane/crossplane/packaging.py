"""What is installed on a control plane, as plain objects: nothing here is written by hand twice.

    configuration    definitions and compositions of every kind: a Configuration package holds these and nothing else
    installation     the packages, what runs them and what they may do: `modelplane install` applies it

Rights name their kinds one by one. Crossplane's own manager gives it rights on what packages define; what is granted
here is the rest: objects of the gateway's kinds that we compose, and for the function server, to look at the fleet, to
annotate composites whose dependencies changed, and the Usages of replicas that are being deleted. With the addresses of
metrics it also writes what they say into the status of ModelEndpoints.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from modelplane.api.definitions import Definition, definitions
from modelplane.api.labels import SYSTEM_NAMESPACE
from modelplane.api.objects import GROUP, Manifest
from modelplane.compose.clouds import CLOUDS
from modelplane.compose.registry import COMPOSERS
from modelplane.compose.telemetry.monitors import function_monitor, router_monitor
from modelplane.compose.tenancy import RESTRICTED
from modelplane.crossplane.control_objects import CROSSPLANE_NAMESPACE, REPLICAS, availability, gateway_class, spread_of
from modelplane.crossplane.dashboard_objects import DASHBOARD, dashboard_objects
from modelplane.crossplane.hub_objects import HUB, hub_objects

FUNCTION = "function-modelplane"
CONFIGURATION = "modelplane"
CROSSPLANE = ">=v2.3.0"
"""Requiring all objects of a kind, and the scale subresource, came with this version."""
PROVIDER_KUBERNETES = "v1.2.1"
PROVIDER_HELM = "v1.4.0"
PART_OF = "app.kubernetes.io/part-of"
DIGEST_ANNOTATION = "modelplane.ai/facts"
_LIVE = {GROUP: ("inferenceclusters", "modelcaches", "modeldeployments", "modelreplicas")}
_GATEWAY_KINDS = {
    "gateway.networking.k8s.io": ("gateways", "httproutes"),
    "gateway.envoyproxy.io": (
        *("backends", "backendtrafficpolicies", "clienttrafficpolicies", "envoyextensionpolicies"),
        *("httproutefilters", "securitypolicies"),
    ),
}
_CERTIFICATE_KINDS = {"cert-manager.io": ("certificates", "issuers")}
_ROUTER_KINDS = {"": ("configmaps", "services"), "apps": ("deployments",), "policy": ("poddisruptionbudgets",)}
_CROSSPLANE_KINDS = {
    "kubernetes.m.crossplane.io": ("clusterproviderconfigs", "objects"),
    "protection.crossplane.io": ("clusterusages", "usages"),
}
_ADDED_COLUMNS = frozenset({"SYNCED", "READY", "COMPOSITION", "COMPOSITIONREVISION", "AGE"})
_WRITE = ("create", "delete", "get", "list", "patch", "update", "watch")


_NOTHING: Mapping[str, object] = {}
_SCRATCH: Mapping[str, object] = {"volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}}]}
"""Client certificates of workload clusters become files: TLS reads no others."""


@dataclass(frozen=True, slots=True)
class PackageSource:
    """Where packages are pulled from. Which registry that is, only the user knows."""

    packages: str
    """Of our own packages, such as `registry.example.org/team`."""
    providers: str
    """Of the providers."""
    version: str
    helm: bool = False
    clouds: tuple[str, ...] = ()
    """Sources of clusters whose providers are installed too."""
    observe: bool = True
    """Watch the workload clusters, which takes the right to read their kubeconfigs."""
    pull_secret: str = ""
    images: str = ""
    """Of the images that workload clusters run; empty: where our packages are."""
    traffic_metrics: tuple[str, ...] = ()
    """Addresses of the metrics that canaries are judged by. The function then writes status.traffic of endpoints."""
    monitors: bool = False
    """PodMonitors for the function server and fleet routers, where the Prometheus Operator is."""
    gateway: bool = True
    """With the fleet's GatewayClass and its settings, which takes the kinds of Envoy Gateway."""
    hub: str = ""
    """What agents of workload clusters dial. Empty: no hub is installed."""
    dashboard: bool = True
    """With the dashboard, which reads."""

    def image(self, name: str) -> str:
        """Of a program that runs in a pod of ours."""
        return f"{self.images or self.packages}/{name}:v{self.version}"


def configuration(version: str, function: str = "") -> tuple[Manifest, ...]:
    """The Configuration package: its metadata first, then what it installs."""
    return (_configuration_meta(version, function), *definitions_and_compositions())


def function_meta() -> Manifest:
    return {
        "apiVersion": "meta.pkg.crossplane.io/v1",
        "kind": "Function",
        "metadata": {"name": FUNCTION, "annotations": _annotations("Composes every kind of Modelplane.")},
        "spec": {"crossplane": {"version": CROSSPLANE}, "capabilities": ["composition"]},
    }


def definitions_and_compositions() -> Iterator[Manifest]:
    for definition in definitions().values():
        yield composite_resource_definition(definition)
        yield composition(definition)


def composite_resource_definition(definition: Definition) -> Manifest:
    """The definition as it was written: a kind as API servers know it has more, which Crossplane adds by itself."""
    columns = [column for column in definition.columns if column.name not in _ADDED_COLUMNS]
    version: dict[str, object] = {
        "name": definition.version,
        "served": True,
        "referenceable": True,
        "additionalPrinterColumns": msgspec.to_builtins(columns),
        "schema": {"openAPIV3Schema": _as_written(definition.schema)},
    }
    if definition.scale is not None:
        version["subresources"] = {"scale": msgspec.to_builtins(definition.scale)}
    return {
        "apiVersion": "apiextensions.crossplane.io/v2",
        "kind": "CompositeResourceDefinition",
        "metadata": {"name": f"{definition.plural}.{definition.group}"},
        "spec": {
            "group": definition.group,
            "scope": str(definition.scope),
            "names": msgspec.json.decode(msgspec.json.encode(definition.names)),
            "defaultCompositionRef": {"name": _composition_name(definition)},
            "versions": [version],
        },
    }


def _as_written(schema: Mapping[str, object]) -> Mapping[str, object]:
    made = _without(schema, ("properties",), ("apiVersion", "kind", "metadata"))
    made = _without(made, ("properties", "spec", "properties"), ("crossplane",))
    return _without(made, ("properties", "status", "properties"), ("conditions",))


def _without(schema: Mapping[str, object], path: Sequence[str], names: Sequence[str]) -> Mapping[str, object]:
    """A copy of the schema that lacks some names in the mapping at a path."""
    if not path:
        return {name: value for name, value in schema.items() if name not in names}
    inner = schema.get(path[0])
    return {**schema, path[0]: _without(inner, path[1:], names)} if isinstance(inner, Mapping) else schema


def composition(definition: Definition) -> Manifest:
    if definition.kind not in COMPOSERS:
        raise LookupError(f"nothing composes {definition.kind}")
    return {
        "apiVersion": "apiextensions.crossplane.io/v1",
        "kind": "Composition",
        "metadata": {"name": _composition_name(definition)},
        "spec": {
            "compositeTypeRef": {"apiVersion": definition.api_version, "kind": definition.kind},
            "mode": "Pipeline",
            "pipeline": [{"step": "compose", "functionRef": {"name": FUNCTION}}],
        },
    }


def _composition_name(definition: Definition) -> str:
    return f"{definition.plural}.{definition.group}"


def _configuration_meta(version: str, function: str) -> Manifest:
    spec: dict[str, object] = {"crossplane": {"version": CROSSPLANE}}
    if function:
        needs = {"apiVersion": "pkg.crossplane.io/v1", "kind": "Function", "package": function}
        spec["dependsOn"] = [{**needs, "version": f">=v{version}"}]
    return {
        "apiVersion": "meta.pkg.crossplane.io/v1",
        "kind": "Configuration",
        "metadata": {
            "name": CONFIGURATION,
            "annotations": _annotations("The control plane for a fleet of inference clusters."),
        },
        "spec": spec,
    }


def _annotations(words: str) -> dict[str, str]:
    return {"meta.crossplane.io/description": words, "meta.crossplane.io/license": "Apache-2.0"}


def installation(source: PackageSource) -> tuple[Manifest, ...]:
    """Everything to apply, in an order in which it can be."""
    return tuple(_part_of_us(item) for item in _installed(source))


def _part_of_us(item: Manifest) -> Manifest:
    metadata = item["metadata"]
    known = metadata if isinstance(metadata, Mapping) else {}
    labels = known.get("labels")
    ours = {**(labels if isinstance(labels, Mapping) else {}), PART_OF: CONFIGURATION}
    return {**item, "metadata": {**known, "labels": ours}}


def _installed(source: PackageSource) -> tuple[Manifest, ...]:
    return (
        _namespace(),
        *_rights(source),
        *(_secret_rights() if source.observe else ()),
        *_providers(source),
        *(gateway_class() if source.gateway else ()),
        *availability(FUNCTION),
        *(hub_objects(source.hub, source.image(HUB), FUNCTION, source.pull_secret) if source.hub else ()),
        *(dashboard_objects(source.image(DASHBOARD), source.pull_secret) if source.dashboard else ()),
        _runtime(FUNCTION, _function_runtime(source), {**_SCRATCH, **spread_of(FUNCTION)}, REPLICAS),
        _package("Function", FUNCTION, f"{source.packages}/{FUNCTION}:v{source.version}", source, FUNCTION),
        _kept(
            _alone(
                _package("Configuration", CONFIGURATION, f"{source.packages}/{CONFIGURATION}:v{source.version}", source)
            )
        ),
        *((function_monitor(FUNCTION, CROSSPLANE_NAMESPACE), router_monitor()) if source.monitors else ()),
    )


def _namespace() -> Manifest:
    return _kept({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE}})


def _kept(item: Manifest) -> Manifest:
    """Stays where Helm uninstalls, or does not find it in the next version of the chart.

    Without its Configuration a control plane loses every kind and all that is of it; with the namespace go kubeconfigs,
    and with a provider the kinds of what it carries. Deleting these takes a command of its own.
    """
    metadata = item["metadata"]
    known = metadata if isinstance(metadata, Mapping) else {}
    return {**item, "metadata": {**known, "annotations": {"helm.sh/resource-policy": "keep"}}}


def _providers(source: PackageSource) -> Iterator[Manifest]:
    clouds = [CLOUDS[name] for name in source.clouds]
    version = next((cloud.kubernetes_provider for cloud in clouds if cloud.kubernetes_provider), PROVIDER_KUBERNETES)
    wanted = [("provider-kubernetes", version, ["--enable-watches", "--poll=1m", "--sanitize-secrets"])]
    if source.helm:
        wanted.append(("provider-helm", PROVIDER_HELM, ["--poll=5m"]))
    for cloud in clouds:
        wanted += [(name, cloud.provider_version, []) for name in cloud.providers]
    for name, version, arguments in wanted:
        yield _kept(_runtime(name, {"args": arguments}))
        yield _kept(_package("Provider", name, f"{source.providers}/{name}:{version}", source, name))


def _package(kind: str, name: str, package: str, source: PackageSource, runtime: str = "") -> Manifest:
    spec: dict[str, object] = {"package": package}
    if runtime:
        spec["runtimeConfigRef"] = {"name": runtime}
    if source.pull_secret:
        spec["packagePullSecrets"] = [{"name": source.pull_secret}]
    return {"apiVersion": "pkg.crossplane.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def _alone(package: Manifest) -> Manifest:
    """Without what it depends on, which is installed beside it.

    Crossplane would install the function once more under a name of its own if it got to the Configuration first, and
    then resolve no package at all, because one of them is there twice.
    """
    spec = package["spec"]
    return {**package, "spec": {**(spec if isinstance(spec, Mapping) else {}), "skipDependencyResolution": True}}


def _runtime(
    name: str, container: Mapping[str, object], pod: Mapping[str, object] = _NOTHING, replicas: int = 1
) -> Manifest:
    template = {"spec": {"containers": [{"name": "package-runtime", **container}], **pod}}
    count = {"replicas": replicas} if replicas > 1 else {}
    return {
        "apiVersion": "pkg.crossplane.io/v1beta1",
        "kind": "DeploymentRuntimeConfig",
        "metadata": {"name": name},
        "spec": {
            "deploymentTemplate": {"spec": {**count, "selector": {}, "template": template}},
            "serviceAccountTemplate": {"metadata": {"name": name}},
        },
    }


def _function_runtime(source: PackageSource) -> Mapping[str, object]:
    flags = {"--helm": source.helm, "--observe": source.observe, "--no-observe": not source.observe}
    probe = {"httpGet": {"path": "/readyz", "port": 8080}, "periodSeconds": 5}
    alive = {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10}
    return {
        "args": [
            "--live",
            *(flag for flag, wanted in flags.items() if wanted),
            f"--images={source.images or source.packages}",
            *(f"--traffic-metrics={url}" for url in source.traffic_metrics),
        ],
        "ports": [{"name": "metrics", "containerPort": 8080}],
        "readinessProbe": probe,
        "livenessProbe": alive,
        "resources": {"requests": {"cpu": "200m", "memory": "256Mi"}, "limits": {"memory": "2Gi"}},
        "securityContext": dict(RESTRICTED),
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108  the pod's own, see _SCRATCH
    }


def _rights(source: PackageSource) -> Iterator[Manifest]:
    composed = {**_GATEWAY_KINDS, **_ROUTER_KINDS, **_CERTIFICATE_KINDS, **_CROSSPLANE_KINDS}
    read = _rule("cert-manager.io", ("certificaterequests",), ("get", "list", "watch"))
    yield _role(
        "modelplane:aggregate-to-crossplane",
        [*(_rule(group, kinds, _WRITE) for group, kinds in composed.items()), read],
        {"rbac.crossplane.io/aggregate-to-crossplane": "true"},
    )
    live = [_rule(group, kinds, ("list", "patch", "watch")) for group, kinds in _LIVE.items()]
    nudges = _rule("protection.crossplane.io", ("usages",), ("list", "patch"))
    yield _role("modelplane:function", [*live, nudges, *(_MEASURES if source.traffic_metrics else ())])
    yield {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "modelplane:function"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "modelplane:function"},
        "subjects": [{"kind": "ServiceAccount", "name": FUNCTION, "namespace": CROSSPLANE_NAMESPACE}],
    }
    yield from _user_roles()


def _secret_rights() -> Iterator[Manifest]:
    name = "modelplane-function-observes"
    metadata = {"name": name, "namespace": SYSTEM_NAMESPACE}
    api = "rbac.authorization.k8s.io/v1"
    yield {"apiVersion": api, "kind": "Role", "metadata": metadata, "rules": [_rule("", ("secrets",), ("get",))]}
    yield {
        "apiVersion": api,
        "kind": "RoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": FUNCTION, "namespace": CROSSPLANE_NAMESPACE}],
    }


def _user_roles() -> Iterator[Manifest]:
    """What people get through Kubernetes' own roles: ML teams write models, everybody may look."""
    by_group: dict[str, dict[str, list[str]]] = {}
    for definition in definitions().values():
        scope = "team" if definition.namespaced else "platform"
        by_group.setdefault(scope, {}).setdefault(definition.group, []).append(definition.plural)
    everything = [by_group["team"], by_group["platform"]]
    yield _role(
        "modelplane:view",
        [_rule(group, kinds, ("get", "list", "watch")) for part in everything for group, kinds in part.items()],
        {"rbac.authorization.k8s.io/aggregate-to-view": "true"},
    )
    scaled = [f"{d.plural}/scale" for d in definitions().values() if d.scale is not None]
    yield _role(
        "modelplane:edit",
        [
            *(_rule(group, kinds, _WRITE) for group, kinds in by_group["team"].items()),
            _rule(GROUP, scaled, ("get", "patch", "update")),
        ],
        {"rbac.authorization.k8s.io/aggregate-to-edit": "true"},
    )
    yield _role("modelplane:platform", [_rule(group, kinds, _WRITE) for group, kinds in by_group["platform"].items()])


def _role(name: str, rules: Sequence[Manifest], labels: Mapping[str, str] | None = None) -> Manifest:
    metadata = {"name": name, "labels": dict(labels)} if labels else {"name": name}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": metadata,
        "rules": list(rules),
    }


def _rule(group: str, kinds: Sequence[str], verbs: Sequence[str]) -> Manifest:
    return {"apiGroups": [group], "resources": sorted(kinds), "verbs": list(verbs)}


_MEASURES = (
    _rule(GROUP, ("modelendpoints",), ("list",)),
    _rule(GROUP, ("modelendpoints/status",), ("patch",)),
)
