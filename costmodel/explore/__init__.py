"""Many plans: search, rank, explain."""
