"""Tensor parallelism: traffic."""
