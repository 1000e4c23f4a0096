"""Kernels of one accelerator, for whoever asks."""
