"""The schemas of reinforcement learning."""
