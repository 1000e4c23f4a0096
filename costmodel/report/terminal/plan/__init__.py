"""One training plan as lines of a terminal: step, memory, whole run."""
