"""Diagnoses a slow training step: causes that would explain a measured time, and terms of a profile."""
