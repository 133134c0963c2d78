"""Calculus to trigger programs: the recursive viewlet transform (thesis chapter 3), or view trees.

Read viewlets (the recursion), materialize (what to keep for a delta), maps (equal ones are one),
assemble (statement order), duplicates. For joins of many relations: join_graph, view_tree,
tree_maps; plan_choice, with plan_cost and statistics, decides. Imports calculus and program.
"""
