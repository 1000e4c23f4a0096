"""What a page about a scenario shows, computed before anything is drawn."""
