"""What a page shows of a scenario, computed before anything is drawn."""
