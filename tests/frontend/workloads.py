"""Small random databases for the named workloads, made so that the queries' predicates are met."""

from __future__ import annotations

import datetime as dt
import itertools
import random
from decimal import Decimal
from typing import Any

from tests.frontend.oracle import SQL

from viewlet.schema import Catalog, Column, Kind, Relation

QUERIES = [
    (workload.name, path.stem)
    for workload in sorted(SQL.iterdir())
    for path in sorted(workload.glob("*.sql"), key=lambda p: (len(p.stem), p.stem))
    if path.stem != "schema" and workload.name != "job"
]
"""The named queries; those of the Join Order Benchmark are run by tests/bench/test_job.py."""

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
    # TPC-DS
    "d_year": [1998, 1999, 2000, 2000, 2002],
    "d_moy": [11, 11, 11, 5],
    "d_dom": [1, 2, 26, 15],
    "d_dow": [0, 1, 1, 6],
    "d_day_name": ["Sunday", "Monday", "Friday"],
    "i_manufact_id": [128, 128, 5],
    "i_manager_id": [1, 8, 28],
    "cd_gender": ["M"],
    "cd_marital_status": ["S"],
    "cd_education_status": ["College"],
    "p_channel_email": ["N", "Y"],
    "p_channel_event": ["N", "Y"],
    "s_state": ["TN"],
    "s_county": ["Williamson County"],
    "s_city": ["Midway", "Fairview"],
    "s_gmt_offset": [Decimal("-5.00")],
    "s_number_employees": [200, 250, 100],
    "s_zip": ["12345-1", "22222"],
    "ca_zip": ["12345-2", "33333"],
    "ca_city": ["Midway", "Oak", "Elm"],
    "hd_buy_potential": [">10000", "Unknown", "low"],
    "hd_dep_count": [4, 6, 4],
    "hd_vehicle_count": [3, 2, 0],
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

DIMENSIONS = 3
"""Rows of each table of TPC-DS but the facts and the items, which a big basket needs many of."""

BASKET = 16
"""Items of ticket 1, all bought at once: some queries ask for 15 to 20 on a ticket."""

Database = dict[str, list[tuple[Any, ...]]]


def random_rows(catalog: Catalog, seed: int, sizes: dict[str, int] = SIZES) -> Database:
    """Rows for every relation; declared keys are unique, nullable columns are NULL at times."""
    maker = random.Random(seed)
    if "store_sales" in catalog:
        sizes = {r.name: DIMENSIONS for r in catalog} | {"item": BASKET, "store_sales": 12}
    return {relation.name: _rows(relation, maker, sizes[relation.name]) for relation in catalog}


def _rows(relation: Relation, maker: random.Random, size: int) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    keys = _keys(relation, maker, size)
    for number in range(len(keys) if relation.key else size):
        row = []
        for column in relation.columns:
            if column.name in relation.key:
                row.append(keys[number][relation.key.index(column.name)])
            elif relation.name == "store_sales" and column.name.endswith("_sk"):
                basket = keys[number][1] == 1
                row.append(1 if basket else maker.choice([1, 2, 3, None]))
            else:
                row.append(_value(column, maker, number))
        rows.append(tuple(row))
    return rows


def _keys(relation: Relation, maker: random.Random, size: int) -> list[tuple[int, ...]]:
    if len(relation.key) == 1:
        return [(number,) for number in range(1, size + 1)]
    if relation.name == "store_sales":
        others = [(item, ticket) for item in range(1, 5) for ticket in (2, 3, 4)]
        return [(item, 1) for item in range(1, BASKET + 1)] + maker.sample(others, size)
    pairs = list(itertools.product(range(1, 8), repeat=len(relation.key)))
    return sorted(maker.sample(pairs, min(size, len(pairs))))


def _value(column: Column, maker: random.Random, number: int) -> Any:
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
    if name.endswith("_sk"):
        return maker.randint(1, DIMENSIONS)
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
    text = f"{name[:4]}{maker.randint(1, 3)}"
    return text[-(column.limit or len(text)) :]
