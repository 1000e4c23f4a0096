"""Exporters: a plan of ours as files that people launch, each of a named version and read back before it is written."""
