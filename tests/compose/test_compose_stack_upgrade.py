import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.api.codec import decode, encode
from modelplane.api.models import InferenceCluster, StatusSoftware
from modelplane.api.timestamps import epoch_s, timestamp
from modelplane.compose.stack_upgrade import SoftwareChange, plan_upgrade

NOW = 1_800_000_000.0
OLD, NEW = "aaaa", "bbbb"
HEALTHY = [
    {"type": "RequirementsMet", "status": "True", "reason": "RequirementsMet"},
    {"type": "Ready", "status": "True", "reason": "Available"},
]
SICK = [{**HEALTHY[0], "status": "False", "reason": "Installing"}, HEALTHY[1]]


def make(name="b", upgrade=None, software=None, conditions=HEALTHY, **spec):
    stated = {**({"upgrade": upgrade} if upgrade is not None else {}), **spec}
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "InferenceCluster",
        "metadata": {"name": name},
        "spec": {
            "cluster": {"source": "Existing", "existing": {"secretRef": {"name": name}, "components": "Managed"}},
            "software": stated,
        },
        "status": {"conditions": conditions, **({"software": software} if software else {})},
    }


def had(phase="UpToDate", release=OLD, revision=OLD, **more):
    return {"release": release, "revision": revision, "phase": phase, **more}


def done(**more):
    return had(**{"release": NEW, "revision": NEW, **more})


def plan(cluster, fleet=None, *, late=(), fault=None, now=NOW, revision=NEW, installed=False):
    change = SoftwareChange(NEW, revision, tuple(late), fault, installed)
    return plan_upgrade(decode(InferenceCluster, cluster), change, fleet, now)


def told(found):
    return found.status.phase, found.status.message, found.held


WAVES = {"wave": 1, "pauseSeconds": 60}


@pytest.mark.parametrize(
    ("cluster", "fleet", "expected"),
    [
        (make(software=had()), None, ("Upgrading", None, False)),
        (
            make(software=had(), upgrade={}, paused=True),
            (),
            ("Paused", "spec.software.paused keeps what is installed", True),
        ),
        (make(software=had(), upgrade={}), None, ("Waiting", "the other clusters are not read yet", True)),
        (make(software=had(), upgrade={}), (), ("Upgrading", None, False)),
        (
            make(software=had(), upgrade={}),
            [make("a", {}, had())],
            ("Waiting", "waiting for a of its wave; maxUnavailable is 1", True),
        ),
        (make(software=had(), upgrade={"maxUnavailable": 2}), [make("a", {}, had())], ("Upgrading", None, False)),
        (make(software=had(), upgrade={}), [make("c", {}, had())], ("Upgrading", None, False)),
        (
            make(software=had(), upgrade={}),
            [make("c", {}, done(phase="Upgrading"))],
            ("Waiting", "waiting for c of its wave; maxUnavailable is 1", True),
        ),
        (
            make(software=had(), upgrade=WAVES),
            [make("c", {}, had())],
            ("Waiting", "waiting for c of earlier waves", True),
        ),
        (make(software=had(), upgrade=WAVES), [make("c", {"wave": 2}, had())], ("Upgrading", None, False)),
        (make(software=had(), upgrade=WAVES), [make("c", {}, done())], ("Upgrading", None, False)),
        (
            make(software=had(), upgrade=WAVES),
            [make("c", {}, done(completionTime=timestamp(NOW - 20)))],
            ("Waiting", f"waiting until {timestamp(NOW + 40)}: the pause after the earlier waves", True),
        ),
        (
            make(software=had(), upgrade=WAVES),
            [make("c", {}, done(completionTime=timestamp(NOW - 61)))],
            ("Upgrading", None, False),
        ),
        (
            make(software=had(), upgrade=WAVES),
            [make("c", {}, done(), SICK)],
            ("Waiting", "waiting: c is upgraded and not healthy", True),
        ),
        (
            make(software=had(), upgrade=WAVES),
            [make("c", {}, done(), [*HEALTHY, {"type": "TelemetryReady", "status": "False", "reason": "Failed"}])],
            ("Upgrading", None, False),
        ),
        (
            make(software=had(), upgrade=WAVES),
            [make("c", {"wave": 2}, done(phase="Failed"))],
            (
                "Waiting",
                "stopped: the upgrade of c failed; its spec.software.upgrade.resume has to be bbbb",
                True,
            ),
        ),
        (
            make(software=had(), upgrade=WAVES),
            [make("c", {"resume": NEW}, done(phase="Failed"))],
            ("Upgrading", None, False),
        ),
        (make(software=had(), upgrade=WAVES), [make("c", {}, had(), paused=True)], ("Upgrading", None, False)),
        (make(software=had(), upgrade=WAVES), [make("c", None, had())], ("Upgrading", None, False)),
        (
            make(software=had(), upgrade=WAVES),
            [make("c", {}, {"release": NEW, "phase": "Installing"})],
            ("Upgrading", None, False),
        ),
        (
            make(software=had(), upgrade=WAVES),
            [make("c", {}, None)],
            ("Waiting", "waiting for c of earlier waves", True),
        ),
        (make(software=done(phase="Failed", revision="cccc"), upgrade={}), None, ("Upgrading", None, False)),
    ],
    ids=[
        "without the block a change comes at once",
        "paused",
        "the fleet is not read",
        "alone",
        "another comes first by name",
        "two at a time",
        "another comes later by name",
        "one has begun",
        "an earlier wave has not seen the release",
        "a later wave is not waited for",
        "an earlier wave needed no change",
        "the pause",
        "after the pause",
        "an upgraded cluster is not healthy",
        "an upgraded cluster lacks nothing that its models need",
        "a failure stops all waves",
        "a failure that is resumed",
        "one that is paused is not waited for",
        "one outside of the waves is not waited for",
        "a first installation is not waited for",
        "one that says nothing yet is waited for",
        "a further change mends what has failed",
    ],
)
def test_when_a_change_reaches_a_cluster(cluster, fleet, expected):
    assert told(plan(cluster, fleet)) == expected


