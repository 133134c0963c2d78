"""Stateful partitions on Spark: versioned, logged and checkpointed arrays. Knows no SQL."""
