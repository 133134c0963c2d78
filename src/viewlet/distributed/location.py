"""Where contents are, and whether an expression can be evaluated on every node by itself.

    Local         on the driver
    Dist(a, b)    on the worker that the values of columns a and b hash to
    Random        spread over the workers anyhow: weights of equal tuples are still to be added up
    Replicated    whole on every worker and on the driver

`tag_of` gives an expression's tag when every worker evaluates it over its own part of the atoms
(paper 000 section 4.2). What it says: adding up the workers' results gives the result, and where
the tuples of that sum are. There is one tag more than in the paper, because products pass bindings
from left to right: a lift over partitioned contents is right on one worker only, the one that its
partitioning variables hash to, yet it gives a tuple on all of them. Its tag is

    Follows(a)    correct beside a factor with tag Dist(a), meaningless without one
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from viewlet.calculus.expr import (
    PRESENCE,
    Add,
    Atom,
    Delta,
    Exists,
    Expr,
    MapRef,
    Mul,
    Nested,
    Rel,
    Sum,
)
from viewlet.calculus.scope import NONE, Names, outputs
from viewlet.calculus.text import to_text
from viewlet.errors import ProgramError, ResolutionError


@dataclass(frozen=True)
class Local:
    """On the driver."""

    def __str__(self) -> str:
        return "local"


@dataclass(frozen=True)
class Random:
    """Spread over the workers anyhow."""

    def __str__(self) -> str:
        return "random"


@dataclass(frozen=True)
class Replicated:
    """Whole on every worker and on the driver."""

    def __str__(self) -> str:
        return "replicated"


@dataclass(frozen=True)
class Dist:
    """By the values of these columns; in a tag, of these variables."""

    columns: tuple[str, ...]

    def __str__(self) -> str:
        return f"dist({', '.join(self.columns)})"


@dataclass(frozen=True)
class Follows:
    """A tag only: see the module's head."""

    columns: tuple[str, ...]

    def __str__(self) -> str:
        return f"follows({', '.join(self.columns)})"


Location = Local | Random | Replicated | Dist
Tag = Location | Follows
Locate = Callable[[Atom], Location]
"""The location of an atom in terms of its variables."""

LOCAL, RANDOM, REPLICATED = Local(), Random(), Replicated()


def location_of(text: str) -> Location:
    """Where a map can be kept, as it prints: local, replicated or dist(a, b)."""
    plain = {str(location): location for location in (LOCAL, REPLICATED)}
    if text in plain:
        return plain[text]
    if match := re.fullmatch(r"dist\((\w+(?:, *\w+)*)\)", text):
        return Dist(tuple(re.split(", *", match[1])))
    raise ResolutionError(
        f"there is no location {text}", hint="say local, replicated or dist(column, ...)"
    )


def in_variables(
    location: Location, columns: tuple[str, ...], variables: tuple[str, ...]
) -> Location:
    """A location over columns -> the same over the variables that stand for them."""
    if not isinstance(location, Dist):
        return location
    return Dist(tuple(variables[columns.index(c)] for c in location.columns))


def node_of(values: Iterable[object], nodes: int) -> int:
    """The node that a tuple of partitioning values belongs to: the same in every process.

    1, 1.0 and True are one value to a join, so they go to one node. Multiplying and folding 64-bit
    words is what whole columns of values can do at once too (engine/spark/chunks.py does).
    """
    mixed = 0
    for value in values:
        mixed = ((mixed ^ hash_word(value)) * SPREAD) & _WORD
        mixed ^= mixed >> 32
    return mixed % nodes


SPREAD = 0x9E3779B97F4A7C15
NULL_WORD = 0x6A09E667F3BCC909
_WORD = (1 << 64) - 1


def hash_word(value: object) -> int:
    """A value as the word that node_of hashes: equal values have equal words."""
    if value is None:
        return NULL_WORD
    if isinstance(value, str):
        return zlib.crc32(value.encode())
    if isinstance(value, float) and not (value.is_integer() and abs(value) < 2**63):
        bits: int = struct.unpack("<Q", struct.pack("<d", value))[0]
        return bits
    assert isinstance(value, int | float)
    return int(value) & _WORD


