"""Runs the pods that are bound to nodes: pulls, loads, starts real engines, stops them gracefully.

    PULLING    images arrive                            Pending
    LOADING    containers run, the model loads          Running, not ready
    WAITING    a leader until all its workers run       Running, not ready
    STARTING   the engine starts and is probed          Running, not ready
    SERVING    /health answered                         Running and ready
    BACKOFF    the containers ended, a restart waits    Running, CrashLoopBackOff
    DRAINING   deleted: out of the endpoints, still serving
    STOPPING   the engine lets running requests end; then the pod is gone

One kubelet serves all nodes. A pod with neither an engine nor a picker (see `pickers`) has no server: it is ready once
its images are there.
An engine that ends by itself is heard of at once: its pod is not ready any more and its containers start again, the
first time immediately and then after a back-off that doubles, until they ran for twice the longest back-off.
What runs is kept in memory, so a restart of this process is to the pods what a power cut is to a node: containers
start again and count a restart. On a node that is lost nothing is written: nobody is there to write it.
"""

import asyncio
import math
from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import replace
from functools import partial

from modelplane.api.labels import ENGINE_PORT
from modelplane.api.objects import (
    Manifest,
    finalizers_of,
    int_at,
    is_deleting,
    items_at,
    labels_of,
    namespace_of,
    text_at,
    uid_of,
    value_at,
    with_metadata,
)
from modelplane.reconcile.outcomes import Done, Outcome, RequeueAfter
from modelplane.reconcile.store import ObjectRef, StoreChange, ref_of
from modelplane.sim.cluster.claims import is_finished
from modelplane.sim.cluster.controller import ControllerContext, Wake, changed, is_about
from modelplane.sim.cluster.engines import EngineFactory, faults_of, with_gpus
from modelplane.sim.cluster.lws_pods import GROUP_KEY, LEADER_NAME, group_size, is_leader
from modelplane.sim.cluster.node_lifecycle import lost_since, node_of, node_ref
from modelplane.sim.cluster.objects import annotated, annotation, with_status
from modelplane.sim.cluster.pickers import picker_container, picker_port
from modelplane.sim.cluster.pod_runs import Addresses, Run
from modelplane.sim.cluster.pod_status import Exit, PodStage, ended_status, engine_container, pod_status, restart_count
from modelplane.sim.cluster.recorder import warn
from modelplane.sim.cluster.settings import (
    CRASH,
    EXIT_CODE,
    FAULTS,
    KUBELET_FINALIZER,
    LISTENS_ON,
    LOAD_SECONDS,
    PULL_SECONDS,
    RUN_SECONDS,
)
from modelplane.sim.cluster.sim_settings import Knobs, seconds

_KILLED, _FAILED = 137, 1


