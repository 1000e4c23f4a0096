"""Serving: memory of an engine, its steps, the steady state of continuous batching, and what that costs."""
