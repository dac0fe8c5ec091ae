"""A cache through faults, in any order: what it says is staged is there, and nothing that is mounted leaves.

Sources are away, loaders are killed, volumes are full, claims are deleted and made anew, Jobs and the status are lost,
lists are short, sources are edited, and time passes. Claims have the truth: whether they were filled.
"""

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from modelplane.api.codec import decode
from modelplane.api.models import ModelCache
from modelplane.api.timestamps import timestamp
from modelplane.compose.cache_info import cache_of
from tests.compose.caches import Fleet, make_cache, make_cluster, make_replica

pytestmark = pytest.mark.slow
CLUSTERS = ("east", "west")
CODES, WAITS_S, REVISIONS = (1, 28, 66, 77), (1, 61, 3700, 90_000), ("main", "v2")
EVENTS = [
    *("complete", "complete", "complete", "fail", "lose_job", "delete_claim", "delete_claim", "lose_status", "edit"),
    *("wait", "place", "place", "remove_replica"),
]


@dataclass
class Claim:
    uid: str
    made: str
    filled: bool = False


@dataclass
class Volumes:
    """The claims of all clusters, by the key of their composition."""

    claims: dict[str, Claim] = field(default_factory=dict)
    count: int = 0

    def make(self, key, now):
        self.count += 1
        self.claims[key] = Claim(f"uid-{self.count}", timestamp(now))


class CacheFaults(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.fleet = Fleet(make_cache(), [make_cluster(name) for name in CLUSTERS])
        self.volumes = Volumes()
        self.mounts = {}
        self.settled = False

    @rule(
        event=st.sampled_from(EVENTS),
        index=st.integers(0, 11),
        shorts=st.lists(st.sampled_from(["", "", "", "replicas", "clusters", "caches"]), max_size=3),
    )
    def happen(self, event, index, shorts):
        getattr(self, event)(index)
        for short in shorts:
            self.compose(short)

    def compose(self, short=""):
        given = getattr(self.fleet, short) if short else None
        if short:
            setattr(self.fleet, short, [])
        before = set(self.fleet.observed)
        self.fleet.apply()
        if short:
            setattr(self.fleet, short, given)
        gone = {key for key in before - set(self.fleet.observed) if key.startswith("volume-")}
        assert not gone & self._mounted(), f"{gone} are mounted"
        self._make_claims()
        self.settled = not short

    def _make_claims(self):
        volumes = {key for key in self.fleet.observed if key.startswith("volume-")}
        for key in volumes - self.volumes.claims.keys():
            self.volumes.make(key, self.fleet.now)
        for key in self.volumes.claims.keys() - volumes:
            del self.volumes.claims[key]
        for key in volumes:
            self._show(key)

    def _show(self, key):
        """What is observed of a claim has its uid and when it was made."""
        seen, claim = self.fleet.observed[key], self.volumes.claims[key]
        metadata = {**seen.manifest["metadata"], "uid": claim.uid, "creationTimestamp": claim.made}
        self.fleet.observed[key] = replace(
            seen, target=replace(seen.target, manifest={**seen.manifest, "metadata": metadata})
        )

    def _mounted(self):
        return {f"volume-{cluster}-{key}" for cluster, key in self.mounts.values()}

    def _jobs(self):
        """Jobs that run, each with the claim that they fill."""
        for key, seen in self.fleet.observed.items():
            if key.startswith("job-") and not (seen.manifest.get("status") or {}).get("conditions"):
                yield key, f"volume-{key.removeprefix('job-').rpartition('-')[0]}"

    def _end(self, job, kind, **condition):
        seen = self.fleet.observed[job]
        at = timestamp(self.fleet.now)
        ended = {"type": kind, "status": "True", "lastTransitionTime": at, **condition}
        status = {"conditions": [ended], **({"completionTime": at} if kind == "Complete" else {})}
        self.fleet.observed[job] = replace(
            seen, target=replace(seen.target, manifest={**seen.manifest, "status": status})
        )
        self.settled = False

    def complete(self, index):
        jobs = list(self._jobs())
        if jobs:
            job, claim = jobs[index % len(jobs)]
            self.volumes.claims[claim].filled = True
            self._end(job, "Complete")

    def fail(self, index):
        jobs = list(self._jobs())
        if jobs:
            code = CODES[index % len(CODES)]
            message = f"Container loader for pod a/b failed with exit code {code} matching FailJob rule at index 0"
            self._end(jobs[index % len(jobs)][0], "Failed", reason="PodFailurePolicy", message=message)

    def lose_job(self, index):
        jobs = sorted(key for key in self.fleet.observed if key.startswith("job-"))
        if jobs:
            del self.fleet.observed[jobs[index % len(jobs)]]
            self.settled = False

    def delete_claim(self, index):
        """Nobody mounts it: a claim in use is protected. Crossplane's provider makes it anew, annotations and all."""
        free = sorted(self.volumes.claims.keys() - self._mounted())
        filling = {claim for _, claim in self._jobs()}
        free = [key for key in free if key not in filling]
        if not free:
            return
        key = free[index // 2 % len(free)]
        if index % 2:
            self.fleet.now += 2  # times in Kubernetes are whole seconds
            self.volumes.make(key, self.fleet.now)
            self._show(key)
        else:
            del self.volumes.claims[key], self.fleet.observed[key]
        self.settled = False

    def lose_status(self, _index):
        self.fleet.cache.pop("status", None)
        self.settled = False

    def edit(self, index):
        self.fleet.cache["spec"]["huggingFace"] = {
            "repo": "Qwen/Qwen3-8B",
            "revision": REVISIONS[index % len(REVISIONS)],
        }
        self.settled = False

    def wait(self, index):
        self.fleet.now += WAITS_S[index % len(WAITS_S)]

    def place(self, index):
        """A replica is placed by what the cache says, and mounts what is staged there."""
        cluster = CLUSTERS[index % len(CLUSTERS)]
        known = cache_of(decode(ModelCache, self.fleet.cache)) if self.settled else None
        if known is not None and cluster in known.staged:
            assert known.refusal(cluster) is None
            key = known.keys.get(cluster) or known.key
            name = f"r{len(self.mounts)}"
            self.mounts[name] = (cluster, key)
            assert self.volumes.claims[f"volume-{cluster}-{key}"].filled, "an engine on an empty directory"
            self._list_replicas()

    def remove_replica(self, _index):
        if self.mounts:
            self.mounts.popitem()
            self._list_replicas()

    def _list_replicas(self):
        self.fleet.replicas = [
            make_replica(cluster, key=key, index=index) for index, (cluster, key) in enumerate(self.mounts.values())
        ]
        self.settled = False

    @precondition(lambda self: self.settled)
    @invariant()
    def what_is_said_is_so(self):
        for name, entry in self.fleet.entries().items():
            filled = {key for key, claim in self.volumes.claims.items() if claim.filled}
            assert {f"volume-{name}-{key}" for key in entry.get("stagedKeys", ())} <= filled
            if entry["phase"] == "Ready":
                assert f"volume-{name}-{self.fleet.cache['status']['key']}" in filled

    def teardown(self):
        """With nothing more wrong, every cluster holds it in the end."""
        for _ in range(6):
            self.fleet.now += 90_000
            self.compose()
            for job, claim in list(self._jobs()):
                self.volumes.claims[claim].filled = True
                self._end(job, "Complete")
        self.compose()
        assert {entry["phase"] for entry in self.fleet.entries().values()} == {"Ready"}
        self.what_is_said_is_so()


TestCacheFaults = CacheFaults.TestCase
TestCacheFaults.settings = settings(max_examples=25, stateful_step_count=20)
