"""What SQL becomes, to the letter: golden.txt holds queries and their calculus."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.frontend.oracle import lower_last, read_catalog

from viewlet.calculus.query_text import query_text

CATALOG = read_catalog(
    """
    CREATE TABLE r (a INT NOT NULL, b INT NOT NULL);
    CREATE TABLE s (b INT NOT NULL, c DECIMAL(6,2) NOT NULL);
    CREATE TABLE t (c INT, d INT);
    CREATE TABLE k (id INT PRIMARY KEY, name VARCHAR);
    """
)

PAIRS = [
    tuple(part.split("\n--\n"))
    for part in (Path(__file__).parent / "golden.txt").read_text().split("====\n")
]


@pytest.mark.parametrize(("sql", "expected"), PAIRS, ids=[sql for sql, _ in PAIRS])
def test_lowers_to(sql: str, expected: str) -> None:
    assert query_text(lower_last(f"CREATE VIEW v AS {sql}", CATALOG)) + "\n" == expected
