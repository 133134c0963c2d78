"""Weights and keys as source: the arithmetic of a kernel."""

from __future__ import annotations

from viewlet.calculus.expr import Add, Expr, Mul, Value
from viewlet.kernels.loop_nodes import Factors, Named
from viewlet.kernels.scalar_source import Scope, Variable
from viewlet.kernels.writer import Writer
from viewlet.schema import Physical
from viewlet.storage.columns import Layout

BOOL, FLOAT = Physical.BOOL, Physical.FLOAT

Pair = tuple[str, str]
"""A float as the sum of two: source of the larger one and of the smaller one."""


def int_product(writer: Writer, factors: Factors) -> str:
    """A product of int factors."""
    codes = [
        factor.name if isinstance(factor, Named) else _int_value(writer, factor.expr, factor.scope)
        for factor in factors
    ]
    product = codes[0] if codes else "1"
    for code in codes[1:]:
        product = f"times({product}, {code})"
    return product


def _int_value(writer: Writer, expr: Expr, scope: Scope) -> str:
    if isinstance(expr, Value):
        code = writer.scalars.code(expr.scalar, scope)
        value = f"(1 if {code.value} else 0)" if code.physical is BOOL else code.value
        return value if code.null is None else f"(0 if {code.null} else {value})"
    function, parts = _operation(expr)
    first, *others = (_int_value(writer, part, scope) for part in parts)
    result = first
    for other in others:
        result = f"{function}({result}, {other})"
    return result


def pair_product(writer: Writer, factors: Factors) -> Pair:
    """A product with a float factor as a pair; int factors are multiplied first."""
    ints = tuple(factor for factor in factors if factor.physical is not FLOAT)
    pairs = [
        (factor.name, f"{factor.name}_low")
        if isinstance(factor, Named)
        else _pair_value(writer, factor.expr, factor.scope)
        for factor in factors
        if factor.physical is FLOAT
    ]
    if ints or not pairs:
        pairs.insert(0, _new_pair(writer, f"pair_of({int_product(writer, ints)})"))
    return _combined(writer, "pair_times", pairs)


def _pair_value(writer: Writer, expr: Expr, scope: Scope) -> Pair:
    if isinstance(expr, Value):
        code = writer.scalars.code(expr.scalar, scope)
        if code.physical is FLOAT:
            value = code.value if code.null is None else f"(0.0 if {code.null} else {code.value})"
            return writer.local("p", value), "0.0"
        return _new_pair(writer, f"pair_of({_int_value(writer, expr, scope)})")
    function, parts = _operation(expr)
    return _combined(
        writer, f"pair_{function}", [_pair_value(writer, part, scope) for part in parts]
    )


def _operation(expr: Expr) -> tuple[str, tuple[Expr, ...]]:
    """The function that a sum or a product of weights is, and its arguments."""
    if isinstance(expr, Add):
        return "plus", expr.terms
    assert isinstance(expr, Mul)
    return "times", expr.factors


def _combined(writer: Writer, function: str, pairs: list[Pair]) -> Pair:
    """Several pairs -> one, from left to right."""
    result = pairs[0]
    for high, low in pairs[1:]:
        result = _new_pair(writer, f"{function}({result[0]}, {result[1]}, {high}, {low})")
    return result


def _new_pair(writer: Writer, code: str) -> Pair:
    high = writer.temporary("p")
    writer.line(f"{high}, {high}_low = {code}")
    return high, f"{high}_low"


def load_function(physical: Physical) -> str:
    """The function that loads a word of a type."""
    return "load_float" if physical is FLOAT else "load"


def key_words(layout: Layout, positions: list[int], key: list[Variable]) -> tuple[str, list[str]]:
    """A key as a tuple of words, and the tests under which it can match at all."""
    words: list[str] = []
    tests: list[str] = []
    for position, variable in sorted(zip(positions, key, strict=True), key=lambda p: p[0]):
        field, slot = layout.keys[position], variable.slot
        if field.physical is FLOAT:
            value = variable.name if slot.physical is FLOAT else f"float({variable.name})"
            words.append(f"float_bits({value})")
        elif slot.physical is FLOAT:
            tests.append(f"{variable.name} == floor({variable.name})")
            words.append(f"int({variable.name})")
        else:
            words.append(variable.name)
        if field.nullable:
            words.append(variable.null if slot.nullable else "zero")
        elif slot.nullable:
            tests.append(f"{variable.null} == 0")
    if not words:
        words = ["zero"]
    return f"({', '.join(words)},)", tests


def same_value(variable: Variable, value: str, null: str | None) -> str:
    """Source of: a variable is the same as a value, NULL being the same as NULL."""
    equal = f"{variable.name} == {value}"
    if variable.slot.nullable and null is not None:
        return f"({equal} and {variable.null} == {null})"
    if variable.slot.nullable:
        return f"({equal} and {variable.null} == 0)"
    return f"({equal} and {null} == 0)" if null is not None else equal
