"""What lines of a terminal share: layout, colours, bars, the head of an answer, progress."""
