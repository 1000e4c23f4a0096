"""Equations of unequal parts: stragglers, and layers or experts that do not divide evenly."""
