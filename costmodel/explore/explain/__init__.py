"""Where a figure comes from, and what a word means."""
