"""Questions that vary a scenario: sweep, scale, sensitivity, solve, and plans one choice away."""
