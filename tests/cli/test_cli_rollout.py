"""`modelplane rollout`: what its command lines mean, and a running plane that does it."""

import argparse
import asyncio
import re
from pathlib import Path

import pytest
import yaml

from modelplane.api.errors import InputError
from modelplane.cli import main
from modelplane.cli._deployments import name_of_words
from modelplane.plane.apply import admitted
from modelplane.plane.plane import Plane, PlaneSettings
from modelplane.reconcile.store import ObjectRef
from modelplane.sim.cluster import ClusterSettings

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "quickstart"
DEPLOYMENT = ObjectRef("modelplane.ai", "ModelDeployment", "default", "qwen3-8b")
OLD, NEW = "vllm/vllm-openai:v0.27.1", "vllm/vllm-openai:v0.28.0"


@pytest.mark.parametrize(
    "words",
    [["qwen3-8b"], ["md/qwen3-8b"], ["modeldeployment/qwen3-8b"], ["md", "qwen3-8b"], ["ModelDeployment", "qwen3-8b"]],
)
def test_a_deployment_is_named_as_kubectl_names_it(words):
    assert name_of_words(words) == "qwen3-8b"


@pytest.mark.parametrize("words", [["pod/x"], ["md/a/b"], ["md/A_B"], ["md", "a", "b"], [""]])
def test_what_names_no_deployment_is_refused(words):
    with pytest.raises(InputError, match="is not md/NAME"):
        name_of_words(words)


@pytest.mark.parametrize("words", ["", "status", "redo md/x", "undo md/x --to-revision a"])
def test_what_is_incomplete_is_wrong_usage(words, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["rollout", *words.split()])
    assert "usage: modelplane rollout" in capsys.readouterr().err


def test_without_a_plane_it_says_how_to_start_one(tmp_path, capsys):
    assert main(["rollout", "status", "md/x", "--data", str(tmp_path)]) == 1
    assert "no plane runs with" in capsys.readouterr().err


@pytest.mark.e2e
@pytest.mark.timeout(180)
def test_an_update_is_followed_paused_undone_and_restarted(tmp_path, capsys):
    async def typed(*words, where="--data"):
        given = tmp_path if where == "--data" else tmp_path / "kubeconfig"
        code = await asyncio.to_thread(main, ["rollout", *words, where, str(given)])
        found = capsys.readouterr()
        # Python may have something to say of another test's connections on stderr.
        return code, found.out or found.err

    async def waited(*words):
        return await typed("status", "md/qwen3-8b", "--watch", "--timeout", "60", *words)

    async def run():
        quick = ClusterSettings(pull_s=0.1, load_s=0.1, probe_s=0.1)
        async with Plane(PlaneSettings(data=tmp_path, cluster=quick)) as plane:
            for path in sorted(EXAMPLES.glob("*.yaml")):
                for manifest in yaml.safe_load_all(path.read_text()):
                    plane.store.create(admitted(manifest))
            code, text = await waited()
            assert (code, text.splitlines()[-1].split(": ", 2)[1]) == (0, "Complete")

            assert await typed("pause", "md/qwen3-8b") == (0, "modeldeployment/qwen3-8b paused\n")
            set_image(plane, NEW)
            await asyncio.sleep(1)
            code, text = await typed("status", "md/qwen3-8b")
            assert (code, "Paused: revision 1: 2 of 2 replicas updated" in text) == (0, True)
            assert await typed("restart", "md/qwen3-8b") == (
                1,
                "modelplane rollout: the rollout is paused; resume it before you restart it\n",
            )
            assert images(plane) == {OLD}

            assert (await typed("resume", "md/qwen3-8b", where="--kubeconfig"))[0] == 0
            code, text = await waited()
            assert (code, "Complete: revision 2: 2 of 2 replicas updated, 2 of 2 ready" in text) == (0, True)
            assert images(plane) == {NEW}

            code, text = await typed("history", "md/qwen3-8b")
            assert re.findall(r"^(\d+) +[0-9a-f]{10} .* (\S+) +-$", text, re.MULTILINE) == [("1", OLD), ("2", NEW)]
            code, text = await typed("history", "md/qwen3-8b", "--revision", "1")
            assert yaml.safe_load(text)["workers"]["template"]["spec"]["containers"][0]["image"] == OLD

            assert await typed("undo", "md/qwen3-8b") == (0, "modeldeployment/qwen3-8b rolled back to revision 1\n")
            assert (await waited())[0] == 0
            assert images(plane) == {OLD}
            assert await typed("undo", "md", "qwen3-8b", "--to-revision", "3") == (
                0,
                "modeldeployment/qwen3-8b is at revision 3 already\n",
            )
            assert await typed("restart", "md/qwen3-8b") == (0, "modeldeployment/qwen3-8b restarted\n")
            code, text = await waited()
            assert (code, "revision 4" in text) == (0, True)
            assert await typed("status", "md/nobody") == (
                1,
                (
                    'modelplane rollout: modeldeployment/nobody: modeldeployments.modelplane.ai "nobody" not found; '
                    "there is qwen3-8b\n"
                ),
            )

    asyncio.run(run())


def set_image(plane, image):
    item = plane.store.get(DEPLOYMENT)
    text = yaml.safe_dump(item).replace(OLD, image)
    plane.store.replace(yaml.safe_load(text))


def images(plane):
    found = plane.store.list("modelplane.ai", "ModelReplica")
    members = [member for item in found for engine in item["spec"]["engines"] for member in engine["members"]]
    return {member["template"]["spec"]["containers"][0]["image"] for member in members}


@pytest.mark.e2e
@pytest.mark.timeout(180)
def test_an_update_that_does_not_get_on_is_an_error(tmp_path, capsys):
    async def run():
        quick = ClusterSettings(pull_s=0.1, load_s=0.1, probe_s=0.1)
        async with Plane(PlaneSettings(data=tmp_path, cluster=quick)) as plane:
            (manifest,) = [
                item
                for item in yaml.safe_load_all((EXAMPLES / "3-model.yaml").read_text())
                if item["kind"] != "ModelService"
            ]
            manifest["spec"]["rollout"] = {"progressDeadlineSeconds": 2}
            plane.store.create(admitted(manifest))
            words = ["rollout", "status", "md/qwen3-8b", "--data", str(tmp_path), "-w"]
            code = await asyncio.to_thread(main, [*words, "--timeout", "60"])
            last = capsys.readouterr().out.splitlines()[-1]
            told = "no progress for 2 s; revision 1: 0 of 2 replicas updated, 0 of 2 ready"
            assert (code, last) == (1, f"modeldeployment/qwen3-8b: Failed: {told}")

    asyncio.run(run())


def test_the_help_has_examples_that_parse():
    from modelplane.cli import rollout

    parser = argparse.ArgumentParser(prog="modelplane rollout")
    rollout.configure(parser)
    lines = re.findall(r"^  modelplane rollout (.+?)(?:  .*)?$", parser.epilog, re.MULTILINE)
    assert len(lines) == 11
    for line in lines:
        parser.parse_args(line.split())
