"""Searches for the best plan: the search of training plans, and what searches of all workloads share."""
