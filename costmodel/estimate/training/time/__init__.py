"""Time of a training step: kernels, layers, stages, launch overhead."""
