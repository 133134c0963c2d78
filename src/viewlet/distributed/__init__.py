"""Programme to distributed programme: where data lives and when it moves. Knows no Spark."""
