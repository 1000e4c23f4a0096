"""Formats that start a training: each read and written by the rows of its table, with code for what hangs together."""
