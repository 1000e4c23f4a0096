"""Engines that serve models: their commands read and written by the rows of their options."""
