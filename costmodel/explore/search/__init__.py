"""Every plan of a space, ranked."""