@pytest.mark.parametrize(
    ("names", "shown"), [("acdef", "a, c, d, e, f"), ("acdefg", "a, c, d, e, f and 1 more")], ids=["five", "six"]
)
def test_five_of_those_that_it_waits_for_are_named(names, shown):
    fleet = [make(name, {}, had(phase="Upgrading")) for name in names]
    message = f"waiting for {shown} of its wave; maxUnavailable is 1"
    assert told(plan(make(software=had(), upgrade={}), fleet)) == ("Waiting", message, True)


@pytest.mark.parametrize(("since_s", "wait_s"), [(20.0, 40.0), (59.5, 1.0)])
def test_a_pause_is_waited_for_until_its_end(since_s, wait_s):
    before = done(completionTime=timestamp(NOW))
    earlier = [make("c", {}, before), make("d", {}, done(completionTime=timestamp(NOW - 30.0)))]
    found = plan(make(software=had(), upgrade=WAVES), earlier, now=NOW + since_s)
    assert (found.status.phase, found.requeue_after_s) == ("Waiting", wait_s)


def test_a_release_that_the_cluster_cannot_have_waits():
    found = plan(make(software=had()), fault="this release needs Kubernetes 1.34.2 or newer")
    assert told(found) == ("Incompatible", "this release needs Kubernetes 1.34.2 or newer", True)
    assert found.status.revision == OLD


def test_the_first_installation_waits_for_nobody():
    cluster = make(upgrade=WAVES, conditions=[])
    assert plan(cluster, late=["lws"]).status == StatusSoftware(release=NEW, phase="Installing")
    assert plan(cluster).status == StatusSoftware(release=NEW, revision=NEW, phase="UpToDate")


def test_software_that_was_complete_before_waves_were_known_waits_for_its_turn():
    before = make(upgrade=WAVES)
    found = plan(before, [make("c", {}, None)], late=["lws"], installed=True)
    assert told(found) == ("Waiting", "waiting for c of earlier waves", True)
    assert found.status.revision == "earlier"
    assert plan(before, [], late=["lws"], installed=True).status.revision == NEW
    assert plan(make(), late=["lws"], installed=True).status.phase == "Upgrading"


