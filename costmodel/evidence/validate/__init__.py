"""Compares predictions with measured runs."""
