"""One serving plan as lines of a terminal."""
