"""SQL text -> calculus (DESIGN section 5). The only package that imports sqlglot.

Read in this order: statements (what a text consists of), parse (text -> statements), types (typed
scalars and their conversions), scope (names -> typed scalars), blocks (products of factors under
construction), scalars (scalar expressions), joins (FROM), nested (subqueries), setops, aggregates,
lower (SELECT and views -> Query).
"""
