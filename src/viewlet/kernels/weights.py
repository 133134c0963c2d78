"""Weights and keys as source: the arithmetic of a kernel."""

from __future__ import annotations

import re

from viewlet.calculus.expr import Add, Expr, Mul, Value
from viewlet.kernels.identifiers import LOCAL
from viewlet.kernels.loop_nodes import Factors, Named
from viewlet.kernels.scalar_source import Memo, ScalarWriter, Scope, Texts, Variable
from viewlet.names import FreshNames
from viewlet.schema import Physical
from viewlet.storage.columns import Layout

BOOL, FLOAT = Physical.BOOL, Physical.FLOAT


class WeightWriter:
    """Writes lines of one function, and the products and sums that it adds up."""

    def __init__(self, texts: Texts, names: FreshNames) -> None:
        self.scalars = ScalarWriter(texts, self.recall, self.outline)
        self.lines: list[str] = []
        self.depth = 1
        self.names = names
        self.temporaries = 0
        # Probes whose result a local holds, with the depth of the block that did them.
        self.found: dict[tuple[str, str], tuple[str, int]] = {}

    def recall(self, memo: Memo, arguments: list[Variable]) -> str:
        """Search in a memo, and leave the kernel where the value is not known yet."""
        raise NotImplementedError

    def outline(self, base: str, text: str) -> str:
        """The name of a function of all kernels, with these parameters and this body."""
        raise NotImplementedError

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)
        # What was found in a block that has ended is not at hand any more.
        self.found = {k: f for k, f in self.found.items() if f[1] <= self.depth}

    def temporary(self, base: str) -> str:
        """A new local of this function; numbers go on, whatever the base."""
        while True:
            self.temporaries += 1
            name = f"{base}{self.temporaries}"
            if self.names.take(name, LOCAL):
                return name

    def local(self, base: str, code: str) -> str:
        if re.fullmatch(r"[a-z]\w*", code):
            return code
        name = self.temporary(base)
        self.line(f"{name} = {code}")
        return name

    def whole(self, factors: Factors) -> str:
        """A product of int factors."""
        codes = [
            f.name if isinstance(f, Named) else self.whole_of(f.expr, f.scope) for f in factors
        ]
        product = codes[0] if codes else "1"
        for code in codes[1:]:
            product = f"times({product}, {code})"
        return product

    def whole_of(self, expr: Expr, scope: Scope) -> str:
        if isinstance(expr, Value):
            code = self.scalars.code(expr.scalar, scope)
            value = f"(1 if {code.value} else 0)" if code.physical is BOOL else code.value
            return value if code.null is None else f"(0 if {code.null} else {value})"
        assert isinstance(expr, Add | Mul)
        function = "plus" if isinstance(expr, Add) else "times"
        parts = [
            self.whole_of(p, scope) for p in (expr.terms if isinstance(expr, Add) else expr.factors)
        ]
        found = parts[0]
        for part in parts[1:]:
            found = f"{function}({found}, {part})"
        return found

    def pair(self, factors: Factors) -> tuple[str, str]:
        """A product with a float factor as a pair; int factors are multiplied first."""
        whole = tuple(f for f in factors if f.physical is not FLOAT)
        pairs = [
            (f.name, f"{f.name}_low") if isinstance(f, Named) else self.pair_of(f.expr, f.scope)
            for f in factors
            if f.physical is FLOAT
        ]
        if whole or not pairs:
            code = self.whole(whole)
            pairs.insert(0, self._pair(f"pair_of({code})"))
        found = pairs[0]
        for high, low in pairs[1:]:
            found = self._pair(f"pair_times({found[0]}, {found[1]}, {high}, {low})")
        return found

    def pair_of(self, expr: Expr, scope: Scope) -> tuple[str, str]:
        if isinstance(expr, Value):
            code = self.scalars.code(expr.scalar, scope)
            if code.physical is FLOAT:
                value = (
                    code.value if code.null is None else f"(0.0 if {code.null} else {code.value})"
                )
                return self.local("p", value), "0.0"
            return self._pair(f"pair_of({self.whole_of(expr, scope)})")
        assert isinstance(expr, Add | Mul)
        function = "pair_plus" if isinstance(expr, Add) else "pair_times"
        parts = [
            self.pair_of(p, scope) for p in (expr.terms if isinstance(expr, Add) else expr.factors)
        ]
        found = parts[0]
        for high, low in parts[1:]:
            found = self._pair(f"{function}({found[0]}, {found[1]}, {high}, {low})")
        return found

    def _pair(self, code: str) -> tuple[str, str]:
        high = self.temporary("p")
        self.line(f"{high}, {high}_low = {code}")
        return high, f"{high}_low"


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
