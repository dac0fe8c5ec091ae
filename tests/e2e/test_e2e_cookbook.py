"""Recipes of the cookbook serve on a plane, but for those whose weights are in a bucket or on a cluster's claim."""

import json

import pytest

RECIPES = (
    pytest.param("gpt-oss-autoscaled", "bare/l40s-1x", "chat", "gpt-oss-20b", "gpt-oss", id="gpt-oss-autoscaled"),
    pytest.param("multi-region", "bare/h100-8x", "assistants", "llama-70b", "assistant", id="multi-region"),
    pytest.param(
        "bring-your-own-kai",
        "azure/azure-nd96isr-h100-v5",
        "app-team",
        "llama-405b",
        "llama-405b",
        id="bring-your-own-kai",
    ),
)


@pytest.mark.submission
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("recipe", "machine", "namespace", "deployment", "service"), RECIPES)
def test_a_recipe_serves(up, recipe, machine, namespace, deployment, service):
    files = [file for file in sorted((up.root / "cookbook" / recipe).iterdir()) if file.name != "autoscaler.yaml"]
    options = [word for file in (*files, up.root / "catalog" / f"{machine}.yaml") for word in ("-f", file)]
    plane = up(*options)
    plane.ready("-n", namespace, f"md/{deployment}", f"ms/{service}")
    answer = json.loads(plane.kubectl("get", "md", deployment, "-n", namespace, "-o", "json"))
    assert answer["status"]["readyReplicas"] == answer["spec"]["replicas"]
    code, said = plane.modelplane("chat", service, "-n", namespace, "-m", "Say hello.")
    assert (code, "This is a simulated answer" in said) == (0, True), said
