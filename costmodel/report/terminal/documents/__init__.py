"""Documents, faults, imports and explanations as lines of a terminal."""
