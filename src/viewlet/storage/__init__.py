"""State in flat arrays: record pools, hash indexes, chains for slices, ordered indexes."""
