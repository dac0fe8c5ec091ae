"""kubectl: what people type, with the texts that it prints."""

from __future__ import annotations

import json
import re
import subprocess
import sys

from lab.sessions.steps import GROUP, NAMESPACE, config, deployment, namespace, tell

_AGE = re.compile(r"\b(\d+[smhd])+\b|<unknown>")
_SPACES = re.compile(r" {2,}")
_FIELDS = re.compile(r"spec\.[\w.\[\]]+")


class Kubectl:
    """Runs it, and tells exit status and text."""

    def __init__(self, program: str, kubeconfig: str) -> None:
        """`program` is the one to run."""
        self._base = [program, f"--kubeconfig={kubeconfig}", "-n", NAMESPACE]

    def step(self, *arguments: str, stdin: object = None, exact: bool = True) -> None:
        """Steps that are not exact are compared by exit status and the fields that the refusal names."""
        given = None if stdin is None else json.dumps(stdin)
        done = subprocess.run(
            [*self._base, *arguments], input=given, capture_output=True, text=True, check=False, timeout=240
        )
        outcome: dict[str, object] = {"exit": done.returncode}
        if exact:
            outcome |= {"out": _shown(done.stdout), "err": _shown(done.stderr)}
        else:
            outcome["fields"] = sorted(set(_FIELDS.findall(done.stderr)))
        tell(" ".join(arguments), outcome)


def _shown(text: str) -> object:
    if text.startswith("{"):
        return json.loads(text)
    return [_SPACES.sub("  ", _AGE.sub("AGE", line)).rstrip() for line in text.splitlines()]


def main(kubeconfig: str, program: str = "kubectl") -> None:
    run = Kubectl(program, kubeconfig).step
    run("apply", "-f", "-", stdin=namespace())
    run("apply", "-f", "-", stdin=deployment())
    run("apply", "-f", "-", stdin=deployment())
    run("apply", "-f", "-", stdin=deployment(replicas=3))
    run("diff", "-f", "-", stdin=deployment(replicas=3))
    run("get", "modeldeployments")
    run("get", "modeldeployment/m", "-o", "json")
    run("get", "modeldeployments", "-o", "name", "-l", "team=a")
    run("get", "modeldeployments", "-o", "name", "-l", "team=b")
    run("get", "modeldeployments", "-A", "-o", "wide")
    run("get", "modeldeployments", "--sort-by=.metadata.name", "-o", "jsonpath={.items[*].spec.replicas}")
    run("get", "modeldeployment/none")
    run("get", "nonsense")
    run("scale", "modeldeployment/m", "--replicas=4")
    run("scale", "modeldeployment/m", "--replicas=9", "--current-replicas=1")
    run("label", "modeldeployment/m", "x=y")
    run("label", "modeldeployment/m", "x=z")
    run("label", "modeldeployment/m", "x=z", "--overwrite")
    run("annotate", "modeldeployment/m", "x=y")
    run("patch", "modeldeployment/m", "--type=merge", "-p", '{"spec":{"replicas":5}}')
    run("patch", "modeldeployment/m", "--type=json", "-p", '[{"op":"replace","path":"/spec/replicas","value":6}]')
    run("patch", "modeldeployment/m", "--type=merge", "-p", '{"spec":{"replicas":-1}}', exact=False)
    run("apply", "--server-side", "--field-manager=a", "-f", "-", stdin=config("s", a="1"))
    run("apply", "--server-side", "--field-manager=b", "-f", "-", stdin=config("s", a="2"))
    run("apply", "--server-side", "--field-manager=b", "--force-conflicts", "-f", "-", stdin=config("s", a="2"))
    run("create", "configmap", "c", "--from-literal=a=1")
    run("create", "configmap", "c", "--from-literal=a=1")
    run("replace", "-f", "-", stdin=config("c", a="3"))
    run("create", "--dry-run=server", "-f", "-", stdin=deployment("dry"))
    run("create", "-f", "-", stdin=deployment("wrong", replicas=-1), exact=False)
    run("create", "-f", "-", stdin=deployment("unknown", nonsense=1), exact=False)
    run("explain", f"modeldeployments.{GROUP}", "--recursive", exact=False)
    run("api-resources", f"--api-group={GROUP}", "-o", "name")
    run("auth", "can-i", "create", f"modeldeployments.{GROUP}")
    run("wait", "modeldeployment/m", "--for=jsonpath={.spec.replicas}=6", "--timeout=120s")
    run("delete", "modeldeployment/m")
    run("delete", "modeldeployment/m")
    run("delete", "modeldeployment/m", "--ignore-not-found")
    run("delete", "configmap", "c", "s")
    run("get", "configmap/c")


if __name__ == "__main__":
    main(*sys.argv[1:])
