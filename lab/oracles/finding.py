"""What a comparison found."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Difference:
    """One case in which the two sides disagree. `reason` is why that is known and accepted, or nothing."""

    case: str
    text: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """`compared` counts cases, `notes` are figures worth keeping."""

    oracle: str
    compared: int
    differences: tuple[Difference, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def agrees(self) -> bool:
        return all(difference.reason for difference in self.differences)

    def lines(self) -> list[str]:
        explained = sum(bool(difference.reason) for difference in self.differences)
        counted = f"{self.compared} compared, {len(self.differences)} differ, {explained} of them explained"
        told = [f"{self.oracle}: {counted}", *(f"  {note}" for note in self.notes)]
        for each in self.differences:
            why = f" (known: {each.reason})" if each.reason else ""
            told.append(f"  {each.case}: {each.text}{why}")
        return told
