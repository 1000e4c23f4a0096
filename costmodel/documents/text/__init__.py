"""Parses and edits YAML and JSON files; every value remembers its place in the file."""
