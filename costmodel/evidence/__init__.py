"""Measured evidence: measure, validate and calibrate."""
