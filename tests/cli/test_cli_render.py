"""`modelplane render`: what would be applied where."""

import json
from pathlib import Path

import pytest
import yaml

from modelplane.cli import main

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture
def rendered(capsys):
    def run(*words):
        code = main(["render", "--offline", *words])
        found = capsys.readouterr()
        return code, found.out, found.err

    return run


def documents(text):
    for part in text.split("---\n"):
        head, _, body = part.partition("\n")
        yield head.removeprefix("# cluster "), yaml.safe_load(body)


def test_every_object_has_its_cluster_and_equal_inputs_give_equal_text(rendered):
    code, text, _ = rendered("-f", str(EXAMPLES / "quickstart"))
    found = [(cluster, item["kind"]) for cluster, item in documents(text)]
    kinds = [kind for cluster, kind in found if cluster == "east"]
    assert (code, found) == (0, [(cluster, kind) for cluster in ("east", "west") for kind in kinds])
    assert kinds == sorted(kinds)
    assert {"Deployment", "HTTPRoute", "Namespace", "ResourceClaimTemplate", "Service"} <= set(kinds)
    assert rendered("-f", str(EXAMPLES / "quickstart"))[1] == text


def test_one_cluster_and_json(rendered):
    code, text, _ = rendered("-f", str(EXAMPLES / "quickstart"), "--cluster", "west", "-o", "json")
    whole = rendered("-f", str(EXAMPLES / "quickstart"))[1]
    assert (code, [(each["cluster"], each["object"]) for each in json.loads(text)]) == (
        0,
        [each for each in documents(whole) if each[0] == "west"],
    )


def test_a_change_of_the_manifest_is_the_difference_of_the_text(rendered, tmp_path):
    before = rendered("-f", str(EXAMPLES / "quickstart"))[1].splitlines()
    for path in (EXAMPLES / "quickstart").glob("*.yaml"):
        (tmp_path / path.name).write_text(path.read_text().replace("vllm-openai:v0.27.1", "vllm-openai:v0.28.0"))
    after = rendered("-f", str(tmp_path))[1].splitlines()
    changed = [(old.strip(), new.strip()) for old, new in zip(before, after, strict=True) if old != new]
    images = ("image: vllm/vllm-openai:v0.27.1", "image: vllm/vllm-openai:v0.28.0")
    assert [pair for pair in changed if "modelplane.ai/rendered" not in pair[0]] == [images, images]


def test_beside_a_fleet_the_objects_of_the_manifests_are_rendered(capsys, tmp_path):
    assert main(["fleet", "snapshot", "--offline", "-f", str(EXAMPLES / "quickstart")]) == 0
    snapshot, added = tmp_path / "fleet.yaml", tmp_path / "second.yaml"
    snapshot.write_text(capsys.readouterr().out)
    first = (EXAMPLES / "quickstart" / "3-model.yaml").read_text().partition("---\n")[0]
    added.write_text(first.replace("name: qwen3-8b", "name: second").replace("replicas: 2", "replicas: 1"))
    assert main(["render", "-f", str(added), "--fleet", str(snapshot)]) == 0
    workloads = [item for _, item in documents(capsys.readouterr().out) if item["kind"] == "Deployment"]
    assert [item["metadata"]["labels"]["modelplane.ai/deployment"] for item in workloads] == ["second"]
    assert main(["render", "-f", str(EXAMPLES / "quickstart" / "1-hardware.yaml"), "--fleet", str(snapshot)]) == 0
    found = capsys.readouterr()
    said = "nothing is rendered: the manifests place no replica and change none that is there; "
    assert (found.out, found.err) == ("", f"{said}`modelplane plan` with the same options says why\n")


def test_caches_are_looked_at_by_the_loader_that_is_given(rendered):
    files = ("-f", str(EXAMPLES / "quickstart"), "-f", str(EXAMPLES / "caches"))
    code, text, _ = rendered(*files, "--loader-image", "registry.example/loader:9")
    checks = [
        check["image"]
        for _, item in documents(text)
        for check in item.get("spec", {}).get("template", {}).get("spec", {}).get("initContainers", [])
    ]
    assert (code, set(checks)) == (0, {"registry.example/loader:9"})


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--cluster", "north"], "nothing is rendered for cluster 'north'; replicas are on east, west"),
        (["-f", "/nowhere"], "/nowhere"),
    ],
)
def test_what_cannot_be_rendered_is_one_sentence(rendered, words, message):
    code, text, err = rendered("-f", str(EXAMPLES / "quickstart"), *words)
    assert (code, text, message in err) == (1, "", True)


def test_images_of_the_release_are_pulled_from_where_they_were_pushed(rendered):
    code, text, _ = rendered("-f", str(EXAMPLES / "prefill-decode"), "--images", "registry.example/team")
    images = {word.rpartition(":")[0] for word in text.split() if "/modelplane-" in word}
    expected = {f"registry.example/team/modelplane-{name}" for name in ("picker", "routing-sidecar")}
    assert (code, images) == (0, expected)


def test_pods_request_their_share_of_a_node_that_the_class_describes(rendered, tmp_path):
    for source in sorted((EXAMPLES / "quickstart").glob("*.yaml")):
        documents_of = list(yaml.safe_load_all(source.read_text()))
        for item in documents_of:
            if item["kind"] == "InferenceClass":
                item["spec"]["nodeResources"] = {"cpu": "192", "memory": "2048Gi"}
        (tmp_path / source.name).write_text(yaml.safe_dump_all(documents_of))
    _, plain, _ = rendered("-f", str(EXAMPLES / "quickstart"))
    code, text, _ = rendered("-f", str(tmp_path))

    def requests(text):
        pods = [item["spec"]["template"]["spec"] for _, item in documents(text) if item["kind"] == "Deployment"]
        return [container["resources"].get("requests") for pod in pods for container in pod["containers"]]

    found = requests(text)
    assert (code, set(map(str, requests(plain)))) == (0, {"None"})
    assert found == [{"cpu": "18", "memory": "196608Mi"}] * len(found) != []


def changed_example(folder, target, change):
    """The manifests of an example, each as the function leaves it."""
    for source in sorted((EXAMPLES / folder).glob("*.yaml")):
        found = list(yaml.safe_load_all(source.read_text()))
        for item in found:
            change(item)
        (target / source.name).write_text(yaml.safe_dump_all(found))
    return str(target)


def with_cards(item):
    """Nodes with a card to every two GPUs, and phases that claim one of each."""
    root = {"resource.kubernetes.io/pcieRoot": 2}
    spec = item["spec"]
    if item["kind"] == "InferenceClass":
        (gpu,) = spec["devices"]
        nic = {"name": "nic", "driver": "dra.net", "deviceClassName": "dra.net", "count": 8}
        spec["devices"] = [{**gpu, "devicesPerValue": root}, {**nic, "devicesPerValue": root}]
    for phase in ("prefill", "decode") if item["kind"] == "ModelDeployment" else ():
        card = {"name": "nic", "count": 1, "selectors": [{"cel": 'device.driver == "dra.net"'}]}
        spec[phase]["nodeSelector"]["devices"].append(card)


def test_phases_get_a_gpu_and_a_card_on_one_root(rendered, tmp_path):
    code, text, _ = rendered("-f", changed_example("prefill-decode", tmp_path, with_cards))
    claims = [item["spec"]["spec"]["devices"] for _, item in documents(text) if item["kind"] == "ResourceClaimTemplate"]
    one_root = [{"requests": ["gpu", "nic"], "matchAttribute": "resource.kubernetes.io/pcieRoot"}]
    assert (code, [each["constraints"] for each in claims]) == (0, [one_root] * 2)
