"""The dictionary of strings: a code for each, and what kernels look up by code.

Codes are given in the order of arrival, 0 is NULL. Tables hold, for every string of a program's
lookups (LIKE, SUBSTRING, comparisons with constants), the function's value by code; ranks hold the
strings' order. Both are brought up to date when strings have come, never while a kernel runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any

import numpy as np

from viewlet.engine.values.string_codes import StringCodes
from viewlet.engine.values.string_order import StringOrder
from viewlet.functions import FUNCTIONS, Apply, Const, Ref, ScalarExpr, evaluate
from viewlet.kernels.scalar_source import Lookup, Texts
from viewlet.schema import Physical, Scalar
from viewlet.storage.arrow_buffers import translate_codes
from viewlet.storage.columns import Array
from viewlet.storage.memory import address_of

_MANY = 256
_NO_RANKS: Array = np.zeros(1, np.int64)
_FEW = 32  # strings that are matched one by one as fast as by Arrow


class Dictionary:
    """Strings by code and codes by string.

    Some strings are there only because a function made them of another; `arrivals` are the codes of
    those that have come as themselves since.
    """

    def __init__(self, strings: Sequence[str] = ()) -> None:
        self.strings: list[str | None] = [None]
        self.codes: dict[str | None, int] = {None: 0}
        self._derived: set[int] = set()
        self.arrivals: list[int] = []
        self.encode(strings)

    def __len__(self) -> int:
        return len(self.strings)

    def code(self, text: str | None) -> int:
        """The code of a string, a new one if it has none."""
        code = self.codes.get(text)
        if code is None:
            code = self.codes[text] = len(self.strings)
            self.strings.append(text)
        elif code in self._derived:
            self._arrive((code,))
        return code

    def derived_code(self, text: str | None) -> int:
        """The code of a string that a function has made."""
        code = self.codes.get(text)
        if code is None:
            code = self.code(text)
            self._derived.add(code)
        return code

    def _arrive(self, codes: Iterable[int]) -> None:
        self._derived.difference_update(codes)
        self.arrivals += codes

    def encode(self, texts: Iterable[str | None]) -> Array:
        """The codes of many strings; each distinct one is looked up once."""
        if isinstance(texts, np.ndarray) and len(texts) > _MANY:
            import pyarrow as pa

            encoded = pa.array(texts, pa.string()).dictionary_encode()
            # Of Arrow's two ways to Python's strings, the one without an object for each scalar.
            codes = self._codes_of_distinct(encoded.dictionary.to_numpy(zero_copy_only=False))
            indices = encoded.indices.fill_null(len(codes)).to_numpy(zero_copy_only=False)
            return np.asarray(np.append(codes, 0)[indices])
        return self._codes_of(texts)

    def _codes_of(self, texts: Iterable[str | None]) -> Array:
        return np.fromiter((self.code(text) for text in texts), np.int64)

    def _codes_of_distinct(self, texts: Array) -> Array:
        """The same for strings that differ from each other, without a step of Python's for each."""
        codes = np.array(list(map(self.codes.get, texts.tolist(), repeat(0))), np.int64)
        if self._derived:
            self._arrive(sorted(self._derived.intersection(codes.tolist())))
        unknown = np.flatnonzero(codes == 0)
        fresh = texts[unknown].tolist()
        coming = range(len(self), len(self) + len(fresh))
        self.codes.update(zip(fresh, coming, strict=True))
        self.strings += fresh
        codes[unknown] = np.arange(coming.start, coming.stop)
        return codes

    def texts(self, codes: Iterable[int]) -> list[str | None]:
        """The strings of a few codes."""
        return [self.strings[code] for code in codes]

    def decode(self, codes: Array) -> Array:
        """The strings of codes; a few codes do not pay for the size of the dictionary."""
        if len(codes) > len(self.strings) // 8:
            lookup = np.array(self.strings, dtype=object)
            return np.asarray(lookup[codes])
        texts = np.empty(len(codes), object)
        texts[:] = self.texts(codes.tolist())
        return texts


class Translation:
    """Codes of a store or a dictionary -> codes of another, given there when first asked for."""

    def __init__(self, source: Dictionary | StringCodes, target: Dictionary) -> None:
        self._source = source
        self._target = target
        self._codes: Array = np.zeros(64, np.int64)

    def _reserve(self) -> None:
        if len(self._source) > len(self._codes):
            self._codes = _longer(self._codes, 2 * len(self._source))

    def one(self, code: int) -> int:
        """The target's code of a string, from its code in the source."""
        self._reserve()
        translated = int(self._codes[code])
        if not translated and code:
            (text,) = self._source.texts((code,))
            translated = self._codes[code] = self._target.code(text)
        return translated

    def __call__(self, codes: Array) -> Array:
        self._reserve()
        codes = np.ascontiguousarray(codes)
        translated = np.empty(len(codes), np.int64)
        if self._translate(codes, translated):
            translations = self._codes[codes]
            unknown = np.unique(codes[(translations == 0) & (codes != 0)])
            self._codes[unknown] = self._target.encode(self._source.decode(unknown))
            self._translate(codes, translated)
        return translated

    def _translate(self, codes: Array, translated: Array) -> int:
        """How many codes have no translation yet."""
        count, target = len(codes), address_of(translated)
        return translate_codes(address_of(self._codes), address_of(codes), count, target)


