"""The representation of every variable and weight: what kernels need to know before they run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from viewlet.calculus.expr import (
    PRESENCE,
    Add,
    Assign,
    Delta,
    Each,
    Expr,
    Extreme,
    Lift,
    MapRef,
    Rel,
    Value,
    children,
)
from viewlet.calculus.fields import Rules
from viewlet.functions import ScalarExpr, can_be_null, physical_type
from viewlet.schema import Physical


@dataclass(frozen=True)
class Slot:
    """How one value is held: its representation and whether it can be NULL."""

    physical: Physical
    nullable: bool = False

    def __str__(self) -> str:
        return self.physical.value + ("?" if self.nullable else "")


@dataclass(frozen=True)
class Signature:
    """The slots of an atom's variables, and of its weight (for a map, one for each column)."""

    keys: tuple[Slot, ...]
    weights: Mapping[str, Physical]


Signatures = Mapping[str, Signature]
"""By relation or map name. A delta has the signature of its relation."""

Slots = dict[str, Slot]


def scalar_slot(scalar: ScalarExpr, slots: Mapping[str, Slot]) -> Slot:
    """The slot of a scalar's value, from those of its variables."""
    types = {name: slot.physical for name, slot in slots.items()}
    nullable = {name: slot.nullable for name, slot in slots.items()}
    return Slot(physical_type(scalar, types), can_be_null(scalar, nullable))


def variable_slots(expr: Expr, signatures: Signatures, bound: Mapping[str, Slot] = {}) -> Slots:
    """The slot of every variable in the expression, nested ones included.

    A variable that several atoms bind is NULL only where all of them can be.
    """
    slots: Slots = dict(bound)
    _collect(expr, signatures, slots)
    return slots


SLOTS: Rules[Callable[[Any, Signatures, Slots], None]] = Rules("rule for its variables' types")
WEIGHTS: Rules[Callable[[Any, Signatures, Mapping[str, Slot]], Physical]] = Rules("weight type")


def _collect(expr: Expr, signatures: Signatures, slots: Slots) -> None:
    """Enter the slots of the variables that an expression binds."""
    SLOTS[type(expr)](expr, signatures, slots)


def atom_slots(expr: Rel | Delta | MapRef, signatures: Signatures, slots: Slots) -> None:
    """R(x, y): as the columns are declared."""
    for name, slot in zip(expr.arguments, signatures[expr.name].keys, strict=True):
        _merge(slots, name, slot)


def assign_slots(expr: Assign, signatures: Signatures, slots: Slots) -> None:
    """(x := [f(y)]): as the scalar's value."""
    _merge(slots, expr.variable, scalar_slot(expr.scalar, slots))


def each_slots(expr: Each, signatures: Signatures, slots: Slots) -> None:
    """(x := up to [f(y)]): a whole number, never NULL."""
    _merge(slots, expr.variable, Slot(Physical.INT))


def lift_slots(expr: Lift, signatures: Signatures, slots: Slots) -> None:
    """(x := q): as q's weight, never NULL."""
    _collect_nested(expr.body, signatures, slots)
    _merge(slots, expr.variable, Slot(weight_type(expr.body, signatures, slots)))


def extreme_slots(expr: Extreme, signatures: Signatures, slots: Slots) -> None:
    """(x := min y in q): as y, NULL where q is empty."""
    _collect_nested(expr.body, signatures, slots)
    _merge(slots, expr.variable, Slot(slots[expr.target].physical, nullable=True))


def add_slots(expr: Add, signatures: Signatures, slots: Slots) -> None:
    """a + b: NULL where one of them can be, FLOAT where one of them is.

    A NULL that is written out has the representation of an integer: any other one decides.
    """
    branches = [dict(slots) for _ in expr.terms]
    for term, branch in zip(expr.terms, branches, strict=True):
        _collect(term, signatures, branch)
    for name in {name for branch in branches for name in branch}:
        choices = [branch[name] for branch in branches if name in branch]
        kinds = [slot.physical for slot in choices]
        # Terms may bind one variable to an int and to a float: it is a float.
        physical = next((kind for kind in kinds if kind is not Physical.INT), Physical.INT)
        if Physical.FLOAT in kinds:
            physical = Physical.FLOAT
        slots[name] = Slot(physical, any(slot.nullable for slot in choices))


def parts_slots(expr: Expr, signatures: Signatures, slots: Slots) -> None:
    """a * b, Sum[x](q), Exists(q): as the parts say, one after the other."""
    for part in children(expr):
        _collect(part, signatures, slots)


def _collect_nested(body: Expr, signatures: Signatures, slots: Slots) -> None:
    """x NULL and M[x] without NULLs: (n := M[x]) is n = 0, so M says nothing about x outside."""
    inner = dict(slots)
    _collect(body, signatures, inner)
    for name in inner.keys() - slots.keys():
        slots[name] = inner[name]


def _merge(slots: Slots, name: str, slot: Slot) -> None:
    previous = slots.get(name)
    if previous is None:
        slots[name] = slot
    elif previous.nullable and not slot.nullable:
        slots[name] = Slot(previous.physical)


def weight_type(expr: Expr, signatures: Signatures, slots: Mapping[str, Slot]) -> Physical:
    """FLOAT where a DOUBLE takes part in the weight, else INT."""
    return WEIGHTS[type(expr)](expr, signatures, slots)


def counted_weight(expr: Expr, signatures: Signatures, slots: Mapping[str, Slot]) -> Physical:
    """Rows and tests weigh whole numbers."""
    return Physical.INT


def value_weight(expr: Value, signatures: Signatures, slots: Mapping[str, Slot]) -> Physical:
    """[f(x)]: as the number."""
    types = {name: slot.physical for name, slot in slots.items()}
    physical = physical_type(expr.scalar, types)
    return Physical.FLOAT if physical is Physical.FLOAT else Physical.INT


def map_weight(expr: MapRef, signatures: Signatures, slots: Mapping[str, Slot]) -> Physical:
    """M[x].c: as column c."""
    if expr.column == PRESENCE:
        return Physical.INT
    return signatures[expr.name].weights[expr.column]


def parts_weight(expr: Expr, signatures: Signatures, slots: Mapping[str, Slot]) -> Physical:
    """a + b, a * b, Sum[x](q): FLOAT where a part is."""
    parts = {weight_type(part, signatures, slots) for part in children(expr)}
    return Physical.FLOAT if Physical.FLOAT in parts else Physical.INT
