"""Closed-form cost model of distributed LLM jobs: time, memory, network, money."""

__version__ = "0.1.0"
