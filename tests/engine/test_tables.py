"""Tables refuse what cannot be done, and a refusal changes nothing."""

import pytest

from viewlet.calculus.ring import Gmr
from viewlet.engine.tables import Table, negated
from viewlet.errors import DataError
from viewlet.schema import DECIMAL, INTEGER, Column, Relation

PLAIN = Relation("r", (Column("a", INTEGER), Column("p", DECIMAL(8, 2))))
KEYED = Relation("k", (Column("id", INTEGER, False), Column("v", INTEGER)), key=("id",))


def test_a_bag_counts_copies() -> None:
    table = Table(PLAIN)
    table.apply(Gmr([((1, 150), 2)]))
    table.check(Gmr([((1, 150), -2)]))
    with pytest.raises(DataError, match=r"only 2 times"):
        table.check(Gmr([((1, 150), -3)]))


def test_a_missing_row_is_named_as_the_user_wrote_it() -> None:
    with pytest.raises(DataError, match=r"row \(a=None, p=Decimal\('1.50'\)\) is not there"):
        Table(PLAIN).check(Gmr([((None, 150), -1)]))


@pytest.mark.parametrize(
    "delta",
    [
        pytest.param([((1, 11), 1)], id="another row with the key"),
        pytest.param([((1, 10), 1)], id="the same row again"),
        pytest.param([((2, 20), 2)], id="one row twice"),
        pytest.param([((2, 20), 1), ((2, 21), 1)], id="two rows in one batch"),
    ],
)
def test_duplicate_keys(delta: list) -> None:
    table = Table(KEYED)
    table.apply(Gmr([((1, 10), 1)]))
    with pytest.raises(DataError, match=r"duplicate primary key \(id=[12]\) in table k"):
        table.check(Gmr(delta))
    assert table.rows == Gmr([((1, 10), 1)])


def test_a_key_may_move_to_a_new_row_in_one_batch() -> None:
    table = Table(KEYED)
    table.apply(Gmr([((1, 10), 1)]))
    update = Gmr([((1, 11), 1), ((1, 10), -1)])
    table.check(update)
    table.apply(update)
    assert table.rows == Gmr([((1, 11), 1)])
    table.apply(negated(update))
    with pytest.raises(DataError, match="duplicate"):
        table.check(Gmr([((1, 12), 1)]))
    table.check(Gmr([((1, 10), -1), ((1, 12), 1)]))
