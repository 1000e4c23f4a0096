"""Serving predictions held against measured runs of engines."""
