"""The representation of every variable and weight: what kernels need to know before they run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from viewlet.calculus.expr import (
    PRESENCE,
    Add,
    Assign,
    Delta,
    Expr,
    Extreme,
    Lift,
    MapRef,
    Mul,
    Rel,
    Sum,
    Value,
    children,
)
from viewlet.functions import NULL, Const, Ref, ScalarExpr, physical_type
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

_NEVER_NULL = frozenset(("is_null", "is_true", "=="))
_MAY_INVENT_NULL = frozenset(("/", "div", "mod", "nullif", "sqrt", "ln", "to_int"))


def scalar_slot(scalar: ScalarExpr, slots: Mapping[str, Slot]) -> Slot:
    """The slot of a scalar's value, from those of its variables."""
    types = {name: slot.physical for name, slot in slots.items()}
    return Slot(physical_type(scalar, types), _nullable(scalar, slots))


def _nullable(scalar: ScalarExpr, slots: Mapping[str, Slot]) -> bool:
    if isinstance(scalar, Const):
        return scalar == NULL
    if isinstance(scalar, Ref):
        return slots[scalar.name].nullable
    if scalar.function in _NEVER_NULL:
        return False
    if scalar.function in _MAY_INVENT_NULL:
        return True
    parts = [_nullable(a, slots) for a in scalar.arguments]
    if scalar.function == "coalesce":
        return all(parts)
    if scalar.function == "case":
        return any((*parts[1:-1:2], parts[-1]))
    return any(parts)


def variable_slots(expr: Expr, signatures: Signatures, bound: Mapping[str, Slot] = {}) -> Slots:
    """The slot of every variable in the expression, nested ones included.

    A variable that several atoms bind is NULL only where all of them can be.
    """
    slots: Slots = dict(bound)
    _collect(expr, signatures, slots)
    return slots


def _collect(expr: Expr, signatures: Signatures, slots: Slots) -> None:
    if isinstance(expr, Rel | Delta):
        for name, slot in zip(expr.variables, signatures[expr.name].keys, strict=True):
            _merge(slots, name, slot)
    elif isinstance(expr, MapRef):
        for name, slot in zip(expr.keys, signatures[expr.name].keys, strict=True):
            _merge(slots, name, slot)
    elif isinstance(expr, Assign):
        _merge(slots, expr.variable, scalar_slot(expr.scalar, slots))
    elif isinstance(expr, Lift):
        _collect_nested(expr.body, signatures, slots)
        _merge(slots, expr.variable, Slot(weight_type(expr.body, signatures, slots)))
    elif isinstance(expr, Extreme):
        _collect_nested(expr.body, signatures, slots)
        _merge(slots, expr.variable, Slot(slots[expr.target].physical, nullable=True))
    elif isinstance(expr, Add):
        branches = [dict(slots) for _ in expr.terms]
        for term, branch in zip(expr.terms, branches, strict=True):
            _collect(term, signatures, branch)
        for name in {name for branch in branches for name in branch}:
            found = [branch[name] for branch in branches if name in branch]
            physical = found[0].physical
            if any(slot.physical is Physical.FLOAT for slot in found):
                # Terms may bind one variable to an int and to a float: it is a float.
                physical = Physical.FLOAT
            slots[name] = Slot(physical, any(slot.nullable for slot in found))
    else:
        for part in children(expr):
            _collect(part, signatures, slots)


def _collect_nested(body: Expr, signatures: Signatures, slots: Slots) -> None:
    """x NULL and M[x] without NULLs: (n := M[x]) is n = 0, so M says nothing about x outside."""
    inner = dict(slots)
    _collect(body, signatures, inner)
    for name in inner.keys() - slots.keys():
        slots[name] = inner[name]


def _merge(slots: Slots, name: str, slot: Slot) -> None:
    known = slots.get(name)
    if known is None:
        slots[name] = slot
    elif known.nullable and not slot.nullable:
        slots[name] = Slot(known.physical)


def weight_type(expr: Expr, signatures: Signatures, slots: Mapping[str, Slot]) -> Physical:
    """FLOAT where a DOUBLE takes part in the weight, else INT."""
    if isinstance(expr, Value):
        types = {name: slot.physical for name, slot in slots.items()}
        found = physical_type(expr.scalar, types)
        return Physical.FLOAT if found is Physical.FLOAT else Physical.INT
    if isinstance(expr, MapRef):
        if expr.column == PRESENCE:
            return Physical.INT
        return signatures[expr.name].weights[expr.column]
    if isinstance(expr, Add | Mul | Sum):
        parts = {weight_type(part, signatures, slots) for part in children(expr)}
        return Physical.FLOAT if Physical.FLOAT in parts else Physical.INT
    return Physical.INT
