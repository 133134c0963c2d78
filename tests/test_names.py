"""The allocator of names: nothing gets a name that something else has."""

from __future__ import annotations

import random

from viewlet.names import FreshNames


def test_the_plain_name_where_it_is_free() -> None:
    names = FreshNames(["m_s"])
    assert [names.fresh("m_r"), names.fresh("m_s"), names.fresh("m_s")] == ["m_r", "m_s_2", "m_s_3"]


def test_a_number_that_is_taken_is_left_out() -> None:
    names = FreshNames(["a_2", "t_1"])
    assert [names.fresh("a"), names.fresh("a")] == ["a", "a_3"]
    assert [names.numbered("t"), names.numbered("t")] == ["t_2", "t_3"]


def test_forms_of_a_name_are_given_together() -> None:
    names = FreshNames()
    forms = ("{}", "{}_null")
    assert names.fresh("a", forms) == "a"
    assert names.fresh("a_null", forms) == "a_null_2"
    assert FreshNames(["b_null"]).fresh("b", forms) == "b_2"


def test_scopes_side_by_side_may_use_one_name_and_scopes_in_each_other_may_not() -> None:
    module = FreshNames(["load"])
    first, second = module.inner(), module.inner()
    assert (first.numbered("x"), second.numbered("x")) == ("x_1", "x_1")
    assert first.fresh("load") == "load_2"
    assert module.fresh("x_1") == "x_1_2"
    assert first.inner().fresh("x_1") == "x_1_3"


def test_a_series_belongs_to_who_counts_in_it() -> None:
    module = FreshNames()
    module.reserve_series(["text"])
    scope = module.inner()
    assert not scope.take("text_0") and not scope.take("text_17")
    assert scope.numbered("text") == "text__1"
    assert scope.fresh("text") == "text"


def test_no_name_is_given_twice() -> None:
    """Scopes at random: what one can see never has the name of something else."""
    rng = random.Random(1)
    bases = ["a", "a_1", "a_1_null", "a_null", "b", "b_2", "b_2_2", "text_1", "text"]
    module = FreshNames(["b"])
    module.reserve_series(["text"])
    scopes: list[tuple[FreshNames, list[int]]] = [(module, [])]
    given: list[tuple[list[int], str]] = [([], "b")]
    for number in range(400):
        if number % 40 == 39:
            parent, path = rng.choice(scopes)
            scopes.append((parent.inner(), [*path, number]))
        scope, path = rng.choice(scopes)
        forms = rng.choice((("{}",), ("{}", "{}_null")))
        make = rng.choice((scope.fresh, scope.numbered))
        name = make(rng.choice(bases), forms)
        for made in (form.format(name) for form in forms):
            for other, known in given:
                shorter, longer = sorted((other, path), key=len)
                assert known != made or longer[: len(shorter)] != shorter
            assert not (made[:5] == "text_" and made[5:].isdigit())
            given.append((path, made))
