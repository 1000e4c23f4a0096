"""The whole run around the steps: interruptions, checkpoints, goodput, energy, cost."""
