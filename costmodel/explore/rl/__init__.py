"""Questions about reinforcement learning that need more than one evaluation."""
