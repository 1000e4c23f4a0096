"""Equations of a layer: parameters, attention, experts, state-space layers, residual streams."""
