"""Memory of a rank: states, activations, temporary buffers, logits, offload, and their breakdown."""
