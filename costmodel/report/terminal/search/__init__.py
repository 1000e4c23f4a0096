"""Reasons against plans of a search as lines of a terminal."""
