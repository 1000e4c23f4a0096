"""Hypothesis on a busy machine: a slow example is no fault."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
