"""What engines behind a plane do: their GPUs, their crashes, and two phases of one request."""

import httpx
import pytest

L4 = """
apiVersion: modelplane.ai/v1alpha1
kind: InferenceClass
metadata: {name: l4}
spec:
  devices:
  - name: gpu
    driver: gpu.nvidia.com
    deviceClassName: gpu.nvidia.com
    count: 1
    attributes: {productName: {string: NVIDIA L4}}
    capacity: {memory: {value: 23034Mi}}
---
apiVersion: modelplane.ai/v1alpha1
kind: InferenceCluster
metadata: {name: small, labels: {size: small}}
spec:
  cluster: {source: Existing, existing: {secretRef: {name: small-kubeconfig}}}
  nodePools: [{name: l4, className: l4, nodeCount: 1}]
---
apiVersion: modelplane.ai/v1alpha1
kind: ModelDeployment
metadata: {name: small, namespace: default}
spec:
  labels: {app: small}
  clusterSelector: {matchLabels: {size: small}}
  nodeSelector: {devices: [{name: gpu, selectors: [{cel: 'device.driver == "gpu.nvidia.com"'}]}]}
  workers:
    template:
      spec:
        containers:
        - {name: engine, image: "vllm/vllm-openai:v0.27.1", args: [Qwen/Qwen3-4B, --served-model-name, small]}
---
apiVersion: modelplane.ai/v1alpha1
kind: ModelService
metadata: {name: small, namespace: default}
spec: {endpoints: [{selector: {matchLabels: {app: small}}}]}
"""


def ask(address, model, prompt="hello " * 50, **headers):
    body = {"model": model, "messages": [{"role": "user", "content": prompt}], "max_tokens": 4}
    return httpx.post(f"{address}/v1/chat/completions", json=body, headers=headers, timeout=150)


def blocks(address):
    """How large the cache of an engine is, as it tells."""
    told = next(line for line in httpx.get(f"{address}/metrics").text.splitlines() if "cache_config_info{" in line)
    return int(told.partition('num_gpu_blocks="')[2].partition('"')[0])


@pytest.mark.submission
@pytest.mark.timeout(500)
def test_engines_are_what_their_gpus_are_and_come_back_when_they_crash(up):
    plane = up("-f", "examples/quickstart")
    plane.kubectl("apply", "-f", "-", stdin=L4)
    plane.ready("ms/chat", "ms/small", "md/qwen3-8b", "md/small")
    large, small = f"{plane.gateway}/default/chat", f"{plane.gateway}/default/small"
    assert blocks(large) > 5 * blocks(small)

    (before,) = plane.pods("small")
    assert ask(small, "small", **{"x-sim-fault": "crash"}).status_code == 503
    plane.until(lambda: plane.pods("small")[0][3:4] == ["1"])
    plane.until(lambda: plane.pods("small")[0][2] == "Ready")
    plane.ready("md/small")
    (after,) = plane.pods("small")
    assert after[:2] == before[:2]
    plane.until(lambda: ask(small, "small").status_code == 200)
    assert ask(large, "qwen3-8b").status_code == 200

    plane.sim("faults", "small", "error_rate=1", "error_status=429")
    plane.until(lambda: ask(small, "small").status_code == 429)
    assert ask(large, "qwen3-8b").status_code == 200
    plane.kubectl("annotate", "inferencecluster", "small", "sim.modelplane.ai/faults-")
    plane.until(lambda: ask(small, "small").status_code == 200)


@pytest.mark.submission
@pytest.mark.timeout(500)
def test_a_prompt_goes_to_prefill_and_its_answer_comes_from_decode_as_the_picker_says(up):
    plane = up("-f", "examples/prefill-decode")
    plane.ready("modelservice/chat-32b", "modeldeployment/qwen3-32b")
    address = plane.kubectl("get", "ms", "chat-32b", "-o", "jsonpath={.status.address}")
    prompts = [f"{number}: {'once upon a time there was a fleet of clusters ' * 20}" for number in range(4)]
    first, again = ([ask(address, "qwen3-32b", prompt=prompt) for prompt in prompts] for _ in range(2))
    assert {answer.status_code for answer in (*first, *again)} == {200}
    assert all("-decode-" in answer.headers["x-served-by"] for answer in first)
    assert all("-prefill-" in answer.headers["x-prefilled-by"] for answer in first)
    # Who answered a prompt has it in its cache: it is asked again, and needs nobody else.
    assert [each.headers["x-served-by"] for each in again] == [each.headers["x-served-by"] for each in first]
    assert [each.headers.get("x-prefilled-by") for each in again] == [None] * len(prompts)
    assert "x-prefilled-by" not in ask(address, "qwen3-32b", prompt="hello").headers


@pytest.mark.submission
@pytest.mark.timeout(500)
def test_kserve_serves_prefill_and_decode_as_well(up):
    text = (up.root / "examples/prefill-decode/1-cluster.yaml").read_text()
    plane = up()
    changed = text.replace("  backend:\n", "  backend:\n    type: KServe\n")
    plane.kubectl("apply", "-f", "-", stdin=changed)
    plane.ready("inferencecluster/north")
    plane.kubectl("apply", "-f", "examples/prefill-decode/2-model.yaml")
    plane.ready("modelservice/chat-32b", "modeldeployment/qwen3-32b")
    address = plane.kubectl("get", "ms", "chat-32b", "-o", "jsonpath={.status.address}")
    answers = [ask(address, "qwen3-32b", prompt=f"{number}: {'a fleet of clusters ' * 40}") for number in range(4)]
    assert {answer.status_code for answer in answers} == {200}
    assert all("-prefill-" in answer.headers["x-prefilled-by"] for answer in answers)
    assert not any("-prefill-" in answer.headers["x-served-by"] for answer in answers)