class Kubelet:
    """`wake` puts a pod back on this controller's queue when something in the background is done."""

    name = "kubelet"
    kinds = frozenset({("", "Pod"), ("", "Node")})

    def __init__(self, site: ControllerContext, engines: EngineFactory, wake: Wake) -> None:
        self._site = site
        self._store = site.store
        self._engines = engines
        self._wake = wake
        self.knobs = Knobs()
        """What the cluster says of pods that do not say it themselves."""
        self._runs: dict[ObjectRef, Run] = {}
        self._addresses = Addresses()
        self._background: set[asyncio.Task[None]] = set()

    def concerns(self, change: StoreChange) -> Iterable[ObjectRef]:
        if is_about(change, "", "Pod"):
            return _with_leader(change.manifest) if changed(change, _facts) else ()
        if is_about(change, "", "Node") and changed(change, lost_since):
            there = (pod for pod in self._store.list("", "Pod") if node_of(pod) == change.ref.name)
            return [ref for pod in there for ref in _with_leader(pod)]
        return ()

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

    def _admit(self, pod: Manifest) -> Run:
        ref, restarted = ref_of(pod), restart_count(pod)
        now = self._site.clock.monotonic()
        stage = PodStage.PULLING if restarted is None else PodStage.LOADING
        run = Run(
            ref=ref,
            uid=uid_of(pod),
            ip=self._address(pod),
            stage=stage,
            due=now + (self._pull_s(pod) if stage is PodStage.PULLING else self._load_s(pod)),
            admitted_s=self._site.clock.now(),
            restarts=0 if restarted is None else restarted + 1,
            crash_mark=annotation(pod, CRASH),
            running_since_s=self._site.clock.now(),
        )
        self._runs[ref] = run
        return run

    def _address(self, pod: Manifest) -> str:
        known = text_at(pod, "status", "podIP")
        if known and self._addresses.taken.setdefault(known, ref_of(pod)) == ref_of(pod):
            return known
        node = self._store.get(node_ref(node_of(pod))) or {}
        return self._addresses.assign(text_at(node, "spec", "podCIDR"), ref_of(pod))

    def _advance(self, pod: Manifest, run: Run) -> Outcome:
        self._notice_death(pod, run)
        self._notice_crash(pod, run)
        self._notice_started(pod, run)
        self._notice_faults(pod, run)
        if run.stage is PodStage.WAITING and self._group_runs(pod):
            run.due = self._site.clock.monotonic()
        while run.due <= self._site.clock.monotonic():
            if run.stage is PodStage.SERVING:
                return self._end(pod, run)
            self._next_stage(pod, run)
        self._show(pod, run)
        return _look_again(run, self._site.clock.monotonic())

    def _next_stage(self, pod: Manifest, run: Run) -> None:
        now = self._site.clock.monotonic()
        match run.stage:
            case PodStage.PULLING | PodStage.BACKOFF:
                if run.stage is PodStage.BACKOFF:
                    run.restarts += 1
                run.running_since_s = self._site.clock.now()
                run.stage, run.due = PodStage.LOADING, now + self._load_s(pod)
            case PodStage.LOADING if not self._group_runs(pod):
                run.stage, run.due = PodStage.WAITING, math.inf
            case PodStage.LOADING | PodStage.WAITING if _server(pod) is not None:
                run.stage, run.due = PodStage.STARTING, math.inf
                run.starting = self._spawn(self._start(pod, run), run)
            case _:
                run.stage, run.due = PodStage.SERVING, now + self._run_s(pod)

    def _end(self, pod: Manifest, run: Run) -> Outcome:
        """The containers have done what they were started for, or failed to."""
        code = annotation(pod, EXIT_CODE)
        ended = Exit(int(code) if code.isdecimal() else 0, "Completed", "", self._site.clock.now())
        if ended.code:
            ended = replace(ended, reason="Error")
        if ended.code and text_at(pod, "spec", "restartPolicy") == "OnFailure":
            self._fall(pod, run, ended)
            return self._advance(pod, run)
        self._kill(run)
        left = [name for name in finalizers_of(pod) if name != KUBELET_FINALIZER]
        bare = self._store.replace(with_metadata(pod, finalizers=left))
        self._store.replace_status({**bare, "status": ended_status(bare, run.view(), ended)})
        return Done()

    def _group_runs(self, pod: Manifest) -> bool:
        """Whether the workers of a leader run. An engine that spans pods does not come up before all of them do."""
        size = group_size(pod)
        if size == 1 or not is_leader(pod):
            return True
        labels = {GROUP_KEY: labels_of(pod).get(GROUP_KEY, "")}
        pods = self._store.list("", "Pod", namespace=namespace_of(pod), labels=labels)
        running = [
            found for found in pods if text_at(found, "status", "phase") == "Running" and not self._is_off(found)
        ]
        return sum(ref_of(found) != ref_of(pod) for found in running) >= size - 1

    async def _start(self, pod: Manifest, run: Run) -> None:
        if engine_container(pod) is None:
            run.engine = await self._engines.start_picker(pod, self._store)
            return
        crashed = partial(self._hear_death, run, run.restarts)
        run.faults = self._faults(pod)
        shown = annotated(with_gpus(pod, self._store), FAULTS, run.faults or None)
        run.engine = await self._engines.start(shown, self._site.cluster, crashed=crashed)
        while not await self._engines.healthy(run.engine):
            await self._site.clock.sleep(self._site.settings.probe_s)

    def _hear_death(self, run: Run, restarts: int) -> None:
        """An engine ended by itself. One that was started before the last restart is no news."""
        if self._runs.get(run.ref) is run and run.restarts == restarts:
            run.died = restarts
            self._wake(run.ref)

    def _notice_death(self, pod: Manifest, run: Run) -> None:
        """The engine ended by itself, or lost a part of itself: one that spans pods does not outlive any of them."""
        if run.stage not in {PodStage.STARTING, PodStage.SERVING}:
            return
        if run.died == run.restarts:
            self._fall(pod, run, Exit(_KILLED, "Error", "the engine ended by itself", self._site.clock.now()))
        elif not self._group_runs(pod):
            self._fall(pod, run, Exit(_FAILED, "Error", "a worker of its group is gone", self._site.clock.now()))

    def _notice_started(self, pod: Manifest, run: Run) -> None:
        if run.starting is None or not run.starting.done():
            return
        failure, run.starting = run.starting.exception(), None
        if failure is None:
            run.stage = PodStage.SERVING
        else:
            self._fall(pod, run, Exit(_FAILED, "Error", str(failure), self._site.clock.now()))

    def _notice_faults(self, pod: Manifest, run: Run) -> None:
        faults = self._faults(pod)
        if run.engine is not None and run.faults != faults:
            run.faults = faults
            self._engines.set_faults(run.engine, faults_of(faults))

    def _faults(self, pod: Manifest) -> str:
        return annotation(pod, FAULTS) or self.knobs.faults

    def _notice_crash(self, pod: Manifest, run: Run) -> None:
        mark = annotation(pod, CRASH)
        if mark == run.crash_mark:
            return
        run.crash_mark = mark
        if mark and run.stage not in {PodStage.PULLING, PodStage.BACKOFF}:
            self._fall(pod, run, Exit(_KILLED, "Error", "crashed on request", self._site.clock.now()))

    def _fall(self, pod: Manifest, run: Run, ended: Exit) -> None:
        """The containers have ended: restart them, later each time."""
        self._stop_engine(run)
        if ended.at_s - run.running_since_s >= 2 * self._site.settings.restart_backoff_most_s:
            run.failures = 0
        wait = self._backoff_s(run.failures)
        run.failures += 1
        run.last_exit = ended
        run.stage, run.due = PodStage.BACKOFF, self._site.clock.monotonic() + wait
        if wait:
            message = f"Back-off restarting failed container: {ended.message or f'exit code {ended.code}'}"
            warn(self._site, pod, "BackOff", message, source=self.name)

    def _backoff_s(self, failures: int) -> float:
        """The first restart is immediate."""
        settings = self._site.settings
        return min(settings.restart_backoff_s * 2 ** (failures - 1), settings.restart_backoff_most_s) if failures else 0

    def _terminate(self, pod: Manifest, run: Run | None) -> Outcome:
        if run is None or (run.engine is None and run.stage is not PodStage.STOPPING):
            return self._release(pod, run)
        now = self._site.clock.monotonic()
        if run.stage not in {PodStage.DRAINING, PodStage.STOPPING}:
            run.stage, run.due = PodStage.DRAINING, now + self._drain_s(pod)
        if run.stage is PodStage.DRAINING and run.due <= now:
            run.stage, run.due = PodStage.STOPPING, math.inf
            run.stopping = self._stop_engine(run, grace_s=self._grace_s(pod))
        if run.stage is PodStage.STOPPING and (run.stopping is None or run.stopping.done()):
            return self._release(pod, run)
        self._show(pod, run)
        return _look_again(run, now)

    def _release(self, pod: Manifest, run: Run | None) -> Outcome:
        """Nothing of the pod is left here: let the API remove it. One that others hold back has ended all the same."""
        if run is not None:
            self._kill(run)
        left = [name for name in finalizers_of(pod) if name != KUBELET_FINALIZER]
        bare = self._store.replace(with_metadata(pod, finalizers=left))
        if left:
            self._store.replace_status(with_status(bare, phase="Succeeded"))
        return Done()

    def _kill(self, run: Run) -> None:
        self._stop_engine(run)
        self._addresses.release(run.ip)
        del self._runs[run.ref]

    def _stop_engine(self, run: Run, *, grace_s: float = 0) -> asyncio.Task[None] | None:
        if run.starting is not None:
            run.starting.cancel()
        engine, run.engine, run.starting = run.engine, None, None
        if engine is None:
            return None
        return self._spawn(self._engines.stop(engine, grace_s=grace_s), run)

    def _spawn(self, work: Coroutine[object, object, None], run: Run) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=f"kubelet {self._site.cluster} {run.ref.namespace}/{run.ref.name}")
        self._background.add(task)

        def ended(done: asyncio.Task[None]) -> None:
            self._background.discard(done)
            if not done.cancelled():
                self._report(done, run)
                self._wake(run.ref)

        task.add_done_callback(ended)
        return task

    def _report(self, done: asyncio.Task[None], run: Run) -> None:
        """A start that failed is told by the pod's status; a stop that failed by nobody else."""
        failure = done.exception()
        if failure is not None and done is not run.starting:
            context = {"message": f"{done.get_name()}: stopping its engine failed", "exception": failure}
            done.get_loop().call_exception_handler(context)

    def _show(self, pod: Manifest, run: Run) -> None:
        serves = run.engine if run.stage is PodStage.SERVING else None
        address = None if serves is None else f"{serving_port(pod)}={serves.host}:{serves.port}"
        shown = pod if annotation(pod, LISTENS_ON) == (address or "") else annotated(pod, LISTENS_ON, address)
        pod = self._store.replace(shown) if shown is not pod else pod
        self._store.replace_status({**pod, "status": pod_status(pod, run.view(), self._site.clock.now())})

    def _pull_s(self, pod: Manifest) -> float:
        usual = self._site.settings.pull_s if self.knobs.pull_s is None else self.knobs.pull_s
        return _seconds(pod, PULL_SECONDS, usual)

    def _load_s(self, pod: Manifest) -> float:
        if engine_container(pod) is None:
            return 0.0
        usual = self._site.settings.load_s if self.knobs.load_s is None else self.knobs.load_s
        return _seconds(pod, LOAD_SECONDS, usual)

    def _run_s(self, pod: Manifest) -> float:
        """How long the containers run before they end by themselves."""
        if text_at(pod, "spec", "restartPolicy") not in {"Never", "OnFailure"}:
            return math.inf
        return _seconds(pod, RUN_SECONDS, self._site.settings.run_s)

    def _drain_s(self, pod: Manifest) -> float:
        asked = value_at(engine_container(pod) or {}, "lifecycle", "preStop", "sleep", "seconds")
        most = self._site.settings.drain_s
        return min(float(asked), most) if isinstance(asked, int) else most

    def _grace_s(self, pod: Manifest) -> float:
        given = value_at(pod, "spec", "terminationGracePeriodSeconds")
        return float(given) if isinstance(given, int) else self._site.settings.grace_s

    async def power_off(self) -> None:
        """Everything stops at once, as when the machines lose power. The API hears nothing of it."""
        for run in list(self._runs.values()):
            self._kill(run)
        while self._background:
            await asyncio.wait(self._background)

    @property
    def busy(self) -> bool:
        """Whether an engine is being started or stopped."""
        return bool(self._background)

    async def stirs(self, within_s: float) -> None:
        """Wait until one of those is done."""
        if self._background:
            await asyncio.wait(self._background, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)


