"""What training, serving and reinforcement learning share: assumptions, limits, reasons, batches of plans."""
