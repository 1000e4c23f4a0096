"""Data parallel."""
