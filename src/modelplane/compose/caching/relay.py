"""A relay: one cluster fetches from the source and serves its volume, and the others copy it from there.

Another cluster takes its place while it does not answer, where the spec names one (`relay_choice`).

The server is the loader's own, read-only, behind a Service. It knows the other clusters by a token, whose Secret is
copied to both sides. Whoever runs the platform leads `spec.relay.url` to the Service, with TLS: we cannot know how one
cluster reaches another.
"""

from modelplane.api.labels import RELAY
from modelplane.api.meta import ClusterName
from modelplane.api.objects import Manifest, manifest
from modelplane.api.reasons import Reason
from modelplane.compose.caching.copies import copied, copy_name
from modelplane.compose.caching.job import VOLUME_PATH, pod_security
from modelplane.compose.caching.relay_choice import relay_places
from modelplane.compose.caching.sharing import entry_of
from modelplane.compose.caching.site import RELAY_PARTS, Site
from modelplane.compose.caching.source import relayed_source
from modelplane.compose.caching.storage import claim_name
from modelplane.compose.causes import Cause
from modelplane.compose.context import remote_namespace
from modelplane.compose.contract import Desired, ReadyWhen, Remote, keep
from modelplane.compose.tenancy import OWN_SECURITY

PORT = 8080
_FOLDER = "/run/credentials"
_RESOURCES = {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}}


def relay_obstacle(site: Site) -> Cause | None:
    """Why nothing is copied yet: the cluster that fetches from the source does not hold it."""
    relay = site.relay
    if relay is None or relay.cluster == site.name:
        return None
    found = entry_of(site.inputs.cache, ClusterName(relay.cluster))
    if found is not None and site.source.key in found.staged_keys:
        return None
    state = f"which is {found.phase}" if found is not None and found.phase else "which does not have it"
    return Cause(Reason.WAITING_FOR_RELAY, f"it is copied from cluster {relay.cluster}, {state}")


def relay_objects(site: Site, image: str) -> dict[str, Desired]:
    """What serves the volume, on the cluster that relays it. One that did so before goes on."""
    relay = site.relay
    if relay is None or relay.cluster != site.name:
        may_relay = any(place.cluster == site.name for place in relay_places(site.inputs))
        return observed_relay(site) if may_relay else {}
    made = {f"relay-{site.name}": _server(site, image), f"relayservice-{site.name}": _service(site)}
    seen = site.inputs.request.observed
    objects = {key: Desired(target, key in seen and seen[key].ready) for key, target in made.items()}
    return {**_token(site), **objects}


def observed_relay(site: Site) -> dict[str, Desired]:
    """What serves an older volume, while the new one is not complete."""
    seen = site.inputs.request.observed
    return {key: keep(seen[key]) for part in RELAY_PARTS if (key := f"{part}-{site.name}") in seen}


def _token(site: Site) -> dict[str, Desired]:
    spec, key = site.inputs.cache.spec, f"relaysecret-{site.name}"
    # As another cluster reads it.
    original = site.inputs.secret(relayed_source(spec, site.source, spec.relay.url if spec.relay else None))
    seen = site.inputs.request.observed.get(key)
    if original is None or spec.relay is None:
        return {key: keep(seen)} if seen is not None else {}
    copy = copied(site, "Secret", spec.relay.auth_secret_ref.name, original, "relay")
    return {key: Desired(copy, seen is not None and seen.ready, (f"relay-{site.name}",))}


def _server(site: Site, image: str) -> Remote:
    relay = site.inputs.cache.spec.relay
    key = relay.auth_secret_ref.key if relay is not None else ""
    cache = site.inputs.cache.metadata
    container = {
        "name": "relay",
        "image": image,
        "args": [
            "serve",
            "--volume",
            VOLUME_PATH,
            "--listen",
            f"0.0.0.0:{PORT}",
            "--token-file",
            f"{_FOLDER}/{key}",
        ],
        "ports": [{"name": "http", "containerPort": PORT}],
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": "http"}},
        "resources": dict(_RESOURCES),
        "securityContext": dict(OWN_SECURITY),
        "volumeMounts": [
            {"name": "volume", "mountPath": VOLUME_PATH, "readOnly": True},
            {"name": "credentials", "mountPath": _FOLDER, "readOnly": True},
        ],
    }
    volumes = [
        {
            "name": "volume",
            "persistentVolumeClaim": {"claimName": claim_name(cache.namespace, site.source.key), "readOnly": True},
        },
        {"name": "credentials", "secret": {"secretName": copy_name(site, "relay"), "defaultMode": 0o440}},
    ]
    pod = {**pod_security(), "containers": [container], "volumes": volumes}
    labels = {RELAY: cache.name}
    spec: dict[str, object] = {
        "replicas": 1,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    return Remote(site.name, _named(site, "apps/v1", "Deployment", spec), ReadyWhen.AVAILABLE)


def _service(site: Site) -> Remote:
    ports = [{"name": "http", "port": 80, "targetPort": "http"}]
    spec: dict[str, object] = {"selector": {RELAY: site.inputs.cache.metadata.name}, "ports": ports}
    return Remote(site.name, _named(site, "v1", "Service", spec))


def _named(site: Site, api_version: str, kind: str, spec: dict[str, object]) -> Manifest:
    cache = site.inputs.cache.metadata
    namespace = remote_namespace(cache.namespace)
    labels = {RELAY: cache.name}
    return manifest(api_version, kind, copy_name(site, "relay"), namespace=namespace, labels=labels, spec=spec)
