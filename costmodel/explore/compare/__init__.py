"""Two answers side by side, and an answer against its limits."""
