"""The model that all workloads stand on: layers as one rank stores them, attention and its alternatives."""
