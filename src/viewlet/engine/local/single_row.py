"""One row at a time: the quick path of `insert` and `delete` in the local engine.

Everything that does not depend on the row's values is done once for each relation: the words of
the row lie at a fixed address, where the native code of table and trigger both read them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from viewlet.engine.contract import Row
from viewlet.engine.host.kernel_host import refusal
from viewlet.engine.host.stored_tables import StoredTable, table_refusal
from viewlet.engine.local.trigger_engine import LocalEngine
from viewlet.engine.values.encoders import Encoder, encoder
from viewlet.engine.values.string_codes import StringCodes
from viewlet.engine.values.strings import Translation
from viewlet.errors import DataError
from viewlet.kernels.frame import COLUMNS, control_words
from viewlet.native.compiled import code_of
from viewlet.schema import Physical, Relation
from viewlet.storage.memory import address_of
from viewlet.storage.multimap import next_all
from viewlet.storage.table import FULL, WIDE, put_row

_RECENT = 1 << 12
"""Strings of a column whose codes are remembered."""


class OneRow:
    """A relation's trigger over a batch of one row whose values and nulls are at fixed addresses.

    `columns` and `nulls` are the addresses by position; `weight` is the row's to write.
    """

    def __init__(
        self,
        engine: LocalEngine,
        relation: str,
        columns: Mapping[int, int],
        nulls: Mapping[int, int],
    ) -> None:
        host = self._host = engine.host
        self._trigger = engine.trigger(relation)
        self._weight = np.ones(1, np.int64)
        self.weight = self._weight.data
        words = np.array([*control_words(), 0, 1, address_of(self._weight)], np.int64)
        self._control = words.data
        self._control_end = len(words)
        width = len(columns)
        addresses = np.zeros(2 * width, np.int64)
        for i in range(width):
            addresses[2 * i : 2 * i + 2] = columns[i], nulls[i]
        self._columns = addresses.data
        self._columns_end = COLUMNS + 2 * width
        self._strings = host.dictionary.strings
        self._arrivals = host.dictionary.arrivals
        self._state = host.state.data
        self._address = host.state_address
        self._lasting = host.lasting
        self._next_all = code_of(next_all)

    def run(self) -> None:
        """Apply the row that lies at the addresses now, as a batch of its own."""
        self._next_all(*self._lasting)
        trigger = self._trigger
        if trigger is None:
            return
        host = self._host
        try:
            if len(self._strings) + len(self._arrivals) != host.texts_indexed:
                host.update_texts()
            state = self._state
            state[: self._control_end] = self._control
            state[COLUMNS : self._columns_end] = self._columns
            address = self._address
            while trigger(address, address):
                host.make_room(host.state)
        except BaseException as error:
            host.rollback()
            raise refusal(error) from None


class RowPath:
    """A relation's row in preallocated arrays, for its table (None: a stream) and its trigger.

    `put` takes encoded rows; `put_plain` takes those of users, which it encodes and lays out in
    one go, and leaves to `put` whatever has a NULL or a value of another type.
    """

    def __init__(
        self,
        relation: Relation,
        table: StoredTable | None,
        engine: LocalEngine,
        translation: Translation,
        strings: StringCodes,
    ) -> None:
        width = len(relation.columns)
        self.tables = [] if table is None else [table]
        self._table = table
        self._words = np.zeros(width, np.int64)
        self._codes = np.zeros(width, np.int64)
        self._code_view = self._codes.data
        self._nulls = np.zeros(width, np.uint8)
        self._null_view = self._nulls.data
        kinds = [column.type.physical for column in relation.columns]
        letters = ["d" if kind is Physical.FLOAT else "q" for kind in kinds]
        self._bytes = self._words.data.cast("B")
        self._pack = struct.Struct("=" + "".join(letters)).pack_into
        self._plain = Physical.STR not in kinds
        self._kinds = kinds
        self._had_nulls = False
        self._address = int(self._words.ctypes.data)
        self._put_row = code_of(put_row)
        self._translation = translation
        self._strings = strings
        self._dictionary = engine.dictionary
        self._used = engine.reads(relation.name)
        self._word_of = [
            self._text_word(i, encoder(column))
            if column.type.physical is Physical.STR
            else encoder(column)
            for i, column in enumerate(relation.columns)
        ]
        texts = {i for i, kind in enumerate(kinds) if kind is Physical.STR}
        codes = int(self._codes.ctypes.data)
        nulls = int(self._nulls.ctypes.data)
        self.trigger = OneRow(
            engine,
            relation.name,
            {i: codes + 8 * i if i in texts else self._address + 8 * i for i in range(width)},
            {i: nulls + i for i in range(width)},
        )
        if table is not None:
            values_at = [self._address + 8 * i for i in range(width)]
            nulls_at = [nulls + i for i in range(width)]
            self._about = table.rows.row_layout.about(values_at, nulls_at)
            self._columns = int(self._about.ctypes.data), width

    def put_plain(self, row: Sequence[Any], weight: int) -> bool:
        """The same for values of a user; False if `put` has to look at them."""
        if self._had_nulls:
            return False
        try:
            words = [word(value) for word, value in zip(self._word_of, row, strict=True)]
            self._pack(self._bytes, 0, *words)
        except (DataError, struct.error, TypeError, ValueError):
            return False  # NULL, or what `schema.encode` refuses in its own words
        self.trigger.weight[0] = weight
        if self._table is not None:
            self._put(self._table, weight)
        return True

    def put(self, row: Row, weight: int) -> None:
        """Lay the row out, and put it into its table; DataError if that cannot be."""
        if self._plain and None not in row and not self._had_nulls:
            self._pack(self._bytes, 0, *row)
        else:
            self._lay_out(row)
        self.trigger.weight[0] = weight
        if self._table is not None:
            self._put(self._table, weight)

    def _lay_out(self, row: Row) -> None:
        words = list(row)
        if self._had_nulls:
            self._nulls[:] = 0
            self._had_nulls = False
        for i, value in enumerate(row):
            if value is None:
                self._null_view[i] = 1
                self._had_nulls = True
                words[i] = 0
                self._code_view[i] = 0
            elif self._kinds[i] is Physical.STR:
                words[i] = self._code(i, str(value))
        self._pack(self._bytes, 0, *words)

    def _code(self, i: int, text: str) -> int:
        """The string's code in the tables; in the program, if that looks at the column."""
        if self._table is None:
            if i in self._used:
                self._code_view[i] = self._dictionary.code(text)
            return 0
        code = self._strings.code(text)
        if i in self._used:
            self._code_view[i] = self._translation.one(code)
        return code

    def _text_word(self, i: int, encode: Encoder) -> Callable[[Any], Any]:
        """`_code` of a string that has come lately, by one dict; of others once it is encoded.

        What is no string at all is None, which has no word.
        """
        recent: dict[Any, tuple[int, int]] = {}
        code_view, used = self._code_view, i in self._used

        def word(value: Any) -> int | None:
            if type(value) is not str:
                return None
            codes = recent.get(value)
            if codes is None:
                code = self._code(i, str(encode(value)))
                if len(recent) >= _RECENT:
                    recent.clear()
                codes = recent[value] = code, code_view[i]
            elif used:
                code_view[i] = codes[1]
            return codes[0]

        return word

    def _put(self, table: StoredTable, weight: int) -> None:
        rows = table.rows
        try:
            status = FULL
            while status == FULL:
                status = self._put_row(rows.address, rows.facts, *self._columns, weight)
                if status == FULL:
                    rows.make_room()
            if status == WIDE:
                raise rows.too_wide()
            if status:
                table.check()
        except BaseException as error:
            rows.undo()
            raise table_refusal(error) from None
