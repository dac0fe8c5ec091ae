"""The steps of the demo: wait with progress, explain the placement, send requests, print the next steps."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType

from modelplane.api.codec import decode
from modelplane.api.definitions import definitions
from modelplane.api.errors import UnavailableError
from modelplane.api.models import ModelDeployment, ModelService
from modelplane.api.objects import GROUP, name_of, text_at
from modelplane.cli.terminal import Progress
from modelplane.k8s.admission.layout import Document
from modelplane.plane.plane import Plane
from modelplane.reconcile.store import ObjectRef

_POLL_S = 0.05
_WATCH_S = 0.5
_WATCHED = ("InferenceCluster", "ModelDeployment", "ModelService")
_TIMEOUT_S = 10.0
"""How long the models wait for the platform to be ready, so that they spread over all clusters."""


class Steps:
    def __init__(self, plane: Plane, progress: Progress) -> None:
        self._plane = plane
        self._progress = progress

    async def apply(self, documents: Sequence[Document]) -> tuple[ObjectRef, ...]:
        """The platform team's objects, then, once they are ready, the ML team's, so that replicas spread."""
        platform = [document for document in documents if _is_platform(document)]
        others = [document for document in documents if not _is_platform(document)]
        first = self._apply(platform)
        try:
            await self._until_ready(first, _TIMEOUT_S)
        except UnavailableError as error:
            self._progress.say(f"continuing: {error}")
        return (*first, *self._apply(others))

    def _apply(self, documents: Sequence[Document]) -> tuple[ObjectRef, ...]:
        applied = self._plane.apply(documents)
        for ref in applied:
            self._progress.say(f"applied {ref}")
        return applied

    async def until_serving(self, ref: ObjectRef, timeout_s: float) -> str:
        """Wait until the service and every deployment are ready, reporting each change. Returns its address."""
        await self._until_ready((*self._refs("ModelDeployment"), ref), timeout_s)
        service = decode(ModelService, self._plane.store.get(ref) or {})
        return str(service.status.address)

    def report_existing(self) -> None:
        """The objects of an earlier run, if any."""
        counts = {kind: len(self._refs(kind)) for kind in _WATCHED}
        if any(counts.values()):
            found = ", ".join(f"{count} {kind}{'' if count == 1 else 's'}" for kind, count in counts.items() if count)
            self._progress.say(f"continuing with {found}")

    async def watch(self) -> None:
        """Report changes of the Ready conditions and deleted objects, until cancelled."""
        reported: dict[ObjectRef, str] = {}
        while True:
            await asyncio.sleep(_WATCH_S)
            refs = [ref for kind in _WATCHED for ref in self._refs(kind)]
            for ref in refs:
                self._report(ref, reported)
            for ref in set(reported).difference(refs):
                del reported[ref]
                self._progress.say(f"{ref}: deleted")

    async def _until_ready(self, refs: Sequence[ObjectRef], timeout_s: float) -> None:
        reported: dict[ObjectRef, str] = {}
        waiting = list(refs)
        try:
            async with asyncio.timeout(timeout_s):
                while waiting:
                    waiting = [ref for ref in refs if not self._report(ref, reported)]
                    await asyncio.sleep(_POLL_S if waiting else 0)
        except TimeoutError:
            why = "; ".join(f"{ref}: {reported.get(ref, 'no status')}" for ref in waiting)
            raise UnavailableError(f"not ready after {timeout_s:g} s: {why}") from None

    def _refs(self, kind: str) -> tuple[ObjectRef, ...]:
        found = self._plane.store.list(GROUP, kind)
        return tuple(ObjectRef(GROUP, kind, text_at(m, "metadata", "namespace"), name_of(m)) for m in found)

    def _report(self, ref: ObjectRef, reported: dict[ObjectRef, str]) -> bool:
        """Whether the object is ready; a new Ready message is reported."""
        ready = next((c for c in _conditions(self._plane.store.get(ref)) if c.get("type") == "Ready"), {})
        sentence = str(ready.get("message") or ready.get("reason") or "")
        if sentence and reported.get(ref) != sentence:
            reported[ref] = sentence
            self._progress.say(f"{ref}: {sentence}")
        return ready.get("status") == "True"

    def explain_placement(self) -> None:
        for item in self._plane.store.list(GROUP, "ModelDeployment"):
            placement = decode(ModelDeployment, item).status.placement
            if placement is None:
                continue
            self._progress.say(f"placement: {placement.summary}")
            for found in placement.candidates:
                where = f"{found.cluster}/{found.pool}" if found.pool else found.cluster
                self._progress.say(f"  {where}: {found.verdict}{f', {found.reason}' if found.reason else ''}")

    async def send_prompt(self, address: str, prompt: str) -> None:
        """One request for a whole response and one for a stream, with the openai package."""
        try:
            import openai
        except ImportError:
            raise UnavailableError("the demo needs the openai package: pip install 'modelplane[demo]'") from None
        try:
            await self._send_prompt(openai, address, prompt)
        except openai.OpenAIError as error:
            raise UnavailableError(f"{address} did not answer: {error}") from error

    async def _send_prompt(self, openai: ModuleType, address: str, prompt: str) -> None:
        async with openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="unused", max_retries=0) as client:
            model = (await client.models.list()).data[0].id
            self._progress.say(f"POST {address}/v1/chat/completions (model {model})")
            raw = await client.chat.completions.with_raw_response.create(
                model=model, messages=[{"role": "user", "content": prompt}], max_tokens=48
            )
            answer = raw.parse()
            self._progress.say(f"  prompt    {prompt}")
            self._progress.say(f"  response  {answer.choices[0].message.content}")
            self._progress.say(f"  served by {raw.headers.get('x-served-by')}")
            stream = await client.chat.completions.create(
                model=model, messages=[{"role": "user", "content": prompt}], max_tokens=48, stream=True
            )
            pieces = [chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices]
            self._progress.say(f"  streamed  the same prompt, response in {sum(map(bool, pieces))} chunks")

    def report_next_steps(self) -> None:
        say = self._progress.say
        say("the demo stops its plane; to run one and reach it with kubectl and any OpenAI client:")
        say("  modelplane up -f examples/quickstart --data ./plane --gateway-port 8080")
        say("  KUBECONFIG=./plane/kubeconfig kubectl get md,mr,ms -A")
        say("  curl http://127.0.0.1:8080/default/chat/v1/models")


def _is_platform(document: Document) -> bool:
    value = document.value
    kind = (value.get("apiVersion"), value.get("kind")) if isinstance(value, dict) else None
    definition = definitions().get((str(kind[0]), str(kind[1]))) if kind else None
    return definition is not None and not definition.namespaced


def _conditions(manifest: Mapping[str, object] | None) -> Iterator[Mapping[str, object]]:
    status = (manifest or {}).get("status")
    found = status.get("conditions") if isinstance(status, Mapping) else None
    yield from found if isinstance(found, list | tuple) else ()
