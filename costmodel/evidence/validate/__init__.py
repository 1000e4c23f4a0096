"""Validate."""
