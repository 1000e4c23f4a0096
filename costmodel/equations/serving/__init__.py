"""Serving: what an inference engine holds, how long its steps take, how requests queue, what a token costs."""
