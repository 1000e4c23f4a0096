"""Training: time, memory, constraints, recompute, and a folder for each parallel strategy."""
