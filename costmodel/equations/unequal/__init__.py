"""Unequal."""
