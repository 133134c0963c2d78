"""ROLLUP, CUBE and GROUPING SETS -> the groupings that they stand for.

    GROUP BY a, ROLLUP (b, c)      (a, b, c), (a, b), (a)
    GROUP BY CUBE (a, b)           (a, b), (a), (b), ()

A query is the UNION ALL of its groupings: a key that a grouping does not have is NULL there. What
they read alike is kept once, as with any views that share maps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, product

from sqlglot import exp

from viewlet.errors import UnsupportedError
from viewlet.frontend.syntax import fault, unwrapped

MOST_SETS = 64
"""Each is a view of its own to maintain."""

_SETS = (exp.Rollup, exp.Cube, exp.GroupingSets)

Keys = tuple[exp.Expr, ...]


@dataclass(frozen=True)
class Grouping:
    """One grouping of several: its keys, and the keys that only others have."""

    keys: Keys
    absent: Keys


def groupings_of(select: exp.Select) -> list[Grouping] | None:
    """The groupings of a SELECT; None where it has one, as GROUP BY without sets has."""
    group = select.args.get("group")
    if group is None:
        return None
    trailing = [*(group.args.get("rollup") or ()), *(group.args.get("cube") or ())]
    parts: list[list[Keys]] = [_sets(node) for node in group.expressions]
    if trailing:  # GROUP BY a, b WITH ROLLUP
        keys = [(node,) for node in group.expressions]
        parts = [_rolled(keys) if isinstance(trailing[0], exp.Rollup) else _cubed(keys)]
    elif not any(isinstance(node, _SETS) for node in group.expressions):
        return None
    count = 1
    for part in parts:
        count *= len(part)
    if count > MOST_SETS:
        raise fault(
            UnsupportedError,
            f"GROUP BY has {count} grouping sets, and {MOST_SETS} at most are supported",
            group,
            "list those that you need in GROUPING SETS",
        )
    sets = [_once(keys for part in choice for keys in part) for choice in product(*parts)]
    every = _once(key for keys in sets for key in keys)
    return [Grouping(keys, tuple(key for key in every if key not in keys)) for keys in sets]


def leaves_of(select: exp.Select) -> list[exp.Expr]:
    """The keys that GROUP BY names, as often and where it names them."""
    group = select.args["group"]
    leaves, pending = [], list(group.expressions)
    while pending:
        node = pending.pop(0)
        if isinstance(node, (*_SETS, exp.Tuple)):
            pending = [*node.expressions, *pending]
        elif isinstance(node, exp.Paren):
            pending = [node.this, *pending]
        else:
            leaves.append(node)
    return leaves


def _sets(node: exp.Expr) -> list[Keys]:
    """One element of GROUP BY as the sets that it stands for."""
    if isinstance(node, exp.Rollup):
        return _rolled([_composite(part) for part in node.expressions])
    if isinstance(node, exp.Cube):
        return _cubed([_composite(part) for part in node.expressions])
    if isinstance(node, exp.GroupingSets):
        return [keys for part in node.expressions for keys in _sets(part)]
    return [_composite(node)]


def _composite(node: exp.Expr) -> Keys:
    """(a, b) -> a, b;  (a) -> a;  () -> nothing"""
    node = unwrapped(node)
    return tuple(node.expressions) if isinstance(node, exp.Tuple) else (node,)


def _rolled(parts: Sequence[Keys]) -> list[Keys]:
    """ROLLUP (a, b) -> (a, b), (a), ()"""
    return [
        tuple(key for part in parts[:length] for key in part)
        for length in range(len(parts), -1, -1)
    ]


def _cubed(parts: Sequence[Keys]) -> list[Keys]:
    """CUBE (a, b) -> (a, b), (a), (b), ()"""
    return [
        tuple(key for part in chosen for key in part)
        for length in range(len(parts), -1, -1)
        for chosen in combinations(parts, length)
    ]


def _once(keys: Iterable[exp.Expr]) -> Keys:
    return tuple(dict.fromkeys(keys))
