"""Evaluates whole answers: a step, the run around it, its error band, limits."""