def tag_of(expr: Expr, locate: Locate, bound: Names = NONE) -> Tag:
    """The expression's tag where workers evaluate it, or ProgramError where they must not.

    `bound` are the variables that stand to the left. Replicated is also the tag of values and
    conditions: they are the same everywhere.
    """
    if isinstance(expr, Rel | Delta | MapRef):
        location = locate(expr)
        if isinstance(location, Local):
            raise _ill_formed("workers cannot read what is on the driver", expr)
        if isinstance(location, Random) and isinstance(expr, MapRef) and expr.column == PRESENCE:
            raise _ill_formed("records that are spread have no presence", expr)
        return location
    if isinstance(expr, Mul):
        return _product_tag(expr, locate, bound)
    if isinstance(expr, Add):
        return _sum_tag(expr, [tag_of(term, locate, bound) for term in expr.terms])
    if isinstance(expr, Sum):
        return _projection_tag(expr, tag_of(expr.body, locate, bound), bound)
    if isinstance(expr, Nested):
        return _nested_tag(expr, tag_of(expr.body, locate, bound))
    return REPLICATED


def _product_tag(expr: Mul, locate: Locate, bound: Names) -> Tag:
    """Q1^Dist(a) * Q2^Dist(a) is Dist(a); a replicated factor joins anything; Random joins no more.

    Follows(a) needs a Dist(a) in the same product to be more than Follows(a).
    """
    tags: list[Tag] = []
    for factor in expr.factors:
        tag = tag_of(factor, locate, bound)
        bound |= outputs(factor)
        if tag != REPLICATED:
            tags.append(tag)
    if not tags:
        return REPLICATED
    if tags == [RANDOM]:
        return RANDOM
    if RANDOM in tags or len({t.columns for t in tags if isinstance(t, Dist | Follows)}) > 1:
        raise _ill_formed("factors are partitioned differently", expr)
    return next((tag for tag in tags if isinstance(tag, Dist)), tags[0])


def _sum_tag(expr: Add, tags: list[Tag]) -> Tag:
    """Parts add up wherever they are, but a replicated term would count once on every worker:
    beside a bound Dist(a) it is right on one of them."""
    distinct = set(tags)
    if len(distinct) == 1:
        return tags[0]
    keys = {tag.columns for tag in distinct if isinstance(tag, Dist | Follows)}
    if distinct <= {RANDOM} | {tag for tag in distinct if isinstance(tag, Dist)}:
        return RANDOM
    if len(keys) == 1 and RANDOM not in distinct:
        return Follows(keys.pop())
    raise _ill_formed("terms are located differently", expr)


def _projection_tag(expr: Sum, tag: Tag, bound: Names) -> Tag:
    """Sum[a](Q^Dist(a)) stays Dist(a), Sum[b](Q^Dist(a)) has partial sums: Random.

    A variable that is bound from the left is not summed over.
    """
    if not isinstance(tag, Dist | Follows) or {*tag.columns} <= {*expr.keys} | bound:
        return tag
    if isinstance(tag, Dist):
        return RANDOM
    raise _ill_formed("a sum over a lift's partitioning variables", expr)


def _nested_tag(expr: Nested, tag: Tag) -> Tag:
    """Weights are not linear in the body: all of it must be on one worker."""
    if isinstance(tag, Random):
        raise _ill_formed("a nested expression over partial sums", expr)
    if isinstance(tag, Replicated) or (isinstance(expr, Exists) and isinstance(tag, Dist)):
        return tag
    assert isinstance(tag, Dist | Follows)
    if not expr.local.isdisjoint(tag.columns):
        raise _ill_formed("an extreme over its partitioning variable", expr)
    return Follows(tag.columns)


def _ill_formed(message: str, expr: Expr) -> ProgramError:
    return ProgramError(f"{message}: {to_text(expr)}")
