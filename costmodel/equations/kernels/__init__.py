"""Equations of single kernels: FLOP, memory traffic, time under the roofline."""
