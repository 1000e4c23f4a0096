"""Finds, reads and checks documents: a scenario with everything it names."""
