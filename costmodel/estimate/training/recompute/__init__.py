"""Recompute: the repeated work, and the memory that it saves."""
