"""Mixers, which exchange information between tokens: attention, latent attention, state-space layers."""
