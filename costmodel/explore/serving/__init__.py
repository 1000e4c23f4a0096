"""Serving: search of layouts, size of fleets, remedies, scaling by rate, explanation of figures."""
