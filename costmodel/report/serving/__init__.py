"""Answers about serving, for people and for programs."""
