"""Seconds: kernels, layers, stages, ranks, the step."""
