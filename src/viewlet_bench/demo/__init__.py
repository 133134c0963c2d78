"""`viewlet demo`: made-up trade that never stops, and views over it that stay current."""
