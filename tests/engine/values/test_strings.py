"""The dictionary and its tables."""

from __future__ import annotations

import numpy as np
import pytest

from viewlet.calculus.text import parse_scalar
from viewlet.engine.values.strings import _FEW, Dictionary, TextTables
from viewlet.functions import evaluate
from viewlet.kernels.scalar_source import Lookup, Texts
from viewlet.schema import Physical

TEXTS = ["", "a%b", "a_b", "axb", "new\nline", "ab", "special x requests", "ÄÖ", "a\\b"]


@pytest.mark.parametrize(
    "pattern", ["a%", "%b", "a_b", "%special%requests%", "", "%", "_", "new_line", "a\\%b"]
)
@pytest.mark.parametrize("form", ["like(text, '{}')", "not(like(text, '{}'))"])
def test_many_likes_are_as_one(pattern: str, form: str) -> None:
    """Arrow matches many strings as the definition matches each."""
    scalar = parse_scalar(form.format(pattern))
    dictionary = Dictionary([*TEXTS, *(f"a{i}b" for i in range(_FEW))])
    tables = TextTables(Texts([Lookup(scalar, "text", Physical.BOOL)]), dictionary)
    assert tables.update()
    for code, text in enumerate(dictionary.strings):
        expected = evaluate(scalar, {"text": text})
        gap = bool(tables.tables[0].gaps[code])
        assert (None if gap else bool(tables.tables[0].values[code])) == expected


def test_large_arrays_get_the_same_codes() -> None:
    texts = np.array([*TEXTS, None] * 100, dtype=object)
    large, small = Dictionary(), Dictionary()
    codes = large.encode(texts)
    assert codes.tolist() == [small.code(text) for text in texts]
    assert large.decode(codes).tolist() == texts.tolist()
    more = np.array([*(f"new {i}" for i in range(300)), *TEXTS, None] * 2, dtype=object)
    assert large.encode(more).tolist() == [small.code(text) for text in more]
    assert large.strings == small.strings


def test_a_function_that_makes_new_strings_comes_to_an_end() -> None:
    scalar = parse_scalar("concat(text, 'x')")
    dictionary = Dictionary(["a"])
    tables = TextTables(Texts([Lookup(scalar, "text", Physical.STR)]), dictionary)
    for _ in range(5):
        tables.update()
    assert len(dictionary) < 8
    made = tables.tables[0].values[dictionary.code("a")]
    assert dictionary.strings[made] == "ax"


def test_ranks_follow_the_order_of_strings() -> None:
    dictionary = Dictionary(["b", "a"])
    tables = TextTables(Texts(ranks=True), dictionary)
    tables.update()
    dictionary.encode(["ab", "c"])
    tables.update()
    known = [text for text in dictionary.strings if text is not None]
    assert sorted(known) == sorted(known, key=lambda t: tables.ranks[dictionary.code(t)])


def test_a_string_that_a_function_made_first_is_looked_up_when_it_comes_itself() -> None:
    """SUBSTRING(x, 2) makes 'c' of 'abc' in two steps, one more than one function may take."""
    scalar = parse_scalar("substring(text, 2, 9)")
    for few in (True, False):
        dictionary = Dictionary()
        tables = TextTables(Texts([Lookup(scalar, "text", Physical.STR)]), dictionary)
        dictionary.encode(["abcd"])
        tables.update()
        others = [] if few else [f"{i}" for i in range(2 * _FEW)]
        dictionary.encode(["", "d", "cd", *others])
        tables.update()
        (table,) = tables.tables
        for text in ("abcd", "d", "cd", "", *others):
            code = dictionary.codes[text]
            assert dictionary.strings[table.values[code]] == text[1:]
            assert not table.gaps[code]


def test_functions_that_never_settle_come_to_an_end() -> None:
    scalar = parse_scalar("concat(text, 'x')")
    dictionary = Dictionary()
    tables = TextTables(Texts([Lookup(scalar, "text", Physical.STR)]), dictionary)
    for text in ("", "xx", "xxx", "xxxxx"):
        dictionary.encode([text])
        tables.update()
        code = dictionary.codes[text]
        assert dictionary.strings[tables.tables[0].values[code]] == f"{text}x"
    assert len(dictionary) < 10
