"""Reinforcement learning: an iteration that combines the training step and the serving engine."""
