"""Iterative models: how powers, sums of powers and T <- A T + B unfold (thesis Table 6.1).

linear       P_i = A P_(i-1)           S_i = A S_(i-1) + I             T_i = A T_(i-1) + B
exponential  P_2i = P_i P_i            S_2i = P_i S_i + S_i            T_2i = P_i T_i + S_i B
skip-s       exponential up to s, then P_s P_(i-s), P_s S_(i-s) + S_s, P_s T_(i-s) + S_s B

Table 6.1 assumes powers of two; here an odd index takes one linear step from the even one below
it, and skip-s takes the iterations left after the last multiple of s linearly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from viewlet.errors import TypingError
from viewlet.linalg.expr import Expr, Zero, eye

Define = Callable[[str, Expr], Expr]  # names a view for an expression, returns what stands for it


@dataclass(frozen=True)
class Model:
    """linear, exponential or skip-s."""

    kind: str
    s: int = 1

    def __str__(self) -> str:
        return f"skip-{self.s}" if self.kind == "skip" else self.kind


LINEAR = Model("linear")
EXPONENTIAL = Model("exponential")


def parse_model(name: str) -> Model:
    """'linear', 'exponential' or 'skip-4'."""
    short = {"lin": "linear", "exp": "exponential"}.get(name, name)
    if short in ("linear", "exponential"):
        return Model(short)
    head, _, size = short.partition("-")
    if head == "skip" and size.isdigit() and int(size) >= 1 and int(size) & (int(size) - 1) == 0:
        return Model("skip", int(size))
    raise TypingError(
        f"unknown iterative model {name!r}",
        hint="use 'linear', 'exponential' or 'skip-s' with s a power of two, such as 'skip-4'",
    )


def candidates(longest: int) -> list[Model]:
    """The models worth comparing for programs of at most `longest` iterations."""
    if longest < 3:
        return [EXPONENTIAL]
    skips = []
    s = 2
    while s < longest:
        skips.append(Model("skip", s))
        s *= 2
    return [LINEAR, EXPONENTIAL, *skips]


class Unfolding:
    """The views P_i, S_i and T_i of one base matrix under one model, each defined once."""

    def __init__(self, model: Model, base: Expr, define: Define) -> None:
        self.model = model
        self.base = base
        self.define = define
        self._powers: dict[int, Expr] = {1: base}
        self._sums: dict[int, Expr] = {1: eye(base.shape[0])}

    def _leap(self, i: int) -> int:
        """From which smaller index the value at i > 1 is made."""
        match self.model.kind:
            case "linear":
                return i - 1
            case "exponential":
                return i // 2 if i % 2 == 0 else i - 1
            case _:
                s = self.model.s
                if i <= s:
                    return i // 2 if i % 2 == 0 else i - 1
                return i - s if i % s == 0 else i - 1

    def _path(self, i: int) -> list[int]:
        """The indices that lead to i, smallest first; so that no recursion grows with i."""
        path = []
        while i > 1:
            path.append(i)
            i = self._leap(i)
        return path[::-1]

    def power(self, k: int) -> Expr:
        """A^k, by the powers that the model's path to k passes."""
        for i in self._path(k):
            if i not in self._powers:
                j = self._leap(i)
                # The step matrix is the left factor: Table 6.1 has A P_(i-1) and P_s P_(i-s).
                value = self._powers_at(i - j) @ self._powers_at(j)
                self._powers[i] = self.define(f"P{i}", value)
        return self._powers[k]

    def _powers_at(self, i: int) -> Expr:
        return self._powers[i] if i in self._powers else self.power(i)

    def power_sum(self, k: int) -> Expr:
        """I + A + ... + A^(k-1), by the sums that the model's path to k passes."""
        for i in self._path(k):
            if i not in self._sums:
                j = self._leap(i)
                step = self.power_sum(i - j) if i - j not in self._sums else self._sums[i - j]
                value = self._powers_at(i - j) @ self._sums[j] + step
                self._sums[i] = self.define(f"S{i}", value)
        return self._sums[k]

    def recurrence(self, start: Expr, b: Expr, k: int) -> Expr:
        """T_k by leaps: T_(j+d) = P_d T_j + S_d B."""
        results: dict[int, Expr] = {0: start}
        for i in [1, *self._path(k)]:
            j = self._leap(i) if i > 1 else 0
            value = self.power(i - j) @ results[j]
            if not isinstance(b, Zero):
                value = value + self.power_sum(i - j) @ b
            results[i] = self.define(f"T{i}", value)
        return results[k]
