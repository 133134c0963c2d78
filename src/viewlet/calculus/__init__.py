"""AGCA, the aggregate calculus (thesis 2.2): expressions whose values are weighted relations.

Read in this order: ring (what a value is), expr (the nodes), nodes (where all of a node is found),
scope (which variables a node needs and gives), text (print and parse), evaluate (the meaning), then
the rewrites: rewrite, simplify, factorize, domains, delta. Imports the base modules only.
"""

from viewlet.calculus import nodes as nodes
