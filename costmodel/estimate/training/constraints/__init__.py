"""Constraints: which plans are valid, and the named reason for each refusal."""
