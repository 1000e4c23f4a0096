"""Documents married to equations."""
