"""Many plans."""
