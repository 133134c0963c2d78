"""A short hunt in every run of the tests; `make hunt` is a long one with a fresh seed."""

from __future__ import annotations

import secrets

from tests.oracle.long_hunt import hunt


def test_a_short_hunt() -> None:
    seed = secrets.randbelow(10**9)
    print(f"python -m tests.oracle.long_hunt --seed {seed}")
    tally = hunt(0.4, seed, ["local", "local-rows", "interpreter"])
    assert not tally.failures, "\n".join(tally.failures)
    assert sum(tally.comparisons.values()) > 10, tally.text()
