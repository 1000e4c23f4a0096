"""Fits constants from measured kernels and from measured runs."""
