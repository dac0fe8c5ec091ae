"""The machine of a plane as a cluster: a real process behind the whole path, from kubectl to the response."""

import json
import os
import signal
from pathlib import Path

import httpx
import pytest

ENGINE = Path(__file__).resolve().parents[1] / "machine" / "small_engine.py"
MODEL = f"""
apiVersion: v1
kind: Secret
metadata: {{name: hub, namespace: default}}
stringData: {{token: hf_secret}}
---
apiVersion: modelplane.ai/v1alpha1
kind: ModelDeployment
metadata: {{name: small, namespace: default}}
spec:
  labels: {{app: small}}
  nodeSelector: {{devices: [{{name: cpu, selectors: [{{cel: 'device.driver == "cpu.modelplane.ai"'}}]}}]}}
  workers:
    engine: Custom
    template:
      spec:
        containers:
        - name: engine
          image: example/small:1
          command: [python3, {ENGINE}, --cache, /mnt/downloads/hub]
          env: [{{name: TOKEN, valueFrom: {{secretKeyRef: {{name: hub, key: token}}}}}}]
---
apiVersion: modelplane.ai/v1alpha1
kind: ModelService
metadata: {{name: small, namespace: default}}
spec: {{endpoints: [{{selector: {{matchLabels: {{app: small}}}}}}]}}
"""


def ask(plane, prompt="hello"):
    body = {"model": "small", "messages": [{"role": "user", "content": prompt}]}
    response = httpx.post(f"{plane.gateway}/default/small/v1/chat/completions", json=body, timeout=60)
    if response.status_code != 200:
        return None
    return json.loads(response.json()["choices"][0]["message"]["content"])


@pytest.mark.submission
def test_a_process_answers_crashes_comes_back_and_ends(up, gone):
    plane = up("--this-machine")
    plane.kubectl("apply", "-f", "-", stdin=MODEL)
    plane.ready("md/small", "modelservice/small")
    first = plane.until(lambda: ask(plane))
    folder = first["words"][1]
    assert first == {
        "pid": first["pid"],
        "words": ["--cache", folder],
        "CUDA_VISIBLE_DEVICES": "",
        "MODELPLANE_SERVED_MODEL_NAME": "default/small",
        "TOKEN": "hf_secret",
    }
    assert Path(folder).parent.is_dir()
    assert Path(folder).is_relative_to(plane.data / "this-machine")

    ask(plane, "exit")
    second = plane.until(lambda: ask(plane))
    assert second["pid"] != first["pid"]
    pods = plane.pods("this-machine")
    assert [pod[3] for pod in pods] == ["1"], pods
    logs = list((plane.data / "this-machine" / "logs").rglob("engine.log"))
    assert [log.read_text() for log in logs] == ["RuntimeError: asked to exit\n"]
    printed = f"[{logs[0].parent.name}/engine] RuntimeError: asked to exit\n"
    assert plane.modelplane("logs", "md/small") == (0, printed)

    os.kill(plane.process.pid, signal.SIGKILL)
    plane.process.wait()
    assert not gone([second["pid"]], [], seconds=0.2)
    again = up("--this-machine", data=plane.data)
    assert gone([second["pid"]], [])
    third = again.until(lambda: ask(again))

    again.kubectl("delete", "md", "small")
    assert gone([third["pid"]], [])
