"""Which plans make sense, and the named reason why not."""
