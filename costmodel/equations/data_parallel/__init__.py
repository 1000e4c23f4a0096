"""Equations of data parallelism: batch size, gradient compression, synchronisation of replicas."""
