"""The hardware that all workloads stand on: process groups, collective times, data types, prices."""
