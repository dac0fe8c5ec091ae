"""Pods that cannot start, as a kubelet would show them: KWOK plays these for two images.

A pod that cannot pull its image goes back and forth between the error and its back-off for as long as it lives, so that
a cause which counted each change would be seen. A pod that crashes keeps the last line that it wrote.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.client import items, name_of, value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lab.client import Manifest

MISSING_IMAGE = "registry.example.org/lab/missing:1"
LOADER_IMAGE = "modelplane-loader:lab"
CRASHING_IMAGE = "registry.example.org/lab/crashing:1"
LAST_LINE = "ValueError: max_model_len is greater than the derived max_model_len"
_BACK_OFF_MS = 3000
_ALWAYS = 10_000
_IMAGES = ".spec.containers.[].image"
_WAITING = ".status.containerStatuses.[].state.waiting.reason"
_NOT_READY = """
conditions:
- {type: Initialized, status: "True", lastTransitionTime: {{ Now | Quote }}}
- {type: Ready, status: "False", reason: ContainersNotReady, lastTransitionTime: {{ Now | Quote }}}
- {type: ContainersReady, status: "False", reason: ContainersNotReady, lastTransitionTime: {{ Now | Quote }}}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  ready: false
  started: false
"""


def without_loaders(stages: Iterable[Manifest]) -> list[Manifest]:
    """The stages. The one that ends pods of Jobs leaves out those of the loader: the loader itself ends them."""
    return [_spares_loaders(stage) if name_of(stage) == "pod-complete" else stage for stage in stages]


def _spares_loaders(stage: Manifest) -> Manifest:
    spec = value(stage, "spec")
    rest: Manifest = spec if isinstance(spec, dict) else {}
    spared = {"key": _IMAGES, "operator": "NotIn", "values": [LOADER_IMAGE]}
    expressions = [*items(stage, "spec", "selector", "matchExpressions"), spared]
    return {**stage, "spec": {**rest, "selector": {"matchExpressions": expressions}}}


def failing_pods() -> list[Manifest]:
    """Stages for pods with one of the two images. They outweigh the stage that makes pods ready."""
    pull = _waits("ErrImagePull", f"failed to pull and unpack image {MISSING_IMAGE}: not found")
    back_off = _waits("ImagePullBackOff", f"Back-off pulling image {MISSING_IMAGE}")
    return [
        _stage("pod-image-pull-failed", MISSING_IMAGE, (("NotIn", "ErrImagePull"),), pull),
        _stage("pod-image-pull-back-off", MISSING_IMAGE, (("In", "ErrImagePull"),), back_off, _BACK_OFF_MS),
        _stage("pod-crash-looping", CRASHING_IMAGE, (("NotIn", "CrashLoopBackOff"),), _crashes()),
    ]


def _waits(reason: str, message: str) -> str:
    state = f'  restartCount: 0\n  state: {{waiting: {{reason: {reason}, message: "{message}"}}}}\n'
    return f"{_NOT_READY}{state}{{{{ end }}}}\nphase: Pending\n"


def _crashes() -> str:
    ended = f'{{exitCode: 1, reason: Error, message: "{LAST_LINE}"}}'
    waiting = '{reason: CrashLoopBackOff, message: "back-off 10s restarting failed container"}'
    state = f"  restartCount: 3\n  lastState: {{terminated: {ended}}}\n  state: {{waiting: {waiting}}}\n"
    return f"{_NOT_READY}{state}{{{{ end }}}}\nphase: Running\n"


def _stage(name: str, image: str, waiting: tuple[tuple[str, str], ...], template: str, delay_ms: int = 0) -> Manifest:
    expressions = [
        {"key": ".metadata.deletionTimestamp", "operator": "DoesNotExist"},
        {"key": ".status.phase", "operator": "In", "values": ["Pending"]},
        {"key": _IMAGES, "operator": "In", "values": [image]},
        *({"key": _WAITING, "operator": operator, "values": [reason]} for operator, reason in waiting),
    ]
    spec: Manifest = {
        "resourceRef": {"apiGroup": "v1", "kind": "Pod"},
        "selector": {"matchExpressions": expressions},
        "weight": _ALWAYS,
        "next": {"statusTemplate": template},
    }
    if delay_ms:
        spec["delay"] = {"durationMilliseconds": delay_ms}
    return {"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "Stage", "metadata": {"name": name}, "spec": spec}
