"""Writes the Helm chart into dist/chart/modelplane, from what `modelplane install` applies.

    build_chart.py [--output FOLDER]

Nothing of an object is written here. Each is rendered with every option on, with words in the place of what users
choose, and once more with each option off: the lines by which the two differ are those that the option decides, and
become a condition of the chart. So the chart has no rule of its own, and what an option adds later is in it by itself.
A test compares `helm template` with `modelplane install --dry-run` for many choices.
"""

import argparse
import gzip
import io
import json
import re
import shutil
import sys
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path

from modelplane import __version__
from modelplane.api.objects import Manifest, name_of
from modelplane.compose.clouds import CLOUDS
from modelplane.crossplane.packaging import PackageSource, installation
from modelplane.k8s.yaml import to_yaml

ROOT = Path(__file__).resolve().parent.parent
CHART = "modelplane"
_WORDS = {
    "zz.packages": "{{ .Values.packages }}",
    "zz.providers": "{{ .Values.providers }}",
    "zz.images": "{{ .Values.images | default .Values.packages }}",
    "zz.version": "{{ .Values.version | default .Chart.AppVersion }}",
    "zz-pull-secret": "{{ .Values.pullSecret | quote }}",
    "zz.hub": "{{ .Values.hub }}",
    "zz.traffic": "{{ . }}",
}
"""What stands for the choice of a user while an object is rendered."""
_EACH = "zz.traffic"
_WHOLE = PackageSource(
    packages="zz.packages",
    providers="zz.providers",
    images="zz.images",
    version="zz.version",
    helm=True,
    clouds=tuple(CLOUDS),
    pull_secret="zz-pull-secret",  # noqa: S106  the name of a Secret
    traffic_metrics=(_EACH,),
    hub="zz.hub",
    monitors=True,
)


@dataclass(frozen=True)
class Option:
    """A choice that decides lines. `condition` is the chart's word for it being on."""

    condition: str
    off: PackageSource


def _options() -> Iterable[Option]:
    yield Option("or .Values.helm .Values.clouds", replace(_WHOLE, helm=False))
    yield Option(".Values.observe", replace(_WHOLE, observe=False))
    yield Option(".Values.gateway", replace(_WHOLE, gateway=False))
    yield Option(".Values.hub", replace(_WHOLE, hub=""))
    yield Option(".Values.dashboard", replace(_WHOLE, dashboard=False))
    yield Option(".Values.monitors", replace(_WHOLE, monitors=False))
    yield Option(".Values.pullSecret", replace(_WHOLE, pull_secret=""))
    yield Option(".Values.trafficMetrics", replace(_WHOLE, traffic_metrics=()))
    for name in CLOUDS:
        others = tuple(each for each in CLOUDS if each != name)
        yield Option(f'has "{name}" .Values.clouds', replace(_WHOLE, clouds=others))


@dataclass(frozen=True)
class Line:
    text: str
    when: tuple[str, ...] = ()
    """The conditions that must all hold."""


def chart_files() -> dict[str, str]:
    """The chart's files, by their path in it."""
    objects = {_key(item): _lines(item) for item in installation(_WHOLE)}
    for option in _options():
        without = {_key(item): to_yaml(item).splitlines() for item in installation(option.off)}
        unknown = without.keys() - objects.keys()
        if unknown:
            raise SystemExit(f"build_chart.py: {unknown} is there only without {option.condition}")
        objects = {key: _decided(lines, without.get(key), option.condition) for key, lines in objects.items()}
    templates = {f"templates/{_file(key)}.yaml": _template(lines) for key, lines in objects.items()}
    return {
        "Chart.yaml": to_yaml(_META),
        "values.yaml": VALUES,
        "values.schema.json": json.dumps(_SCHEMA, indent=2) + "\n",
        "templates/NOTES.txt": _NOTES,
        **templates,
    }


def _key(item: Manifest) -> tuple[str, str]:
    return str(item["kind"]), name_of(item)


def _file(key: tuple[str, str]) -> str:
    return "-".join(re.sub(r"[^a-z0-9]+", "-", part.lower()) for part in key)


def _lines(item: Manifest) -> list[Line]:
    return [Line(text) for text in to_yaml(item).splitlines()]


def _decided(lines: Sequence[Line], off: Sequence[str] | None, condition: str) -> list[Line]:
    """The lines with the condition on those that are missing without it, and those that are there without it alone.

    Lines that another option brought when it was off stay as they are: no option decides lines of another.
    """
    if off is None:
        return [replace(line, when=(condition, *line.when)) for line in lines]
    on = [line.text for line in lines if not _is_negative(line)]
    made: list[Line] = []
    plain = [line for line in lines if not _is_negative(line)]
    for operation, i1, i2, j1, j2 in SequenceMatcher(None, on, list(off), autojunk=False).get_opcodes():
        if operation == "equal":
            made += plain[i1:i2]
            continue
        made += [replace(line, when=(*line.when, condition)) for line in plain[i1:i2]]
        made += [Line(text, (f"not ({condition})",)) for text in off[j1:j2]]
    return _with_negatives(made, lines)


def _is_negative(line: Line) -> bool:
    return any(each.startswith("not (") for each in line.when)


def _with_negatives(made: list[Line], before: Sequence[Line]) -> list[Line]:
    """Puts the lines of earlier options back, each after the line that it followed."""
    for at, line in enumerate(before):
        if _is_negative(line):
            previous = next(each for each in reversed(before[:at]) if not _is_negative(each))
            place = next(i for i, each in enumerate(made) if each.text == previous.text)
            made.insert(place + 1, line)
    return made


