"""Serving plans as commands of engines, read back before they are written."""
