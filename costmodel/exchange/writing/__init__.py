"""Writing."""
