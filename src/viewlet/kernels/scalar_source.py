"""Scalar expressions as Python source, with NULL as a second expression beside the value.

A value that is NULL has some value of its type all the same (0), so that code can compute on. A
string is its dictionary code; the code of NULL is 0. A scalar over one string variable and
constants is a lookup in a table by code, which Python fills when the dictionary grows: LIKE,
SUBSTRING and comparisons with constants so cost one load, and each string is looked at once.

Everything else that makes or reads strings (concat of two columns, a date as text) is remembered: a
memo has the value for each combination of arguments that has come. A kernel that meets a new one
leaves, as it does when a map is full; Python computes the value, and the kernel goes on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from viewlet.calculus.typing import Slot, scalar_slot
from viewlet.errors import UnsupportedError
from viewlet.functions import (
    FUNCTIONS,
    Apply,
    Const,
    Ref,
    ScalarExpr,
    can_fail,
    fold,
    format_scalar,
    free_variables,
    physical_type,
    result_type,
    settles,
    substitute,
)
from viewlet.functions.kernel_forms import TRUE, Code, Remembered, Rewritten, Source
from viewlet.names import FreshNames
from viewlet.schema import Physical

BOOL, INT, FLOAT, STR = Physical.BOOL, Physical.INT, Physical.FLOAT, Physical.STR

_DEEPEST = 48
"""Levels of parentheses in one expression; what is deeper becomes a function of its own."""


@dataclass(frozen=True)
class Variable:
    """A calculus variable as a local of the kernel; nullable ones have a flag beside them."""

    name: str
    slot: Slot

    @property
    def null(self) -> str:
        """The name of the flag that says whether it is NULL."""
        return f"{self.name}_null"


Scope = Mapping[str, Variable]


@dataclass(frozen=True)
class Lookup:
    """A function of one string: `scalar` with `variable` as its argument."""

    scalar: ScalarExpr
    variable: str
    physical: Physical


@dataclass(frozen=True)
class Memo:
    """A function of several arguments, whose values are remembered in a map of this name.

    A record has the arguments as its key; its values are PRESENT or GAP (the value is NULL),
    and the value.
    """

    name: str
    scalar: ScalarExpr
    arguments: tuple[tuple[str, Slot], ...]
    physical: Physical

    PRESENT = 1
    GAP = 2


@dataclass
class Texts:
    """What kernels need to know about strings: lookup tables, memos, the codes of constants."""

    lookups: list[Lookup] = field(default_factory=list)
    memos: list[Memo] = field(default_factory=list)
    constants: list[str] = field(default_factory=list)
    ranks: bool = False
    names: FreshNames = field(default_factory=FreshNames)
    """Of maps and memos."""

    @property
    def is_empty(self) -> bool:
        """Whether no kernel needs anything that has a position in the state array."""
        return not (self.lookups or self.memos or self.constants)

    def lookup(self, scalar: ScalarExpr, variable: str, physical: Physical) -> int:
        """The number of the table code -> value of a function of one string."""
        # FreshNames do not matter to a function of one variable.
        plain = Lookup(substitute(scalar, {variable: Ref("text")}), "text", physical)
        if plain not in self.lookups:
            self.lookups.append(plain)
        return self.lookups.index(plain)

    def memo(self, scalar: ScalarExpr, slots: dict[str, Slot], physical: Physical) -> Memo:
        """The function of several arguments that is computed once for each combination."""
        names = {name: f"arg{i}" for i, name in enumerate(slots)}
        plain = substitute(scalar, {name: Ref(argument) for name, argument in names.items()})
        arguments = tuple((names[name], slot) for name, slot in slots.items())
        for memo in self.memos:
            if (memo.scalar, memo.arguments) == (plain, arguments):
                return memo
        own = self.names.fresh(f"memo_{len(self.memos)}")
        self.memos.append(Memo(own, plain, arguments, physical))
        return self.memos[-1]

    def constant(self, text: str) -> int:
        """The number of a constant string among those of the program."""
        if text not in self.constants:
            self.constants.append(text)
        return self.constants.index(text)


def _is_finite(scalar: ScalarExpr, variable: str) -> bool:
    """Whether a table by code is finite: of MD5(s) and REPEAT(s, 2) each value would want its own.

    Such functions are remembered for the strings that kernels meet instead.
    """
    return settles(scalar) or physical_type(scalar, {variable: STR}) is not STR


Recall = Callable[[Memo, list[Variable]], str]
"""Writes the search in a memo; gives the local with the address of its record."""


Outline = Callable[[str, str], str]
"""(a name to begin with, parameters and body) -> the name of the kernels' function with these"""


