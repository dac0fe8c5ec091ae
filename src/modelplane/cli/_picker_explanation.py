"""How an explanation of one decision is printed."""

from modelplane.cli._shown import print_table
from modelplane.epp.replay.explain import EndpointExplanation, PickExplanation


def print_explanation(found: PickExplanation) -> None:
    print(f"{found.outcome} ({found.status}): {found.destinations or found.why}")
    for name, value in found.set_headers.items():
        print(f"  sets {name}: {value}")
    for name in found.remove_headers:
        print(f"  removes {name}")
    for name, picks in found.shadows.items():
        print(f"  shadow profile {name} would have picked {', '.join(picks) or 'none'}")
    if found.not_allowed:
        print(f"  not in the proxy's subset: {', '.join(found.not_allowed)}")
    for profile in found.profiles:
        print()
        print(f"profile {profile.name}")
        print_table(("VERDICT", "ENDPOINT", "ADDRESS", "TOTAL", "WHY"), [_cells(each) for each in profile.endpoints])


def _cells(endpoint: EndpointExplanation) -> tuple[str, ...]:
    parts = ", ".join(f"{part.scorer} {part.score:.3f} x {part.weight:g}" for part in endpoint.scores)
    why = f"{endpoint.filter}: {endpoint.reason}" if endpoint.filter else parts
    total = f"{endpoint.total:.3f}" if endpoint.total is not None else "-"
    return endpoint.verdict, endpoint.name, endpoint.address, total, why
