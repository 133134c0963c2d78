"""State in flat arrays: maps, tables, indexes, and the native code that works on them."""
