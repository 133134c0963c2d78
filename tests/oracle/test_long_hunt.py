"""A short hunt in every run of the tests; `make hunt` is a long one with a fresh seed."""

from __future__ import annotations

from tests.oracle.long_hunt import FINITE, hunt


def test_a_short_hunt() -> None:
    """Finite doubles: sums of others in compiled code are known to be wrong (docs say so)."""
    tally = hunt(0.4, 5, ["local", "interpreter"], FINITE)
    assert not tally.failures, "\n".join(tally.failures)
    assert sum(tally.comparisons.values()) > 10, tally.text()
