"""Vary."""
