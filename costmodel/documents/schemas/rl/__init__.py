"""Reinforcement learning."""
