"""Compares serving predictions with measured runs of engines."""
