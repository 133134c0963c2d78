"""Calculus to trigger programmes: the recursive viewlet transform (thesis chapter 3).

Read viewlets (the recursion), materialize (what to keep for a delta), names, assemble (statement
order), preaggregate. Imports calculus and program.
"""
