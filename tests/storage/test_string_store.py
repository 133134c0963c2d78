"""Strings as bytes: codes in the order of arrival, UTF-8 and nothing else."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from viewlet.engine.values.string_codes import StringCodes, form_of
from viewlet.errors import DataError
from viewlet.storage.string_store import StringStore, hash_bytes, is_utf8

_LEADS = (0x41, 0x7F, 0x80, 0xBF, 0xC1, 0xC2, 0xE0, 0xED, 0xA0, 0x9F, 0xF0, 0xF4, 0x8F, 0x90, 0xF5)


def test_utf8_is_what_python_reads() -> None:
    choose = random.Random(1)
    for _ in range(3000):
        data = bytes(choose.choice(_LEADS) for _ in range(choose.randint(0, 12)))
        held = np.frombuffer(data + b"\0", np.uint8)
        try:
            data.decode()
            expected = True
        except UnicodeDecodeError:
            expected = False
        assert bool(is_utf8(held.ctypes.data, len(data))) == expected, data


def _texts(seed: int, count: int) -> list[str]:
    choose = random.Random(seed)
    return [
        "".join(choose.choices("abé€😀", k=choose.choice((0, 1, 3, 5, 9, 40))))
        for _ in range(count)
    ]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_codes_are_given_in_the_order_of_arrival(kind: pa.DataType) -> None:
    """All forms of Arrow's strings, sliced, over several growths of the store."""
    texts = _texts(2, 5000)
    expected: dict[str, int] = {}
    codes = [expected.setdefault(text, len(expected) + 1) for text in texts]
    strings = StringCodes()
    values = pa.array(["not this", *texts, "nor this"], kind)[1:-1]
    target = np.empty(len(texts), np.int64)
    form = form_of(values)
    assert strings.read(values.buffers(), values.offset, len(values), 0, target, form) == -1
    assert target.tolist() == codes
    assert strings.texts(codes) == texts
    assert strings.decode(target).tolist() == texts
    assert [strings.code(text) for text in texts] == codes
    assert strings.encode([*texts, None]).tolist() == [*codes, 0]


FORMS = ("{:03d}", "{:04d}", "{:08d}", "user-{:04d}", "{:04d} is a number")


@pytest.mark.parametrize("form", FORMS)
def test_strings_that_differ_in_few_bytes_have_slots_of_their_own(form: str) -> None:
    slots = set()
    for number in range(1000):
        data = np.frombuffer(form.format(number).encode(), np.uint8)
        slots.add(hash_bytes(data.ctypes.data, len(data)) >> 32 & 1023)
    # Of 1000 random ones 638 are expected.
    assert len(slots) > 550


def test_long_strings_and_many() -> None:
    strings = StringCodes()
    texts = ["x" * 1_000_000, "", *(str(i) for i in range(20_000)), "y" * 3_000_000]
    codes = strings.encode(texts)
    assert codes.tolist() == list(range(1, len(texts) + 1))
    assert strings.decode(codes).tolist() == texts
    assert strings.code("y" * 3_000_000) == len(texts)


def test_null_is_0() -> None:
    strings = StringCodes()
    assert strings.code(None) == 0
    values = strings.encode(["a", None] * 50)
    assert values.tolist() == [1, 0] * 50
    assert strings.decode(values).tolist() == ["a", None] * 50
    assert len(StringStore()) == 1


def test_half_a_surrogate_pair_is_refused() -> None:
    strings = StringCodes()
    with pytest.raises(DataError, match="surrogate"):
        strings.code("a\udc80")
    assert len(strings) == 1
