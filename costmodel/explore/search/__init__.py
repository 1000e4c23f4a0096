"""Searches all plans of a training scenario, ranks them, and resumes; parts that searches of all workloads share."""