class ScalarWriter:
    """Writes scalars over the variables of a scope."""

    def __init__(self, texts: Texts, recall: Recall, outline: Outline) -> None:
        self.texts = texts
        self._recall = recall
        self._outline = outline

    def code(self, scalar: ScalarExpr, scope: Scope) -> Code:
        """The scalar's value and NULL test."""

        def leaf(scalar: Const | Ref) -> _Nested:
            if isinstance(scalar, Ref):
                return _Nested(self._reference(scope[scalar.name]))
            return _Nested(self._constant(scalar))

        def enter(scalar: Apply) -> _Nested | Apply | None:
            return self._entered(scalar, scope)

        def leave(scalar: Apply, parts: Sequence[_Nested]) -> _Nested:
            return self._joined(scalar, parts, scope)

        return fold(scalar, leaf, leave, enter).code

    def truth(self, scalar: ScalarExpr, scope: Scope) -> str:
        """Source that is true where the scalar is TRUE: conditions need no NULLs."""
        return self.code(scalar, scope).where_true

    def _entered(self, scalar: Apply, scope: Scope) -> _Nested | Apply | None:
        """What is looked up or remembered as a whole, or another scalar in its place."""
        names = free_variables(scalar)
        texts = [name for name in names if scope[name].slot.physical is STR]
        if len(names) == len(texts) == 1 and not can_fail(scalar) and _is_finite(scalar, texts[0]):
            return _Nested(self._lookup(scalar, scope[texts[0]], texts[0]))
        form = FUNCTIONS[scalar.function].kernel
        if isinstance(form, Rewritten):
            expanded = form.expand(scalar.arguments)
            assert isinstance(expanded, Apply)
            return expanded
        if isinstance(form, Source) and form.split is not None:
            shallower = form.split(scalar.arguments)
            if shallower is not None:
                assert isinstance(shallower, Apply)
                return shallower
        if isinstance(form, Remembered) or (texts and self._lacks_text(scalar, form, scope)):
            return _Nested(self._remembered(scalar, scope))
        return None

    def _lacks_text(self, scalar: Apply, form: Source, scope: Scope) -> bool:
        """Whether strings are among the arguments of a function that takes numbers only."""
        types = {name: variable.slot.physical for name, variable in scope.items()}
        return not form.accepts_text and any(
            physical_type(argument, types) is STR for argument in scalar.arguments
        )

    def _joined(self, scalar: Apply, nested: Sequence[_Nested], scope: Scope) -> _Nested:
        form = FUNCTIONS[scalar.function].kernel
        parts = [part.code for part in nested]
        has_text = any(part.physical is STR for part in parts)
        if not isinstance(form, Source) or (has_text and not form.accepts_text):
            raise UnsupportedError(f"{format_scalar(scalar)} has no native form")
        if has_text and form.orders_text:
            self.texts.ranks = True
            parts = [replace(part, value=f"load(ranks, {part.value})") for part in parts]
        physical = result_type(scalar, [part.code.physical for part in nested])
        levels = 1 if form.split is None else len(nested)
        depth = levels + max((part.depth for part in nested), default=0)
        code = form.write(parts, physical)
        if depth < _DEEPEST:
            return _Nested(code, depth)
        return _Nested(self._outlined(code, scope), 1)

    def _outlined(self, code: Code, scope: Scope) -> Code:
        """The same through calls, which nest no deeper."""
        value = self._called(code.value, scope)
        null = None if code.null is None else self._called(code.null, scope)
        truth = None if code.truth is None else self._called(code.truth, scope)
        return Code(value, null, code.physical, truth)

    def _called(self, source: str, scope: Scope) -> str:
        """An expression -> the call of a function with what it uses as parameters."""
        words = dict.fromkeys(re.findall(r"\b[A-Za-z_]\w*\b(?!\()", source))
        names = [word for word in words if word not in _NO_NAMES]
        floats = {v.name for v in scope.values() if v.slot.physical is FLOAT}
        listed = ", ".join(f"{n}: {'float' if n in floats else 'int'}" for n in names)
        name = self._outline("part", f"({listed}):\n    return {source}")
        return f"{name}({', '.join(names)})"

    def _remembered(self, scalar: Apply, scope: Scope) -> Code:
        names = sorted(free_variables(scalar))
        slots = {name: scope[name].slot for name in names}
        physical = physical_type(scalar, {name: slot.physical for name, slot in slots.items()})
        memo = self.texts.memo(scalar, slots, physical)
        at = self._recall(memo, [scope[name] for name in names])
        word = sum(2 if slot.nullable else 1 for slot in slots.values())
        value = f"{'load_float' if physical is FLOAT else 'load'}({at}, {word + 1})"
        if physical is BOOL:
            value = f"({value} != 0)"
        gap = f"(load({at}, {word}) == {Memo.GAP})"
        return Code(value, gap if scalar_slot(scalar, slots).nullable else None, physical)

    def _lookup(self, scalar: Apply, variable: Variable, name: str) -> Code:
        physical = physical_type(scalar, {name: variable.slot.physical})
        number = self.texts.lookup(scalar, name, physical)
        load = "load_float" if physical is FLOAT else "load"
        value = f"{load}(table_{number}, {variable.name})"
        if physical is BOOL:
            value = f"({value} != 0)"
        gap = f"(load_byte(gaps_{number}, {variable.name}) != 0)"
        nullable = scalar_slot(scalar, {name: variable.slot}).nullable
        return Code(value, gap if nullable else None, physical)

    def _reference(self, variable: Variable) -> Code:
        null = f"({variable.null} != 0)" if variable.slot.nullable else None
        if variable.slot.physical is BOOL:
            return Code(f"({variable.name} != 0)", null, BOOL)
        return Code(variable.name, null, variable.slot.physical)

    def _constant(self, scalar: Const) -> Code:
        value = scalar.value
        if value is None:
            return Code("0", TRUE, INT)
        if isinstance(value, bool):
            return Code(repr(value), None, BOOL)
        if isinstance(value, str):
            return Code(f"text_{self.texts.constant(value)}", None, STR)
        if isinstance(value, float):
            return Code(_float(value), None, FLOAT)
        if not -(2**63) <= value < 2**63:
            raise UnsupportedError(f"the constant {value} is beyond 64-bit integers")
        return Code(f"({value})" if value < 0 else str(value), None, INT)


@dataclass(frozen=True)
class _Nested:
    """Source, and how many levels of parentheses it has at most."""

    code: Code
    depth: int = 1


_NO_NAMES = frozenset(("True", "False", "if", "else", "and", "or", "not", "inf", "nan"))


def _float(value: float) -> str:
    if value != value:
        return "nan"
    if value in (float("inf"), float("-inf")):
        return "inf" if value > 0 else "(-inf)"
    return f"({value!r})" if value < 0 else repr(value)