def test_a_cluster_whose_software_others_install_is_not_waited_for():
    other = make("c", {}, None)
    other["spec"]["cluster"]["existing"]["components"] = "Provided"
    assert told(plan(make(software=had(), upgrade=WAVES), [other])) == ("Upgrading", None, False)


def test_nothing_is_decided_while_an_input_is_not_read():
    found = plan(make(software=had()), revision=None)
    assert (found.held, found.status.phase, found.status.release) == (True, "UpToDate", OLD)
    assert not plan(make(conditions=[]), revision=None).held


def after(seconds, cluster, **given):
    return plan(cluster, now=NOW + seconds, **given)


def test_an_upgrade_is_done_when_everything_is_ready_and_fails_by_its_deadline():
    begun = done(phase="Upgrading", startTime=timestamp(NOW))
    cluster = make(software=begun, upgrade={"deadlineSeconds": 120})
    assert told(after(1, cluster)) == ("Upgrading", None, False), "what was ready before is not what is ready now"
    assert told(after(60, cluster, late=["lws"])) == ("Upgrading", "not ready: lws", False)
    found = after(60, cluster)
    assert (found.status.phase, epoch_s(found.status.completion_time)) == ("UpToDate", NOW + 60)
    failed = after(121, cluster, late=["lws"])
    others = "others wait until spec.software.upgrade.resume is bbbb"
    why = f"not healthy 120 s after its upgrade began; not ready: lws; {others}"
    assert told(failed) == ("Failed", why, False)


def test_an_upgrade_has_all_of_its_time():
    began = done(phase="Upgrading", startTime=timestamp(NOW))
    cluster = make(software=began, upgrade={"deadlineSeconds": 600})
    assert [plan(cluster, late=["keda"], now=NOW + age).status.phase for age in (600, 601)] == ["Upgrading", "Failed"]


def test_what_is_ready_too_soon_is_not_ready_yet():
    cluster = make(software=done(phase="Upgrading", startTime=timestamp(NOW)))
    assert [after(age, cluster).status.phase for age in (9, 10)] == ["Upgrading", "UpToDate"]


def test_a_failure_that_passed_says_so():
    failed = done(phase="Failed", startTime=timestamp(NOW))
    others = "others wait until spec.software.upgrade.resume is bbbb"
    why = f"not healthy 900 s after its upgrade began; everything is ready by now; {others}"
    assert told(after(9_000, make(software=failed, upgrade={"deadlineSeconds": 900}))) == ("Failed", why, False)


def test_the_fleet_is_read_while_a_change_begins_and_later_waves_do_not_matter():
    sick = make("c", {"wave": 2}, done(), SICK)
    found = plan(make(software=had(), upgrade=WAVES), [sick])
    assert (told(found), found.reads_fleet) == (("Upgrading", None, False), True)


def test_a_failure_stays_one_when_more_time_is_given_and_others_go_on_when_it_is_resumed():
    failed = done(phase="Failed", startTime=timestamp(NOW))
    found = after(60, make(software=failed, upgrade={"deadlineSeconds": 120, "resume": NEW}), late=["lws"])
    why = "not healthy 120 s after its upgrade began; not ready: lws; others go on"
    assert (told(found), found.requeue_after_s) == (("Failed", why, False), 15.0)


@pytest.mark.parametrize(
    ("fleet", "message"),
    [
        (None, "the other clusters are not read yet"),
        ([make("c", {}, had())], "waiting for c of earlier waves"),
        ([make("c", {}, done(), SICK), make("d", {}, done(), SICK)], "waiting: c, d are upgraded and not healthy"),
    ],
)
def test_the_fleet_is_read_on_while_a_cluster_waits(fleet, message):
    found = plan(make(software=had(), upgrade=WAVES), fleet)
    assert (told(found), found.reads_fleet) == (("Waiting", message, True), True)


