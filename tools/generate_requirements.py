"""Writes docs/operations/requirements.md from the table of the software of clusters.

generate_requirements.py [--check]
"""

import argparse
import sys
from pathlib import Path

from modelplane.catalog.stack import StackComponent, load_stack

PAGE = Path(__file__).resolve().parent.parent / "docs" / "operations" / "requirements.md"
HEAD = """\
# What a cluster needs

This page is for platform engineers who prepare a workload cluster.

`make generate` writes this page from `src/modelplane/catalog/stack.yaml`, which Modelplane installs from as well.

- On a cluster that Modelplane makes on a cloud, and on an existing one with `components: Managed`, it is installed with
  provider-helm, in this order. `spec.software` has overrides by the names below, registry mirrors and a pause. An
  override with `enabled: true` installs what nothing needs, too, such as `kueue`. [upgrade.md](upgrade.md) has upgrades
  in waves.
- With `components: Provided` you install it. The condition `RequirementsMet` lists what is missing, and so does
  `modelplane cluster check --kubeconfig FILE`. Other versions may do: what is looked for is in the last column.
- Without `components` nothing is installed or checked.

A cluster further needs Kubernetes {kubernetes} or newer with dynamic resource allocation, a load balancer for Services,
driver 565 and container toolkit 1.18.0 or newer on nodes with NVIDIA GPUs, and the label `modelplane.ai/pool=POOL` on
the nodes of each pool.

With KAI every cluster has an unlimited `default-queue`. Kueue counts claims of the device classes of NVIDIA and AMD;
its ClusterQueues are yours to make. Volcano allocates claims.

| component | for | chart, version | namespace | needs | looked for |
|---|---|---|---|---|---|
"""
SOURCES = """
How versions and values are known. Charts were rendered with the values of the table by `python -m lab charts`.

| component | source |
|---|---|
"""


def page() -> str:
    table = load_stack()
    sources = (f"| `{each.name}` | {each.source} |\n" for each in table.components if each.source)
    return "".join([HEAD.format(kubernetes=table.kubernetes), *map(_row, table.components), SOURCES, *sources])


def _row(component: StackComponent) -> str:
    chart = component.chart
    what = f"{chart.name} {chart.version}" if chart else ", ".join(component.manifests)
    needs = ", ".join(f"{name} {wanted}".strip() for name, wanted in component.needs.items())
    looked_for = ", ".join(f"`{item.shown}`" for item in component.provides.objects())
    cells = (f"`{component.name}`", _users(component), what, component.namespace, needs, looked_for)
    return f"| {' | '.join(cells)} |\n"


def _users(component: StackComponent) -> str:
    parts = [*component.used_by, *component.only_on]
    if len(component.stacks) == 1:
        parts.append(f"stack {component.stacks[0]}")
    shown = ", ".join(parts) or "every cluster"
    return f"{shown}; where an override turns it on" if component.optional else shown


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only say whether the page is up to date")
    options = parser.parse_args()
    if options.check:
        current = PAGE.exists() and PAGE.read_text() == page()
        return 0 if current else _stale()
    PAGE.write_text(page())
    print(f"{PAGE.name} written")
    return 0


def _stale() -> int:
    print(f"{PAGE.name} is not up to date: run make generate", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
