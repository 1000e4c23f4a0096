"""Data parallelism and sharded states: traffic and time."""
