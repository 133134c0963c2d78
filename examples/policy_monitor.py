"""A monitor of payments: rules as views, violations as they happen, and as they are taken back.

    large    a payment of more than ten times the average of its account's payments
    busy     accounts whose payments in a day come to more than a third of their bank's
    unknown  payments of accounts that nobody has registered

The first two are nested aggregates, the third an anti-join. Payments arrive in batches; some are
reversed later, and registrations come late, so violations also go away. A dashboard would keep the
same three views; here every change is printed.

    python examples/policy_monitor.py [--batches 40]
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from decimal import Decimal

import viewlet

SQL = """
CREATE TABLE account (id INT PRIMARY KEY, bank VARCHAR NOT NULL);
CREATE TABLE payment (
    id INT PRIMARY KEY, account INT NOT NULL, day DATE NOT NULL, amount DECIMAL(12,2) NOT NULL);

CREATE MATERIALIZED VIEW large AS
SELECT p.id, p.account, p.amount FROM payment p
WHERE p.amount > 10 * (SELECT AVG(q.amount) FROM payment q WHERE q.account = p.account);

CREATE MATERIALIZED VIEW busy AS
SELECT p.account, p.day, SUM(p.amount) AS total
FROM payment p JOIN account a ON a.id = p.account
GROUP BY p.account, p.day, a.bank
HAVING 3 * SUM(p.amount) > (
    SELECT SUM(q.amount) FROM payment q JOIN account b ON b.id = q.account
    WHERE b.bank = a.bank AND q.day = p.day);

CREATE MATERIALIZED VIEW unknown AS
SELECT p.account, COUNT(*) AS payments FROM payment p
WHERE NOT EXISTS (SELECT 1 FROM account a WHERE a.id = p.account)
GROUP BY p.account;
"""

RULES = ("large", "busy", "unknown")


def main(batches: int = 40) -> Counter[tuple[str, str]]:
    """The number of violations that came and went, by rule."""
    db = viewlet.connect()
    db.execute(SQL)
    seen: Counter[tuple[str, str]] = Counter()

    def report(batch: viewlet.ViewBatch) -> None:
        for verb, rows in (("over", batch.deleted), ("now", batch.inserted)):
            seen.update((batch.view, verb) for _ in rows)
            for row in rows[:2]:
                shown = ", ".join(f"{k}={v}" for k, v in row._asdict().items())
                print(f"{batch.view:8} {verb:4} {shown}")

    for rule in RULES:
        db.subscribe(rule, report)
    rng = random.Random(5)
    accounts = list(range(1, 61))
    db.insert("account", [(n, f"bank {n % 4}") for n in accounts if n % 20])  # three come late
    history: list[tuple[int, int, str, Decimal]] = []
    for number in range(batches):
        day = f"2026-01-{1 + number // 10:02d}"
        fresh = []
        for at in range(25):
            cents = int(rng.lognormvariate(8, 0.8)) + (900_000 if rng.random() < 0.01 else 0)
            payment = (number * 25 + at, rng.choice(accounts), day, Decimal(cents) / 100)
            fresh.append(payment)
        changes = [viewlet.Change("payment", fresh)]
        if number % 5 == 4:  # reversals: the rows go, and so does what followed from them
            gone = [history.pop(rng.randrange(len(history))) for _ in range(10)]
            changes.append(viewlet.Change("payment", gone, -1))
        if number == batches // 2:
            changes.append(viewlet.Change("account", [(20, "bank 0"), (40, "bank 0")]))
        db.apply(changes)
        history += fresh
    print({rule: len(db.view(rule)) for rule in RULES}, "violations stand")
    db.close()
    return seen


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=40)
    main(parser.parse_args().batches)