class _Table:
    """The values of one lookup by code."""

    def __init__(self, lookup: Lookup) -> None:
        self.lookup = lookup
        kind = np.float64 if lookup.physical is Physical.FLOAT else np.int64
        self.values: Array = np.zeros(64, kind)
        self.gaps: Array = np.zeros(64, np.uint8)
        self.at_once = _at_once(lookup.scalar)

    def fill(self, code: int, text: str | None, dictionary: Dictionary) -> int:
        """Compute one entry; gives the code of a string that it made, else 0."""
        value: Scalar = evaluate(self.lookup.scalar, {self.lookup.variable: text})
        self.gaps[code] = value is None
        result_code = 0
        if self.lookup.physical is Physical.STR:
            result_code = dictionary.derived_code(value)  # type: ignore[arg-type]
            value = result_code
        self.values[code] = value or 0
        return result_code

    def fill_many(self, first: int, texts: list[str | None]) -> None:
        """Fill the entries from code `first` on, if Arrow can compute them all at once."""
        import pyarrow as pa
        import pyarrow.compute as pc

        assert self.at_once is not None
        function, constants, is_negated = self.at_once
        computed = function(pa.array(texts, pa.string()), *constants)
        if is_negated:
            computed = pc.invert(computed)
        here = slice(first, first + len(texts))
        self.gaps[here] = np.asarray(computed.is_null())
        self.values[here] = np.asarray(computed.fill_null(False))

    def reserve(self, count: int) -> None:
        if count > len(self.values):
            size = max(count, 2 * len(self.values))
            self.values = _longer(self.values, size)
            self.gaps = _longer(self.gaps, size)


def _at_once(scalar: ScalarExpr) -> tuple[Callable[..., Any], list[Scalar], bool] | None:
    """How Arrow computes a function of strings: the function, its constants, and whether its truth
    is then turned round; None where it cannot."""
    is_negated = isinstance(scalar, Apply) and scalar.function == "not"
    inner = scalar.arguments[0] if is_negated and isinstance(scalar, Apply) else scalar
    if not isinstance(inner, Apply):
        return None
    text, *others = inner.arguments
    constants = [other.value for other in others if isinstance(other, Const)]
    function = FUNCTIONS[inner.function].of_strings
    if function is None or not isinstance(text, Ref) or len(constants) < len(others):
        return None
    return function, constants, is_negated


class TextTables:
    """All lookup tables and ranks of one program over one dictionary."""

    def __init__(self, texts: Texts, dictionary: Dictionary) -> None:
        self.dictionary = dictionary
        self.tables = [_Table(lookup) for lookup in texts.lookups]
        self._order = StringOrder(dictionary.codes) if texts.ranks else None
        self._filled = 0
        # Strings made by lookups are looked up again, as often as one may feed another; a
        # function that always makes new strings must not go on for ever. So those that are made
        # at the end of such a chain are left out, until they come themselves or by a shorter way.
        self._depth: dict[int, int] = {}
        self._left_out: set[int] = set()
        self._arrived = 0
        self._most = sum(t.lookup.physical is Physical.STR for t in self.tables)

    @property
    def ranks(self) -> Array:
        """For each code a number in the order of the strings."""
        return _NO_RANKS if self._order is None else self._order.labels

    def update(self) -> bool:
        """Take in what the dictionary has got since; True if any address may have changed."""
        arrivals = self.dictionary.arrivals[self._arrived :]
        self._arrived += len(arrivals)
        if self._filled == len(self.dictionary) and self._left_out.isdisjoint(arrivals):
            return False
        first = code = self._filled
        waiting = [(arrival, 0) for arrival in arrivals if arrival in self._left_out]
        # The few that a program or a single row brings are no reason to import Arrow either.
        many = len(self.dictionary) - first > _FEW
        slow = [table for table in self.tables if not many or table.at_once is None]
        came_as_themselves = len(self.dictionary)
        while waiting or (slow and code < len(self.dictionary)):
            if waiting:
                at, depth = waiting.pop()
            else:
                at, depth, code = code, self._depth.pop(code, 0), code + 1
            if depth > self._most:
                self._left_out.add(at)
                continue
            self._left_out.discard(at)
            text = self.dictionary.strings[at]
            for table in slow if at >= first else self.tables:
                table.reserve(len(self.dictionary))
                result_code = table.fill(at, text, self.dictionary)
                if result_code in self._left_out and depth < self._most:
                    waiting.append((result_code, depth + 1))
                elif result_code >= max(code, came_as_themselves):
                    known_depth = self._depth.get(result_code, depth + 1)
                    self._depth[result_code] = min(known_depth, depth + 1)
        for table in self.tables:
            table.reserve(len(self.dictionary))
            if many and table.at_once is not None:
                table.fill_many(first, self.dictionary.strings[first:])
        self._filled = len(self.dictionary)
        if self._order is not None:
            fresh = self.dictionary.strings[1 + len(self._order) :]
            self._order.add([text for text in fresh if text is not None])
        return True


def _longer(array: Array, size: int) -> Array:
    longer = np.zeros(size, array.dtype)
    longer[: len(array)] = array
    return longer
