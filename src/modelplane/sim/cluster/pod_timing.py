"""How long the steps in a pod's life take: its annotations decide over the cluster's, those over the settings."""

import math

from modelplane.api.objects import Manifest, text_at, value_at
from modelplane.sim.cluster.objects import annotation
from modelplane.sim.cluster.pod_status import engine_container
from modelplane.sim.cluster.settings import LOAD_SECONDS, PULL_SECONDS, RUN_SECONDS, ClusterSettings
from modelplane.sim.cluster.sim_settings import SimSettings, seconds


def pull_s(pod: Manifest, settings: ClusterSettings, sim_settings: SimSettings) -> float:
    return _seconds(pod, PULL_SECONDS, settings.pull_s if sim_settings.pull_s is None else sim_settings.pull_s)


def load_s(pod: Manifest, settings: ClusterSettings, sim_settings: SimSettings) -> float:
    if engine_container(pod) is None:
        return 0.0
    return _seconds(pod, LOAD_SECONDS, settings.load_s if sim_settings.load_s is None else sim_settings.load_s)


def run_s(pod: Manifest, settings: ClusterSettings) -> float:
    """How long the containers run before they exit."""
    if text_at(pod, "spec", "restartPolicy") not in {"Never", "OnFailure"}:
        return math.inf
    return _seconds(pod, RUN_SECONDS, settings.run_s)


def drain_s(pod: Manifest, settings: ClusterSettings) -> float:
    sleep_s = value_at(engine_container(pod) or {}, "lifecycle", "preStop", "sleep", "seconds")
    return min(float(sleep_s), settings.drain_s) if isinstance(sleep_s, int) else settings.drain_s


def grace_s(pod: Manifest, settings: ClusterSettings) -> float:
    given = value_at(pod, "spec", "terminationGracePeriodSeconds")
    return float(given) if isinstance(given, int) else settings.grace_s


def backoff_s(failures: int, settings: ClusterSettings) -> float:
    """The wait after so many failures in a row; none after the first."""
    doubled = settings.restart_backoff_s * 2 ** min(failures - 1, 30)
    return min(doubled, settings.restart_backoff_most_s) if failures > 0 else 0.0


def _seconds(pod: Manifest, key: str, default: float) -> float:
    given = seconds(annotation(pod, key))
    return default if given is None else given
