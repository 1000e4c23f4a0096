"""Equations of memory: activations, KV cache, training states, offload."""
