"""Questions about serving that need more than one evaluation."""
