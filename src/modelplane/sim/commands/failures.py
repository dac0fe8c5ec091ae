"""Commands for what keeps pods from starting: images, options of engines, Secrets, memory, quotas, pods of others."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from modelplane.api.errors import InputError, NotFoundError
from modelplane.api.objects import Json, manifest
from modelplane.k8s.quantity import is_quantity
from modelplane.reconcile.store import ObjectRef, ref_of
from modelplane.sim.cluster.api import ClusterApi
from modelplane.sim.cluster.images import ImageRule, reference_of, rules_of, rules_text
from modelplane.sim.cluster.objects import annotation
from modelplane.sim.cluster.settings import ENGINE_FLAGS, IMAGES
from modelplane.sim.commands.command import SimCommand, SimulatedFleet, reachable, require_pool, tenant_namespace
from modelplane.sim.engine.known_flags import bare_name, flag_rules_of

_QUOTA = "sim-quota"
_DOCKER = {"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": "e30="}}


def add_image(fleet: SimulatedFleet, command: SimCommand) -> str:
    """The registries have an image with every tag, or with one; a value is the pull Secret that it needs."""
    _set_image(fleet, command, ImageRule(_image(command), secret=command.value))
    needs = f" with the pull Secret {command.value}" if command.value else ""
    return f"{command.cluster} pulls {command.name}{needs}. Pods that wait for it try again after their back-off."


def remove_image(fleet: SimulatedFleet, command: SimCommand) -> str:
    _set_image(fleet, command, ImageRule(_image(command), exists=False))
    return f"{command.cluster} does not find {command.name}; new pods that need it do not start."


def list_images(fleet: SimulatedFleet, command: SimCommand) -> str:
    rules = rules_of(annotation(fleet.declared(command.cluster_name), IMAGES))
    shown = [f"{'pulled' if rule.exists else 'not found':10}{rule.image}{_with_secret(rule)}" for rule in rules]
    usual = "pulled    images of engines with a version as their tag, and their mirrors (docs/simulation.md)"
    return "\n".join([usual, *shown])


def _with_secret(rule: ImageRule) -> str:
    return f" with the pull Secret {rule.secret}" if rule.secret else ""


def _image(command: SimCommand) -> str:
    if reference_of(command.name) is None:
        raise InputError(f"{command.name!r} is not the name of an image")
    return command.name


def _set_image(fleet: SimulatedFleet, command: SimCommand, rule: ImageRule) -> None:
    known = rules_of(annotation(fleet.declared(command.cluster_name), IMAGES))
    rules = [*(each for each in known if each.image != rule.image), rule]
    fleet.annotate(command.cluster_name, IMAGES, rules_text(rules))


def add_flag(fleet: SimulatedFleet, command: SimCommand) -> str:
    """Engines have an option that the table of known ones lacks."""
    name = bare_name(command.name)
    rules = flag_rules_of(annotation(fleet.declared(command.cluster_name), ENGINE_FLAGS)).with_flag(name)
    fleet.annotate(command.cluster_name, ENGINE_FLAGS, str(rules))
    return f"engines on {command.cluster} have the option --{name}."


def remove_flag(fleet: SimulatedFleet, command: SimCommand) -> str:
    name = bare_name(command.name)
    rules = flag_rules_of(annotation(fleet.declared(command.cluster_name), ENGINE_FLAGS)).without_flag(name)
    fleet.annotate(command.cluster_name, ENGINE_FLAGS, str(rules))
    return f"engines on {command.cluster} do not have the option --{name}; those that get it exit when they start."


def add_secret(fleet: SimulatedFleet, command: SimCommand) -> str:
    """A Secret with those keys; without any, a pull Secret."""
    api, namespace, name = _place(fleet, command)
    body: Json = dict(_DOCKER) if not command.value else {"type": "Opaque", "stringData": _pairs(command.value)}
    _apply(api, {**manifest("v1", "Secret", name, namespace=namespace), **body})
    return f"Secret {namespace}/{name} of {command.cluster} exists; pods that wait for it start."


def remove_secret(fleet: SimulatedFleet, command: SimCommand) -> str:
    api, namespace, name = _place(fleet, command)
    ref = ObjectRef("", "Secret", namespace, name)
    if api.get(ref) is None:
        raise NotFoundError(f"cluster {command.cluster} has no Secret {namespace}/{name}")
    api.delete(ref)
    return f"Secret {namespace}/{name} of {command.cluster} is deleted; new pods that need it do not start."


def kill_pod(fleet: SimulatedFleet, command: SimCommand) -> str:
    namespace, _, name = command.name.rpartition("/")
    reachable(fleet, command).kill_pod(namespace, name)
    return f"the engine of pod {command.name} of {command.cluster} is killed for want of memory, and restarts."


def set_resource_quota(fleet: SimulatedFleet, command: SimCommand) -> str:
    """The ResourceQuota of a namespace: `pods=2`, `off` removes it."""
    api = reachable(fleet, command).api
    namespace = tenant_namespace(api, command, command.name)
    ref = ObjectRef("", "ResourceQuota", namespace, _QUOTA)
    if command.value == "off":
        if api.get(ref) is not None:
            api.delete(ref)
        return f"namespace {namespace} of {command.cluster} has no ResourceQuota of ours."
    hard = _pairs(command.value)
    for resource, amount in hard.items():
        if not is_quantity(amount):
            raise InputError(f"{resource}: {amount!r} is not a quantity")
    _apply(api, manifest("v1", "ResourceQuota", _QUOTA, namespace=namespace, spec={"hard": hard}))
    return f"namespace {namespace} of {command.cluster} has a ResourceQuota of {', '.join(command.value.splitlines())}."


def set_foreign(fleet: SimulatedFleet, command: SimCommand) -> str:
    """Pods of others on a pool; the value is `<gpus>x<count>`, or `off`."""
    require_pool(fleet, command)
    gpus, _, count = ("0", "", "0") if command.value == "off" else command.value.partition("x")
    if not gpus.isdecimal() or not count.isdecimal() or (int(gpus) == 0 and int(count) > 0):
        raise InputError(f"{command.value!r} is not <gpus>x<count>; use numbers or `off`")
    reachable(fleet, command).set_foreign_pods(command.name, gpus=int(gpus), count=int(count))
    if int(count) == 0:
        return f"pool {command.name} of {command.cluster} has no pods of others."
    each = "1 device" if gpus == "1" else f"{gpus} devices"
    return f"pool {command.name} of {command.cluster} has {count} pods of others with {each} each, where they fit."


FAILURES: Mapping[str, Callable[[SimulatedFleet, SimCommand], str]] = MappingProxyType(
    {
        "image-add": add_image,
        "image-remove": remove_image,
        "image-list": list_images,
        "flag-add": add_flag,
        "flag-remove": remove_flag,
        "secret-add": add_secret,
        "secret-remove": remove_secret,
        "oom-pod": kill_pod,
        "resource-quota": set_resource_quota,
        "foreign": set_foreign,
    }
)


def _pairs(text: str) -> dict[str, str]:
    """Lines of `KEY=VALUE`."""
    entries = [entry.partition("=") for entry in text.splitlines()]
    if not all(key and equals for key, equals, _ in entries):
        raise InputError(f"{text!r} is not KEY=VALUE")
    return {key: value for key, _, value in entries}


def _place(fleet: SimulatedFleet, command: SimCommand) -> tuple[ClusterApi, str, str]:
    """The API, the namespace and the name of `<namespace>/<name>`."""
    api = reachable(fleet, command).api
    namespace, slash, name = command.name.partition("/")
    if not slash or not name:
        raise InputError(f"{command.name!r} is not NAMESPACE/NAME")
    return api, tenant_namespace(api, command, namespace), name


def _apply(api: ClusterApi, item: Json) -> None:
    api.create(item) if api.get(ref_of(item)) is None else api.replace(item)
