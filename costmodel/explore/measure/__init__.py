"""Kernels of this machine, timed."""