def test_a_message_has_an_end():
    found = plan(make(software=had(), upgrade={}), fault="x" * 2_000)
    assert len(found.status.message) == 1_024


def test_a_first_installation_that_is_paused_installs_nothing():
    found = plan(make(paused=True), late=["keda"])
    assert told(found) == ("Paused", "spec.software.paused keeps what is installed", True)


def test_a_failure_lasts_until_somebody_resumes():
    failed = done(phase="Failed", startTime=timestamp(NOW))
    assert after(9_000, make(software=failed, upgrade={})).status.phase == "Failed"
    assert after(9_000, make(software=failed, upgrade={"resume": OLD})).status.phase == "Failed"
    assert after(9_000, make(software=failed, upgrade={"resume": NEW}), late=["lws"]).status.phase == "Failed"
    assert after(9_000, make(software=failed, upgrade={"resume": NEW})).status.phase == "UpToDate"


def test_a_change_that_is_withdrawn_leaves_the_cluster_up_to_date():
    waiting = had("Waiting", release=NEW, revision=NEW, message="waiting for a")
    assert told(plan(make(software=waiting, upgrade={}))) == ("UpToDate", None, False)


class Fleet:
    """Clusters that decide one after the other, each from what the others have published."""

    def __init__(self, upgrades):
        self.clusters = {name: make(name, upgrade, had()) for name, upgrade in upgrades.items()}
        self.now, self.broken = NOW, frozenset()

    def decide(self, name, seen):
        late = ["lws"] if name in self.broken else []
        found = plan(self.clusters[name], seen, late=late, now=self.now)
        status = {"conditions": SICK if late else HEALTHY, "software": encode(found.status)}
        self.clusters[name] = {**self.clusters[name], "status": status}

    def phases(self):
        return {name: each["status"]["software"]["phase"] for name, each in self.clusters.items()}

    def unfinished(self):
        return {name for name, phase in self.phases().items() if phase in {"Upgrading", "Failed"}}


UPGRADES = st.fixed_dictionaries(
    {}, optional={name: st.fixed_dictionaries({"wave": st.integers(0, 2)}) for name in "abcdef"}
)


@given(UPGRADES, st.integers(1, 3), st.data())
def test_waves_keep_their_order_and_their_width_however_the_clusters_interleave(upgrades, width, data):
    stated = {name: {**each, "maxUnavailable": width, "pauseSeconds": 30} for name, each in upgrades.items()}
    fleet = Fleet(stated)
    for _ in range(60):
        # A cluster decides on a list that is older than what another has just written.
        seen = list(fleet.clusters.values())
        for name in data.draw(st.permutations(sorted(stated))):
            fleet.decide(name, seen)
        fleet.now += 20
        begun = fleet.unfinished()
        waves = {stated[name]["wave"] for name in begun}
        assert len(waves) <= 1, "two waves at once"
        assert len(begun) <= width
        if set(fleet.phases().values()) <= {"UpToDate"}:
            return
    raise AssertionError(f"never done: {fleet.phases()}")


def test_a_cluster_that_breaks_stops_the_others_until_it_is_resumed():
    policy = {"pauseSeconds": 0, "deadlineSeconds": 60}
    fleet = Fleet({name: {"wave": wave, **policy} for name, wave in {"a": 0, "b": 0, "c": 1}.items()})

    def run(rounds=10):
        for _ in range(rounds):
            for name in fleet.clusters:
                fleet.decide(name, list(fleet.clusters.values()))
            fleet.now += 20

    fleet.broken = frozenset("a")
    run()
    assert fleet.phases() == {"a": "Failed", "b": "Waiting", "c": "Waiting"}
    assert {fleet.clusters[name]["status"]["software"]["revision"] for name in "bc"} == {OLD}
    fleet.broken = frozenset()
    run()
    assert fleet.phases() == {"a": "Failed", "b": "Waiting", "c": "Waiting"}
    fleet.clusters["a"]["spec"]["software"]["upgrade"]["resume"] = NEW
    run()
    assert fleet.phases() == dict.fromkeys("abc", "UpToDate")
