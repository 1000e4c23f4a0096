"""Answers about reinforcement learning on the terminal."""
