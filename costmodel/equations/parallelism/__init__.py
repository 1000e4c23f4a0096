"""Equations of a parallel layout: degrees, pipeline schedules, context parallelism, recompute."""
