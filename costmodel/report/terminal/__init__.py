"""Answers as lines of a terminal."""