def _with_leader(pod: Manifest) -> Iterable[ObjectRef]:
    """The pod, and the leader of its group, whose engine needs it."""
    ref, leader = ref_of(pod), annotation(pod, LEADER_NAME)
    return (ref, ObjectRef("", "Pod", ref.namespace, leader)) if leader else (ref,)


def _facts(pod: Manifest) -> object:
    """What others decide about a pod, and how far it is: what this controller writes itself is no news to it."""
    asked = annotation(pod, CRASH), annotation(pod, FAULTS)
    return node_of(pod), is_deleting(pod), asked, text_at(pod, "status", "phase"), uid_of(pod)


def _server(pod: Manifest) -> Mapping[str, object] | None:
    """The container that something really answers for: an engine, or a picker."""
    return engine_container(pod) or picker_container(pod)


def serving_port(pod: Manifest) -> int:
    """The port of the pod that its engine, or its picker, answers on."""
    picker = picker_container(pod)
    if picker is not None:
        return picker_port(picker)
    container = engine_container(pod) or {}
    ports = (int_at(entry, "containerPort") for entry in items_at(container, "ports"))
    return next((port for port in ports if port), ENGINE_PORT)


def _look_again(run: Run, now: float) -> Outcome:
    return RequeueAfter(run.due - now) if run.due < math.inf else Done()


def _seconds(pod: Manifest, knob: str, default: float) -> float:
    given = seconds(annotation(pod, knob))
    return default if given is None else given
