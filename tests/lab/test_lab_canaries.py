"""The canary of the lab's scenario: a deployment that the API takes, and whose requests are enough to be judged."""

from lab.e2e.canaries import objects
from modelplane.api.codec import decode
from modelplane.api.models import ModelDeployment
from modelplane.plane.apply import admitted


def test_the_first_step_outlasts_the_analysis():
    deployment, _ = (admitted(item) for item in objects())
    canary = decode(ModelDeployment, deployment).spec.rollout.canary
    (step,) = canary.steps
    assert (step.weight, step.pause_seconds > 5 * canary.analysis.window_seconds) == (50, True)
