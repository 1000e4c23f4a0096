"""Predicts a training scenario: the step, the run around it, the error band and the limits."""
