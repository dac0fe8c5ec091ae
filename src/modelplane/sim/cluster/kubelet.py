"""Runs the pods that are bound to nodes: pulls, loads, starts real engines, stops them gracefully.

    PULLING    images are pulled                        Pending
    BLOCKED    containers cannot be created             Pending, ErrImagePull, CreateContainerConfigError, …
    LOADING    containers run, the model loads          Running, not ready
    WAITING    a leader until all its workers run       Running, not ready
    STARTING   the engine starts, is probed, warmed up  Running, not ready
    SERVING    /health answered                         Running and ready
    BACKOFF    the containers exited                    Running, CrashLoopBackOff
    DRAINING   deleted: out of the endpoints, still serving
    STOPPING   the engine finishes running requests; then the pod is deleted

One kubelet serves all nodes. A pod with neither an engine nor a picker (see `pickers`) has no server: it is ready once
its images are pulled.
`pod_blocking` has what keeps containers from being created, `engine_exits` why an engine exits before it serves.
When an engine exits, its pod turns not ready and its containers restart: at once the first time, then after a back-off
that doubles. The back-off is reset when they ran for twice the longest back-off. Running engines are known in memory
only, so after a restart of this process all containers restart. Nothing is written for pods of a lost node.
"""

import asyncio
import math
from collections.abc import Coroutine, Iterable
from functools import partial

from modelplane.api.labels import CACHE_CHECK_CONTAINER, PROGRESS, WARM_UP_CONTAINER
from modelplane.api.loader_exits import EXIT_INCOMPLETE
from modelplane.api.objects import (
    Manifest,
    finalizers_of,
    is_deleting,
    labels_of,
    namespace_of,
    text_at,
    uid_of,
    with_metadata,
)
from modelplane.epp.sidecar.warm_up import WarmUpError
from modelplane.reconcile.outcomes import Done, Outcome, RequeueAfter
from modelplane.reconcile.store import ObjectRef, StoreChange, ref_of
from modelplane.sim.cluster.background import BackgroundTasks
from modelplane.sim.cluster.cache_checks import cache_fault
from modelplane.sim.cluster.claims import is_finished
from modelplane.sim.cluster.container_faults import containers_of, referenced
from modelplane.sim.cluster.controller import ControllerContext, Enqueue, changed, is_about
from modelplane.sim.cluster.engine_exit import EngineExit, EngineExitedError
from modelplane.sim.cluster.engine_exits import load_exit, usage_exit
from modelplane.sim.cluster.engines import EngineFactory, faults_of, with_gpus
from modelplane.sim.cluster.loaders import Loaders
from modelplane.sim.cluster.lws_pods import GROUP_KEY, LEADER_NAME, group_size, is_leader
from modelplane.sim.cluster.node_lifecycle import lost_since, node_of, node_ref
from modelplane.sim.cluster.objects import annotated, annotation, with_status
from modelplane.sim.cluster.pod_blocking import ContainerCreation
from modelplane.sim.cluster.pod_runs import Addresses, PodRun
from modelplane.sim.cluster.pod_servers import server_container, serving_port
from modelplane.sim.cluster.pod_status import (
    Exit,
    PodStage,
    ended_status,
    engine_container,
    pod_id,
    pod_status,
    restart_count,
    warm_up_words,
)
from modelplane.sim.cluster.pod_timing import backoff_s, drain_s, grace_s, load_s, pull_s, run_s
from modelplane.sim.cluster.recorder import warn
from modelplane.sim.cluster.settings import (
    CRASH,
    EXIT_CODE,
    FAULTS,
    KUBELET_FINALIZER,
    LISTENS_ON,
    OUT_OF_MEMORY,
)
from modelplane.sim.cluster.sim_settings import SimSettings
from modelplane.sim.cluster.volume_folders import VolumeFolders

_KILLED, _FAILED = 137, 1
_PARSED_S = 1.0
"""How long an engine takes to read its command line."""


