"""What steps work with: the clusters of a lab that is up, and questions that many of them ask."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from lab.client import Access, Api, Manifest, condition, items, name_of, text, until, value
from lab.launch import LabError, ask
from lab.scenario import FailedError
from lab.stages import LOADER_IMAGE
from modelplane.compose.picker import LABEL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence

    from lab.places import Places

OURS = "modelplane.ai/v1alpha1"
EXAMPLES = Path("examples/quickstart")
PATIENCE_S = 480.0
_IMAGES = {
    "picker": "modelplane-picker:lab",
    "routingSidecar": "modelplane-routing-sidecar:lab",
    "loader": LOADER_IMAGE,
}


@dataclass(frozen=True, slots=True)
class World:
    """`control` is the control cluster, `sites` the workload clusters by name."""

    places: Places
    control: Api
    sites: dict[str, Api]
    kubeconfigs: dict[str, Path]
    say: Callable[[str], None]
    mode: str
    """Whether the function server is live, or stateless."""

    def tell(self, do: str, **given: str) -> dict[str, object]:
        """Have the lab do something; a refusal is an error."""
        answer = ask(self.places, do, **given)
        if answer is None:
            raise LabError("the lab does not answer")
        if "error" in answer:
            raise FailedError(str(answer["error"]))
        return answer

    async def ready(self, kind: str, name: str, *, namespace: str = "default", within_s: float = PATIENCE_S) -> float:
        """Wait for Ready; what the object says instead is the error."""

        async def holds() -> bool:
            return condition(await self.control.get(OURS, kind, name, namespace=namespace), "Ready") == "True"

        try:
            return await until(f"{kind} {name} Ready", holds, within_s=within_s)
        except Exception as error:
            found = await self.control.get(OURS, kind, name, namespace=namespace)
            raise FailedError(f"{error}; it says {conditions(found)}") from error

    async def replicas(self, deployment: str = "") -> list[Manifest]:
        labels = f"modelplane.ai/deployment={deployment}" if deployment else ""
        return await self.control.list(OURS, "ModelReplica", labels=labels)

    async def pods(self, site: str, deployment: str = "") -> list[Manifest]:
        """Of engines; a replica may bring a picker along."""
        labels = f"modelplane.ai/deployment={deployment}" if deployment else "modelplane.ai/replica"
        return await self.sites[site].list("v1", "Pod", labels=f"{labels},!{LABEL}")

    async def all_pods(self, deployment: str = "") -> list[tuple[str, Manifest]]:
        return [(site, pod) for site in self.sites for pod in await self.pods(site, deployment)]

    async def wait(self, what: str, holds: Callable[[], object], *, within_s: float = PATIENCE_S) -> float:
        return await until(what, holds, within_s=within_s)  # type: ignore[arg-type]  # coroutines of bool


@asynccontextmanager
async def enter(places: Places, say: Callable[[str], None], mode: str) -> AsyncIterator[World]:
    """Connect to every cluster of the lab as its administrator."""
    state = ask(places, "status")
    if state is None or not isinstance(clusters := state["clusters"], dict):
        raise LabError("the lab is not running: `make lab` starts it")
    paths = {name: Path(path) for name, path in clusters.items()}
    async with AsyncExitStack() as stack:
        apis = {name: await stack.enter_async_context(Api(read_access(path))) for name, path in paths.items()}
        yield World(places, apis.pop("control"), apis, paths, say, mode)


def read_access(path: Path) -> Access:
    import base64

    from lab.certificates import Pair

    config = yaml.safe_load(path.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    pair = Pair(base64.b64decode(user["client-certificate-data"]), base64.b64decode(user["client-key-data"]))
    return Access(cluster["server"], base64.b64decode(cluster["certificate-authority-data"]), pair)


def conditions(manifest: object) -> str:
    """All conditions that do not hold, in one line."""
    told = [
        f"{text(each, 'type')}={text(each, 'status')} {text(each, 'reason')}: {text(each, 'message')}"
        for each in items(manifest, "status", "conditions")
        if each.get("status") != "True"
    ]
    return "; ".join(told) or "nothing against it"


def pooled(platform: Iterable[Manifest]) -> list[Manifest]:
    """The same clusters, routing by InferencePools with pickers."""
    backend: Manifest = {"routing": "InferencePool", "images": dict(_IMAGES)}
    return [_with_backend(item, backend) if item["kind"] == "InferenceCluster" else item for item in platform]


def _with_backend(cluster: Manifest, backend: Manifest) -> Manifest:
    spec = value(cluster, "spec")
    return {**cluster, "spec": {**(spec if isinstance(spec, dict) else {}), "backend": backend}}


def running(pods: Sequence[Manifest]) -> list[Manifest]:
    return [pod for pod in pods if text(pod, "status", "phase") == "Running" and not _leaving(pod)]


def _leaving(pod: Manifest) -> bool:
    return bool(text(pod, "metadata", "deletionTimestamp"))


def clusters_of(replicas: Sequence[Manifest]) -> dict[str, str]:
    return {name_of(each): text(each, "spec", "clusterName") for each in replicas}
