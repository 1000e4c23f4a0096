"""Equations of a whole run: checkpoints, failures, cost, uncertainty, reinforcement learning."""