class Kubelet:
    """`enqueue` adds a pod to the workqueue when a background task is done."""

    name = "kubelet"
    kinds = frozenset({("", kind) for kind in ("Pod", "Node", "Secret", "ConfigMap")})

    def __init__(self, context: ControllerContext, engines: EngineFactory, enqueue: Enqueue) -> None:
        self._context = context
        self._store = context.store
        self._engines = engines
        self._enqueue = enqueue
        self.sim_settings = SimSettings()
        """Defaults for pods without simulation annotations."""
        self._creation = ContainerCreation(context, pulls=engines.simulated)
        self._folders = VolumeFolders(context.settings.volumes, context.cluster, context.store)
        self._loaders = Loaders(self._folders, context.store)
        self._runs: dict[ObjectRef, PodRun] = {}
        self._addresses = Addresses()
        self._background = BackgroundTasks()

    def enqueue_for(self, change: StoreChange) -> Iterable[ObjectRef]:
        if is_about(change, "", "Pod"):
            return _with_leader(change.manifest) if changed(change, _facts) else ()
        if is_about(change, "", "Node") and changed(change, lost_since):
            there = (pod for pod in self._store.list("", "Pod") if node_of(pod) == change.ref.name)
            return [ref for pod in there for ref in _with_leader(pod)]
        return self._blocked_by(change.ref) if change.ref.kind in {"Secret", "ConfigMap"} else ()

    def _blocked_by(self, ref: ObjectRef) -> Iterable[ObjectRef]:
        """The pods that wait for a Secret or ConfigMap."""
        blocked = [run.ref for run in self._runs.values() if run.stage is PodStage.BLOCKED]
        pods = (self._store.get(each) for each in blocked if each.namespace == ref.namespace)
        return [ref_of(pod) for pod in pods if pod is not None and (ref.kind, ref.name) in referenced(pod)]

    def reconcile(self, ref: ObjectRef) -> Outcome:
        pod = self._store.get(ref)
        run = self._runs.get(ref)
        if run is not None and (pod is None or uid_of(pod) != run.uid or self._is_off(pod)):
            self._kill(run)
            run = None
        if pod is None or not node_of(pod) or is_finished(pod) or self._is_off(pod):
            return Done()
        if is_deleting(pod):
            return self._terminate(pod, run)
        return self._advance(pod, run or self._admit(pod))

    def _is_off(self, pod: Manifest) -> bool:
        node = self._store.get(node_ref(node_of(pod)))
        return node is None or lost_since(node) is not None

    def _admit(self, pod: Manifest) -> PodRun:
        ref, restarted = ref_of(pod), restart_count(pod)
        now = self._context.clock.monotonic()
        stage = PodStage.PULLING if restarted is None else PodStage.LOADING
        run = PodRun(
            ref=ref,
            uid=uid_of(pod),
            ip=self._address(pod),
            stage=stage,
            due=now + self._pull_s(pod),
            admitted_s=self._context.clock.now(),
            restarts=0 if restarted is None else restarted + 1,
            crash_annotation=annotation(pod, CRASH),
            running_since_s=self._context.clock.now(),
        )
        self._runs[ref] = run
        if stage is PodStage.LOADING:
            self._run_containers(pod, run)
        return run

    def _address(self, pod: Manifest) -> str:
        known = text_at(pod, "status", "podIP")
        if known and self._addresses.taken.setdefault(known, ref_of(pod)) == ref_of(pod):
            return known
        node = self._store.get(node_ref(node_of(pod))) or {}
        return self._addresses.assign(text_at(node, "spec", "podCIDR"), ref_of(pod))

    def _advance(self, pod: Manifest, run: PodRun) -> Outcome:
        self._sync_exit(pod, run)
        self._sync_crash(pod, run)
        self._sync_started(pod, run)
        self._sync_faults(pod, run)
        if (run.stage is PodStage.WAITING and self._group_runs(pod)) or self._creation.has_changed(
            pod, run, self.sim_settings
        ):
            run.due = self._context.clock.monotonic()
        if run.ended is not None:
            return self._end(pod, run)
        while run.due <= self._context.clock.monotonic():
            if run.stage is PodStage.SERVING:
                return self._end(pod, run)
            self._next_stage(pod, run)
        self._write_status(pod, run)
        return _requeue(run, self._context.clock.monotonic())

    def _next_stage(self, pod: Manifest, run: PodRun) -> None:
        now = self._context.clock.monotonic()
        match run.stage:
            case PodStage.PULLING | PodStage.BLOCKED:
                self._create_containers(pod, run)
            case PodStage.BACKOFF:
                run.restarts += 1
                self._run_containers(pod, run)
            case PodStage.LOADING if (ended := self._usage_exit(pod)) is not None:
                self._back_off(pod, run, self._exit(pod, ended))
            case PodStage.LOADING if not self._group_runs(pod):
                run.stage, run.due = PodStage.WAITING, math.inf
            case PodStage.LOADING | PodStage.WAITING if server_container(pod) is not None:
                run.stage, run.due = PodStage.STARTING, math.inf
                run.starting = self._spawn(self._start(pod, run), run)
            case PodStage.LOADING if self._loaders.can_run(pod):
                run.stage, run.due = PodStage.SERVING, math.inf
                run.starting = self._spawn(self._load(pod, run), run)
            case _:
                run.stage, run.due = PodStage.SERVING, now + run_s(pod, self._context.settings)

    def _create_containers(self, pod: Manifest, run: PodRun) -> None:
        if run.stage is PodStage.BLOCKED and self._creation.back_off(pod, run):
            return
        faults = self._creation.faults(pod, self.sim_settings)
        if faults:
            self._creation.block(pod, run, faults)
        elif any(fault.image for fault in run.blocked):
            run.stage, run.blocked, run.pull_failures = PodStage.PULLING, (), 0
            run.due = self._context.clock.monotonic() + self._pull_s(pod)
        else:
            self._run_containers(pod, run)

    def _run_containers(self, pod: Manifest, run: PodRun) -> None:
        """The init containers once, then the others: a container that restarts does not run them again."""
        run.blocked = ()
        run.running_since_s = self._context.clock.now()
        if not run.initialized and (fault := cache_fault(pod, self._folders)) is not None:
            ended = Exit(EXIT_INCOMPLETE, "Error", fault, self._context.clock.now(), CACHE_CHECK_CONTAINER)
            self._back_off(pod, run, ended)
            return
        run.initialized = True
        run.stage, run.due = PodStage.LOADING, self._context.clock.monotonic() + self._load_s(pod)

    def _exit(self, pod: Manifest, ended: EngineExit) -> Exit:
        container = str((server_container(pod) or {}).get("name", ""))
        return Exit(ended.code, ended.reason, ended.message, self._context.clock.now(), container)

    def _end(self, pod: Manifest, run: PodRun) -> Outcome:
        """The containers of a Job's pod completed or failed."""
        given = annotation(pod, EXIT_CODE)
        code = int(given) if given.isdecimal() else 0
        ended = run.ended or Exit(code, "Error" if code else "Completed", "", self._context.clock.now())
        if ended.code and text_at(pod, "spec", "restartPolicy") == "OnFailure":
            self._back_off(pod, run, ended)
            return self._advance(pod, run)
        self._kill(run)
        left = [name for name in finalizers_of(pod) if name != KUBELET_FINALIZER]
        bare = self._store.replace(with_metadata(pod, finalizers=left))
        self._store.replace_status({**bare, "status": ended_status(bare, run.view(), ended)})
        return Done()

    async def _load(self, pod: Manifest, run: PodRun) -> None:
        """Run the loader of a cache to its end."""

        def note(line: str) -> None:
            run.progress = line
            self._enqueue(run.ref)

        self._loaders.faults = self.sim_settings.sources
        ended = await self._loaders.run(pod, note)
        run.ended = Exit(ended.code, "Error" if ended.code else "Completed", ended.message, self._context.clock.now())

    def _group_runs(self, pod: Manifest) -> bool:
        """Whether all workers of a leader run. An engine over several pods starts after all of them."""
        size = group_size(pod)
        if size == 1 or not is_leader(pod):
            return True
        labels = {GROUP_KEY: labels_of(pod).get(GROUP_KEY, "")}
        pods = self._store.list("", "Pod", namespace=namespace_of(pod), labels=labels)
        running = [
            found for found in pods if text_at(found, "status", "phase") == "Running" and not self._is_off(found)
        ]
        return sum(ref_of(found) != ref_of(pod) for found in running) >= size - 1

    async def _start(self, pod: Manifest, run: PodRun) -> None:
        if engine_container(pod) is None:
            run.engine = await self._engines.start_picker(pod, self._store)
            return
        crashed = partial(self._on_exit, run, run.restarts)
        run.faults = self._faults(pod)
        shown = annotated(with_gpus(pod, self._store), FAULTS, run.faults or None)
        if (path := self._folders.unstaged(pod)) is not None:
            raise EngineExitedError(EngineExit(_FAILED, f"OSError: {path} does not hold a complete model"))
        if self._engines.simulated and (ended := load_exit(shown, self._store)) is not None:
            raise EngineExitedError(ended)
        run.engine = await self._engines.start(shown, self._context.cluster, store=self._store, crashed=crashed)
        while not await self._engines.healthy(run.engine):
            await self._context.clock.sleep(self._context.settings.probe_s)
        words = warm_up_words(pod)
        if words is not None:
            run.warming = True
            self._enqueue(run.ref)
            await self._engines.warm_up(run.engine, words)

    def _on_exit(self, run: PodRun, restarts: int, ended: EngineExit | None = None) -> None:
        """An engine exited. Exits of an engine from before the last restart are ignored."""
        if self._runs.get(run.ref) is run and run.restarts == restarts:
            run.died, run.engine_exit = restarts, ended
            self._enqueue(run.ref)

    def _sync_exit(self, pod: Manifest, run: PodRun) -> None:
        """The engine exited, or a worker pod of it is gone: an engine over several pods needs all of them."""
        if run.stage not in {PodStage.STARTING, PodStage.SERVING}:
            return
        if run.died == run.restarts:
            self._back_off(pod, run, self._exit(pod, run.engine_exit or EngineExit(_KILLED, "the engine exited")))
        elif not self._group_runs(pod):
            self._back_off(pod, run, self._exit(pod, EngineExit(_FAILED, "a worker pod of its group is gone")))

    def _sync_started(self, pod: Manifest, run: PodRun) -> None:
        if run.starting is None or not run.starting.done():
            return
        failure, run.starting, run.warming = run.starting.exception(), None, False
        if failure is None and run.ended is not None:
            return
        if failure is None:
            run.stage = PodStage.SERVING
        elif isinstance(failure, EngineExitedError):
            self._back_off(pod, run, self._exit(pod, failure.ended))
        elif isinstance(failure, WarmUpError):
            message = f"modelplane picker: {failure}"
            self._back_off(pod, run, Exit(_FAILED, "Error", message, self._context.clock.now(), WARM_UP_CONTAINER))
        else:
            self._back_off(pod, run, self._exit(pod, EngineExit(_FAILED, str(failure))))

    def _sync_faults(self, pod: Manifest, run: PodRun) -> None:
        faults = self._faults(pod)
        if run.engine is not None and run.faults != faults:
            run.faults = faults
            self._engines.set_faults(run.engine, faults_of(faults))

    def _faults(self, pod: Manifest) -> str:
        return annotation(pod, FAULTS) or self.sim_settings.faults

    def _sync_crash(self, pod: Manifest, run: PodRun) -> None:
        mark = annotation(pod, CRASH)
        if mark == run.crash_annotation:
            return
        run.crash_annotation = mark
        if not mark or run.stage in {PodStage.PULLING, PodStage.BLOCKED, PodStage.BACKOFF}:
            return
        if mark.startswith(OUT_OF_MEMORY):
            self._back_off(pod, run, self._exit(pod, EngineExit(_KILLED, "", OUT_OF_MEMORY)))
        else:
            self._back_off(pod, run, Exit(_KILLED, "Error", "crashed by annotation", self._context.clock.now()))

    def _back_off(self, pod: Manifest, run: PodRun, ended: Exit) -> None:
        """The containers exited: restart them after the back-off."""
        self._stop_engine(run)
        if ended.at_s - run.running_since_s >= 2 * self._context.settings.restart_backoff_most_s:
            run.failures = 0
        wait = run.backoff_s = backoff_s(run.failures, self._context.settings)
        run.failures += 1
        run.last_exit = ended
        run.stage, run.due = PodStage.BACKOFF, self._context.clock.monotonic() + wait
        for container in containers_of(pod) if wait else ():
            if ended.covers(container.get("name")):
                message = f"Back-off restarting failed container {container.get('name')} in pod {pod_id(pod)}"
                warn(self._context, pod, "BackOff", message, source=self.name)

    def _terminate(self, pod: Manifest, run: PodRun | None) -> Outcome:
        if run is None or (run.engine is None and run.stage is not PodStage.STOPPING):
            return self._release(pod, run)
        now = self._context.clock.monotonic()
        if run.stage not in {PodStage.DRAINING, PodStage.STOPPING}:
            run.stage, run.due = PodStage.DRAINING, now + drain_s(pod, self._context.settings)
        if run.stage is PodStage.DRAINING and run.due <= now:
            run.stage, run.due = PodStage.STOPPING, math.inf
            run.stopping = self._stop_engine(run, grace_s=grace_s(pod, self._context.settings))
        if run.stage is PodStage.STOPPING and (run.stopping is None or run.stopping.done()):
            return self._release(pod, run)
        self._write_status(pod, run)
        return _requeue(run, now)

    def _release(self, pod: Manifest, run: PodRun | None) -> Outcome:
        """The pod has stopped: remove the kubelet's finalizer. With other finalizers it is shown as ended."""
        if run is not None:
            self._kill(run)
        left = [name for name in finalizers_of(pod) if name != KUBELET_FINALIZER]
        bare = self._store.replace(with_metadata(pod, finalizers=left))
        if left:
            self._store.replace_status(with_status(bare, phase="Succeeded"))
        return Done()

    def _kill(self, run: PodRun) -> None:
        self._stop_engine(run)
        self._addresses.release(run.ip)
        del self._runs[run.ref]

    def _stop_engine(self, run: PodRun, *, grace_s: float = 0) -> asyncio.Task[None] | None:
        if run.starting is not None:
            run.starting.cancel()
        engine, run.engine, run.starting = run.engine, None, None
        if engine is None:
            return None
        return self._spawn(self._engines.stop(engine, grace_s=grace_s), run)

    def _spawn(self, work: Coroutine[object, object, None], run: PodRun) -> asyncio.Task[None]:
        name = f"kubelet {self._context.cluster} {run.ref.namespace}/{run.ref.name}"
        return self._background.spawn(work, name, lambda done: self._report(done, run))

    def _report(self, done: asyncio.Task[None], run: PodRun) -> None:
        """A failed start is in the pod's status; a failed stop is only logged here."""
        failure = done.exception()
        if failure is not None and done is not run.starting:
            context = {"message": f"{done.get_name()}: stopping its engine failed", "exception": failure}
            done.get_loop().call_exception_handler(context)
        self._enqueue(run.ref)

    def _write_status(self, pod: Manifest, run: PodRun) -> None:
        serves = run.engine if run.stage is PodStage.SERVING else None
        address = None if serves is None else f"{serving_port(pod)}={serves.host}:{serves.port}"
        shown = pod if annotation(pod, LISTENS_ON) == (address or "") else annotated(pod, LISTENS_ON, address)
        if run.progress and annotation(shown, PROGRESS) != run.progress:
            shown = annotated(shown, PROGRESS, run.progress)
        pod = self._store.replace(shown) if shown is not pod else pod
        self._store.replace_status({**pod, "status": pod_status(pod, run.view(), self._context.clock.now())})

    def _pull_s(self, pod: Manifest) -> float:
        return pull_s(pod, self._context.settings, self.sim_settings) if self._engines.simulated else 0.0

    def _load_s(self, pod: Manifest) -> float:
        if not self._engines.simulated:
            return 0.0
        usual = load_s(pod, self._context.settings, self.sim_settings)
        return min(usual, _PARSED_S) if self._usage_exit(pod) is not None else usual

    def _usage_exit(self, pod: Manifest) -> EngineExit | None:
        return usage_exit(pod, self.sim_settings.flags) if self._engines.simulated else None

    async def power_off(self) -> None:
        """Stop every engine at once, as in a power cut. No status is written."""
        for run in list(self._runs.values()):
            self._kill(run)
        await self._background.drain()

    @property
    def busy(self) -> bool:
        """Whether an engine is being started or stopped."""
        return len(self._background) > 0

    async def wait_for_event(self, within_s: float) -> None:
        """Wait until one of those tasks is done."""
        await self._background.wait_for_one(within_s)


def _with_leader(pod: Manifest) -> Iterable[ObjectRef]:
    """The pod and the leader of its group."""
    ref, leader = ref_of(pod), annotation(pod, LEADER_NAME)
    return (ref, ObjectRef("", "Pod", ref.namespace, leader)) if leader else (ref,)


def _facts(pod: Manifest) -> object:
    """What others decide about a pod, and its phase; without what this controller writes."""
    faults = annotation(pod, CRASH), annotation(pod, FAULTS)
    return node_of(pod), is_deleting(pod), faults, text_at(pod, "status", "phase"), uid_of(pod)


def _requeue(run: PodRun, now: float) -> Outcome:
    return RequeueAfter(run.due - now) if run.due < math.inf else Done()
