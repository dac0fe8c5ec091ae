"""An overview as one HTML page: every text of an object is escaped and prints, and there is no script."""

from collections.abc import Iterable, Sequence
from html import escape

from modelplane.k8s.admission.decode import escape as printable
from modelplane.views.caches import CacheClusterRow
from modelplane.views.health import ObjectHealth
from modelplane.views.overview import Overview

_STYLE = """\
:root { color-scheme: light dark; font: 15px/1.45 system-ui, sans-serif; }
body { margin: 2rem auto; max-width: 72rem; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.05rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid #8884; vertical-align: top; }
th { font-weight: 600; font-size: .85rem; opacity: .75; }
.Ready { color: #1a7f37; } .NotReady { color: #b35900; } .Unknown, .Deleting { color: #777; }
.why { opacity: .75; font-size: .85rem; } .none { opacity: .6; }
"""
REFRESH_S = 2


def render(found: Overview) -> str:
    sections = (
        _table(
            "Clusters",
            ("Cluster", "Health", "Nodes", "Free devices", "Lost devices", "Replicas", "Pools"),
            (
                [c.name, c.health, c.nodes, c.free_devices, c.lost_devices, c.replicas, ", ".join(c.pools)]
                for c in found.clusters
            ),
        ),
        _table(
            "Deployments",
            ("Deployment", "Health", "Wanted", "Placed", "Serving", "Placement"),
            (
                [f"{d.namespace}/{d.name}", d.health, d.wanted, d.placed, d.serving, d.placement]
                for d in found.deployments
            ),
        ),
        _table(
            "Replicas",
            ("Replica", "Health", "Deployment", "Cluster"),
            ([f"{r.namespace}/{r.name}", r.health, r.deployment, r.cluster] for r in found.replicas),
        ),
        *_caches(found),
        _table(
            "Services",
            ("Service", "Health", "Address", "Endpoints", "Serving"),
            ([f"{s.namespace}/{s.name}", s.health, s.address, s.endpoints, s.serving] for s in found.services),
        ),
    )
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Modelplane</title>'
        f'<meta http-equiv="refresh" content="{REFRESH_S}"><link rel="icon" href="data:,">'
        f'<link rel="stylesheet" href="/style.css"></head><body><h1>Modelplane</h1>{"".join(sections)}</body></html>'
    )


def _caches(found: Overview) -> tuple[str, ...]:
    """By cluster: that is where the bytes are."""
    if not found.caches:
        return ()
    columns = ("Cache", "Health", "Cluster", "Phase", "Staged", "Rate", "Left", "Replicas", "Why")
    rows = (
        [
            f"{c.namespace}/{c.name}",
            c.health,
            at.cluster,
            at.phase,
            at.progress,
            at.rate,
            _left(at),
            at.references,
            at.why,
        ]
        for c in found.caches
        for at in c.clusters
    )
    return (_table("Caches", columns, rows),)


def _left(row: CacheClusterRow) -> str:
    return "" if row.eta_s is None else f"{row.eta_s} s"


def style() -> str:
    return _STYLE


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(_cell(value) for value in row)}</tr>" for row in rows)
    shown = (
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if body else '<p class="none">none</p>'
    )
    return f"<h2>{escape(title)}</h2>{shown}"


def _cell(value: object) -> str:
    if isinstance(value, ObjectHealth):
        why = f'<div class="why">{_text(value.why)}</div>' if value.why else ""
        return f'<td><span class="{_text(value.state)}">{_text(value.state)}</span>{why}</td>'
    return f"<td>{_text(str(value))}</td>"


def _text(value: str) -> str:
    """What does not print is spelled out: it could reverse the writing direction, or hide a name."""
    return escape(printable(value))
