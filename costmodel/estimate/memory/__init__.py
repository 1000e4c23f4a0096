"""What each rank holds."""
