"""Distributed programs on stateful partitions, through PySpark."""
