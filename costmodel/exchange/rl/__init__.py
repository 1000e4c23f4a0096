"""Configurations of software for reinforcement learning."""
