"""What a placement costs, and what the second best would."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from viewlet.distributed.location import Location


@dataclass(frozen=True, order=True)
class Price:
    """An average batch: its time, the stages and jobs of all triggers, and what a batch moves."""

    ms: float
    stages: int = 0
    jobs: int = 0
    moved: float = 0.0

    def __str__(self) -> str:
        return f"{self.ms:.0f} ms a batch, {self.stages} stages, {self.moved / 1e6:.1f} MB moved"


def verdict(
    price: Price,
    locations: Mapping[str, Location],
    other: tuple[Price, Mapping[str, Location]] | None,
    *,
    is_exact: bool,
) -> str:
    """The lines by which explain says why maps are where they are.

    `other`: the second best placement; `is_exact`: no placement is cheaper by the estimates.
    """
    known = "no placement is cheaper" if is_exact else "the cheapest that was looked at"
    lines = [f"  estimate: {price}; {known}"]
    if other is None:
        lines.append("  runner-up: none, every map has one location")
    else:
        other_price, other_locations = other
        margin = other_price.ms - price.ms
        share = margin / max(price.ms, 1e-9)
        moved = [f"{map} {to}" for map, to in other_locations.items() if to != locations.get(map)]
        text = f"{other_price} ({margin:+.0f} ms, {share:+.0%}): {', '.join(moved)}"
        lines.append(f"  runner-up: {text}")
    return "\n".join(lines)
