"""Weights and keys as source: the arithmetic of a kernel."""

from __future__ import annotations

from viewlet.calculus.expr import Add, Expr, Mul, Value
from viewlet.functions import Const
from viewlet.functions.comparison import compared
from viewlet.functions.kernel_forms import Code
from viewlet.kernels.loop_nodes import Factor, Factors, Named, Pure
from viewlet.kernels.scalar_source import Scope, Variable
from viewlet.kernels.writer import Writer
from viewlet.schema import Physical
from viewlet.storage.columns import Layout

BOOL, FLOAT, INT = Physical.BOOL, Physical.FLOAT, Physical.INT


def int_product(writer: Writer, factors: Factors) -> str:
    """A product of int factors."""
    codes = [
        factor.name if isinstance(factor, Named) else _int_value(writer, factor.expr, factor.scope)
        for factor in factors
    ]
    product = codes[0] if codes else "1"
    for code in codes[1:]:
        product = f"weighed({product}, {code})"
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


def element_product(writer: Writer, factors: Factors) -> str:
    """Source of a product with a float factor, as an element (storage.doubles).

    n * m * [x]  ->  element_of(x, weighed(n, m))         n * e  ->  element_times(e, n)
    1.0 * e * f  ->  e * f      (1.0 * e stays: products refuse what is not finite)
    """
    single = [part for factor in factors for part in _single_factors(writer, factor)]
    ints = tuple(factor for factor in single if factor.physical is not FLOAT)
    floats = [factor for factor in single if factor.physical is FLOAT]
    others = [factor for factor in floats if not _is_one(factor)]
    floats = others if len(others) > 1 else floats
    count = int_product(writer, ints)
    first = floats[0] if floats else None
    if first is None:
        return f"element_of(1.0, {count})"
    if not isinstance(first, Named) and isinstance(first.expr, Value):
        product = f"element_of({_float_value(writer, first.expr, first.scope)}, {count})"
    else:
        product = _element(writer, first)
        product = f"element_times({product}, {count})" if ints else product
    for other in floats[1:]:
        product = f"element_product({product}, {_element(writer, other)})"
    return product


def _single_factors(writer: Writer, factor: Factor) -> list[Factor]:
    """The factors of a product inside of a product."""
    if isinstance(factor, Named) or not isinstance(factor.expr, Mul):
        return [factor]
    parts = factor.expr.factors
    types = [FLOAT if _is_float(writer, part, factor.scope) else INT for part in parts]
    return [Pure(part, factor.scope, type) for part, type in zip(parts, types, strict=True)]


def _is_one(factor: Factor) -> bool:
    return isinstance(factor, Pure) and factor.expr == Value(Const(1.0))


def _element(writer: Writer, factor: Factor) -> str:
    if isinstance(factor, Named):
        return factor.name
    return _element_value(writer, factor.expr, factor.scope)


def _element_value(writer: Writer, expr: Expr, scope: Scope) -> str:
    if isinstance(expr, Value):
        return f"element_of({_float_value(writer, expr, scope)}, 1)"
    if isinstance(expr, Add):
        first, *others = (_element_value(writer, term, scope) for term in expr.terms)
        for other in others:
            first = f"element_plus({first}, {other})"
        return first
    return element_product(writer, (Pure(expr, dict(scope), FLOAT),))


def _is_float(writer: Writer, expr: Expr, scope: Scope) -> bool:
    if isinstance(expr, Value):
        return writer.scalars.code(expr.scalar, scope).physical is FLOAT
    _, parts = _operation(expr)
    return any(_is_float(writer, part, scope) for part in parts)


def _float_value(writer: Writer, expr: Value, scope: Scope) -> str:
    """A number as a double; NULL weighs 0."""
    code = writer.scalars.code(expr.scalar, scope)
    if code.physical is not FLOAT:
        return f"float({_int_value(writer, expr, scope)})"
    return code.value if code.null is None else f"(0.0 if {code.null} else {code.value})"


def _operation(expr: Expr) -> tuple[str, tuple[Expr, ...]]:
    """The function that a sum or a product of values is, and its arguments.

    They are the same where a row comes and where it goes: only what the row weighs changes its
    sign, and that multiplies the whole (`int_product`).
    """
    if isinstance(expr, Add):
        return "plus", expr.terms
    assert isinstance(expr, Mul)
    return "times", expr.factors


def is_not_zero(name: str, physical: Physical) -> str:
    """Source of the test that a weight is not zero."""
    return f"is_some({name})" if physical is FLOAT else f"{name} != 0"


def load_weight(physical: Physical, record: str, word: int) -> str:
    """Source of a value column of a record, or of a sum in an entry of a tree."""
    return f"{'load_element' if physical is FLOAT else 'load'}({record}, {word})"


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
            tests.append(f"abs({variable.name}) < {2.0**63}")
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


def same_value(variable: Variable, value: str, physical: Physical, null: str | None) -> str:
    """Source of: a variable is the same as a value, NULL being the same as NULL."""
    equal = same_source(variable, value, physical)
    if variable.slot.nullable and null is not None:
        return f"({equal} and {variable.null} == {null})"
    if variable.slot.nullable:
        return f"({equal} and {variable.null} == 0)"
    return f"({equal} and {null} == 0)" if null is not None else equal


def same_source(variable: Variable, value: str, physical: Physical) -> str:
    """Source of: a variable is the same as a value, both not NULL."""
    left = Code(variable.name, None, variable.slot.physical)
    return bare(compared("==", left, Code(value, None, physical)))


def bare(code: str) -> str:
    """Without a pair of parentheses around the whole."""
    if not (code.startswith("(") and code.endswith(")")):
        return code
    depth = 0
    for i, character in enumerate(code):
        depth += (character == "(") - (character == ")")
        if depth == 0 and i < len(code) - 1:
            return code
    return code[1:-1]
