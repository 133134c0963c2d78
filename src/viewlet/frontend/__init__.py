"""SQL text -> calculus. The only package that imports sqlglot.

Read in this order: statements (what a text consists of), parse and declare (text -> statements),
types and casts (typed scalars and their conversions), scope (names -> typed scalars), blocks
(products of factors under construction), scalar_functions and scalars (scalar expressions), joins
(FROM), nested (subqueries), setops, aggregates, select (clauses), lower (SELECT, views -> Query).
"""
