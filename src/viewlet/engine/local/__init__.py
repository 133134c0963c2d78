"""The engine in one process: tables and maps in flat arrays, triggers as native code."""
