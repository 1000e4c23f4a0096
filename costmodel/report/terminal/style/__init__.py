"""Style."""
