"""The views of the demo, and the same questions for engines that compute them from all rows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Shown:
    """A view with a title, and what to ask DuckDB or Spark SQL for the same rows."""

    name: str
    title: str
    kind: str
    query: str
    recompute: str | None = None

    @property
    def statement(self) -> str:
        """The statement that creates the view."""
        return f"CREATE MATERIALIZED VIEW {self.name} AS {self.query}"

    @property
    def again(self) -> str:
        """The query that a rival runs for the same rows."""
        return self.recompute or self.query


VIEWS = (
    Shown(
        "revenue",
        "Revenue by segment",
        "join with aggregates",
        """
        SELECT c_mktsegment AS segment, COUNT(*) AS items,
               SUM(l_extendedprice * (1 - l_discount)) AS revenue
        FROM customer JOIN orders ON o_custkey = c_custkey
                      JOIN lineitem ON l_orderkey = o_orderkey
        GROUP BY c_mktsegment ORDER BY segment
        """,
    ),
    Shown(
        "top_customers",
        "Customers who spent most",
        "top-k",
        """
        SELECT c_name AS customer, SUM(l_extendedprice * (1 - l_discount)) AS spent
        FROM customer JOIN orders ON o_custkey = c_custkey
                      JOIN lineitem ON l_orderkey = o_orderkey
        GROUP BY c_custkey, c_name ORDER BY spent DESC, customer LIMIT 5
        """,
    ),
    Shown(
        "activity",
        "Orders and customers without any",
        "outer join",
        """
        SELECT c_mktsegment AS segment, COUNT(o_orderkey) AS orders,
               COUNT(*) - COUNT(o_orderkey) AS idle
        FROM customer LEFT JOIN orders ON o_custkey = c_custkey
        GROUP BY c_mktsegment ORDER BY segment
        """,
    ),
    Shown(
        "best_bids",
        "The best quarter of all bids, by volume",
        "nested aggregate",
        """
        SELECT COUNT(*) AS bids, SUM(b.volume) AS volume, SUM(b.price * b.volume) AS turnover
        FROM bids b
        WHERE 0.25 * (SELECT SUM(every.volume) FROM bids every)
            > (SELECT SUM(better.volume) FROM bids better WHERE better.price > b.price)
        """,
        # Both recompute it from scratch much faster with a window than as it is written above.
        """
        SELECT COUNT(*) AS bids, SUM(volume) AS volume, SUM(price * volume) AS turnover
        FROM (SELECT price, volume, SUM(volume) OVER () AS every,
                     SUM(volume) OVER (ORDER BY price DESC
                         RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS better
              FROM bids) b
        WHERE 0.25 * every > better
        """,
    ),
)
