"""Exporters: a plan as files that start a training, each of a named version and read back before it is written."""
