"""Calculus to trigger programs: the recursive viewlet transform (thesis chapter 3).

Read viewlets (the recursion), materialize (what to keep for a delta), maps (equal ones are one),
assemble (statement order), duplicates. Imports calculus and program.
"""
