"""Shapes of machines, as their own tools print them."""
