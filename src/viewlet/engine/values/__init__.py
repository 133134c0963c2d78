"""Values in and out: rows of any shape become batches of columns, and records become rows again."""
