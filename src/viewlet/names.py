"""Names that are given once: whoever needs a new one asks the names in use.

    names = FreshNames(["m_s"])
    names.fresh("m_r")        m_r: it is free
    names.fresh("m_s")        m_s_2
    names.numbered("total")   total_1, then total_2, ...

No name says what it stands for; whether something is a buffer or a part of a stream is a field of
it. So the spelling is free to be readable, and all that counts is that no two things share one.

Scopes lie in each other, as those of Python do: a name is free in a scope where neither that scope,
nor one around it, nor one inside it has given the name. Scopes side by side may use the same.
"""

from __future__ import annotations

from collections.abc import Iterable

Forms = tuple[str, ...]
"""All that a name is a part of, with {} for the name: ("{}", "{}_null") are given together."""

PLAIN: Forms = ("{}",)


class FreshNames:
    """The names of a scope, and the only way to a new one."""

    def __init__(self, used: Iterable[str] = (), *, around: FreshNames | None = None) -> None:
        self._used = set(used)
        self._series: set[str] = set()
        self._last: dict[str, int] = {}
        self._around = around
        self._inside: list[FreshNames] = []

    def inner(self) -> FreshNames:
        """A scope inside this one."""
        scope = FreshNames(around=self)
        self._inside.append(scope)
        return scope

    def reserve(self, names: Iterable[str]) -> None:
        """Names that something else has given."""
        self._used.update(names)

    def reserve_series(self, bases: Iterable[str]) -> None:
        """All of base_0, base_1, ...: somebody counts there without asking."""
        self._series.update(bases)

    def is_free(self, name: str) -> bool:
        """Whether nothing has the name where it could be seen."""
        scope: FreshNames | None = self
        while scope is not None:
            if scope._has(name):
                return False
            scope = scope._around
        return not any(scope._has_inside(name) for scope in self._inside)

    def take(self, name: str, forms: Forms = PLAIN) -> bool:
        """Give this name, if all its forms are free; whether they were."""
        names = [form.format(name) for form in forms]
        free = all(self.is_free(each) for each in names)
        if free:
            self._used.update(names)
        return free

    def fresh(self, base: str, forms: Forms = PLAIN) -> str:
        """base, or the first of base_2, base_3, ... whose forms are all free."""
        return base if self.take(base, forms) else self._counted(base, 2, forms)

    def numbered(self, base: str, forms: Forms = PLAIN) -> str:
        """The first of base_1, base_2, ... that is free, for what is one of many."""
        return self._counted(base, 1, forms)

    def _counted(self, base: str, first: int, forms: Forms) -> str:
        while self._is_series(base):
            base += "_"
        number = self._last.get(base, first - 1)
        while True:
            number += 1
            if self.take(f"{base}_{number}", forms):
                self._last[base] = number
                return f"{base}_{number}"

    def _has(self, name: str) -> bool:
        if name in self._used:
            return True
        base, _, number = name.rpartition("_")
        return base in self._series and number.isdigit()

    def _has_inside(self, name: str) -> bool:
        return self._has(name) or any(scope._has_inside(name) for scope in self._inside)

    def _is_series(self, base: str) -> bool:
        return base in self._series or (self._around is not None and self._around._is_series(base))
