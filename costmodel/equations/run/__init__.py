"""What surrounds the steps of a run: failures, checkpoints, stragglers, batch size, energy, reinforcement learning."""