def _template(lines: Sequence[Line]) -> str:
    """Lines with equal conditions share a block."""
    out: list[str] = []
    open_: tuple[str, ...] = ()
    for line in (*lines, Line("")):
        kept = 0
        while kept < min(len(open_), len(line.when)) and open_[kept] == line.when[kept]:
            kept += 1
        out += ["{{- end }}"] * (len(open_) - kept)
        out += [f"{{{{- if {each} }}}}" for each in line.when[kept:]]
        open_ = line.when
        out += _repeated(line.text)
    return "\n".join(out).rstrip("\n") + "\n"


def _repeated(text: str) -> list[str]:
    written = text
    for word, action in _WORDS.items():
        written = written.replace(word, action)
    if _EACH in text:
        return ["{{- range .Values.trafficMetrics }}", written, "{{- end }}"]
    return [written]


_META: Mapping[str, object] = {
    "apiVersion": "v2",
    "name": CHART,
    "description": "The control plane for a fleet of inference clusters, on Crossplane.",
    "type": "application",
    "version": __version__,
    "appVersion": __version__,
    "kubeVersion": ">=1.34.0-0",
}
VALUES = """\
# Where our packages were pushed (make release REGISTRY=...), and where the providers are. A mirror is named here.
packages: ""
providers: ""
# Where the images that workload clusters run are. Empty: as packages.
images: ""
# Of our packages. Empty: the chart's.
version: ""
# provider-helm too, for the software of clusters.
helm: false
# Sources of clusters whose providers are installed too: AKS, Civo, EKS, GKE, K3s, Nebius, Vultr.
clouds: []
# Watch nodes, queues and pods of clusters, which reads their kubeconfig Secrets.
observe: true
# The fleet's GatewayClass and its settings, which takes the kinds of Envoy Gateway.
gateway: true
# A name at which agents of workload clusters dial the hub. Empty: no hub.
hub: ""
# Metrics of routers or gateways, which canaries are judged by.
trafficMetrics: []
# PodMonitors too, for a control plane with the Prometheus Operator.
monitors: false
# The dashboard, which reads and writes nothing. The Secret modelplane-dashboard-token in modelplane-system opens it.
dashboard: true
# Secret to pull with, in crossplane-system and for hub and dashboard in modelplane-system.
pullSecret: ""
"""
_REPOSITORY = {"type": "string", "pattern": "^[^/]*[.:][^/]*(/.*[^/])?$"}
_TEXT = {"type": "string"}
_SCHEMA: Mapping[str, object] = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "required": ["packages", "providers"],
    "additionalProperties": False,
    "properties": {
        "packages": _REPOSITORY,
        "providers": _REPOSITORY,
        "images": _TEXT,
        "version": {"type": "string", "pattern": "^([0-9].*)?$"},
        "helm": {"type": "boolean"},
        "clouds": {"type": "array", "items": {"enum": list(CLOUDS)}, "uniqueItems": True},
        "observe": {"type": "boolean"},
        "gateway": {"type": "boolean"},
        "dashboard": {"type": "boolean"},
        "hub": {"type": "string", "pattern": "^[A-Za-z0-9.:-]*$"},
        "trafficMetrics": {"type": "array", "items": {"type": "string", "pattern": "^https?://"}},
        "monitors": {"type": "boolean"},
        "pullSecret": _TEXT,
        "global": {"type": "object"},
    },
}
_NOTES = """\
Modelplane {{ .Values.version | default .Chart.AppVersion }} is being installed by Crossplane's package manager.

  kubectl wait --for=condition=Healthy function.pkg.crossplane.io/function-modelplane
  kubectl wait --for=condition=Healthy configuration.pkg.crossplane.io/modelplane
  modelplane cluster add east --kubeconfig east.yaml --apply
{{- if .Values.dashboard }}

The dashboard is opened at http://localhost:8081/?token=TOKEN, once there is a token for it:

  kubectl -n modelplane-system create secret generic modelplane-dashboard-token \\
    --from-literal=token="$(openssl rand -hex 16)"
  kubectl -n modelplane-system get secret modelplane-dashboard-token -o jsonpath='{.data.token}' | base64 -d
  kubectl -n modelplane-system port-forward service/modelplane-dashboard 8081
{{- end }}
"""


def pack(files: Mapping[str, str]) -> bytes:
    """The chart as an archive, with equal bytes for equal files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path, text in sorted(files.items()):
            entry = tarfile.TarInfo(f"{CHART}/{path}")
            entry.size, entry.mode = len(text.encode()), 0o644
            archive.addfile(entry, io.BytesIO(text.encode()))
    return gzip.compress(buffer.getvalue(), 6, mtime=0)


def write(folder: Path) -> Path:
    """The chart as a folder, and beside it packed. Returns the archive's path."""
    files = chart_files()
    shutil.rmtree(folder / CHART, ignore_errors=True)
    for path, text in files.items():
        (folder / CHART / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / CHART / path).write_text(text)
    archive = folder / f"{CHART}-{__version__}.tgz"
    archive.write_bytes(pack(files))
    return archive


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=ROOT / "dist" / "chart", help="where to (default: %(default)s)")
    print(write(parser.parse_args().output))
    return 0


if __name__ == "__main__":
    sys.exit(main())
