"""Equations of serving: engine steps, queues, KV cache pool, time to first token, cost."""
