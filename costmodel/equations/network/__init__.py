"""Equations of the network: collectives, topology, overlap with compute."""
