"""The operators of a signal query, each a node of the plan with its columnar execution."""
