"""Faces: terminal and machine output."""
