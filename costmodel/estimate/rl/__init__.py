"""Reinforcement learning: the training step and the serving engine put together into an iteration."""
