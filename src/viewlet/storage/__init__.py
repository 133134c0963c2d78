"""State in flat arrays: columns, hash maps, indexes. Touches numpy and numba only."""
