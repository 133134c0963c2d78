"""Small random databases for the named workloads, made so that the queries' predicates are met."""

from __future__ import annotations

import datetime as dt
import itertools
import random
from decimal import Decimal
from typing import Any

from viewlet.schema import Catalog, Column, Kind, Relation

NATIONS = ["FRANCE", "GERMANY", "BRAZIL", "CANADA", "SAUDI ARABIA", "INDIA"]
REGIONS = ["EUROPE", "ASIA", "AMERICA"]

POOLS: dict[str, list[Any]] = {
    # TPC-H
    "p_name": ["forest green", "green tea", "forest x", "plain"],
    "p_brand": ["Brand#12", "Brand#23", "Brand#23", "Brand#45"],
    "p_type": [
        "ECONOMY ANODIZED STEEL",
        "PROMO BRASS",
        "MEDIUM POLISHED BRASS",
        "LARGE BRASS",
    ],
    "p_size": [15, 3, 9, 14],
    "p_container": ["MED BOX", "SM BOX", "MED BOX"],
    "s_comment": ["x Customer y Complaints", "fine", "good"],
    "c_mktsegment": ["BUILDING", "BUILDING", "AUTO"],
    "c_phone": ["13-1", "31-2", "23-3", "13-4", "99-5"],
    "c_acctbal": [Decimal("-5.50"), Decimal("10.25"), Decimal("700.00"), Decimal("0.00")],
    "o_orderstatus": ["F", "F", "O"],
    "o_orderpriority": ["1-URGENT", "2-HIGH", "3-MEDIUM"],
    "o_comment": ["special x requests", "none", "calm"],
    "l_quantity": [Decimal(q) for q in ("1.00", "11.00", "12.00", "20.00", "150.00", "200.00")],
    "l_discount": [Decimal(d) for d in ("0.05", "0.06", "0.07", "0.00", "0.10")],
    "l_returnflag": ["R", "A", "N"],
    "l_linestatus": ["O", "F"],
    "l_shipmode": ["AIR", "AIR REG", "MAIL", "SHIP"],
    "l_shipinstruct": ["DELIVER IN PERSON", "DELIVER IN PERSON", "NONE"],
    "ps_availqty": [10, 100, 100],
}

DATES: dict[str, list[str]] = {
    "o_orderdate": ["1993-07-15", "1993-10-20", "1994-05-05", "1995-02-02", "1996-03-03"],
    "l_shipdate": ["1994-03-03", "1995-04-04", "1995-09-10", "1996-02-02", "1998-11-11"],
    "l_commitdate": ["1994-03-20", "1995-05-05", "1994-02-01"],
    "l_receiptdate": ["1994-04-01", "1994-08-08", "1996-01-01"],
}

SIZES = {
    "region": 3,
    "nation": 6,
    "supplier": 5,
    "part": 6,
    "partsupp": 12,
    "customer": 6,
    "orders": 10,
    "lineitem": 24,
    "bids": 10,
    "asks": 10,
}

Database = dict[str, list[tuple[Any, ...]]]


def random_rows(catalog: Catalog, seed: int, sizes: dict[str, int] = SIZES) -> Database:
    """Rows for every relation; declared keys are unique, nullable columns are NULL at times."""
    maker = random.Random(seed)
    return {relation.name: _rows(relation, maker, sizes[relation.name]) for relation in catalog}


def _rows(relation: Relation, maker: random.Random, size: int) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    keys = _keys(relation, maker, size)
    for number in range(len(keys) if relation.key else size):
        row = []
        for column in relation.columns:
            if column.name in relation.key:
                row.append(keys[number][relation.key.index(column.name)])
            else:
                row.append(_value(relation.name, column, maker, number))
        rows.append(tuple(row))
    return rows


def _keys(relation: Relation, maker: random.Random, size: int) -> list[tuple[int, ...]]:
    if len(relation.key) == 1:
        return [(number,) for number in range(1, size + 1)]
    pairs = list(itertools.product(range(1, 8), repeat=len(relation.key)))
    return sorted(maker.sample(pairs, min(size, len(pairs))))


def _value(relation: str, column: Column, maker: random.Random, number: int) -> Any:
    name, kind = column.name, column.type.kind
    if column.nullable and maker.random() < 0.15:
        return None
    if name in POOLS:
        return maker.choice(POOLS[name])
    if name == "n_name":
        return NATIONS[number % len(NATIONS)]
    if name == "r_name":
        return REGIONS[number % len(REGIONS)]
    if name.endswith("regionkey"):
        return maker.randint(1, 3)
    if kind in (Kind.INTEGER, Kind.BIGINT):
        return maker.randint(1, 6)
    if kind is Kind.DOUBLE:
        return float(maker.choice([1, 2.5, 1000, 1500.5, 3000, 20]))
    if kind is Kind.DECIMAL:
        return Decimal(maker.randint(-500, 5000)).scaleb(-column.type.scale)
    if kind is Kind.DATE:
        return dt.date.fromisoformat(maker.choice(DATES.get(name, ["1995-01-01", "1996-06-06"])))
    if kind is Kind.BOOLEAN:
        return maker.random() < 0.5
    return f"{name[:4]}{maker.randint(1, 3)}"
