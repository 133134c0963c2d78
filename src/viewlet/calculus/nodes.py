"""Everything about a node, from one place: a record for each class says which rules are its own.

    what it is         the class in expr.py, with the classes above it
    how it is built    the constructor in normal form (expr.py)
    what it binds      outputs and inputs (scope.py)
    what it means      rows (evaluate.py)
    how it changes     delta (delta.py)
    how it is stored   the slots of its variables and the type of its weight (typing.py)
    how it is written  text, and words that a parser knows it by (text.py)

A walk, a renaming, the canonical form, simplification, scheduling and the planner read the fields
and the classes above (Atom, Binder, Nested) and know no more. A record with a part left out is an
error when the package is imported, and so is a class without a record. Only native code has more to
say: a trigger that holds a new node needs loops for it (kernels/builder.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from viewlet.calculus import delta, evaluate, expr, scope, text, typing
from viewlet.calculus.evaluate import Database, Environment, Row
from viewlet.calculus.expr import Expr
from viewlet.calculus.scope import Names
from viewlet.calculus.text import Parser, PartText
from viewlet.calculus.typing import Signatures, Slot, Slots
from viewlet.schema import Physical


@dataclass(frozen=True)
class NodeRules:
    """The rules of one class of nodes."""

    kind: type[Expr]
    build: Callable[..., Expr]
    outputs: Callable[[Any], Names]
    inputs: Callable[[Any], Names]
    rows: Callable[[Any, Database, Environment], Iterator[Row]]
    delta: Callable[[Any, delta.Change], Expr]
    slots: Callable[[Any, Signatures, Slots], None]
    weight: Callable[[Any, Signatures, Mapping[str, Slot]], Physical]
    text: Callable[[Any, PartText], str]
    prefixes: Mapping[tuple[str, str], Callable[[Parser], Expr]] = field(default_factory=dict)
    value_words: Mapping[str, Callable[[Parser, str], Expr]] = field(default_factory=dict)


def register(node: NodeRules) -> None:
    """Enter the rules of a class; from then on its nodes can stand in any expression."""
    expr.BUILD[node.kind] = node.build
    scope.OUTPUTS[node.kind] = node.outputs
    scope.INPUTS[node.kind] = node.inputs
    evaluate.ROWS[node.kind] = node.rows
    delta.DELTAS[node.kind] = node.delta
    typing.SLOTS[node.kind] = node.slots
    typing.WEIGHTS[node.kind] = node.weight
    text.TEXTS[node.kind] = node.text
    text.PREFIXES.update(node.prefixes)
    text.VALUE_WORDS.update(node.value_words)


NODES = (
    NodeRules(
        expr.Rel,
        build=expr.Rel,
        outputs=scope.atom_outputs,
        inputs=scope.nothing,
        rows=evaluate.atom_rows,
        delta=delta.atom_delta,
        slots=typing.atom_slots,
        weight=typing.counted_weight,
        text=text.rel_text,
    ),
    NodeRules(
        expr.Delta,
        build=expr.Delta,
        outputs=scope.atom_outputs,
        inputs=scope.nothing,
        rows=evaluate.atom_rows,
        delta=delta.no_delta,
        slots=typing.atom_slots,
        weight=typing.counted_weight,
        text=text.delta_text,
    ),
    NodeRules(
        expr.MapRef,
        build=expr.MapRef,
        outputs=scope.atom_outputs,
        inputs=scope.nothing,
        rows=evaluate.atom_rows,
        delta=delta.atom_delta,
        slots=typing.atom_slots,
        weight=typing.map_weight,
        text=text.map_text,
    ),
    NodeRules(
        expr.Value,
        build=expr.value_of,
        outputs=scope.nothing,
        inputs=scope.scalar_inputs,
        rows=evaluate.value_rows,
        delta=delta.no_delta,
        slots=typing.parts_slots,
        weight=typing.value_weight,
        text=text.value_text,
    ),
    NodeRules(
        expr.Cond,
        build=expr.cond,
        outputs=scope.nothing,
        inputs=scope.scalar_inputs,
        rows=evaluate.cond_rows,
        delta=delta.no_delta,
        slots=typing.parts_slots,
        weight=typing.counted_weight,
        text=text.cond_text,
    ),
    NodeRules(
        expr.Assign,
        build=expr.assign,
        outputs=scope.binder_outputs,
        inputs=scope.scalar_inputs,
        rows=evaluate.assign_rows,
        delta=delta.no_delta,
        slots=typing.assign_slots,
        weight=typing.counted_weight,
        text=text.assign_text,
    ),
    NodeRules(
        expr.Each,
        build=expr.Each,
        outputs=scope.each_outputs,
        inputs=scope.scalar_inputs,
        rows=evaluate.each_rows,
        delta=delta.no_delta,
        slots=typing.each_slots,
        weight=typing.counted_weight,
        text=text.each_text,
        value_words={"up": text.parse_each},
    ),
    NodeRules(
        expr.Lift,
        build=expr.lift,
        outputs=scope.binder_outputs,
        inputs=scope.nested_value_inputs,
        rows=evaluate.lift_rows,
        delta=delta.nested_delta,
        slots=typing.lift_slots,
        weight=typing.counted_weight,
        text=text.lift_text,
    ),
    NodeRules(
        expr.Extreme,
        build=expr.extreme,
        outputs=scope.binder_outputs,
        inputs=scope.nested_value_inputs,
        rows=evaluate.extreme_rows,
        delta=delta.nested_delta,
        slots=typing.extreme_slots,
        weight=typing.counted_weight,
        text=text.extreme_text,
        value_words={"min": text.parse_extreme, "max": text.parse_extreme},
    ),
    NodeRules(
        expr.Exists,
        build=expr.exists_of,
        outputs=scope.exists_outputs,
        inputs=scope.exists_inputs,
        rows=evaluate.exists_rows,
        delta=delta.nested_delta,
        slots=typing.parts_slots,
        weight=typing.counted_weight,
        text=text.exists_text,
        prefixes={("Exists", "("): text.parse_exists},
    ),
    NodeRules(
        expr.Sum,
        build=expr.sum_over,
        outputs=scope.sum_outputs,
        inputs=scope.sum_inputs,
        rows=evaluate.sum_rows,
        delta=delta.sum_delta,
        slots=typing.parts_slots,
        weight=typing.parts_weight,
        text=text.sum_text,
        prefixes={("Sum", "["): text.parse_sum},
    ),
    NodeRules(
        expr.Add,
        build=lambda terms: expr.sum_of(*terms),
        outputs=scope.combined_outputs,
        inputs=scope.add_inputs,
        rows=evaluate.add_rows,
        delta=delta.add_delta,
        slots=typing.add_slots,
        weight=typing.parts_weight,
        text=text.add_text,
    ),
    NodeRules(
        expr.Mul,
        build=lambda factors: expr.product_of(*factors),
        outputs=scope.combined_outputs,
        inputs=scope.mul_inputs,
        rows=evaluate.mul_rows,
        delta=delta.mul_delta,
        slots=typing.parts_slots,
        weight=typing.parts_weight,
        text=text.mul_text,
    ),
)

for _node in NODES:
    register(_node)

_declared = {c for c in vars(expr).values() if isinstance(c, type) and issubclass(c, Expr)}
_missing = {c.__name__ for c in _declared if c.FIELDS} - {n.kind.__name__ for n in NODES}
if _missing:
    raise TypeError(f"no record in viewlet/calculus/nodes.py for {', '.join(sorted(_missing))}")
