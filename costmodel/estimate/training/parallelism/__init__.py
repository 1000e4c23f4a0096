"""Parallel strategies of training: context, data, expert, pipeline and tensor parallelism."""
