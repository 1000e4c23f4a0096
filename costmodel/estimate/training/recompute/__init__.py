"""Recompute."""
